use super::*;
use crate::action::{ContainerQueuingLimit, KillReason};

/// A node that freezes its victims.
fn freezing(memory_mb: u64) -> Node {
    Node::with(
        ContainerSchedulerConfig {
            use_pause_for_preemption: true,
            ..CONFIG
        },
        memory_mb,
    )
}

/// One with container 1 frozen to make room for container 2, which takes the whole node of 100.
fn with_one_frozen() -> Node {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    assert!(
        node.arrive(guaranteed(2, 100))
            .contains(&Action::Pause(id(1)))
    );
    assert_eq!(launched(&node.feed(Event::Paused(id(1)))), [2]);
    node.feed(Event::Launched(id(2)));
    node
}

#[test]
fn a_victim_is_frozen_and_resumed_when_there_is_room_again() {
    let mut node = with_one_frozen();
    assert_eq!(node.state(1).rest_state(), "PAUSED");
    assert!(
        node.view(1)
            .diagnostics
            .ends_with("Paused to make room for Guaranteed Container\n")
    );
    assert_eq!(node.scheduler.paused_count(), 1);
    node.advance(500);
    let actions = node.exit(2, 0);
    let started = Note::Started {
        id: id(1),
        execution_type: ExecutionType::Opportunistic,
        queue_wait_ms: 500,
        resumed: true,
    };
    assert!(actions.contains(&Action::Note(started)), "{actions:?}");
    assert!(actions.contains(&Action::Resume(id(1))), "{actions:?}");
    node.feed(Event::Resumed(id(1)));
    assert_eq!(node.state(1).rest_state(), "RUNNING");
    assert_eq!(node.exit(1, 0), [Action::CleanUp(id(1))]);
    assert_eq!(node.completion(1).exit_status, ContainerExitStatus::SUCCESS);
}

#[test]
fn a_container_can_be_frozen_again_and_again() {
    let mut node = with_one_frozen();
    for number in 3..6 {
        node.exit(number - 1, 0);
        node.feed(Event::Resumed(id(1)));
        let actions = node.arrive(guaranteed(number, 100));
        assert!(actions.contains(&Action::Pause(id(1))), "{actions:?}");
        node.feed(Event::Paused(id(1)));
        node.feed(Event::Launched(id(number)));
    }
}

#[test]
fn frozen_containers_hold_no_room_and_count_as_queued() {
    let node = with_one_frozen();
    assert_eq!(node.scheduler.allocated(), Resource::new(100, 1));
    let status = node.scheduler.opportunistic_status();
    assert_eq!(status.running_opport_containers, 0);
    assert_eq!(
        (status.queued_opport_containers, status.wait_queue_length),
        (1, 1)
    );
}

#[test]
fn room_is_held_until_the_victim_is_frozen() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    assert_eq!(
        launched(&node.arrive(guaranteed(2, 100))),
        Vec::<i64>::new()
    );
    assert_eq!(node.scheduler.allocated(), Resource::new(60, 1));
}

#[test]
fn a_victim_that_cannot_be_frozen_is_killed_as_preempted() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    node.arrive(guaranteed(2, 100));
    assert_eq!(
        node.feed(Event::PauseFailed(id(1))),
        [Action::Terminate(id(1))]
    );
    let text = "Container preempted as there was  an exception in pausing it.\n";
    assert!(node.view(1).diagnostics.ends_with(text));
    assert_eq!(launched(&node.exit(1, 143)), [2]);
    assert_eq!(
        node.completion(1).exit_status,
        ContainerExitStatus::PREEMPTED
    );
}

#[test]
fn a_victim_that_cannot_be_thawed_is_killed_as_preempted() {
    let mut node = with_one_frozen();
    node.exit(2, 0);
    assert_eq!(
        node.feed(Event::PauseFailed(id(1))),
        [Action::Terminate(id(1))]
    );
    node.exit(1, 137);
    assert_eq!(
        node.completion(1).exit_status,
        ContainerExitStatus::PREEMPTED
    );
}

#[test]
fn a_victim_whose_launch_is_not_answered_is_killed_not_frozen() {
    let mut node = freezing(100);
    node.arrive(opportunistic(1, 60));
    assert!(
        node.arrive(guaranteed(2, 100))
            .contains(&Action::Terminate(id(1)))
    );
}

#[test]
fn a_container_that_is_being_thawed_can_be_frozen_at_once() {
    let mut node = with_one_frozen();
    node.exit(2, 0);
    assert!(
        node.arrive(guaranteed(3, 100))
            .contains(&Action::Pause(id(1)))
    );
    assert_eq!(node.feed(Event::Resumed(id(1))), []);
    assert_eq!(node.state(1), ContainerState::Pausing);
    assert_eq!(launched(&node.feed(Event::Paused(id(1)))), [3]);
}

#[test]
fn killing_a_frozen_container_gives_no_room_back_twice() {
    let mut node = with_one_frozen();
    let stop = Event::Kill {
        id: id(1),
        reason: KillReason::ApplicationMaster,
    };
    assert_eq!(node.feed(stop), [Action::Terminate(id(1))]);
    assert_eq!(node.waiting(), Vec::<i64>::new());
    node.exit(1, 143);
    assert_eq!(node.scheduler.allocated(), Resource::new(100, 1));
}

#[test]
fn frozen_containers_are_not_shed() {
    let mut node = with_one_frozen();
    node.arrive(opportunistic(3, 10));
    let limit = ContainerQueuingLimit {
        max_queue_length: Some(0),
        max_queue_wait_time_ms: None,
    };
    let actions = node.feed(Event::QueuingLimit(limit));
    assert_eq!(actions.last(), Some(&Action::CleanUp(id(3))));
    assert_eq!(node.waiting(), [1]);
}

#[test]
fn a_frozen_container_waits_behind_those_that_waited_already() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    node.arrive(opportunistic(2, 50));
    node.arrive(guaranteed(3, 90));
    node.feed(Event::Paused(id(1)));
    assert_eq!(node.waiting(), [2, 1]);
    let actions = node.exit(3, 0);
    assert_eq!(launched(&actions), [2]);
    assert_eq!(node.waiting(), [1]);
}

#[test]
fn a_process_may_end_while_it_is_being_frozen() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    node.arrive(guaranteed(2, 100));
    assert_eq!(launched(&node.exit(1, 0)), [2]);
    assert_eq!(node.feed(Event::Paused(id(1))), []);
    assert_eq!(node.completion(1).exit_status, ContainerExitStatus::SUCCESS);
}

#[test]
fn a_promoted_frozen_container_takes_room_from_those_that_run() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 40));
    node.run(opportunistic(2, 60));
    assert_eq!(evicted(&node.arrive(guaranteed(3, 60))), [2]);
    node.feed(Event::Paused(id(2)));
    let actions = node.feed(Event::Update(ContainerSpec {
        version: 1,
        ..guaranteed(2, 40)
    }));
    assert_eq!(evicted(&actions), [1]);
    let actions = node.feed(Event::Paused(id(1)));
    assert!(actions.contains(&Action::Resume(id(2))), "{actions:?}");
    assert_eq!(node.waiting(), [1]);
}
