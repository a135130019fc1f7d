//! Why a container is killed, and what exit status and text say so. The texts are Hadoop's, since AMs and people grep
//! for them.

use records::{ContainerExitStatus, Resource};

use crate::action::{KillReason, PauseEnd, RejectReason};

/// What follows the reason when a queued container never had a process (Hadoop: `ContainerLaunch`).
pub(crate) const TERMINATED_BEFORE_LAUNCH: &str = "Container terminated before launch.";

/// What follows the reason when the container was still localizing (Hadoop: `ContainerImpl`).
pub(crate) const KILLED_BEFORE_LAUNCH: &str = "Container is killed before being launched.";

/// What is added when a process was ended by a signal that this node did not send (Hadoop: `ContainerImpl`).
pub(crate) const KILLED_BY_EXTERNAL_SIGNAL: &str = "Killed by external signal";

/// What a victim is told that keeps its process (Hadoop: `ContainerScheduler`).
pub(crate) const PAUSED_TO_MAKE_ROOM: &str =
    "Container Paused to make room for Guaranteed Container";

/// What a victim is told that does not (Hadoop: `ContainerScheduler`).
const KILLED_TO_MAKE_ROOM: &str = "Container Killed to make room for Guaranteed Container.";

/// Why a container is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillCause {
    /// Somebody outside asked for it.
    Asked(KillReason),
    /// A guaranteed container needs its room.
    Evicted,
    /// The ResourceManager's limit of the queue dropped.
    Shed,
    /// It may not wait.
    Rejected {
        reason: RejectReason,
        asked: Resource,
        node: Resource,
    },
    /// It could not be frozen or thawed.
    PauseFailed,
    /// It was evicted by freezing, and cannot stay frozen.
    PauseEnded { reason: PauseEnd, paused_ms: u64 },
}

impl KillCause {
    /// What its exit status becomes, unless its process ends by itself first.
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
            // A pause that ends so was an eviction after all.
            Self::Evicted | Self::Shed | Self::Rejected { .. } | Self::PauseEnded { .. } => {
                ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER
            }
            Self::PauseFailed => ContainerExitStatus::PREEMPTED,
        }
    }

    /// Whether it says how long the application's containers take: it is done with this one, or that one went as far as
    /// it could.
    pub(crate) fn is_of_its_application(self) -> bool {
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
            | Self::PauseFailed
            | Self::PauseEnded { .. } => false,
        }
    }

    /// Whether its processes get no time to end by themselves: a frozen one would have to run for that, in memory that
    /// others need now.
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
            | Self::PauseFailed
            | Self::PauseEnded {
                reason: PauseEnd::TooLong,
                ..
            } => false,
        }
    }

    /// For the AM and people.
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
            // Whoever measured it has told how much and by whom, with [`crate::Event::Annotate`].
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
            // Two blanks, and "pausing" for a failed resume too, as in Hadoop's `ContainerLaunch`.
            Self::PauseFailed => {
                "Container preempted as there was  an exception in pausing it.".to_owned()
            }
            // Hadoop, where nothing stays frozen, has no text for these; they begin with that of an eviction.
            Self::PauseEnded { reason: PauseEnd::TooLong, paused_ms } => format!(
                "{KILLED_TO_MAKE_ROOM} It was paused for {} s without room to resume.",
                paused_ms / 1_000
            ),
            Self::PauseEnded { reason: PauseEnd::MemoryNeeded, .. } => {
                format!("{KILLED_TO_MAKE_ROOM} The memory that it held while paused is needed.")
            }
        }
    }

    /// What is added when the container never had a process.
    pub(crate) fn before_launch(self, localizing: bool) -> &'static str {
        match self {
            Self::Asked(_) if localizing => KILLED_BEFORE_LAUNCH,
            // A rejected container has just become ready; for Hadoop it is past localization.
            Self::Asked(_)
            | Self::Evicted
            | Self::Shed
            | Self::Rejected { .. }
            | Self::PauseFailed
            | Self::PauseEnded { .. } => TERMINATED_BEFORE_LAUNCH,
        }
    }
}
