//! A ResourceManager that places by the nodes' estimated waits, and publishes a limit of the wait.
//!
//! The Java NodeManager never reports an estimate: these tests are about the agent.

use std::path::Path;

use shell::Counts;
use tests::cluster::{JOB_DEADLINE, SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::gate::Gate;
use tests::lab::Lab;
use tests::native_shell::{self, NativeShell};
use tests::node::{Node, NodeKind};
use tests::rm::{ResourceManager, RmKind};
use tests::wait;

use crate::AGENT;

with_each_rm!(
    containers_go_to_the_node_with_the_shorter_estimated_wait,
    nothing_is_shed_for_a_wait_longer_than_the_published_limit,
);

/// Run time that the agent assumes of a container when it has no samples.
const ASSUMED_RUN_MS: u64 = 60_000;

/// A time longer than any test here.
const NO_LIMIT_MS: u64 = 3_600_000;

/// Opportunistic containers running on a node.
const RUNNING: &str = "nm_agent_containers_running{execution_type=\"opportunistic\"}";
/// Opportunistic containers queued on the node.
const QUEUED: &str = "nm_agent_containers_queued{execution_type=\"opportunistic\"}";
/// Estimated wait in the node's last report to the RM.
const ESTIMATE: &str = "nm_agent_queue_wait_estimate_seconds";

/// Wait that the RM allows.
const LIMIT: &str = "nm_agent_queue_wait_limit_seconds";

/// Number of heartbeats that the ResourceManager answered.
const HEARTBEATS: &str = "nm_agent_heartbeats_total{outcome=\"ok\"}";

/// A ResourceManager that places by waits, and a node for the masters. Dropped in this order.
struct Cluster {
    _masters: Node,
    rm: ResourceManager,
    lab: Lab,
}

impl Cluster {
    /// Starts a ResourceManager that lets opportunistic containers wait for at most `wait_ms`.
    fn start(rm: &RmKind, wait_ms: u64) -> Self {
        let queuing = "yarn.resourcemanager.nm-container-queuing";
        let options = Options {
            node_memory_mb: 16 * SLOT_MB,
            ..Options::default()
        }
        .with(&format!("{queuing}.load-comparator"), "QUEUE_WAIT_TIME")
        .with(&format!("{queuing}.min-queue-wait-time-ms"), wait_ms)
        .with(&format!("{queuing}.max-queue-wait-time-ms"), wait_ms)
        // So that every heartbeat's answer uses the one before.
        .with(&format!("{queuing}.sorting-nodes-interval-ms"), 10)
        // Only the best node: by default any of the ten best.
        .with(
            "yarn.resourcemanager.opportunistic-container-allocation.nodes-used",
            1,
        );
        let lab = Lab::new(rm, options);
        let rm = ResourceManager::start(&lab, rm);
        // A node without a queue reports a wait of -1, and is offered no opportunistic containers.
        let site = lab.node_site_changed("masters", "localhost", |site| {
            site.set(
                "yarn.nodemanager.opportunistic-containers-max-queue-length",
                0,
            );
        });
        let mut masters = Node::start_at(site, &agent());
        masters.wait_state(&rm, "RUNNING", STATE_DEADLINE);
        Self {
            _masters: masters,
            rm,
            lab,
        }
    }

    /// Starts a node of `slots` slots, too few for a master, on this host. Each needs its own:
    /// Hadoop's ResourceManager looks up the chosen node by its host's name.
    fn worker(&self, name: &str, host: &str, slots: u32) -> Node {
        let site = self.lab.node_site_changed(name, host, |site| {
            site.set("yarn.nodemanager.resource.memory-mb", slots * SLOT_MB);
        });
        let mut node = Node::start_at(site, &agent());
        node.wait_state(&self.rm, "RUNNING", STATE_DEADLINE);
        node
    }

    /// Starts a job of opportunistic containers of a slot each that end when the gate opens.
    fn submit(&self, name: &str, containers: u32, gate: &Gate) -> NativeShell {
        let arguments = [
            "-n",
            &containers.to_string(),
            "--type",
            "opportunistic",
            "--retries",
            "0",
            "--master-memory",
            &(4 * SLOT_MB).to_string(),
            "--memory",
            &SLOT_MB.to_string(),
            "--",
            "sh",
            "-c",
            &gate.wait_command(),
        ];
        let program = Path::new(AGENT);
        NativeShell::start(&self.lab, program, name, &arguments)
    }

    fn gate(&self) -> Gate {
        Gate::at(self.lab.folder().join("gate"))
    }

    /// Waits for the end of a job; returns the summary of its containers.
    #[track_caller]
    fn counts(&self, job: &mut NativeShell) -> Counts {
        let id = job.application_id();
        let _ = job.outcome(JOB_DEADLINE);
        native_shell::summary(&self.rm, &id).counts
    }
}

fn agent() -> NodeKind {
    NodeKind::Agent(AGENT.into())
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

fn containers_go_to_the_node_with_the_shorter_estimated_wait(rm: &RmKind) {
    let cluster = Cluster::start(rm, NO_LIMIT_MS);
    let gate = cluster.gate();
    // The longer queue is on the node where more ends soon: three containers leave capacity for the
    // two that wait and for one more.
    let long_queue = cluster.worker("long-queue", "127.0.0.2", 3);
    let mut first = cluster.submit("first", 5, &gate);
    wait_counts(&long_queue, 3, 2);
    wait_told(&long_queue);
    let long_wait = cluster.worker("long-wait", "127.0.0.3", 1);
    wait_told(&long_wait);
    let mut second = cluster.submit("second", 1, &gate);
    wait_counts(&long_wait, 1, 0);
    wait::until("a shorter wait in the longer queue", STATE_DEADLINE, || {
        let waits = (long_queue.metric(ESTIMATE)?, long_wait.metric(ESTIMATE)?);
        wait::check(0.0 < waits.0 && waits.0 < waits.1, format!("{waits:?}")).map(drop)
    });
    wait_told(&long_queue);
    wait_told(&long_wait);
    let mut third = cluster.submit("third", 1, &gate);
    wait_counts(&long_queue, 3, 3);
    wait_counts(&long_wait, 1, 0);
    gate.open();
    for (job, containers) in [(&mut first, 5), (&mut second, 1), (&mut third, 1)] {
        assert_eq!(cluster.counts(job).succeeded, containers);
    }
}

fn nothing_is_shed_for_a_wait_longer_than_the_published_limit(rm: &RmKind) {
    // The first in the queue waits for the rest of the running one, each later one for a whole run
    // more.
    let cluster = Cluster::start(rm, ASSUMED_RUN_MS + 1000);
    let gate = cluster.gate();
    let worker = cluster.worker("worker", "127.0.0.2", 1);
    let mut job = cluster.submit("job", 5, &gate);
    wait_counts(&worker, 1, 4);
    // The limit comes with each answer.
    wait_told(&worker);
    let limit = worker.metric(LIMIT).unwrap();
    assert!(limit < worker.metric(ESTIMATE).unwrap(), "{limit}");
    wait_counts(&worker, 1, 4);
    gate.open();
    let counts = cluster.counts(&mut job);
    assert_eq!((counts.succeeded, counts.shed), (5, 0), "{counts:?}");
}
