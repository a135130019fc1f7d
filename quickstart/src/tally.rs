//! Sums of what happened to the story's containers, computed from the decisions of all nodes. Pure.

use std::collections::{BTreeMap, BTreeSet};

use records::{ApplicationId, ContainerExitStatus, ContainerId, EpochMillis, ExecutionType};
use sched::{Completion, Note, ShedReason};

/// A decision of a node's scheduler, or the end of a container on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Happened {
    /// Time of the decision.
    pub(super) at: EpochMillis,
    /// Index of the node, from 0.
    pub(super) node: usize,
    /// The decision or end itself.
    pub(super) what: What,
}

/// Kind of a decision or end, with the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A decision of the node's scheduler.
    Decided(Note),
    /// A container has ended.
    Completed(Completion),
}

/// An opportunistic container that had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    /// Container that ended.
    pub(super) id: ContainerId,
    /// On which node, from 0.
    pub(super) node: usize,
    /// When it was decided.
    pub(super) at: EpochMillis,
    /// Cause of the end.
    pub(super) why: Why,
}

/// Why a container had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Evicted while running, for a guaranteed container.
    Evicted {
        /// Guaranteed container that needs the capacity.
        for_container: ContainerId,
        /// Milliseconds for which it had run.
        ran_ms: u64,
    },
    /// Removed from a queue that exceeds the ResourceManager's limit.
    Shed {
        /// How many may wait; `None` if it is the time that is limited.
        limit: Option<usize>,
    },
    /// Rejected at admission; never was in the queue.
    Rejected,
}

/// A start from a node's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// On which node, from 0.
    pub(super) node: usize,
    /// Time of the start.
    pub(super) at: EpochMillis,
    /// Milliseconds for which the container had waited there.
    pub(super) waited_ms: u64,
    /// Position among all starts; starts on one node are in the order of its decisions.
    pub(super) order: usize,
}

/// Sums up the decisions of all nodes. Its size grows with the containers of the story's jobs, a
/// few hundred.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Every opportunistic container that a node has decided about, with its node.
    placed: BTreeMap<ContainerId, usize>,
    starts: BTreeMap<ContainerId, Start>,
    opportunistic_starts: BTreeSet<ContainerId>,
    losses: Vec<Loss>,
    succeeded: BTreeSet<ContainerId>,
}

impl Tally {
    /// Takes in what happened.
    pub(super) fn take(&mut self, happened: &Happened) {
        let Happened { at, node, ref what } = *happened;
        match what {
            What::Decided(note) => self.take_note(at, node, note),
            What::Completed(completion) => {
                if completion.exit_status == ContainerExitStatus::SUCCESS {
                    self.succeeded.insert(completion.id);
                }
            }
        }
    }

    fn take_note(&mut self, at: EpochMillis, node: usize, note: &Note) {
        match *note {
            Note::Queued {
                id, execution_type, ..
            } => self.place(id, node, execution_type),
            Note::Started {
                id,
                execution_type,
                queue_wait_ms,
                reported_wait_ms: _,
                estimated_wait_ms: _,
                resumed: _,
            } => {
                self.place(id, node, execution_type);
                let start = Start {
                    node,
                    at,
                    waited_ms: queue_wait_ms,
                    order: self.starts.len(),
                };
                self.starts.insert(id, start);
                if execution_type == ExecutionType::Opportunistic {
                    self.opportunistic_starts.insert(id);
                }
            }
            Note::Rejected { id, .. } => {
                self.place(id, node, ExecutionType::Opportunistic);
                self.lose(id, node, at, Why::Rejected);
            }
            Note::Shed { id, reason } => {
                let limit = match reason {
                    ShedReason::QueueLength { limit } => Some(limit),
                    ShedReason::Draining => None,
                };
                self.lose(id, node, at, Why::Shed { limit });
            }
            Note::Evicted {
                id,
                for_container,
                paused: _,
                ran_ms,
            } => {
                let why = Why::Evicted {
                    for_container,
                    ran_ms,
                };
                self.lose(id, node, at, why);
            }
            Note::Passed { .. }
            | Note::LargerThanNode { .. }
            | Note::Drained { .. }
            | Note::PausedKilled { .. }
            | Note::Retried { .. }
            | Note::Promoted(_)
            | Note::Demoted(_) => {}
        }
    }

