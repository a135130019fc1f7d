//! Directories of histories, and the way to them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use hadoop_fs::{Caller, FileSystem, FileSystems, FsConfig, FsError, Uri};

/// Name of all work with histories.
const WORK: &str = "role-histories";

/// Directory on this machine or in another file system.
#[derive(Clone, Debug)]
pub enum Place {
    /// Directory on this machine, or in a file system that it has mounted.
    Local(PathBuf),
    /// Directory in a file system with a URI.
    Remote(RemotePlace),
}

/// Way to file systems with a URI.
#[derive(Clone, Debug)]
pub struct FileAccess {
    /// File systems that the program can use.
    pub systems: Arc<FileSystems>,
    /// User in whose name files are written and read. Files of this machine are the process's.
    pub user: String,
}

impl Default for FileAccess {
    /// Returns the way to files of this machine.
    fn default() -> Self {
        Self {
            systems: Arc::new(FileSystems::new(FsConfig::default())),
            user: String::new(),
        }
    }
}

/// Directory in a file system with a URI.
#[derive(Clone, Debug)]
pub struct RemotePlace {
    /// Way to the file system.
    pub access: FileAccess,
    /// URI of the directory.
    pub uri: Uri,
}

impl Place {
    /// Returns the directory of a URI. One of this machine is used with the kernel's locks.
    #[must_use]
    pub fn of_uri(uri: Uri, access: FileAccess) -> Self {
        if uri.has_scheme("file") {
            return Self::Local(uri.path.into());
        }
        Self::Remote(RemotePlace { access, uri })
    }

    /// Returns the directory of this name in the directory.
    pub(crate) fn join(&self, name: &str) -> Self {
        match self {
            Self::Local(path) => Self::Local(path.join(name)),
            Self::Remote(remote) => Self::Remote(remote.join(name)),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Remote(remote) => remote.fmt(f),
        }
    }
}

impl RemotePlace {
    /// Opens the file system. The connection ends with the returned value.
    pub(crate) fn connect(&self) -> Result<Box<dyn FileSystem>, FsError> {
        let caller = Caller::own(&self.access.user, WORK);
        self.access.systems.open(&self.uri, caller)
    }

    pub(crate) fn path(&self) -> &str {
        &self.uri.path
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.uri.path.trim_end_matches('/'))
    }

    pub(crate) fn join(&self, name: &str) -> Self {
        Self {
            uri: self.uri.with_path(&self.path_of(name)),
            ..self.clone()
        }
    }
}

impl fmt::Display for RemotePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(f)
    }
}
