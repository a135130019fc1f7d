//! The same events once more: the same actions, or where they part.

use std::fmt;

use sched::{Action, ContainerScheduler, SchedulerSnapshot, SnapshotError};

use crate::form::{Begin, Step};

/// A scheduler that gets recorded events.
#[derive(Debug)]
pub struct Replay {
    scheduler: ContainerScheduler,
    steps: u64,
}

/// Difference between a record and its replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parted {
    /// The actions of a step differ.
    Actions {
        /// Step of the record.
        step: Box<Step>,
        /// Actions of the replay; `None`: it refused the event.
        replayed: Option<Vec<Action>>,
    },
    /// A file that goes on where another ends begins with another state.
    State,
}

impl fmt::Display for Parted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Actions { step, replayed } => {
                let recorded = (!step.refused).then_some(&step.actions);
                let (input, at) = (&step.input, step.at.mono.0);
                let shown = |actions: Option<&Vec<Action>>| match actions {
                    None => "refused".to_owned(),
                    Some(actions) => format!("{actions:?}").chars().take(2_000).collect(),
                };
                write!(
                    f,
                    "at {at} ms, {input:?}\n  recorded: {}\n  replayed: {}",
                    shown(recorded),
                    shown(replayed.as_ref())
                )
            }
            Self::State => f.write_str("the file begins with another state than the replay has"),
        }
    }
}

impl Replay {
    /// Begins with the state of a file.
    ///
    /// # Errors
    /// [`SnapshotError`]: no scheduler has this state.
    pub fn new(begin: &Begin) -> Result<Self, SnapshotError> {
        let scheduler = ContainerScheduler::from_snapshot(&begin.scheduler)?;
        Ok(Self {
            scheduler,
            steps: 0,
        })
    }

    /// Plays a step.
    ///
    /// # Errors
    /// [`Parted`]: the actions are not those of the record.
    pub fn step(&mut self, step: &Step) -> Result<(), Parted> {
        self.steps += 1;
        let replayed = step.input.clone().play(&mut self.scheduler, step.at);
        let is_same = match &replayed {
            None => step.refused,
            Some(actions) => !step.refused && *actions == step.actions,
        };
        if is_same {
            return Ok(());
        }
        let step = Box::new(step.clone());
        Err(Parted::Actions { step, replayed })
    }

    /// Goes on with the file that follows.
    ///
    /// # Errors
    /// [`Parted`]: it begins with another state.
    pub fn follow(&mut self, begin: &Begin) -> Result<(), Parted> {
        if self.scheduler.snapshot() == begin.scheduler {
            return Ok(());
        }
        Err(Parted::State)
    }

    /// Returns the number of steps so far.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the present state.
    #[must_use]
    pub fn snapshot(&self) -> SchedulerSnapshot {
        self.scheduler.snapshot()
    }
}
