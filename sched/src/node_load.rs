//! Load of all nodes as they report it, and the list of those with the shortest queues (Hadoop:
//! `NodeQueueLoadMonitor`).
//!
//! Heartbeats and the time go in. Out come the list of least loaded nodes, rebuilt at a fixed
//! cadence, the queuing limit for the nodes, and, for an allocator in the same process, the answer
//! whether a node can take another container.
//!
//! Numbers that an allocator changed are replaced by the node's next heartbeat, which is more
//! accurate.
//!
//! Difference from Hadoop: a node whose queue stands at the published limit is not offered. The
//! node would shed what it gets, and a master would ask again for the same full node.

mod cluster_node;
mod comparator;
mod queue_limit;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use records::{MonoMillis, NodeId, Resource};

pub use cluster_node::ClusterNode;
pub(crate) use cluster_node::Offered;
pub use comparator::{LoadComparator, ParseLoadComparatorError};
pub use queue_limit::{QueueLimitCalculator, QueueLimitConfig};

use crate::action::ContainerQueuingLimit;

/// Configuration of the monitor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeLoadConfig {
    /// `yarn.resourcemanager.nm-container-queuing.load-comparator`: order of the list.
    pub comparator: LoadComparator,
    /// `yarn.resourcemanager.nm-container-queuing.sorting-nodes-interval-ms`. 0 sorts at every
    /// tick.
    pub sorting_interval_ms: u64,
    /// `yarn.resourcemanager.opportunistic-container-allocation.nodes-used`: number of least loaded
    /// nodes offered to allocators.
    pub nodes_used: usize,
    /// Distance above the mean that a queue may reach.
    pub queue_limit: QueueLimitConfig,
}

impl Default for NodeLoadConfig {
    /// Returns Hadoop's defaults.
    fn default() -> Self {
        Self {
            comparator: LoadComparator::default(),
            sorting_interval_ms: 1_000,
            nodes_used: 10,
            queue_limit: QueueLimitConfig::default_for(LoadComparator::default()),
        }
    }
}

/// Load from one heartbeat. A heartbeat without a status of opportunistic containers has 0 for all
/// numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// Waiting containers of both types (`wait_queue_length`).
    pub queue_length: u32,
    /// Milliseconds that a new container would wait (`estimated_queue_wait_time`); `None` if the
    /// node has no estimate (-1).
    pub queue_wait_time_ms: Option<u32>,
    /// Opportunistic containers that may wait (`opport_queue_capacity`). Read at the first
    /// heartbeat only.
    pub queue_capacity: u32,
    /// Resources that the node offers to containers.
    pub capability: Resource,
    /// Allocations of the containers reported running, of both types.
    pub allocated: Resource,
    /// Whether the node is being decommissioned and takes no new containers.
    pub decommissioning: bool,
}

/// Load of all nodes, and the list of the least loaded. Holds one entry per registered node.
#[derive(Clone, Debug)]
pub struct NodeLoadMonitor {
    config: NodeLoadConfig,
    nodes: BTreeMap<NodeId, ClusterNode>,
    racks: BTreeMap<String, BTreeSet<NodeId>>,
    /// Least loaded nodes first, without those that were full at the last sort.
    sorted: Vec<NodeId>,
    next_sort: MonoMillis,
    calculator: QueueLimitCalculator,
}

impl NodeLoadMonitor {
    /// Creates a monitor without nodes; the first sort is due after one interval.
    #[must_use]
    pub fn new(config: NodeLoadConfig, now: MonoMillis) -> Self {
        Self {
            config,
            nodes: BTreeMap::new(),
            racks: BTreeMap::new(),
            sorted: Vec::new(),
            next_sort: now + config.sorting_interval_ms,
            calculator: QueueLimitCalculator::new(config.queue_limit),
        }
    }

    /// Records a heartbeat. The first heartbeat of a node inserts it. A heartbeat that makes the
    /// node unusable (decommissioning, or no estimate of a wait when nodes are compared by it)
    /// removes it. `rack` and the queue's capacity are read at insertion.
    pub fn update(&mut self, id: &NodeId, rack: &str, load: &NodeLoad, now: MonoMillis) {
        let useless = load.decommissioning
            || (self.config.comparator.needs_wait_time() && load.queue_wait_time_ms.is_none());
        if useless {
            self.remove(id);
            return;
        }
        if let Some(node) = self.nodes.get_mut(id) {
            node.queue_length = load.queue_length;
            node.waiting = load.queue_length;
            node.queue_wait_time_ms = load.queue_wait_time_ms;
            node.capability = load.capability;
            node.allocated = load.allocated;
            node.updated = now;
            return;
        }
        let node = ClusterNode {
            rack: rack.to_owned(),
            queue_length: load.queue_length,
            waiting: load.queue_length,
            queue_wait_time_ms: load.queue_wait_time_ms,
            queue_capacity: load.queue_capacity,
            capability: load.capability,
            allocated: load.allocated,
            updated: now,
        };
        self.nodes.insert(id.clone(), node);
        self.racks
            .entry(rack.to_owned())
            .or_default()
            .insert(id.clone());
    }

    /// Removes a node that is lost, decommissioned or registers anew. The list drops it at once.
    pub fn remove(&mut self, id: &NodeId) {
        let Some(node) = self.nodes.remove(id) else {
            return;
        };
        if let Some(ids) = self.racks.get_mut(&node.rack) {
            ids.remove(id);
            if ids.is_empty() {
                self.racks.remove(&node.rack);
            }
        }
        self.sorted.retain(|sorted| sorted != id);
    }

