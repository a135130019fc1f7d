//! Causes of a kill, with the exit status and text of each. The texts are Hadoop's, because AMs and
//! people search for them.

use records::{ContainerExitStatus, ExecutionType, Resource};

use crate::action::{KillReason, PauseEnd, RejectReason};

/// Text after the reason when a queued container never had a process (Hadoop: `ContainerLaunch`).
pub(crate) const TERMINATED_BEFORE_LAUNCH: &str = "Container terminated before launch.";

/// Text after the reason when the container was still localizing (Hadoop: `ContainerImpl`).
pub(crate) const KILLED_BEFORE_LAUNCH: &str = "Container is killed before being launched.";

/// Text for a process ended by a signal that this node did not send (Hadoop: `ContainerImpl`).
pub(crate) const KILLED_BY_EXTERNAL_SIGNAL: &str = "Killed by external signal";

/// Text for a victim that is frozen (Hadoop: `ContainerScheduler`).
pub(crate) const PAUSED_TO_MAKE_ROOM: &str =
    "Container Paused to make room for Guaranteed Container";

/// Text for a victim that is killed (Hadoop: `ContainerScheduler`).
const KILLED_TO_MAKE_ROOM: &str = "Container Killed to make room for Guaranteed Container.";

/// Cause of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillCause {
    /// Request from outside the scheduler.
    Asked(KillReason),
    /// A guaranteed container needs the resources.
    Evicted,
    /// The ResourceManager lowered the limit of the queue.
    Shed,
    /// The container may not wait in the queue.
    Rejected {
        reason: RejectReason,
        asked: Resource,
        node: Resource,
    },
    /// The node is drained; the container has this type.
    Drained(ExecutionType),
    /// Freezing or thawing failed.
    PauseFailed,
    /// The container was evicted by freezing and cannot stay frozen.
    PauseEnded { reason: PauseEnd, paused_ms: u64 },
}

impl KillCause {
    /// Returns the container's exit status, unless its process ends by itself first.
    pub(crate) fn exit_status(self) -> ContainerExitStatus {
        match self {
            Self::Asked(KillReason::ApplicationMaster) => ContainerExitStatus::KILLED_BY_APPMASTER,
            Self::Asked(KillReason::ResourceManager) => {
                ContainerExitStatus::KILLED_BY_RESOURCEMANAGER
            }
            Self::Asked(
                KillReason::ApplicationFinished
                | KillReason::ApplicationNotRunning
                | KillReason::Shutdown,
            ) => ContainerExitStatus::KILLED_AFTER_APP_COMPLETION,
            Self::Asked(KillReason::ExceededVmem) => ContainerExitStatus::KILLED_EXCEEDED_VMEM,
            Self::Asked(KillReason::ExceededPmem) => ContainerExitStatus::KILLED_EXCEEDED_PMEM,
            // A pause that is ended so was an eviction in the end.
            Self::Evicted | Self::Shed | Self::Rejected { .. } | Self::PauseEnded { .. } => {
                ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER
            }
            // What AMs know as no fault of the container: of opportunistic containers that the node
            // ends, and of guaranteed ones on a node that is lost.
            Self::Drained(ExecutionType::Opportunistic) => {
                ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER
            }
            Self::Drained(ExecutionType::Guaranteed) => ContainerExitStatus::ABORTED,
            Self::PauseFailed => ContainerExitStatus::PREEMPTED,
        }
    }

    /// Returns whether the run time is typical of the application: its containers run until the
    /// application no longer needs them or they reach their limits.
    pub(crate) fn has_typical_run_time(self) -> bool {
        match self {
            Self::Asked(
                KillReason::ApplicationMaster
                | KillReason::ResourceManager
                | KillReason::ApplicationFinished
                | KillReason::ExceededVmem
                | KillReason::ExceededPmem,
            ) => true,
            Self::Asked(KillReason::ApplicationNotRunning | KillReason::Shutdown)
            | Self::Evicted
            | Self::Shed
            | Self::Rejected { .. }
            | Self::Drained(_)
            | Self::PauseFailed
            | Self::PauseEnded { .. } => false,
        }
    }

