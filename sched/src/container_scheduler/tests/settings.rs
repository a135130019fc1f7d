use super::*;
use crate::action::{DrainExtent, RejectReason};
use crate::config::RuntimeSettings;

/// Returns a full node: 1 is guaranteed, 2 opportunistic and runs, and 3 and 4 wait.
fn full() -> Node {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 50));
    node.run(opportunistic(2, 50));
    node.arrive(opportunistic(3, 50));
    node.arrive(opportunistic(4, 50));
    node
}

fn change(node: &mut Node, change: impl FnOnce(&mut RuntimeSettings)) -> Vec<Action> {
    let mut settings = node.scheduler.config.runtime_settings();
    change(&mut settings);
    node.feed(Event::Settings(settings))
}

fn is_rejected(actions: &[Action]) -> bool {
    let rejected = |action: &Action| {
        matches!(
            action,
            Action::Note(Note::Rejected {
                reason: RejectReason::QueueFull,
                ..
            })
        )
    };
    actions.iter().any(rejected)
}

#[test]
fn a_shorter_queue_keeps_those_who_wait_and_admits_nobody_until_it_has_shrunk() {
    let mut node = full();
    assert_eq!(
        change(&mut node, |settings| settings.queue_length_max = 1),
        []
    );
    assert_eq!(node.waiting(), [3, 4]);
    assert!(is_rejected(&node.arrive(opportunistic(5, 50))));
    assert_eq!(
        node.scheduler.opportunistic_status().opport_queue_capacity,
        1
    );
    change(&mut node, |settings| settings.queue_length_max = 3);
    assert!(!is_rejected(&node.arrive(opportunistic(6, 50))));
    assert_eq!(node.waiting(), [3, 4, 6]);
}

#[test]
fn a_node_that_takes_no_opportunistic_containers_any_more_starts_guaranteed_ones_at_once() {
    let mut node = full();
    node.arrive(guaranteed(5, 80));
    assert_eq!(node.waiting(), [5, 3, 4], "5 needs more than the room of 2");
    let actions = change(&mut node, |settings| settings.queue_length_max = 0);
    assert!(actions.contains(&Action::Launch(id(5))), "{actions:?}");
}

#[test]
fn settings_leave_a_drain_as_it_is() {
    let mut node = full();
    node.feed(Event::Drain(Some(DrainExtent::Queue)));
    change(&mut node, |settings| settings.queue_length_max = 20);
    node.arrive(opportunistic(5, 50));
    assert_eq!(node.waiting(), [] as [i64; 0]);
}

#[test]
fn a_new_limit_on_pauses_is_for_those_that_begin_after_it() {
    let config = ContainerSchedulerConfig {
        use_pause_for_preemption: true,
        ..CONFIG
    };
    let mut node = Node::with(config, 100);
    node.run(opportunistic(1, 50));
    node.run(opportunistic(2, 50));
    for (number, victim) in [(11, 2), (12, 1)] {
        node.arrive(guaranteed(number, 50));
        node.feed(paused(victim));
        change(&mut node, |settings| settings.pause_max_ms = 1_000_000);
    }
    let first = node.scheduler.next_deadline();
    assert_eq!(first, Some(node.now.mono + CONFIG.pause_max_ms));
}
