//! Vocabulary of the container scheduler: actions, their reasons, and refusals. What goes in is an
//! [`Event`](crate::Event).

use records::{ContainerExitStatus, ContainerId, ExecutionType, Resource};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::container_spec::ContainerSpec;
use crate::queue_order::QueueOrder;

/// Output of the scheduler: work that the caller must do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub enum Action {
    /// Fetch the container's resources to the local disk; answer `Localized` or
    /// `LocalizationFailed`.
    Localize(ContainerId),
    /// Start the container's process; answer `Launched` or `LaunchFailed`, later `ProcessesGone`
    /// and `Exited`. Comes again after a failure that the container's retry policy covers.
    Launch(ContainerId),
    /// Restore the container's launch context before the present one, which failed. `Launch`
    /// follows once the container has resources again.
    RollBack(ContainerId),
    /// Freeze the container; answer `Paused` or `PauseFailed`. May follow `Resume` before that is
    /// answered: the answers for one container come in the order of its actions.
    Pause(ContainerId),
    /// Thaw the container; answer `Resumed` or `PauseFailed`.
    Resume(ContainerId),
    /// Send SIGTERM to all processes of the container, thawing them first if they are frozen.
    /// `Exited` follows when all have ended.
    ///
    /// May come before `Launch` is answered. Then the launcher either creates no process and
    /// answers `LaunchFailed`, or creates and ends it, and answers `Launched` and `Exited`.
    Terminate(ContainerId),
    /// Send SIGKILL to all processes of the container, thawing them if a frozen process takes no
    /// signal. `Exited` follows. May come before `Launch` is answered, like `Terminate`.
    ForceKill(ContainerId),
    /// Apply the limits of the container's new size or execution type.
    ApplyLimits(ContainerSpec),
    /// Release the container's directories and cache references, and cancel its localization if
    /// that is still running; answer `CleanedUp`.
    CleanUp(ContainerId),
    /// The container is finished and its exit status is final: report it to the RM at once.
    Completed(Completion),
    /// Information for metrics, logs and the live page. Needs no answer.
    Note(Note),
}

/// Final result of a container. Each container has exactly one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// Container that finished.
    pub id: ContainerId,
    /// Exit status, final.
    pub exit_status: ContainerExitStatus,
    /// Execution type at the end.
    pub execution_type: ExecutionType,
}

/// A decision and its reason, for people and metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// A container joined the queue of its type and waits for resources.
    Queued {
        /// Container that waits.
        id: ContainerId,
        /// Execution type, which selects the queue.
        execution_type: ExecutionType,
        /// Position in the queue; 1 is the head.
        position: usize,
        /// Resources that the node lacks for the container; none of a type: only those before it in
        /// the queue are in its way.
        missing: Resource,
    },
    /// A container is being launched, or resumed after a pause.
    Started {
        /// Container that starts.
        id: ContainerId,
        /// Execution type at the start.
        execution_type: ExecutionType,
        /// Milliseconds since the container joined the queue of its type: since it was localized,
        /// was frozen, or was promoted or demoted while it waited.
        queue_wait_ms: u64,
        /// Wait for a new container, in milliseconds, that the last heartbeat before this
        /// opportunistic container was localized reported to the ResourceManager. `None` if nothing
        /// was reported, or the container was resumed or its type changed. Containers that came
        /// after that heartbeat are not in it: the value is what the ResourceManager could know,
        /// not what this container had to expect.
        reported_wait_ms: Option<u64>,
        /// Estimated wait of this container, in milliseconds from when it was localized, at its
        /// position in the queue at the first heartbeat after that. `None` if it started before
        /// that heartbeat, if no container had ended on this node yet, so that no run time was
        /// known, or if the container was resumed or its type changed.
        estimated_wait_ms: Option<u64>,
        /// Whether the container was paused before.
        resumed: bool,
    },
    /// An opportunistic container starts before one that waits longer, or whose turn it is.
    /// Precedes its `Started`.
    Passed {
        /// Container that starts.
        id: ContainerId,
        /// Container that it passes: the one that waits longest, or whose turn it is.
        passed: ContainerId,
        /// Why it starts out of turn.
        reason: PassReason,
    },
    /// A guaranteed container that asks for more than the node offers starts, because nothing else
    /// runs. Precedes its `Started`.
    LargerThanNode {
        /// Container that starts.
        id: ContainerId,
        /// Resources of the container.
        asked: Resource,
        /// Resources that the node offers.
        node: Resource,
    },
    /// An opportunistic container was not admitted to the queue.
    Rejected {
        /// Container that was rejected.
        id: ContainerId,
        /// Cause of the rejection.
        reason: RejectReason,
    },
    /// An opportunistic container was removed from the queue because the RM's limit dropped, or
    /// because the node is drained.
    Shed {
        /// Container that was shed.
        id: ContainerId,
        /// Reason for the removal.
        reason: ShedReason,
    },
    /// A running opportunistic container is killed or paused to make room.
    Evicted {
        /// Container that is evicted.
        id: ContainerId,
        /// Guaranteed container that needs the resources.
        for_container: ContainerId,
        /// Whether the victim is frozen instead of killed.
        paused: bool,
        /// Milliseconds that the victim has run, pauses excluded: the work that a kill discards.
        ran_ms: u64,
    },
    /// A container is ended because the node is drained. Those that wait are shed or rejected
    /// instead.
    Drained {
        /// Container that is ended.
        id: ContainerId,
        /// Milliseconds that the container has run, pauses excluded: the work that is discarded.
        ran_ms: u64,
    },
    /// A frozen container is killed instead of resumed.
    PausedKilled {
        /// Container that is killed.
        id: ContainerId,
        /// Cause that ended the pause.
        reason: PauseEnd,
        /// Milliseconds since the container was frozen.
        paused_ms: u64,
        /// Milliseconds that the container has run, pauses excluded: the work that is discarded.
        ran_ms: u64,
    },
    /// A container failed and will be launched again in its allocation.
    Retried {
        /// Container that failed.
        id: ContainerId,
        /// Exit status of the failed process.
        status: ContainerExitStatus,
        /// Milliseconds until the next launch.
        after_ms: u64,
        /// Retries that the policy would still grant after this one; `None`: no limit.
        remaining: Option<u32>,
    },
    /// The execution type of a container was raised to guaranteed.
    Promoted(ContainerId),
    /// The execution type of a container was lowered to opportunistic.
    Demoted(ContainerId),
}

