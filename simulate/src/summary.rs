//! Figures of a run, and of an arm over all its seeds with their intervals.

use std::ops::Range;

use records::percentile::of_sorted;

use crate::figures::{FIGURES, column};
use crate::measure::{JobOutcome, Outcome, TimeLines};
use crate::numbers::{float, float_of, ratio};
use crate::scenario::{Nature, Scenario};

/// Greatest difference between the two halves of a run that has settled.
const SETTLED: f64 = 0.05;

/// Bytes of a master's call and its answer, without lists: a message with an ask or two and some
/// ended containers. A model, from the fields of Hadoop's messages.
const CALL_BYTES: u64 = 400;

/// Bytes of a node's heartbeat and its answer with some containers: a model, likewise.
const HEARTBEAT_BYTES: u64 = 600;

/// Bytes of a node on a list: its name twice, with ports, its rack, and the frames around them.
const ENTRY_BYTES: u64 = 80;

/// Time that a proxy takes for each node of a list that it reads: with lists of 100 nodes a call
/// took 111 µs, nearly all of it comparing and copying names.
const ENTRY_NANOSECONDS: u64 = 1_100;

/// Points of a distribution that are kept for plots.
const POINTS: u64 = 100;

/// Figures of one run. Times are in seconds, shares from 0 to 1, counts per container of the
/// workload.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFigures {
    /// Seed of the run.
    pub seed: u64,
    /// One value for each of [`FIGURES`], in its order.
    pub values: Vec<f64>,
    /// Median of the job completion times in each half of the measured jobs.
    pub halves: (f64, f64),
    /// Hundredths of the distribution of job completion times, the shortest first.
    pub distribution: Vec<f64>,
    /// Hundredths of the distribution of waits at masters, in seconds, the shortest first.
    pub am_waits: Vec<f64>,
    /// The same of waits on nodes.
    pub node_waits: Vec<f64>,
    /// Use and queues over time.
    pub lines: TimeLines,
    /// Each job.
    pub jobs: Vec<JobOutcome>,
    /// Time at which the run ended, in milliseconds.
    pub ended_ms: u64,
}

impl RunFigures {
    /// Takes the figures of a run; `range` are the measured jobs by their order of arrival.
    #[must_use]
    pub fn new(seed: u64, scenario: &Scenario, outcome: &Outcome, range: Range<usize>) -> Self {
        let jobs = outcome.jobs.get(range).unwrap_or_default();
        let times = completion_times(jobs, outcome.ended_ms);
        let (first, second) = times.split_at(times.len() / 2);
        let halves = (median(first), median(second));
        let largest = largest_tenth(jobs, &times);
        let of = |which: fn(&JobOutcome) -> bool| -> Vec<f64> {
            let chosen = jobs.iter().zip(&times).filter(|(job, _)| which(job));
            chosen.map(|(_, time)| *time).collect()
        };
        let single = of(|job| job.tasks == 1);
        let guaranteed = of(|job| job.is_guaranteed);
        let sorted = sorted(times);
        let unfinished = jobs.iter().filter(|job| job.finished_ms.is_none()).count();
        let (sums, means) = (&outcome.containers, &outcome.means);
        let tasks = float(sums.tasks);
        let per_task = |count: u64| ratio(float(count), tasks);
        let seconds = float(outcome.ended_ms) / 1_000.0;
        let per_second = |count: u64| ratio(float(count), seconds);
        let values = vec![
            percentile(&sorted, 50),
            ratio(sorted.iter().sum(), float_of(sorted.len())),
            percentile(&sorted, 95),
            percentile(&sorted, 99),
            median(&largest),
            median(&single),
            median(&guaranteed),
            ratio(float_of(unfinished), float_of(jobs.len())),
            means.used,
            means.masters,
            means.wasted,
            per_task(sums.refused),
            per_task(sums.shed),
            per_task(sums.evicted),
            per_task(sums.paused),
            per_task(sums.node_lost),
            per_task(sums.lost_ms) / 1_000.0,
            per_task(sums.am_wait_ms.sum_ms()) / 1_000.0,
            per_task(sums.node_wait_ms.sum_ms()) / 1_000.0,
            means.queue_mean,
            means.queue_stdev,
            per_second(outcome.cost.rm_calls),
            per_second(outcome.node_heartbeats),
            per_second(bytes(outcome)),
            per_second(outcome.cost.list_entries),
            ratio(
                per_second(outcome.cost.looks),
                float_of(scenario.cluster.node_count()),
            ),
            per_second(outcome.cost.list_entries * ENTRY_NANOSECONDS) / 1e9,
        ];
        Self {
            seed,
            values,
            halves,
            distribution: hundredths(|part| percentile(&sorted, part)),
            am_waits: hundredths(|part| sums.am_wait_ms.percentile_s(part)),
            node_waits: hundredths(|part| sums.node_wait_ms.percentile_s(part)),
            lines: outcome.used_each_second.clone(),
            jobs: outcome.jobs.clone(),
            ended_ms: outcome.ended_ms,
        }
    }
}

