//! Jobs of a trace as a workload: what a simulation takes of it, and what a look at it says.

mod loaded;

use job_trace::{Tasks, TraceError, TraceJob};
use records::ExecutionType;
use thiserror::Error;

use crate::job::{Job, Stage};
use crate::numbers::{float, ratio};
use crate::scenario::Scenario;

pub use loaded::{Loaded, SPAN_MAX_MS};

/// Most tasks of a trace that one simulation takes: each takes some 100 bytes.
pub const TASKS_MAX: u64 = 20_000_000;

/// Reason for which a trace is not simulated.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The bytes are not a trace.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// A job cannot run on the cluster of the scenario.
    #[error("job {id}: {reason}")]
    Job {
        /// Id of the job.
        id: String,
        /// Demand of the job that no simulation meets.
        reason: String,
    },
    /// No job is in it.
    #[error("the trace has no job")]
    Empty,
}

impl LoadError {
    fn of(job: &TraceJob, reason: String) -> Self {
        let id = job.id.escape_debug().to_string();
        Self::Job { id, reason }
    }
}

impl Loaded {
    /// Takes the jobs of a trace, as many as the scenario's `count` says. Reads no further.
    ///
    /// # Errors
    /// The trace cannot be read, or a job of it cannot run.
    pub fn read(
        scenario: &Scenario,
        jobs: impl Iterator<Item = Result<TraceJob, TraceError>>,
    ) -> Result<Self, LoadError> {
        let most = match scenario.workload.count {
            0 => usize::MAX,
            count => usize::try_from(count).unwrap_or(usize::MAX),
        };
        let mut taken: Vec<Job> = Vec::new();
        let mut tasks = 0;
        for job in jobs.take(most) {
            let job = job?;
            tasks += job.task_count();
            if tasks > TASKS_MAX {
                let reason = format!(
                    "with it the trace has more than {TASKS_MAX} tasks; `count` in [workload] \
                     takes the first {} jobs",
                    taken.len()
                );
                return Err(LoadError::of(&job, reason));
            }
            runs_on(scenario, &job)?;
            taken.push(taken_over(&job));
        }
        taken.sort_by_key(|job| job.arrives_ms);
        let Some(first) = taken.first().map(|job| job.arrives_ms) else {
            return Err(LoadError::Empty);
        };
        for job in &mut taken {
            job.arrives_ms -= first;
        }
        let span = taken.last().map_or(0, |job| job.arrives_ms);
        if span > SPAN_MAX_MS {
            let id = "last in the order of arrival".to_owned();
            let reason = format!("arrives {span} ms after the first; at most {SPAN_MAX_MS}");
            return Err(LoadError::Job { id, reason });
        }
        Ok(Self::of(taken))
    }
}

/// Type of the tasks of a trace that ask for guaranteed containers.
const GUARANTEED: Option<ExecutionType> = Some(ExecutionType::Guaranteed);

/// Returns a job of a trace as a simulation runs it.
fn taken_over(job: &TraceJob) -> Job {
    let mut task_ms = Vec::new();
    let stage = |stage: &job_trace::Stage| {
        let begin = task_ms.len();
        let mut add = |is_guaranteed: bool| {
            let is_of_type = |tasks: &&Tasks| is_guaranteed == (tasks.execution_type == GUARANTEED);
            for tasks in stage.tasks.iter().filter(is_of_type) {
                let count = usize::try_from(tasks.count).unwrap_or(usize::MAX);
                task_ms.extend(std::iter::repeat_n(tasks.length_ms, count));
            }
            task_ms.len()
        };
        let guaranteed = add(true) - begin;
        Stage {
            tasks: begin..add(false),
            guaranteed,
            after: stage.after.clone(),
        }
    };
    let stages = job.stages.iter().map(stage).collect();
    Job {
        arrives_ms: job.submit_ms,
        task_ms,
        stages,
    }
}

