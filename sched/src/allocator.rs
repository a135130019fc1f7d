//! Who gets containers where: what is decided for ApplicationMasters, at the ResourceManager and on nodes.
//!
//! ```text
//!   ResourceRequest* ──▶ OutstandingAsks ──▶ GuaranteedAllocator            ──▶ ContainerAllocation*
//!                        (one per attempt     over what nodes have free
//!                         and type)      ──▶ OpportunisticContainerAllocator ──▶ ContainerAllocation*
//!                                             over NodeLoadMonitor
//! ```
//!
//! Both allocators read the same table of asks and walk an ask in the same order: its hosts, its racks, anywhere. They
//! differ in what a node must have: room for a guaranteed container, a place in the queue for an opportunistic one.

mod ask;
mod asks;
mod context;
mod distributed;
mod guaranteed;
mod id_range;
mod opportunistic;
mod places;
mod remote_nodes;
mod rooms;
#[cfg(test)]
mod tests;

use records::{ContainerId, ExecutionType, MonoMillis, NodeId, Priority, Resource};

pub use asks::{
    ASK_BYTES_MAX, ASK_LINES_MAX, ASKS_MAX, AskError, AskRules, AskView, BLACKLIST_MAX,
    OutstandingAsks, RESOURCE_NAME_BYTES_MAX,
};
pub use distributed::{
    AskOrigin, DistributedAllocation, DistributedAllocatorConfig, DistributedAllocatorState,
    DistributedGrant, DistributedOpportunisticContainerAllocator,
};
pub use guaranteed::GuaranteedAllocator;
pub use opportunistic::{OpportunisticContainerAllocator, OpportunisticContainerContext};
pub use remote_nodes::{REMOTE_NODES_MAX, RemoteNode};
pub use rooms::{ChargeError, NodeRoom, Released};

/// Most containers one call allocates, whatever is asked for. Each is some 500 bytes of an answer, so an answer stays
/// below 5 MiB; what is not allocated stays outstanding for the next call.
pub const ALLOCATIONS_PER_CALL_MAX: u32 = 10_000;

/// How near a container is to where it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locality {
    /// On a host that the ask names.
    NodeLocal,
    /// On a rack that the ask names.
    RackLocal,
    /// Elsewhere, or nothing was named.
    OffSwitch,
}

/// A container that was given to an attempt, and where. Tokens and addresses are the caller's to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerAllocation {
    /// From the caller's generator.
    pub container_id: ContainerId,
    /// Which node it is for.
    pub node_id: NodeId,
    /// Its size, as asked.
    pub resource: Resource,
    /// Of the ask.
    pub priority: Priority,
    /// Of the ask.
    pub allocation_request_id: i64,
    /// Which allocator gave it.
    pub execution_type: ExecutionType,
    /// For metrics.
    pub locality: Locality,
    /// When the ask it answers was first seen; until now is how long the allocation took.
    pub asked_at: MonoMillis,
}

/// What sizes a container may have, and how an ask is brought to one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimits {
    /// `yarn.scheduler.minimum-allocation-mb` and `-vcores`: less is raised to it. At least 1 in each type, since
    /// allocators refuse asks for nothing.
    pub minimum: Resource,
    /// `yarn.scheduler.maximum-allocation-mb` and `-vcores`: more is cut to it.
    pub maximum: Resource,
    /// Sizes are multiples of it where it is not 0.
    pub increment: Resource,
}

impl ResourceLimits {
    /// The size that an ask gets (Hadoop: `OpportunisticContainerAllocator`, `DominantResourceCalculator.normalize`):
    /// raised to the minimum, rounded up to the increment, cut to the maximum. Whether an ask above the maximum is an
    /// error, as for guaranteed containers, is the caller's to check before.
    #[must_use]
    pub fn normalize(&self, ask: Resource) -> Resource {
        let memory_mb = ask.memory_mb.max(self.minimum.memory_mb);
        let vcores = ask.vcores.max(self.minimum.vcores);
        Resource {
            memory_mb: memory_mb
                .checked_next_multiple_of(self.increment.memory_mb)
                .unwrap_or(memory_mb)
                .min(self.maximum.memory_mb),
            vcores: vcores
                .checked_next_multiple_of(self.increment.vcores)
                .unwrap_or(vcores)
                .min(self.maximum.vcores),
        }
    }
}
