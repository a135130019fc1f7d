//! What a ResourceManager and an ApplicationMaster may rely on, where a real one cannot be brought to ask for it: lost
//! answers, resyncs, key rolls, limits of the queue. And what an operator's dashboards may rely on.
//!
//! The node is the agent as a process of its own; with `NM_AGENT_TEST_NODE=java` it is Hadoop's NodeManager.

mod memory;
mod metrics;
mod proxy;
mod queueing;
mod registration;
mod stopping;

use tests::conf::Properties;
use tests::scripted_cluster::ScriptedCluster;

use crate::AGENT;

fn cluster() -> ScriptedCluster {
    ScriptedCluster::start(AGENT)
}

fn cluster_with(change: impl FnOnce(&mut Properties)) -> ScriptedCluster {
    ScriptedCluster::start_with(AGENT, change)
}
