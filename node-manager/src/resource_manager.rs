//! Toward the ResourceManager's ResourceTracker: the connection, registration, heartbeats (Hadoop:
//! `NodeStatusUpdaterImpl`).
//!
//! - `connection`: the calls of ResourceTracker, over one connection at a time
//! - `messages`: requests from what the core reports, orders from what the RM answers (pure)
//! - `pace`: the shortest gap between two heartbeats (pure)
//! - `updater`: the loop
//! - `version`: whether the ResourceManager is new enough (pure)

mod connection;
mod messages;
mod pace;
mod updater;
mod version;

pub use connection::ResourceTracker;
pub use messages::NodeDescription;
pub use updater::{Ended, NodeStatusUpdater, UpdaterConfig, UpdaterError, UpdaterParts};
