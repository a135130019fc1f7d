//! What a directory of histories asks of a file system, and how that fails.

use std::io::{self, Read};

use hadoop_fs::FsError;
use records::ApplicationAttemptId;
use role_history::SavedHistory;
use thiserror::Error;

use crate::names::HistoryFile;

/// Bytes that are read and written at a time.
pub(crate) const BUFFER_BYTES: usize = 256 * 1_024;

/// Files of a service during one load or save.
pub(crate) trait Files {
    /// Returns the histories, in no order.
    fn histories(&self) -> Result<Vec<HistoryFile>, StoreError>;

    /// Opens a history.
    fn open(&self, name: &str) -> io::Result<Box<dyn Read>>;

    /// Writes a history under another name, checks that the attempt still owns the directory, and
    /// renames the file.
    fn save(&self, name: &str, history: &SavedHistory) -> Result<(), StoreError>;

    /// Deletes a history.
    fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// Returns the path or URI of a history.
    fn location(&self, name: &str) -> String;

    /// Returns whether a failed read says nothing about the file, which may be read later.
    fn may_heal(&self, error: &io::Error) -> bool;
}

/// Error of an operation on the directory.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Failed operation on a file.
    #[error("cannot {operation} {path}")]
    Io {
        /// Operation that failed: `create`, `read`, …
        operation: &'static str,
        /// Path or URI of the file or directory.
        path: String,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// Failed operation on a file of a file system with a URI.
    #[error(transparent)]
    FileSystem(#[from] FsError),
    /// Directory that another attempt has opened since. This attempt is not the current one and has
    /// nothing more to save.
    #[error("{directory} belongs to {}", owner.map_or_else(
        || "no attempt".to_owned(),
        |owner| owner.to_string(),
    ))]
    Fenced {
        /// Path or URI of the directory of the histories.
        directory: String,
        /// Attempt that may save; `None` after a crash, until an attempt opens the directory.
        owner: Option<ApplicationAttemptId>,
    },
    /// Directory that other attempts opened again and again while this one did.
    #[error("{directory} is being opened by too many attempts at once")]
    Contended {
        /// URI of the directory of the histories.
        directory: String,
    },
}

impl StoreError {
    /// Returns whether the same operation may succeed later, without a change of the configuration.
    #[must_use]
    pub fn may_heal(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Contended { .. } => true,
            Self::FileSystem(error) => error.kind() != io::ErrorKind::Unsupported,
            Self::Fenced { .. } => false,
        }
    }
}

pub(crate) fn io_error(operation: &'static str, path: String, source: io::Error) -> StoreError {
    StoreError::Io {
        operation,
        path,
        source,
    }
}
