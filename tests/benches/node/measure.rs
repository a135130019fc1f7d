//! The measurements of one node.

use std::fs;
use std::time::{Duration, Instant};

use test_support::scripted::{ScriptedAm, ScriptedRm};
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::samples::{Samples, milliseconds};

use crate::limits::Environment;
use crate::load::{Bench, Left, Lives, NODE_MB, RUNNING, SETTLED_HEARTBEATS};

/// Opportunistic containers that are queued, with their launch contexts, while memory and stop are
/// measured.
const QUEUED: usize = 950;

/// Longest queue that a node of this bench may hold: our agent's maximum.
const QUEUE_MAX: usize = 10_000;

/// Pause between two looks for the end of a process.
const EXIT_POLL: Duration = Duration::from_micros(500);

/// Rounds of lives that are measured alone.
const ROUNDS: usize = 5;

/// Deadline for any step of a node.
const DEADLINE: Duration = Duration::from_secs(120);

/// Numbers of samples.
pub(crate) struct Effort {
    starts: usize,
    /// Launches before the first that is measured: a JVM compiles meanwhile.
    warm_up: usize,
    launches: usize,
    bursts: usize,
    serial: Duration,
    sustained: Duration,
}

impl Effort {
    /// The same for both nodes. Enough for a 99th percentile of launches, of which a Java node
    /// makes a few a second.
    pub(crate) fn new(quick: bool) -> Self {
        Self {
            starts: if quick { 2 } else { 10 },
            warm_up: if quick { 5 } else { 200 },
            launches: if quick { 10 } else { 200 },
            bursts: if quick { 1 } else { 8 },
            serial: Duration::from_secs(if quick { 1 } else { 5 }),
            sustained: Duration::from_secs(if quick { 3 } else { 10 }),
        }
    }
}

/// Figures of one node.
pub(crate) struct Figures {
    /// Time from the spawn of the process until the ResourceManager has its registration.
    pub(crate) registration: Samples,
    /// Time from SIGTERM to the end of a node that runs nothing.
    pub(crate) stop_idle: Samples,
    /// Time from SIGTERM to the end of a node that runs 50 containers and queues 950, in
    /// milliseconds.
    pub(crate) stop_full_ms: f64,
    /// Times from before the call to the first instruction of the command, one container at a time.
    pub(crate) launches: Launches,
    /// Time from before the call to the first instruction, with 40 containers in one call.
    pub(crate) burst: Samples,
    /// Container lives one after the other.
    pub(crate) serial: Lives,
    /// Container lives, 32 at once.
    pub(crate) sustained: Lives,
    /// Resident memory in MiB, after the registration.
    pub(crate) rss_idle_mb: f64,
    /// Resident memory in MiB, after all launches.
    pub(crate) rss_used_mb: f64,
    /// Resident memory in MiB, with 1,000 containers known.
    pub(crate) rss_full_mb: f64,
}

/// Times of launches, by what makes them slow.
pub(crate) struct Launches {
    pub(crate) plain: Samples,
    /// With links to 5 and to 20 localized files.
    pub(crate) links_5: Samples,
    pub(crate) links_20: Samples,
    /// Guaranteed launches while 1,000 and 10,000 opportunistic containers are queued.
    pub(crate) queued_1_000: Samples,
    pub(crate) queued_10_000: Samples,
}

impl Figures {
    pub(crate) fn measure(kind: &NodeKind, effort: &Effort) -> Self {
        let (registration, stop_idle) = starts(kind, effort.starts);
        let rm = ScriptedRm::start();
        rm.with(|tracker| tracker.acknowledge_all = true);
        let mut node = start(kind, &rm);
        let am = ScriptedAm::connect(&rm, 1);
        let bench = Bench::new(&rm, &am, &node);
        rm.wait_heartbeats(SETTLED_HEARTBEATS);
        let pid = node.process.id();
        let rss_idle_mb = rss_mb(pid);
        let _warm_up = bench.one_at_a_time(effort.warm_up, 0);
        let plain = bench.one_at_a_time(effort.launches, 0);
        let links_5 = bench.one_at_a_time(effort.launches, 5);
        let links_20 = bench.one_at_a_time(effort.launches, 20);
        let burst = bench.bursts(effort.bursts);
        let serial = bench.serial(effort.serial);
        let sustained = bench.sustained(effort.sustained);
        rm.wait_heartbeats(SETTLED_HEARTBEATS);
        let rss_used_mb = rss_mb(pid);
        bench.fill(QUEUED, Left::Nothing);
        let rss_full_mb = rss_mb(pid);
        // As Java's ApplicationMasters do after each call: the node waits for its containers only.
        drop(am);
        let stop_full_ms = milliseconds(stop(&mut node));
        Self {
            registration,
            stop_idle,
            stop_full_ms,
            launches: Launches {
                plain,
                links_5,
                links_20,
                queued_1_000: beside_queue(kind, 1_000, effort),
                queued_10_000: beside_queue(kind, 10_000, effort),
            },
            burst,
            serial,
            sustained,
            rss_idle_mb,
            rss_used_mb,
            rss_full_mb,
        }
    }
}

