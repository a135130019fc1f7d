//! Containers of an earlier run.

use super::*;
use crate::container_state::Ending;
use crate::retry::{ContainerRetryContext, RetryOn};
use crate::{GrantedRetries, RecoveredContainer, RecoveredStage};

fn recovered(spec: ContainerSpec, stage: RecoveredStage, since: u64) -> RecoveredContainer {
    RecoveredContainer {
        spec,
        stage,
        exit_status: ContainerExitStatus::INVALID,
        diagnostics: "as it was\n".to_owned(),
        since: MonoMillis(since),
        retries: GrantedRetries::default(),
    }
}

fn recover(node: &mut Node, containers: Vec<RecoveredContainer>) -> Vec<Action> {
    let mut actions = Vec::new();
    let now = node.now;
    node.scheduler
        .recover(containers, now, &mut actions)
        .unwrap();
    node.scheduler.assert_invariants();
    actions
}

#[test]
fn the_queue_keeps_its_order_and_nothing_starts_before_all_are_known() {
    let mut node = Node::new(100);
    node.advance(50_000);
    let waiting = |number| recovered(opportunistic(number, 50), RecoveredStage::Waiting, 20_000);
    // The running one comes last, and leaves room for one of the others all the same.
    let running = recovered(guaranteed(9, 50), RecoveredStage::Running, 10_000);
    let actions = recover(&mut node, vec![waiting(3), waiting(1), waiting(2), running]);
    assert_eq!(launched(&actions), [3]);
    assert_eq!(node.waiting(), [1, 2]);
    let waited = actions.iter().find_map(|action| {
        if let Action::Note(Note::Started { queue_wait_ms, .. }) = action {
            Some(*queue_wait_ms)
        } else {
            None
        }
    });
    assert_eq!(
        waited,
        Some(30_000),
        "the wait counts from before the restart"
    );
    node.feed(Event::Launched(id(3)));
    assert_eq!(launched(&node.exit(9, 0)), [1]);
}

#[test]
fn the_container_that_started_last_is_still_evicted_first() {
    let mut node = Node::new(100);
    let running = |number| recovered(opportunistic(number, 50), RecoveredStage::Running, 0);
    recover(&mut node, vec![running(2), running(1)]);
    assert_eq!(evicted(&node.arrive(guaranteed(3, 50))), [1]);
}

#[test]
fn a_frozen_container_stays_frozen_until_the_end_of_its_pause() {
    let mut node = Node::new(100);
    node.advance(200_000);
    let actions = recover(
        &mut node,
        vec![
            recovered(guaranteed(1, 80), RecoveredStage::Running, 0),
            recovered(opportunistic(2, 50), RecoveredStage::Paused, 100_000),
        ],
    );
    assert_eq!(actions, [Action::Pause(id(2))]);
    node.feed(Event::Paused {
        id: id(2),
        held_mb: Some(10),
    });
    assert_eq!(node.scheduler.frozen_memory_mb(), 10);
    let end = MonoMillis(100_000 + CONFIG.pause_max_ms);
    assert_eq!(node.scheduler.next_deadline(), Some(end));
    assert!(node.exit(1, 0).contains(&Action::Resume(id(2))));
}

#[test]
fn what_was_begun_is_taken_up_again_and_what_is_done_stays_done() {
    let mut node = Node::new(100);
    let mut done = recovered(guaranteed(3, 10), RecoveredStage::Done(Ending::Failed), 0);
    done.exit_status = ContainerExitStatus(3);
    let actions = recover(
        &mut node,
        vec![
            recovered(guaranteed(1, 10), RecoveredStage::Accepted, 0),
            recovered(guaranteed(2, 100), RecoveredStage::Killing, 0),
            done,
        ],
    );
    assert_eq!(actions, [Action::Localize(id(1)), Action::Terminate(id(2))]);
    assert_eq!(node.scheduler.allocated(), Resource::new(100, 1));
    let view = node.view(3);
    assert_eq!(view.exit_status, ContainerExitStatus(3));
    assert_eq!(view.diagnostics, "as it was\n");
    assert_eq!(node.state(3), ContainerState::Done(Ending::Failed));
    let again = recovered(guaranteed(3, 10), RecoveredStage::Running, 0);
    let refused = node.scheduler.recover([again], node.now, &mut Vec::new());
    assert_eq!(refused, Err(Refusal::AlreadyKnown(id(3))));
}

#[test]
fn a_container_that_was_about_to_start_keeps_its_allocation() {
    let mut node = Node::new(100);
    let actions = recover(
        &mut node,
        vec![
            recovered(opportunistic(1, 60), RecoveredStage::Starting, 0),
            recovered(opportunistic(2, 60), RecoveredStage::Waiting, 0),
        ],
    );
    assert_eq!(launched(&actions), [1]);
    assert_eq!(node.waiting(), [2]);
}

/// Returns a node that took over a guaranteed container whose launch was ordered, and an
/// opportunistic one that a record calls frozen and that may run.
fn with_a_thaw_on_no_record() -> Node {
    let mut node = Node::new(100);
    let actions = recover(
        &mut node,
        vec![
            recovered(guaranteed(1, 60), RecoveredStage::Starting, 0),
            recovered(opportunistic(2, 60), RecoveredStage::Paused, 0),
        ],
    );
    assert_eq!(actions, [Action::Pause(id(2))]);
    assert_eq!(node.scheduler.allocated(), Resource::new(60, 1));
    node
}

