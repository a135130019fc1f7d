//! Guarantees to a ResourceManager and an ApplicationMaster, where a real one cannot be made to ask
//! for them: lost answers, resyncs, key rolls, limits of the queue. And guarantees to an operator's
//! dashboards.
//!
//! The node is the agent as a process of its own; with `NM_AGENT_TEST_NODE=java` it is Hadoop's
//! NodeManager.

mod health;
mod memory;
mod metrics;
mod proxy;
mod queueing;
mod registration;
mod stopping;
mod told;
mod usage;

use std::time::Duration;

use tests::conf::Properties;
use tests::scripted_cluster::ScriptedCluster;

use crate::AGENT;

/// Deadline for what takes milliseconds on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

fn cluster() -> ScriptedCluster {
    ScriptedCluster::start(AGENT)
}

fn cluster_with(change: impl FnOnce(&mut Properties)) -> ScriptedCluster {
    ScriptedCluster::start_with(AGENT, change)
}
