//! The operations of a file system.

use std::io::{self, Read, Seek, Write};

use crate::error::FsError;

/// A file system, used with one identity. Paths are absolute. Every method blocks, for at most the
/// time limit of [`FsConfig`](crate::FsConfig) unless a local disk hangs.
pub trait FileSystem: Send + Sync {
    /// Returns the status of a file or folder. Links are followed.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if there is no such file.
    fn status(&self, path: &str) -> Result<Status, FsError>;

    /// Returns the entries of a folder, in no order.
    ///
    /// # Errors
    /// [`FsError::TooMany`] if the folder has more than `limit` entries.
    fn list(&self, path: &str, limit: usize) -> Result<Vec<Status>, FsError>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// The file does not exist, or the user may not read it.
    fn open(&self, path: &str) -> Result<Box<dyn ReadFile>, FsError>;

    /// Creates a file with this mode, in an existing folder. With `overwrite`, replaces a file that
    /// exists.
    ///
    /// # Errors
    /// [`FsError::Exists`] if the file exists and must not be replaced.
    fn create(&self, path: &str, mode: u32, overwrite: bool)
    -> Result<Box<dyn WriteFile>, FsError>;

    /// Renames a file or folder within the file system. With `overwrite`, replaces a file that
    /// exists; HDFS does so in one step, as the kernel does.
    ///
    /// # Errors
    /// [`FsError::Exists`] if the target exists and must not be replaced.
    fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<(), FsError>;

    /// Creates a folder with this mode, and the folders above that are missing. A folder that
    /// exists stays as it is.
    ///
    /// # Errors
    /// The user may not create the folder, or a file is in the way.
    fn make_dirs(&self, path: &str, mode: u32) -> Result<(), FsError>;

    /// Sets the mode of a file or folder: twelve bits, as in `chmod`.
    ///
    /// # Errors
    /// The user does not own the file.
    fn set_mode(&self, path: &str, mode: u32) -> Result<(), FsError>;

    /// Gives a file or folder to this user and group, by their names.
    ///
    /// # Errors
    /// The user may not do so, or the file system does not know a name.
    fn set_owner(&self, path: &str, owner: &str, group: &str) -> Result<(), FsError>;

    /// Deletes a file, or a folder with all that is in it. Returns whether it existed.
    ///
    /// # Errors
    /// The user may not delete the file.
    fn delete(&self, path: &str) -> Result<bool, FsError>;
}

/// Kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Folder,
    /// Device, pipe, socket, or a link that leads nowhere.
    Special,
}

/// Status of a file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Last part of the path; empty for the root.
    pub name: String,
    /// Kind of the entry.
    pub kind: Kind,
    /// Length of a file in bytes.
    pub length: u64,
    /// Modification time in milliseconds since the epoch.
    pub modified_ms: i64,
    /// Permissions: twelve bits, as in `chmod`.
    pub mode: u32,
    /// Name of the user that owns the file; the number if it has none.
    pub owner: String,
}

/// Content of a file that is being read. A failure is an [`io::Error`] around an [`FsError`].
pub trait ReadFile: Read + Seek + Send {
    /// Returns the modification time now, in milliseconds since the epoch.
    ///
    /// # Errors
    /// The status cannot be read.
    fn modified_ms(&self) -> io::Result<i64>;
}

/// Content of a file that is being written. A write may cost a round trip, so small ones belong
/// into a [`BufWriter`](io::BufWriter). A file that is dropped without [`WriteFile::close`] may
/// lack its last bytes.
pub trait WriteFile: Write + Send {
    /// Completes the file: all its content is where readers find it.
    ///
    /// # Errors
    /// The content cannot be stored.
    fn close(self: Box<Self>) -> Result<(), FsError>;
}
