//! Tests of the monitor, and of its order against Hadoop's.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;

const RACK: &str = "/default-rack";
const COMPARATORS: [LoadComparator; 3] = [
    LoadComparator::QueueLength,
    LoadComparator::QueueLengthThenResources,
    LoadComparator::QueueWaitTime,
];

fn node_id(host: &str) -> NodeId {
    NodeId {
        host: host.to_owned(),
        port: 8041,
    }
}

fn monitor(comparator: LoadComparator) -> NodeLoadMonitor {
    let config = NodeLoadConfig {
        comparator,
        queue_limit: QueueLimitConfig::default_for(comparator),
        ..NodeLoadConfig::default()
    };
    NodeLoadMonitor::new(config, MonoMillis(0))
}

fn queue(queue_length: u32, queue_capacity: u32) -> NodeLoad {
    NodeLoad {
        queue_length,
        queue_wait_time_ms: Some(0),
        queue_capacity,
        capability: Resource::new(4_096, 4),
        ..NodeLoad::default()
    }
}

fn hosts<'a>(ids: impl IntoIterator<Item = &'a NodeId>) -> Vec<&'a str> {
    ids.into_iter().map(|id| id.host.as_str()).collect()
}

#[test]
fn the_order_is_hadoops() {
    let mut lines = 0;
    for line in include_str!("../../testdata/load_order_3.4.2.txt").lines() {
        if line.starts_with('#') {
            continue;
        }
        let mut fields = line.split(' ');
        let mut field = || fields.next().unwrap();
        let mut monitor = monitor(field().parse().unwrap());
        for (at, node) in (0..).zip(field().split(';')) {
            let numbers: Vec<u32> = node.split(',').map(|n| n.parse().unwrap()).collect();
            let load = NodeLoad {
                queue_length: numbers[0],
                queue_wait_time_ms: Some(numbers[1]),
                queue_capacity: numbers[2],
                capability: Resource::new(numbers[3].into(), numbers[4]),
                allocated: Resource::new(numbers[5].into(), numbers[6]),
                decommissioning: false,
            };
            monitor.update(
                &node_id(&at.to_string()),
                RACK,
                &load,
                MonoMillis(1_000 + at),
            );
        }
        monitor.sort(MonoMillis(2_000));
        let expected: Vec<&str> = field().split(',').collect();
        assert_eq!(hosts(monitor.select(usize::MAX)), expected, "{line}");
        lines += 1;
    }
    assert_eq!(lines, 18);
}

#[test]
fn names_of_comparators_are_hadoops_and_others_are_refused() {
    for comparator in COMPARATORS {
        assert_eq!(comparator.as_str().parse(), Ok(comparator));
    }
    assert!("queue_length".parse::<LoadComparator>().is_err());
    assert!("".parse::<LoadComparator>().is_err());
}

#[test]
fn the_list_is_made_once_per_interval_and_the_first_time_after_one() {
    let mut monitor = monitor(LoadComparator::QueueLength);
    monitor.update(&node_id("a"), RACK, &queue(0, 5), MonoMillis(1));
    assert!(!monitor.tick(MonoMillis(999)));
    assert_eq!(monitor.least_loaded().count(), 0);
    assert_eq!(monitor.next_deadline(), MonoMillis(1_000));
    assert!(monitor.tick(MonoMillis(1_003)));
    assert_eq!(hosts(monitor.least_loaded()), ["a"]);
    assert_eq!(monitor.next_deadline(), MonoMillis(2_003));
}

#[test]
fn no_more_nodes_are_offered_than_configured() {
    let mut monitor = monitor(LoadComparator::QueueLength);
    for host in 0..12 {
        monitor.update(
            &node_id(&host.to_string()),
            RACK,
            &queue((12 - host).min(3), 0),
            MonoMillis(1),
        );
    }
    monitor.sort(MonoMillis(2));
    assert_eq!(monitor.least_loaded().count(), 10);
    assert_eq!(hosts(monitor.select(2)), ["11", "10"]);
    assert_eq!(monitor.select(usize::MAX).len(), 12);
}

