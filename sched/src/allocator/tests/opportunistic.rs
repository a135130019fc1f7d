//! Tests of the opportunistic allocator: shortest queues first, evenly, and no full queue.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::allocator::{OpportunisticContainerAllocator, OpportunisticContainerContext};
use crate::node_load::{LoadComparator, NodeLoad, NodeLoadConfig, NodeLoadMonitor};
use crate::random::{Draw, SplitMix64};

/// Creates a monitor with these places in the nodes' queues, sorted.
fn cluster(comparator: LoadComparator, nodes: &[(&str, &str, u32)]) -> NodeLoadMonitor {
    let config = NodeLoadConfig {
        comparator,
        ..NodeLoadConfig::default()
    };
    let mut monitor = NodeLoadMonitor::new(config, T0);
    for (host, rack, queue_capacity) in nodes {
        let load = NodeLoad {
            queue_wait_time_ms: Some(0),
            queue_capacity: *queue_capacity,
            capability: Resource::new(4_096, 4),
            ..NodeLoad::default()
        };
        monitor.update(&node_id(host), rack, &load, T0);
    }
    monitor.sort(T0);
    monitor
}

fn by_length(nodes: &[(&str, &str, u32)]) -> NodeLoadMonitor {
    cluster(LoadComparator::QueueLength, nodes)
}

fn wanting(requests: &[ResourceRequest]) -> OpportunisticContainerContext {
    let mut context = OpportunisticContainerContext::new();
    context.update_asks(requests, T0).unwrap();
    context
}

fn allocate_at_most(
    max: u32,
    context: &mut OpportunisticContainerContext,
    nodes: &mut NodeLoadMonitor,
    random: &mut impl Draw,
) -> Vec<ContainerAllocation> {
    let allocator = OpportunisticContainerAllocator {
        max_per_heartbeat: NonZeroU32::new(max),
    };
    let mut next = ids();
    allocator.allocate(context, nodes, random, || next(attempt(1)))
}

fn allocate(
    context: &mut OpportunisticContainerContext,
    nodes: &mut NodeLoadMonitor,
) -> Vec<ContainerAllocation> {
    allocate_at_most(0, context, nodes, &mut SplitMix64::new(1))
}

