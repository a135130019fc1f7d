//! The measurements of one node.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use records::ContainerId;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use test_support::{Allocation, LaunchContext};
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::samples::Samples;
use wire::proto::hadoop_yarn::ContainerSubStateProto;

/// Memory that the node offers, in MiB: so much that only the last part fills it.
pub(crate) const NODE_MB: u64 = 64_000;

/// Memory of a container of the launches, in MiB.
const SMALL_MB: u64 = 16;

/// Containers started by one call in the burst.
const BURST: usize = 40;

/// Containers alive at once when launches are counted.
const AT_ONCE: usize = 32;

/// Containers that run, and fill the node, while its memory is measured.
const RUNNING: usize = 50;

/// Containers that the node knows while its memory is measured; those that do not run are queued,
/// with their launch contexts.
const KNOWN: usize = 1000;

/// Containers started by one call while the queue is filled.
const BATCH: usize = 50;

/// Heartbeats after which a node counts as idle.
const SETTLED_HEARTBEATS: usize = 20;

/// Pause between two looks for the end of a process.
const EXIT_POLL: Duration = Duration::from_micros(500);

/// Deadline for any step of a node.
const DEADLINE: Duration = Duration::from_secs(120);

/// Numbers of samples.
pub(crate) struct Effort {
    starts: usize,
    /// Launches before the first that is measured: a JVM compiles meanwhile.
    warm_up: usize,
    launches: usize,
    bursts: usize,
    sustained: Duration,
}

