//! The node's AMRMProxy among real components: Hadoop's ResourceManager, ApplicationMasters and NodeManagers, and masters that
//! a test plays.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

mod cluster;
mod golden;
mod networks;
mod restart;
mod tokens;

use tests::cluster::SLOT_MB;
use tests::conf::Options;
use tests::node::NodeKind;

/// Our node, of the program built with the tests.
fn agent() -> NodeKind {
    NodeKind::Agent(crate::AGENT.into())
}

/// A cluster whose ApplicationMasters speak through their nodes.
fn proxied() -> Options {
    Options {
        node_memory_mb: 16 * SLOT_MB,
        ..Options::default()
    }
    .with("yarn.nodemanager.amrmproxy.enabled", true)
}

/// One whose nodes also give out opportunistic containers.
fn distributed() -> Options {
    proxied().with("yarn.nodemanager.distributed-scheduling.enabled", true)
}
