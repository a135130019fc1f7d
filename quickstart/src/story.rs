//! The story as a state machine: observations of the cluster in, cues out. Pure. Every printed
//! statement was observed.
//!
//! ```text
//!  Gathering ──▶ Filling ──▶ Moving ──▶ Evicting ──▶ Shedding ──▶ PlacingAgain ──▶ Ending ──▶ over
//!   all nodes     all places   a queue    guaranteed   a queue       each has a       both jobs
//!   offered       taken, all   moves      one runs     over limit    place again      have ended
//!     │           wait         │                                     │
//!     └ submit batch           └ submit urgent                       └ release urgent
//! ```
//!
//! Each step waits for a condition, with a time limit; a job that fails, or queues that are empty
//! too early, end the story at once.

mod words;

use std::time::Duration;

use records::{ApplicationId, EpochMillis};

use super::plan;
use super::tally::{Happened, Tally};

/// How long one step may take: several times what it takes on a machine that is busy with other
/// things. Nothing in a story of fifteen seconds is worth a longer wait.
const STEP_MAX: Duration = Duration::from_secs(60);

/// Opportunistic containers for each node that end well before the guaranteed container may end:
/// about two seconds.
const WENT_ON_PER_NODE: usize = 2;

/// Name of a job of the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobName {
    /// Many opportunistic containers.
    Batch,
    /// The job with one large guaranteed container.
    Urgent,
}

/// How a job is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum JobSight {
    /// Not submitted, or not yet acknowledged by the ResourceManager.
    #[default]
    Unknown,
    /// The ResourceManager has it.
    Submitted(ApplicationId),
    /// Every container of it succeeded.
    Succeeded(ApplicationId),
    /// Ended without success, for this reason.
    Failed(String),
}

/// How one node looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeSight {
    /// Opportunistic containers that hold room.
    pub(super) running_opportunistic: u32,
    /// Containers that wait.
    pub(super) waiting: u32,
}

/// Result of one observation of nodes and jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// Since the process started.
    pub(super) at: Duration,
    /// Nodes that the ResourceManager offers for opportunistic containers.
    pub(super) nodes_offered: usize,
    /// Every node that runs, in order.
    pub(super) nodes: Vec<NodeSight>,
    /// A node that does not answer any more, from 0.
    pub(super) stopped_node: Option<usize>,
    /// The opportunistic job.
    pub(super) batch: JobSight,
    /// The guaranteed job.
    pub(super) urgent: JobSight,
}

/// An action for the caller to perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cue {
    /// Print this text.
    Print(String),
    /// Submit this job.
    Submit(JobName),
    /// Let the guaranteed container end.
    ReleaseUrgent,
    /// End the story with this verdict.
    End(Verdict),
}

/// How the story ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As it should.
    Complete,
    /// A step of the story did not happen, for this reason.
    Failed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Gathering,
    Filling,
    Moving,
    Evicting,
    Shedding {
        evicted_at: EpochMillis,
        /// Opportunistic containers that had ended well by then.
        succeeded: usize,
    },
    PlacingAgain {
        succeeded: usize,
        /// Containers that had been lost when the first was shed.
        lost: usize,
    },
    Ending {
        urgent_told: bool,
    },
    Over,
}

/// The state machine of the story: observations and time in, actions out. Does no I/O and reads no
/// clock.
#[derive(Debug)]
pub(super) struct Story {
    nodes: u32,
    step: Step,
    entered: Duration,
    tally: Tally,
}

impl Story {
    /// A story on so many nodes that begins now.
    pub(super) fn new(nodes: u32) -> Self {
        Self {
            nodes,
            step: Step::Gathering,
            entered: Duration::ZERO,
            tally: Tally::default(),
        }
    }

    /// Returns the counts of all observations so far.
    pub(super) const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Takes a look and what happened since the last one.
    pub(super) fn look(&mut self, sight: &Sight, happened: &[Happened]) -> Vec<Cue> {
        for each in happened {
            self.tally.take(each);
        }
        let mut cues = Vec::new();
        // Several steps may be complete at one look: a slow machine looks rarely.
        while let Some(next) = self.advance(sight, &mut cues) {
            self.step = next;
            self.entered = sight.at;
        }
        if self.step != Step::Over
            && let Some(why) = self.trouble(sight)
        {
            self.step = Step::Over;
            cues.push(Cue::End(Verdict::Failed(why)));
        }
        cues
    }