    /// Sorts if a sort is due; returns whether it was.
    pub fn tick(&mut self, now: MonoMillis) -> bool {
        let due = self.next_sort <= now;
        if due {
            self.sort(now);
        }
        due
    }

    /// Returns the time at which [`Self::tick`] sorts next.
    #[must_use]
    pub const fn next_deadline(&self) -> MonoMillis {
        self.next_sort
    }

    /// Rebuilds the list and the limit from the present numbers, even before a sort is due, and
    /// sets the time of the next sort.
    pub fn sort(&mut self, now: MonoMillis) {
        self.next_sort = now + self.config.sorting_interval_ms;
        let comparator = self.config.comparator;
        let cluster = self.nodes.values().fold(Resource::default(), |sum, n| {
            sum.saturating_add(n.capability)
        });
        let mut usable: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, node)| comparator.is_node_available(node))
            .collect();
        usable.sort_unstable_by(|a, b| comparator.compare(cluster, *a, *b));
        let metrics: Vec<i32> = usable.iter().map(|(_, n)| comparator.metric(n)).collect();
        self.sorted = usable.into_iter().map(|(id, _)| id.clone()).collect();
        self.calculator.update(&metrics);
    }

    /// Returns the `count` least loaded nodes of the last sort, or as many as there are, the least
    /// loaded first.
    #[must_use]
    pub fn select(&self, count: usize) -> &[NodeId] {
        &self.sorted[..count.min(self.sorted.len())]
    }

    /// Returns the nodes that are offered to allocators: the first [`NodeLoadConfig::nodes_used`]
    /// of the last sort whose queues are below the limit.
    pub fn least_loaded(&self) -> impl Iterator<Item = &NodeId> {
        self.offered().map(|(_, id)| id)
    }

    /// Returns the same nodes with their places on the list, which a sort or a removal changes.
    pub(crate) fn offered(&self) -> impl Iterator<Item = (usize, &NodeId)> {
        let limit = self.queuing_limit().max_queue_length;
        let below_limit = move |(_, id): &(usize, &NodeId)| {
            let node = self.nodes.get(*id);
            node.is_some_and(|node| node.is_below(limit))
        };
        let usable = self.sorted.iter().enumerate().filter(below_limit);
        usable.take(self.config.nodes_used)
    }

    /// Returns the node at a place on the list.
    pub(crate) fn at(&self, place: usize) -> Option<&NodeId> {
        self.sorted.get(place)
    }

    /// Returns the limit to publish to the nodes.
    #[must_use]
    pub fn queuing_limit(&self) -> ContainerQueuingLimit {
        self.calculator.limit(self.config.comparator)
    }

    /// Returns the statistics behind [`Self::queuing_limit`].
    #[must_use]
    pub const fn queue_limit_calculator(&self) -> &QueueLimitCalculator {
        &self.calculator
    }

    /// Returns the load of a node; `None` before its first heartbeat and after its removal.
    #[must_use]
    pub fn node(&self, id: &NodeId) -> Option<&ClusterNode> {
        self.nodes.get(id)
    }

    /// Returns all nodes in the order of their ids, including full ones.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeId, &ClusterNode)> {
        self.nodes.iter()
    }

    /// Returns the nodes of a rack in the order of their ids.
    pub fn nodes_of_rack(&self, rack: &str) -> impl Iterator<Item = &NodeId> {
        self.racks.get(rack).into_iter().flatten()
    }

    /// Returns the nodes of a host, the least loaded first. Hadoop knows one per host; here several
    /// NodeManagers on one machine are several nodes.
    #[must_use]
    pub fn nodes_of_host(&self, host: &str) -> Vec<NodeId> {
        let node_id = |port| NodeId {
            host: host.to_owned(),
            port,
        };
        let mut nodes: Vec<_> = self.nodes.range(node_id(0)..=node_id(u16::MAX)).collect();
        // All these nodes share one machine, so free amounts are compared directly, not as shares
        // of the cluster.
        nodes.sort_unstable_by(|a, b| self.config.comparator.compare(Resource::default(), *a, *b));
        nodes.into_iter().map(|(id, _)| id.clone()).collect()
    }

    /// Counts one more container of this size at a node, if it may take it, and returns whether it
    /// did. A full or unknown node stays unchanged.
    pub fn compare_and_increment(&mut self, id: &NodeId, ask: Resource) -> bool {
        self.offer(id, ask) == Offered::Taken
    }

    /// Offers a container of this size to a node, and counts it there if the node takes it.
    pub(crate) fn offer(&mut self, id: &NodeId, ask: Resource) -> Offered {
        let limit = self.queuing_limit().max_queue_length;
        let node = self.nodes.get_mut(id);
        node.map_or(Offered::Exhausted, |node| {
            self.config.comparator.offer(node, limit, ask)
        })
    }

    /// Offers a container to the node at a place on the list, like [`Self::offer`].
    pub(crate) fn offer_at(&mut self, place: usize, ask: Resource) -> Offered {
        let limit = self.queuing_limit().max_queue_length;
        let id = self.sorted.get(place);
        let node = id.and_then(|id| self.nodes.get_mut(id));
        node.map_or(Offered::Exhausted, |node| {
            self.config.comparator.offer(node, limit, ask)
        })
    }
}
