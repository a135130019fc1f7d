//! Localization of containers whose files the node has.
//!
//! The time of a localization begins when the node orders it, after it has read the call and
//! admitted the container, and ends when all files are there. The agent reports it in microseconds
//! among its metrics, Hadoop's NodeManager in whole milliseconds in each container's environment.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use test_support::LaunchContext;
use tests::bench::{Row, Table, Unit};
use tests::http;
use tests::node::NodeKind;
use tests::samples::Samples;
use tests::scripted_cluster::ScriptedCluster;

use crate::AGENT;

/// Files of each container: those of a MapReduce task are its job's jar, configuration and splits.
const FILES: usize = 5;

/// Containers that are started by one call.
const BATCHES: [usize; 2] = [1, 20];

/// Samples of the machine's limit.
const LIMITS: usize = 1000;

/// Writes down what the localization of a container cost.
const COMMAND: &str = "echo $LOCALIZATION_COUNTERS > <LOG_DIR>/counters";

/// Starts containers of one application, after one for which its files are fetched, on the agent
/// and, if `java`, on Hadoop's NodeManager. Adds the mean times of their localization.
pub(crate) fn measure(table: &mut Table, quick: bool, java: bool) {
    let (containers, of_java) = if quick { (100, 20) } else { (1000, 200) };
    println!("localizing {containers} containers whose files are cached");
    let agent = ScriptedCluster::start_kind(&NodeKind::Agent(AGENT.into()), size);
    let agent = Cached::prepare(agent);
    let limit = limit(&agent.files);
    let ours = BATCHES.map(|batch| agent.mean_ms(containers, batch));
    drop(agent);
    let theirs = java.then(|| {
        let java = Cached::prepare(ScriptedCluster::start_kind(&NodeKind::MeasuredJava, size));
        BATCHES.map(|batch| java.mean_whole_ms(of_java, batch))
    });
    for (number, batch) in BATCHES.into_iter().enumerate() {
        let what = format!(
            "localization of a container with {FILES} cached files, {batch} in a call, \
             mean of {containers}"
        );
        let row = Row::new(what, Unit::Ms, ours[number]).limit(limit);
        table.push(row.java(theirs.map(|theirs| theirs[number])));
    }
}

/// Makes the node large enough for a batch.
fn size(site: &mut tests::conf::Properties) {
    site.set("yarn.nodemanager.resource.memory-mb", 64_000);
}

/// Returns what the machine takes to ask another thread for the status of as many files and to get
/// the answer: median, in milliseconds.
fn limit(files: &[PathBuf]) -> f64 {
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answered) = mpsc::channel();
    let answering = thread::scope(|scope| {
        scope.spawn(move || {
            for () in asked {
                let found = files.iter().filter(|file| fs::metadata(file).is_ok());
                if answer.send(found.count()).is_err() {
                    return;
                }
            }
        });
        let once = |_| {
            let begin = Instant::now();
            ask.send(()).expect("the other thread waits");
            let found = answered.recv().expect("the other thread answers");
            assert_eq!(found, files.len());
            begin.elapsed()
        };
        let samples: Vec<Duration> = (0..LIMITS).map(once).collect();
        drop(ask);
        samples
    });
    answering.into_iter().collect::<Samples>().p50()
}

/// A node that has the files of an application.
struct Cached {
    cluster: ScriptedCluster,
    context: LaunchContext,
    files: Vec<PathBuf>,
}

impl Cached {
    fn prepare(cluster: ScriptedCluster) -> Self {
        let file = |number| {
            let file = cluster.node.folder().join(format!("resource-{number}"));
            fs::write(&file, "resource").expect("the folder of the bench can be written to");
            file
        };
        let files: Vec<PathBuf> = (0..FILES).map(file).collect();
        let context = LaunchContext::command(COMMAND);
        let named = files.iter().enumerate();
        let context = named.fold(context, |context, (number, file)| {
            context.file(&format!("link-{number}"), file)
        });
        let cached = Self {
            cluster,
            context,
            files,
        };
        cached.run(1);
        cached
    }

    /// Starts containers in one call, waits for their ends, and returns what each wrote down.
    fn run(&self, count: usize) -> Vec<String> {
        let allocate = || self.cluster.am.allocate().memory_mb(16);
        let requests: Vec<_> = (0..count)
            .map(|_| (allocate(), self.context.clone()))
            .collect();
        let ids: Vec<_> = requests
            .iter()
            .map(|(allocation, _)| allocation.id)
            .collect();
        let started = self.cluster.am.start_all(requests);
        started.unwrap_or_else(|refusal| panic!("{refusal}"));
        let end = |id| {
            let completed = self.cluster.rm.wait_completed(id);
            assert_eq!(completed.exit_status, 0, "{completed:?}");
            self.cluster.log(id, "counters")
        };
        ids.into_iter().map(end).collect()
    }

    /// Returns the agent's mean in milliseconds.
    fn mean_ms(&self, containers: usize, batch: usize) -> f64 {
        let (sum, count) = localizations(&self.cluster);
        for _ in 0..containers / batch {
            self.run(batch);
        }
        let (sum_after, count_after) = localizations(&self.cluster);
        (sum_after - sum) * 1000.0 / (count_after - count)
    }

    /// Returns the mean of what the node tells containers in whole milliseconds.
    fn mean_whole_ms(&self, containers: usize, batch: usize) -> f64 {
        let written = (0..containers / batch).flat_map(|_| self.run(batch));
        let times = written.map(|counters| {
            let total_ms = counters.trim().rsplit(',').next();
            let total_ms = total_ms.and_then(|total_ms| total_ms.parse().ok());
            total_ms.unwrap_or_else(|| panic!("{counters:?} are no counters"))
        });
        let times: Vec<f64> = times.collect();
        times.iter().sum::<f64>() / times.len() as f64
    }
}

/// Returns the agent's sum of the times, in seconds, and their count.
fn localizations(cluster: &ScriptedCluster) -> (f64, f64) {
    let port = cluster.rm.wait_registrations(1).http_port();
    let answer = http::get(&format!("http://127.0.0.1:{port}/metrics"));
    let text = answer.unwrap_or_else(|error| panic!("{error}")).body;
    let series = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|value| value.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {name}"))
    };
    (
        series("nm_agent_localization_seconds_sum "),
        series("nm_agent_localization_seconds_count "),
    )
}