#[test]
fn full_nodes_are_in_neither_the_list_nor_the_limit() {
    let mut monitor = monitor(LoadComparator::QueueLength);
    monitor.update(&node_id("full"), RACK, &queue(100, 100), MonoMillis(1));
    monitor.update(&node_id("free"), RACK, &queue(7, 100), MonoMillis(1));
    monitor.sort(MonoMillis(2));
    assert_eq!(hosts(monitor.select(usize::MAX)), ["free"]);
    assert_eq!(monitor.queuing_limit().max_queue_length, Some(7));
}

#[test]
fn a_node_at_the_published_limit_is_neither_offered_nor_given_anything() {
    let size = Resource::new(1, 1);
    for comparator in COMPARATORS {
        let mut monitor = monitor(comparator);
        let full = NodeLoad {
            allocated: Resource::new(4_096, 4),
            ..queue(5, 100)
        };
        for (host, queue_length) in [("a", 5), ("b", 4)] {
            let load = NodeLoad {
                queue_length,
                ..full
            };
            monitor.update(&node_id(host), RACK, &load, MonoMillis(1));
        }
        monitor.sort(MonoMillis(2));
        // By wait the limit is a time, which nodes ignore.
        let is_limited = comparator != LoadComparator::QueueWaitTime;
        let takes = |monitor: &mut NodeLoadMonitor, host| {
            monitor.compare_and_increment(&node_id(host), size)
        };
        assert_eq!(monitor.least_loaded().count(), 2 - usize::from(is_limited));
        let expected = match is_limited {
            true => Offered::Exhausted,
            false => Offered::Taken,
        };
        let offered = monitor.offer(&node_id("a"), size);
        assert_eq!(offered, expected, "{comparator:?}");
        // A node below the limit takes several, as it may start them.
        assert!(takes(&mut monitor, "b") && takes(&mut monitor, "b"));
        monitor.update(&node_id("b"), RACK, &full, MonoMillis(3));
        assert_eq!(takes(&mut monitor, "b"), !is_limited, "{comparator:?}");
    }
}

#[test]
fn a_limit_of_none_waiting_leaves_idle_nodes_usable() {
    let mut config = NodeLoadConfig::default();
    (config.queue_limit.min, config.queue_limit.max) = (0, 0);
    let mut monitor = NodeLoadMonitor::new(config, MonoMillis(0));
    monitor.update(&node_id("idle"), RACK, &queue(0, 5), MonoMillis(1));
    monitor.update(&node_id("busy"), RACK, &queue(1, 5), MonoMillis(1));
    monitor.sort(MonoMillis(2));
    assert_eq!(monitor.queuing_limit().max_queue_length, Some(0));
    assert_eq!(hosts(monitor.least_loaded()), ["idle"]);
}

#[test]
fn the_capacity_of_a_queue_is_that_of_the_first_heartbeat_until_the_node_comes_anew() {
    let mut monitor = monitor(LoadComparator::QueueLength);
    let id = node_id("a");
    monitor.update(&id, RACK, &queue(0, 5), MonoMillis(1));
    monitor.update(&id, RACK, &queue(0, 9), MonoMillis(2));
    assert_eq!(monitor.node(&id).unwrap().queue_capacity, 5);
    monitor.remove(&id);
    monitor.update(&id, RACK, &queue(0, 9), MonoMillis(3));
    assert_eq!(monitor.node(&id).unwrap().queue_capacity, 9);
}

#[test]
fn a_node_that_leaves_is_not_offered_any_more() {
    let mut monitor = monitor(LoadComparator::QueueLength);
    for host in ["a", "b", "c"] {
        monitor.update(&node_id(host), RACK, &queue(0, 5), MonoMillis(1));
    }
    monitor.sort(MonoMillis(2));
    monitor.remove(&node_id("a"));
    let leaving = NodeLoad {
        decommissioning: true,
        ..queue(0, 5)
    };
    monitor.update(&node_id("b"), RACK, &leaving, MonoMillis(3));
    assert_eq!(hosts(monitor.least_loaded()), ["c"]);
    assert_eq!(hosts(monitor.select(9)), ["c"]);
    assert_eq!(monitor.nodes_of_rack(RACK).count(), 1);
    monitor.remove(&node_id("c"));
    assert_eq!(monitor.nodes_of_rack(RACK).count(), 0);
}

