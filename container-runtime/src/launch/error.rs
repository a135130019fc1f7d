//! Why a container could not be launched.

use std::io;
use std::path::PathBuf;

use cgroup::{CgroupError, SpawnError};
use thiserror::Error;

use super::context::PlanError;

/// Why a container could not be launched. Becomes the diagnostics of a launch that failed.
#[derive(Debug, Error)]
pub(super) enum LaunchError {
    /// The launch context asks for what cannot be done.
    #[error("the launch context is invalid")]
    Plan(#[from] PlanError),
    /// The places that the plan needs could not be made.
    #[error("{0}")]
    NoPlan(String),
    /// A file or directory of the container.
    #[error("cannot {operation} {path}")]
    File {
        /// What was tried.
        operation: &'static str,
        /// With which file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The process could not be started.
    #[error("cannot start {program}")]
    Spawn {
        /// The program.
        program: &'static str,
        /// Why.
        source: SpawnError,
    },
    /// Its cgroup could not be made.
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
