//! Placed asks that are not answered in time.

use super::*;

#[test]
fn an_ask_is_relaxed_after_its_timeout_and_not_at_it() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 1);
    service.done();
    let due = service.history.next_deadline();
    assert_eq!(due, Some(MonoMillis(30_001)));
    service.pass(30_000);
    service.tick();
    assert!(service.done().is_empty());
    service.pass(1);
    service.tick();
    assert_eq!(service.done(), ["escalate 1: n1 to 1: n1 or any"]);
    assert_eq!(service.history.requested(STORE), 1);
}

#[test]
fn an_ask_is_relaxed_once() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 1);
    service.pass(40_000);
    service.tick();
    service.done();
    service.pass(400_000);
    service.tick();
    assert!(service.done().is_empty());
}

#[test]
fn a_labelled_ask_gives_up_its_host_and_keeps_its_label() {
    let mut store = role(STORE, "store");
    store.label = Some("ssd".into());
    let mut service = Service::with(RoleHistoryConfig::default(), store).thawed(&[("n1", 10)]);
    service.flex(STORE, 1);
    service.done();
    service.pass(30_001);
    service.tick();
    assert_eq!(service.done(), ["escalate 1: n1 to 1: any labelled ssd"]);
}

#[test]
fn strict_open_and_anti_affine_asks_are_never_relaxed() {
    for policy in [
        PlacementPolicy::STRICT,
        PlacementPolicy::ANYWHERE,
        PlacementPolicy::ANTI_AFFINITY_REQUIRED,
    ] {
        let mut service = Service::with_policy(policy).thawed(&[("n1", 10)]);
        service.up(&["n1"]);
        service.flex(STORE, 1);
        service.done();
        service.pass(1_000_000);
        service.tick();
        assert!(service.done().is_empty(), "{policy:?}");
    }
}

#[test]
fn each_role_has_its_own_timeout() {
    let mut store = role(STORE, "store");
    store.placement_timeout_ms = 5_000;
    let mut service = Service::with(RoleHistoryConfig::default(), store).thawed(&[("n1", 10)]);
    service.flex(STORE, 1);
    service.done();
    service.pass(5_001);
    service.tick();
    assert_eq!(service.done().len(), 1);
}

#[test]
fn a_relaxed_ask_that_another_node_answers_is_escalated() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 1);
    service.pass(30_001);
    service.tick();
    service.done();
    service.allocate(&["n9"]);
    assert_eq!(
        service.done(),
        ["satisfied 1 by 1", "assign 1 on n9 Escalated"]
    );
    assert!(!service.entry("n1").is_requested());
}

#[test]
fn the_node_of_a_relaxed_ask_is_listed_again_once_the_role_has_all_its_containers() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 2);
    service.pass(30_001);
    service.tick();
    service.allocate(&["n8"]);
    service.allocate(&["n9"]);
    assert_eq!(service.ready(), ["n1"]);
}

#[test]
fn until_then_the_next_ask_does_not_go_to_the_node_that_was_too_slow() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 1);
    service.pass(30_001);
    service.tick();
    service.flex(STORE, 2);
    // Answers the relaxed ask; the other one is still open.
    service.actions.clear();
    let now = service.now();
    let escalated = AllocatedContainer {
        container: id(50),
        host: "n9".to_owned(),
        asked_by: AskedBy::Role(STORE),
        resource: SIZE,
    };
    service
        .history
        .on_containers_allocated(vec![escalated], now, &mut service.actions);
    assert!(service.ready().is_empty());
    service.flex(STORE, 3);
    assert!(service.done().contains(&"request 3: any".to_owned()));
}

#[test]
fn an_ask_for_a_node_that_is_lost_is_relaxed_at_once() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.up(&["n1"]);
    service.flex(STORE, 1);
    service.done();
    service.report(&[("n1", NodeState::Lost, "")]);
    assert_eq!(service.done(), ["escalate 1: n1 to 1: n1 or any"]);
}

#[test]
fn a_strict_ask_for_a_node_that_is_lost_stays() {
    let mut service = Service::with_policy(PlacementPolicy::STRICT).thawed(&[("n1", 10)]);
    service.up(&["n1"]);
    service.flex(STORE, 1);
    service.done();
    service.report(&[("n1", NodeState::Lost, "")]);
    assert!(service.done().is_empty());
}
