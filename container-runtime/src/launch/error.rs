//! Errors of a container's launch.

use std::io;
use std::path::PathBuf;

use cgroup::{CgroupError, SpawnError};
use keeper::StartsError;
use records::ContainerExitStatus;
use thiserror::Error;

use super::context::PlanError;

/// Reason that a launch has no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlan {
    /// Exit status of the container.
    pub status: ContainerExitStatus,
    /// Text for the AM.
    pub diagnostics: String,
}

/// Failure to launch a container. Becomes the diagnostics of the failed launch.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The launch context asks for what cannot be done.
    #[error("the launch context is invalid")]
    Plan(#[from] PlanError),
    /// The places that the plan needs could not be made.
    #[error("{}", .0.diagnostics)]
    NoPlan(NoPlan),
    /// A file or directory of the container.
    #[error("cannot {operation} {path}")]
    File {
        /// Operation that failed.
        operation: &'static str,
        /// With which file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The process could not be started.
    #[error("cannot start {program}")]
    Spawn {
        /// Path of the program.
        program: &'static str,
        /// Error of the start.
        source: SpawnError,
    },
    /// No place could be had where the process notes that it exists.
    #[error("cannot prepare the note of the process's start")]
    Note(#[source] StartsError),
    /// The container's cgroup could not be created.
    #[error("cannot make the container's cgroup")]
    Cgroup(#[from] CgroupError),
    /// The process was started, but its end could not be learned, so it was killed.
    #[error("cannot watch process {pid}")]
    Watch {
        /// The process that was.
        pid: i32,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl LaunchError {
    /// Returns whether the node lacks what every launch needs. A failure that a container, its
    /// user's limits or its folders may have caused is not the node's.
    pub(super) const fn is_of_node(&self) -> bool {
        match self {
            Self::Note(_) | Self::Cgroup(_) => true,
            Self::Spawn { source, .. } => match source {
                SpawnError::Cgroup(_) | SpawnError::Prepare(_) | SpawnError::Clone(_) => true,
                SpawnError::Child { .. } => false,
            },
            Self::Plan(_) | Self::NoPlan(_) | Self::File { .. } | Self::Watch { .. } => false,
        }
    }

    /// Returns the exit status of a container whose launch failed so.
    pub(super) const fn exit_status(&self) -> ContainerExitStatus {
        match self {
            Self::NoPlan(no_plan) => no_plan.status,
            Self::Plan(_)
            | Self::File { .. }
            | Self::Spawn { .. }
            | Self::Note(_)
            | Self::Cgroup(_)
            | Self::Watch { .. } => ContainerExitStatus::LAUNCH_FAILED,
        }
    }
}

#[cfg(test)]
mod tests {
    use cgroup::Step;
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn a_process_that_cannot_be_created_is_the_nodes_fault_and_one_that_fails_is_not() {
        let spawn = |source| LaunchError::Spawn {
            program: "/bin/bash",
            source,
        };
        let cause = || io::Error::from(Errno::EAGAIN);
        assert!(spawn(SpawnError::Clone(cause())).is_of_node());
        assert!(spawn(SpawnError::Prepare(cause())).is_of_node());
        // The limit of processes of the container's user, which only the program's start meets.
        let (step, source) = (Step::Execute, cause());
        assert!(!spawn(SpawnError::Child { step, source }).is_of_node());
    }
}
