//! What goes on when an agent was killed beside its containers and is started again: uploads of
//! logs, deletions and retries; and what an orderly stop leaves.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

pub(crate) mod crashes;
mod deletions;
mod logs;
mod lost_records;
mod recorded_events;
mod reinit;
mod retries;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::node_kind;
use tests::ports::Port;
use tests::scripted_cluster::ScriptedCluster;
use tests::wait;

use crate::AGENT;

/// Deadline for each step.
const DEADLINE: Duration = Duration::from_secs(60);

/// Starts a cluster whose containers outlive the agent. Each end is acknowledged at once.
fn start(change: impl FnOnce(&mut Properties)) -> ScriptedCluster {
    let port = Port::reserve().release();
    let cluster = ScriptedCluster::start_with(AGENT, |site| {
        site.set("yarn.nodemanager.recovery.enabled", true)
            .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
        change(site);
    });
    cluster.rm.with(|tracker| tracker.acknowledge_all = true);
    cluster
}

/// Waits until the next two heartbeats are carried out: whatever the agent was told before, it has
/// stored.
fn wait_stored(cluster: &ScriptedCluster) {
    cluster.rm.wait_heartbeats(2);
}

/// Kills the agent with SIGKILL; calls `meanwhile`; starts it again and waits until it serves.
fn restart(cluster: &mut ScriptedCluster, meanwhile: impl FnOnce(&ScriptedCluster)) {
    let registrations = cluster.rm.with(|tracker| tracker.registrations.len());
    cluster.node.process.kill();
    meanwhile(cluster);
    let program = match node_kind(AGENT) {
        NodeKind::Agent(program) => program,
        NodeKind::Java | NodeKind::MeasuredJava => Path::new(AGENT).to_owned(),
    };
    cluster.node.start_agent_again(&program);
    cluster.rm.wait_registrations(registrations + 1);
    // It starts containers once it has the answer.
    wait_stored(cluster);
    let (rm, am) = (&cluster.rm, &mut cluster.am);
    wait::until("a connection", DEADLINE, || {
        am.reconnect(rm).map_err(|error| error.to_string())
    });
}

/// Writes a script for a container; returns the command that runs it.
fn script(cluster: &ScriptedCluster, name: &str, text: &str) -> String {
    let path: PathBuf = cluster.node.folder().join(name);
    fs::write(&path, text).unwrap();
    format!("exec bash '{}'", path.display())
}
