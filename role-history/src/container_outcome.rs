//! The meaning of a container's exit status for the application and for its node (Slider:
//! `ContainerOutcome`).

use records::ContainerExitStatus;

/// Meaning of an end that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerOutcome {
    /// Normal end, or an end by order of the application, the ResourceManager or the node.
    Completed,
    /// Failure that the application or the node may have caused. Both are charged.
    Failed,
    /// Failure of the application: more memory or log space used than allowed.
    FailedLimitsExceeded,
    /// Failure of the node.
    NodeFailure,
    /// Eviction in favour of another container. Never a failure.
    Preempted,
}

impl ContainerOutcome {
    /// Returns the meaning of an exit status (Slider: `ContainerOutcome.fromExitStatus`).
    ///
    /// Slider predates -108 and -109 and counts both as failures. An eviction by the node's
    /// container scheduler is here a preemption, and excess logs are an exceeded limit.
    #[must_use]
    pub fn of(status: ContainerExitStatus) -> Self {
        match status {
            ContainerExitStatus::SUCCESS
            | ContainerExitStatus::ABORTED
            | ContainerExitStatus::KILLED_BY_APPMASTER
            | ContainerExitStatus::KILLED_BY_RESOURCEMANAGER
            | ContainerExitStatus::KILLED_AFTER_APP_COMPLETION => Self::Completed,
            ContainerExitStatus::DISKS_FAILED => Self::NodeFailure,
            ContainerExitStatus::PREEMPTED | ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER => {
                Self::Preempted
            }
            ContainerExitStatus::KILLED_EXCEEDED_VMEM
            | ContainerExitStatus::KILLED_EXCEEDED_PMEM
            | ContainerExitStatus::KILLED_FOR_EXCESS_LOGS => Self::FailedLimitsExceeded,
            _ => Self::Failed,
        }
    }

    /// Returns whether the end counts against the node that the container ran on.
    #[must_use]
    pub const fn is_charged_to_node(self) -> bool {
        match self {
            Self::Failed | Self::NodeFailure => true,
            Self::Completed | Self::FailedLimitsExceeded | Self::Preempted => false,
        }
    }

    /// Returns whether the end counts towards the limit of recent failures of the role.
    #[must_use]
    pub const fn is_charged_to_role(self) -> bool {
        match self {
            Self::Failed | Self::FailedLimitsExceeded => true,
            Self::Completed | Self::NodeFailure | Self::Preempted => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_status_has_the_outcome_of_the_table() {
        for (status, outcome) in [
            (0, ContainerOutcome::Completed),
            (-1000, ContainerOutcome::Failed),
            (-100, ContainerOutcome::Completed),
            (-101, ContainerOutcome::NodeFailure),
            (-102, ContainerOutcome::Preempted),
            (-103, ContainerOutcome::FailedLimitsExceeded),
            (-104, ContainerOutcome::FailedLimitsExceeded),
            (-105, ContainerOutcome::Completed),
            (-106, ContainerOutcome::Completed),
            (-107, ContainerOutcome::Completed),
            (-108, ContainerOutcome::Preempted),
            (-109, ContainerOutcome::FailedLimitsExceeded),
            (1, ContainerOutcome::Failed),
            (137, ContainerOutcome::Failed),
            (-1, ContainerOutcome::Failed),
        ] {
            let found = ContainerOutcome::of(ContainerExitStatus(status));
            assert_eq!(found, outcome, "exit status {status}");
        }
    }

    #[test]
    fn preemption_is_charged_to_nobody() {
        let preempted = ContainerOutcome::Preempted;
        assert!(!preempted.is_charged_to_node() && !preempted.is_charged_to_role());
    }
}
