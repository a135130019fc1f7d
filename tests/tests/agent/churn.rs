//! Churn of containers on one agent for long: starts of both types, ends, kills, sheds, and kills
//! of the agent itself with containers that live on. What the agent has from the machine is sampled
//! and plotted, and must not grow.
//!
//! `NM_AGENT_CHURN_S` is the length in seconds, 3,600 by default, and `NM_AGENT_CHURN_PLOT` the
//! file of the picture (SVG). Used tokens stay known for eleven minutes after the ends of their
//! containers, so a run of much less than an hour cannot show a flat store. Run it with
//! `cargo test --release -p tests --test agent churn -- --ignored --nocapture`.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::process::Process;
use records::{ContainerId, ExecutionType};
use sim::plot::{Series, svg};
use test_support::LaunchContext;
use test_support::scripted::ScriptedAm;
use tests::cgroups::Hierarchy;
use tests::ports::Port;
use tests::scripted_cluster::ScriptedCluster;
use tests::{proc, wait};

use crate::AGENT;

/// Length when nothing else is asked for.
const LENGTH: Duration = Duration::from_secs(3_600);

/// Number of samples of a run.
const SAMPLES: u32 = 360;

/// Number of times that the agent is killed in a run.
const RESTARTS: u32 = 12;

/// Containers that are started in one call.
const BATCH: usize = 16;

/// Rounds of one application. Logs stay until it is over, and for half a minute.
const APPLICATION_ROUNDS: u64 = 10;

/// Rounds between two times of a short queue.
const SHED_EVERY: u64 = 5;

/// Deadline for the ends of a batch, and for a start of the agent.
const DEADLINE: Duration = Duration::from_secs(60);

/// Growth from the second to the last quarter that is accepted, in percent.
const GROWTH_PERCENT: f64 = 10.0;

/// Quantities, and the growth of each that is accepted besides: allocators and stores grow in
/// steps, and a sample may meet a batch at its peak.
const QUANTITIES: [(&str, f64); 6] = [
    ("resident memory, KiB", 2_048.0),
    ("descriptors", 8.0),
    ("threads", 8.0),
    ("cgroups of containers", 8.0),
    ("files of the recovery, KiB", 1_024.0),
    ("files in local and log directories", 64.0),
];

/// A node in churn.
struct Churn {
    cluster: ScriptedCluster,
    hierarchy: Option<Hierarchy>,
    series: Vec<Series>,
    started: u64,
    registrations: usize,
}

#[test]
#[ignore = "takes an hour; run by name"]
fn nothing_grows_in_an_hour_of_churn() {
    let length = std::env::var("NM_AGENT_CHURN_S").ok();
    let length = length.map_or(LENGTH, |text| Duration::from_secs(text.parse().unwrap()));
    let mut churn = Churn::start();
    let began = Instant::now();
    let (mut samples, mut restarts) = (0, 0);
    let mut round = 0;
    while began.elapsed() < length {
        churn.round(round);
        round += 1;
        if began.elapsed() >= length * (restarts + 1) / (RESTARTS + 1) {
            churn.restart();
            restarts += 1;
        }
        if began.elapsed() >= length * samples / SAMPLES {
            churn.sample();
            samples += 1;
        }
    }
    churn.report(length, restarts);
}

impl Churn {
    fn start() -> Self {
        let hierarchy = Hierarchy::new().ok();
        let port = Port::reserve().release();
        let cluster = ScriptedCluster::start_with(AGENT, |site| {
            site.set("yarn.nodemanager.recovery.enabled", true)
                .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"))
                .set("yarn.nodemanager.delete.debug-delay-sec", 0)
                .set("yarn.nodemanager.log.retain-seconds", 30)
                .set(
                    "yarn.nodemanager.duration-to-track-stopped-containers",
                    30_000,
                );
            if let Some(hierarchy) = &hierarchy {
                hierarchy.configure(site);
            }
        });
        cluster.rm.with(|tracker| tracker.acknowledge_all = true);
        let series = QUANTITIES.map(|(name, _)| Series::new(name)).into();
        Self {
            cluster,
            hierarchy,
            series,
            started: 0,
            registrations: 1,
        }
    }

    /// Ends the present application and begins the next.
    fn next_application(&mut self) {
        let id = self.cluster.am.attempt().application_id;
        let over = id.into();
        let rm = &self.cluster.rm;
        rm.order(|orders| orders.applications_to_cleanup.push(over));
        self.cluster.am = ScriptedAm::connect(rm, id.id + 1);
    }

