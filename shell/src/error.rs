//! Errors of the client: a job could not be run, or its result is unknown.

use records::{ApplicationId, Resource};
use thiserror::Error;
use wire::failover::FailoverError;

use crate::job::JobError;

/// Reason for which there is no [`Summary`](crate::Summary).
#[derive(Debug, Error)]
pub enum ShellError {
    /// Job that cannot run on any cluster.
    #[error(transparent)]
    Job(#[from] JobError),
    /// Size above the cluster's largest container; the job was not submitted.
    #[error("{what} of {asked} is asked for, and the ResourceManager gives {largest} at most")]
    TooLarge {
        /// Part of the job with this size: `a container` or `the master`.
        what: &'static str,
        /// Size that the job asks for.
        asked: Resource,
        /// Largest size on this cluster.
        largest: Resource,
    },
    /// Program path that a launch context cannot contain.
    #[error("the path of this program cannot be written in UTF-8")]
    ProgramPath,
    /// Call that the ResourceManager refuses, or to which it has not answered for too long.
    #[error("{doing}")]
    ResourceManager {
        /// Description of the call.
        doing: &'static str,
        /// Cause of the failure.
        source: FailoverError,
    },
    /// Answer that lacks a field or has one that does not parse.
    #[error("the ResourceManager's answer to {method} is broken")]
    Answer {
        /// Name of the call's method.
        method: &'static str,
        /// Defect of the answer.
        source: wire::convert::ConvertError,
    },
    /// Application whose end is unknown, since the ResourceManager was silent for too long.
    #[error("lost sight of {application}")]
    Lost {
        /// Id of the application.
        application: ApplicationId,
        /// Cause of the silence.
        source: FailoverError,
    },
    /// Application that the ResourceManager has forgotten, as after a restart without recovery.
    #[error("the ResourceManager does not know {application} any more")]
    Forgotten {
        /// Id of the application.
        application: ApplicationId,
    },
    /// Application that was killed.
    #[error("{application} was killed: {diagnostics}")]
    Killed {
        /// Id of the application.
        application: ApplicationId,
        /// Diagnostics from the ResourceManager.
        diagnostics: String,
    },
    /// Application that was not accepted after all, or whose AM failed to start or to unregister.
    #[error("{application} failed: {diagnostics}")]
    MasterFailed {
        /// Id of the application.
        application: ApplicationId,
        /// Diagnostics from the ResourceManager.
        diagnostics: String,
    },
}
