//! Why a job could not be run, or is not known to have run.

use records::{ApplicationId, Resource};
use thiserror::Error;

use crate::job::JobError;
use crate::rm_link::LinkError;

/// Why there is no [`Summary`](crate::Summary).
#[derive(Debug, Error)]
pub enum ShellError {
    /// The job could not run anywhere.
    #[error(transparent)]
    Job(#[from] JobError),
    /// No container of the cluster is that large; nothing was submitted.
    #[error("{what} of {asked} is asked for, and the ResourceManager gives {largest} at most")]
    TooLarge {
        /// Whose size: `a container` or `the master`.
        what: &'static str,
        /// What is asked for.
        asked: Resource,
        /// What there is.
        largest: Resource,
    },
    /// The program of the master has no path that a launch context could name.
    #[error("the path of this program cannot be written in UTF-8")]
    ProgramPath,
    /// The ResourceManager refuses, or has not answered for too long.
    #[error("{doing}")]
    ResourceManager {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        source: LinkError,
    },
    /// The answer does not say what it must.
    #[error("the ResourceManager's answer to {method} is broken")]
    Answer {
        /// Which call.
        method: &'static str,
        /// What is wrong with it.
        source: wire::convert::ConvertError,
    },
    /// The ResourceManager was gone for too long, so that nobody knows what became of the application.
    #[error("lost sight of {application}")]
    Lost {
        /// Which application.
        application: ApplicationId,
        /// Why.
        source: LinkError,
    },
    /// The ResourceManager does not know the application any more, as after a restart without recovery.
    #[error("the ResourceManager does not know {application} any more")]
    Forgotten {
        /// Which application.
        application: ApplicationId,
    },
    /// Somebody killed the application.
    #[error("{application} was killed: {diagnostics}")]
    Killed {
        /// Which application.
        application: ApplicationId,
        /// What the ResourceManager says.
        diagnostics: String,
    },
    /// It was not taken after all, or its master did not start or did not end in order.
    #[error("{application} failed: {diagnostics}")]
    MasterFailed {
        /// Which application.
        application: ApplicationId,
        /// What the ResourceManager says.
        diagnostics: String,
    },
}