#[test]
fn a_container_that_may_have_been_thawed_keeps_its_allocation_until_it_is_frozen() {
    let mut node = with_a_thaw_on_no_record();
    let frozen = Event::Paused {
        id: id(2),
        held_mb: Some(10),
    };
    assert_eq!(launched(&node.feed(frozen)), [1]);
    assert_eq!(node.scheduler.allocated(), Resource::new(60, 1));
    assert_eq!(node.waiting(), [2]);
}

#[test]
fn a_container_that_may_have_been_thawed_is_killed_with_its_allocation() {
    let mut node = with_a_thaw_on_no_record();
    let failed = node.feed(Event::PauseFailed(id(2)));
    assert!(failed.contains(&Action::Terminate(id(2))), "{failed:?}");
    assert!(launched(&failed).is_empty(), "{failed:?}");
    assert_eq!(launched(&node.exit(2, 137)), [1]);
}

#[test]
fn containers_frozen_again_go_on_in_the_order_of_their_pauses() {
    let mut node = Node::new(100);
    let paused = |number| recovered(opportunistic(number, 60), RecoveredStage::Paused, 0);
    let running = recovered(guaranteed(1, 100), RecoveredStage::Running, 0);
    recover(&mut node, vec![running, paused(3), paused(2)]);
    for number in [2, 3] {
        node.feed(Event::Paused {
            id: id(number),
            held_mb: Some(0),
        });
    }
    assert_eq!(node.waiting(), [3, 2]);
    assert!(node.exit(1, 0).contains(&Action::Resume(id(3))));
}

#[test]
fn room_is_withheld_until_the_processes_of_nobody_are_gone() {
    let mut node = Node::new(100);
    node.scheduler.withhold(id(9).name(), Resource::new(60, 1));
    let waiting = |number| recovered(guaranteed(number, 50), RecoveredStage::Waiting, 0);
    let running = recovered(opportunistic(3, 30), RecoveredStage::Running, 0);
    let actions = recover(&mut node, vec![waiting(1), running]);
    // The victim's room would not suffice, and what is withheld is enough when it comes.
    assert_eq!(launched(&actions), []);
    assert_eq!(evicted(&actions), []);
    assert_eq!(node.scheduler.allocated(), Resource::new(90, 2));
    assert!(node.scheduler.withholds(&id(9).name()));
    let mut actions = Vec::new();
    for _ in 0..2 {
        let now = node.now;
        node.scheduler.give_back(&id(9).name(), now, &mut actions);
        node.scheduler.assert_invariants();
    }
    assert_eq!(launched(&actions), [1]);
    assert!(!node.scheduler.withholds(&id(9).name()));
    assert_eq!(node.scheduler.allocated(), Resource::new(80, 2));
}

#[test]
fn a_start_waits_if_its_room_went_to_another_whose_process_is_known() {
    let mut node = Node::new(100);
    let starting = |number| recovered(opportunistic(number, 40), RecoveredStage::Starting, 0);
    let waiting = recovered(opportunistic(4, 10), RecoveredStage::Waiting, 0);
    let running = recovered(guaranteed(3, 50), RecoveredStage::Running, 0);
    let actions = recover(&mut node, vec![starting(1), starting(2), running, waiting]);
    assert_eq!(launched(&actions), [1]);
    assert_eq!(node.waiting(), [2, 4]);
    assert_eq!(launched(&node.exit(3, 0)), [2, 4]);
}

#[test]
fn a_container_has_the_retries_left_that_it_had() {
    let mut first = Node::new(100);
    first.run(guaranteed(1, 60));
    let policy = ContainerRetryContext {
        on: RetryOn::AllErrors,
        max_retries: Some(2),
        ..ContainerRetryContext::default()
    };
    let follow = |node: &mut Node| {
        let (id, policy) = (id(1), policy.clone());
        node.feed(Event::RetryPolicy { id, policy })
    };
    follow(&mut first);
    first.feed(Event::ProcessesGone(id(1)));
    first.exit(1, 7);
    let retries = first.scheduler.granted_retries(&id(1)).unwrap();

    let mut node = Node::new(100);
    node.advance(10_000);
    let container = RecoveredContainer {
        retries,
        ..recovered(guaranteed(1, 60), RecoveredStage::Running, 9_000)
    };
    recover(&mut node, vec![container]);
    follow(&mut node);
    node.feed(Event::ProcessesGone(id(1)));
    let last = Action::Note(Note::Retried {
        id: id(1),
        status: ContainerExitStatus(7),
        after_ms: 1_000,
        remaining: Some(0),
    });
    assert_eq!(node.exit(1, 7), [last]);
    node.advance(1_000);
    assert_eq!(node.feed(Event::Tick), [Action::Launch(id(1))]);
    node.feed(Event::Launched(id(1)));
    node.feed(Event::ProcessesGone(id(1)));
    assert_eq!(node.exit(1, 7), [Action::CleanUp(id(1))]);
}

#[test]
fn a_refused_container_leaves_out_nobody_behind_it() {
    let mut node = Node::new(100);
    let running = |number| recovered(guaranteed(number, 30), RecoveredStage::Running, 0);
    let waiting = recovered(guaranteed(3, 40), RecoveredStage::Waiting, 0);
    let mut actions = Vec::new();
    let given = [running(1), running(1), running(2), waiting];
    let result = node.scheduler.recover(given, node.now, &mut actions);
    assert_eq!(result, Err(crate::Refusal::AlreadyKnown(id(1))));
    node.scheduler.assert_invariants();
    assert!(matches!(node.state(2), ContainerState::Running { .. }));
    assert_eq!(launched(&actions), [3], "the refused one takes no room");
}
