//! Order of nodes by load (Hadoop: `NodeQueueLoadMonitor.LoadComparator`).
//!
//! Hadoop's differences wrap at 32 bits and its ratios are equal within an epsilon, so that in the
//! extremes (24 days between two heartbeats, a node with a billionth of the cluster) its order
//! contradicts itself. Here every comparison is exact: the same order everywhere else, and a total
//! one. Nodes that are equal for Hadoop are ordered by their ids.

use std::cmp::Ordering;
use std::str::FromStr;

use records::{NodeId, Resource};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::cluster_node::{ClusterNode, Offered};

/// Error for a text that is not the name of a comparator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown load comparator {0:?}")]
pub struct ParseLoadComparatorError(String);

/// Criterion by which nodes are ordered for opportunistic containers
/// (`yarn.resourcemanager.nm-container-queuing.load-comparator`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadComparator {
    /// Fewer waiting containers first.
    #[default]
    QueueLength,
    /// Fewer waiting containers first; then the larger free share of the cluster, by the scarcer of
    /// the two types; then more free virtual cores, then more free memory.
    QueueLengthThenResources,
    /// Shorter estimated wait first.
    QueueWaitTime,
}

impl LoadComparator {
    /// Returns Hadoop's name of the comparator.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueLength => "QUEUE_LENGTH",
            Self::QueueLengthThenResources => "QUEUE_LENGTH_THEN_RESOURCES",
            Self::QueueWaitTime => "QUEUE_WAIT_TIME",
        }
    }

    /// Returns whether nodes must report an estimated wait to be used.
    pub(super) const fn needs_wait_time(self) -> bool {
        match self {
            Self::QueueLength | Self::QueueLengthThenResources => false,
            Self::QueueWaitTime => true,
        }
    }

    /// Returns the value from which the queue limit is computed: containers or milliseconds.
    pub(super) fn metric(self, node: &ClusterNode) -> i32 {
        let value = match self {
            Self::QueueLength | Self::QueueLengthThenResources => node.queue_length,
            Self::QueueWaitTime => node.queue_wait_time_ms.unwrap_or(0),
        };
        i32::try_from(value).unwrap_or(i32::MAX)
    }

    /// Returns whether a node may be on the list of least loaded nodes, that is, whether its queue
    /// has a free place. A capacity of 0 means no bound, except where resources are compared too:
    /// there it means no queue.
    pub(super) const fn is_node_available(self, node: &ClusterNode) -> bool {
        match self {
            Self::QueueLength | Self::QueueWaitTime => {
                node.queue_capacity == 0 || node.queue_length < node.queue_capacity
            }
            Self::QueueLengthThenResources => {
                if node.queue_capacity == 0 {
                    node.queue_length == 0
                } else {
                    node.queue_length < node.queue_capacity
                }
            }
        }
    }

    /// Compares two nodes, the less loaded first. `cluster` is the sum of what all nodes offer.
    pub(super) fn compare(
        self,
        cluster: Resource,
        (a_id, a): (&NodeId, &ClusterNode),
        (b_id, b): (&NodeId, &ClusterNode),
    ) -> Ordering {
        let by_load = match self {
            Self::QueueLength => a.queue_length.cmp(&b.queue_length),
            Self::QueueLengthThenResources => a
                .queue_length
                .cmp(&b.queue_length)
                .then_with(|| compare_available(cluster, a.available(), b.available())),
            Self::QueueWaitTime => a.queue_wait_time_ms.cmp(&b.queue_wait_time_ms),
        };
        by_load
            .then_with(|| b.updated.cmp(&a.updated))
            .then_with(|| a_id.cmp(b_id))
    }

    /// Offers a container of this size to a node, under this limit on the queue's length, and
    /// counts it there if the node takes it.
    pub(super) fn offer(
        self,
        node: &mut ClusterNode,
        limit: Option<usize>,
        ask: Resource,
    ) -> Offered {
        let may_queue = node.is_below(limit);
        if self.compare_and_increment(node, ask, may_queue) {
            Offered::Taken
        } else if self.is_exhausted(node, may_queue) {
            Offered::Exhausted
        } else {
            Offered::TooLarge
        }
    }

    /// Returns whether [`Self::compare_and_increment`] refuses every size. Sizes have at least 1 of
    /// both types.
    fn is_exhausted(self, node: &ClusterNode, may_queue: bool) -> bool {
        let queue_is_full = !may_queue || node.queue_length >= node.queue_capacity;
        match self {
            Self::QueueLength => queue_is_full,
            Self::QueueWaitTime => false,
            Self::QueueLengthThenResources => {
                let available = node.available();
                queue_is_full && (available.memory_mb == 0 || available.vcores == 0)
            }
        }
    }

    /// Counts a container of this size at a node, if the node may take it, and returns whether it
    /// did. This keeps one burst from overloading a node before its next heartbeat. `may_queue`:
    /// whether the node's queue is below the published limit.
    fn compare_and_increment(self, node: &mut ClusterNode, ask: Resource, may_queue: bool) -> bool {
        match self {
            Self::QueueLength => may_queue && node.join_queue(),
            Self::QueueWaitTime => true,
            Self::QueueLengthThenResources => {
                if ask.fits_in(node.available()) {
                    node.allocated = node.allocated.saturating_add(ask);
                    true
                } else {
                    may_queue && ask.fits_in(node.capability) && node.join_queue()
                }
            }
        }
    }
}

impl FromStr for LoadComparator {
    type Err = ParseLoadComparatorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [
            Self::QueueLength,
            Self::QueueLengthThenResources,
            Self::QueueWaitTime,
        ]
        .into_iter()
        .find(|comparator| comparator.as_str() == text)
        .ok_or_else(|| ParseLoadComparatorError(text.chars().take(128).collect()))
    }
}

/// Compares free resources, more first.
fn compare_available(cluster: Resource, a: Resource, b: Resource) -> Ordering {
    let by_share = if cluster.memory_mb == 0 || cluster.vcores == 0 {
        Ordering::Equal
    } else {
        min_share(b, cluster).total_cmp(&min_share(a, cluster))
    };
    by_share
        .then_with(|| b.vcores.cmp(&a.vcores))
        .then_with(|| b.memory_mb.cmp(&a.memory_mb))
}

/// Returns the smaller share of a whole that is 0 in no type (Hadoop:
/// `DominantResourceCalculator.minRatio`, in single precision).
fn min_share(part: Resource, whole: Resource) -> f32 {
    let memory = part.memory_mb as f32 / whole.memory_mb as f32;
    let vcores = part.vcores as f32 / whole.vcores as f32;
    memory.min(vcores)
}
