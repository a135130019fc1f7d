//! Files of role histories in a local directory.
//!
//! Owns the names, the order and the safety of the files: what is in them is
//! [`role_history::avro`]'s. Blocks on the disk, so callers use it on a thread of their own. Knows
//! neither YARN's protocols nor when to save.
//!
//! ```text
//!  DIRECTORY/rolehistory-0000015216ced600.json       a history, by the time of its save
//!            .rolehistory-….json.appattempt_….tmp    a save that is not complete
//!            fence                                   attempt that may save, locked to check it
//! ```
//!
//! - A save is complete or absent: written to another name, synchronized, renamed.
//! - A directory belongs to the attempt that opened it last. One that was replaced, and does not
//!   know it yet, can load but not save.
//! - Loading takes the newest file that can be read, and says why it took no newer one.
//! - Older files are deleted only after a save, and some are kept.

mod directory;
mod fence;
mod names;

pub use directory::{
    Found, HistoryDirectory, LoadError, Loaded, Saved, Skipped, StoreConfig, StoreError,
};
