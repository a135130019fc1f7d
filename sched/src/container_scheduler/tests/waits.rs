use super::*;
use crate::action::{ContainerQueuingLimit, KillReason};
use crate::config::OpportunisticContainersQueuePolicy;

impl Node {
    /// Returns the estimate that the next heartbeat would report.
    fn estimate(&mut self) -> Option<u32> {
        assert_eq!(self.feed(Event::EstimateWaits), []);
        self.scheduler
            .opportunistic_status()
            .estimated_queue_wait_ms
    }

    /// Runs one container per run time, with ids from -1 downward.
    fn learn(&mut self, run_times_ms: &[u64]) {
        for (number, ms) in (1..).zip(run_times_ms) {
            self.run(opportunistic(-number, 1));
            self.advance(*ms);
            self.exit(-number, 0);
        }
    }
}

#[test]
fn beside_room_the_estimate_is_no_wait() {
    let mut node = Node::new(2_048);
    node.run(opportunistic(1, 1_024));
    assert_eq!(node.estimate(), Some(0));
}

#[test]
fn the_wait_is_what_those_that_run_have_left() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    node.run(opportunistic(1, 50));
    node.advance(4_000);
    node.run(opportunistic(2, 50));
    assert_eq!(node.estimate(), Some(6_000));
    node.advance(1_000);
    assert_eq!(node.estimate(), Some(5_000));
}

#[test]
fn those_that_wait_already_start_first() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    node.run(opportunistic(1, 50));
    node.advance(4_000);
    node.run(opportunistic(2, 50));
    node.arrive(opportunistic(3, 100));
    node.arrive(opportunistic(4, 50));
    // 1 ends after 6 s and 2 after 10 s: then 3 starts. After 20 s 4 starts, and beside it fits
    // another container of its size.
    assert_eq!(node.estimate(), Some(20_000));
    node.arrive(guaranteed(5, 10));
    let waits = node.scheduler.waits(node.now.mono);
    assert!(waits.waiting.len() >= 2 && waits.newcomer >= 10_000);
}

#[test]
fn the_wait_is_that_of_a_container_like_the_last_one() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    node.run(opportunistic(1, 50));
    node.advance(4_000);
    node.run(opportunistic(2, 50));
    let stop = |number| Event::Kill {
        id: id(number),
        reason: KillReason::ApplicationMaster,
    };
    node.arrive(opportunistic(3, 100));
    node.feed(stop(3));
    assert_eq!(node.estimate(), Some(10_000), "both must end");
    node.arrive(opportunistic(4, 10));
    node.feed(stop(4));
    assert_eq!(node.estimate(), Some(6_000), "one is enough");
}

/// Asserts that containers of the size of the evicted ones are still expected to run for 10 s.
fn assert_evictions_taught_nothing(node: &mut Node) {
    // A container of the class whose mean the evicted ones would have shortened.
    node.run(opportunistic(20, 1));
    node.arrive(opportunistic(21, 100));
    assert_eq!(
        node.estimate(),
        Some(20_000),
        "the rest of both, one after the other"
    );
}

#[test]
fn run_times_are_those_of_the_application_and_evictions_do_not_count() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    for number in 1..=3 {
        node.run(opportunistic(number, 1));
        node.advance(7);
        node.arrive(guaranteed(number + 10, 100));
        node.exit(number, 143);
        node.feed(Event::Launched(id(number + 10)));
        node.advance(10_000);
        node.exit(number + 10, 0);
    }
    assert_evictions_taught_nothing(&mut node);
}

#[test]
fn run_times_are_learnt_when_the_processes_are_gone() {
    let mut node = Node::new(100);
    for number in 1..=3 {
        node.run(opportunistic(number, 100));
        node.advance(10_000);
        node.feed(Event::ProcessesGone(id(number)));
        // Reading the output takes a while, and is no part of the run.
        node.advance(700);
        node.exit(number, 0);
        node.completion(number);
    }
    node.run(opportunistic(4, 100));
    node.advance(1_000);
    assert_eq!(node.estimate(), Some(9_000));
}

#[test]
fn an_eviction_teaches_nothing_when_its_processes_are_gone() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    for number in 1..=3 {
        node.run(opportunistic(number, 1));
        node.advance(7);
        let guaranteed = guaranteed(number + 10, 100);
        assert_eq!(evicted(&node.arrive(guaranteed)), [number]);
        node.feed(Event::ProcessesGone(id(number)));
        node.exit(number, 143);
        node.feed(Event::Launched(guaranteed.id));
        node.advance(10_000);
        node.feed(Event::ProcessesGone(guaranteed.id));
        node.exit(number + 10, 0);
    }
    assert_evictions_taught_nothing(&mut node);
}