impl RunFigures {
    /// Returns the value of a figure by its name; not a number if there is none.
    #[must_use]
    pub fn value(&self, name: &str) -> f64 {
        column(name).map_or(f64::NAN, |column| self.values[column])
    }
}

fn hundredths(percentile: impl Fn(u64) -> f64) -> Vec<f64> {
    (0..=POINTS).map(percentile).collect()
}

/// Bytes that a second brings the ResourceManager and takes from it.
fn bytes(outcome: &Outcome) -> u64 {
    CALL_BYTES * outcome.cost.rm_calls
        + HEARTBEAT_BYTES * outcome.node_heartbeats
        + ENTRY_BYTES * outcome.cost.list_entries
}

/// Returns the completion times in seconds. A job that has not ended counts with the time so far.
fn completion_times(jobs: &[JobOutcome], ended_ms: u64) -> Vec<f64> {
    let time = |job: &JobOutcome| {
        let until = job.finished_ms.unwrap_or(ended_ms);
        float(until.saturating_sub(job.arrives_ms)) / 1_000.0
    };
    jobs.iter().map(time).collect()
}

fn largest_tenth(jobs: &[JobOutcome], times: &[f64]) -> Vec<f64> {
    let mut by_work: Vec<(u64, f64)> = jobs
        .iter()
        .zip(times)
        .map(|(job, time)| (job.work_ms, *time))
        .collect();
    by_work.sort_by_key(|(work_ms, _)| std::cmp::Reverse(*work_ms));
    by_work.truncate(jobs.len().div_ceil(10));
    by_work.into_iter().map(|(_, time)| time).collect()
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

fn median(times: &[f64]) -> f64 {
    percentile(&sorted(times.to_vec()), 50)
}

fn percentile(sorted: &[f64], percent: u64) -> f64 {
    of_sorted(sorted, percent).unwrap_or(0.0)
}

/// Mean over seeds with the half width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Half width of the 95 % interval of the mean; `None` with fewer than two values.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// Estimates the mean of independent values, by Student's t.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let count = float_of(values.len());
        let mean = ratio(values.iter().sum(), count);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half_width = (values.len() > 1).then(|| {
            let deviation = (squares / (count - 1.0)).sqrt();
            student_t(values.len() - 1) * deviation / count.sqrt()
        });
        Self { mean, half_width }
    }
}

/// Returns the 97.5 % quantile of Student's t distribution. From 30 degrees of freedom on by the
/// first terms of its expansion around the normal quantile (Abramowitz and Stegun, 26.7.5).
fn student_t(degrees: usize) -> f64 {
    const TABLE: [f64; 29] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045,
    ];
    let normal: f64 = 1.959_964;
    degrees
        .checked_sub(1)
        .and_then(|row| TABLE.get(row).copied())
        .unwrap_or_else(|| {
            let degrees = float_of(degrees.max(1));
            let first = (normal.powi(3) + normal) / 4.0;
            let second = (5.0 * normal.powi(5) + 16.0 * normal.powi(3) + 3.0 * normal) / 96.0;
            normal + first / degrees + second / degrees.powi(2)
        })
}

