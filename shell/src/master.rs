//! ApplicationMaster of a job.
//!
//! ```text
//!  ResourceManager ◀─▶ rm ──────┐                        ┌─▶ rm
//!  nodes           ◀─▶ nodes ───┼─ Event ─▶ decisions ───┤
//!  endpoint, signals, clock ────┘   (pure)      Action ──┴─▶ nodes
//! ```
//!
//! [`decisions`] makes every decision on values of [`vocabulary`]; the rest of this module performs
//! the I/O. A container's wait is counted from when its node accepted it until it was first seen
//! running. Polls find that out to within a quarter of the wait, at intervals of
//! [`status_polls::POLL_MIN_MS`] to [`status_polls::POLL_MAX_MS`] milliseconds. The wait of a
//! container that ended before it was seen running counts until its end was known.

pub mod asks;
pub mod decisions;
mod driver;
pub(crate) mod endpoint;
mod node_changes;
mod nodes;
pub mod pace;
mod rm;
pub mod status_polls;
#[cfg(test)]
mod testing;
pub mod verdict;
pub mod vocabulary;
pub mod waits;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use records::{ContainerName, ParseIdError};
use thiserror::Error;
use wire::credentials::{Credentials, CredentialsError};
use wire::token::{Token, kind};

use crate::spec::{self, Spec, SpecError};
use crate::summary::Outcome;

/// Variable with the path of the AM's tokens (Hadoop: `UserGroupInformation`).
const TOKEN_FILE: &str = "HADOOP_TOKEN_FILE_LOCATION";

/// Variable with the id of the AM's own container (Hadoop:
/// `ApplicationConstants.Environment.CONTAINER_ID`).
const CONTAINER_ID: &str = "CONTAINER_ID";

/// Variable with the host of the AM's node (Hadoop: `ApplicationConstants.Environment.NM_HOST`).
const NM_HOST: &str = "NM_HOST";

/// Reason for which an AM could not run its job.
#[derive(Debug, Error)]
pub enum MasterError {
    /// Specification that is missing or does not parse.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Variable that every node sets and that is missing.
    #[error("{name} is not set: this command is for the containers that nm-agent shell asks for")]
    Unset {
        /// Name of the variable.
        name: &'static str,
    },
    /// Container id that does not parse.
    #[error(transparent)]
    ContainerId(#[from] ParseIdError),
    /// Token file that cannot be read.
    #[error("reading the tokens in {}", path.display())]
    ReadTokens {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// Token file that does not parse.
    #[error("the tokens in {} are broken", path.display())]
    Tokens {
        /// Path of the file.
        path: PathBuf,
        /// Defect of the file.
        source: CredentialsError,
    },
    /// Token file without a token for the ResourceManager.
    #[error("there is no AMRMToken in {}", path.display())]
    NoToken {
        /// Path of the file.
        path: PathBuf,
    },
    /// Failure to install a signal handler.
    #[error("listening for SIGTERM")]
    Signals(#[source] io::Error),
    /// Loss of the ResourceManager.
    #[error("{0}")]
    Lost(&'static str),
}

/// Inputs of an AM from its environment.
#[derive(Debug)]
struct Inputs {
    spec: Spec,
    container: ContainerName,
    host: String,
    token: Token,
}

impl Inputs {
    fn read(environment: &BTreeMap<String, String>) -> Result<Self, MasterError> {
        let variable = |name| environment.get(name).map(String::as_str);
        let set = |name| variable(name).ok_or(MasterError::Unset { name });
        let spec = Spec::decode(variable(spec::VARIABLE))?;
        let container = set(CONTAINER_ID)?.parse()?;
        let host = set(NM_HOST)?.to_owned();
        let path = PathBuf::from(set(TOKEN_FILE)?);
        let bytes = std::fs::read(&path).map_err(|source| MasterError::ReadTokens {
            path: path.clone(),
            source,
        })?;
        let credentials = Credentials::read(&bytes).map_err(|source| MasterError::Tokens {
            path: path.clone(),
            source,
        })?;
        let token = credentials.token_of_kind(kind::AM_RM_TOKEN).cloned();
        Ok(Self {
            spec,
            container,
            host,
            token: token.ok_or(MasterError::NoToken { path })?,
        })
    }
}

/// Runs the AM of the job that `environment` describes, to its end.
///
/// # Errors
/// [`MasterError`]: invalid environment, or a lost ResourceManager.
pub async fn run(environment: &BTreeMap<String, String>) -> Result<Outcome, MasterError> {
    driver::run(Inputs::read(environment)?).await
}
