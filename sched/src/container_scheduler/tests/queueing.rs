use super::*;
use crate::action::{ContainerQueuingLimit, KillReason, RejectReason, ShedReason};
use crate::config::OpportunisticContainersQueuePolicy;
use crate::config::{CONTAINERS_MAX, QUEUE_LENGTH_MAX};

fn limit(max_queue_length: usize) -> Event {
    Event::QueuingLimit(ContainerQueuingLimit {
        max_queue_length: Some(max_queue_length),
        max_queue_wait_time_ms: None,
    })
}

/// Cleans up a container that has ended, and returns its exit status and diagnostics.
fn how_it_ended(node: &mut Node, number: i64) -> (ContainerExitStatus, String) {
    (
        node.completion(number).exit_status,
        node.view(number).diagnostics,
    )
}

#[test]
fn an_opportunistic_container_starts_at_once_when_there_is_room() {
    let mut node = Node::new(100);
    let actions = node.arrive(opportunistic(1, 100));
    assert_eq!(
        actions,
        [
            Action::Note(Note::Started {
                id: id(1),
                execution_type: ExecutionType::Opportunistic,
                queue_wait_ms: 0,
                reported_wait_ms: Some(0),
                estimated_wait_ms: None,
                resumed: false,
            }),
            Action::Launch(id(1)),
        ]
    );
}

#[test]
fn a_guaranteed_container_starts_without_further_notes_if_it_fits_or_need_not() {
    let takes_none = ContainerSchedulerConfig {
        queue_length_max: 0,
        ..CONFIG
    };
    for (config, memory_mb) in [(CONFIG, 100), (takes_none, 101)] {
        let mut node = Node::with(config, 100);
        let actions = node.arrive(guaranteed(1, memory_mb));
        assert!(
            matches!(
                actions[..],
                [Action::Note(Note::Started { .. }), Action::Launch(_)]
            ),
            "{actions:?}"
        );
    }
}

#[test]
fn an_opportunistic_container_larger_than_the_node_is_rejected_before_it_waits() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 100));
    node.arrive(opportunistic(2, 100));
    node.arrive(opportunistic(3, 101));
    assert_eq!(node.waiting(), [2]);
    assert!(node.state(3).has_ended());
}

#[test]
fn opportunistic_containers_wait_first_come_first_served() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 100));
    for number in 2..=4 {
        let actions = node.arrive(opportunistic(number, 40));
        let position = usize::try_from(number).unwrap() - 1;
        let execution_type = ExecutionType::Opportunistic;
        assert_eq!(
            actions,
            [Action::Note(Note::Queued {
                id: id(number),
                execution_type,
                position,
                missing: Resource::new(40, 0),
            })]
        );
    }
    assert_eq!(launched(&node.exit(1, 0)), [2, 3]);
    assert_eq!(node.waiting(), [4]);
}

#[test]
fn the_time_in_the_queue_is_noted_at_the_start() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 100));
    node.arrive(opportunistic(2, 100));
    node.advance(1_234);
    let started = Note::Started {
        id: id(2),
        execution_type: ExecutionType::Opportunistic,
        queue_wait_ms: 1_234,
        reported_wait_ms: Some(0),
        estimated_wait_ms: None,
        resumed: false,
    };
    assert!(node.exit(1, 0).contains(&Action::Note(started)));
}

#[test]
fn the_head_of_the_queue_holds_up_smaller_ones_behind_it() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 60));
    node.run(opportunistic(2, 40));
    node.arrive(opportunistic(3, 50));
    node.arrive(opportunistic(4, 10));
    assert_eq!(launched(&node.exit(2, 0)), Vec::<i64>::new());
    assert_eq!(node.waiting(), [3, 4]);
}

#[test]
fn stopping_the_head_of_the_queue_starts_what_is_behind_it() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 60));
    node.arrive(opportunistic(2, 50));
    node.arrive(opportunistic(3, 40));
    let stop = Event::Kill {
        id: id(2),
        reason: KillReason::ApplicationMaster,
    };
    assert_eq!(launched(&node.feed(stop)), [3]);
}

#[test]
fn a_container_beyond_the_queue_length_is_rejected() {
    let mut node = Node::with(
        ContainerSchedulerConfig {
            queue_length_max: 1,
            ..CONFIG
        },
        100,
    );
    node.run(opportunistic(1, 100));
    node.arrive(opportunistic(2, 10));
    let actions = node.arrive(opportunistic(3, 10));
    assert_eq!(
        actions,
        [
            Action::Note(Note::Rejected {
                id: id(3),
                reason: RejectReason::QueueFull
            }),
            Action::CleanUp(id(3)),
        ]
    );
    let (status, diagnostics) = how_it_ended(&mut node, 3);
    assert_eq!(status, ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER);
    assert_eq!(
        diagnostics,
        "[1970-01-01 00:00:00.000]Opportunistic container queue is full.\n\
         [1970-01-01 00:00:00.000]Container terminated before launch.\n"
    );
}

