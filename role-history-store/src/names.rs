//! Names of history files, whose order is the order of their times (Slider:
//! `RoleHistoryWriter.createHistoryFilename` and `findAllHistoryEntries`), and of the directories
//! of users and services.

use std::fmt::Write as _;

use records::{ApplicationAttemptId, EpochMillis};
use role_history::opt_in::SERVICE_BYTES_MAX;
use thiserror::Error;

const PREFIX: &str = "rolehistory-";
const SUFFIX: &str = ".json";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// Returns the name of a history that was saved at this time: 16 lower-case hexadecimal digits. A
/// time before 1970 counts as 1970, as it would sort behind all others.
pub(crate) fn of(saved: EpochMillis) -> String {
    format!("{PREFIX}{:016x}{SUFFIX}", saved.0.max(0))
}

/// Returns the name under which an attempt writes the file `name` until it is complete.
pub(crate) fn temporary(name: &str, attempt: ApplicationAttemptId) -> String {
    format!(".{name}.{attempt}{TEMPORARY_SUFFIX}")
}

pub(crate) fn is_history(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

pub(crate) fn is_temporary(name: &str) -> bool {
    let rest = name.strip_prefix('.');
    rest.is_some_and(|rest| rest.starts_with(PREFIX)) && name.ends_with(TEMPORARY_SUFFIX)
}

/// Regular file with the name of a history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HistoryFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// Name of a user or service that no directory can have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the name of a service or user has 1 to {SERVICE_BYTES_MAX} bytes, {0:?} has not")]
pub struct NameError(String);

/// Names of the directories of a user and a service. Every byte of the two names that is no letter,
/// digit, `_` or `-` is written as `%` and two digits, so that no name leaves its directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceName {
    user: String,
    service: String,
}

impl ServiceName {
    /// Returns the directories' names.
    ///
    /// # Errors
    /// A name is empty or too long.
    pub fn new(user: &str, service: &str) -> Result<Self, NameError> {
        Ok(Self {
            user: directory_name(user)?,
            service: directory_name(service)?,
        })
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn service(&self) -> &str {
        &self.service
    }
}

fn directory_name(name: &str) -> Result<String, NameError> {
    if name.is_empty() || name.len() > SERVICE_BYTES_MAX {
        let shown = name.chars().take(SERVICE_BYTES_MAX).collect();
        return Err(NameError(shown));
    }
    let mut written = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            written.push(char::from(byte));
        } else {
            // A text takes whatever is written to it.
            let _ = write!(written, "%{byte:02x}");
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sliders_and_sort_by_time() {
        assert_eq!(
            of(EpochMillis(1_452_081_600_000)),
            "rolehistory-0000015216ced600.json"
        );
        assert!(of(EpochMillis(9)) < of(EpochMillis(16)));
        assert!(of(EpochMillis(16)) < of(EpochMillis(i64::MAX)));
        assert_eq!(of(EpochMillis(-5)), of(EpochMillis(0)));
    }

    #[test]
    fn unfinished_files_are_not_histories() {
        let attempt = records::ApplicationId::new(1, 2).attempt(3);
        let name = temporary(&of(EpochMillis(1)), attempt);
        assert!(is_temporary(&name) && !is_history(&name));
        assert!(!is_history("file.json") && !is_temporary("fence"));
    }
}
