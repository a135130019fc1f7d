//! States of applications and containers under Hadoop's names.

use sched::{ContainerState, Ending};

/// An application's life (Hadoop: `ApplicationState` of the NodeManager).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationState {
    /// Just made known by a first container.
    New,
    /// Directories and logs are being set up.
    Initing,
    /// Containers may start.
    Running,
    /// The application has ended; its containers are being killed.
    FinishingContainersWait,
    /// The application's containers are gone; its files are being deleted.
    ApplicationResourcesCleaningUp,
    /// Only its logs are left.
    Finished,
}

impl ApplicationState {
    /// In the order of an application's life.
    pub const ALL: [Self; 6] = [
        Self::New,
        Self::Initing,
        Self::Running,
        Self::FinishingContainersWait,
        Self::ApplicationResourcesCleaningUp,
        Self::Finished,
    ];

    /// Hadoop's name, as in REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Initing => "INITING",
            Self::Running => "RUNNING",
            Self::FinishingContainersWait => "FINISHING_CONTAINERS_WAIT",
            Self::ApplicationResourcesCleaningUp => "APPLICATION_RESOURCES_CLEANINGUP",
            Self::Finished => "FINISHED",
        }
    }

    /// The state of this name, exactly as [`Self::as_str`] writes it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// A container's life as REST names it: finer than heartbeats and status replies (Hadoop:
/// `ContainerState` of the NodeManager). Without Hadoop's states of a container that is new, or
/// that runs while resources for its re-initialization are localized: the latter is `RUNNING` here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerRestState {
    /// The container's resources are being brought to the local disk.
    Localizing,
    /// A resource of the container could not be localized.
    LocalizationFailed,
    /// The container is queued, or being launched.
    Scheduled,
    /// The container's process exists.
    Running,
    /// The process is being frozen.
    Pausing,
    /// The process is frozen.
    Paused,
    /// The process is being thawed.
    Resuming,
    /// The process failed; the container waits for its next launch.
    Relaunching,
    /// The process is being ended for a restart.
    ReinitializingAwaitingKill,
    /// The process is being killed.
    Killing,
    /// The process ended with 0; its cgroup and files are being removed.
    ExitedWithSuccess,
    /// The process ended with another status; its cgroup and files are being removed.
    ExitedWithFailure,
    /// The process was killed; its cgroup and files are being removed.
    ContainerCleanedUpAfterKill,
    /// The container is finished.
    Done,
}

impl ContainerRestState {
    /// Hadoop's name, as in REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Localizing => "LOCALIZING",
            Self::LocalizationFailed => "LOCALIZATION_FAILED",
            Self::Scheduled => "SCHEDULED",
            Self::Running => "RUNNING",
            Self::Pausing => "PAUSING",
            Self::Paused => "PAUSED",
            Self::Resuming => "RESUMING",
            Self::Relaunching => "RELAUNCHING",
            Self::ReinitializingAwaitingKill => "REINITIALIZING_AWAITING_KILL",
            Self::Killing => "KILLING",
            Self::ExitedWithSuccess => "EXITED_WITH_SUCCESS",
            Self::ExitedWithFailure => "EXITED_WITH_FAILURE",
            Self::ContainerCleanedUpAfterKill => "CONTAINER_CLEANEDUP_AFTER_KILL",
            Self::Done => "DONE",
        }
    }
}

impl From<ContainerState> for ContainerRestState {
    /// A container that is queued, and one that is being launched, are both `SCHEDULED` to Hadoop.
    fn from(state: ContainerState) -> Self {
        match state {
            ContainerState::Localizing => Self::Localizing,
            ContainerState::Queued { .. } | ContainerState::Launching { .. } => Self::Scheduled,
            ContainerState::Running { .. } | ContainerState::Gone { killed: false } => {
                Self::Running
            }
            ContainerState::Pausing => Self::Pausing,
            ContainerState::Paused { .. } => Self::Paused,
            ContainerState::Resuming { .. } => Self::Resuming,
            ContainerState::Relaunching { .. } => Self::Relaunching,
            ContainerState::Restarting => Self::ReinitializingAwaitingKill,
            ContainerState::Killing { .. } | ContainerState::Gone { killed: true } => Self::Killing,
            ContainerState::Completing(Ending::Succeeded) => Self::ExitedWithSuccess,
            ContainerState::Completing(Ending::Failed) => Self::ExitedWithFailure,
            ContainerState::Completing(Ending::Killed) => Self::ContainerCleanedUpAfterKill,
            ContainerState::Completing(Ending::LocalizationFailed) => Self::LocalizationFailed,
            ContainerState::Done(_) => Self::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_state_reads_back_from_its_name_and_nothing_else_does() {
        for state in ApplicationState::ALL {
            assert_eq!(ApplicationState::from_name(state.as_str()), Some(state));
        }
        for name in ["", "running", "RUNNING ", "DONE"] {
            assert_eq!(ApplicationState::from_name(name), None, "{name:?}");
        }
    }
}
