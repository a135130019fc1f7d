use super::*;
use crate::action::KillReason;

#[test]
fn a_guaranteed_container_starts_before_opportunistic_ones_that_waited_longer() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 100));
    node.arrive(opportunistic(2, 50));
    node.arrive(guaranteed(3, 50));
    assert_eq!(launched(&node.exit(1, 0)), [3, 2]);
}

#[test]
fn a_guaranteed_container_takes_the_room_of_the_youngest_opportunistic_one() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 50));
    node.run(opportunistic(2, 50));
    node.advance(700);
    let actions = node.arrive(guaranteed(3, 40));
    let execution_type = ExecutionType::Guaranteed;
    assert_eq!(
        actions,
        [
            Action::Note(Note::Queued {
                id: id(3),
                execution_type,
                position: 1,
                missing: Resource::new(40, 0),
            }),
            Action::Note(Note::Evicted {
                id: id(2),
                for_container: id(3),
                paused: false,
                ran_ms: 700
            }),
            Action::Terminate(id(2)),
        ]
    );
    let diagnostics = node.view(2).diagnostics;
    assert_eq!(
        diagnostics,
        "[1970-01-01 00:00:00.700]Container Killed to make room for Guaranteed Container.\n"
    );
    assert_eq!(launched(&node.exit(2, 143)), [3]);
    assert_eq!(
        node.completion(2).exit_status,
        ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER
    );
}

#[test]
fn containers_that_hold_room_are_counted_by_type_until_their_process_is_gone() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 20));
    node.arrive(opportunistic(2, 40));
    node.run(opportunistic(3, 40));
    node.arrive(opportunistic(4, 10));
    node.feed(Event::Kill {
        id: id(3),
        reason: KillReason::ApplicationMaster,
    });
    let holding = |node: &Node| {
        let count = |execution_type| node.scheduler.holding_room_count(execution_type);
        let ids: Vec<i64> = node
            .scheduler
            .holding_room()
            .map(|summary| summary.spec.id.id)
            .collect();
        let counts = [ExecutionType::Guaranteed, ExecutionType::Opportunistic].map(count);
        (counts, ids)
    };
    assert_eq!(holding(&node), ([1, 2], vec![1, 2, 3]));
    node.exit(3, 143);
    assert_eq!(holding(&node), ([1, 2], vec![1, 2, 4]));
    assert_eq!(node.scheduler.summary(&id(9)), None);
}

#[test]
fn the_order_of_victims_is_that_of_starts_not_of_ids() {
    let mut node = Node::new(90);
    node.run(opportunistic(2, 30));
    node.run(opportunistic(3, 30));
    node.run(opportunistic(1, 30));
    assert_eq!(evicted(&node.arrive(guaranteed(9, 50))), [1, 3]);
}

#[test]
fn victims_that_are_going_count_for_the_next_guaranteed_container() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 50));
    node.run(opportunistic(2, 50));
    assert_eq!(evicted(&node.arrive(guaranteed(3, 20))), [2]);
    assert_eq!(evicted(&node.arrive(guaranteed(4, 30))), Vec::<i64>::new());
    assert_eq!(evicted(&node.arrive(guaranteed(5, 1))), [1]);
}

#[test]
fn a_container_that_its_master_stopped_counts_as_coming_back() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 50));
    node.run(opportunistic(2, 50));
    node.feed(Event::Kill {
        id: id(1),
        reason: KillReason::ApplicationMaster,
    });
    assert_eq!(evicted(&node.arrive(guaranteed(3, 50))), Vec::<i64>::new());
    assert_eq!(launched(&node.exit(1, 143)), [3]);
}

#[test]
fn cores_count_as_well_as_memory() {
    let mut node = Node::new(100);
    node.run(spec(1, ExecutionType::Opportunistic, 1, 60));
    node.run(spec(2, ExecutionType::Opportunistic, 1, 40));
    let asking = spec(3, ExecutionType::Guaranteed, 1, 70);
    assert_eq!(evicted(&node.arrive(asking)), [2, 1]);
}

#[test]
fn guaranteed_containers_do_not_overcommit_the_node() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 60));
    assert_eq!(launched(&node.arrive(guaranteed(2, 50))), Vec::<i64>::new());
    assert_eq!(node.scheduler.allocated(), Resource::new(60, 1));
    assert_eq!(launched(&node.exit(1, 0)), [2]);
}

