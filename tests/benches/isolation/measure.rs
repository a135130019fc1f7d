//! The measurements of one node: jobs alone and beside a load that takes all that is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use test_support::scripted::{Completed, ScriptedAm, ScriptedRm};
use test_support::{Allocation, LaunchContext};
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::wait;

use crate::executor_groups::ExecutorGroups;
use crate::work::{Report, Work, threads};

/// Memory that the node offers, in MiB.
const NODE_MB: usize = 4096;

/// Memory of a job, in MiB.
const JOB_MB: usize = 1024;

/// Memory of a container that burns CPU time, in MiB.
const BURNER_MB: usize = 64;

/// Number of containers that use up the memory that is left.
const EATERS: usize = 4;

/// Part of a container's memory that the program, its shell and the kernel take, in MiB.
const OVERHEAD_MB: usize = 24;

/// Deadline for a load to reach full strength, on processors that belong to others.
const READY_DEADLINE: Duration = Duration::from_secs(120);

/// Most that the speeds of a job before and after the load may differ from each other, in percent:
/// with more, the machine was busy with something else.
const IDLE_TOLERANCE_PERCENT: f64 = 2.0;

/// Duration and number of the measurements, the same for all nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    seconds: u64,
    /// Rounds that count.
    rounds: usize,
    /// Rounds at most, with those that do not count.
    rounds_max: usize,
}

impl Effort {
    pub(crate) fn new(quick: bool) -> Self {
        Self {
            seconds: if quick { 1 } else { 5 },
            rounds: if quick { 1 } else { 2 },
            rounds_max: if quick { 2 } else { 4 },
        }
    }
}

/// A job's rates in one round: alone, beside the load, alone again. Whatever the order does to a
/// rate is then on both sides.
struct Round {
    alone: [Report; 2],
    loaded: Report,
}

impl Round {
    /// Returns the rate of the second run without load, in percent of the first.
    fn idle_percent(&self) -> f64 {
        let [before, after] = self.alone;
        100.0 * after.per_s / before.per_s
    }

    fn distance(&self) -> f64 {
        (self.idle_percent() - 100.0).abs()
    }
}

/// Rates of one job, means over all rounds that count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    /// Rate per second, with the node to itself.
    pub(crate) alone: f64,
    /// Rate per second, beside the load.
    pub(crate) loaded: f64,
    /// Least part of the job's memory that was resident beside the load, in percent.
    pub(crate) resident_percent: f64,
    /// Pages that the job waited for a disk for, beside the load.
    pub(crate) major_faults: u64,
    /// Second rate without load of a round in percent of its first: the value farthest from 100
    /// among the rounds that count.
    pub(crate) idle_percent: f64,
    /// Number of rounds that were made.
    pub(crate) rounds: usize,
}

impl Kept {
    /// Computes the means over the `count` rounds in which the machine was the quietest.
    fn of(mut rounds: Vec<Round>, count: usize) -> Self {
        let made = rounds.len();
        rounds.sort_by(|one, other| one.distance().total_cmp(&other.distance()));
        rounds.truncate(count);
        let loaded = || rounds.iter().map(|round| round.loaded);
        let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
        let alone = rounds.iter().flat_map(|round| round.alone);
        Self {
            alone: mean(&alone.map(|report| report.per_s).collect::<Vec<_>>()),
            loaded: mean(&loaded().map(|report| report.per_s).collect::<Vec<_>>()),
            resident_percent: loaded()
                .map(|report| report.resident_percent)
                .fold(100.0, f64::min),
            major_faults: loaded().map(|report| report.major_faults).sum(),
            idle_percent: rounds.last().map_or(100.0, Round::idle_percent),
            rounds: made,
        }
    }

    /// Returns the part of the rate that the load left, in percent.
    pub(crate) fn percent(self) -> f64 {
        100.0 * self.loaded / self.alone
    }

    /// Returns whether a round counts in which the machine was busy, for want of better ones.
    pub(crate) fn gave_up(self) -> bool {
        (self.idle_percent - 100.0).abs() > IDLE_TOLERANCE_PERCENT
    }
}

/// Confinement of a node's containers.
pub(crate) enum Confinement<'a> {
    /// The node's own business.
    ByNode,
    /// By this bench, as Hadoop's LinuxContainerExecutor does it.
    ByBench(&'a ExecutorGroups),
}

/// Figures of one node.
pub(crate) struct Figures {
    /// Job that computes, with a thread for each processor.
    pub(crate) compute: Kept,
    /// Job that uses all its memory, with as many threads.
    pub(crate) fill: Kept,
    /// Opportunistic containers of the load.
    pub(crate) load: usize,
}