    fn place(&mut self, id: ContainerId, node: usize, execution_type: ExecutionType) {
        if execution_type == ExecutionType::Opportunistic {
            self.placed.insert(id, node);
        }
    }

    fn lose(&mut self, id: ContainerId, node: usize, at: EpochMillis, why: Why) {
        self.losses.push(Loss { id, node, at, why });
    }

    /// Opportunistic containers that ended with 0.
    pub(super) fn succeeded(&self) -> usize {
        let is_opportunistic = |id: &&ContainerId| self.opportunistic_starts.contains(*id);
        self.succeeded.iter().filter(is_opportunistic).count()
    }

    /// The first opportunistic container that started after it had waited.
    pub(super) fn first_from_queue(&self) -> Option<Start> {
        let starts = self.opportunistic_starts.iter();
        starts
            .filter_map(|id| self.starts.get(id))
            .filter(|start| start.waited_ms > 0)
            .min_by_key(|start| start.at)
            .copied()
    }

    /// Containers that were evicted for one of this application's, in the order of the decisions.
    pub(super) fn evicted_for(&self, application: ApplicationId) -> Vec<Loss> {
        let is_for = |loss: &&Loss| match loss.why {
            Why::Evicted { for_container, .. } => for_container.application_id() == application,
            Why::Shed { .. } | Why::Rejected => false,
        };
        self.losses.iter().filter(is_for).copied().collect()
    }

    /// Whether those that started last had to go first. How long each has run does not say:
    /// processes come to be a little after their start is decided.
    pub(super) fn are_newest_first(&self, losses: &[Loss]) -> bool {
        let started = losses
            .iter()
            .map(|loss| self.starts.get(&loss.id).map(|start| start.order));
        started.is_sorted_by(|earlier, later| later.is_some() && earlier > later)
    }

    /// When this application's first container beside its master started.
    pub(super) fn start_of_task(&self, application: ApplicationId) -> Option<Start> {
        let is_task = |id: &ContainerId| id.application_id() == application && id.number() != 1;
        let starts = self.starts.iter().filter(|(id, _)| is_task(id));
        starts.map(|(_, start)| *start).min_by_key(|start| start.at)
    }

    /// Containers taken out of queues at this time or later, in the order of the decisions.
    pub(super) fn shed_since(&self, begin: EpochMillis) -> Vec<Loss> {
        let is_shed = |loss: &&Loss| match loss.why {
            Why::Shed { .. } => loss.at >= begin,
            Why::Evicted { .. } | Why::Rejected => false,
        };
        self.losses.iter().filter(is_shed).copied().collect()
    }

    /// How many containers a node has decided about.
    pub(super) fn placed(&self) -> usize {
        self.placed.len()
    }

    /// How many containers were evicted, shed and rejected.
    pub(super) fn losses(&self) -> Losses {
        self.count(|_| true)
    }

    /// The same without those that ended well all the same: a process may end by itself at the very
    /// moment in which its container is evicted.
    pub(super) fn lost(&self) -> Losses {
        self.count(|loss| !self.succeeded.contains(&loss.id))
    }

    fn count(&self, counts: impl Fn(&Loss) -> bool) -> Losses {
        let mut losses = Losses::default();
        for loss in self.losses.iter().filter(|loss| counts(loss)) {
            *match loss.why {
                Why::Evicted { .. } => &mut losses.evicted,
                Why::Shed { .. } => &mut losses.shed,
                Why::Rejected => &mut losses.rejected,
            } += 1;
        }
        losses
    }

    /// Containers beyond one for each task of the job: each is for one that had to go. With their
    /// nodes.
    ///
    /// The master is number 1 and containers are numbered as they are given out, so those of the
    /// first round are the numbers that follow.
    pub(super) fn placed_again(&self, tasks: u32) -> Vec<usize> {
        let is_again = |id: &ContainerId| id.number() > i64::from(tasks) + 1;
        let again = self.placed.iter().filter(|(id, _)| is_again(id));
        again.map(|(_, node)| *node).collect()
    }

    /// For how long opportunistic containers that started had waited, in milliseconds, shortest
    /// first.
    pub(super) fn queue_waits_ms(&self) -> Vec<u64> {
        let starts = self.opportunistic_starts.iter();
        let waits = starts.filter_map(|id| self.starts.get(id));
        let mut waits: Vec<u64> = waits.map(|start| start.waited_ms).collect();
        waits.sort_unstable();
        waits
    }
}

