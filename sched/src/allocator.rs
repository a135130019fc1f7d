//! Placement of containers for ApplicationMasters, at the ResourceManager and on nodes.
//!
//! ```text
//! ResourceRequest* ─▶ OutstandingAsks ─┬▶ GuaranteedAllocator ─────────────┬▶ ContainerAllocation*
//!                     (one per attempt │   over the nodes' free resources  │
//!                      and type)       └▶ OpportunisticContainerAllocator ─┘
//!                                          over NodeLoadMonitor
//! ```
//!
//! Both allocators read the same table of asks and try an ask's places in the same order: its
//! hosts, its racks, anywhere. They differ in what a node must have: free resources for a
//! guaranteed container, a place in the queue for an opportunistic one.

mod ask;
mod asks;
mod context;
mod distributed;
mod guaranteed;
mod id_range;
mod opportunistic;
mod places;
mod remote_nodes;
mod ring;
mod rooms;
#[cfg(test)]
mod tests;

use records::{ContainerId, ExecutionType, MonoMillis, NodeId, Priority, Resource};

pub use asks::{
    ASK_BYTES_MAX, ASK_LINES_MAX, ASKS_MAX, AskError, AskRules, AskView, BLACKLIST_MAX,
    OutstandingAsks, RESOURCE_NAME_BYTES_MAX,
};
pub use distributed::{
    AskOrigin, BoundNodes, DistributedAllocation, DistributedAllocatorConfig,
    DistributedAllocatorState, DistributedGrant, DistributedOpportunisticContainerAllocator,
    KnownNodes, LookOutcome, LookPlan, Wish,
};
pub use guaranteed::GuaranteedAllocator;
pub use opportunistic::{OpportunisticContainerAllocator, OpportunisticContainerContext};
pub use remote_nodes::{
    HostPreferences, KnownNode, NodeList, Placement, REMOTE_NODES_MAX, RemoteNode,
};
pub use rooms::{ChargeError, NodeRoom, Released};

/// Most containers that one call allocates, whatever is asked for. Each takes about 500 bytes of an
/// answer, so an answer stays below 5 MiB; the rest stays outstanding for the next call.
pub const ALLOCATIONS_PER_CALL_MAX: u32 = 10_000;

/// Distance of a container from the places that its ask names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locality {
    /// On a host that the ask names.
    NodeLocal,
    /// On a rack that the ask names.
    RackLocal,
    /// Elsewhere, or the ask names no place.
    OffSwitch,
}

/// Container allocated to an attempt, with its node. The caller adds token and addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerAllocation {
    /// Id from the caller's generator.
    pub container_id: ContainerId,
    /// Node that the container is placed on.
    pub node_id: NodeId,
    /// Size of the container, as asked.
    pub resource: Resource,
    /// Priority of the ask.
    pub priority: Priority,
    /// Allocation request id of the ask.
    pub allocation_request_id: i64,
    /// Execution type, by the allocator that placed the container.
    pub execution_type: ExecutionType,
    /// Distance from the places that the ask names.
    pub locality: Locality,
    /// Whether the ask accepts any node.
    pub relax_locality: bool,
    /// Time at which the ask was first seen. The time since then is the latency of the allocation.
    pub asked_at: MonoMillis,
}

/// Bounds and granularity of container sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimits {
    /// `yarn.scheduler.minimum-allocation-mb` and `-vcores`: smaller asks are raised to it. At
    /// least 1 in each type, because allocators refuse asks for nothing.
    pub minimum: Resource,
    /// `yarn.scheduler.maximum-allocation-mb` and `-vcores`: larger asks are cut to it.
    pub maximum: Resource,
    /// Unit of sizes: each type is a multiple of it, unless it is 0.
    pub increment: Resource,
}

impl ResourceLimits {
    /// Returns the size to allocate for an ask (Hadoop: `OpportunisticContainerAllocator`,
    /// `DominantResourceCalculator.normalize`): raised to the minimum, rounded up to the increment,
    /// cut to the maximum. Callers that reject asks above the maximum, as for guaranteed
    /// containers, check that before.
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
