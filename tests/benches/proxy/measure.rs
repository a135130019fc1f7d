//! The measurements of one node.

use std::fs;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use records::ContainerId;
use test_support::scripted::Launched;
use tests::node::NodeKind;
use tests::proc::processor_time;
use tests::proxy_cluster::{ProxyCluster, start_master};
use tests::samples::{Samples, milliseconds};
use tokio::runtime::Runtime;
use wire::proto::hadoop_yarn::ContainerSubStateProto;

use crate::masters::{LastReport, Master, offering};
use crate::reserved;
use crate::scraped::Scraped;

/// Nodes that the ResourceManager offers; Hadoop's default.
const NODES: u16 = 10;

/// Lengths of longer lists, for which calls without asks are measured.
pub(crate) const LONG_LISTS: [u16; 2] = [100, 1_000];

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

/// Calls per second at which an attempt of ours is throttled, and in a burst. The throttle is in
/// the chain and counts each call, and no master reaches this.
const THROTTLED_ABOVE: u32 = 1_000_000;

/// Amounts of work.
pub(crate) struct Effort {
    /// Number of connected masters. A multiple of [`ROUNDS`].
    masters: i32,
    /// Calls before the first that is measured: a JVM compiles meanwhile.
    warm_up: usize,
    empty: usize,
    hundred: usize,
    period: Duration,
}

impl Effort {
    /// The same for both nodes.
    pub(crate) const fn new(quick: bool) -> Self {
        if quick {
            return Self {
                masters: 50,
                warm_up: 20,
                empty: 500,
                hundred: 50,
                period: Duration::from_secs(2),
            };
        }
        Self {
            masters: 500,
            warm_up: 5_000,
            empty: 5_000,
            hundred: 500,
            period: Duration::from_secs(15),
        }
    }

    /// Returns the number of warm-up calls for a hundred containers: each warms up what a hundred
    /// calls without asks do.
    fn hundred_warm_up(&self) -> usize {
        self.warm_up.min(200)
    }
}

/// Figures of one node; each is a row of the table.
pub(crate) struct Figures {
    /// Number of connected masters for the rows with many.
    pub(crate) masters: i32,
    /// Calls of the only master.
    pub(crate) alone: Calls,
    /// Calls of the only master while an exporter scrapes the node.
    pub(crate) scraped: Scraped,
    /// Part of a processor that the node uses without reservations, and with [`reserved::PER_S`] a
    /// second. Hadoop's knows none.
    pub(crate) reserved: Option<[f64; 2]>,
    /// Calls without asks of the only master, for each of [`LONG_LISTS`], with the node's CPU time
    /// for each in milliseconds.
    pub(crate) long_lists: [(Pairs, f64); 2],
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
    pub(crate) empty: Pairs,
    /// CPU time of the node for each call, in milliseconds.
    pub(crate) empty_processor_ms: f64,
    /// Calls that get a hundred containers; without the proxy, the node's report of them.
    pub(crate) hundred: Pairs,
    /// CPU time of the node for each of these calls, in milliseconds.
    pub(crate) hundred_processor_ms: f64,
}

/// Times of a call through the proxy and of the same call to the ResourceManager, one pair after
/// the other.
pub(crate) struct Pairs {
    pub(crate) proxied: Samples,
    pub(crate) direct: Samples,
    /// Difference within each pair. Its percentiles are those of what the proxy adds to a call,
    /// which a difference of two percentiles is not.
    pub(crate) added: Samples,
}

/// Times of a call through the proxy and of the same call to the ResourceManager.
#[derive(Clone, Copy)]
struct Pair {
    proxied: Duration,
    direct: Duration,
}

impl FromIterator<Pair> for Pairs {
    fn from_iter<I: IntoIterator<Item = Pair>>(pairs: I) -> Self {
        let pairs: Vec<Pair> = pairs.into_iter().collect();
        let added = |pair: &Pair| milliseconds(pair.proxied) - milliseconds(pair.direct);
        Self {
            proxied: pairs.iter().map(|pair| pair.proxied).collect(),
            direct: pairs.iter().map(|pair| pair.direct).collect(),
            added: pairs.iter().map(added).collect(),
        }
    }
}

