//! Jobs of a simulation: arrivals, tasks and their lengths, the same for every arm of a seed.

use serde::Deserialize;
use sim::{Distribution, Random, Streams};

use crate::job::Job;
use crate::numbers::{float, whole};
use crate::scenario::ScenarioProblem;
use crate::trace::Loaded;

/// Spread of the tasks of one job around its mean, in percent. Lengths that are multiples of a
/// heartbeat would lock into its phase.
const TASK_SPREAD_PERCENT: u64 = 5;

/// Workload of a scenario.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WorkloadSpec {
    /// Kind of the jobs.
    pub jobs: JobKind,
    /// Number of jobs. Of a trace the first so many; 0: all of them.
    #[serde(default)]
    pub count: u64,
    /// Offered load: work that arrives in a second, as a share of what the cluster can do. From 1
    /// on it cannot keep up. The gaps of a trace are stretched to meet it; 0: they stay as
    /// they were recorded.
    #[serde(default)]
    pub load: f64,
    /// Tasks of a job, where the kind has a fixed number.
    #[serde(default = "hundred")]
    pub tasks: u32,
    /// Length of a task, where the kind has a fixed one.
    #[serde(default = "ten_seconds")]
    pub task_ms: u64,
    /// Stages of a job, each of which follows the one before it. A trace has its own.
    #[serde(default = "one")]
    pub stages: u32,
    /// Percentage of the jobs, each drawn for itself, whose tasks ask for guaranteed containers.
    /// The tasks of a trace say it.
    #[serde(default)]
    pub guaranteed_percent: u64,
    /// File of the trace, for jobs of the kind `trace`.
    #[serde(default)]
    pub trace: String,
    /// Format of the trace; empty: by the end of the file's name.
    #[serde(default)]
    pub format: String,
    /// Memory of a place in MB, against which containers of a trace are checked.
    #[serde(default = "place_memory")]
    pub place_memory_mb: u64,
    /// Jobs of the trace, once read.
    #[serde(skip)]
    pub loaded: Option<Loaded>,
}

const fn place_memory() -> u64 {
    job_trace::MEMORY_MB
}

const fn one() -> u32 {
    1
}

const fn hundred() -> u32 {
    100
}

const fn ten_seconds() -> u64 {
    10_000
}

/// Kind of the jobs that a workload generates. Jobs arrive as a Poisson process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// Jobs of `tasks` tasks of `task-ms`.
    Even,
    /// Jobs of `tasks` tasks whose lengths are exponential with the mean `task-ms`.
    Exponential,
    /// Jobs of `tasks` tasks: four of five with tasks of 6 s, one with tasks of 26 s.
    Two,
    /// Jobs of `tasks` tasks, of each of which four of five take 5 s and one takes 50 s.
    Mixed,
    /// Tasks per job log-normal with a mean of 50 and a coefficient of variation of 3; mean length
    /// of a job's tasks log-normal with 15 s and 1.5.
    Heavy,
    /// Tasks per job with the quantiles of the day of Facebook's cluster that SWIM published as
    /// FB-2009: 73 % have one, p90 20, p99 1,969, the largest here 20,000. Mean lengths as `Heavy`.
    Facebook,
    /// Jobs of a trace.
    Trace,
}

impl WorkloadSpec {
    pub(crate) fn problems(&self) -> Vec<ScenarioProblem> {
        let mut found = Vec::new();
        let mut add = |key: &str, reason: &str| {
            found.push(ScenarioProblem {
                key: format!("workload.{key}"),
                reason: reason.to_owned(),
            });
        };
        let is_trace = self.jobs == JobKind::Trace;
        if self.count == 0 && !is_trace {
            add("count", "0 or missing: no job would arrive");
        }
        let least = if is_trace { 0.0 } else { f64::MIN_POSITIVE };
        if !(least..=100.0).contains(&self.load) {
            add("load", "missing, or not a number above 0, at most 100");
        }
        if is_trace && self.trace.is_empty() {
            add("trace", "missing: the file of the trace");
        }
        if !self.format.is_empty()
            && let Err(error) = self.format.parse::<job_trace::Format>()
        {
            add("format", &error.to_string());
        }
        if self.place_memory_mb == 0 {
            add("place-memory-mb", "0: no container would fit");
        }
        if self.tasks == 0 {
            add("tasks", "0: a job needs a task");
        }
        if self.task_ms == 0 {
            add("task-ms", "0: a task takes at least a millisecond");
        }
        if self.stages == 0 {
            add("stages", "0: a job has at least one stage");
        }
        if self.guaranteed_percent > 100 {
            add("guaranteed-percent", "more than 100");
        }
        if self.guaranteed_percent > 0 && is_trace {
            add(
                "guaranteed-percent",
                "the tasks of a trace have a type of their own",
            );
        }
        if self.stages > 1 && is_trace {
            add("stages", "the jobs of a trace have their own");
        }
        found
    }

