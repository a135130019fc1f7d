//! Jobs that the real nodes and the simulated ones run.

use job_trace::{Stage, Tasks, TraceJob};
use sim::Streams;
use simulate::scenario::Scenario;

use crate::{LENGTHS_S, PLACES};

/// Seed of the heavy jobs.
const HEAVY_SEED: u64 = 1;

/// Job of `nm-agent shell`.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// When it is submitted, after the first one.
    pub(crate) submit_ms: u64,
    /// Lengths of its tasks, in the order in which they start.
    pub(crate) lengths_ms: Vec<u64>,
}

/// Jobs in the order of their submission.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) jobs: Vec<Job>,
}

impl Workload {
    /// Most jobs of a workload.
    pub(crate) const JOBS_MAX: u32 = 24;

    /// Returns a workload of one job, whose tasks have these lengths.
    pub(crate) fn one(lengths_ms: Vec<u64>) -> Self {
        Self::at_once(vec![lengths_ms])
    }

    /// Jobs of so many tasks each, whose lengths are [`LENGTHS_S`] by turns, submitted at once.
    pub(crate) fn even(jobs: usize, tasks: usize) -> Self {
        Self::at_once(vec![Self::by_turns(tasks); jobs])
    }

    fn at_once(jobs: Vec<Vec<u64>>) -> Self {
        let jobs = jobs.into_iter().map(|lengths_ms| Job {
            submit_ms: 0,
            lengths_ms,
        });
        Self {
            jobs: jobs.collect(),
        }
    }

    fn by_turns(tasks: usize) -> Vec<u64> {
        let lengths_s = LENGTHS_S.iter().cycle().take(tasks);
        lengths_s
            .map(|length_s| u64::from(*length_s) * 1_000)
            .collect()
    }

    /// Jobs of the simulation's workload `heavy`, that arrive at a load of 0.8 on so many nodes.
    pub(crate) fn heavy(jobs: u32, nodes: u32) -> Self {
        let text = format!(
            "title = \"heavy\"\n\
             cluster = {{ nodes = {nodes}, places = {PLACES} }}\n\
             workload = {{ jobs = \"heavy\", count = {jobs}, load = 0.8 }}\n\
             run = {{ seeds = 1 }}\n\
             arm = [{{ policy = \"look\" }}]\n"
        );
        let scenario = Scenario::read(&text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
        let capacity = f64::from(nodes * PLACES);
        let jobs = scenario.workload.jobs(Streams::new(HEAVY_SEED), capacity);
        let first_ms = jobs.first().map_or(0, |job| job.arrives_ms);
        let jobs = jobs.into_iter().map(|job| Job {
            submit_ms: job.arrives_ms - first_ms,
            lengths_ms: job.task_ms,
        });
        Self {
            jobs: jobs.collect(),
        }
    }

    pub(crate) fn tasks(&self) -> usize {
        self.jobs.iter().map(|job| job.lengths_ms.len()).sum()
    }

    /// Returns the tasks of the largest job.
    pub(crate) fn largest(&self) -> usize {
        let tasks = self.jobs.iter().map(|job| job.lengths_ms.len());
        tasks.max().unwrap_or(0)
    }

    /// Returns when the last job is submitted.
    pub(crate) fn last_ms(&self) -> u64 {
        self.jobs.last().map_or(0, |job| job.submit_ms)
    }

    pub(crate) fn is_at_once(&self) -> bool {
        self.last_ms() == 0
    }

    /// Returns the jobs as the simulation reads them.
    pub(crate) fn trace(&self) -> impl Iterator<Item = TraceJob> {
        self.jobs.iter().zip(1..).map(|(job, number): (&Job, u32)| {
            let lengths_ms = job.lengths_ms.iter();
            TraceJob {
                id: format!("job_{number}"),
                submit_ms: job.submit_ms,
                stages: vec![Stage {
                    after: Vec::new(),
                    tasks: lengths_ms.map(|length_ms| Tasks::of(*length_ms)).collect(),
                }],
            }
        })
    }
}