#[test]
fn a_queue_of_length_zero_rejects_even_on_an_idle_node() {
    let mut node = Node::with(
        ContainerSchedulerConfig {
            queue_length_max: 0,
            ..CONFIG
        },
        100,
    );
    node.arrive(opportunistic(1, 10));
    assert_eq!(
        how_it_ended(&mut node, 1).0,
        ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER
    );
}

#[test]
fn an_opportunistic_container_larger_than_the_node_is_rejected_and_blocks_nobody() {
    let mut node = Node::new(100);
    node.arrive(opportunistic(1, 101));
    let (status, diagnostics) = how_it_ended(&mut node, 1);
    assert_eq!(status, ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER);
    let reason = "asks for <memory:101, vCores:1>, more than the <memory:100, vCores:100>";
    assert!(diagnostics.contains(reason), "{diagnostics}");
    assert_eq!(launched(&node.arrive(opportunistic(2, 100))), [2]);
}

#[test]
fn a_waiting_container_that_no_longer_fits_the_node_is_rejected_when_its_turn_comes() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 50));
    node.arrive(opportunistic(2, 80));
    node.arrive(opportunistic(3, 20));
    let actions = node.feed(Event::NodeResource(Resource::new(70, 100)));
    let rejected = Note::Rejected {
        id: id(2),
        reason: RejectReason::NeverFits,
    };
    assert!(actions.contains(&Action::Note(rejected)), "{actions:?}");
    assert_eq!(launched(&actions), [3]);
}

#[test]
fn by_resources_what_runs_and_waits_must_fit_the_node_together() {
    let queue_policy = OpportunisticContainersQueuePolicy::ByResources;
    let mut node = Node::with(
        ContainerSchedulerConfig {
            queue_policy,
            queue_length_max: 0,
            ..CONFIG
        },
        100,
    );
    node.run(opportunistic(1, 60));
    node.run(opportunistic(2, 40));
    let actions = node.arrive(opportunistic(3, 1));
    let rejected = Note::Rejected {
        id: id(3),
        reason: RejectReason::QueueFull,
    };
    assert_eq!(actions, [Action::Note(rejected), Action::CleanUp(id(3))]);
    assert_eq!(
        how_it_ended(&mut node, 3).1.lines().next(),
        Some("[1970-01-01 00:00:00.000]Opportunistic container queue is full.")
    );
}

#[test]
fn by_resources_those_that_wait_and_those_that_are_frozen_count_too() {
    let mut node = Node::with(
        ContainerSchedulerConfig {
            queue_policy: OpportunisticContainersQueuePolicy::ByResources,
            queue_length_max: 0,
            use_pause_for_preemption: true,
            memory_ceiling_mb: 200,
            ..CONFIG
        },
        100,
    );
    node.run(opportunistic(1, 30));
    node.run(guaranteed(2, 40));
    // 1 must make room and waits frozen; 3 takes the allocation of 1 and more.
    assert_eq!(evicted(&node.arrive(guaranteed(3, 50))), [1]);
    assert_eq!(launched(&node.feed(paused(1))), [3]);
    node.feed(Event::Launched(id(3)));
    let rejected = |actions: &[Action]| {
        let is_rejection = |action: &Action| matches!(action, Action::Note(Note::Rejected { .. }));
        actions.iter().any(is_rejection)
    };
    assert!(rejected(&node.arrive(opportunistic(4, 1))), "1 has no room");
    // A guaranteed container is never rejected: it waits, and counts.
    assert!(!rejected(&node.arrive(guaranteed(5, 80))));
    node.exit(3, 0);
    assert_eq!(node.waiting(), [5, 1]);
    assert!(rejected(&node.arrive(opportunistic(6, 1))));
}

#[test]
fn by_resources_a_capacity_is_reported_that_lets_the_resource_manager_place() {
    let queue_policy = OpportunisticContainersQueuePolicy::ByResources;
    let node = Node::with(
        ContainerSchedulerConfig {
            queue_policy,
            ..CONFIG
        },
        100,
    );
    let capacity = node.scheduler.opportunistic_status().opport_queue_capacity;
    assert_eq!(usize::try_from(capacity), Ok(QUEUE_LENGTH_MAX));
}

