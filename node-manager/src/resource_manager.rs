//! Toward the ResourceManager's ResourceTracker: the connection, registration, heartbeats (Hadoop:
//! `NodeStatusUpdaterImpl`).
//!
//! - `connection`: one connection at a time, over the configured ResourceManagers in turn
//! - `messages`: requests from what the core reports, duties from what the RM answers (pure)
//! - `updater`: the loop
//! - `version`: whether the ResourceManager is new enough (pure)

mod connection;
mod messages;
mod updater;
mod version;

pub use connection::{ResourceTracker, RmConnection, RmConnectionConfig};
pub use messages::NodeDescription;
pub use updater::{Ended, NodeStatusUpdater, UpdaterConfig, UpdaterError, UpdaterParts};
