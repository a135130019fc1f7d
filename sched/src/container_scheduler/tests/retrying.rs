use super::*;
use crate::action::KillReason;
use crate::retry::{ContainerRetryContext, RetryOn};

/// Gives a container two retries after any failure.
fn retry_twice(node: &mut Node, number: i64, interval_ms: u64) {
    let policy = ContainerRetryContext {
        on: RetryOn::AllErrors,
        max_retries: Some(2),
        interval_ms,
        failures_validity_ms: None,
    };
    let id = id(number);
    assert_eq!(node.feed(Event::RetryPolicy { id, policy }), []);
}

fn retried(number: i64, status: i32, after_ms: u64, remaining: u32) -> Action {
    Action::Note(Note::Retried {
        id: id(number),
        status: ContainerExitStatus(status),
        after_ms,
        remaining: Some(remaining),
    })
}

#[test]
fn a_failed_container_is_launched_again_after_the_interval_until_no_retry_is_left() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 60));
    retry_twice(&mut node, 1, 3_000);
    for remaining in [1, 0] {
        assert_eq!(node.feed(Event::ProcessesGone(id(1))), []);
        assert_eq!(node.exit(1, 7), [retried(1, 7, 3_000, remaining)]);
        assert_eq!(node.view(1).exit_status, ContainerExitStatus(7));
        node.advance(2_999);
        assert_eq!(node.feed(Event::Tick), []);
        node.advance(1);
        assert_eq!(node.feed(Event::Tick), [Action::Launch(id(1))]);
        node.feed(Event::Launched(id(1)));
    }
    assert_eq!(node.exit(1, 8), [Action::CleanUp(id(1))]);
    assert_eq!(node.completion(1).exit_status, ContainerExitStatus(8));
}

#[test]
fn the_allocation_is_kept_until_the_last_failure() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 60));
    retry_twice(&mut node, 1, 0);
    node.arrive(guaranteed(2, 60));
    node.feed(Event::ProcessesGone(id(1)));
    node.exit(1, 1);
    assert_eq!(node.waiting(), [2], "an interval of 0 is raised");
    node.advance(1_000);
    node.feed(Event::Tick);
    let status = ContainerExitStatus::LAUNCH_FAILED;
    let diagnostics = String::new();
    let failed = Event::LaunchFailed {
        id: id(1),
        status,
        diagnostics,
    };
    assert_eq!(node.feed(failed), [retried(1, -1, 1_000, 0)]);
    assert_eq!(node.waiting(), [2]);
    node.advance(1_000);
    node.feed(Event::Tick);
    node.feed(Event::Launched(id(1)));
    assert_eq!(launched(&node.exit(1, 1)), [2]);
}

#[test]
fn a_container_that_waits_for_its_retry_can_be_killed() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    retry_twice(&mut node, 1, 0);
    node.exit(1, 1);
    let reason = KillReason::ApplicationMaster;
    let killed = node.feed(Event::Kill { id: id(1), reason });
    assert_eq!(killed, [Action::CleanUp(id(1))]);
    assert_eq!(node.scheduler.next_deadline(), None);
    let status = node.completion(1).exit_status;
    assert_eq!(status, ContainerExitStatus::KILLED_BY_APPMASTER);
}

#[test]
fn a_container_that_waits_for_its_retry_gives_way() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 60));
    retry_twice(&mut node, 1, 0);
    node.exit(1, 1);
    let actions = node.arrive(guaranteed(2, 60));
    assert_eq!((evicted(&actions), launched(&actions)), (vec![1], vec![2]));
}

#[test]
fn neither_success_nor_a_signal_nor_an_end_after_a_kill_is_retried() {
    for status in [0, 137, 143] {
        let mut node = Node::new(100);
        node.run(guaranteed(1, 10));
        retry_twice(&mut node, 1, 0);
        assert_eq!(node.exit(1, status), [Action::CleanUp(id(1))], "{status}");
    }
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    retry_twice(&mut node, 1, 0);
    let reason = KillReason::ApplicationMaster;
    node.feed(Event::Kill { id: id(1), reason });
    assert_eq!(node.exit(1, 5), [Action::CleanUp(id(1))]);
}

#[test]
fn a_frozen_container_that_failed_waits_for_resources_again() {
    let config = ContainerSchedulerConfig {
        use_pause_for_preemption: true,
        ..CONFIG
    };
    let mut node = Node::with(config, 100);
    node.run(opportunistic(1, 60));
    retry_twice(&mut node, 1, 0);
    node.arrive(guaranteed(2, 60));
    node.feed(paused(1));
    let queued = Note::Queued {
        id: id(1),
        execution_type: ExecutionType::Opportunistic,
        position: 1,
        missing: Resource::new(20, 0),
    };
    let actions = node.exit(1, 1);
    assert_eq!(actions, [retried(1, 1, 1_000, 1), Action::Note(queued)]);
    node.feed(Event::Launched(id(2)));
    assert_eq!(launched(&node.exit(2, 0)), [1]);
}

#[test]
fn a_restarted_container_frees_its_resources_and_waits_for_them_in_the_queue() {
    for status in [0, 5, 143] {
        let mut node = Node::new(100);
        node.run(guaranteed(1, 60));
        node.arrive(guaranteed(2, 60));
        assert_eq!(node.feed(Event::Restart(id(1))), [Action::Terminate(id(1))]);
        node.advance(250);
        assert_eq!(node.feed(Event::Tick), [Action::ForceKill(id(1))]);
        assert_eq!(node.feed(Event::ProcessesGone(id(1))), []);
        assert_eq!(launched(&node.exit(1, status)), [2], "{status}");
        assert_eq!(node.waiting(), [1]);
        node.feed(Event::Launched(id(2)));
        assert_eq!(launched(&node.exit(2, 0)), [1]);
        assert_eq!(node.view(1).exit_status, ContainerExitStatus::INVALID);
    }
}

#[test]
fn a_restarting_container_can_be_killed_and_only_a_running_one_can_be_restarted() {
    let mut node = Node::new(100);
    node.arrive(guaranteed(1, 10));
    let refusal = node.try_feed(Event::Restart(id(1))).unwrap_err();
    let state = "SCHEDULED";
    assert_eq!(refusal, Refusal::NotRunning { id: id(1), state });
    node.feed(Event::Launched(id(1)));
    node.feed(Event::Restart(id(1)));
    let reason = KillReason::ApplicationMaster;
    node.feed(Event::Kill { id: id(1), reason });
    node.exit(1, 143);
    let status = node.completion(1).exit_status;
    assert_eq!(status, ContainerExitStatus::KILLED_BY_APPMASTER);
}

#[test]
fn a_failure_that_no_retry_covers_is_rolled_back_once() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    let can_roll_back = |can_roll_back| Event::CanRollBack {
        id: id(1),
        can_roll_back,
    };
    node.feed(can_roll_back(true));
    node.feed(Event::ProcessesGone(id(1)));
    let actions = node.exit(1, 3);
    assert_eq!(actions.first(), Some(&Action::RollBack(id(1))));
    assert_eq!(launched(&actions), [1]);
    let text = node.view(1).diagnostics;
    assert!(
        text.contains("Container Re-init Auto Rolled-Back."),
        "{text}"
    );
    node.feed(can_roll_back(false));
    node.feed(Event::Launched(id(1)));
    assert_eq!(node.exit(1, 3), [Action::CleanUp(id(1))]);
}
