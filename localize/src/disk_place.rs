//! A configured directory, and the result of a look at it.

use std::path::PathBuf;
use std::sync::Arc;

use dir_handle::DiskSpace;

use super::disk::Disk;
use super::earlier::Earlier;
use super::folder_lock::{FolderLocks, InUse};
use super::needed::Needed;
use super::own_logs::UnnamedLogs;

/// A configured directory.
#[derive(Clone, Debug)]
pub(super) struct DiskPlace {
    pub(super) path: PathBuf,
    /// `None` while the directory has failed: an open handle would keep an operator from taking the
    /// disk away.
    pub(super) disk: Option<Arc<Disk>>,
    /// Whether the directory was open at any time, so that folders in it are not of an earlier run.
    pub(super) was_open: bool,
    /// Files of an earlier run that must stay; `None`: none.
    pub(super) needed: Option<Arc<Needed>>,
    /// Number of this run's first resource.
    pub(super) first_resource: u64,
    /// Locks of the agent's directories.
    pub(super) locks: FolderLocks,
    /// Logs of an earlier run that no record names.
    pub(super) unnamed_logs: Arc<UnnamedLogs>,
}

/// Result of the check of one directory.
pub(super) struct Probed {
    /// The open directory and the room on its disk, or the reason that it cannot be used.
    pub(super) result: Result<(Arc<Disk>, DiskSpace), Unusable>,
    /// Folders of an earlier run.
    pub(super) earlier: Earlier,
}

/// Reason that a directory cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// Text for the health report.
    Failed(String),
    /// Another agent works with it.
    InUse(InUse),
}

impl From<Unusable> for String {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::Failed(reason) => reason,
            Unusable::InUse(in_use) => in_use.to_string(),
        }
    }
}
