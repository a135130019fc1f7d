//! Works that an earlier agent has left, by their names in records.

use std::fmt;
use std::str::FromStr;

use records::{ApplicationId, ContainerName};

/// Work for containers and applications of an earlier agent, in the order in which it goes on after
/// a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Adoption of a container's process.
    Adoption(ContainerName),
    /// Localization of a container's resources, and its launch.
    Start(ContainerName),
    /// Upload of an application's logs.
    Upload(ApplicationId),
}

impl Work {
    pub(super) const fn is_adoption(&self) -> bool {
        matches!(self, Self::Adoption(_))
    }

    /// Returns the reason with which the work fails, for people and ApplicationMasters.
    #[must_use]
    pub fn failure(&self) -> String {
        let what = match self {
            Self::Start(_) => "The localization or launch of this container was",
            Self::Upload(_) => "The upload of this application's logs was",
            Self::Adoption(_) => "Taking over this container's process was",
        };
        format!(
            "{what} in progress at two crashes of the node's agent in a row; it is not tried again"
        )
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(name) => write!(f, "start of {name}"),
            Self::Upload(id) => write!(f, "upload of logs of {id}"),
            Self::Adoption(name) => write!(f, "adoption of {name}"),
        }
    }
}

/// A text that names no work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotWork;

impl FromStr for Work {
    type Err = NotWork;

    fn from_str(text: &str) -> Result<Self, NotWork> {
        let (what, of) = text.rsplit_once(" of ").ok_or(NotWork)?;
        let container = || of.parse().map_err(|_| NotWork);
        match what {
            "start" => Ok(Self::Start(container()?)),
            "upload of logs" => Ok(Self::Upload(of.parse().map_err(|_| NotWork)?)),
            "adoption" => Ok(Self::Adoption(container()?)),
            _ => Err(NotWork),
        }
    }
}
