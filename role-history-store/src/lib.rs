//! Files of role histories in a directory, local or in HDFS.
//!
//! Owns the names, the order and the safety of the files: what is in them is
//! [`role_history::avro`]'s. Blocks on disk and network, so callers use it on a thread of their
//! own. Knows neither YARN's protocols nor when to save.
//!
//! ```text
//!  ROOT/USER/SERVICE/rolehistory-0000015216ced600.json   a history, by the time of its save
//!  local:            .rolehistory-….json.appattempt_….tmp   a save that is not complete
//!                    fence                               attempt that may save, locked to check it
//!  HDFS:             .owner-…-appattempt_…/unfinished    attempt that may save, and its save
//! ```
//!
//! - A save is complete or absent: written to another name, synchronized, renamed.
//! - A directory belongs to the attempt that opened it last. One that was replaced, and does not
//!   know it yet, can load but not save: locally a lock is held from the check to the rename, and
//!   in HDFS, which has none, the file to rename is gone (`remote`).
//! - Loading takes the newest file that can be read, and says why it took no newer one.
//! - Older files are deleted only after a save, and some are kept.

mod directory;
mod fence;
mod files;
mod local;
mod names;
mod place;
mod remote;
mod root;

pub use directory::{Found, HistoryDirectory, LoadError, Loaded, Saved, Skipped, StoreConfig};
pub use files::StoreError;
pub use names::{NameError, ServiceName};
pub use place::{FileAccess, Place, RemotePlace};
pub use root::{HistoryRoot, Usage};
