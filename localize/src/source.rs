//! Where the bytes of a resource come from: a file system as a download reads it.

use std::ffi::OsString;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::sync::Arc;

use users::Account;

/// A file system that resources are read from, chosen by [`Sources`](super::fetch::Sources).
pub(super) trait Source {
    /// Opens a file or reads a folder. With `public`, refuses with
    /// [`io::ErrorKind::PermissionDenied`] a file that other users may not read, or may not reach
    /// because of a folder above it.
    fn open(&self, path: &Path, public: bool) -> io::Result<Opened>;
}

/// Kind of a source's path, opened.
pub(super) enum Opened {
    File(Box<dyn Content>),
    Folder {
        modified_ms: i64,
        names: Box<dyn Iterator<Item = io::Result<OsString>>>,
    },
    /// Device, pipe or socket; not opened.
    Special,
}

/// Content of a file at its source.
pub(super) trait Content: Read + Seek {
    /// Returns the modification time, in milliseconds since the epoch.
    fn modified_ms(&self) -> io::Result<i64>;
}

/// Account whose rights a source on this machine is read with; `None`: the agent's.
pub(super) type Reader = Option<Arc<Account>>;