    /// Returns whether SIGKILL is sent at once. To end by itself, a frozen container would have to
    /// run in memory that others need now.
    pub(crate) fn is_urgent(self) -> bool {
        match self {
            Self::PauseEnded {
                reason: PauseEnd::MemoryNeeded,
                ..
            } => true,
            Self::Asked(_)
            | Self::Evicted
            | Self::Shed
            | Self::Rejected { .. }
            | Self::Drained(_)
            | Self::PauseFailed
            | Self::PauseEnded {
                reason: PauseEnd::TooLong,
                ..
            } => false,
        }
    }

    /// Returns the text for the AM and for people.
    pub(crate) fn diagnostics(self) -> String {
        match self {
            Self::Asked(KillReason::ApplicationMaster) => {
                "Container killed by the ApplicationMaster.".to_owned()
            }
            Self::Asked(KillReason::ResourceManager) => {
                "Container Killed by ResourceManager".to_owned()
            }
            Self::Asked(KillReason::ApplicationFinished) => {
                "Container killed on application-finish event: Application killed by ResourceManager"
                    .to_owned()
            }
            Self::Asked(KillReason::ApplicationNotRunning) => {
                "Application no longer running.".to_owned()
            }
            Self::Asked(KillReason::Shutdown) => {
                "Container killed on application-finish event: Application killed on shutdown"
                    .to_owned()
            }
            // The measuring part reported amount and limit with [`crate::Event::Annotate`].
            Self::Asked(KillReason::ExceededVmem | KillReason::ExceededPmem) => String::new(),
            Self::Evicted => KILLED_TO_MAKE_ROOM.to_owned(),
            Self::Shed => "Container De-queued to meet NM queuing limits.".to_owned(),
            Self::Rejected { reason: RejectReason::QueueFull, .. } => {
                "Opportunistic container queue is full.".to_owned()
            }
            // Hadoop has no such text: there the container would block the queue for ever.
            Self::Rejected { reason: RejectReason::NeverFits, asked, node } => format!(
                "Opportunistic container asks for {asked}, more than the {node} of the whole node."
            ),
            // Hadoop's NodeManager cannot be drained.
            Self::Rejected { reason: RejectReason::Draining, .. } => {
                "Opportunistic container is not admitted: the node is being drained.".to_owned()
            }
            Self::Drained(_) => "Container killed because the node is being drained.".to_owned(),
            // Two blanks, and "pausing" for a failed resume too, as in Hadoop's `ContainerLaunch`.
            Self::PauseFailed => {
                "Container preempted as there was  an exception in pausing it.".to_owned()
            }
            // Hadoop, which never ends a pause, has no text for these; they begin with that of an
            // eviction.
            Self::PauseEnded { reason: PauseEnd::TooLong, paused_ms } => format!(
                "{KILLED_TO_MAKE_ROOM} It was paused for {} s without room to resume.",
                paused_ms / 1_000
            ),
            Self::PauseEnded { reason: PauseEnd::MemoryNeeded, .. } => {
                format!("{KILLED_TO_MAKE_ROOM} The memory that it held while paused is needed.")
            }
        }
    }

    /// Returns the text to append if the container never had a process.
    pub(crate) fn before_launch(self, localizing: bool) -> &'static str {
        match self {
            Self::Asked(_) if localizing => KILLED_BEFORE_LAUNCH,
            // A rejected container has just been localized; Hadoop no longer counts it as
            // localizing.
            Self::Asked(_)
            | Self::Evicted
            | Self::Shed
            | Self::Rejected { .. }
            | Self::Drained(_)
            | Self::PauseFailed
            | Self::PauseEnded { .. } => TERMINATED_BEFORE_LAUNCH,
        }
    }
}
