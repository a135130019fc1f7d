//! Roles with at most one container per node.

use super::*;

/// Creates a service that asks for `at_once` containers at a time.
fn service(at_once: u32) -> Service {
    let config = RoleHistoryConfig {
        anti_affine_at_once: NonZeroU32::new(at_once).unwrap(),
        ..RoleHistoryConfig::default()
    };
    let mut store = role(STORE, "store");
    store.placement_policy = PlacementPolicy::ANTI_AFFINITY_REQUIRED;
    Service::with(config, store)
}

#[test]
fn nothing_is_asked_for_before_the_first_node_reports() {
    let mut service = service(1).thawed(&[("n1", 10)]);
    service.flex(STORE, 2);
    assert!(service.done().is_empty());
    assert_eq!(service.status().pending_anti_affine, 2);
    service.up(&["n1"]);
    assert_eq!(service.done(), ["request 1: n1"]);
    assert_eq!(service.status().pending_anti_affine, 1);
}

#[test]
fn an_empty_first_report_is_enough() {
    let mut service = service(1).thawed(&[("n1", 10)]);
    service.flex(STORE, 1);
    service.report(&[]);
    assert_eq!(service.done(), ["request 1: n1"]);
}

#[test]
fn one_at_a_time_each_ask_names_the_nodes_that_are_left() {
    let mut service = service(1);
    service.up(&["n3", "n1", "n2"]);
    service.flex(STORE, 3);
    assert_eq!(service.done(), ["request 1: n1 n2 n3"]);
    assert_eq!(service.history.requested(STORE), 1);
    assert_eq!(service.status().pending_anti_affine, 2);
    service.allocate(&["n2"]);
    assert_eq!(
        service.done(),
        [
            "satisfied 1 by 1",
            "assign 1 on n2 Open",
            "request 2: n1 n3"
        ]
    );
    service.allocate(&["n1"]);
    service.allocate(&["n3"]);
    assert_eq!(
        service.done(),
        [
            "satisfied 2 by 2",
            "assign 2 on n1 Open",
            "request 3: n3",
            "satisfied 3 by 3",
            "assign 3 on n3 Open"
        ]
    );
    assert_eq!(service.status().pending_anti_affine, 0);
}

#[test]
fn several_at_once_are_one_ask_that_shrinks() {
    let mut service = service(10);
    service.up(&["n1", "n2", "n3", "n4"]);
    service.flex(STORE, 3);
    assert_eq!(service.done(), ["request 1: 3 of n1 n2 n3 n4"]);
    service.allocate(&["n2", "n4"]);
    assert_eq!(
        service.done(),
        [
            "satisfied 1 by 1, 2 remain",
            "assign 1 on n2 Open",
            "satisfied 1 by 2, 1 remain",
            "assign 2 on n4 Open"
        ]
    );
    let asks: Vec<_> = service.history.outstanding().map(|o| o.0).collect();
    assert_eq!(line(&Action::Request(asks[0].clone())), "request 1: n1 n3");
}

#[test]
fn with_fewer_nodes_than_containers_the_rest_is_pending() {
    let mut service = service(10);
    service.up(&["n1", "n2"]);
    service.flex(STORE, 5);
    assert_eq!(service.done(), ["request 1: 2 of n1 n2"]);
    assert_eq!(service.status().pending_anti_affine, 3);
    service.allocate(&["n1", "n2"]);
    service.done();
    assert_eq!(service.status().pending_anti_affine, 3);
    assert_eq!(service.history.requested(STORE), 0);
    // A node joins.
    service.up(&["n3"]);
    assert_eq!(service.done(), ["request 2: n3"]);
}

#[test]
fn a_node_event_replaces_the_ask_in_flight() {
    let mut service = service(1);
    service.up(&["n1"]);
    service.flex(STORE, 1);
    service.done();
    service.up(&["n1"]);
    assert!(service.done().is_empty(), "a repetition changes nothing");
    service.up(&["n2"]);
    assert_eq!(service.done(), ["cancel 1: n1", "request 2: n1 n2"]);
}

#[test]
fn a_lost_candidate_is_withdrawn_at_once() {
    let mut service = service(1);
    service.up(&["n1", "n2"]);
    service.flex(STORE, 1);
    service.done();
    service.report(&[("n1", NodeState::Lost, "")]);
    assert_eq!(service.done(), ["cancel 1: n1 n2", "request 2: n2"]);
    service.report(&[("n2", NodeState::Lost, "")]);
    assert_eq!(service.done(), ["cancel 2: n2"]);
    assert_eq!(service.status().pending_anti_affine, 1);
    service.up(&["n2"]);
    assert_eq!(service.done(), ["request 3: n2"]);
}

#[test]
fn a_waiting_role_resumes_when_a_node_gets_its_label() {
    let mut store = role(STORE, "store");
    store.placement_policy = PlacementPolicy::ANTI_AFFINITY_REQUIRED;
    store.label = Some("ssd".into());
    let mut service = Service::with(RoleHistoryConfig::default(), store);
    service.up(&["n1"]);
    service.flex(STORE, 1);
    assert!(service.done().is_empty());
    service.report(&[("n1", NodeState::Running, "ssd")]);
    assert_eq!(service.done(), ["request 1: n1"]);
}