impl Effort {
    /// The same for both nodes. Enough for a 99th percentile of launches, of which a Java node
    /// makes two a second.
    pub(crate) fn new(quick: bool) -> Self {
        Self {
            starts: if quick { 2 } else { 10 },
            warm_up: if quick { 5 } else { 200 },
            launches: if quick { 10 } else { 300 },
            bursts: if quick { 1 } else { 8 },
            sustained: Duration::from_secs(if quick { 3 } else { 20 }),
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
    /// Time from before the call to the first instruction of the command, one container at a time.
    pub(crate) first_instruction: Samples,
    /// Time from before the call to the first instruction, with 40 containers in one call.
    pub(crate) burst: Samples,
    /// Container lives per second, 32 at once, each reported to the ResourceManager.
    pub(crate) launches_per_s: f64,
    /// Resident memory in MiB, after the registration.
    pub(crate) rss_idle_mb: f64,
    /// Resident memory in MiB, after all launches.
    pub(crate) rss_used_mb: f64,
    /// Resident memory in MiB, with 1,000 containers known.
    pub(crate) rss_full_mb: f64,
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
        let _warm_up = bench.one_at_a_time(effort.warm_up);
        let first_instruction = bench.one_at_a_time(effort.launches);
        let burst = bench.bursts(effort.bursts);
        let launches_per_s = bench.sustained(effort.sustained);
        rm.wait_heartbeats(SETTLED_HEARTBEATS);
        let rss_used_mb = rss_mb(pid);
        bench.fill();
        let rss_full_mb = rss_mb(pid);
        // As Java's ApplicationMasters do after each call: the node waits for its containers only.
        drop(am);
        let stop_full = stop(&mut node);
        Self {
            registration,
            stop_idle,
            stop_full_ms: stop_full.as_secs_f64() * 1000.0,
            first_instruction,
            burst,
            launches_per_s,
            rss_idle_mb,
            rss_used_mb,
            rss_full_mb,
        }
    }
}

fn start(kind: &NodeKind, rm: &ScriptedRm) -> NodeProcess {
    NodeProcess::start(kind, rm, site)
}

/// Properties of every node of this bench.
pub(crate) fn site(site: &mut Properties) {
    site.set("yarn.nodemanager.resource.memory-mb", NODE_MB)
        .set("yarn.nodemanager.resource.cpu-vcores", 10 * KNOWN)
        .set(
            "yarn.nodemanager.opportunistic-containers-max-queue-length",
            KNOWN,
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

/// A node under load.
pub(crate) struct Bench<'a> {
    rm: &'a ScriptedRm,
    am: &'a ScriptedAm,
    folder: std::path::PathBuf,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(rm: &'a ScriptedRm, am: &'a ScriptedAm, node: &NodeProcess) -> Self {
        Self {
            rm,
            am,
            folder: node.folder().to_path_buf(),
        }
    }

    fn allocate(&self) -> Allocation {
        self.am.allocate().memory_mb(SMALL_MB)
    }

    /// Returns a command that writes the time of its start, and the file that it writes to.
    pub(crate) fn timed(&self, number: usize) -> (LaunchContext, std::path::PathBuf) {
        let file = self.folder.join(format!("time-{number}"));
        let command = format!("echo \\$EPOCHREALTIME > '{}'", file.display());
        (LaunchContext::command(&command), file)
    }

    pub(crate) fn succeeded(&self, id: ContainerId) {
        let completed = self.rm.wait_completed(id);
        assert_eq!(completed.exit_status, 0, "{completed:?}");
    }

    pub(crate) fn one_at_a_time(&self, count: usize) -> Samples {
        Samples::take(count, |number| {
            let (context, file) = self.timed(number);
            let allocation = self.allocate();
            let begin = now();
            let started = self.am.try_start(&allocation, context);
            started.unwrap_or_else(|refusal| panic!("{refusal}"));
            self.succeeded(allocation.id);
            first_instruction(&file, begin)
        })
    }

    fn bursts(&self, count: usize) -> Samples {
        (0..count)
            .flat_map(|_| {
                let (requests, files): (Vec<_>, Vec<_>) = (0..BURST)
                    .map(|number| {
                        let (context, file) = self.timed(number);
                        ((self.allocate(), context), file)
                    })
                    .unzip();
                let ids: Vec<ContainerId> = requests
                    .iter()
                    .map(|(allocation, _)| allocation.id)
                    .collect();
                let begin = now();
                let started = self.am.start_all(requests);
                started.unwrap_or_else(|refusal| panic!("{refusal}"));
                for id in ids {
                    self.succeeded(id);
                }
                files
                    .into_iter()
                    .map(move |file| first_instruction(&file, begin))
            })
            .collect()
    }

    pub(crate) fn sustained(&self, duration: Duration) -> f64 {
        let completed = || self.rm.with(|tracker| tracker.completed.len());
        let before = completed();
        let begin = Instant::now();
        let mut started = 0;
        let rate = loop {
            let done = completed() - before;
            let elapsed = begin.elapsed();
            if elapsed >= duration {
                let done = u32::try_from(done).expect("seconds have few launches");
                break f64::from(done) / elapsed.as_secs_f64();
            }
            let free = AT_ONCE - (started - done);
            if free > 0 {
                let requests = (0..free)
                    .map(|_| (self.allocate(), LaunchContext::command(":")))
                    .collect();
                let accepted = self.am.start_all(requests);
                accepted.unwrap_or_else(|refusal| panic!("{refusal}"));
                started += free;
            }
            self.rm.wait("the end of a container", |tracker| {
                (tracker.completed.len() - before > done).then_some(())
            });
        };
        self.rm.wait("the end of all containers", |tracker| {
            (tracker.completed.len() - before == started).then_some(())
        });
        rate
    }

    /// Fills the node with running containers and its queue with others, all known at once.
    fn fill(&self) {
        let running = u64::try_from(RUNNING).expect("a small number");
        let large = || self.am.allocate().memory_mb(NODE_MB / running);
        let requests: Vec<_> = (0..RUNNING)
            .map(|_| (large(), LaunchContext::command("exec sleep 6000")))
            .collect();
        let ids: Vec<ContainerId> = requests
            .iter()
            .map(|(allocation, _)| allocation.id)
            .collect();
        let started = self.am.start_all(requests);
        started.unwrap_or_else(|refusal| panic!("{refusal}"));
        for id in ids {
            self.rm
                .wait_sub_state(id, ContainerSubStateProto::CssRunning);
        }
        for _ in 0..(KNOWN - RUNNING) / BATCH {
            let requests = (0..BATCH)
                .map(|_| {
                    let allocation = self.allocate().opportunistic();
                    (allocation, LaunchContext::command(":"))
                })
                .collect();
            let started = self.am.start_all(requests);
            started.unwrap_or_else(|refusal| panic!("{refusal}"));
        }
        self.rm.wait("1,000 known containers", |tracker| {
            let last = tracker.heartbeats.back()?;
            (last.containers_statuses.len() == KNOWN).then_some(())
        });
        self.rm.wait_heartbeats(SETTLED_HEARTBEATS);
    }
}

/// Returns the present time since 1970.
pub(crate) fn now() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("the clock is after 1970")
}

/// Returns the time from `begin` to bash's `EPOCHREALTIME` when the command wrote it to `file`,
/// which is removed.
pub(crate) fn first_instruction(file: &Path, begin: Duration) -> Duration {
    let text = fs::read_to_string(file)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
    // Written with six digits behind the point.
    let micros = text.trim().replace(['.', ','], "").parse();
    let at = Duration::from_micros(micros.unwrap_or_else(|error| panic!("{text:?}: {error}")));
    fs::remove_file(file)
        .unwrap_or_else(|error| panic!("cannot remove {}: {error}", file.display()));
    at.saturating_sub(begin)
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