/// Has one node make lives at full speed five times, and passes each to `round`.
pub(crate) fn rounds_of_lives(kind: &NodeKind, effort: &Effort, mut round: impl FnMut(Lives)) {
    let rm = ScriptedRm::start();
    rm.with(|tracker| tracker.acknowledge_all = true);
    let node = start(kind, &rm);
    let am = ScriptedAm::connect(&rm, 1);
    let bench = Bench::new(&rm, &am, &node);
    let _warm_up = bench.one_at_a_time(effort.warm_up, 0);
    for _ in 0..ROUNDS {
        round(bench.sustained(effort.sustained));
    }
}

/// Returns the environment that a node's containers run with.
pub(crate) fn environment(kind: &NodeKind) -> Environment {
    let rm = ScriptedRm::start();
    rm.with(|tracker| tracker.acknowledge_all = true);
    let node = start(kind, &rm);
    let am = ScriptedAm::connect(&rm, 1);
    Bench::new(&rm, &am, &node).environment()
}

/// Times guaranteed launches on a node that has capacity for them, and many queued containers that
/// are too large for it.
fn beside_queue(kind: &NodeKind, queued: usize, effort: &Effort) -> Samples {
    let rm = ScriptedRm::start();
    rm.with(|tracker| tracker.acknowledge_all = true);
    let node = start(kind, &rm);
    let am = ScriptedAm::connect(&rm, 1);
    let bench = Bench::new(&rm, &am, &node);
    let _warm_up = bench.one_at_a_time(effort.warm_up, 0);
    bench.fill(queued, Left::Launches);
    bench.one_at_a_time(effort.launches, 0)
}

fn start(kind: &NodeKind, rm: &ScriptedRm) -> NodeProcess {
    NodeProcess::start(kind, rm, site)
}

/// Properties of every node of this bench.
pub(crate) fn site(site: &mut Properties) {
    site.set("yarn.nodemanager.resource.memory-mb", NODE_MB)
        .set(
            "yarn.nodemanager.resource.cpu-vcores",
            2 * (RUNNING + QUEUE_MAX),
        )
        .set(
            "yarn.nodemanager.opportunistic-containers-max-queue-length",
            QUEUE_MAX,
        );
}

/// Starts and stops nodes that run nothing.
fn starts(kind: &NodeKind, count: usize) -> (Samples, Samples) {
    let times: Vec<(Duration, Duration)> = (0..count)
        .map(|_| {
            let rm = ScriptedRm::start();
            let mut node = start(kind, &rm);
            rm.wait("the registration", |tracker| {
                tracker.node().is_some().then_some(())
            });
            let registered = node.started_at.elapsed();
            rm.wait_registered();
            (registered, stop(&mut node))
        })
        .collect();
    (
        times.iter().map(|(start, _)| *start).collect(),
        times.iter().map(|(_, stop)| *stop).collect(),
    )
}

/// Returns the time from SIGTERM to the end of the process.
fn stop(node: &mut NodeProcess) -> Duration {
    let begin = Instant::now();
    node.process.terminate();
    while node.process.exit().is_none() {
        assert!(begin.elapsed() < DEADLINE, "the node does not end");
        std::thread::sleep(EXIT_POLL);
    }
    begin.elapsed()
}

/// Returns the resident memory of a process, MiB.
fn rss_mb(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the node runs");
    let kib: u32 = status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .expect("a running process has memory");
    f64::from(kib) / 1024.0
}
