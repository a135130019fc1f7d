//! The measurements of one node.

use std::fs;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use records::{ApplicationId, ContainerId};
use test_support::scripted::Launched;
use tests::node::NodeKind;
use tests::proc::processor_time;
use tests::proxy_cluster::{ProxyCluster, start_master};
use tests::samples::Samples;
use tokio::runtime::Runtime;
use wire::proto::hadoop_yarn::ContainerSubStateProto;

use crate::masters::{LastReport, Master, offering};

/// Nodes that the ResourceManager offers; Hadoop's default.
const NODES: u16 = 10;

/// Nodes offered when a hundred containers are asked for: a node gets one for each call that does
/// not name its host.
const NODES_FOR_HUNDRED: u16 = 100;

/// Masters before the measurements, so that memory that a process needs once is allocated. The
/// first of them is connected.
const FIRST: i32 = 20;

/// Interval of the node's heartbeats, milliseconds: Hadoop's default. Each reports every master's
/// container.
const HEARTBEAT_MS: i64 = 1_000;

/// Rounds in which containers without and with a pipeline take turns, so that what the process
/// needs once for more of either falls on both.
const ROUNDS: i32 = 5;

/// Amounts of work.
pub(crate) struct Effort {
    /// Number of connected masters. A multiple of [`ROUNDS`].
    masters: i32,
    warm_up: usize,
    empty: usize,
    hundred: usize,
    period: Duration,
}

impl Effort {
    /// Amounts for a node of ours.
    pub(crate) const fn agent(quick: bool) -> Self {
        if quick {
            return Self {
                masters: 100,
                warm_up: 20,
                empty: 500,
                hundred: 50,
                period: Duration::from_secs(2),
            };
        }
        Self {
            masters: 500,
            warm_up: 1_000,
            empty: 5_000,
            hundred: 500,
            period: Duration::from_secs(15),
        }
    }

    /// Amounts for Hadoop's, which starts a dozen containers a second. It has warmed up after as
    /// many calls as ours.
    pub(crate) const fn java(quick: bool) -> Self {
        if quick {
            return Self {
                masters: 20,
                ..Self::agent(true)
            };
        }
        Self {
            masters: 200,
            empty: 2_000,
            hundred: 100,
            ..Self::agent(false)
        }
    }

    /// Returns the number of warm-up calls for a hundred containers: each warms up what a hundred
    /// calls without asks do.
    fn hundred_warm_up(&self) -> usize {
        self.warm_up.min(50)
    }
}

/// Figures of one node; each is a row of the table.
pub(crate) struct Figures {
    /// Number of connected masters for the rows with many.
    pub(crate) masters: i32,
    /// Time of the ResourceManager's own answer to a call without asks.
    pub(crate) direct: Samples,
    /// Time of the ResourceManager's own answer to a node that allocated a hundred containers.
    pub(crate) direct_hundred: Samples,
    /// Calls of the only master.
    pub(crate) alone: Calls,
    /// Calls of one master while all are connected.
    pub(crate) among_all: Calls,
    /// Calls without asks of one master after the other.
    pub(crate) in_turn: Samples,
    pub(crate) calls_per_s: f64,
    pub(crate) processors: f64,
    /// Resident memory of the node, without and with a registered master; of ours only, a JVM's
    /// memory says little.
    pub(crate) pipeline_kib: Option<(f64, f64)>,
}

/// Times of calls of one master.
pub(crate) struct Calls {
    pub(crate) empty: Samples,
    /// CPU time of the node for each call, in milliseconds.
    pub(crate) empty_processor_ms: f64,
    /// Times of calls that get a hundred containers.
    pub(crate) hundred: Samples,
    /// CPU time of the node for each of these calls, in milliseconds.
    pub(crate) hundred_processor_ms: f64,
}

/// Measures a node of this kind.
pub(crate) fn measure(kind: &NodeKind, effort: &Effort) -> Figures {
    let peers = ProxyCluster::start(kind, offering(NODES), |site| {
        site.set("yarn.nodemanager.distributed-scheduling.enabled", true);
    });
    peers
        .rm
        .with(|tracker| tracker.heartbeat_interval_ms = HEARTBEAT_MS);
    let runtime = Runtime::new().expect("threads can be made");
    let mut first = peers.launch_all(1..=FIRST);
    let (direct, direct_hundred, alone) = runtime.block_on(async {
        let mut master = Master::register(peers.proxy, first.remove(0)).await;
        let alone = Calls::measure(&peers, &mut master, effort).await;
        let (direct, direct_hundred) = direct(&peers, &mut master, effort).await;
        (direct, direct_hundred, alone)
    });
    let (pipeline_kib, launched) = launch_rest(kind, &peers, effort);
    let before = rss_kib(&peers);
    let mut masters = runtime.block_on(Master::register_all(peers.proxy, launched));
    let registered_kib = (rss_kib(&peers) - before) / f64::from(effort.masters);
    let among_all = runtime.block_on(Calls::measure(&peers, &mut masters[0], effort));
    let in_turn = runtime.block_on(in_turn(&mut masters, effort));
    let (calls_per_s, processors) = runtime.block_on(rate(&peers, masters, effort));
    Figures {
        masters: effort.masters,
        direct,
        direct_hundred,
        alone,
        among_all,
        in_turn,
        calls_per_s,
        processors,
        pipeline_kib: pipeline_kib.map(|kib| (kib, kib + registered_kib)),
    }
}