#[test]
fn only_a_comparison_by_wait_needs_nodes_that_can_tell_theirs() {
    let silent = NodeLoad {
        queue_wait_time_ms: None,
        ..queue(0, 5)
    };
    for comparator in COMPARATORS {
        let mut monitor = monitor(comparator);
        monitor.update(&node_id("a"), RACK, &silent, MonoMillis(1));
        let kept = comparator != LoadComparator::QueueWaitTime;
        assert_eq!(monitor.nodes().count(), usize::from(kept));
    }
}

#[test]
fn by_length_a_node_takes_one_more_only_with_a_place_in_its_queue() {
    let mut monitor = monitor(LoadComparator::QueueLength);
    let id = node_id("a");
    monitor.update(&id, RACK, &queue(1, 2), MonoMillis(1));
    assert!(monitor.compare_and_increment(&id, Resource::new(1, 1)));
    assert!(!monitor.compare_and_increment(&id, Resource::new(1, 1)));
    assert_eq!(monitor.node(&id).unwrap().queue_length, 2);
    monitor.update(&id, RACK, &queue(0, 2), MonoMillis(2));
    assert!(monitor.compare_and_increment(&id, Resource::new(1, 1)));
    assert!(!monitor.compare_and_increment(&node_id("b"), Resource::new(1, 1)));
}

#[test]
fn by_wait_a_node_takes_any_number() {
    let mut monitor = monitor(LoadComparator::QueueWaitTime);
    monitor.update(&node_id("a"), RACK, &queue(9, 2), MonoMillis(1));
    assert!(monitor.compare_and_increment(&node_id("a"), Resource::new(1 << 40, 1)));
    assert_eq!(monitor.node(&node_id("a")).unwrap().queue_length, 9);
}

#[test]
fn by_resources_what_fits_takes_room_what_could_fit_waits_and_what_never_fits_is_refused() {
    let mut monitor = monitor(LoadComparator::QueueLengthThenResources);
    let id = node_id("a");
    monitor.update(&id, RACK, &queue(0, 1), MonoMillis(1));
    let half = Resource::new(2_048, 2);
    assert!(!monitor.compare_and_increment(&id, Resource::new(4_097, 1)));
    assert!(monitor.compare_and_increment(&id, half));
    assert!(monitor.compare_and_increment(&id, half));
    let node = monitor.node(&id).unwrap();
    assert_eq!(
        (node.available(), node.queue_length),
        (Resource::default(), 0)
    );
    assert!(monitor.compare_and_increment(&id, half));
    assert!(!monitor.compare_and_increment(&id, half));
    assert_eq!(monitor.node(&id).unwrap().queue_length, 1);
}

#[test]
fn the_nodes_of_a_host_are_told_apart_by_their_ports() {
    let mut monitor = monitor(LoadComparator::QueueLength);
    for (host, port, length) in [("a", 1, 3), ("a", 65_535, 1), ("b", 1, 0), ("a-b", 1, 0)] {
        let host = host.to_owned();
        monitor.update(
            &NodeId { host, port },
            RACK,
            &queue(length, 5),
            MonoMillis(1),
        );
    }
    let ports: Vec<u16> = monitor.nodes_of_host("a").iter().map(|n| n.port).collect();
    assert_eq!(ports, [65_535, 1]);
    assert!(monitor.nodes_of_host("c").is_empty());
}

fn any_resource() -> impl Strategy<Value = Resource> {
    prop_oneof![
        (0..4_u64, 0..4_u32).prop_map(|(m, v)| Resource::new(m, v)),
        any::<(u64, u32)>().prop_map(|(m, v)| Resource::new(m, v)),
    ]
}

