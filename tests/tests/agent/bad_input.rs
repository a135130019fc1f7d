//! What peers, users and operators get wrong, on purpose or not: each is answered clearly, hurts nobody else, and leaves a
//! node that serves.
//!
//! The agent runs as a process of its own between a ResourceManager and an ApplicationMaster of the harness. With
//! `NM_AGENT_TEST_NODE=java` most of it also holds for Hadoop's NodeManager; what fails there is what the agent does better:
//! tokens that are no tokens, frames that are only announced, archives whose fault is told.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

mod commands;
mod configuration;
mod resources;
mod rpc;
mod tokens;

use tests::scripted_cluster::ScriptedCluster;

use crate::AGENT;

fn cluster() -> ScriptedCluster {
    ScriptedCluster::start(AGENT)
}
