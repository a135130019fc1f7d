use super::*;
use crate::action::{DrainExtent, RejectReason, ShedReason};
use crate::look::Sight;

/// Returns a full node: 1 is guaranteed and 2 opportunistic, both run, and 3 and 4 wait.
fn full() -> Node {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 50));
    node.run(opportunistic(2, 50));
    node.arrive(opportunistic(3, 50));
    node.arrive(opportunistic(4, 50));
    node
}

fn drain(node: &mut Node, extent: DrainExtent) -> Vec<Action> {
    node.feed(Event::Drain(Some(extent)))
}

fn notes(actions: &[Action]) -> Vec<Note> {
    let note = |action: &Action| {
        if let Action::Note(note) = action {
            Some(note.clone())
        } else {
            None
        }
    };
    actions.iter().filter_map(note).collect()
}

fn status(node: &Node) -> (u32, u32, Option<u32>) {
    let status = node.scheduler.opportunistic_status();
    (
        status.wait_queue_length,
        status.opport_queue_capacity,
        status.estimated_queue_wait_ms,
    )
}

#[test]
fn a_graceful_drain_sheds_the_queue_and_lets_everything_run() {
    let mut node = full();
    let actions = drain(&mut node, DrainExtent::Queue);
    let shed = |number| Note::Shed {
        id: id(number),
        reason: ShedReason::Draining,
    };
    assert_eq!(notes(&actions), [shed(4), shed(3)]);
    assert_eq!(node.waiting(), []);
    let ended = node.completion(4);
    assert_eq!(
        ended.exit_status,
        ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER
    );
    for number in [1, 2] {
        assert!(matches!(node.state(number), ContainerState::Running { .. }));
    }
}

#[test]
fn an_opportunistic_container_that_comes_is_rejected_and_a_guaranteed_one_runs() {
    let mut node = Node::new(100);
    drain(&mut node, DrainExtent::Queue);
    let actions = node.arrive(opportunistic(1, 50));
    let rejected = Note::Rejected {
        id: id(1),
        reason: RejectReason::Draining,
    };
    assert_eq!(notes(&actions), [rejected]);
    assert!(
        node.view(1)
            .diagnostics
            .contains("the node is being drained")
    );
    node.run(guaranteed(2, 50));
}

#[test]
fn a_container_that_is_localizing_is_rejected_at_once() {
    let mut node = Node::new(100);
    node.feed(Event::Start(opportunistic(1, 50)));
    node.feed(Event::Start(guaranteed(2, 50)));
    drain(&mut node, DrainExtent::Queue);
    assert!(node.state(1).has_ended());
    assert_eq!(node.state(2), ContainerState::Localizing);
}

#[test]
fn a_quick_drain_ends_opportunistic_containers_too() {
    let mut node = full();
    node.advance(5_000);
    let actions = drain(&mut node, DrainExtent::Opportunistic);
    let drained = Note::Drained {
        id: id(2),
        ran_ms: 5_000,
    };
    assert!(notes(&actions).contains(&drained), "{actions:?}");
    assert!(actions.contains(&Action::Terminate(id(2))), "{actions:?}");
    assert!(matches!(node.state(1), ContainerState::Running { .. }));
    node.exit(2, 143);
    let ended = node.completion(2);
    assert_eq!(
        ended.exit_status,
        ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER
    );
}

#[test]
fn a_fast_drain_ends_all_and_those_that_come_later() {
    let mut node = full();
    let actions = drain(&mut node, DrainExtent::All);
    for number in [1, 2] {
        assert!(
            actions.contains(&Action::Terminate(id(number))),
            "{actions:?}"
        );
        node.exit(number, 143);
    }
    assert_eq!(node.completion(1).exit_status, ContainerExitStatus::ABORTED);
    let actions = node.arrive(guaranteed(5, 50));
    assert_eq!(launched(&actions), []);
    assert_eq!(node.completion(5).exit_status, ContainerExitStatus::ABORTED);
}

#[test]
fn a_frozen_container_goes_on_in_a_graceful_drain_and_ends_in_a_quick_one() {
    let config = ContainerSchedulerConfig {
        use_pause_for_preemption: true,
        ..CONFIG
    };
    let mut node = Node::with(config, 100);
    node.run(opportunistic(1, 100));
    node.arrive(guaranteed(2, 100));
    node.feed(paused(1));
    node.feed(Event::Launched(id(2)));
    drain(&mut node, DrainExtent::Queue);
    assert_eq!(node.waiting(), [1]);
    let mut quick = Node {
        scheduler: node.scheduler.clone(),
        now: node.now,
    };
    assert!(node.exit(2, 0).contains(&Action::Resume(id(1))));
    let actions = drain(&mut quick, DrainExtent::Opportunistic);
    assert!(actions.contains(&Action::Terminate(id(1))), "{actions:?}");
}

#[test]
fn a_demotion_makes_a_container_part_of_the_drain() {
    let demoted = |number| ContainerSpec {
        version: 1,
        ..opportunistic(number, 50)
    };
    let mut node = Node::new(100);
    node.run(guaranteed(1, 50));
    drain(&mut node, DrainExtent::Queue);
    node.feed(Event::Update(demoted(1)));
    assert!(matches!(node.state(1), ContainerState::Running { .. }));
    drain(&mut node, DrainExtent::Opportunistic);
    assert!(matches!(node.state(1), ContainerState::Killing { .. }));
    node.run(guaranteed(2, 50));
    let actions = node.feed(Event::Update(demoted(2)));
    assert!(actions.contains(&Action::Terminate(id(2))), "{actions:?}");
}

#[test]
fn the_resource_manager_sees_a_full_queue_and_no_estimate_until_the_drain_is_cancelled() {
    let mut node = Node::new(100);
    let estimate = |node: &mut Node| {
        node.feed(Event::EstimateWaits);
        status(node)
    };
    assert_eq!(estimate(&mut node), (0, 10, Some(0)));
    drain(&mut node, DrainExtent::Queue);
    assert_eq!(status(&node), (10, 10, None));
    assert_eq!(estimate(&mut node), (10, 10, None));
    node.feed(Event::Drain(None));
    assert_eq!(estimate(&mut node), (0, 10, Some(0)));
    node.run(opportunistic(1, 50));
    // A node whose capacity is reported as 0 has a queue that is not empty.
    let by_resources = ContainerSchedulerConfig {
        queue_policy: crate::OpportunisticContainersQueuePolicy::ByResources,
        load_comparator: crate::LoadComparator::QueueLengthThenResources,
        ..CONFIG
    };
    let mut node = Node::with(by_resources, 100);
    drain(&mut node, DrainExtent::Queue);
    assert_eq!(status(&node), (1, 0, None));
}

#[test]
fn a_look_shows_no_room_on_a_node_that_takes_no_opportunistic_containers() {
    let mut node = Node::new(100);
    let queued = |node: &Node| node.scheduler.sight(node.now.mono).queued;
    assert_eq!(queued(&node), 0);
    drain(&mut node, DrainExtent::Queue);
    assert_eq!(queued(&node), Sight::CLOSED);
    node.feed(Event::Drain(None));
    assert_eq!(queued(&node), 0);
    let none = ContainerSchedulerConfig {
        queue_length_max: 0,
        ..CONFIG
    };
    assert_eq!(queued(&Node::with(none, 100)), Sight::CLOSED);
}