    /// Returns about how many containers the workload has.
    #[must_use]
    pub fn containers_about(&self) -> u64 {
        if self.jobs == JobKind::Trace {
            // A trace that has not been read is refused when it is, if it has too many.
            return self.loaded.as_ref().map_or(1, Loaded::tasks);
        }
        whole(float(self.count) * self.mean_tasks())
    }

    /// Returns whether a task may ask for a guaranteed container.
    pub(crate) fn has_guaranteed(&self) -> bool {
        let of_trace = |loaded: &Loaded| {
            let mut stages = loaded.jobs().iter().flat_map(|job| &job.stages);
            stages.any(|stage| stage.guaranteed > 0)
        };
        self.guaranteed_percent > 0 || self.loaded.as_ref().is_some_and(of_trace)
    }

    /// Returns what headlines say of the workload.
    #[must_use]
    pub fn described(&self) -> String {
        let Some(loaded) = &self.loaded else {
            let stages = match self.stages {
                1 => String::new(),
                stages => format!(" in {stages} stages"),
            };
            let guaranteed = match self.guaranteed_percent {
                0 => String::new(),
                percent => format!(" ({percent} % with guaranteed containers)"),
            };
            return format!(
                "{} jobs{stages}{guaranteed} at a load of {}",
                self.count, self.load
            );
        };
        let load = if self.load > 0.0 {
            format!("stretched to a load of {}", self.load)
        } else {
            "as recorded".to_owned()
        };
        let stages = if loaded.has_stages() {
            " in stages"
        } else {
            ""
        };
        let (jobs, tasks) = (loaded.jobs().len(), loaded.tasks());
        format!("{jobs} jobs{stages} with {tasks} tasks of a trace, {load}, one place for each")
    }

    fn mean_tasks(&self) -> f64 {
        match self.jobs {
            JobKind::Trace => 1.0,
            JobKind::Even | JobKind::Exponential | JobKind::Two | JobKind::Mixed => {
                f64::from(self.tasks)
            }
            JobKind::Heavy => 50.0,
            JobKind::Facebook => facebook_mean(),
        }
    }

    /// Returns the jobs of a seed in the order of arrival, for a cluster of this capacity: the work
    /// in milliseconds that it does in one.
    ///
    /// The rate of arrivals follows from the work that the jobs of the seed really have: of heavy
    /// tails, a few jobs decide.
    #[must_use]
    pub fn jobs(&self, streams: Streams, capacity: f64) -> Vec<Job> {
        if let Some(loaded) = &self.loaded {
            return loaded.at_load(self.load, capacity);
        }
        let mut sizes = streams.stream("sizes", 0);
        let stages = usize::try_from(self.stages).unwrap_or(usize::MAX);
        let mut jobs: Vec<Job> = (0..self.count)
            .map(|_| Job::in_sequence(0, self.lengths(&mut sizes), stages))
            .collect();
        if self.guaranteed_percent > 0 {
            let mut types = streams.stream("types", 0);
            for job in &mut jobs {
                if types.below(100) < self.guaranteed_percent {
                    job.ask_for_guaranteed();
                }
            }
        }
        let mut arrivals = streams.stream("arrivals", 0);
        let work_ms: u64 = jobs.iter().map(Job::work_ms).sum();
        let length_ms = float(work_ms) / (capacity * self.load);
        let mean_gap_ms = length_ms / float(self.count.max(1));
        let mut at_ms = 0.0;
        for job in &mut jobs {
            at_ms += mean_gap_ms * exponential(&mut arrivals);
            job.arrives_ms = whole(at_ms);
        }
        jobs
    }