impl Figures {
    pub(crate) fn measure(
        kind: &NodeKind,
        effort: Effort,
        confinement: &Confinement<'_>,
        change: impl FnOnce(&mut Properties),
    ) -> Self {
        let rm = ScriptedRm::start();
        rm.with(|tracker| tracker.acknowledge_all = true);
        let node = NodeProcess::start(kind, &rm, |site| {
            site.set("yarn.nodemanager.resource.memory-mb", NODE_MB);
            change(site);
        });
        let am = ScriptedAm::connect(&rm, 1);
        let bench = Bench {
            rm: &rm,
            am: &am,
            folder: node.folder().to_path_buf(),
            confinement,
        };
        let seconds = effort.seconds;
        let mib = JOB_MB - OVERHEAD_MB;
        Self {
            compute: bench.kept(Work::Compute { seconds }, effort),
            fill: bench.kept(Work::Fill { seconds, mib }, effort),
            load: loads().len(),
        }
    }
}

/// Containers that fill the node beside a job: the work of each and its size, MiB.
fn loads() -> Vec<(Work, usize)> {
    // Twice as many as are needed.
    let burners = 2 * threads();
    let eater_mb = (NODE_MB - JOB_MB - burners * BURNER_MB) / EATERS;
    let mib = eater_mb - OVERHEAD_MB;
    let burners = (0..burners).map(|_| (Work::Burn, BURNER_MB));
    let eaters = (0..EATERS).map(|_| (Work::Eat { mib }, eater_mb));
    burners.chain(eaters).collect()
}

struct Bench<'a> {
    rm: &'a ScriptedRm,
    am: &'a ScriptedAm,
    folder: PathBuf,
    confinement: &'a Confinement<'a>,
}

impl Bench<'_> {
    /// Makes rounds until enough of them found the machine quiet, or there were too many.
    fn kept(&self, job: Work, effort: Effort) -> Kept {
        let mut rounds: Vec<Round> = Vec::new();
        let is_quiet = |round: &&Round| round.distance() <= IDLE_TOLERANCE_PERCENT;
        while rounds.len() < effort.rounds_max
            && rounds.iter().filter(is_quiet).count() < effort.rounds
        {
            let before = self.run(job);
            let load = self.start_load();
            let loaded = self.run(job);
            self.end_load(&load);
            let after = self.run(job);
            rounds.push(Round {
                alone: [before, after],
                loaded,
            });
        }
        Kept::of(rounds, effort.rounds)
    }

    fn context(&self, allocation: &Allocation, work: Work, file: &Path) -> LaunchContext {
        let program = std::env::current_exe().expect("this program has a path");
        let arguments = work.arguments(file);
        let enter = match self.confinement {
            Confinement::ByNode => String::new(),
            Confinement::ByBench(groups) => groups.confine(allocation),
        };
        LaunchContext::command(&format!("{enter}exec '{}' {arguments}", program.display()))
    }

    /// Waits for a container's end, and removes its cgroups if they are this bench's.
    fn ended(&self, allocation: &Allocation) -> Completed {
        let completed = self.rm.wait_completed(allocation.id);
        match self.confinement {
            Confinement::ByNode => {}
            Confinement::ByBench(groups) => groups.remove(allocation),
        }
        completed
    }

    /// Runs a job to its end, which must be a success.
    fn run(&self, job: Work) -> Report {
        let file = self.folder.join("report");
        let memory_mb = u64::try_from(JOB_MB).expect("a small number");
        let allocation = self.am.allocate().memory_mb(memory_mb);
        let context = self.context(&allocation, job, &file);
        let started = self.am.try_start(&allocation, context);
        started.unwrap_or_else(|refusal| panic!("{refusal}"));
        let completed = self.ended(&allocation);
        assert_eq!(completed.exit_status, 0, "{completed:?}");
        let report = Report::read(&file);
        fs::remove_file(&file).expect("the file was there right now");
        report
    }

    fn start_load(&self) -> Vec<Allocation> {
        let (files, requests): (Vec<PathBuf>, Vec<_>) = loads()
            .into_iter()
            .enumerate()
            .map(|(number, (work, memory_mb))| {
                let file = self.folder.join(format!("ready-{number}"));
                let memory_mb = u64::try_from(memory_mb).expect("a small number");
                let allocation = self.am.allocate().memory_mb(memory_mb).opportunistic();
                let context = self.context(&allocation, work, &file);
                (file, (allocation, context))
            })
            .unzip();
        let load = requests.iter().map(|(allocation, _)| allocation.clone());
        let load: Vec<Allocation> = load.collect();
        let started = self.am.start_all(requests);
        started.unwrap_or_else(|refusal| panic!("{refusal}"));
        for file in files {
            wait::until(file.display(), READY_DEADLINE, || {
                wait::check(file.exists(), "not there")
            });
            fs::remove_file(&file).expect("the file was there right now");
        }
        load
    }

    /// Asserts that no container of the load ended early: then the load was too small.
    fn end_load(&self, load: &[Allocation]) {
        for allocation in load {
            let id = allocation.id;
            let completed = self.rm.with(|tracker| tracker.completed.get(&id).cloned());
            assert!(completed.is_none(), "{id} ended: {completed:?}");
            self.rm.order_kill(id);
        }
        for allocation in load {
            let _ = self.ended(allocation);
        }
    }
}