/// Reason why a container starts before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PassReason {
    /// The order in force puts it before the other.
    Order {
        /// Order in force.
        order: QueueOrder,
        /// Milliseconds that the container is expected to run.
        expected_ms: u64,
        /// Milliseconds that the one that it passes is expected to run.
        passed_expected_ms: u64,
    },
    /// The one whose turn it is does not fit, and is not expected to start later for it.
    Backfill {
        /// Milliseconds until the node is expected to have room for that one.
        room_in_ms: u64,
    },
}

/// Reason why an opportunistic container is not admitted to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RejectReason {
    /// The queue is full: `yarn.nodemanager.opportunistic-containers-max-queue-length` containers
    /// wait already or, under `BY_RESOURCES`, the containers that run and wait leave too few
    /// resources.
    QueueFull,
    /// The container asks for more than the whole node offers.
    NeverFits,
    /// The node is drained.
    Draining,
}

/// Reason why a container lost its place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShedReason {
    /// Too many containers waited.
    QueueLength {
        /// Queued containers that the RM allows.
        limit: usize,
    },
    /// The node is drained.
    Draining,
}

/// Containers that a drain of the node ends. Each extent includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DrainExtent {
    /// Opportunistic containers that have not started. None starts or waits from now on; running
    /// and frozen ones go on.
    Queue,
    /// All opportunistic containers.
    Opportunistic,
    /// All containers. Those that are started later are ended before their launch.
    All,
}

/// Reason why a frozen container is killed instead of thawed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PauseEnd {
    /// The container has been frozen for [`crate::ContainerSchedulerConfig::pause_max_ms`].
    TooLong,
    /// Running and frozen containers together hold more memory than
    /// [`crate::ContainerSchedulerConfig::memory_ceiling_mb`] allows.
    MemoryNeeded,
}

/// Requester and reason of a kill. Decides exit status and diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KillReason {
    /// `stopContainers` by the container's AM: -105.
    ApplicationMaster,
    /// Listed in a heartbeat's `containers_to_cleanup`, or a resync without work preservation:
    /// -106.
    ResourceManager,
    /// End of the application: -107.
    ApplicationFinished,
    /// Start after the application had ended: -107.
    ApplicationNotRunning,
    /// Shutdown of the agent: -107.
    Shutdown,
    /// More virtual memory used than allowed: -103.
    ExceededVmem,
    /// More physical memory used than allowed: -104.
    ExceededPmem,
}

/// Limits that the RM sets for the opportunistic queue of this node (Hadoop:
/// `ContainerQueuingLimit`, heartbeat response field 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerQueuingLimit {
    /// Queued opportunistic containers; `None` (the wire's -1): no limit by length.
    pub max_queue_length: Option<usize>,
    /// Milliseconds of estimated wait, which a ResourceManager publishes with `QUEUE_WAIT_TIME`;
    /// `None` (the wire's -1): no limit by time. Nodes report it and shed nothing for it, as in
    /// Hadoop (`ContainerScheduler.shedQueuedOpportunisticContainers`).
    pub max_queue_wait_time_ms: Option<u64>,
}

/// Rejection of an event that does not fit the scheduler's state, which stays unchanged. The caller
/// answers its peer with this error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No container has this id.
    #[error("container {0} is not handled by this NodeManager")]
    UnknownContainer(ContainerId),
    /// A container with this id is already known.
    #[error("container {0} already is running on this node")]
    AlreadyKnown(ContainerId),
    /// The container does not run, so that there is no process to replace.
    #[error("container {id} does not run but is {state}")]
    NotRunning {
        /// Container that was to be restarted.
        id: ContainerId,
        /// State of the container, by Hadoop's name.
        state: &'static str,
    },
    /// The number of containers has reached [`crate::CONTAINERS_MAX`].
    #[error("this node already has {0} containers, which is its limit")]
    TooManyContainers(usize),
    /// The update is not newer than the version in force.
    #[error("container {id} has update version [{current}] >= requested version [{requested}]")]
    VersionNotGreater {
        /// Container to update.
        id: ContainerId,
        /// Version in force.
        current: i32,
        /// Version of the update.
        requested: i32,
    },
    /// An answer without an open action, or a second answer: a defect of the caller's parts, worth
    /// a line in the log. Late answers for a container that was killed in the meantime are accepted
    /// instead.
    #[error("answer {answer} is illegal for container {id} in state {state}")]
    UnexpectedAnswer {
        /// Container that the answer names.
        id: ContainerId,
        /// State of the container, by Hadoop's name.
        state: &'static str,
        /// Name of the event.
        answer: &'static str,
    },
}
