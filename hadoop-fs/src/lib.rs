//! File systems by URI, as Hadoop names them: `file:` and, with the feature `hdfs`, `hdfs:`.
//!
//! ```text
//! FileSystems ──open(uri, caller)──► dyn FileSystem ┬─ local: the node's own files
//!   default FS, properties,                         ├─ hdfs: a NameNode's, by `hdfs-native`
//!   time limit of a step                            │          ├─ runtime: its tasks and sockets
//!                                                   │          └─ secure: the way to NameNodes
//!                                                   │             that want proofs
//!                                                   └─ another program's, by an `Opener`
//! ```
//!
//! Owns the choice of a file system, the identity towards it, and the time limit of each step. In:
//! the properties of a Hadoop client, URIs, the name of a user. Out: status, lists, content,
//! changes, or an [`FsError`] with URI and step. May not know YARN, containers or property files.
//!
//! All calls block, each for at most the time limit: a NameNode that hangs or dies ends a call with
//! an error. They belong on threads that may wait, never into a task of a runtime.

mod error;
mod file_system;
mod file_systems;
#[cfg(feature = "hdfs")]
mod hdfs;
mod local;
mod opener;
mod secure;
mod uri;

pub use error::FsError;
pub use file_system::{FileSystem, Kind, ReadFile, Status, WriteFile};
pub use file_systems::{FileSystems, FsConfig};
pub use opener::{Caller, Opener};
pub use secure::{KeytabLogin, NameService, SecureAccess, Way};
pub use uri::{ParseUriError, Uri};
