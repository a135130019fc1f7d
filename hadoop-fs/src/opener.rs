//! Way to the file systems of other machines, and in whose name it is taken.

use std::fmt;

use crate::error::FsError;
use crate::file_system::FileSystem;
use crate::uri::Uri;

/// In whose name and for which work a file system is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller<'a> {
    /// Name of the user towards the file system.
    pub user: &'a str,
    /// Whether the work is the program's own, and not that of an account of the user's name.
    pub is_own: bool,
    /// Work that the calls belong to, such as an application: calls of one work may share a
    /// client, and what ends the client ends them.
    pub work: &'a str,
    /// User whose share of clients this one takes.
    pub charged: &'a str,
}

impl<'a> Caller<'a> {
    /// Returns the program itself under its user's name.
    #[must_use]
    pub fn own(user: &'a str, work: &'a str) -> Self {
        Self {
            user,
            is_own: true,
            work,
            charged: user,
        }
    }

    /// Returns a user for whom the program works.
    #[must_use]
    pub fn user(user: &'a str, work: &'a str) -> Self {
        Self {
            user,
            is_own: false,
            work,
            charged: user,
        }
    }
}

/// Way to the file systems of other machines.
pub trait Opener: fmt::Debug + Send + Sync {
    /// Opens the file system of a URI whose missing parts are filled in.
    ///
    /// # Errors
    /// No client can be had, or the cluster wants more than simple authentication.
    fn open(&self, uri: &Uri, caller: Caller<'_>) -> Result<Box<dyn FileSystem>, FsError>;
}
