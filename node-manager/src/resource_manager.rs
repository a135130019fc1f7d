//! Toward the ResourceManager's ResourceTracker: the connection, registration, heartbeats (Hadoop:
//! `NodeStatusUpdaterImpl`).
//!
//! - `connection`: the calls of ResourceTracker, over one connection at a time
//! - `messages`: requests from what the core reports, orders from what the RM answers (pure)
//! - `pace`: the shortest gap between two heartbeats (pure)
//! - `session`: the numbers of calls, and what an unanswered one leaves open (pure)
//! - `updater`: the loop
//! - `version`: whether the ResourceManager is new enough (pure)

mod connection;
mod messages;
mod pace;
mod session;
mod updater;
mod version;

pub use connection::ResourceTracker;
pub use messages::NodeDescription;
pub use pace::gap_after;
pub use session::{Answer, Heartbeat, Intervals, Registered, RegistrationRefused, Session};
pub use updater::{Ended, NodeStatusUpdater, UpdaterConfig, UpdaterError, UpdaterParts};
