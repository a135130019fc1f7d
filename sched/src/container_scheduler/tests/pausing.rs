use super::*;
use crate::action::{ContainerQueuingLimit, KillReason, PauseEnd};

/// Creates a node that freezes its victims.
fn freezing(memory_mb: u64) -> Node {
    Node::with(
        ContainerSchedulerConfig {
            use_pause_for_preemption: true,
            ..CONFIG
        },
        memory_mb,
    )
}

/// Creates a node on which container 1 is frozen to make room for container 2, which takes the
/// whole node of 100.
fn with_one_frozen() -> Node {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    assert!(
        node.arrive(guaranteed(2, 100))
            .contains(&Action::Pause(id(1)))
    );
    assert_eq!(launched(&node.feed(paused(1))), [2]);
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
        reported_wait_ms: None,
        estimated_wait_ms: None,
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
        node.feed(paused(1));
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
    assert_eq!(launched(&node.feed(paused(1))), [3]);
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
fn frozen_containers_go_before_those_that_waited_already_the_oldest_first() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 30));
    node.run(opportunistic(4, 30));
    node.arrive(opportunistic(2, 50));
    assert_eq!(evicted(&node.arrive(guaranteed(3, 90))), [4, 1]);
    let position = |actions: Vec<Action>| {
        let position = |action: &Action| {
            if let Action::Note(Note::Queued { position, .. }) = action {
                Some(*position)
            } else {
                None
            }
        };
        actions.iter().find_map(position)
    };
    assert_eq!(position(node.feed(paused(1))), Some(1));
    assert_eq!(position(node.feed(paused(4))), Some(2));
    assert_eq!(node.waiting(), [1, 4, 2]);
    let actions = node.exit(3, 0);
    assert!(actions.contains(&Action::Resume(id(1))), "{actions:?}");
    assert!(actions.contains(&Action::Resume(id(4))), "{actions:?}");
    assert_eq!(node.waiting(), [2]);
}

/// Returns the notes about frozen containers that were killed.
fn killed_frozen(actions: &[Action]) -> Vec<(i64, PauseEnd, u64, u64)> {
    let killed = |action: &Action| {
        if let Action::Note(Note::PausedKilled {
            id,
            reason,
            paused_ms,
            ran_ms,
        }) = action
        {
            Some((id.id, *reason, *paused_ms, *ran_ms))
        } else {
            None
        }
    };
    actions.iter().filter_map(killed).collect()
}

#[test]
fn a_container_frozen_for_too_long_is_killed_like_a_victim() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    node.advance(1_500);
    node.arrive(guaranteed(2, 100));
    node.feed(paused(1));
    node.feed(Event::Launched(id(2)));
    assert_eq!(
        node.scheduler.next_deadline(),
        Some(MonoMillis(1_500 + 300_000))
    );
    node.advance(299_999);
    assert_eq!(node.feed(Event::Tick), []);
    node.advance(1);
    let actions = node.feed(Event::Tick);
    assert_eq!(
        killed_frozen(&actions),
        [(1, PauseEnd::TooLong, 300_000, 1_500)]
    );
    assert_eq!(actions.last(), Some(&Action::Terminate(id(1))));
    node.exit(1, 143);
    let text = "Container Killed to make room for Guaranteed Container. It was paused for 300 s without room to resume.\n";
    assert!(node.view(1).diagnostics.ends_with(text));
    let status = node.completion(1).exit_status;
    assert_eq!(status, ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER);
}

#[test]
fn a_thawed_container_is_not_killed_for_its_pause() {
    let mut node = with_one_frozen();
    node.exit(2, 0);
    assert_eq!(node.scheduler.next_deadline(), None);
    node.feed(Event::Resumed(id(1)));
    node.arrive(guaranteed(3, 100));
    node.advance(1_000);
    node.feed(paused(1));
    assert_eq!(
        node.scheduler.next_deadline(),
        Some(MonoMillis(301_000)),
        "each pause counts from its own start"
    );
}

#[test]
fn lost_work_is_counted_over_all_thaws() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    node.advance(100);
    node.arrive(guaranteed(2, 100));
    node.feed(paused(1));
    node.advance(1_000);
    node.exit(2, 0);
    node.feed(Event::Resumed(id(1)));
    node.advance(20);
    let actions = node.arrive(guaranteed(3, 100));
    let ran = actions.iter().find_map(|action| {
        if let Action::Note(Note::Evicted { ran_ms, .. }) = action {
            Some(*ran_ms)
        } else {
            None
        }
    });
    assert_eq!(ran, Some(120));
}

#[test]
fn a_guaranteed_container_starts_in_memory_that_a_frozen_one_holds_and_that_one_is_killed_by_force()
{
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    node.arrive(guaranteed(2, 100));
    let actions = node.feed(Event::Paused {
        id: id(1),
        held_mb: None,
    });
    assert_eq!(launched(&actions), [2]);
    assert_eq!(killed_frozen(&actions), [(1, PauseEnd::MemoryNeeded, 0, 0)]);
    assert_eq!(actions.last(), Some(&Action::ForceKill(id(1))));
    node.exit(1, 137);
    let completion = node.completion(1);
    assert_eq!(
        completion.exit_status,
        ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER
    );
}

#[test]
fn frozen_memory_up_to_the_ceiling_is_left_alone() {
    let mut node = Node::with(
        ContainerSchedulerConfig {
            use_pause_for_preemption: true,
            memory_ceiling_mb: 150,
            ..CONFIG
        },
        100,
    );
    node.run(opportunistic(1, 60));
    node.arrive(guaranteed(2, 90));
    let held = |held_mb| Event::Paused {
        id: id(1),
        held_mb: Some(held_mb),
    };
    assert_eq!(killed_frozen(&node.feed(held(60))), []);
    assert_eq!(node.scheduler.frozen_memory_mb(), 60);
    let more = Event::FrozenMemory {
        id: id(1),
        held_mb: 61,
    };
    assert_eq!(
        killed_frozen(&node.feed(more)),
        [(1, PauseEnd::MemoryNeeded, 0, 0)]
    );
    assert_eq!(node.scheduler.frozen_memory_mb(), 0);
}

