//! Which nodes have the shortest queues, from what nodes say of themselves (Hadoop: `NodeQueueLoadMonitor`).
//!
//! Heartbeats and the time go in. Out come the list of least loaded nodes, made anew at a fixed cadence, the limit that
//! nodes are told, and, for an allocator in the same process, a node's word that it can take one more.
//!
//! Numbers that an allocator changed are replaced by the node's next heartbeat: the node knows better.

mod comparator;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use records::{MonoMillis, NodeId, Resource};

pub use comparator::{LoadComparator, ParseLoadComparatorError};

use crate::action::ContainerQueuingLimit;
use crate::queue_limit::{QueueLimitCalculator, QueueLimitConfig};

/// What an operator decides about the monitor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeLoadConfig {
    /// `yarn.resourcemanager.nm-container-queuing.load-comparator`.
    pub comparator: LoadComparator,
    /// `yarn.resourcemanager.nm-container-queuing.sorting-nodes-interval-ms`. 0 sorts at every tick.
    pub sorting_interval_ms: u64,
    /// `yarn.resourcemanager.opportunistic-container-allocation.nodes-used`: how many of the least loaded nodes are
    /// offered to allocators.
    pub nodes_used: usize,
    /// How far above the mean a queue may grow.
    pub queue_limit: QueueLimitConfig,
}

impl Default for NodeLoadConfig {
    /// Hadoop's defaults.
    fn default() -> Self {
        Self {
            comparator: LoadComparator::default(),
            sorting_interval_ms: 1_000,
            nodes_used: 10,
            queue_limit: QueueLimitConfig::default_for(LoadComparator::default()),
        }
    }
}

/// What one heartbeat says. A heartbeat without a status of opportunistic containers has 0 for all of its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// Containers that wait, of both types (`wait_queue_length`).
    pub queue_length: u32,
    /// Milliseconds a new container would wait (`estimated_queue_wait_time`); `None` if the node cannot tell (-1).
    pub queue_wait_time_ms: Option<u32>,
    /// Opportunistic containers that may wait (`opport_queue_capacity`). Read at the first heartbeat only.
    pub queue_capacity: u32,
    /// What the node offers to containers.
    pub capability: Resource,
    /// What the containers it reported running were given, of both types.
    pub allocated: Resource,
    /// The node takes no new containers.
    pub decommissioning: bool,
}

/// A node as the monitor sees it: its last heartbeat, and what was allocated since (Hadoop: `ClusterNode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its rack, a path.
    pub rack: String,
    /// Containers that wait.
    pub queue_length: u32,
    /// Estimated wait in milliseconds.
    pub queue_wait_time_ms: Option<u32>,
    /// Opportunistic containers that may wait, as of the first heartbeat.
    pub queue_capacity: u32,
    /// What it offers.
    pub capability: Resource,
    /// What its containers were given.
    pub allocated: Resource,
    /// When its last heartbeat came.
    pub updated: MonoMillis,
}

impl ClusterNode {
    /// What is left of the node's resources, each type at least 0.
    #[must_use]
    pub fn available(&self) -> Resource {
        self.capability.saturating_sub(self.allocated)
    }

    /// Takes a place in the queue if there is one.
    fn join_queue(&mut self) -> bool {
        let room = self.queue_length < self.queue_capacity;
        if room {
            self.queue_length += 1;
        }
        room
    }
}

/// See the module. Holds as many nodes as are registered, no more.
#[derive(Clone, Debug)]
pub struct NodeLoadMonitor {
    config: NodeLoadConfig,
    nodes: BTreeMap<NodeId, ClusterNode>,
    racks: BTreeMap<String, BTreeSet<NodeId>>,
    /// The least loaded first, without those that were full at the last sort.
    sorted: Vec<NodeId>,
    next_sort: MonoMillis,
    calculator: QueueLimitCalculator,
}

impl NodeLoadMonitor {
    /// Without nodes; the first sort is one interval away.
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

