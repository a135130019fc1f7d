//! What a restart of the agent must not lose, on the disk: where the records of containers,
//! applications, keys and cached files are stored.
//!
//! ```text
//! core ─ orders ─▶ performer ─▶ StateWriter ─▶ state-store     one commit for many
//!                                                   │
//! core ◀─ Recovered ◀─ decide ◀─ FoundState ◀───────┘ the next start
//! ```
//! What the records mean is the core's ([`node_core::recovery`]). A record is written before its
//! effect is told to anybody: the answer to a call and the next heartbeat wait for the commit
//! ([`crate::core_task::Handle`]). With `yarn.nodemanager.recovery.enabled` off nothing here
//! exists.

mod kept_files;
mod stored;

pub use kept_files::{KEPT_FILES, KeptFiles};
pub use stored::{FoundState, KeyWriter, RecordSink, RecordWrite, SPACES, StateWriter, writes_of};
