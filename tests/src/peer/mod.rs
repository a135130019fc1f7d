//! A ResourceManager and an ApplicationMaster of this workspace's own, for tests that need both to misbehave on purpose
//! and for measurements that shall not measure Java.
//!
//! [`PeerRm`] is the ResourceManager's side of ResourceTracker with one node: it registers whoever comes, answers
//! heartbeats with the orders that a test queued, and keeps what the node said. [`PeerAm`] makes the tokens that a real
//! ResourceManager would have handed out and calls the node with them. [`PeerNode`] is the node's process, the agent or
//! Hadoop's own NodeManager: the same test or measurement runs with either. [`PeerScheduler`] is the ResourceManager's side of the
//! protocols for ApplicationMasters.
//!
//! Neither peer decides anything: what fits where is the test's business.

mod am;
mod cluster;
mod context;
mod node;
mod rm;
mod scheduler;
mod secrets;
mod tracker;

pub use am::{PeerAm, Refusal};
pub use cluster::PeerCluster;
pub use context::LaunchContext;
pub use node::{PeerNode, current_user, node_kind};
pub use rm::PeerRm;
pub use scheduler::{Nothing, PeerScheduler, SchedulerCall, Script};
pub use secrets::{Allocation, RmSecrets, now_ms};
pub use tracker::{Answer, Completed, Tracker};