fn per_host(allocations: &[ContainerAllocation]) -> BTreeMap<&str, u32> {
    let mut counts = BTreeMap::new();
    for allocation in allocations {
        *counts.entry(allocation.node_id.host.as_str()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn hosts_come_before_racks_and_racks_before_the_rest_while_their_queues_have_room() {
    let mut nodes = by_length(&[("a", RACK_1, 1), ("b", RACK_1, 1), ("c", RACK_2, 9)]);
    let mut context = wanting(&[ask("a", 3), ask(RACK_1, 3), ask("*", 3)]);
    let allocations = allocate(&mut context, &mut nodes);
    assert_eq!(
        places(&allocations),
        [
            ("a", Locality::NodeLocal),
            ("b", Locality::RackLocal),
            ("c", Locality::OffSwitch)
        ]
    );
    assert!(context.asks().is_empty());
}

#[test]
fn full_queues_take_nothing_and_the_rest_stays_outstanding() {
    let mut nodes = by_length(&[("a", RACK_1, 2), ("b", RACK_1, 3)]);
    let mut context = wanting(&[ask("*", 9)]);
    let allocations = allocate(&mut context, &mut nodes);
    assert_eq!(per_host(&allocations), [("a", 2), ("b", 3)].into());
    assert_eq!(context.asks().containers(), 4);
    assert!(allocate(&mut context, &mut nodes).is_empty());
}

#[test]
fn nodes_without_a_queue_get_nothing_by_length() {
    let mut nodes = by_length(&[("a", RACK_1, 0)]);
    assert!(allocate(&mut wanting(&[ask("*", 1)]), &mut nodes).is_empty());
}

#[test]
fn by_resources_free_room_is_used_before_queues() {
    let mut nodes = cluster(
        LoadComparator::QueueLengthThenResources,
        &[("a", RACK_1, 0)],
    );
    assert_eq!(allocate(&mut wanting(&[ask("*", 9)]), &mut nodes).len(), 4);
}

#[test]
fn the_nodes_of_one_host_share_what_is_wanted_there() {
    let mut nodes = by_length(&[]);
    for port in 1..=3 {
        let host = "a".to_owned();
        let load = NodeLoad {
            queue_capacity: 9,
            ..NodeLoad::default()
        };
        nodes.update(&NodeId { host, port }, RACK_1, &load, T0);
    }
    let mut context = wanting(&[ask("a", 6), ask("*", 6)]);
    assert_eq!(allocate(&mut context, &mut nodes).len(), 6);
    assert!(nodes.nodes().all(|(_, node)| node.queue_length == 2));
}

#[test]
fn blacklisted_hosts_get_nothing() {
    let mut nodes = by_length(&[("a", RACK_1, 9), ("b", RACK_1, 9)]);
    let mut context = wanting(&[ask("a", 2), ask(RACK_1, 2), ask("*", 4)]);
    context.update_blacklist(&["a".to_owned()], &[]).unwrap();
    let allocations = allocate(&mut context, &mut nodes);
    assert_eq!(per_host(&allocations), [("b", 4)].into());
}

#[test]
fn a_heartbeat_gets_no_more_than_configured() {
    let mut nodes = by_length(&[("a", RACK_1, 99)]);
    let lines = [at_priority(1, ask("*", 3)), at_priority(2, ask("*", 3))];
    let mut context = wanting(&lines);
    let mut random = SplitMix64::new(1);
    let mut turn = || allocate_at_most(4, &mut context, &mut nodes, &mut random).len();
    assert_eq!([turn(), turn(), turn()], [4, 2, 0]);
}

#[test]
fn an_answer_is_bounded_where_nodes_take_any_number() {
    let mut nodes = cluster(LoadComparator::QueueWaitTime, &[("a", RACK_1, 0)]);
    let mut context = wanting(&[ask("*", u32::MAX)]);
    let most = crate::ALLOCATIONS_PER_CALL_MAX;
    assert_eq!(allocate(&mut context, &mut nodes).len(), most as usize);
    assert_eq!(context.asks().containers(), u64::from(u32::MAX - most));
}

#[test]
fn a_faulty_source_of_chance_is_harmless() {
    struct Faulty;
    impl Draw for Faulty {
        fn below(&mut self, _bound: usize) -> usize {
            usize::MAX
        }
    }
    let mut nodes = by_length(&[("a", RACK_1, 1), ("b", RACK_1, 1)]);
    let mut context = wanting(&[ask(RACK_1, 1), ask("*", 2)]);
    let allocations = allocate_at_most(0, &mut context, &mut nodes, &mut Faulty);
    assert_eq!(allocations.len(), 2);
}

#[test]
fn the_first_node_of_a_call_is_drawn() {
    let mut firsts = BTreeMap::new();
    for seed in 0..20 {
        let mut nodes = by_length(&[("a", RACK_1, 9), ("b", RACK_1, 9)]);
        let random = &mut SplitMix64::new(seed);
        let given = allocate_at_most(1, &mut wanting(&[ask("*", 1)]), &mut nodes, random);
        *firsts.entry(given[0].node_id.host.clone()).or_insert(0) += 1;
    }
    assert_eq!(firsts.len(), 2, "{firsts:?}");
}

#[test]
fn without_nodes_nothing_happens() {
    let mut context = wanting(&[ask("a", 1), ask(RACK_1, 1), ask("*", 1)]);
    assert!(allocate(&mut context, &mut by_length(&[])).is_empty());
    assert_eq!(context.asks().containers(), 1);
}

proptest! {
    #[test]
    fn a_burst_spreads_evenly_over_nodes_with_room(
        count in 1..10_usize,
        burst in 1..60_u32,
        seed in any::<u64>(),
    ) {
        let hosts: Vec<String> = (0..count).map(|h| h.to_string()).collect();
        let nodes: Vec<_> = hosts.iter().map(|h| (h.as_str(), RACK_1, 100)).collect();
        for line in [ask("*", burst), ask(RACK_1, burst)] {
            let mut nodes = by_length(&nodes);
            let mut context = wanting(&[line, ask("*", burst)]);
            let random = &mut SplitMix64::new(seed);
            allocate_at_most(0, &mut context, &mut nodes, random);
            let lengths = || nodes.nodes().map(|(_, node)| node.queue_length);
            prop_assert_eq!(lengths().sum::<u32>(), burst);
            prop_assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1);
        }
    }
}