    /// Draws the lengths of a job's tasks.
    fn lengths(&self, sizes: &mut Random) -> Vec<u64> {
        let (tasks, mean_ms) = match self.jobs {
            JobKind::Exponential => {
                let length = |_| whole(float(self.task_ms) * exponential(sizes)).max(1);
                return (0..self.tasks).map(length).collect();
            }
            JobKind::Mixed => {
                let mean_ms = |number| if number % 5 == 4 { 50_000 } else { 5_000 };
                let length = |number| around(mean_ms(number), sizes);
                return (0..self.tasks).map(length).collect();
            }
            // Without its trace a job is nothing: one task of a millisecond.
            JobKind::Trace => (1, 1),
            JobKind::Even => (u64::from(self.tasks), self.task_ms),
            JobKind::Two => {
                let mean_ms = if sizes.below(5) == 0 { 26_000 } else { 6_000 };
                (u64::from(self.tasks), mean_ms)
            }
            JobKind::Heavy => {
                let tasks = log_normal(sizes, 50.0, 3.0);
                (tasks, log_normal(sizes, 15_000.0, 1.5))
            }
            JobKind::Facebook => {
                let tasks = facebook_tasks(sizes.fraction());
                (tasks, log_normal(sizes, 15_000.0, 1.5))
            }
        };
        (0..tasks.max(1)).map(|_| around(mean_ms, sizes)).collect()
    }
}

/// Draws the length of a task around the mean of its job.
fn around(mean_ms: u64, sizes: &mut Random) -> u64 {
    let spread = mean_ms * TASK_SPREAD_PERCENT / 100;
    sizes.within((mean_ms - spread).max(1)..=mean_ms + spread)
}

/// Draws from the exponential distribution with the mean 1.
fn exponential(random: &mut Random) -> f64 {
    -(1.0 - random.fraction()).ln()
}

/// Draws a whole number, at least 1, from the log-normal distribution with this mean and
/// coefficient of variation.
fn log_normal(random: &mut Random, mean: f64, variation: f64) -> u64 {
    Distribution::LogNormal(mean, variation)
        .sample(random)
        .max(1)
}

/// Points of the distribution of tasks per job: share of the jobs that have at most so many.
/// Between two points the logarithm of the number is linear in the share.
const FACEBOOK: [(f64, f64); 5] = [
    (0.73, 1.0),
    (0.90, 20.0),
    (0.99, 1_969.0),
    (0.999, 8_000.0),
    (1.0, 20_000.0),
];

fn facebook_tasks(share: f64) -> u64 {
    let mut below = FACEBOOK[0];
    if share <= below.0 {
        return 1;
    }
    for above in &FACEBOOK[1..] {
        if share <= above.0 {
            let part = (share - below.0) / (above.0 - below.0);
            let tasks = below.1.ln() + part * (above.1.ln() - below.1.ln());
            return whole(tasks.exp().ceil());
        }
        below = *above;
    }
    whole(below.1)
}