/// Launches the masters. Of ours as many containers run without a pipeline as with one, so that the
/// difference is the pipelines'.
fn launch_rest(
    kind: &NodeKind,
    peers: &ProxyCluster,
    effort: &Effort,
) -> (Option<f64>, Vec<Launched>) {
    let mut last = FIRST;
    let mut next = |count: i32| {
        last += count;
        last - count + 1..=last
    };
    if *kind == NodeKind::MeasuredJava {
        return (None, peers.launch_all(next(effort.masters)));
    }
    let batch = effort.masters / ROUNDS;
    let without = |numbers: RangeInclusive<i32>| {
        let started = numbers.map(|number| start_master(&peers.rm, number, |_| None).first().id);
        let started: Vec<_> = started.collect();
        wait_running(peers, &started);
    };
    without(next(batch));
    let (mut added_kib, mut launched) = (0.0, Vec::new());
    for _ in 0..ROUNDS {
        let before = rss_kib(peers);
        without(next(batch));
        let between = rss_kib(peers);
        let masters = peers.launch_all(next(batch));
        let containers: Vec<_> = masters.iter().map(|master| master.container).collect();
        wait_running(peers, &containers);
        added_kib += (rss_kib(peers) - between) - (between - before);
        launched.extend(masters);
    }
    (Some(added_kib / f64::from(effort.masters)), launched)
}

/// Waits until all of these have a process and the node has reported it.
fn wait_running(peers: &ProxyCluster, containers: &[ContainerId]) {
    for id in containers {
        let running = ContainerSubStateProto::CssRunning;
        peers.rm.wait_sub_state(*id, running);
    }
}

impl Calls {
    async fn measure(peers: &ProxyCluster, master: &mut Master, effort: &Effort) -> Self {
        for _ in 0..effort.warm_up {
            master.empty().await;
        }
        let mut times = Vec::new();
        let before = processor_time(peers.node.process.id());
        for _ in 0..effort.empty {
            times.push(master.empty().await);
        }
        let empty_processor_ms = used_ms(peers, before, effort.empty);
        let empty = times.drain(..).collect();

        peers.scheduler.set_script(offering(NODES_FOR_HUNDRED));
        // The answer has the new list of nodes.
        master.empty().await;
        for _ in 0..effort.hundred_warm_up() {
            master.hundred().await;
        }
        let before = processor_time(peers.node.process.id());
        for _ in 0..effort.hundred {
            times.push(master.hundred().await);
        }
        let hundred_processor_ms = used_ms(peers, before, effort.hundred);
        peers.scheduler.set_script(offering(NODES));
        Self {
            empty,
            empty_processor_ms,
            hundred: times.into_iter().collect(),
            hundred_processor_ms,
        }
    }
}

/// Returns the CPU time of the node since `before` for each of this many calls.
fn used_ms(peers: &ProxyCluster, before: Duration, calls: usize) -> f64 {
    let used = processor_time(peers.node.process.id()).saturating_sub(before);
    let calls = u32::try_from(calls).expect("a small number");
    used.as_secs_f64() * 1000.0 / f64::from(calls)
}

/// Measures the ResourceManager without a proxy: a call without asks, and the message of a node
/// that allocated a hundred containers to `proxied`, with the same list of nodes in the answer.
async fn direct(peers: &ProxyCluster, proxied: &mut Master, effort: &Effort) -> (Samples, Samples) {
    let application_id = ApplicationId {
        cluster_timestamp: 1,
        id: 1,
    };
    let attempt = application_id.attempt(1);
    let launched = Launched {
        attempt,
        container: attempt.container(1),
        token: peers.scheduler.token(attempt),
    };
    let mut master = Master::register(peers.scheduler.address, launched).await;
    for _ in 0..effort.warm_up {
        master.empty().await;
    }
    let mut times = Vec::new();
    for _ in 0..effort.empty {
        times.push(master.empty().await);
    }
    let empty = times.drain(..).collect();

    let report = LastReport::default();
    peers
        .scheduler
        .set_script(report.kept_by(NODES_FOR_HUNDRED));
    proxied.empty().await;
    proxied.hundred().await;
    peers.scheduler.set_script(offering(NODES_FOR_HUNDRED));
    for _ in 0..effort.hundred_warm_up() {
        master.send_report(report.message()).await;
    }
    for _ in 0..effort.hundred {
        times.push(master.send_report(report.message()).await);
    }
    peers.scheduler.set_script(offering(NODES));
    (empty, times.into_iter().collect())
}

/// Times calls without asks, each of the next master.
async fn in_turn(masters: &mut [Master], effort: &Effort) -> Samples {
    for master in masters.iter_mut() {
        master.empty().await;
    }
    let mut times = Vec::new();
    while times.len() < effort.empty {
        for master in masters.iter_mut() {
            times.push(master.empty().await);
        }
    }
    times.into_iter().collect()
}

/// Returns the calls per second of all masters together, each making one after the other, and the
/// processors that the node used.
async fn rate(peers: &ProxyCluster, masters: Vec<Master>, effort: &Effort) -> (f64, f64) {
    let id = peers.node.process.id();
    let before = processor_time(id);
    let begin = Instant::now();
    let period = effort.period;
    let tasks: Vec<_> = masters
        .into_iter()
        .map(|mut master| {
            tokio::spawn(async move {
                let mut calls = 0_u32;
                while begin.elapsed() < period {
                    master.empty().await;
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let mut calls = 0;
    for task in tasks {
        calls += task.await.expect("masters do not panic");
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let used = processor_time(id).saturating_sub(before).as_secs_f64();
    (f64::from(calls) / elapsed, used / elapsed)
}

/// Returns the resident memory of the node.
fn rss_kib(peers: &ProxyCluster) -> f64 {
    let path = format!("/proc/{}/status", peers.node.process.id());
    let status = fs::read_to_string(&path).expect("the node runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.expect("the kernel says how much")
}
