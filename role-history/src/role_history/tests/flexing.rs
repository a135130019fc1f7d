//! Growing, shrinking, releasing, tearing down.

use super::*;

#[test]
fn a_review_without_events_does_nothing() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 3);
    service.done();
    let now = service.now();
    service.history.review(now, &mut service.actions);
    service.flex(STORE, 3);
    assert!(service.done().is_empty());
}

#[test]
fn shrinking_cancels_open_asks_first_and_then_placed_ones() {
    let mut service = Service::new().thawed(&[("n1", 10), ("n2", 20)]);
    service.flex(STORE, 4);
    service.done();
    service.flex(STORE, 1);
    assert_eq!(
        service.done(),
        ["cancel 3: any", "cancel 4: any", "cancel 2: n2"]
    );
    assert_eq!(service.ready(), ["n2"]);
    assert!(!service.entry("n2").is_requested());
    assert_eq!(service.history.requested(STORE), 1);
}

#[test]
fn shrinking_releases_the_newest_containers_when_nothing_is_asked_for() {
    let mut service = Service::new();
    service.run(&["n1", "n2", "n3"]);
    service.flex(STORE, 1);
    assert_eq!(service.done(), ["release 3", "release 2"]);
    assert_eq!(service.status().releasing, 2);
    assert_eq!(service.entry("n3").active(), 0);
    assert_eq!(service.entry("n3").live(), 1);
}

#[test]
fn shrinking_empties_crowded_nodes_first() {
    let mut service = Service::new();
    service.run(&["n1", "n1", "n2"]);
    service.flex(STORE, 2);
    assert_eq!(service.done(), ["release 2"]);
}

#[test]
fn containers_that_are_being_released_are_not_released_again() {
    let mut service = Service::new();
    service.run(&["n1", "n2", "n3"]);
    service.flex(STORE, 2);
    service.done();
    let now = service.now();
    service.history.review(now, &mut service.actions);
    assert!(service.done().is_empty());
    service.flex(STORE, 1);
    assert_eq!(service.done(), ["release 2"]);
}

#[test]
fn a_role_that_shrinks_while_its_containers_start_releases_them_when_they_have_started() {
    let mut service = Service::new();
    service.flex(STORE, 2);
    let containers = service.allocate(&["n1", "n2"]);
    service.done();
    service.flex(STORE, 1);
    assert!(service.done().is_empty());
    assert_eq!(service.history.ignored().releases_without_candidate, 1);
    service.start(&containers);
    assert_eq!(service.done().len(), 1);
    assert_eq!(service.status().releasing, 1);
}

#[test]
fn a_completed_release_is_a_success_whatever_the_exit_code() {
    let mut service = Service::new();
    service.run(&["n1", "n2"]);
    service.flex(STORE, 1);
    service.done();
    service.pass(5_000);
    service.complete(id(2), 143);
    assert!(service.done().is_empty());
    let status = service.status();
    assert_eq!((status.actual, status.releasing), (1, 0));
    assert_eq!((status.completed, status.failed), (1, 0));
    assert_eq!(service.entry("n2").last_used(), EpochMillis(BEGIN + 5_000));
    assert_eq!(service.ready(), ["n2"]);
}

#[test]
fn growing_back_asks_for_the_node_that_was_released_last() {
    let mut service = Service::new();
    service.run(&["n1", "n2", "n3"]);
    service.flex(STORE, 1);
    service.pass(1_000);
    service.complete(id(3), 0);
    service.pass(1_000);
    service.complete(id(2), 0);
    service.done();
    service.flex(STORE, 3);
    assert_eq!(service.done(), ["request 4: n2", "request 5: n3"]);
}