#[test]
fn memory_pressed_back_leaves_room_for_the_frozen() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 20));
    node.run(opportunistic(2, 20));
    node.arrive(guaranteed(3, 70));
    assert_eq!(node.state(1), ContainerState::Running { order: 2 });
    node.feed(Event::Paused {
        id: id(2),
        held_mb: Some(10),
    });
    node.feed(Event::FrozenMemory {
        id: id(2),
        held_mb: 1,
    });
    assert_eq!(node.scheduler.frozen_memory_mb(), 1);
    assert_eq!(killed_frozen(&node.arrive(guaranteed(4, 9))), []);
}

#[test]
fn of_the_frozen_the_one_frozen_last_goes_first_and_only_as_many_as_needed() {
    let mut node = freezing(100);
    for number in 1..=3 {
        node.run(opportunistic(number, 30));
    }
    node.arrive(guaranteed(4, 80));
    for number in [3, 2, 1] {
        let held_mb = Some(if number == 1 { 0 } else { 10 });
        node.feed(Event::Paused {
            id: id(number),
            held_mb,
        });
    }
    assert_eq!(node.scheduler.frozen_memory_mb(), 20);
    let actions = node.arrive(guaranteed(5, 5));
    assert_eq!(launched(&actions), [5]);
    let killed: Vec<i64> = killed_frozen(&actions).iter().map(|k| k.0).collect();
    assert_eq!(killed, [2], "1 holds nothing, 3 has waited for longer");
}

#[test]
fn what_waits_behind_a_frozen_container_starts_when_that_is_killed() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    node.arrive(guaranteed(2, 90));
    node.arrive(opportunistic(3, 10));
    let actions = node.feed(Event::Paused {
        id: id(1),
        held_mb: Some(20),
    });
    assert_eq!(launched(&actions), [2, 3]);
}

#[test]
fn memory_reported_for_a_container_that_is_not_frozen_changes_nothing() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    let report = |number| Event::FrozenMemory {
        id: id(number),
        held_mb: 1_000,
    };
    assert_eq!(node.feed(report(1)), []);
    assert_eq!(
        node.try_feed(report(9)),
        Err(Refusal::UnknownContainer(id(9)))
    );
}

#[test]
fn a_frozen_container_that_is_promoted_is_not_killed_for_its_pause_until_it_is_demoted() {
    let mut node = with_one_frozen();
    let update = |version, spec| Event::Update(ContainerSpec { version, ..spec });
    node.feed(update(1, guaranteed(1, 60)));
    assert_eq!(node.scheduler.next_deadline(), None);
    node.advance(400_000);
    assert_eq!(node.feed(Event::Tick), []);
    node.feed(update(2, opportunistic(1, 60)));
    let actions = node.feed(Event::Tick);
    assert_eq!(
        killed_frozen(&actions),
        [(1, PauseEnd::TooLong, 400_000, 0)]
    );
}

#[test]
fn a_process_may_end_while_it_is_being_frozen() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    node.arrive(guaranteed(2, 100));
    assert_eq!(launched(&node.exit(1, 0)), [2]);
    assert_eq!(node.feed(paused(1)), []);
    assert_eq!(node.completion(1).exit_status, ContainerExitStatus::SUCCESS);
}

#[test]
fn a_promoted_frozen_container_takes_room_from_those_that_run() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 40));
    node.run(opportunistic(2, 60));
    assert_eq!(evicted(&node.arrive(guaranteed(3, 60))), [2]);
    node.feed(paused(2));
    let actions = node.feed(Event::Update(ContainerSpec {
        version: 1,
        ..guaranteed(2, 40)
    }));
    assert_eq!(evicted(&actions), [1]);
    let actions = node.feed(paused(1));
    assert!(actions.contains(&Action::Resume(id(2))), "{actions:?}");
    assert_eq!(node.waiting(), [1]);
}

#[test]
fn a_frozen_container_that_guaranteed_ones_leave_no_room_lets_others_pass() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 60));
    node.arrive(guaranteed(2, 50));
    assert_eq!(launched(&node.feed(paused(1))), [2]);
    assert_eq!(launched(&node.arrive(opportunistic(3, 40))), [3]);
    node.advance(CONFIG.pause_max_ms - 1);
    assert_eq!(launched(&node.arrive(opportunistic(4, 10))), [4]);
    assert_eq!(node.waiting(), [1]);
}

#[test]
fn a_frozen_container_lets_others_pass_for_half_of_its_pause_and_is_kept_room_after_that() {
    let mut node = freezing(100);
    node.run(opportunistic(1, 70));
    node.arrive(guaranteed(2, 60));
    assert_eq!(launched(&node.feed(paused(1))), [2]);
    node.advance(1_000);
    assert_eq!(launched(&node.arrive(opportunistic(3, 40))), [3]);
    node.exit(2, 0);
    assert_eq!(launched(&node.arrive(opportunistic(4, 30))), [4]);
    node.advance(CONFIG.pause_max_ms / 2);
    node.exit(4, 0);
    assert_eq!(
        launched(&node.arrive(opportunistic(5, 20))),
        Vec::<i64>::new()
    );
    let actions = node.exit(3, 0);
    assert!(actions.contains(&Action::Resume(id(1))), "{actions:?}");
    assert_eq!(launched(&actions), [5]);
}
