//! Localization: puts the resources of a container on the local disks before its launch, and
//! removes them afterwards.
//!
//! ```text
//!            ┌── cache: places, users and waiting requests of each resource (no I/O)
//!            │     └── turns: whose download is next (pure)
//! Localizer ─┼── fetch ── unpack: a resource from its source into a cache directory
//!            ├── kept: what stays in the caches over a restart, as records
//!            └── deletion: folders that are no longer needed
//! NodeDirs: the folders on every local and log disk, all reached through directory handles
//!   └── disk_health: which disks are good (pure) ◄── disk_checks ── start: one disk, on its thread
//!                                                                   ├── folder_lock
//!                                                                   └── own_logs
//! ```
//!
//! Owns the files below the local and log directories and the threads that write and delete them.
//! In: the [configuration](config), requests for resources, folders to create or delete. Out:
//! paths, sizes, and an answer to each request. May not know launching, control groups, RPC, the
//! node's state or Hadoop's property names, nor where file systems and archives are read.
//!
//! Containers own folders below the managed ones and may put symbolic links into them. So no file
//! is created or removed by a long path: every step goes from an open folder to a single name in
//! it, and links are not followed.

mod budget;
mod cache;
pub mod config;
mod deletion;
mod dirs;
mod disk;
mod disk_checks;
mod disk_health;
mod disk_place;
mod earlier;
mod error;
mod extract;
mod fetch;
mod folder_lock;
#[doc(hidden)]
pub mod fuzzing;
mod kept;
mod layout;
mod local_source;
mod localizer;
mod needed;
mod own_logs;
mod progress;
mod remote_source;
mod remove_tree;
mod resource;
mod room;
mod shard;
mod source;
mod start;
mod sweep;
mod turns;
mod unpack;
mod user_name;

pub use deletion::{Deletion, DeletionService};
pub use dirs::{
    ApplicationFolder, ContainerDirs, ContainerFolder, DiskChecks, NodeDirs, StartedDirs,
};
pub use disk_checks::DiskChecker;
pub use disk_health::{DirKind, DirNumbers, DisksReport};
pub use error::{DirsError, FetchError, LocalizeError, UnpackError};
pub use fetch::Sources;
pub use kept::{KeptRecords, KeptResource, Seal};
pub use localizer::{Localizer, LocalizerThreads, Statuses};
pub use needed::Needed;
pub use remove_tree::remove_folder;
pub use resource::{
    LocalizationState, LocalizeRequest, LocalizedResource, ResourceKind, ResourceSpec,
    ResourceStatus, ResourceUrl, SetNumber, UsedSets, Visibility,
};
pub use turns::Turns;
pub use user_name::{InvalidUserName, UserName};

use records::error_chain;
