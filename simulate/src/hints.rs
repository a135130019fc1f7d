//! What containers tell of how long they run, as if known from earlier runs of their jobs.

use sched::{Digest, RunProfile};

use crate::job::Job;
use crate::scenario::Arm;

/// Users among whom jobs are dealt out: the trust in hints is each user's.
const USERS: u32 = 10;

/// Number without a factor in common with 100, by which wrong hints are spread over the jobs.
const STEP: u32 = 37;

/// Returns what the containers of each job tell; empty: nothing.
pub(crate) fn of_jobs(arm: &Arm, jobs: &[Job]) -> Vec<RunProfile> {
    let settings = arm.settings;
    if !settings.hints {
        return Vec::new();
    }
    let of = |(number, job): (u32, &Job)| {
        let tasks = u64::try_from(job.task_ms.len()).unwrap_or(u64::MAX);
        let mean_ms = job.work_ms() / tasks.max(1);
        let is_wrong = number.wrapping_mul(STEP) % 100 < settings.hints_wrong_percent;
        let hint_ms = match (is_wrong, number % 2) {
            (false, _) => mean_ms,
            (true, 0) => mean_ms / 2,
            (true, _) => mean_ms.saturating_mul(2),
        };
        RunProfile {
            user: Digest([number % USERS, 0, 0, 0]),
            command: Digest([number, 0, 0, 0]),
            hint_ms: Some(hint_ms.max(1)),
        }
    };
    (0..).zip(jobs).map(of).collect()
}
