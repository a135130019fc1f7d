//! Starts, failed starts and unexpected ends.

use super::*;

const LONG: u64 = 60_000;

#[test]
fn a_second_start_is_an_error_and_changes_nothing() {
    let mut service = Service::new();
    let containers = service.run(&["n1"]);
    let now = service.now();
    let history = &mut service.history;
    assert_eq!(
        history.on_container_started(containers[0], now, &mut service.actions),
        Err(OperationError::AlreadyStarted(containers[0]))
    );
    assert_eq!(
        history.on_container_started(id(99), now, &mut service.actions),
        Err(OperationError::UnknownContainer(id(99)))
    );
    assert_eq!(service.entry("n1").live(), 1);
    assert_eq!(service.status().started, 1);
}

#[test]
fn a_failed_start_is_counted_once_and_costs_the_node_its_place() {
    let mut service = Service::new();
    service.flex(STORE, 1);
    let containers = service.allocate(&["n1"]);
    service.done();
    let now = service.now();
    service
        .history
        .on_container_start_failed(containers[0], "no such image", now, &mut service.actions)
        .unwrap();
    // The replacement is not asked for on the node that could not start it.
    assert_eq!(service.done(), ["request 2: any"]);
    service.complete(containers[0], -1);
    assert!(service.done().is_empty());
    assert_eq!(service.history.ignored().unknown_completions, 0);
    let status = service.status();
    assert_eq!((status.failed, status.start_failed), (1, 1));
    assert_eq!(status.failure_message.as_deref(), Some("no such image"));
    assert_eq!(service.entry("n1").failed(), 1);
    assert!(service.ready().is_empty());
}

#[test]
fn a_failed_start_leaves_the_other_container_of_the_node_alone() {
    let mut service = Service::new();
    service.run(&["n1"]);
    service.flex(STORE, 2);
    let second = service.allocate(&["n1"]);
    let now = service.now();
    service
        .history
        .on_container_start_failed(second[0], "", now, &mut service.actions)
        .unwrap();
    assert_eq!(service.entry("n1").live(), 1);
    assert_eq!(service.status().actual, 1);
}

#[test]
fn a_crash_after_a_long_life_brings_the_role_back_to_the_same_node() {
    let mut service = Service::new();
    let containers = service.run(&["n1", "n2"]);
    service.pass(LONG);
    service.complete(containers[0], 1);
    assert_eq!(service.done(), ["request 3: n1"]);
    assert_eq!(service.entry("n1").failed_recently(), 1);
    assert_eq!(service.entry("n1").start_failed(), 0);
}

#[test]
fn a_crash_soon_after_the_start_does_not() {
    let mut service = Service::new();
    let containers = service.run(&["n1"]);
    service.pass(LONG - 1);
    service.complete(containers[0], 1);
    assert_eq!(service.done(), ["request 2: any"]);
    assert_eq!(service.entry("n1").start_failed(), 1);
    assert_eq!(service.entry("n1").last_used(), EpochMillis(0));
}

#[test]
fn preemption_and_eviction_are_no_failures() {
    for exit_status in [-102, -108] {
        let mut service = Service::new();
        let containers = service.run(&["n1"]);
        service.complete(containers[0], exit_status);
        let status = service.status();
        assert_eq!((status.failed, status.failed_recently), (0, 0));
        assert_eq!(status.preempted, 1);
        assert_eq!(service.entry("n1").failed_recently(), 0);
        assert_eq!(service.entry("n1").preempted(), 1);
        assert_eq!(service.done(), ["request 2: n1"], "{exit_status}");
    }
}

#[test]
fn an_exceeded_limit_is_the_applications_failure_and_not_the_nodes() {
    let mut service = Service::new();
    let containers = service.run(&["n1"]);
    service.pass(LONG);
    service.complete(containers[0], -104);
    assert_eq!(service.status().limits_exceeded, 1);
    assert_eq!(service.status().failed_recently, 1);
    assert_eq!(service.entry("n1").failed(), 0);
}

#[test]
fn a_node_failure_is_the_nodes_and_not_the_applications() {
    let mut service = Service::new();
    let containers = service.run(&["n1"]);
    service.pass(LONG);
    service.complete(containers[0], -101);
    let status = service.status();
    assert_eq!((status.failed, status.failed_recently), (1, 0));
    assert_eq!(status.node_failed, 1);
    assert_eq!(service.entry("n1").failed_recently(), 1);
}

