//! Progress of a job, as its client knows it.

use serde::{Deserialize, Serialize};

/// Stage in the life cycle of an application, as far as its client can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The ResourceManager has not accepted the application.
    #[default]
    Submitting,
    /// The ResourceManager has accepted the application; the AM has not registered.
    Submitted,
    /// The AM has registered.
    Running,
    /// The application has ended, successfully or not.
    Ended,
}

/// Containers of a job by state, and counts of events so far. A task is a container as the job's
/// user counts them; a task whose container is taken away continues in another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Tasks of the job.
    pub tasks: u32,
    /// Tasks without a container: asked for, or in backoff before the next ask.
    pub waiting: u32,
    /// Tasks whose container is queued on its node, or about to start.
    pub queued: u32,
    /// Tasks whose command runs.
    pub running: u32,
    /// Tasks whose command exited with 0.
    pub succeeded: u32,
    /// Tasks whose command failed, or that used up their retries.
    pub failed: u32,
    /// Opportunistic containers that were killed for guaranteed ones.
    pub evicted: u32,
    /// Opportunistic containers that a node shed from its queue or did not accept into it.
    pub shed: u32,
    /// Containers that the ResourceManager preempted.
    pub preempted: u32,
    /// Containers that were lost with their node, refused by it, or never started.
    pub lost: u32,
    /// Opportunistic containers that became guaranteed.
    pub promoted: u32,
    /// Containers that came with another execution type than asked for, as from a ResourceManager
    /// that does not allocate opportunistic ones.
    pub retyped: u32,
}

impl Counts {
    /// Returns the number of tasks that have ended.
    #[must_use]
    pub const fn ended(&self) -> u32 {
        self.succeeded.saturating_add(self.failed)
    }

    /// Returns the share of tasks that have ended, from 0 to 1.
    #[must_use]
    pub fn fraction(&self) -> f32 {
        if self.tasks == 0 {
            return 0.0;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a fraction for people needs no more digits than f32 has"
        )]
        let fraction = (f64::from(self.ended()) / f64::from(self.tasks)) as f32;
        fraction.clamp(0.0, 1.0)
    }
}

/// Progress of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Stage of the application.
    pub stage: Stage,
    /// Share of the job that is done, from 0 to 1, as the ResourceManager or the AM reports it.
    pub fraction: f32,
    /// Last counts from the AM; `None` before the first, and where its endpoint cannot be reached.
    pub counts: Option<Counts>,
    /// URL of the application on the ResourceManager's pages; empty until known.
    pub tracking_url: String,
    /// Time since the ResourceManager stopped answering, in milliseconds; `None` while it answers.
    pub rm_silent_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fraction_is_of_tasks_that_ended_in_any_way() {
        let counts = Counts {
            tasks: 4,
            succeeded: 1,
            failed: 1,
            ..Counts::default()
        };
        assert!((counts.fraction() - 0.5).abs() < f32::EPSILON);
        assert!(Counts::default().fraction() < f32::EPSILON);
    }
}
