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
use tests::peer::PeerCluster;

/// The agent under test.
const AGENT: &str = env!("CARGO_BIN_EXE_agent-under-test");

fn cluster() -> PeerCluster {
    PeerCluster::start(AGENT)
}

fn cluster_with(change: impl FnOnce(&mut Properties)) -> PeerCluster {
    PeerCluster::start_with(AGENT, change)
}