    /// The next step, if this one is complete.
    fn advance(&self, sight: &Sight, cues: &mut Vec<Cue>) -> Option<Step> {
        let tally = &self.tally;
        match self.step {
            Step::Gathering => {
                (sight.nodes_offered >= sight.nodes.len() && !sight.nodes.is_empty()).then(|| {
                    cues.push(Cue::Print(words::gathered(self.nodes)));
                    cues.push(Cue::Submit(JobName::Batch));
                    Step::Filling
                })
            }
            Step::Filling => {
                let is_full = |node: &NodeSight| {
                    node.running_opportunistic >= plan::PLACES_PER_NODE && node.waiting > 0
                };
                let are_placed = tally.placed() >= plan::tasks(self.nodes) as usize;
                (are_placed && sight.nodes.iter().all(is_full)).then(|| {
                    cues.push(Cue::Print(words::filled(&sight.nodes)));
                    Step::Moving
                })
            }
            Step::Moving => {
                let start = tally.first_from_queue()?;
                (tally.succeeded() > 0).then(|| {
                    cues.push(Cue::Print(words::moved(start)));
                    cues.push(Cue::Print(words::urgent_arrives()));
                    cues.push(Cue::Submit(JobName::Urgent));
                    Step::Evicting
                })
            }
            Step::Evicting => {
                let urgent = application(&sight.urgent)?;
                let evicted = tally.evicted_for(urgent);
                let start = tally.start_of_task(urgent)?;
                let first = evicted.first()?;
                cues.push(Cue::Print(words::evicted(
                    &evicted,
                    tally.are_newest_first(&evicted),
                    start,
                )));
                Some(Step::Shedding {
                    evicted_at: first.at,
                    succeeded: tally.succeeded(),
                })
            }
            Step::Shedding {
                evicted_at,
                succeeded,
            } => {
                let shed = tally.shed_since(evicted_at);
                (!shed.is_empty()).then(|| {
                    cues.push(Cue::Print(words::shed(&shed)));
                    let lost = tally.lost().total();
                    Step::PlacingAgain { succeeded, lost }
                })
            }
            Step::PlacingAgain { succeeded, lost } => {
                let again = tally.placed_again(plan::tasks(self.nodes));
                // Long enough to be watched, by what happens and not by a clock.
                let went_on = tally.succeeded() >= succeeded + WENT_ON_PER_NODE * sight.nodes.len();
                (went_on && again.len() >= lost).then(|| {
                    cues.push(Cue::Print(words::placed_again(tally.lost(), &again)));
                    cues.push(Cue::ReleaseUrgent);
                    Step::Ending { urgent_told: false }
                })
            }
            Step::Ending { urgent_told } => self.end(urgent_told, sight, cues),
            Step::Over => None,
        }
    }

    /// The guaranteed job ends first: the other one needs its node.
    fn end(&self, urgent_told: bool, sight: &Sight, cues: &mut Vec<Cue>) -> Option<Step> {
        if !urgent_told {
            return matches!(sight.urgent, JobSight::Succeeded(_)).then(|| {
                cues.push(Cue::Print(words::urgent_ended()));
                Step::Ending { urgent_told: true }
            });
        }
        matches!(sight.batch, JobSight::Succeeded(_)).then(|| {
            cues.push(Cue::Print(words::batch_ended(plan::tasks(self.nodes))));
            cues.push(Cue::End(Verdict::Complete));
            Step::Over
        })
    }

    /// Why the story cannot go on.
    fn trouble(&self, sight: &Sight) -> Option<String> {
        if let Some(index) = sight.stopped_node {
            return Some(format!("node {} has stopped", index + 1));
        }
        for (name, job) in [
            ("opportunistic", &sight.batch),
            ("guaranteed", &sight.urgent),
        ] {
            if let JobSight::Failed(why) = job {
                return Some(format!("the {name} job failed: {why}"));
            }
        }
        let waited = sight.at.saturating_sub(self.entered);
        let needs_queues = matches!(
            self.step,
            Step::Filling | Step::Moving | Step::Evicting | Step::Shedding { .. }
        );
        if needs_queues && matches!(sight.batch, JobSight::Succeeded(_)) {
            return Some(format!(
                "the queues were empty before {}; is the machine busy with other work?",
                words::awaited(self.step)
            ));
        }
        (waited > STEP_MAX).then(|| {
            format!(
                "waited {} s in vain for this: {}. {}",
                waited.as_secs(),
                words::awaited(self.step),
                words::state(sight)
            )
        })
    }
}

/// The application of a job that the ResourceManager has.
fn application(job: &JobSight) -> Option<ApplicationId> {
    match job {
        JobSight::Submitted(id) | JobSight::Succeeded(id) => Some(*id),
        JobSight::Unknown | JobSight::Failed(_) => None,
    }
}

#[cfg(test)]
mod tests;
