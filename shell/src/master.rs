//! The ApplicationMaster of a job.
//!
//! ```text
//!  ResourceManager ◀─▶ rm ──────┐                        ┌─▶ rm
//!  nodes           ◀─▶ nodes ───┼─ Event ─▶ decisions ───┤
//!  endpoint, signals, clock ────┘   (pure)      Action ──┴─▶ nodes
//! ```
//!
//! [`decisions`] decides and is told everything as [`vocabulary`]; the rest of this module carries that in and out. The
//! time that a container waited is counted from when its node accepted it until it was first seen running. It is seen by
//! asking, to within a quarter of itself, at least [`looks::LOOK_MIN_MS`] and at most [`looks::LOOK_MAX_MS`]
//! milliseconds; one that was over before it was seen running counts until its end was known.

pub mod asks;
pub mod decisions;
mod driver;
pub(crate) mod endpoint;
pub mod looks;
mod nodes;
pub mod pace;
mod rm;
#[cfg(test)]
mod testing;
pub mod verdict;
pub mod vocabulary;
pub mod waits;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use records::{ContainerId, ParseIdError};
use thiserror::Error;
use wire::credentials::{Credentials, CredentialsError};
use wire::token::{Token, kind};

use crate::spec::{self, Spec, SpecError};
use crate::summary::Outcome;

/// Names the file with the master's tokens (Hadoop: `UserGroupInformation`).
const TOKEN_FILE: &str = "HADOOP_TOKEN_FILE_LOCATION";

/// Names the master's own container (Hadoop: `ApplicationConstants.Environment.CONTAINER_ID`).
const CONTAINER_ID: &str = "CONTAINER_ID";

/// Names the master's node (Hadoop: `ApplicationConstants.Environment.NM_HOST`).
const NM_HOST: &str = "NM_HOST";

/// Why a master could not do its work.
#[derive(Debug, Error)]
pub enum MasterError {
    /// It does not know what to do.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A node would have set this variable.
    #[error("{name} is not set: this command is for the containers that nm-agent shell asks for")]
    Unset {
        /// Which variable.
        name: &'static str,
    },
    /// The variable of the container's id is none.
    #[error(transparent)]
    ContainerId(#[from] ParseIdError),
    /// The tokens cannot be read.
    #[error("reading the tokens in {}", path.display())]
    ReadTokens {
        /// Where they should be.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// They are no tokens.
    #[error("the tokens in {} are broken", path.display())]
    Tokens {
        /// Where they are.
        path: PathBuf,
        /// What is wrong.
        source: CredentialsError,
    },
    /// The one for the ResourceManager is not among them.
    #[error("there is no AMRMToken in {}", path.display())]
    NoToken {
        /// Where it should be.
        path: PathBuf,
    },
    /// Signals cannot be listened for.
    #[error("listening for SIGTERM")]
    Signals(#[source] io::Error),
    /// There was no way on.
    #[error("{0}")]
    Lost(&'static str),
}

/// What a master is given.
#[derive(Debug)]
struct Given {
    spec: Spec,
    container: ContainerId,
    host: String,
    token: Token,
}

impl Given {
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

/// Runs the master of the job that `environment` describes, to its end.
///
/// # Errors
/// [`MasterError`]: it could not begin, or there was no way on.
pub async fn run(environment: &BTreeMap<String, String>) -> Result<Outcome, MasterError> {
    driver::run(Given::read(environment)?).await
}
