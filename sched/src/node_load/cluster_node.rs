//! Load of one node.

use records::{MonoMillis, Resource};

/// Load of a node: its last heartbeat, and the allocations since (Hadoop: `ClusterNode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Path of the node's rack.
    pub rack: String,
    /// Waiting containers of both types, and those that an allocator has added since.
    pub queue_length: u32,
    /// Waiting containers of both types, as of the last heartbeat.
    pub waiting: u32,
    /// Estimated wait in milliseconds.
    pub queue_wait_time_ms: Option<u32>,
    /// Opportunistic containers that may wait, as of the first heartbeat.
    pub queue_capacity: u32,
    /// Resources that the node offers.
    pub capability: Resource,
    /// Allocations of the node's containers.
    pub allocated: Resource,
    /// Time of the last heartbeat.
    pub updated: MonoMillis,
}

/// Answer of a node to a container that is offered to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The container is counted.
    Taken,
    /// The node takes none of this size.
    TooLarge,
    /// The node takes none of any size until its next heartbeat, or is unknown.
    Exhausted,
}

impl ClusterNode {
    /// Returns the free resources, each type at least 0.
    #[must_use]
    pub fn available(&self) -> Resource {
        self.capability.saturating_sub(self.allocated)
    }

    /// Returns whether the node could keep one more container in its queue under this limit on the
    /// queue's length. A node without waiting containers may start it at once, whatever the limit.
    pub(super) fn is_below(&self, limit: Option<usize>) -> bool {
        let waiting = usize::try_from(self.waiting).unwrap_or(usize::MAX);
        waiting == 0 || limit.is_none_or(|limit| waiting < limit)
    }

    /// Takes a place in the queue, if one is free; returns whether it did.
    pub(super) fn join_queue(&mut self) -> bool {
        let room = self.queue_length < self.queue_capacity;
        if room {
            self.queue_length += 1;
        }
        room
    }
}
