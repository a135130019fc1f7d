//! Serves the blocks of Spark's executors, also of those that have ended, as Spark's
//! `YarnShuffleService` does (Spark 3.5 and 4.0, whose messages are the same).
//!
//! ```text
//! Applications: whose, which folders, which executors ─────────────┐
//! server ─▶ block_server ─▶ connection ─▶ frame ─▶ session ─▶ message, streams
//!                               │                      └─▶ files (names, places), diagnosis
//!                               └─▶ block_server::Sender
//! ```
//!
//! Owns a port with its threads, by [`block_server`], and the table of executors. In: applications
//! with their user, secret and folders, and a store for executors. Out: ranges of files on the
//! wire, and counts. Knows Spark's transport and the names of its files; may not know YARN,
//! containers or how properties are read. Push-based merge is refused as by a service of Spark
//! without it.

mod auth_engine;
mod blocks;
mod connection;
mod cursor;
mod diagnosis;
mod executors;
mod files;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod memory;
mod message;
mod server;
mod session;
mod shared;
mod streams;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use auth_engine::AuthVersion;
pub use executors::{Application, ApplicationSecret, Applications, ExecutorStore, Settled};
pub use files::ApplicationFolder;
pub use server::{RunningSparkShuffle, SparkShuffleServer};
pub use shared::{Counts, Encryption, SparkShuffleConfig};