/// Returns the mean of the distribution: between two points it is that of a log-uniform number.
fn facebook_mean() -> f64 {
    let first = FACEBOOK[0].0;
    let pieces = FACEBOOK.windows(2).map(|pair| {
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        (to - from) * (high - low) / (high / low).ln()
    });
    first + pieces.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::float_of;

    /// Returns the share of elements that satisfy a condition.
    fn share<T>(all: &[T], condition: impl Fn(&T) -> bool) -> f64 {
        float_of(all.iter().filter(|one| condition(one)).count()) / float_of(all.len())
    }

    fn spec(jobs: JobKind, count: u64) -> WorkloadSpec {
        WorkloadSpec {
            jobs,
            count,
            load: 0.8,
            tasks: 100,
            task_ms: 10_000,
            stages: 1,
            guaranteed_percent: 0,
            trace: String::new(),
            format: String::new(),
            place_memory_mb: place_memory(),
            loaded: None,
        }
    }

    #[test]
    fn mixed_jobs_have_four_short_tasks_for_each_long_one() {
        let jobs = spec(JobKind::Mixed, 50).jobs(Streams::new(3), 800.0);
        for job in &jobs {
            let short = |ms: &u64| (4_750..=5_250).contains(ms);
            let long = |ms: &u64| (47_500..=52_500).contains(ms);
            assert!((share(&job.task_ms, short) - 0.8).abs() < 1e-9);
            assert!((share(&job.task_ms, long) - 0.2).abs() < 1e-9);
        }
    }

    #[test]
    fn one_of_five_jobs_is_long_and_each_whatever_came_before_it() {
        let jobs = spec(JobKind::Two, 20_000).jobs(Streams::new(3), 800.0);
        let is_long = |job: &Job| job.task_ms.iter().all(|ms| *ms > 20_000);
        assert!((share(&jobs, is_long) - 0.2).abs() < 0.01);
        let pairs: Vec<&[Job]> = jobs.windows(2).filter(|pair| is_long(&pair[0])).collect();
        let followed = share(&pairs, |pair| is_long(&pair[1]));
        assert!((followed - 0.2).abs() < 0.03, "{followed}");
    }

    #[test]
    fn the_offered_load_is_the_stated_one() {
        for kind in [
            JobKind::Two,
            JobKind::Mixed,
            JobKind::Heavy,
            JobKind::Facebook,
        ] {
            let jobs = spec(kind, 20_000).jobs(Streams::new(3), 800.0);
            let work: u64 = jobs.iter().map(Job::work_ms).sum();
            let length = jobs.last().unwrap().arrives_ms;
            let load = float(work) / float(length * 800);
            assert!((load - 0.8).abs() < 0.02, "{kind:?}: {load}");
        }
    }

    #[test]
    fn arrivals_are_a_poisson_process() {
        let jobs = spec(JobKind::Even, 20_000).jobs(Streams::new(3), 800.0);
        let gaps: Vec<f64> = jobs
            .windows(2)
            .map(|pair| float(pair[1].arrives_ms - pair[0].arrives_ms))
            .collect();
        let mean = gaps.iter().sum::<f64>() / float_of(gaps.len());
        // The exponential distribution: a share of exp(-1) is longer than the mean.
        let longer = share(&gaps, |gap| *gap > mean);
        assert!((longer - (-1.0_f64).exp()).abs() < 0.01, "{longer}");
    }

    #[test]
    fn heavy_jobs_have_the_stated_mean_and_variation() {
        let jobs = spec(JobKind::Heavy, 50_000).jobs(Streams::new(5), 800.0);
        let tasks: Vec<f64> = jobs.iter().map(|job| float_of(job.task_ms.len())).collect();
        let mean = tasks.iter().sum::<f64>() / float_of(tasks.len());
        assert!((45.0..55.0).contains(&mean), "{mean}");
    }

    #[test]
    fn facebooks_quantiles_and_mean_are_those_of_the_trace() {
        let jobs = spec(JobKind::Facebook, 50_000).jobs(Streams::new(5), 800.0);
        let at_most = |tasks: usize| share(&jobs, |job| job.task_ms.len() <= tasks);
        for (tasks, expected) in [(1, 0.73), (20, 0.90), (1_969, 0.99)] {
            let found = at_most(tasks);
            assert!((found - expected).abs() < 0.01, "{tasks}: {found}");
        }
        let sum: usize = jobs.iter().map(|job| job.task_ms.len()).sum();
        let mean = float_of(sum) / float_of(jobs.len());
        let expected = facebook_mean();
        assert!((mean / expected - 1.0).abs() < 0.1, "{mean} {expected}");
    }

    #[test]
    fn a_seed_gives_the_same_jobs_and_another_seed_others() {
        let of = |seed| spec(JobKind::Heavy, 50).jobs(Streams::new(seed), 800.0);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
