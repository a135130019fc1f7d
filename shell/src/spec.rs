//! Specification of a job that the client passes to the AM in one environment variable.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cluster::Patience;
use crate::job::Job;

/// Name of the variable.
pub(crate) const VARIABLE: &str = "NM_AGENT_SHELL_JOB";

/// Inputs of the AM. The text form is base64, in which no character is special
/// to a shell or a node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Job to run.
    pub(crate) job: Job,
    /// User who runs the job; log URLs contain it.
    pub(crate) user: String,
    /// Address of each scheduler, as `host:port`.
    pub(crate) schedulers: Vec<String>,
    /// Timeouts and retries against the ResourceManager.
    pub(crate) patience: Patience,
    /// Names of the levels of protection of calls, the preferred one first.
    pub(crate) protections: Vec<String>,
    /// Secret that authorizes a caller to stop the AM through its endpoint.
    pub(crate) secret: String,
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("job", &self.job)
            .field("user", &self.user)
            .field("schedulers", &self.schedulers)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// Reason for which a text is not a specification.
#[derive(Debug, Error)]
pub enum SpecError {
    /// Variable that is not set: a client did not start this AM.
    #[error(
        "{VARIABLE} is not set: this command is for the containers that nm-agent shell asks for"
    )]
    Unset,
    /// Text that is not base64.
    #[error("{VARIABLE} is not base64")]
    Base64(#[from] base64::DecodeError),
    /// JSON of another version.
    #[error("{VARIABLE} cannot be read: client and master must be of one version")]
    Json(#[from] serde_json::Error),
}

impl Spec {
    /// Returns the variable's value.
    pub(crate) fn encode(&self) -> String {
        let json = serde_json::to_vec(self).expect("texts and numbers are always JSON");
        URL_SAFE_NO_PAD.encode(json)
    }

    /// Parses the variable's value; `None` stands for an unset variable.
    pub(crate) fn decode(text: Option<&str>) -> Result<Self, SpecError> {
        let json = URL_SAFE_NO_PAD.decode(text.ok_or(SpecError::Unset)?)?;
        Ok(serde_json::from_slice(&json)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(command: Vec<String>) -> Spec {
        Spec {
            job: Job::new(command),
            user: "u".to_owned(),
            schedulers: vec!["rm:8030".to_owned()],
            patience: Patience::default(),
            protections: vec!["privacy".to_owned()],
            secret: "hidden".to_owned(),
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", sample(Vec::new()));
        assert!(!shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn a_variable_that_is_missing_or_broken_is_an_error() {
        assert!(matches!(Spec::decode(None), Err(SpecError::Unset)));
        assert!(matches!(Spec::decode(Some("$")), Err(SpecError::Base64(_))));
        assert!(matches!(Spec::decode(Some("")), Err(SpecError::Json(_))));
    }

    proptest! {
        #[test]
        fn every_specification_survives_and_means_nothing_to_a_shell(words in prop::collection::vec(".{0,20}", 0..5)) {
            let spec = sample(words);
            let text = spec.encode();
            prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
            prop_assert_eq!(Spec::decode(Some(&text)).unwrap(), spec);
        }
    }
}
