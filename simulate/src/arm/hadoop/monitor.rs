//! Hadoop's monitor of the nodes' loads (`NodeQueueLoadMonitor`): the list that both of Hadoop's
//! allocators read, and the limit of the queues.
//!
//! The monitor that ships leaves out nodes whose queue stands at the published limit; Hadoop's does
//! not, and so this one does not.

use std::cmp::Reverse;

use records::{MonoMillis, Resource};
use sched::{ContainerQueuingLimit, LoadComparator, NodeLoad, QueueLimitCalculator};

use crate::arm::managed::{Loads, queue_limit};
use crate::node::SIZE;
use crate::scenario::Settings;

/// Load of a node: its last heartbeat, and what the central allocator has added since.
#[derive(Clone, Copy, Debug)]
struct ClusterNode {
    queue_length: u32,
    queue_wait_time_ms: u32,
    /// As of the first heartbeat.
    queue_capacity: u32,
    capability: Resource,
    allocated: Resource,
    updated: MonoMillis,
}

impl ClusterNode {
    fn available(&self) -> Resource {
        self.capability.saturating_sub(self.allocated)
    }

    fn join_queue(&mut self) -> bool {
        let has_room = self.queue_length < self.queue_capacity;
        self.queue_length += u32::from(has_room);
        has_room
    }
}

pub(in crate::arm) struct Monitor {
    comparator: LoadComparator,
    /// By the number of the node; `None` before its first heartbeat, or without an estimate of the
    /// wait where nodes are ordered by it.
    nodes: Vec<Option<ClusterNode>>,
    sorted: Vec<usize>,
    calculator: QueueLimitCalculator,
}

impl Monitor {
    pub(in crate::arm) fn new(settings: &Settings) -> Self {
        Self {
            comparator: settings.comparator.into(),
            nodes: Vec::new(),
            sorted: Vec::new(),
            calculator: QueueLimitCalculator::new(queue_limit(settings)),
        }
    }

    fn cluster(&self) -> Resource {
        let nodes = self.nodes.iter().flatten();
        nodes.fold(Resource::default(), |sum, node| {
            sum.saturating_add(node.capability)
        })
    }

    /// Returns the least loaded nodes of the last sort, at most so many.
    pub(super) fn select(&self, count: usize) -> &[usize] {
        &self.sorted[..count.min(self.sorted.len())]
    }

    /// Counts a container at a node, if Hadoop's central allocator would place it there
    /// (`ClusterNode.compareAndIncrement`); returns whether it did.
    pub(super) fn compare_and_increment(&mut self, node: usize) -> bool {
        let Some(node) = &mut self.nodes[node] else {
            return false;
        };
        match self.comparator {
            LoadComparator::QueueLength => node.join_queue(),
            LoadComparator::QueueWaitTime => true,
            LoadComparator::QueueLengthThenResources => {
                if SIZE.fits_in(node.available()) {
                    node.allocated = node.allocated.saturating_add(SIZE);
                    true
                } else {
                    SIZE.fits_in(node.capability) && node.join_queue()
                }
            }
        }
    }
}

impl Loads for Monitor {
    fn update(&mut self, node: usize, load: &NodeLoad, now: MonoMillis) {
        if self.nodes.len() <= node {
            self.nodes.resize(node + 1, None);
        }
        let known = &mut self.nodes[node];
        if self.comparator == LoadComparator::QueueWaitTime && load.queue_wait_time_ms.is_none() {
            *known = None;
            return;
        }
        *known = Some(ClusterNode {
            queue_length: load.queue_length,
            queue_wait_time_ms: load.queue_wait_time_ms.unwrap_or(0),
            queue_capacity: known.map_or(load.queue_capacity, |first| first.queue_capacity),
            capability: load.capability,
            allocated: load.allocated,
            updated: now,
        });
    }

    fn remove(&mut self, node: usize) {
        if let Some(known) = self.nodes.get_mut(node) {
            *known = None;
        }
        self.sorted.retain(|sorted| *sorted != node);
    }

