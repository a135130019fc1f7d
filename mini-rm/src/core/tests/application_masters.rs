//! AMs that fail and are started again, and the fate of their containers.

use super::*;

impl World {
    /// Returns the application's state and the number of its current attempt.
    fn state(&self, application: ApplicationId) -> (ApplicationState, i32) {
        let application = self.core.application(application).unwrap();
        (application.state, application.attempt().id.attempt_id)
    }

    /// Reports that the AM's container has ended.
    fn end_master(&mut self, attempt: ApplicationAttemptId, response_id: i32, exit_status: i32) {
        let master = self.master_of(attempt);
        self.heartbeat(
            &node(1),
            response_id,
            vec![status(master, Some(exit_status))],
        );
    }
}

#[test]
fn a_master_is_tried_as_often_as_configured_and_no_more_than_submitted() {
    for (configured, submitted, tries) in [("3", 0, 3), ("3", 2, 2), ("2", 5, 2)] {
        let mut world = World::new(&[("yarn.resourcemanager.am.max-attempts", configured)]);
        world.register(&node(1), 4, Vec::new());
        let application = world
            .try_submit(|submission| submission.max_app_attempts = Some(submitted))
            .unwrap();
        for number in 1..=tries {
            let attempt = world.start_master();
            assert_eq!(attempt.attempt_id, number);
            assert_eq!(
                world.state(application),
                (ApplicationState::Running, number)
            );
            world.end_master(attempt, number - 1, 1);
        }
        assert_eq!(world.state(application), (ApplicationState::Failed, tries));
        assert!(world.core.take_effects().is_empty());
    }
}

#[test]
fn exits_that_are_not_the_masters_fault_do_not_count() {
    let mut world = World::new(&[("yarn.resourcemanager.am.max-attempts", "1")]);
    world.register(&node(1), 4, Vec::new());
    let application = world.submit();
    for (number, exit_status) in (1..).zip([-100, -101, -102, -106]) {
        let attempt = world.start_master();
        world.end_master(attempt, number - 1, exit_status);
        assert_eq!(
            world.state(application),
            (ApplicationState::Accepted, number + 1)
        );
    }
    let attempt = world.start_master();
    world.end_master(attempt, 4, 137);
    assert_eq!(world.state(application).0, ApplicationState::Failed);
}

#[test]
fn the_next_attempt_begins_with_nothing_of_the_last() {
    let (mut world, first) = World::with_master(4, &[]);
    let containers = ids(&world.ask(first, 2, ExecutionType::Guaranteed));
    let unheard = status(containers[0], Some(7));
    world.heartbeat(&node(1), 0, vec![unheard]);
    let master = world.master_of(first);
    let answer = world.heartbeat(&node(1), 1, vec![status(master, Some(1))]);
    assert_eq!(answer.containers_to_cleanup, [containers[1].into()]);
    let forgotten = answer.containers_to_be_removed_from_nm;
    assert_eq!(forgotten, [master.into(), containers[0].into()]);
    assert!(answer.applications_to_cleanup.is_empty(), "it goes on");
    let second = world.start_master();
    assert_eq!(second.attempt_id, 2);
    assert_eq!(world.master_of(second).id, 1);
    let answer = world.allocate(second, AllocateRequestProto::default());
    assert!(answer.completed_container_statuses.is_empty());
    assert_eq!(world.core.free_resources().memory_mb, 3 * SLOT_MB);
}

#[test]
fn the_last_attempts_master_is_a_stranger() {
    let (mut world, first) = World::with_master(4, &[]);
    world.end_master(first, 0, 1);
    world.start_master();
    let call = AllocateRequestProto::default();
    assert_eq!(
        world.try_allocate(first, &call),
        Err(Refusal::UnknownAttempt(first))
    );
    let finish = FinishApplicationMasterRequestProto::default();
    let refusal = world.core.finish_master(first, &finish, world.now);
    assert_eq!(refusal, Err(Refusal::UnknownAttempt(first)));
}

#[test]
fn a_master_that_was_launched_and_never_registered_is_tried_again() {
    let mut world = World::new(&[("yarn.am.liveness-monitor.expiry-interval-ms", "1000")]);
    world.register(&node(1), 4, Vec::new());
    let application = world.submit();
    let (first, _) = world.take_launch();
    world.core.master_launched(first, Ok(()), world.now);
    world.pass(1_001);
    let answer = world.heartbeat(&node(1), 0, Vec::new());
    let killed = first.container(1);
    assert_eq!(answer.containers_to_cleanup, [killed.into()]);
    assert_eq!(world.state(application), (ApplicationState::Accepted, 2));
}

/// Returns a world of one node with capacity for an AM and one more container, which the AM has
/// fetched; that container expires after a second unless started.
fn one_allocated_that_expires() -> (World, ApplicationAttemptId, ContainerId) {
    let (mut world, attempt) = World::with_master(
        2,
        &[(
            "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms",
            "1000",
        )],
    );
    let first = ids(&world.ask(attempt, 1, ExecutionType::Guaranteed))[0];
    (world, attempt, first)
}

#[test]
fn a_container_that_its_master_has_not_fetched_does_not_expire() {
    let (mut world, attempt, first) = one_allocated_that_expires();
    assert!(ids(&world.ask(attempt, 1, ExecutionType::Guaranteed)).is_empty());
    // There is capacity now, but the AM has not fetched the container.
    world.heartbeat(&node(1), 0, vec![status(first, Some(0))]);
    world.pass(5_000);
    let answer = world.allocate(attempt, AllocateRequestProto::default());
    assert_eq!(answer.allocated_containers.len(), 1);
    world.pass(1_001);
    let answer = world.allocate(attempt, AllocateRequestProto::default());
    assert_eq!(answer.completed_container_statuses[0].exit_status(), -100);
}

#[test]
fn an_expired_containers_room_goes_to_the_next_and_its_node_is_told() {
    let (mut world, attempt, first) = one_allocated_that_expires();
    world.ask(attempt, 1, ExecutionType::Guaranteed);
    world.pass(1_001);
    let answer = world.allocate(attempt, AllocateRequestProto::default());
    assert_eq!(answer.allocated_containers.len(), 1);
    assert_eq!(answer.completed_container_statuses.len(), 1);
    // Started too late.
    let answer = world.heartbeat(&node(1), 0, vec![status(first, None)]);
    assert_eq!(answer.containers_to_cleanup, [first.into()]);
    let ended = || vec![status(first, Some(143))];
    world.heartbeat(&node(1), 1, ended());
    let answer = world.allocate(attempt, AllocateRequestProto::default());
    assert!(
        answer.completed_container_statuses.is_empty(),
        "it was sent before"
    );
    let answer = world.heartbeat(&node(1), 2, ended());
    assert_eq!(answer.containers_to_be_removed_from_nm, [first.into()]);
}

#[test]
fn ids_stand_in_the_epoch_that_is_configured() {
    let (mut world, attempt) = World::with_master(4, &[("yarn.resourcemanager.epoch", "7")]);
    let container = ids(&world.ask(attempt, 1, ExecutionType::Guaranteed))[0];
    assert_eq!(world.master_of(attempt).id, (7 << 40) + 1);
    assert_eq!(container.id, (7 << 40) + 2);
    let text = container.to_string();
    assert!(text.starts_with("container_e07_"), "{text}");
    assert_eq!(text.parse(), Ok(container.name()));
}