#[test]
fn a_clock_that_is_set_back_does_not_reorder_uses() {
    let mut service = Service::new();
    service.run(&["n1", "n2"]);
    service.flex(STORE, 0);
    let end = |service: &mut Service, container, wall| {
        let completed = CompletedContainer {
            container,
            exit_status: ContainerExitStatus::SUCCESS,
            diagnostics: String::new(),
            ran: Ran::SinceStart,
        };
        let now = Now {
            mono: MonoMillis(1),
            wall: EpochMillis(wall),
        };
        service
            .history
            .on_containers_completed(vec![completed], now, &mut service.actions);
    };
    end(&mut service, id(1), BEGIN + 1_000);
    end(&mut service, id(2), BEGIN - 500_000);
    assert_eq!(service.entry("n2").last_used(), EpochMillis(BEGIN + 1_000));
}

#[test]
fn releasing_an_unknown_container_or_one_twice_is_an_error() {
    let mut service = Service::new();
    let containers = service.run(&["n1"]);
    assert_eq!(
        service.history.submit_release(id(99)),
        Err(OperationError::UnknownContainer(id(99)))
    );
    assert_eq!(service.history.submit_release(containers[0]), Ok(()));
    assert_eq!(
        service.history.submit_release(containers[0]),
        Err(OperationError::AlreadyReleasing(containers[0]))
    );
    assert_eq!(service.status().releasing, 1);
}

#[test]
fn a_container_released_before_it_started_leaves_no_start_behind() {
    let mut service = Service::new();
    service.flex(STORE, 1);
    let containers = service.allocate(&["n1"]);
    service.history.submit_release(containers[0]).unwrap();
    service.flex(STORE, 0);
    service.complete(containers[0], -100);
    let entry = service.entry("n1");
    assert_eq!(
        (entry.starting(), entry.live(), entry.releasing()),
        (0, 0, 0)
    );
    assert_eq!(service.status().actual, 0);
}

#[test]
fn an_unknown_role_cannot_be_flexed() {
    let mut service = Service::new();
    let unknown = RoleId::new(99).unwrap();
    let now = service.now();
    let flexed = service
        .history
        .set_desired(unknown, 1, now, &mut service.actions);
    assert_eq!(flexed, Err(OperationError::UnknownRole(unknown)));
}

#[test]
fn a_role_that_is_excluded_from_flexing_is_left_alone() {
    let mut service = Service::with_policy(PlacementPolicy::EXCLUDE_FROM_FLEXING);
    service.flex(STORE, 1);
    assert!(service.done().is_empty());
}

#[test]
fn tearing_down_saves_before_it_releases() {
    let mut service = Service::new();
    service.run(&["n1", "n2"]);
    service.flex(STORE, 3);
    service.done();
    service.history.tear_down(&mut service.actions);
    assert_eq!(
        service.done(),
        ["save", "cancel 3: any", "release 1", "release 2"]
    );
    let snapshot = service.history.snapshot(service.now());
    service.history.set_saved(&snapshot);
    service.complete(id(1), -105);
    assert!(
        !service.history.is_dirty(),
        "ends after a teardown are not saved"
    );
    service.allocate(&["n5"]);
    assert_eq!(service.done(), ["release 3"]);
}

#[test]
fn where_the_master_asks_itself_an_ended_container_is_not_replaced() {
    let config = RoleHistoryConfig {
        replaces_ended: false,
        ..RoleHistoryConfig::default()
    };
    let mut service = Service::with(config, role(STORE, "store"));
    let containers = service.run(&["n1", "n2"]);
    service.complete(containers[0], 1);
    assert!(service.done().is_empty());
    assert_eq!((service.status().desired, service.status().actual), (1, 1));
    assert_eq!(service.history.requested(STORE), 0);
}

#[test]
fn a_role_that_is_added_later_is_asked_for_like_the_others() {
    let mut service = Service::new();
    let added = RoleId::new(9).unwrap();
    let now = service.now();
    assert_eq!(
        service
            .history
            .set_desired(added, 1, now, &mut service.actions),
        Err(OperationError::UnknownRole(added))
    );
    service.history.add_role(role(added, "cache")).unwrap();
    service.flex(added, 1);
    assert_eq!(service.done(), ["request 1: any"]);
    assert!(service.history.add_role(role(added, "other")).is_err());
    assert!(
        service
            .history
            .add_role(role(RoleId::new(10).unwrap(), "cache"))
            .is_err()
    );
}