/// Refuses a job with a container that no node can hold, or with a task that takes too long.
fn runs_on(scenario: &Scenario, job: &TraceJob) -> Result<(), LoadError> {
    let places = u64::from(scenario.cluster.largest());
    let memory_mb = places.saturating_mul(scenario.workload.place_memory_mb);
    let does_not_fit =
        |tasks: &&Tasks| tasks.memory_mb > memory_mb || u64::from(tasks.vcores) > places;
    if let Some(tasks) = job.tasks().find(does_not_fit) {
        let reason = format!(
            "a container of {} MB and {} vcores is larger than any node, which has {memory_mb} MB \
             and {places} vcores; see `places` in [cluster] and `place-memory-mb` in [workload]",
            tasks.memory_mb, tasks.vcores
        );
        return Err(LoadError::of(job, reason));
    }
    if let Some(tasks) = job.tasks().find(|tasks| tasks.length_ms > SPAN_MAX_MS) {
        let reason = format!("a task of {} ms; at most {SPAN_MAX_MS}", tasks.length_ms);
        return Err(LoadError::of(job, reason));
    }
    Ok(())
}

/// Totals of a whole trace. Their memory does not grow with the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Jobs.
    pub jobs: u64,
    /// Jobs of one task.
    pub single: u64,
    /// Tasks.
    pub tasks: u64,
    /// Tasks of the job with the most.
    pub largest: u64,
    /// Sum of the tasks' lengths in milliseconds.
    pub work_ms: u64,
    /// First and last arrival in milliseconds.
    pub arrivals_ms: Option<(u64, u64)>,
}

impl Survey {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// The trace cannot be read, or a job of it cannot run on the cluster of the scenario.
    pub fn read(
        scenario: &Scenario,
        jobs: impl Iterator<Item = Result<TraceJob, TraceError>>,
    ) -> Result<Self, LoadError> {
        let mut found = Self::default();
        for job in jobs {
            let job = job?;
            runs_on(scenario, &job)?;
            let tasks = job.task_count();
            found.jobs += 1;
            found.single += u64::from(tasks == 1);
            found.tasks = found.tasks.saturating_add(tasks);
            found.largest = found.largest.max(tasks);
            found.work_ms = found.work_ms.saturating_add(job.work_ms());
            let (first, last) = found.arrivals_ms.unwrap_or((u64::MAX, 0));
            let at = job.submit_ms;
            found.arrivals_ms = Some((first.min(at), last.max(at)));
        }
        if found.jobs == 0 {
            return Err(LoadError::Empty);
        }
        Ok(found)
    }

    /// Returns the load that the trace, as it was recorded, offers to a cluster of this capacity; 0
    /// if all jobs arrive at once.
    #[must_use]
    pub fn load(&self, capacity: f64) -> f64 {
        let span = self.arrivals_ms.map_or(0, |(first, last)| last - first);
        ratio(float(self.work_ms), float(span) * capacity)
    }
}