    /// Takes in a heartbeat. The first one of a node inserts it; one that makes the node useless (decommissioning, or no
    /// estimate of a wait that nodes are compared by) takes it out. `rack` and the queue's capacity are read at insertion.
    pub fn update(&mut self, id: &NodeId, rack: &str, load: &NodeLoad, now: MonoMillis) {
        let useless = load.decommissioning
            || (self.config.comparator.needs_wait_time() && load.queue_wait_time_ms.is_none());
        if useless {
            self.remove(id);
            return;
        }
        if let Some(node) = self.nodes.get_mut(id) {
            node.queue_length = load.queue_length;
            node.queue_wait_time_ms = load.queue_wait_time_ms;
            node.capability = load.capability;
            node.allocated = load.allocated;
            node.updated = now;
            return;
        }
        let node = ClusterNode {
            rack: rack.to_owned(),
            queue_length: load.queue_length,
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

    /// Forgets a node that is lost, decommissioned or registers anew. It leaves the list at once.
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

    /// Sorts if it is time to; says whether it was.
    pub fn tick(&mut self, now: MonoMillis) -> bool {
        let due = self.next_sort <= now;
        if due {
            self.sort(now);
        }
        due
    }

    /// When to call [`Self::tick`] next.
    #[must_use]
    pub const fn next_deadline(&self) -> MonoMillis {
        self.next_sort
    }

    /// Makes the list and the limit from the numbers at hand, ahead of time if need be, and sets the next time.
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

    /// The `count` least loaded nodes of the last sort, or as many as there are, the least loaded first.
    #[must_use]
    pub fn select(&self, count: usize) -> &[NodeId] {
        &self.sorted[..count.min(self.sorted.len())]
    }

    /// The nodes that allocators are offered: [`NodeLoadConfig::nodes_used`] of them.
    #[must_use]
    pub fn least_loaded(&self) -> &[NodeId] {
        self.select(self.config.nodes_used)
    }

    /// What nodes are told to keep waiting at most.
    #[must_use]
    pub fn queuing_limit(&self) -> ContainerQueuingLimit {
        self.calculator.limit(self.config.comparator)
    }

    /// The statistics behind [`Self::queuing_limit`].
    #[must_use]
    pub const fn queue_limit_calculator(&self) -> &QueueLimitCalculator {
        &self.calculator
    }

    /// What is known of a node; `None` before its first heartbeat and after its removal.
    #[must_use]
    pub fn node(&self, id: &NodeId) -> Option<&ClusterNode> {
        self.nodes.get(id)
    }

    /// All nodes in the order of their ids, full ones included.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeId, &ClusterNode)> {
        self.nodes.iter()
    }

    /// The nodes of a rack in the order of their ids.
    pub fn nodes_of_rack(&self, rack: &str) -> impl Iterator<Item = &NodeId> {
        self.racks.get(rack).into_iter().flatten()
    }

    /// The nodes of a host, the least loaded first. Hadoop knows one per host; several NodeManagers on one machine are
    /// several nodes here.
    #[must_use]
    pub fn nodes_of_host(&self, host: &str) -> Vec<NodeId> {
        let node_id = |port| NodeId {
            host: host.to_owned(),
            port,
        };
        let mut nodes: Vec<_> = self.nodes.range(node_id(0)..=node_id(u16::MAX)).collect();
        // Without a cluster to take shares of, free amounts are compared as they are: all these have one machine.
        nodes.sort_unstable_by(|a, b| self.config.comparator.compare(Resource::default(), *a, *b));
        nodes.into_iter().map(|(id, _)| id.clone()).collect()
    }

    /// Whether a node takes no container of any size until its next heartbeat.
    pub(crate) fn is_exhausted(&self, id: &NodeId) -> bool {
        self.nodes
            .get(id)
            .is_none_or(|node| self.config.comparator.is_exhausted(node))
    }

    /// Counts one more container of this size in at a node, if it may take it; otherwise, and for a node that is not
    /// known, changes nothing and says no.
    pub fn compare_and_increment(&mut self, id: &NodeId, ask: Resource) -> bool {
        self.nodes
            .get_mut(id)
            .is_some_and(|node| self.config.comparator.compare_and_increment(node, ask))
    }
}