fn any_node() -> impl Strategy<Value = (NodeId, ClusterNode)> {
    let small = || prop_oneof![0..3_u32, any::<u32>()];
    (
        0..3_u8,
        small(),
        prop::option::of(small()),
        any_resource(),
        any_resource(),
        prop_oneof![0..3_u64, any::<u64>()],
    )
        .prop_map(|(id, length, wait, capability, allocated, updated)| {
            let node = ClusterNode {
                rack: RACK.to_owned(),
                queue_length: length,
                waiting: length,
                queue_wait_time_ms: wait,
                queue_capacity: 0,
                capability,
                allocated,
                updated: MonoMillis(updated),
            };
            (node_id(&id.to_string()), node)
        })
}

proptest! {
    #[test]
    fn every_comparator_is_a_total_order(
        nodes in prop::array::uniform3(any_node()),
        cluster in any_resource(),
    ) {
        for comparator in COMPARATORS {
            let compare = |a: usize, b: usize| {
                let [a, b] = [a, b].map(|at| (&nodes[at].0, &nodes[at].1));
                comparator.compare(cluster, a, b)
            };
            for a in 0..3 {
                prop_assert_eq!(compare(a, a), Ordering::Equal);
                for b in 0..3 {
                    prop_assert_eq!(compare(a, b), compare(b, a).reverse());
                    if compare(a, b) == Ordering::Equal {
                        prop_assert_eq!(&nodes[a].0, &nodes[b].0);
                    }
                    for c in 0..3 {
                        if compare(a, b).is_le() && compare(b, c).is_le() {
                            prop_assert!(compare(a, c).is_le());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_list_has_each_usable_node_once_in_order(
        nodes in prop::collection::btree_map(0..50_u32, (0..4_u32, 0..4_u32, 0..3_u64), 0..30),
    ) {
        let mut monitor = monitor(LoadComparator::QueueLength);
        let mut expected = Vec::new();
        for (host, (length, capacity, updated)) in nodes {
            let id = node_id(&host.to_string());
            monitor.update(&id, RACK, &queue(length, capacity), MonoMillis(updated));
            if capacity == 0 || length < capacity {
                expected.push((length, std::cmp::Reverse(updated), id));
            }
        }
        expected.sort();
        monitor.sort(MonoMillis(10));
        let found: Vec<_> = monitor.select(usize::MAX).to_vec();
        prop_assert_eq!(found, expected.into_iter().map(|(_, _, id)| id).collect::<Vec<_>>());
    }
}

#[test]
fn the_last_heartbeat_of_a_node_counts() {
    let mut monitor = monitor(LoadComparator::QueueWaitTime);
    let wait = |ms| NodeLoad {
        queue_wait_time_ms: Some(ms),
        ..queue(0, 5)
    };
    let mut heartbeat = |host: &str, ms, at| {
        monitor.update(&node_id(host), RACK, &wait(ms), MonoMillis(at));
        monitor.sort(MonoMillis(at));
        hosts(monitor.select(9)).concat()
    };
    heartbeat("a", 10, 1);
    assert_eq!(heartbeat("b", 20, 2), "ab");
    assert_eq!(heartbeat("a", 30, 3), "ba");
    // Among nodes with equal waits, the one that reported last comes first.
    assert_eq!(heartbeat("b", 30, 4), "ba");
    assert_eq!(heartbeat("a", 30, 5), "ab");
}

#[test]
fn by_resources_the_larger_of_the_scarcer_shares_comes_first() {
    let mut monitor = monitor(LoadComparator::QueueLengthThenResources);
    // Both types together have 10,000 MiB and 100 cores.
    for (host, memory_mb, vcores) in [("a", 8_000, 10), ("b", 2_000, 90)] {
        let load = NodeLoad {
            capability: Resource::new(memory_mb, vcores),
            ..queue(0, 5)
        };
        monitor.update(&node_id(host), RACK, &load, MonoMillis(1));
    }
    monitor.sort(MonoMillis(1));
    assert_eq!(hosts(monitor.select(9)), ["b", "a"]);
}