#[test]
fn a_lower_limit_sheds_the_newest() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 100));
    for number in 2..=5 {
        node.arrive(opportunistic(number, 50));
    }
    let actions = node.feed(limit(2));
    assert_eq!(
        actions,
        [
            Action::Note(Note::Shed {
                id: id(5),
                reason: ShedReason::QueueLength { limit: 2 }
            }),
            Action::CleanUp(id(5)),
            Action::Note(Note::Shed {
                id: id(4),
                reason: ShedReason::QueueLength { limit: 2 }
            }),
            Action::CleanUp(id(4)),
        ]
    );
    assert_eq!(node.waiting(), [2, 3]);
    let (status, diagnostics) = how_it_ended(&mut node, 5);
    assert_eq!(status, ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER);
    assert_eq!(
        diagnostics,
        "[1970-01-01 00:00:00.000]Container De-queued to meet NM queuing limits.\n\
         [1970-01-01 00:00:00.000]Container terminated before launch.\n"
    );
}

#[test]
fn a_limit_that_is_not_exceeded_sheds_nobody_and_is_remembered() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 100));
    node.arrive(opportunistic(2, 50));
    assert_eq!(node.feed(limit(1)), []);
    assert_eq!(
        node.scheduler.queuing_limit().unwrap().max_queue_length,
        Some(1)
    );
}

#[test]
fn guaranteed_containers_in_the_queue_are_never_shed() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 100));
    node.arrive(guaranteed(2, 50));
    assert_eq!(node.feed(limit(0)), []);
    assert_eq!(node.waiting(), [2]);
}

#[test]
fn a_container_is_accepted_once() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 1));
    let again = node.try_feed(Event::Start(guaranteed(1, 1)));
    assert_eq!(again, Err(Refusal::AlreadyKnown(id(1))));
}

#[test]
fn no_more_containers_are_accepted_than_the_bound() {
    let mut scheduler = ContainerScheduler::new(CONFIG, Resource::new(1, 1));
    let mut actions = Vec::new();
    for number in 0..i64::try_from(CONTAINERS_MAX).unwrap() {
        scheduler
            .handle(
                Event::Start(guaranteed(number, 1)),
                Now::default(),
                &mut actions,
            )
            .unwrap();
    }
    let ordered = actions.len();
    let one_more = Event::Start(guaranteed(-1, 1));
    assert_eq!(
        scheduler.handle(one_more, Now::default(), &mut actions),
        Err(Refusal::TooManyContainers(CONTAINERS_MAX))
    );
    assert_eq!(actions.len(), ordered);
}

#[test]
fn a_queue_of_ten_thousand_is_served_in_order() {
    let config = ContainerSchedulerConfig {
        queue_length_max: usize::MAX,
        ..CONFIG
    };
    let mut scheduler = ContainerScheduler::new(config, Resource::new(1, 1));
    let mut actions = Vec::new();
    let length = i64::try_from(QUEUE_LENGTH_MAX).unwrap();
    for number in 0..=length {
        for event in [
            Event::Start(opportunistic(number, 1)),
            Event::Localized(id(number)),
        ] {
            scheduler
                .handle(event, Now::default(), &mut actions)
                .unwrap();
        }
    }
    assert_eq!(
        scheduler.queue_length(ExecutionType::Opportunistic),
        QUEUE_LENGTH_MAX
    );
    actions.clear();
    for number in 0..length {
        let status = ContainerExitStatus::SUCCESS;
        let exited = Event::Exited {
            id: id(number),
            status,
            diagnostics: String::new(),
        };
        scheduler
            .handle(exited, Now::default(), &mut actions)
            .unwrap();
    }
    assert_eq!(launched(&actions), (1..=length).collect::<Vec<_>>());
    scheduler.assert_invariants();
}

#[test]
fn the_status_counts_what_runs_and_waits() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 30));
    node.run(opportunistic(2, 70));
    node.arrive(opportunistic(3, 20));
    node.arrive(guaranteed(4, 90));
    let status = node.scheduler.opportunistic_status();
    assert_eq!(
        (status.running_opport_containers, status.opport_cores_used),
        (1, 1)
    );
    assert_eq!(status.opport_memory_used_mb, 70);
    assert_eq!(
        (status.queued_opport_containers, status.wait_queue_length),
        (1, 2)
    );
    assert_eq!(status.opport_queue_capacity, 10);
    node.exit(2, 0);
    assert_eq!(
        node.scheduler
            .opportunistic_status()
            .running_opport_containers,
        0
    );
}