/// Returns a job as a trace has it.
#[must_use]
pub fn traced(number: usize, job: &Job) -> TraceJob {
    let stage = |stage: &Stage| job_trace::Stage {
        after: stage.after.clone(),
        tasks: (job.task_ms[stage.tasks.clone()].iter().enumerate())
            .map(|(number, length)| Tasks {
                execution_type: if number < stage.guaranteed {
                    GUARANTEED
                } else {
                    None
                },
                ..Tasks::of(*length)
            })
            .collect(),
    };
    TraceJob {
        id: format!("job_{}", number + 1),
        submit_ms: job.arrives_ms,
        stages: job.stages.iter().map(stage).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use job_trace::{Format, jobs};

    const SCENARIO: &str = r#"
        title = "trace"
        cluster = { nodes = 2, places = 4 }
        workload = { jobs = "trace", trace = "t.csv" }
        arm = [{ policy = "spread" }]
    "#;

    fn loaded(rows: &str, scenario: &Scenario) -> Result<Loaded, LoadError> {
        let text = format!("{}\n{rows}", job_trace::csv::HEAD);
        Loaded::read(scenario, jobs(Format::Csv, text.as_bytes()))
    }

    #[test]
    fn arrivals_are_sorted_start_at_zero_and_meet_the_load() {
        let mut scenario = Scenario::read(SCENARIO).unwrap();
        let rows = "b,9000,1,,2,4000,,,,\na,1000,1,,1,8000,,,,\na2,5000,1,,1,8000,,,,\n";
        let trace = loaded(rows, &scenario).unwrap();
        let arrivals = |jobs: &[Job]| jobs.iter().map(|job| job.arrives_ms).collect::<Vec<_>>();
        assert_eq!(arrivals(trace.jobs()), [0, 4_000, 8_000]);
        assert_eq!(trace.tasks(), 4);
        assert_eq!(trace.jobs()[2].task_ms, [4_000, 4_000]);
        // 24 s of work on 8 places are a load of a half in 6 s.
        assert_eq!(arrivals(&trace.at_load(0.5, 8.0)), [0, 3_000, 6_000]);
        assert_eq!(arrivals(&trace.at_load(0.0, 8.0)), [0, 4_000, 8_000]);
        scenario.workload.count = 2;
        assert_eq!(loaded(rows, &scenario).unwrap().jobs().len(), 2);
    }

    #[test]
    fn stages_are_those_of_the_trace_also_when_it_is_written_again() {
        let scenario = Scenario::read(SCENARIO).unwrap();
        let rows = "a,7,1,,1,3000,,,,\na,7,1,,2,4000,,,guaranteed,\na,7,2,,1,5000,,,,\n\
            a,7,3,1+2,1,6000,,,opportunistic,\n";
        let trace = loaded(rows, &scenario).unwrap();
        let job = &trace.jobs()[0];
        assert_eq!(job.task_ms, [4_000, 4_000, 3_000, 5_000, 6_000]);
        let guaranteed: Vec<bool> = (0..5).map(|task| job.asks_for_guaranteed(task)).collect();
        assert_eq!(guaranteed, [true, true, false, false, false]);
        let after: Vec<&[usize]> = job.stages.iter().map(|stage| &*stage.after).collect();
        assert_eq!(after, [&[] as &[usize], &[], &[0, 1]]);
        assert_eq!(taken_over(&traced(0, job)), *job);
    }

    #[test]
    fn what_no_node_can_hold_is_named() {
        let mut scenario = Scenario::read(SCENARIO).unwrap();
        for row in ["big,0,1,,1,1000,4097,1,,\n", "big,0,1,,1,1000,1024,5,,\n"] {
            let error = loaded(row, &scenario).unwrap_err().to_string();
            let expected = "vcores is larger than any node, which has 4096 MB and 4 vcores";
            assert!(
                error.starts_with("job big: ") && error.contains(expected),
                "{error}"
            );
        }
        scenario.workload.place_memory_mb = 2_048;
        assert!(loaded("big,0,1,,1,1000,4097,1,,\n", &scenario).is_ok());
        let far = "a,0,1,,1,1000,,,,\nb,9000000000,1,,1,1000,,,,\n";
        let error = loaded(far, &scenario).unwrap_err().to_string();
        assert!(
            error.contains("arrives 9000000000 ms after the first"),
            "{error}"
        );
        let many: String = (0..21)
            .map(|n| format!("j{n},0,1,,1000000,1,,,,\n"))
            .collect();
        let error = loaded(&many, &scenario).unwrap_err().to_string();
        assert!(
            error.starts_with("job j20: ") && error.contains("takes the first 20 jobs"),
            "{error}"
        );
    }

    #[test]
    fn a_survey_counts_the_whole_trace() {
        let scenario = Scenario::read(SCENARIO).unwrap();
        let text = format!(
            "{}\na,1000,,,,500,,,,\nb,3000,,,7,500,,,,\n",
            job_trace::csv::HEAD
        );
        let survey = Survey::read(&scenario, jobs(Format::Csv, text.as_bytes())).unwrap();
        let expected = Survey {
            jobs: 2,
            single: 1,
            tasks: 8,
            largest: 7,
            work_ms: 4_000,
            arrivals_ms: Some((1_000, 3_000)),
        };
        assert_eq!(survey, expected);
        assert!((survey.load(8.0) - 0.25).abs() < 1e-9);
    }
}
