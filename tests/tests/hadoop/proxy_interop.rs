//! The node's AMRMProxy among real components: Hadoop's ResourceManager, ApplicationMasters and
//! NodeManagers; and with simulated masters.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

mod cluster;
mod golden;
mod kept_tokens;
mod networked_cluster;
mod networks;
mod restart;
mod role_history;
mod tokens;

use tests::cluster::SLOT_MB;
use tests::conf::Options;
use tests::node::NodeKind;

/// Returns the agent as a node, of the program built with the tests.
fn agent() -> NodeKind {
    NodeKind::Agent(crate::AGENT.into())
}

/// Returns a cluster whose ApplicationMasters call through their nodes.
fn proxied() -> Options {
    Options {
        node_memory_mb: 16 * SLOT_MB,
        ..Options::default()
    }
    .with("yarn.nodemanager.amrmproxy.enabled", true)
}

/// Returns a cluster whose nodes also allocate opportunistic containers.
fn distributed() -> Options {
    proxied().with("yarn.nodemanager.distributed-scheduling.enabled", true)
}