    /// Sorts the nodes that are not full, and computes the limit from them.
    fn sort(&mut self, _now: MonoMillis) -> bool {
        let comparator = self.comparator;
        let known = self.nodes.iter().enumerate();
        let mut usable: Vec<(usize, ClusterNode)> = known
            .filter_map(|(number, node)| node.map(|node| (number, node)))
            .filter(|(_, node)| is_usable(comparator, node))
            .collect();
        let cluster = self.cluster();
        usable.sort_by_key(|(_, node)| order(comparator, node, cluster));
        let metric = |node: &ClusterNode| match comparator {
            LoadComparator::QueueLength | LoadComparator::QueueLengthThenResources => {
                node.queue_length
            }
            LoadComparator::QueueWaitTime => node.queue_wait_time_ms,
        };
        let metrics: Vec<i32> = usable
            .iter()
            .map(|(_, node)| i32::try_from(metric(node)).unwrap_or(i32::MAX))
            .collect();
        self.sorted = usable.into_iter().map(|(number, _)| number).collect();
        self.calculator.update(&metrics);
        true
    }

    fn queuing_limit(&self) -> ContainerQueuingLimit {
        self.calculator.limit(self.comparator)
    }
}

fn is_usable(comparator: LoadComparator, node: &ClusterNode) -> bool {
    match comparator {
        LoadComparator::QueueLength | LoadComparator::QueueWaitTime => {
            node.queue_capacity == 0 || node.queue_length < node.queue_capacity
        }
        LoadComparator::QueueLengthThenResources => {
            if node.queue_capacity == 0 {
                node.queue_length == 0
            } else {
                node.queue_length < node.queue_capacity
            }
        }
    }
}

/// Key by which nodes are ordered: the load, then what is free, then the newest heartbeat.
type Order = (
    u32,
    Reverse<u128>,
    Reverse<u32>,
    Reverse<u64>,
    Reverse<MonoMillis>,
);

fn order(comparator: LoadComparator, node: &ClusterNode, cluster: Resource) -> Order {
    let newest = Reverse(node.updated);
    let by = |load| (load, Reverse(0), Reverse(0), Reverse(0), newest);
    match comparator {
        LoadComparator::QueueLength => by(node.queue_length),
        LoadComparator::QueueWaitTime => by(node.queue_wait_time_ms),
        LoadComparator::QueueLengthThenResources => {
            let free = node.available();
            // The smaller of the two shares of the cluster, over a common denominator.
            let memory = u128::from(free.memory_mb) * u128::from(cluster.vcores);
            let vcores = u128::from(free.vcores) * u128::from(cluster.memory_mb);
            (
                node.queue_length,
                Reverse(memory.min(vcores)),
                Reverse(free.vcores),
                Reverse(free.memory_mb),
                newest,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(queue_length: u32) -> NodeLoad {
        NodeLoad {
            queue_length,
            queue_capacity: 15,
            ..NodeLoad::default()
        }
    }

    #[test]
    fn a_full_node_is_left_out_and_one_at_the_limit_is_not() {
        let mut monitor = Monitor::new(&Settings::default());
        for (node, length) in [(0, 15), (1, 9), (2, 0), (3, 0)] {
            monitor.update(node, &load(length), MonoMillis(node as u64));
        }
        monitor.sort(MonoMillis(9));
        assert_eq!(monitor.queuing_limit().max_queue_length, Some(7));
        // Among equals the one with the newest heartbeat.
        assert_eq!(monitor.select(10), [3, 2, 1]);
        assert_eq!(monitor.select(2), [3, 2]);
    }

    #[test]
    fn a_container_counts_until_the_next_heartbeat_and_only_up_to_the_capacity() {
        let mut monitor = Monitor::new(&Settings::default());
        monitor.update(0, &load(13), MonoMillis(0));
        let taken: Vec<bool> = (0..3).map(|_| monitor.compare_and_increment(0)).collect();
        assert_eq!(taken, [true, true, false]);
        monitor.update(0, &load(14), MonoMillis(1));
        assert!(monitor.compare_and_increment(0) && !monitor.compare_and_increment(0));
    }
}