#[test]
fn growing_during_a_sequence_only_raises_what_is_pending() {
    let mut service = service(1);
    service.up(&["n1", "n2", "n3"]);
    service.flex(STORE, 1);
    service.done();
    service.flex(STORE, 3);
    assert!(service.done().is_empty());
    assert_eq!(service.status().pending_anti_affine, 2);
}

#[test]
fn shrinking_lowers_what_is_pending_before_it_cancels() {
    let mut service = service(1);
    service.up(&["n1", "n2", "n3"]);
    service.flex(STORE, 3);
    service.done();
    service.flex(STORE, 1);
    assert!(service.done().is_empty());
    assert_eq!(service.status().pending_anti_affine, 0);
    service.flex(STORE, 0);
    assert_eq!(service.done(), ["cancel 1: n1 n2 n3"]);
    assert_eq!(service.history.requested(STORE), 0);
}

#[test]
fn shrinking_lowers_the_count_of_the_ask_in_flight() {
    let mut service = service(10);
    service.up(&["n1", "n2", "n3"]);
    service.flex(STORE, 3);
    service.done();
    service.flex(STORE, 1);
    assert_eq!(
        service.done(),
        ["cancel 1: 3 of n1 n2 n3", "request 2: n1 n2 n3"]
    );
}

#[test]
fn failures_and_last_uses_do_not_count_for_anti_affine_roles() {
    let mut service = service(1).thawed(&[("n2", 10), ("n1", 20)]);
    service.up(&[]);
    let node = service.history.nodes.find("n1").unwrap();
    for _ in 0..9 {
        service.history.nodes.update(node, STORE, |entry| {
            entry.add(crate::node_entry::Phase::Live);
            let (failed, at) = (crate::ContainerOutcome::Failed, entry.last_used());
            entry.complete(crate::node_entry::Phase::Live, failed, true, at);
        });
    }
    service.flex(STORE, 1);
    assert_eq!(service.done(), ["request 1: n1 n2"]);
}

#[test]
fn an_ended_container_makes_its_node_a_candidate_again() {
    let mut service = service(1);
    service.up(&["n1"]);
    service.flex(STORE, 2);
    let containers = service.allocate(&["n1"]);
    service.start(&containers);
    service.done();
    service.complete(containers[0], 1);
    assert_eq!(service.done(), ["request 2: n1"]);
    assert_eq!(service.status().pending_anti_affine, 1);
}

#[test]
fn an_unexplained_container_takes_its_node_out_of_the_ask_in_flight() {
    let mut service = service(1);
    service.up(&["n1", "n2", "n3"]);
    service.flex(STORE, 2);
    service.done();
    let small = AllocatedContainer {
        container: id(7),
        host: "n2".to_owned(),
        asked_by: AskedBy::Role(STORE),
        resource: Resource::new(1, 1),
    };
    let now = service.now();
    service
        .history
        .on_containers_allocated(vec![small], now, &mut service.actions);
    assert_eq!(
        service.done(),
        [
            "cancel 1: n1 n2 n3",
            "assign 7 on n2 Unallocated",
            "request 2: n1 n3"
        ]
    );
}

#[test]
fn a_surplus_answer_does_not_stall_the_role() {
    let mut service = service(1);
    service.up(&["n1", "n2"]);
    service.flex(STORE, 1);
    service.allocate(&["n1", "n2"]);
    service.done();
    service.flex(STORE, 2);
    assert_eq!(service.done(), ["request 2: n2"]);
}

#[test]
fn after_a_restart_live_containers_count_and_asks_wait_for_the_nodes() {
    let mut service = service(1).thawed(&[("n1", 10), ("n2", 20)]);
    let live = LiveContainer {
        container: id(1),
        host: "n1".to_owned(),
        role: STORE,
    };
    let now = service.now();
    service
        .history
        .replay_live([live], now, &mut service.actions);
    service.flex(STORE, 2);
    assert!(service.done().is_empty());
    assert_eq!(service.status().actual, 1);
    assert_eq!(service.status().pending_anti_affine, 1);
    service.up(&["n1", "n2", "n3"]);
    assert_eq!(service.done(), ["request 1: n2 n3"]);
}

#[test]
fn a_container_that_breaks_anti_affinity_is_accepted_and_not_released() {
    let mut service = service(1);
    service.up(&["n1", "n2"]);
    service.flex(STORE, 2);
    let first = service.allocate(&["n1"]);
    service.start(&first);
    service.actions.clear();
    // An allocation by another path: the ask in flight names n2 only.
    service.allocate(&["n1"]);
    let done = service.done();
    assert!(done.contains(&"assign 2 on n1 Open".to_owned()), "{done:?}");
    assert!(
        !done.iter().any(|line| line.starts_with("release")),
        "{done:?}"
    );
    assert!(!service.entry("n1").is_anti_affine());
}
