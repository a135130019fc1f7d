//! A node that an operator drains: the ResourceManager places no opportunistic container on it, and
//! shows the reason. The Java NodeManager cannot be drained: these tests are about the agent.

use std::path::Path;
use std::process::Command;

use tests::cluster::{JOB_DEADLINE, SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::gate::Gate;
use tests::lab::Lab;
use tests::native_shell::NativeShell;
use tests::node::{Node, NodeKind};
use tests::rm::{ResourceManager, RmKind};
use tests::wait;

use crate::AGENT;

with_each_rm!(
    by_queue_length_a_drained_node_gets_nothing_until_the_drain_is_cancelled,
    by_wait_a_drained_node_gets_nothing_until_the_drain_is_cancelled,
    by_resources_a_drained_node_gets_nothing_until_the_drain_is_cancelled,
);

/// Opportunistic containers running on a node.
const RUNNING: &str = "nm_agent_containers_running{execution_type=\"opportunistic\"}";
/// Opportunistic containers queued on the node.
const QUEUED: &str = "nm_agent_containers_queued{execution_type=\"opportunistic\"}";
/// Opportunistic containers that came all the same.
const REJECTED: &str = "nm_agent_container_rejections_total{reason=\"draining\"}";
/// Number of heartbeats that the ResourceManager answered.
const HEARTBEATS: &str = "nm_agent_heartbeats_total{outcome=\"ok\"}";

fn by_queue_length_a_drained_node_gets_nothing_until_the_drain_is_cancelled(rm: &RmKind) {
    drained_node(rm, "QUEUE_LENGTH");
}

fn by_wait_a_drained_node_gets_nothing_until_the_drain_is_cancelled(rm: &RmKind) {
    drained_node(rm, "QUEUE_WAIT_TIME");
}

fn by_resources_a_drained_node_gets_nothing_until_the_drain_is_cancelled(rm: &RmKind) {
    drained_node(rm, "QUEUE_LENGTH_THEN_RESOURCES");
}

fn drained_node(rm: &RmKind, comparator: &str) {
    let queuing = "yarn.resourcemanager.nm-container-queuing";
    let options = Options {
        node_memory_mb: 16 * SLOT_MB,
        ..Options::default()
    }
    .with(&format!("{queuing}.load-comparator"), comparator)
    .with(&format!("{queuing}.min-queue-wait-time-ms"), 3_600_000)
    .with(&format!("{queuing}.max-queue-wait-time-ms"), 3_600_000)
    // So that every heartbeat's answer uses the one before.
    .with(&format!("{queuing}.sorting-nodes-interval-ms"), 10)
    // Only the best node: by default any of the ten best.
    .with(
        "yarn.resourcemanager.opportunistic-container-allocation.nodes-used",
        1,
    );
    let lab = Lab::new(rm, options);
    let rm = ResourceManager::start(&lab, rm);
    let masters = node(&lab, &rm, "masters", "localhost", 16);
    // All masters are there, and nothing opportunistic.
    operate(&masters, &["--reason", "masters only"]);
    let [drained, other] = [("drained", "127.0.0.2"), ("other", "127.0.0.3")]
        .map(|(name, host)| node(&lab, &rm, name, host, 3));
    operate(&drained, &["--reason", "new kernel"]);
    for (each, reason) in [(&drained, "new kernel"), (&masters, "masters only")] {
        wait::until("the reason at the ResourceManager", STATE_DEADLINE, || {
            let node = each.at_rm(&rm)?;
            let report = node["healthReport"].as_str().unwrap_or_default();
            wait::check(
                report.ends_with(reason) && node["state"] == "RUNNING",
                format!("{node}"),
            )
        });
        wait_told(each);
    }
    let gate = Gate::at(lab.folder().join("gate"));
    let mut first = submit(&lab, "first", &gate);
    wait_counts(&other, 3, 2);
    for each in [&drained, &masters] {
        assert_eq!(each.metric(RUNNING), Ok(0.0));
        assert_eq!(each.metric(REJECTED), Ok(0.0));
    }
    operate(&drained, &["--cancel"]);
    wait_told(&drained);
    let mut second = submit(&lab, "second", &gate);
    wait::until("containers on the node", STATE_DEADLINE, || {
        let running = drained.metric(RUNNING)?;
        wait::check(running > 0.0, running.to_string()).map(drop)
    });
    gate.open();
    for job in [&mut first, &mut second] {
        let _ = job.outcome(JOB_DEADLINE);
    }
}

/// Starts a node of this many slots on this host.
fn node(lab: &Lab, rm: &ResourceManager, name: &str, host: &str, slots: u32) -> Node {
    let site = lab.node_site_changed(name, host, |site| {
        site.set("yarn.nodemanager.resource.memory-mb", slots * SLOT_MB);
    });
    let mut node = Node::start_at(site, &NodeKind::Agent(AGENT.into()));
    node.wait_state(rm, "RUNNING", STATE_DEADLINE);
    node
}

/// Runs `nm-agent drain` for a node.
#[track_caller]
fn operate(node: &Node, arguments: &[&str]) {
    let mut command = Command::new(AGENT);
    command.arg("drain").arg("--conf").arg(node.site.conf());
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Starts a job of five opportunistic containers of a slot each that end when the gate opens.
fn submit(lab: &Lab, name: &str, gate: &Gate) -> NativeShell {
    let arguments = [
        "-n",
        "5",
        "--type",
        "opportunistic",
        "--master-memory",
        &(4 * SLOT_MB).to_string(),
        "--memory",
        &SLOT_MB.to_string(),
        "--",
        "sh",
        "-c",
        &gate.wait_command(),
    ];
    NativeShell::start(lab, Path::new(AGENT), name, &arguments)
}

/// Waits until a node's heartbeats have reported its present state to the ResourceManager.
#[track_caller]
fn wait_told(node: &Node) {
    let heartbeats = || node.metric(HEARTBEATS);
    let before = wait::until("the metrics of a node", STATE_DEADLINE, heartbeats);
    // The first may have been under way. Between the last two there was time to sort the nodes.
    wait::until("three heartbeats", STATE_DEADLINE, || {
        let now = heartbeats()?;
        wait::check(now >= before + 3.0, now.to_string()).map(drop)
    });
}

/// Waits until a node runs and queues this many opportunistic containers.
#[track_caller]
fn wait_counts(node: &Node, running: u32, queued: u32) {
    let what = format!("{running} running, {queued} queued on {}", node.site.name);
    wait::until(what, STATE_DEADLINE, || {
        let now = (node.metric(RUNNING)?, node.metric(QUEUED)?);
        wait::check(
            now == (f64::from(running), f64::from(queued)),
            format!("{now:?}"),
        )
        .map(drop)
    });
}