#[test]
fn the_end_of_an_unknown_container_is_counted_and_changes_nothing() {
    let mut service = Service::new();
    service.run(&["n1"]);
    let before = service.status().clone();
    service.complete(id(99), 1);
    assert_eq!(service.status(), &before);
    assert_eq!(service.history.ignored().unknown_completions, 1);
}

#[test]
fn a_role_above_its_threshold_fails_the_application_and_asks_for_nothing_more() {
    let mut store = role(STORE, "store");
    store.node_failure_threshold = None;
    let mut service = Service::with(RoleHistoryConfig::default(), store);
    service.flex(STORE, 1);
    for failure in 1..=6 {
        let containers = service.allocate(&["n1"]);
        service.start(&containers);
        service.done();
        service.pass(LONG);
        service.complete(containers[0], 1);
        let done = service.done();
        if failure <= 5 {
            assert_eq!(done.len(), 1, "failure {failure}: {done:?}");
            assert!(done[0].starts_with("request"), "{done:?}");
        } else {
            assert_eq!(done, ["fail application: role 1 failed 6 times"]);
        }
    }
    service.flex(STORE, 5);
    assert!(service.done().is_empty());
}

#[test]
fn a_role_without_threshold_fails_for_ever() {
    let mut store = role(STORE, "store");
    store.container_failure_threshold = None;
    let mut service = Service::with(RoleHistoryConfig::default(), store);
    service.flex(STORE, 1);
    for _ in 0..50 {
        let containers = service.allocate(&["n1"]);
        service.complete(containers[0], 1);
        assert!(service.done().last().unwrap().starts_with("request"));
    }
}

#[test]
fn the_failure_window_resets_again_and_again() {
    let mut service = Service::new();
    let containers = service.run(&["n1"]);
    service.pass(LONG);
    service.complete(containers[0], 1);
    assert_eq!(service.status().failed_recently, 1);
    assert!(!service.status().failed_containers.is_empty());
    service.pass(21_600_000 - LONG);
    assert_eq!(
        service.history.next_deadline(),
        Some(MonoMillis(30_001 + LONG))
    );
    service.tick();
    let status = service.status();
    assert_eq!((status.failed, status.failed_recently), (1, 0));
    assert!(status.failed_containers.is_empty());
    assert_eq!(service.entry("n1").failed_recently(), 0);
    assert_eq!(service.entry("n1").failed(), 1);
    assert_eq!(
        service.history.next_deadline(),
        Some(MonoMillis(2 * 21_600_000))
    );
}

#[test]
fn the_blacklist_follows_unreliable_nodes_when_it_is_on() {
    let config = RoleHistoryConfig {
        blacklist: true,
        ..RoleHistoryConfig::default()
    };
    let mut store = role(STORE, "store");
    store.container_failure_threshold = None;
    let mut service = Service::with(config, store);
    service.flex(STORE, 1);
    let mut changes = Vec::new();
    for failure in 1..=5 {
        let containers = service.allocate(&["n1"]);
        service.complete(containers[0], 1);
        let done = service.done();
        let changed = done
            .into_iter()
            .filter(|line| line.starts_with("blacklist"));
        changes.extend(changed.map(|line| (failure, line)));
    }
    // At the threshold, 3, nothing changes.
    assert_eq!(changes, [(4, "blacklist +[n1] -[]".to_owned())]);
    service.pass(21_600_000);
    service.tick();
    assert!(service.done().contains(&"blacklist +[] -[n1]".to_owned()));
    let now = service.now();
    service.history.review(now, &mut service.actions);
    assert!(service.done().is_empty());
}

#[test]
fn starts_and_ends_are_saved_and_asks_and_releases_are_not() {
    let mut service = Service::new();
    service.flex(STORE, 1);
    let containers = service.allocate(&["n1"]);
    service.up(&["n1"]);
    assert!(!service.history.is_dirty());
    service.start(&containers);
    assert!(service.history.is_dirty());
    let snapshot = service.history.snapshot(service.now());
    service.history.set_saved(&snapshot);
    assert!(!service.history.is_dirty());
    service.history.submit_release(containers[0]).unwrap();
    assert!(!service.history.is_dirty());
    service.complete(containers[0], 0);
    assert!(service.history.is_dirty());
}

