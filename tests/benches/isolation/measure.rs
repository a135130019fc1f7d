//! The measurements of one node: jobs alone and beside a load that takes all that is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use records::ContainerId;
use test_support::LaunchContext;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::wait;

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

/// Duration and number of the measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) seconds: u64,
    pub(crate) rounds: usize,
}

/// Rates of one job, means over all rounds, which alternate.
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
}

impl Kept {
    /// Returns the part of the rate that the load left, in percent.
    pub(crate) fn percent(self) -> f64 {
        100.0 * self.loaded / self.alone
    }
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
        };
        let seconds = effort.seconds;
        let mib = JOB_MB - OVERHEAD_MB;
        Self {
            compute: bench.kept(Work::Compute { seconds }, effort.rounds),
            fill: bench.kept(Work::Fill { seconds, mib }, effort.rounds),
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
}

impl Bench<'_> {
    fn kept(&self, job: Work, rounds: usize) -> Kept {
        let (mut alone, mut loaded) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            alone.push(self.run(job));
            let load = self.start_load();
            loaded.push(self.run(job));
            self.end_load(&load);
        }
        let mean = |reports: &[Report]| {
            let sum: f64 = reports.iter().map(|report| report.per_s).sum();
            sum / reports.len() as f64
        };
        Kept {
            alone: mean(&alone),
            loaded: mean(&loaded),
            resident_percent: loaded
                .iter()
                .map(|report| report.resident_percent)
                .fold(100.0, f64::min),
            major_faults: loaded.iter().map(|report| report.major_faults).sum(),
        }
    }

    fn context(work: Work, file: &Path) -> LaunchContext {
        let program = std::env::current_exe().expect("this program has a path");
        let arguments = work.arguments(file);
        LaunchContext::command(&format!("exec '{}' {arguments}", program.display()))
    }

    /// Runs a job to its end, which must be a success.
    fn run(&self, job: Work) -> Report {
        let file = self.folder.join("report");
        let memory_mb = u64::try_from(JOB_MB).expect("a small number");
        let allocation = self.am.allocate().memory_mb(memory_mb);
        let started = self.am.try_start(&allocation, Self::context(job, &file));
        let id = started.unwrap_or_else(|refusal| panic!("{refusal}"));
        let completed = self.rm.wait_completed(id);
        assert_eq!(completed.exit_status, 0, "{completed:?}");
        let report = Report::read(&file);
        fs::remove_file(&file).expect("the file was there right now");
        report
    }

    fn start_load(&self) -> Vec<ContainerId> {
        let (files, requests): (Vec<PathBuf>, Vec<_>) = loads()
            .into_iter()
            .enumerate()
            .map(|(number, (work, memory_mb))| {
                let file = self.folder.join(format!("ready-{number}"));
                let memory_mb = u64::try_from(memory_mb).expect("a small number");
                let allocation = self.am.allocate().memory_mb(memory_mb).opportunistic();
                let context = Self::context(work, &file);
                (file, (allocation, context))
            })
            .unzip();
        let ids = requests.iter().map(|(allocation, _)| allocation.id);
        let ids: Vec<ContainerId> = ids.collect();
        let started = self.am.start_all(requests);
        started.unwrap_or_else(|refusal| panic!("{refusal}"));
        for file in files {
            wait::until(file.display(), READY_DEADLINE, || {
                wait::check(file.exists(), "not there")
            });
            fs::remove_file(&file).expect("the file was there right now");
        }
        ids
    }

    /// Asserts that no container of the load ended early: then the load was too small.
    fn end_load(&self, load: &[ContainerId]) {
        for id in load {
            let completed = self.rm.with(|tracker| tracker.completed.get(id).cloned());
            assert!(completed.is_none(), "{id} ended: {completed:?}");
            self.rm.order_kill(*id);
        }
        for id in load {
            let _ = self.rm.wait_completed(*id);
        }
    }
}
