//! A container as the ResourceManager sees it (Hadoop: `RMContainerImpl`).

use records::{ContainerId, EpochMillis, ExecutionType, MonoMillis, NodeId, Resource};

/// How far a container is. Finished ones are forgotten: what is left of them is the status their master gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerStage {
    /// Promised, and the master has not heard of it.
    Allocated,
    /// The master knows it since then and has not started it.
    Acquired(MonoMillis),
    /// Its node has reported it.
    Running,
}

/// What an update asks for that is waiting for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingUpdate {
    /// Nothing.
    None,
    /// To be promised its resources.
    Promotion,
}

/// A container that has not finished.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Its id.
    pub id: ContainerId,
    /// Where it is.
    pub node: NodeId,
    /// What it may use.
    pub resource: Resource,
    /// That of its ask.
    pub priority: i32,
    /// That of its ask; -1 when the ask had none.
    pub allocation_request_id: i64,
    /// What it is promised.
    pub execution_type: ExecutionType,
    /// Counts its updates, from 0.
    pub version: i32,
    /// How far it is.
    pub stage: ContainerStage,
    /// Whether it is an application's master.
    pub is_master: bool,
    /// When it was allocated.
    pub created: EpochMillis,
    /// What it waits for.
    pub pending: PendingUpdate,
}

impl Container {
    /// Whether the time to start it has run out.
    #[must_use]
    pub fn is_expired(&self, now: MonoMillis, expiry_ms: u64) -> bool {
        match self.stage {
            ContainerStage::Acquired(since) => now.since(since) > expiry_ms,
            ContainerStage::Allocated | ContainerStage::Running => false,
        }
    }
}
