//! Mistakes and attacks of peers, users and operators: each is answered clearly, affects no other,
//! and leaves a node that serves.
//!
//! The agent runs as a process of its own between a scripted ResourceManager and ApplicationMaster.
//! With `NM_AGENT_TEST_NODE=java` most of it also holds for Hadoop's NodeManager; what fails there
//! is what the agent does better: malformed tokens, frames that are only announced, archives with a
//! fault in the diagnostics.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

mod commands;
mod configuration;
mod contexts;
mod disks;
mod full_disks;
pub(crate) mod hdfs_peers;
mod kerberos;
pub(crate) mod limits;
pub(crate) mod localization;
mod logs;
mod orders;
mod ports;
mod resources;
mod rpc;
mod runtimes;
mod soak;
mod tokens;
mod two_agents;
mod usage;

use tests::scripted_cluster::ScriptedCluster;

use crate::AGENT;

fn cluster() -> ScriptedCluster {
    ScriptedCluster::start(AGENT)
}
