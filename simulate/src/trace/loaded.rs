//! Jobs of a trace, once read.

use std::sync::Arc;

use crate::job::Job;
use crate::numbers::{float, ratio, whole};

/// Longest time from the first arrival to the last, and longest task: 40 days in milliseconds.
/// Every node sends a heartbeat in each second of it.
pub const SPAN_MAX_MS: u64 = 40 * 24 * 3_600 * 1_000;

/// Jobs of a trace, in the order of their arrival, from 0 ms on.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    jobs: Arc<[Job]>,
    tasks: u64,
    has_stages: bool,
}

impl Loaded {
    /// Takes jobs in the order of their arrival.
    pub(super) fn of(jobs: Vec<Job>) -> Self {
        Self {
            tasks: jobs.iter().map(|job| job.task_ms.len() as u64).sum(),
            has_stages: jobs.iter().any(|job| job.stages.len() > 1),
            jobs: jobs.into(),
        }
    }

    /// Returns the jobs as they were recorded.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Returns the number of tasks.
    #[must_use]
    pub const fn tasks(&self) -> u64 {
        self.tasks
    }

    /// Returns whether a job has more than one stage.
    #[must_use]
    pub const fn has_stages(&self) -> bool {
        self.has_stages
    }

    /// Returns the jobs with gaps stretched so that they offer this load to a cluster of this
    /// capacity; for a load of 0 as they were recorded. Never longer than [`SPAN_MAX_MS`].
    pub(crate) fn at_load(&self, load: f64, capacity: f64) -> Vec<Job> {
        let mut jobs = self.jobs.to_vec();
        let span = jobs.last().map_or(0, |job| job.arrives_ms);
        if load > 0.0 && span > 0 {
            let work: u64 = jobs.iter().map(Job::work_ms).fold(0, u64::saturating_add);
            let wanted = ratio(float(work), capacity * load).min(float(SPAN_MAX_MS));
            let factor = wanted / float(span);
            for job in &mut jobs {
                job.arrives_ms = whole(float(job.arrives_ms) * factor);
            }
        }
        jobs
    }
}