    /// Starts a batch: half are opportunistic, some are stopped by their master, some killed by the
    /// ResourceManager, some shed; waits until all have ended.
    fn round(&mut self, round: u64) {
        if round % APPLICATION_ROUNDS == APPLICATION_ROUNDS - 1 {
            self.next_application();
        }
        let is_short = round % SHED_EVERY == SHED_EVERY - 1;
        let rm = &self.cluster.rm;
        rm.order_queuing_limit(if is_short { 2 } else { 20 });
        let ids = self.start_batch("exec sleep 0.1");
        for (number, id) in ids.iter().enumerate() {
            match number {
                // One that has ended or was shed is stopped for nothing.
                1 | 2 => drop(self.cluster.am.stop(*id)),
                3 | 4 => self.cluster.rm.order_kill(*id),
                _ => {}
            }
        }
        self.wait_ended(&ids);
    }

    fn start_batch(&mut self, command: &str) -> Vec<ContainerId> {
        let batch: Vec<_> = (0..BATCH)
            .map(|number| {
                let mut allocation = self.cluster.am.allocate();
                if number % 2 == 0 {
                    allocation.execution_type = ExecutionType::Opportunistic;
                }
                // Used tokens stay known for as long as they could be used again.
                allocation.expires_ms = test_support::now_ms() + 60_000;
                (allocation, LaunchContext::command(command))
            })
            .collect();
        let ids = batch.iter().map(|(allocation, _)| allocation.id).collect();
        self.started += BATCH as u64;
        // Those that find the queue full are accepted and end at once.
        self.cluster.am.start_all(batch).unwrap();
        ids
    }

    fn wait_ended(&self, ids: &[ContainerId]) {
        wait::until("the ends of a batch", DEADLINE, || {
            let left = self.cluster.rm.with(|tracker| {
                let left = ids.iter().filter(|id| !tracker.completed.contains_key(id));
                left.count()
            });
            wait::check(left == 0, left)
        });
        // The ResourceManager of the test would grow in place of the agent.
        self.cluster.rm.with(|tracker| tracker.completed.clear());
    }

    /// Kills the agent while containers run and wait, and starts it again.
    fn restart(&mut self) {
        let ids = self.start_batch("exec sleep 1");
        self.cluster.node.process.kill();
        self.cluster.node.start_agent_again(Path::new(AGENT));
        self.registrations += 1;
        self.cluster.rm.wait_registrations(self.registrations);
        self.cluster.am.reconnect(&self.cluster.rm).unwrap();
        self.wait_ended(&ids);
    }

    fn sample(&mut self) {
        let process = proc::agent_below(self.cluster.node.process.id());
        let process = Process::new(process.cast_signed()).unwrap();
        let status = process.status().unwrap();
        let folder = self.cluster.node.folder();
        let (files, _) = contents(&[self.cluster.node.local_dir(), self.cluster.node.log_dir()]);
        let (_, store_bytes) = contents(&[folder.join("recovery")]);
        let cgroups = self.hierarchy.as_ref().map(Hierarchy::container_count);
        let values = [
            status.vmrss.unwrap(),
            process.fd_count().unwrap() as u64,
            status.threads,
            cgroups.unwrap_or(0) as u64,
            store_bytes / 1_024,
            files,
        ];
        for (series, value) in self.series.iter_mut().zip(values) {
            series.values.push(value as f64);
        }
    }

    /// Prints and plots what was sampled, and asserts that nothing grew.
    fn report(&self, length: Duration, restarts: u32) {
        let started = self.started;
        let seconds = length.as_secs();
        let cgroups = if self.hierarchy.is_some() {
            "with"
        } else {
            "without"
        };
        let title = format!(
            "Churn: {started} containers, {restarts} kills of the agent in {seconds} s, {cgroups} cgroups"
        );
        println!("{title}");
        for series in &self.series {
            let (name, (second, last)) = (series.name, series.quarters());
            println!("{name:<36} second quarter {second:>10.1}, last quarter {last:>10.1}");
        }
        if let Ok(file) = std::env::var("NM_AGENT_CHURN_PLOT") {
            let every = length.as_secs_f64() / f64::from(SAMPLES);
            fs::write(file, svg(&title, "s", every, &self.series)).unwrap();
        }
        for (series, (_, slack)) in self.series.iter().zip(QUANTITIES) {
            assert!(
                series.is_flat(GROWTH_PERCENT, slack),
                "{} grows",
                series.name
            );
        }
    }
}

/// Returns the number of files below these folders, and their bytes.
fn contents(folders: &[PathBuf]) -> (u64, u64) {
    let (mut files, mut bytes) = (0, 0);
    let mut open: Vec<PathBuf> = folders.to_vec();
    while let Some(folder) = open.pop() {
        // What is deleted meanwhile does not count.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => open.push(entry.path()),
                Ok(metadata) => {
                    files += 1;
                    bytes += metadata.len();
                }
                Err(_) => {}
            }
        }
    }
    (files, bytes)
}
