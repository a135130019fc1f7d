//! What the client tells the master, as one variable of the master's environment.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cluster::Patience;
use crate::job::Job;

/// The variable's name.
pub(crate) const VARIABLE: &str = "NM_AGENT_SHELL_JOB";

/// Longest value: Linux takes no variable of more than 128 KiB with its name.
pub(crate) const TEXT_BYTES_MAX: usize = 128 * 1024 - 256;

/// Everything the master is told. The text form is base64: nothing in it means anything to a shell or a node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// What to run.
    pub(crate) job: Job,
    /// Who runs it; log URLs name the user.
    pub(crate) user: String,
    /// `host:port` of each scheduler.
    pub(crate) schedulers: Vec<String>,
    /// How patient to be.
    pub(crate) patience: Patience,
    /// Whoever knows it may stop the master through its endpoint.
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

/// A text that is no specification.
#[derive(Debug, Error)]
pub enum SpecError {
    /// The variable is not set: the master was not started by a client.
    #[error(
        "{VARIABLE} is not set: this command is for the containers that nm-agent shell asks for"
    )]
    Unset,
    /// Not base64.
    #[error("{VARIABLE} is not base64")]
    Base64(#[from] base64::DecodeError),
    /// Not what a client of this version writes.
    #[error("{VARIABLE} cannot be read: client and master must be of one version")]
    Json(#[from] serde_json::Error),
}

impl Spec {
    /// The variable's value.
    pub(crate) fn encode(&self) -> String {
        let json = serde_json::to_vec(self).expect("texts and numbers are always JSON");
        URL_SAFE_NO_PAD.encode(json)
    }

    /// Reads the variable's value.
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
