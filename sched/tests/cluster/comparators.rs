//! `BY_RESOURCES` nodes under an allocator with each comparator: what a node reports as its
//! capacity, and what the allocator makes of it, belong together.

use std::collections::BTreeMap;

use records::{ContainerId, MonoMillis};
use sched::{
    ContainerSchedulerConfig, Event, LoadComparator, NodeLoadConfig, NodeLoadMonitor,
    OpportunisticContainerAllocator, OpportunisticContainerContext,
    OpportunisticContainersQueuePolicy, SplitMix64,
};
use test_support::ids::attempt;

use crate::node::{News, SimulatedNode, ask};

const NODES: usize = 4;
const PLACES: u32 = 8;
const CONTAINERS: u32 = 80;
const RUN_MS: u64 = 3_000;

/// Course of a job on `BY_RESOURCES` nodes.
struct Course {
    /// Containers that nodes turned away.
    refused: u32,
    /// Virtual time at which the last container ended.
    took_ms: u64,
}

/// Runs a job whose master asks again for what was refused. A second has, in this order: ends of
/// containers, heartbeats, the allocator's sort, the master's call.
fn run(comparator: LoadComparator) -> Course {
    let config = ContainerSchedulerConfig {
        queue_policy: OpportunisticContainersQueuePolicy::ByResources,
        load_comparator: comparator,
        ..ContainerSchedulerConfig::default()
    };
    let mut nodes: Vec<_> = (0..NODES)
        .map(|number| SimulatedNode::new(number, PLACES, config))
        .collect();
    let load = NodeLoadConfig {
        comparator,
        ..NodeLoadConfig::default()
    };
    let mut monitor = NodeLoadMonitor::new(load, MonoMillis(0));
    let mut context = OpportunisticContainerContext::new();
    let mut random = SplitMix64::new(1);
    let mut ends: BTreeMap<ContainerId, (u64, usize)> = BTreeMap::new();
    let (mut last_id, mut wanted, mut succeeded, mut refused) = (0, CONTAINERS, 0, 0);
    for second in 1..=600 {
        let now = MonoMillis(second * 1_000);
        let mut news = Vec::new();
        for (id, (_, node)) in ends.extract_if(.., |_, (at, _)| *at <= now.0) {
            news.extend(nodes[node].exit(id, now).into_iter().map(|n| (node, n)));
        }
        for node in &mut nodes {
            assert_eq!(node.feed(Event::EstimateWaits, now), []);
            let load = node.load();
            monitor.update(&node.id, "/rack", &load, now);
        }
        monitor.sort(now);
        context.update_asks(&[ask(wanted)], now).unwrap();
        let given = OpportunisticContainerAllocator::default().allocate(
            &mut context,
            &mut monitor,
            &mut random,
            || {
                last_id += 1;
                attempt(1).container(last_id)
            },
        );
        wanted -= u32::try_from(given.len()).unwrap();
        for container in given {
            let node = nodes
                .iter()
                .position(|node| node.id == container.node_id)
                .unwrap();
            let arrival = nodes[node].start(container.container_id, now);
            news.extend(arrival.into_iter().map(|n| (node, n)));
        }
        for (node, news) in news {
            match news {
                News::Started(id) => {
                    ends.insert(id, (now.0 + RUN_MS, node));
                }
                News::Succeeded(_) => succeeded += 1,
                News::Refused(_) => {
                    refused += 1;
                    wanted += 1;
                }
                News::Shed(id) => panic!("{id} was shed without a limit"),
            }
        }
        if succeeded == CONTAINERS {
            let took_ms = now.0;
            return Course { refused, took_ms };
        }
    }
    panic!("{comparator:?}: {succeeded} of {CONTAINERS} have succeeded");
}

#[test]
fn with_queue_length_then_resources_nothing_is_placed_on_a_full_node() {
    let course = run(LoadComparator::QueueLengthThenResources);
    assert_eq!(course.refused, 0);
    // 80 containers in 32 places need three rounds; each starts a second after the last has ended.
    assert!(course.took_ms <= 13_000, "{}", course.took_ms);
}

#[test]
fn with_the_other_comparators_a_job_comes_to_its_end() {
    for comparator in [LoadComparator::QueueLength, LoadComparator::QueueWaitTime] {
        let course = run(comparator);
        assert!(
            course.took_ms <= 60_000,
            "{comparator:?}: {}",
            course.took_ms
        );
    }
}
