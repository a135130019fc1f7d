//! A scheduler and the record of what it gets.
//!
//! Whoever owns it has no other way to the scheduler, so a record is complete. Queries go through
//! [`Deref`].

use std::ops::Deref;

use records::{ContainerName, Now, Resource};
use sched::{Action, ContainerScheduler, Event, LearntRuns, RecoveredContainer, Refusal};

use crate::form::{Entry, Input, Step};

/// A scheduler whose events are recorded, if the node is configured so.
#[derive(Debug)]
pub struct RecordedScheduler {
    scheduler: ContainerScheduler,
    is_recorded: bool,
    /// The next entry is preceded by the state: it is the first, or entries before it are lost.
    is_to_begin: bool,
    entries: Vec<Entry>,
}

impl Deref for RecordedScheduler {
    type Target = ContainerScheduler;

    fn deref(&self) -> &ContainerScheduler {
        &self.scheduler
    }
}

impl RecordedScheduler {
    /// Wraps a scheduler. A record begins with its first entry.
    #[must_use]
    pub const fn new(scheduler: ContainerScheduler, is_recorded: bool) -> Self {
        Self {
            scheduler,
            is_recorded,
            is_to_begin: true,
            entries: Vec::new(),
        }
    }

    /// Has the record begin anew with the next entry.
    pub const fn begin_anew(&mut self) {
        self.is_to_begin = true;
    }

    /// Takes the entries since the last call, in order.
    pub fn take_entries(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }

    /// See [`ContainerScheduler::handle`].
    ///
    /// # Errors
    /// [`Refusal`]: the scheduler did nothing.
    pub fn handle(
        &mut self,
        event: Event,
        now: Now,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        if !self.is_recorded {
            return self.scheduler.handle(event, now, actions);
        }
        self.begin_if_due(now);
        let before = actions.len();
        // Diagnostics are as long as a tenant likes, and no file has them.
        let input = Input::Event(event.without_diagnostics());
        let result = self.scheduler.handle(event, now, actions);
        self.record(input, now, result.is_err(), &actions[before..]);
        result
    }

    /// See [`ContainerScheduler::withhold`].
    pub fn withhold(&mut self, name: ContainerName, resource: Resource, now: Now) {
        if self.is_recorded {
            self.begin_if_due(now);
            self.record(Input::Withhold { name, resource }, now, false, &[]);
        }
        self.scheduler.withhold(name, resource);
    }

    /// See [`ContainerScheduler::give_back`].
    pub fn give_back(&mut self, name: &ContainerName, now: Now, actions: &mut Vec<Action>) {
        if !self.is_recorded {
            return self.scheduler.give_back(name, now, actions);
        }
        self.begin_if_due(now);
        let before = actions.len();
        self.scheduler.give_back(name, now, actions);
        self.record(Input::GiveBack(*name), now, false, &actions[before..]);
    }

    /// See [`ContainerScheduler::recover`]. A record begins after it.
    ///
    /// # Errors
    /// [`Refusal`]: the scheduler did nothing.
    pub fn recover(
        &mut self,
        containers: Vec<RecoveredContainer>,
        now: Now,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        self.begin_anew();
        self.scheduler.recover(containers, now, actions)
    }

    /// See [`ContainerScheduler::recall_runs`]. A record begins after it.
    pub fn recall_runs(&mut self, learnt: &LearntRuns) -> bool {
        self.begin_anew();
        self.scheduler.recall_runs(learnt)
    }

    fn begin_if_due(&mut self, now: Now) {
        if std::mem::take(&mut self.is_to_begin) {
            self.entries.push(Entry::Begin {
                at: now,
                scheduler: Box::new(self.scheduler.snapshot()),
            });
        }
    }

    fn record(&mut self, input: Input, now: Now, refused: bool, actions: &[Action]) {
        let step = Step {
            at: now,
            input,
            refused,
            actions: actions.to_vec(),
        };
        self.entries.push(Entry::Step(Box::new(step)));
    }
}