/// Opportunistic containers that had to go, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Containers evicted while they ran.
    pub(super) evicted: usize,
    /// Containers removed from a queue.
    pub(super) shed: usize,
    /// Containers rejected at admission.
    pub(super) rejected: usize,
}

impl Losses {
    /// Returns the sum of all three counts.
    pub(super) const fn total(self) -> usize {
        self.evicted + self.shed + self.rejected
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{completed, evicted, happened, id, queued, shed, started};
    use super::*;

    fn tally(all: &[Happened]) -> Tally {
        let mut tally = Tally::default();
        for happened in all {
            tally.take(happened);
        }
        tally
    }

    #[test]
    fn a_start_counts_as_from_the_queue_only_when_the_container_had_waited() {
        let at_once = happened(10, 0, started(id(1, 2), 0));
        let mut found = tally(&[at_once]);
        assert_eq!(found.first_from_queue(), None);
        found.take(&happened(30, 1, started(id(1, 4), 7)));
        found.take(&happened(20, 2, started(id(1, 3), 5)));
        let first = found.first_from_queue().unwrap();
        assert_eq!((first.node, first.waited_ms), (2, 5));
        assert_eq!(found.queue_waits_ms(), [0, 5, 7]);
    }

    #[test]
    fn evictions_belong_to_the_application_that_they_are_for() {
        let found = tally(&[
            happened(1, 0, evicted(id(1, 3), id(2, 2), 40)),
            happened(1, 0, evicted(id(1, 2), id(3, 2), 50)),
        ]);
        let losses = found.evicted_for(id(2, 2).application_id());
        assert_eq!(losses.len(), 1);
        assert_eq!(losses[0].id, id(1, 3));
        assert_eq!(found.losses().evicted, 2);
    }

    #[test]
    fn a_master_is_not_the_task_of_its_application() {
        let master = Happened {
            what: What::Decided(Note::Started {
                id: id(2, 1),
                execution_type: ExecutionType::Guaranteed,
                queue_wait_ms: 0,
                reported_wait_ms: None,
                estimated_wait_ms: None,
                resumed: false,
            }),
            ..happened(1, 0, queued(id(1, 2)))
        };
        let mut found = tally(&[master]);
        let application = id(2, 1).application_id();
        assert_eq!(found.start_of_task(application), None);
        found.take(&happened(5, 1, started(id(2, 2), 0)));
        assert_eq!(
            found.start_of_task(application).map(|start| start.node),
            Some(1)
        );
    }

    #[test]
    fn what_is_placed_beyond_the_tasks_is_placed_again() {
        let found = tally(&[
            happened(1, 0, queued(id(1, 2))),
            happened(1, 1, queued(id(1, 3))),
            happened(2, 0, started(id(1, 2), 1)),
            happened(2, 1, shed(id(1, 3), 0)),
            happened(3, 2, queued(id(1, 4))),
        ]);
        assert_eq!(found.placed_again(2), [2]);
        assert_eq!(found.losses().total(), 1);
    }

    #[test]
    fn a_container_that_ended_well_as_it_was_evicted_is_not_lost() {
        let found = tally(&[
            happened(1, 0, started(id(1, 2), 0)),
            happened(2, 0, evicted(id(1, 2), id(2, 2), 9)),
            happened(2, 0, completed(id(1, 2), 0)),
        ]);
        assert_eq!((found.losses().total(), found.lost().total()), (1, 0));
    }

    #[test]
    fn sheds_count_from_the_time_asked_for() {
        let found = tally(&[
            happened(1, 0, shed(id(1, 2), 4)),
            happened(9, 1, shed(id(1, 3), 4)),
        ]);
        let late = found.shed_since(EpochMillis(5));
        assert_eq!(late.iter().map(|loss| loss.node).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn only_opportunistic_containers_that_ended_well_have_succeeded() {
        let found = tally(&[
            happened(1, 0, started(id(1, 2), 0)),
            happened(2, 0, completed(id(1, 2), 0)),
            happened(1, 0, started(id(1, 3), 0)),
            happened(2, 0, completed(id(1, 3), 1)),
            happened(2, 0, completed(id(1, 1), 0)),
        ]);
        assert_eq!(found.succeeded(), 1);
    }
}
