//! What the container scheduler tells of its containers: plain data, made when somebody asks.

use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis};

use crate::container_spec::ContainerSpec;
use crate::container_state::ContainerState;

/// Numbers for the heartbeat (Hadoop: `OpportunisticContainersStatus`). Always derived from the
/// present containers, so promotions and demotions cannot make them drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpportunisticContainersStatus {
    /// Opportunistic containers that hold an allocation: their launch is ordered, they run, or they
    /// are being killed or frozen.
    pub running_opport_containers: u32,
    /// Memory of these containers in mebibytes. The wire field is in gibibytes, rounded up.
    pub opport_memory_used_mb: u64,
    /// Virtual cores of these containers.
    pub opport_cores_used: u32,
    /// Opportunistic containers waiting or paused.
    pub queued_opport_containers: u32,
    /// Waiting containers of both types; of a node that is drained, at least as many as may wait.
    /// The RM orders nodes by this number and places nothing on a full one.
    pub wait_queue_length: u32,
    /// Milliseconds that another opportunistic container, of the size last seen, would wait, as of
    /// the last [`crate::Event::EstimateWaits`]; `None` if it would not be admitted to the queue,
    /// as on a node that is drained.
    pub estimated_queue_wait_ms: Option<u32>,
    /// Opportunistic containers that may wait:
    /// [`crate::ContainerSchedulerConfig::reported_queue_capacity`].
    pub opport_queue_capacity: u32,
}

/// Container that waits for resources, paused or not yet started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedContainer {
    /// Container that waits.
    pub id: ContainerId,
    /// Execution type, which selects the queue.
    pub execution_type: ExecutionType,
    /// Whether the container is frozen and will be resumed instead of launched.
    pub paused: bool,
}

/// State of a container without its diagnostics: cheap to create for callers that visit many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerSummary {
    /// Id, size, type and version in force.
    pub spec: ContainerSpec,
    /// State in which the container is now.
    pub state: ContainerState,
    /// Time at which the current state was entered.
    pub since: MonoMillis,
}

/// State of a container with exit status and diagnostics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView {
    /// Id, size, type and version in force.
    pub spec: ContainerSpec,
    /// State in which the container is now.
    pub state: ContainerState,
    /// Exit status; [`ContainerExitStatus::INVALID`] until it is set.
    pub exit_status: ContainerExitStatus,
    /// Text for the AM and for people, of bounded length.
    pub diagnostics: String,
    /// Time at which the current state was entered.
    pub since: MonoMillis,
    /// Milliseconds that it ran before its current state: with a process that was neither frozen
    /// nor being killed.
    pub ran_before_ms: u64,
}
