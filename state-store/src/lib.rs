//! The node's state store: records that survive a restart of the agent, in one `redb` file.
//!
//! Owns the file and the thread that writes it. Each subject (for example the AMRMProxy) has a
//! [`KeySpace`] of its own, in which it names its records. The store may not know what a record
//! means: values are opaque bytes. By convention the first byte is the version of the record's
//! form, which the subject writes and checks.
//!
//! ```text
//!  KeySpace, Records ──put, remove──▶ newest value of each key ──one transaction──▶ file
//!  (any thread, never waits)                                    (the writer thread)
//! ```
//!
//! Writes are group-committed: the thread takes everything that has accumulated and commits it as
//! one transaction, 2 ms after the first of it or as soon as a caller waits. So a burst of changes
//! costs one commit, and a slow disk delays no caller. A crash loses at most the changes since the
//! last commit. A caller that cannot accept this stores its record ahead of the effect, or waits
//! with [`Commits::when_settled`].
//!
//! A commit survives the end of the process, however it ends, and not a failure of the machine: it
//! does not wait for the disk. The file has a version: one that a newer agent wrote is refused. A
//! damaged one can be set aside.

mod pending;
mod store;

pub use pending::{NotStored, Urgency};
pub use store::{Commits, Contents, KeySpace, Records, StateStore, StoreError};
