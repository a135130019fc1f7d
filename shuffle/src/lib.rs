//! Serves map outputs to reducers, as Hadoop's `ShuffleHandler` does.
//!
//! ```text
//! Jobs: who may fetch what ─────────────────────────────────┐
//! server ─▶ block_server ─▶ connection ─▶ head ─▶ fetch (checks, in order)
//!                               │                  └─▶ outputs, indexes (files)
//!                               └─▶ block_server::Sender: plain (sendfile) or TLS (copies)
//! ```
//!
//! Owns a port with its threads, by [`block_server`], and the cache of indexes. In: jobs with their
//! user's secret and the folders of their map outputs. Out: bytes of spill files on the wire, and
//! counts. Knows HTTP, HMAC and spill files, and TLS as [`tls_server`] offers it; may not know
//! YARN, containers or Hadoop's property names.
//!
//! hyper, behind [`http_server`], owns the writes of its
//! connections and cannot send a file by `sendfile`, and a shuffle request is a line and five
//! headers; so the loop over requests is this crate's, with the same bounds.

mod config;
mod connection;
mod fetch;
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod head;
mod indexes;
mod jobs;
mod outputs;
mod reply;
mod server;
mod shared;
mod spill;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use config::ShuffleConfig;
pub use jobs::{JobSecret, Jobs};
pub use outputs::OutputFolder;
pub use server::{RunningShuffle, ShuffleServer, StartShuffleError};
pub use shared::Counts;
pub use spill::{Partition, SpillError, SpillIndex};