/// Measures a node of this kind.
pub(crate) fn measure(kind: &NodeKind, effort: &Effort) -> Figures {
    let peers = ProxyCluster::start(kind, offering(NODES), |site| {
        let throttle = "yarn.nodemanager.agent.amrmproxy.throttle";
        site.set("yarn.nodemanager.distributed-scheduling.enabled", true)
            // The nodes on the lists have no web ports to look at.
            .set("yarn.nodemanager.agent.amrmproxy.placement", "spread")
            .set(format!("{throttle}.calls-per-second"), THROTTLED_ABOVE)
            .set(format!("{throttle}.calls-burst"), THROTTLED_ABOVE);
    });
    peers
        .rm
        .with(|tracker| tracker.heartbeat_interval_ms = HEARTBEAT_MS);
    let runtime = Runtime::new().expect("threads can be made");
    let mut first = peers.launch_all(1..=FIRST);
    let web_port = peers.rm.wait_registrations(1).http_port();
    let (alone, scraped, long_lists) = runtime.block_on(async {
        let mut master = Master::register(peers.proxy, first.remove(0)).await;
        let counts = (effort.warm_up, effort.empty);
        let scraped = Scraped::measure(web_port, &mut master, counts).await;
        let calls = Calls::measure(&peers, &mut master, effort).await;
        (
            calls,
            scraped,
            long_lists(&peers, &mut master, effort).await,
        )
    });
    let (pipeline_kib, launched) = launch_rest(kind, &peers, effort);
    let before = rss_kib(&peers);
    let mut masters = runtime.block_on(Master::register_all(peers.proxy, launched));
    let registered_kib = (rss_kib(&peers) - before) / f64::from(effort.masters);
    let among_all = runtime.block_on(Calls::measure(&peers, &mut masters[0], effort));
    let in_turn = runtime.block_on(in_turn(&mut masters, effort));
    let (calls_per_s, processors) = runtime.block_on(rate(&peers, masters, effort));
    // At the end: reservations live on for seconds, and the node looks at them whenever it changes.
    let is_ours = *kind != NodeKind::MeasuredJava;
    let reserved = is_ours.then(|| runtime.block_on(reserved::cost(&peers, effort.period)));
    Figures {
        masters: effort.masters,
        alone,
        scraped,
        reserved,
        long_lists,
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

/// Measures calls without asks while the ResourceManager has longer lists.
async fn long_lists(
    peers: &ProxyCluster,
    proxied: &mut Master,
    effort: &Effort,
) -> [(Pairs, f64); 2] {
    let mut measured = Vec::new();
    for nodes in LONG_LISTS {
        peers.scheduler.set_script(offering(nodes));
        measured.push(Calls::empty(peers, proxied, effort).await);
    }
    peers.scheduler.set_script(offering(NODES));
    measured.try_into().ok().expect("one for each length")
}

impl Calls {
    /// Measures calls without asks, each made twice. Which of the two goes first changes with each
    /// pair.
    async fn empty(peers: &ProxyCluster, proxied: &mut Master, effort: &Effort) -> (Pairs, f64) {
        let mut direct = proxied.beside_proxy(&peers.scheduler).await;
        let empty = async |number: usize, proxied: &mut Master| {
            if number.is_multiple_of(2) {
                let direct = direct.empty().await;
                let proxied = proxied.empty().await;
                Pair { proxied, direct }
            } else {
                let proxied = proxied.empty().await;
                let direct = direct.empty().await;
                Pair { proxied, direct }
            }
        };
        pairs(peers, proxied, effort.warm_up, effort.empty, empty).await
    }

    /// Measures calls of a master that has a second connection, to the ResourceManager itself, and
    /// uses both in turn. Which of the two goes first changes with each pair.
    async fn measure(peers: &ProxyCluster, proxied: &mut Master, effort: &Effort) -> Self {
        let (empty, empty_processor_ms) = Self::empty(peers, proxied, effort).await;
        let direct = proxied.beside_proxy(&peers.scheduler).await;

        let report = LastReport::default();
        peers
            .scheduler
            .set_script(report.kept_by(NODES_FOR_HUNDRED));
        // The answer has the new list of nodes, and later there is a report.
        proxied.empty().await;
        proxied.hundred().await;
        let hundred = async |number: usize, proxied: &mut Master| {
            if number.is_multiple_of(2) {
                let direct = direct.send_report(report.message()).await;
                let proxied = proxied.hundred().await;
                Pair { proxied, direct }
            } else {
                let proxied = proxied.hundred().await;
                let direct = direct.send_report(report.message()).await;
                Pair { proxied, direct }
            }
        };
        let warm_up = effort.hundred_warm_up();
        let (hundred, hundred_processor_ms) =
            pairs(peers, proxied, warm_up, effort.hundred, hundred).await;
        peers.scheduler.set_script(offering(NODES));
        Self {
            empty,
            empty_processor_ms,
            hundred,
            hundred_processor_ms,
        }
    }
}

/// Makes `warm_up` pairs of calls, then measures `count`, and the CPU time of the node for each.
async fn pairs(
    peers: &ProxyCluster,
    proxied: &mut Master,
    warm_up: usize,
    count: usize,
    mut pair: impl AsyncFnMut(usize, &mut Master) -> Pair,
) -> (Pairs, f64) {
    for number in 0..warm_up {
        pair(number, proxied).await;
    }
    let mut pairs = Vec::new();
    let before = processor_time(peers.node.process.id());
    for number in 0..count {
        pairs.push(pair(number, proxied).await);
    }
    let processor_ms = used_ms(peers, before, count);
    (pairs.into_iter().collect(), processor_ms)
}

/// Returns the CPU time of the node since `before` for each of this many calls.
fn used_ms(peers: &ProxyCluster, before: Duration, calls: usize) -> f64 {
    let used = processor_time(peers.node.process.id()).saturating_sub(before);
    let calls = u32::try_from(calls).expect("a small number");
    used.as_secs_f64() * 1000.0 / f64::from(calls)
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
