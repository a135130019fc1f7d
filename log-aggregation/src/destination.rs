//! File systems that receive aggregated logs, and give them back.

mod by_uri;
mod local;

use std::io::{self, Read, Write};

pub use by_uri::UriDestination;
pub use local::LocalDestination;

/// Bytes gathered for a write. Contents of logs come in larger parts and pass by it.
const WRITE_BYTES: usize = 16 * 1024;

/// A file system below one root. Calls block, at most as long as the file system's own deadlines.
///
/// A folder is named by the names from the root downwards, of which the first is the user whose
/// logs it holds.
pub trait Destination: Send + Sync {
    /// Creates the folder if it is missing, and a file in it, which replaces one of that name.
    ///
    /// # Errors
    /// Those of the file system.
    fn create(&self, folder: &[String], name: &str) -> io::Result<Box<dyn RemoteFile>>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// Those of the file system.
    fn open(&self, folder: &[String], name: &str) -> io::Result<Box<dyn Read + Send>>;

    /// Returns the names in a folder.
    ///
    /// # Errors
    /// Those of the file system.
    fn names(&self, folder: &[String]) -> io::Result<Vec<String>>;

    /// Renames a file within its folder.
    ///
    /// # Errors
    /// Those of the file system.
    fn rename(&self, folder: &[String], name: &str, new_name: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Those of the file system.
    fn remove(&self, folder: &[String], name: &str) -> io::Result<()>;
}

/// A file that is being written.
pub trait RemoteFile: Write + Send {
    /// Makes the content durable. A file that is dropped instead may lose any part of it.
    ///
    /// # Errors
    /// Those of the file system.
    fn close(self: Box<Self>) -> io::Result<()>;
}
