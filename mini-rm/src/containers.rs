//! A container as the ResourceManager sees it (Hadoop: `RMContainerImpl`).

use records::{ContainerId, EpochMillis, ExecutionType, MonoMillis, NodeId, Resource};

/// Progress of a container. Completed ones are forgotten: only their status for the AM remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerStage {
    /// Allocated; the AM has not fetched it.
    Allocated,
    /// Fetched by the AM at this time, and not started.
    Acquired(MonoMillis),
    /// Reported by its node.
    Running,
}

/// Update that waits for capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingUpdate {
    /// No update.
    None,
    /// Promotion from opportunistic to guaranteed.
    Promotion,
}

/// A container that has not completed.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Id of the container.
    pub id: ContainerId,
    /// Node that it is allocated on.
    pub node: NodeId,
    /// Resources that it may use.
    pub resource: Resource,
    /// Priority of its ask.
    pub priority: i32,
    /// Allocation request id of its ask; -1 when the ask had none.
    pub allocation_request_id: i64,
    /// Execution type, guaranteed or opportunistic.
    pub execution_type: ExecutionType,
    /// Number of updates so far.
    pub version: i32,
    /// Progress towards running.
    pub stage: ContainerStage,
    /// Whether the container runs an AM.
    pub is_master: bool,
    /// Time of allocation.
    pub created: EpochMillis,
    /// Update that waits for capacity.
    pub pending: PendingUpdate,
}

impl Container {
    /// Returns whether the AM fetched the container too long ago without starting it.
    #[must_use]
    pub fn is_expired(&self, now: MonoMillis, expiry_ms: u64) -> bool {
        match self.stage {
            ContainerStage::Acquired(since) => now.since(since) > expiry_ms,
            ContainerStage::Allocated | ContainerStage::Running => false,
        }
    }
}
