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

/// Time after which a node has to look at its files anew, whatever it remembers.
const PAUSE: Duration = Duration::from_millis(1500);

/// Samples of the machine's limit.
const LIMITS: usize = 1000;

/// Writes down what the localization of a container cost.
const COMMAND: &str = "echo $LOCALIZATION_COUNTERS > <LOG_DIR>/counters";

/// Calls that start containers, one after the other.
struct Calls {
    /// Containers in a call.
    batch: usize,
    /// Number of calls.
    count: usize,
    /// Whether the node has nothing to do before each.
    paused: bool,
}

impl Calls {
    /// Returns the calls that start so many containers of either kind, and some after a pause.
    fn all(containers: usize) -> [Self; 5] {
        let calls = |batch, count, paused| Self {
            batch,
            count,
            paused,
        };
        let of_pause = containers.div_ceil(50);
        [
            calls(1, containers, false),
            calls(20, containers / 20, false),
            calls(100, containers / 100, false),
            calls(1, of_pause, true),
            calls(20, of_pause, true),
        ]
    }

    fn text(&self) -> String {
        let after = if self.paused { ", after a pause" } else { "" };
        format!("{} in a call{after}", self.batch)
    }
}

/// Starts containers of one application, after one for which its files are fetched, on the agent
/// and, if `java`, on Hadoop's NodeManager. Adds the times of their localization.
pub(crate) fn measure(table: &mut Table, quick: bool, java: bool) {
    let (containers, of_java) = if quick { (200, 100) } else { (1000, 200) };
    println!("localizing {containers} containers whose files are cached, each way");
    let agent = ScriptedCluster::start_kind(&NodeKind::Agent(AGENT.into()), size);
    let agent = Cached::prepare(agent);
    let limit = limit(&agent.files);
    let ours = Calls::all(containers).map(|calls| {
        let times = agent.times(&calls);
        let what = format!("localization of a container with {FILES} cached files");
        let row = format!("{what}, {}, mean of a call", calls.text());
        let (within, all) = times.within_a_millisecond;
        println!(
            "{}: {within:.0} of {all:.0} within a millisecond",
            calls.text()
        );
        (row, times.means)
    });
    drop(agent);
    let theirs = java.then(|| {
        let java = Cached::prepare(ScriptedCluster::start_kind(&NodeKind::MeasuredJava, size));
        Calls::all(of_java).map(|calls| java.times_in_whole_ms(&calls))
    });
    for (number, (what, means)) in ours.iter().enumerate() {
        let row = Row::new(what.clone(), Unit::Ms, means).limit(&limit);
        table.push(row.java(theirs.as_ref().map(|theirs| &theirs[number])));
    }
}

/// Makes the node large enough for a batch.
fn size(site: &mut tests::conf::Properties) {
    site.set("yarn.nodemanager.resource.memory-mb", 64_000);
}

/// Returns what the machine takes to ask another thread for the status of as many files and to get
/// the answer.
fn limit(files: &[PathBuf]) -> Samples {
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
    answering.into_iter().collect()
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

    /// Returns the agent's times.
    fn times(&self, calls: &Calls) -> Times {
        let mut means = Vec::with_capacity(calls.count);
        let begin = Localized::read(&self.cluster);
        let mut before = begin;
        for _ in 0..calls.count {
            self.call(calls);
            let after = Localized::read(&self.cluster);
            let (seconds, count) = (after.seconds - before.seconds, after.count - before.count);
            means.push(seconds * 1000.0 / count);
            before = after;
        }
        Times {
            means: means.into_iter().collect(),
            within_a_millisecond: (before.within - begin.within, before.count - begin.count),
        }
    }

    /// Returns the means of what the node tells containers in whole milliseconds.
    fn times_in_whole_ms(&self, calls: &Calls) -> Samples {
        let mean = |_| {
            let written = self.call(calls);
            let times = written.iter().map(|counters| {
                let total_ms = counters.trim().rsplit(',').next();
                let total_ms = total_ms.and_then(|total_ms| total_ms.parse::<f64>().ok());
                total_ms.unwrap_or_else(|| panic!("{counters:?} are no counters"))
            });
            times.sum::<f64>() / calls.batch as f64
        };
        (0..calls.count).map(mean).collect()
    }

    fn call(&self, calls: &Calls) -> Vec<String> {
        if calls.paused {
            thread::sleep(PAUSE);
        }
        self.run(calls.batch)
    }
}

/// Times of localizations by the agent.
struct Times {
    /// Mean of each call, in milliseconds.
    means: Samples,
    /// Number of containers whose localization took a millisecond at most, and of all.
    within_a_millisecond: (f64, f64),
}

/// What the agent has counted so far.
#[derive(Clone, Copy)]
struct Localized {
    seconds: f64,
    count: f64,
    /// Number of those that took a millisecond at most.
    within: f64,
}

impl Localized {
    fn read(cluster: &ScriptedCluster) -> Self {
        let port = cluster.rm.wait_registrations(1).http_port();
        let answer = http::get(&format!("http://127.0.0.1:{port}/metrics"));
        let text = answer.unwrap_or_else(|error| panic!("{error}")).body;
        let series = |name: &str| {
            let name = format!("nm_agent_localization_seconds_{name} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&name));
            let value = line.and_then(|value| value.trim().parse().ok());
            value.unwrap_or_else(|| panic!("no {name}"))
        };
        Self {
            seconds: series("sum"),
            count: series("count"),
            within: series("bucket{le=\"0.001\"}"),
        }
    }
}
