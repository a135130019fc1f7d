//! How a job is going, as its client knows it.

use serde::{Deserialize, Serialize};

/// Where an application is in its life, as far as its client can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The ResourceManager has not taken it yet.
    #[default]
    Submitting,
    /// The ResourceManager has it; its master does not run yet.
    Submitted,
    /// Its master has registered.
    Running,
    /// It has ended, in whatever way.
    Ended,
}

/// Containers of a job by what they are doing, and what happened so far. Tasks are the job's containers as its user
/// counts them; a task whose container is taken away goes on in another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Tasks of the job.
    pub tasks: u32,
    /// Tasks without a container: asked for, or resting before they are asked for again.
    pub waiting: u32,
    /// Tasks whose container waits on its node, or is about to start.
    pub queued: u32,
    /// Tasks whose command runs.
    pub running: u32,
    /// Tasks whose command ended with 0.
    pub succeeded: u32,
    /// Tasks whose command failed, or that were tried too often.
    pub failed: u32,
    /// Opportunistic containers that ran and made way for guaranteed ones.
    pub evicted: u32,
    /// Opportunistic containers that a node took out of its queue, or did not take into it.
    pub shed: u32,
    /// Containers that the ResourceManager took back.
    pub preempted: u32,
    /// Containers that were lost with their node, refused by it, or never started.
    pub lost: u32,
    /// Opportunistic containers that became guaranteed.
    pub promoted: u32,
    /// Containers that came in another execution type than was asked for, as from a ResourceManager that does not
    /// allocate opportunistic ones.
    pub retyped: u32,
}

impl Counts {
    /// Tasks that have ended.
    #[must_use]
    pub const fn ended(&self) -> u32 {
        self.succeeded.saturating_add(self.failed)
    }

    /// What part of the tasks has ended, from 0 to 1.
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

/// How a job is going.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Where the application is in its life.
    pub stage: Stage,
    /// From 0 to 1, as the ResourceManager or the master says.
    pub fraction: f32,
    /// What the master last said; `None` until it has been heard, and where its endpoint cannot be reached.
    pub counts: Option<Counts>,
    /// Where the ResourceManager's pages show the application; empty until it is known.
    pub tracking_url: String,
    /// For how many milliseconds the ResourceManager has not answered; `None` while it does.
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