#[test]
fn a_change_during_a_write_is_still_unsaved_after_it() {
    let mut service = Service::new();
    let containers = service.run(&["n1"]);
    let snapshot = service.history.snapshot(service.now());
    service.complete(containers[0], 0);
    service.history.set_saved(&snapshot);
    assert!(service.history.is_dirty());
}

#[test]
fn a_node_that_lost_its_place_gets_it_back_when_another_container_ends_there() {
    let mut service = Service::new();
    let containers = service.run(&["n1", "n1"]);
    service.pass(LONG - 1);
    service.complete(containers[0], 1);
    assert_eq!(service.done(), ["request 3: any"]);
    service.allocate(&["n2"]);
    service.actions.clear();
    assert!(service.ready().is_empty());
    service.pass(1);
    service.complete(containers[1], 1);
    assert_eq!(service.done(), ["request 4: n1"]);
}

#[test]
fn a_container_that_ends_before_it_started_had_a_short_life() {
    let mut service = Service::new();
    service.flex(STORE, 1);
    let containers = service.allocate(&["n1"]);
    service.pass(10 * LONG);
    service.complete(containers[0], 1);
    assert_eq!(service.entry("n1").start_failed(), 1);
    assert_eq!(service.status().start_failed, 1);
    assert!(service.ready().is_empty());
}

#[test]
fn without_a_failure_window_failures_are_never_forgotten() {
    let config = RoleHistoryConfig {
        failure_window_ms: None,
        ..RoleHistoryConfig::default()
    };
    let mut service = Service::with(config, role(STORE, "store"));
    let containers = service.run(&["n1"]);
    service.pass(LONG);
    service.complete(containers[0], 1);
    service.allocate(&["n1"]);
    assert_eq!(service.history.next_deadline(), None);
    service.pass(u64::MAX / 4);
    service.tick();
    assert_eq!(service.status().failed_recently, 1);
    assert_eq!(service.entry("n1").failed_recently(), 1);
}

#[test]
fn what_waited_for_long_and_failed_soon_is_a_failed_start() {
    let last_use = |ran| {
        let mut service = Service::new();
        let containers = service.run(&["n1"]);
        service.pass(10 * LONG);
        service.complete_that_ran(containers[0], 1, ran);
        let entry = service.entry("n1");
        assert_eq!(entry.failed_recently(), 1, "{ran:?}");
        (entry.last_used().0 > 0, entry.start_failed())
    };
    assert_eq!(last_use(Ran::SinceStart), (true, 0));
    assert_eq!(last_use(Ran::For(LONG)), (true, 0));
    assert_eq!(last_use(Ran::For(LONG - 1)), (false, 1));
    assert_eq!(last_use(Ran::Unknown), (false, 1));
}

#[test]
fn a_good_end_makes_a_node_the_last_one_used_however_long_it_took() {
    for ran in [Ran::SinceStart, Ran::For(1), Ran::Unknown] {
        let mut service = Service::new();
        let containers = service.run(&["n1"]);
        service.complete_that_ran(containers[0], 0, ran);
        assert!(service.entry("n1").last_used().0 > 0, "{ran:?}");
    }
}

#[test]
fn roles_are_reviewed_in_the_order_of_their_ids() {
    let mut service = Service::new();
    service.flex(QUERY, 1);
    let query = service.allocate_for(QUERY, &["n1"]);
    let store = service.run(&["n1"]);
    service.start(&query);
    service.pass(LONG);
    service.actions.clear();
    let completed = |container| CompletedContainer {
        container,
        exit_status: ContainerExitStatus(1),
        diagnostics: String::new(),
        ran: Ran::SinceStart,
    };
    let now = service.now();
    service.history.on_containers_completed(
        vec![completed(query[0]), completed(store[0])],
        now,
        &mut service.actions,
    );
    let asked = service.actions.iter().filter_map(|action| {
        let Action::Request(ask) = action else {
            return None;
        };
        Some(ask.priority.role)
    });
    assert_eq!(asked.collect::<Vec<_>>(), [STORE, QUERY]);
}