/// Whether the completion times of a stream of jobs have settled. A burst of jobs hides a cluster
/// that cannot keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settling {
    /// The median of the second half of the measured jobs is within 5 % of the first half's,
    /// averaged over the seeds, and every job has ended.
    Settles,
    /// Jobs are left unfinished, or the second half takes longer in a way that is no chance.
    DoesNotSettle,
    /// The halves differ by more than 5 %, and chance explains it: more jobs or seeds would tell.
    TooShort,
}

impl Settling {
    fn of(runs: &[&RunFigures]) -> Self {
        let drift: Vec<f64> = runs
            .iter()
            .map(|run| ratio(run.halves.1, run.halves.0) - 1.0)
            .collect();
        let drift = Estimate::of(&drift);
        if runs.iter().any(|run| run.value("unfinished") > 0.0) {
            Self::DoesNotSettle
        } else if drift.mean.abs() <= SETTLED {
            Self::Settles
        } else if drift.mean > drift.half_width.unwrap_or(f64::INFINITY) {
            Self::DoesNotSettle
        } else {
            Self::TooShort
        }
    }

    /// Returns the words that stand beside the figures; empty for an arm that has settled.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Settles => "",
            Self::DoesNotSettle => "does not settle",
            Self::TooShort => "too short to tell whether it settles",
        }
    }
}

/// Figures of an arm over its seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmSummary {
    /// Label of the arm.
    pub label: String,
    /// Kind of code that ran.
    pub nature: Nature,
    /// Estimate of each of [`FIGURES`].
    pub figures: Vec<Estimate>,
    /// Median completion time relative to the first arm's on the same seed, minus 1; `None` for the
    /// first arm.
    pub against_first: Option<Estimate>,
    /// Median completion time of each seed in seconds; `None`: not run.
    pub p50_by_seed: Vec<Option<f64>>,
    /// Whether the runs have settled.
    pub settling: Settling,
    /// Number of seeds.
    pub seeds: usize,
}

/// Sums up each arm over the seeds that have run.
#[must_use]
pub fn summaries(scenario: &Scenario, runs: &[Vec<Option<RunFigures>>]) -> Vec<ArmSummary> {
    let first = runs.first();
    let arms = scenario.arms.iter().zip(runs).enumerate();
    arms.map(|(number, (arm, of_arm))| {
        let done: Vec<&RunFigures> = of_arm.iter().flatten().collect();
        let figure = |column: usize| {
            let values: Vec<f64> = done.iter().map(|run| run.values[column]).collect();
            Estimate::of(&values)
        };
        let figures: Vec<Estimate> = (0..FIGURES.len()).map(figure).collect();
        let pairs = first.into_iter().flatten().zip(of_arm);
        let relative: Vec<f64> = pairs
            .filter_map(|(first, this)| {
                let (first, this) = (first.as_ref()?, this.as_ref()?);
                Some(ratio(this.values[0], first.values[0]) - 1.0)
            })
            .collect();
        ArmSummary {
            label: arm.label(),
            nature: arm.policy.nature(),
            figures,
            against_first: (number > 0).then(|| Estimate::of(&relative)),
            p50_by_seed: (of_arm.iter())
                .map(|run| run.as_ref().map(|run| run.values[0]))
                .collect(),
            settling: Settling::of(&done),
            seeds: done.len(),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_students() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]);
        assert!((estimate.mean - 2.0).abs() < 1e-9);
        // 4.303 * 1 / sqrt(3)
        assert!((estimate.half_width.unwrap() - 2.484).abs() < 0.001);
        assert_eq!(Estimate::of(&[1.0]).half_width, None);
        assert!((student_t(30) - 2.042).abs() < 0.002);
        assert!((student_t(1_000) - 1.962).abs() < 0.002);
    }

    #[test]
    fn the_largest_jobs_are_those_with_the_most_work() {
        let job = |work_ms| JobOutcome {
            arrives_ms: 0,
            tasks: 1,
            work_ms,
            is_guaranteed: false,
            finished_ms: Some(work_ms),
        };
        let jobs: Vec<JobOutcome> = (1..=20).map(job).collect();
        let times = completion_times(&jobs, 0);
        assert_eq!(largest_tenth(&jobs, &times), [0.02, 0.019]);
    }
}
