//! Attempts that fail, and what follows them.

use super::*;

#[test]
fn a_master_waits_for_a_node_and_is_retried_when_it_does_not_start() {
    let mut world = World::new(&[]);
    let application = world.submit();
    assert!(world.core.take_effects().is_empty());
    world.register(&node(1), 1, Vec::new());
    world.pass(1);
    for number in [1, 2] {
        let (attempt, _) = world.take_launch();
        assert_eq!(attempt.attempt_id, number);
        world
            .core
            .master_launched(attempt, Err("no".to_owned()), world.now);
    }
    let application = world.core.application(application).unwrap();
    assert_eq!(application.state, ApplicationState::Failed);
    assert!(
        application.diagnostics.contains("no"),
        "{}",
        application.diagnostics
    );
}

#[test]
fn a_lost_nodes_master_is_started_elsewhere_and_the_failure_is_not_its_own() {
    let (mut world, first) =
        World::with_master(4, &[("yarn.resourcemanager.am.max-attempts", "1")]);
    world.pass(400_000);
    world.register(&node(2), 4, Vec::new());
    world.pass(300_000);
    let (second, place) = world.take_launch();
    assert_eq!((second.attempt_id, place), (first.attempt_id + 1, node(2)));
    assert_eq!(world.core.count_nodes(NodeState::Lost), 1);
    let refusal = world.try_allocate(first, &AllocateRequestProto::default());
    assert_eq!(refusal, Err(Refusal::UnknownAttempt(first)));
    assert_eq!(
        world.heartbeat(&node(1), 0, Vec::new()).node_action(),
        NodeActionProto::Resync
    );
}

#[test]
fn a_silent_master_has_failed() {
    let (mut world, attempt) = World::with_master(
        4,
        &[
            ("yarn.resourcemanager.am.max-attempts", "1"),
            ("yarn.am.liveness-monitor.expiry-interval-ms", "1000"),
        ],
    );
    let application = attempt.application_id;
    world.pass(1_001);
    let application = world.core.application(application).unwrap();
    assert_eq!(application.state, ApplicationState::Failed);
}