#[test]
fn a_launch_that_its_master_stops_teaches_no_run_time() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    for number in 1..=3 {
        node.arrive(opportunistic(number, 100));
        node.feed(Event::Kill {
            id: id(number),
            reason: KillReason::ApplicationMaster,
        });
        node.feed(Event::ProcessesGone(id(number)));
        node.exit(number, 143);
    }
    node.run(opportunistic(4, 100));
    assert_eq!(node.estimate(), Some(10_000));
}

#[test]
fn a_container_stopped_by_its_master_shows_how_long_it_was_of_use() {
    let mut node = Node::new(100);
    for number in 1..=3 {
        node.run(opportunistic(number, 100));
        node.advance(2_000);
        node.feed(Event::Kill {
            id: id(number),
            reason: KillReason::ApplicationMaster,
        });
        node.advance(100);
        assert_eq!(node.estimate(), Some(150), "the rest of the grace");
        node.exit(number, 143);
    }
    node.run(opportunistic(4, 100));
    assert_eq!(node.estimate(), Some(2_000));
}

#[test]
fn a_thawed_container_has_only_its_rest_to_run() {
    let mut node = Node::with(
        ContainerSchedulerConfig {
            use_pause_for_preemption: true,
            ..CONFIG
        },
        100,
    );
    node.learn(&[10_000; 3]);
    node.run(opportunistic(1, 100));
    node.advance(7_000);
    node.arrive(guaranteed(2, 100));
    node.feed(paused(1));
    node.feed(Event::Launched(id(2)));
    node.advance(10_000);
    node.exit(2, 0);
    assert_eq!(node.state(1).rest_state(), "RESUMING");
    assert_eq!(node.estimate(), Some(3_000));
}

#[test]
fn a_node_that_takes_nobody_has_no_estimate() {
    let none = ContainerSchedulerConfig {
        queue_length_max: 0,
        ..CONFIG
    };
    assert_eq!(Node::with(none, 100).estimate(), None);
    let mut node = Node::with(
        ContainerSchedulerConfig {
            queue_policy: OpportunisticContainersQueuePolicy::ByResources,
            ..CONFIG
        },
        100,
    );
    assert_eq!(node.estimate(), Some(0));
    node.run(opportunistic(1, 60));
    assert_eq!(node.estimate(), None, "another of 60 would be rejected");
    node.exit(1, 0);
    assert_eq!(node.estimate(), Some(0));
}

/// Hadoop: `ContainerScheduler.shedQueuedOpportunisticContainers` reads the length alone.
#[test]
fn a_limit_of_the_wait_sheds_nothing() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    node.run(opportunistic(1, 100));
    for number in 2..=5 {
        node.arrive(opportunistic(number, 100));
    }
    let limit = Event::QueuingLimit(ContainerQueuingLimit {
        max_queue_length: None,
        max_queue_wait_time_ms: Some(0),
    });
    assert_eq!(node.feed(limit), []);
    assert_eq!(node.waiting(), [2, 3, 4, 5]);
}

#[test]
fn a_start_notes_the_wait_reported_when_the_container_came() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    node.run(opportunistic(1, 100));
    node.advance(3_000);
    node.estimate();
    node.arrive(opportunistic(2, 100));
    node.advance(6_500);
    let actions = node.exit(1, 0);
    let started = Note::Started {
        id: id(2),
        execution_type: ExecutionType::Opportunistic,
        queue_wait_ms: 6_500,
        reported_wait_ms: Some(7_000),
        estimated_wait_ms: None,
        resumed: false,
    };
    assert!(actions.contains(&Action::Note(started)), "{actions:?}");
}

/// Returns the reported, estimated and actual wait of each started container, by its number.
fn started(actions: &[Action]) -> Vec<(i64, Option<u64>, Option<u64>, u64)> {
    let started = |action: &Action| {
        if let Action::Note(Note::Started {
            id,
            queue_wait_ms,
            reported_wait_ms,
            estimated_wait_ms,
            ..
        }) = action
        {
            Some((id.id, *reported_wait_ms, *estimated_wait_ms, *queue_wait_ms))
        } else {
            None
        }
    };
    actions.iter().filter_map(started).collect()
}

#[test]
fn each_of_a_burst_is_estimated_at_its_own_place_and_only_once() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    node.run(opportunistic(1, 100));
    node.advance(3_000);
    node.arrive(opportunistic(2, 100));
    node.arrive(opportunistic(3, 100));
    node.advance(1_000);
    node.estimate();
    node.arrive(opportunistic(4, 100));
    node.advance(1_000);
    node.estimate();
    node.advance(1_500);
    // The reported wait dates from before the first of these containers joined the queue.
    let first = started(&node.exit(1, 0));
    assert_eq!(first, [(2, Some(0), Some(7_000), 3_500)]);
    node.feed(Event::Launched(id(2)));
    let second = started(&node.exit(2, 0));
    assert_eq!(second, [(3, Some(0), Some(17_000), 3_500)]);
    node.feed(Event::Launched(id(3)));
    let third = started(&node.exit(3, 0));
    assert_eq!(third, [(4, Some(26_000), Some(26_000), 2_500)]);
}