#[test]
fn without_a_queue_guaranteed_containers_start_whatever_the_room() {
    let mut node = Node::with(
        ContainerSchedulerConfig {
            queue_length_max: 0,
            ..CONFIG
        },
        100,
    );
    node.run(guaranteed(1, 100));
    assert_eq!(launched(&node.arrive(guaranteed(2, 100))), [2]);
    assert_eq!(node.scheduler.allocated(), Resource::new(200, 2));
}

#[test]
fn room_is_free_when_the_process_is_gone_not_only_when_it_is_cleaned_up() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 100));
    node.arrive(guaranteed(2, 100));
    let actions = node.exit(1, 0);
    assert_eq!(actions.first(), Some(&Action::CleanUp(id(1))));
    assert_eq!(launched(&actions), [2]);
    assert!(node.state(1).has_ended());
}

#[test]
fn a_larger_node_starts_what_waits() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 100));
    node.arrive(guaranteed(2, 50));
    node.arrive(opportunistic(3, 50));
    let actions = node.feed(Event::NodeResource(Resource::new(200, 100)));
    assert_eq!(launched(&actions), [2, 3]);
}

#[test]
fn a_smaller_node_evicts_only_for_guaranteed_containers_that_wait() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 50));
    node.run(opportunistic(2, 50));
    assert_eq!(node.feed(Event::NodeResource(Resource::new(60, 100))), []);
    assert_eq!(evicted(&node.arrive(guaranteed(3, 10))), [2]);
    let actions = node.feed(Event::NodeResource(Resource::new(50, 100)));
    assert_eq!(evicted(&actions), [1]);
}

#[test]
fn victims_go_even_when_they_are_not_enough() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 60));
    node.run(opportunistic(2, 40));
    assert_eq!(evicted(&node.arrive(guaranteed(3, 100))), [2]);
    assert_eq!(launched(&node.exit(2, 143)), Vec::<i64>::new());
    assert_eq!(launched(&node.exit(1, 0)), [3]);
}

#[test]
fn no_opportunistic_container_starts_while_a_guaranteed_one_waits() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 60));
    node.arrive(guaranteed(2, 100));
    assert_eq!(
        launched(&node.arrive(opportunistic(3, 10))),
        Vec::<i64>::new()
    );
    assert_eq!(node.waiting(), [2, 3]);
}

#[test]
fn a_guaranteed_container_larger_than_the_node_starts_once_it_has_the_node_to_itself() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 60));
    node.run(opportunistic(2, 40));
    node.feed(Event::NodeResource(Resource::new(80, 100)));
    assert_eq!(evicted(&node.arrive(guaranteed(3, 90))), [2]);
    node.arrive(guaranteed(4, 10));
    node.arrive(opportunistic(5, 10));
    assert_eq!(launched(&node.exit(2, 143)), Vec::<i64>::new());
    let actions = node.exit(1, 0);
    assert_eq!(launched(&actions), [3]);
    let large = Note::LargerThanNode {
        id: id(3),
        asked: Resource::new(90, 1),
        node: Resource::new(80, 100),
    };
    assert!(actions.contains(&Action::Note(large)), "{actions:?}");
    assert_eq!(launched(&node.exit(3, 0)), [4, 5]);
}

#[test]
fn what_waits_for_a_frozen_container_starts_when_that_is_killed_for_its_memory() {
    let config = ContainerSchedulerConfig {
        use_pause_for_preemption: true,
        ..CONFIG
    };
    let mut node = Node::with(config, 100);
    node.run(opportunistic(1, 70));
    node.arrive(guaranteed(2, 60));
    assert_eq!(launched(&node.feed(paused(1))), [2]);
    assert_eq!(launched(&node.arrive(opportunistic(3, 40))), [3]);
    node.exit(2, 0);
    node.advance(CONFIG.pause_max_ms / 2);
    let kept_out = node.arrive(opportunistic(4, 20));
    assert_eq!(launched(&kept_out), Vec::<i64>::new());
    let actions = node.feed(Event::FrozenMemory {
        id: id(1),
        held_mb: 61,
    });
    assert!(actions.contains(&Action::ForceKill(id(1))), "{actions:?}");
    assert_eq!(launched(&actions), [4]);
}
