//! Which node is the least loaded (Hadoop: `NodeQueueLoadMonitor.LoadComparator`).
//!
//! Hadoop's differences wrap at 32 bits and its ratios are equal within an epsilon, so that in the extremes (24 days
//! between two heartbeats, a node with a billionth of the cluster) its order contradicts itself. Here every comparison is
//! exact: the same order everywhere else, and a total one. Nodes that Hadoop holds equal are ordered by their ids.

use std::cmp::Ordering;
use std::str::FromStr;

use records::{NodeId, Resource};
use thiserror::Error;

use super::ClusterNode;

/// A text that names no comparator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown load comparator {0:?}")]
pub struct ParseLoadComparatorError(String);

/// What makes one node a better place for an opportunistic container than another
/// (`yarn.resourcemanager.nm-container-queuing.load-comparator`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadComparator {
    /// Fewer waiting containers.
    #[default]
    QueueLength,
    /// Fewer waiting containers; then the larger share of the cluster that is free, by the scarcer of the two types; then
    /// more free virtual cores, then more free memory.
    QueueLengthThenResources,
    /// A shorter estimated wait.
    QueueWaitTime,
}

impl LoadComparator {
    /// Hadoop's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueLength => "QUEUE_LENGTH",
            Self::QueueLengthThenResources => "QUEUE_LENGTH_THEN_RESOURCES",
            Self::QueueWaitTime => "QUEUE_WAIT_TIME",
        }
    }

    /// Whether a node is of use that cannot tell how long its queue takes.
    pub(super) const fn needs_wait_time(self) -> bool {
        match self {
            Self::QueueLength | Self::QueueLengthThenResources => false,
            Self::QueueWaitTime => true,
        }
    }

    /// What the queue limit is computed from: containers or milliseconds.
    pub(super) fn metric(self, node: &ClusterNode) -> i32 {
        let value = match self {
            Self::QueueLength | Self::QueueLengthThenResources => node.queue_length,
            Self::QueueWaitTime => node.queue_wait_time_ms.unwrap_or(0),
        };
        i32::try_from(value).unwrap_or(i32::MAX)
    }

    /// Whether a node's queue has room, as the list of least loaded nodes sees it. A capacity of 0 is no bound, except
    /// where resources are compared too: there it is no queue.
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

    /// The order of the list, the best node first. `cluster` is what all nodes offer together.
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

    /// Whether [`Self::compare_and_increment`] says no whatever the size. Sizes have some of both types.
    pub(super) fn is_exhausted(self, node: &ClusterNode) -> bool {
        let queue_is_full = node.queue_length >= node.queue_capacity;
        match self {
            Self::QueueLength => queue_is_full,
            Self::QueueWaitTime => false,
            Self::QueueLengthThenResources => {
                let available = node.available();
                queue_is_full && (available.memory_mb == 0 || available.vcores == 0)
            }
        }
    }

    /// Counts a container of this size in at a node, if the node may take it: what keeps one burst from overrunning a
    /// node before its next heartbeat.
    pub(super) fn compare_and_increment(self, node: &mut ClusterNode, ask: Resource) -> bool {
        match self {
            Self::QueueLength => node.join_queue(),
            Self::QueueWaitTime => true,
            Self::QueueLengthThenResources => {
                if ask.fits_in(node.available()) {
                    node.allocated = node.allocated.saturating_add(ask);
                    true
                } else {
                    ask.fits_in(node.capability) && node.join_queue()
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

/// More room first.
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

/// Of a whole that is 0 in no type (Hadoop: `DominantResourceCalculator.minRatio`, in single precision).
fn min_share(part: Resource, whole: Resource) -> f32 {
    let memory = part.memory_mb as f32 / whole.memory_mb as f32;
    let vcores = part.vcores as f32 / whole.vcores as f32;
    memory.min(vcores)
}