#[test]
fn who_starts_before_a_heartbeat_or_on_a_node_that_knows_nothing_has_no_estimate() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 100));
    node.arrive(opportunistic(2, 100));
    node.estimate();
    node.advance(500);
    assert_eq!(started(&node.exit(1, 0)), [(2, Some(0), None, 500)]);
    node.arrive(opportunistic(3, 100));
    node.feed(Event::Launched(id(2)));
    node.advance(200);
    assert_eq!(started(&node.exit(2, 0)), [(3, Some(120_000), None, 200)]);
}

#[test]
fn a_full_queue_is_estimated_although_it_takes_nobody() {
    let config = ContainerSchedulerConfig {
        queue_length_max: 1,
        ..CONFIG
    };
    let mut node = Node::with(config, 100);
    node.learn(&[10_000; 3]);
    node.run(opportunistic(1, 100));
    node.arrive(opportunistic(2, 100));
    assert_eq!(node.estimate(), None, "another would be rejected");
    node.advance(9_000);
    assert_eq!(
        started(&node.exit(1, 0)),
        [(2, Some(0), Some(10_000), 9_000)]
    );
}

#[test]
fn a_promoted_container_waits_as_guaranteed_from_its_promotion() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 100));
    node.arrive(opportunistic(2, 100));
    node.advance(5_000);
    node.feed(Event::Update(ContainerSpec {
        version: 1,
        ..guaranteed(2, 100)
    }));
    node.advance(300);
    let actions = node.exit(1, 0);
    let started = Note::Started {
        id: id(2),
        execution_type: ExecutionType::Guaranteed,
        queue_wait_ms: 300,
        reported_wait_ms: None,
        estimated_wait_ms: None,
        resumed: false,
    };
    assert!(actions.contains(&Action::Note(started)), "{actions:?}");
}

#[test]
fn localization_is_no_part_of_a_wait() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    node.run(opportunistic(1, 100));
    node.feed(Event::Start(opportunistic(2, 100)));
    node.advance(4_000);
    node.feed(Event::Localized(id(2)));
    node.estimate();
    node.advance(6_000);
    let waited = started(&node.exit(1, 0));
    assert_eq!(waited, [(2, Some(0), Some(6_000), 6_000)]);
}

#[test]
fn the_wait_of_opportunistic_containers_is_none_of_guaranteed_ones() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 100));
    node.estimate();
    node.arrive(guaranteed(2, 50));
    let waited = started(&node.exit(1, 0));
    assert_eq!(waited, [(2, None, None, 0)]);
}

#[test]
fn a_promoted_container_loses_the_estimate_of_its_wait_as_opportunistic() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    node.run(guaranteed(1, 100));
    node.arrive(opportunistic(2, 100));
    node.estimate();
    node.feed(Event::Update(ContainerSpec {
        version: 1,
        ..guaranteed(2, 100)
    }));
    node.advance(300);
    assert_eq!(started(&node.exit(1, 0)), [(2, None, None, 300)]);
}

#[test]
fn a_container_that_is_being_frozen_is_expected_to_free_its_room_at_once() {
    let config = ContainerSchedulerConfig {
        use_pause_for_preemption: true,
        ..CONFIG
    };
    let mut node = Node::with(config, 100);
    node.learn(&[10_000; 3]);
    node.run(opportunistic(1, 100));
    node.advance(7_000);
    node.arrive(guaranteed(2, 100));
    assert_eq!(node.state(1).rest_state(), "PAUSING");
    assert_eq!(node.estimate(), Some(10_000), "the whole run of 2");
}

#[test]
fn the_wait_of_one_more_is_of_the_same_moment_as_those_of_the_queue() {
    let mut node = Node::new(100);
    node.learn(&[10_000; 3]);
    assert_eq!(node.estimate(), Some(0), "there is room");
    node.run(opportunistic(1, 50));
    node.advance(4_000);
    node.run(opportunistic(2, 50));
    node.arrive(opportunistic(3, 50));
    let (now, scheduler) = (node.now.mono, &node.scheduler);
    assert_eq!(scheduler.estimated_waits(now), [6_000]);
    assert_eq!(scheduler.estimated_newcomer_wait(now), Some(10_000));
    let reported = scheduler.opportunistic_status();
    assert_eq!(
        reported.estimated_queue_wait_ms,
        Some(0),
        "of the last heartbeat"
    );
    assert_eq!(node.estimate(), Some(10_000));
}
