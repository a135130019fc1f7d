//! The record of one container.

use records::{ContainerExitStatus, MonoMillis};

use crate::action::{ContainerSpec, ContainerSummary, ContainerView};
use crate::container_state::ContainerState;
use crate::diagnostics::Diagnostics;

/// How long a container in the queue was expected to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Estimate {
    /// It was not looked at since it joined.
    Open,
    /// When it was, nothing was known of run times.
    Unknown,
    /// Milliseconds from when it joined.
    Wait(u64),
}

/// What the scheduler knows of one container.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) spec: ContainerSpec,
    pub(crate) state: ContainerState,
    /// When the state was entered.
    pub(crate) since: MonoMillis,
    /// Milliseconds that it ran before its current state, over all its thaws.
    ran_before_ms: u64,
    /// When it joined the queue of its type; for one that is frozen, when it was.
    pub(crate) joined: MonoMillis,
    /// Milliseconds that the ResourceManager was told a new container would wait when this one became ready.
    pub(crate) told_wait_ms: Option<u64>,
    /// What was expected of this one with the first heartbeat after it joined.
    pub(crate) estimate: Estimate,
    pub(crate) exit_status: ContainerExitStatus,
    pub(crate) diagnostics: Diagnostics,
    /// Nobody will ask for it once it is done.
    pub(crate) forget_when_done: bool,
}

impl Container {
    /// One that has just been accepted.
    pub(crate) fn new(spec: ContainerSpec, now: MonoMillis) -> Self {
        Self {
            spec,
            state: ContainerState::Localizing,
            since: now,
            ran_before_ms: 0,
            joined: now,
            told_wait_ms: None,
            estimate: Estimate::Open,
            exit_status: ContainerExitStatus::INVALID,
            diagnostics: Diagnostics::default(),
            forget_when_done: false,
        }
    }

    /// Milliseconds that it has run so far: with a process that was not frozen and not told to end.
    pub(crate) fn ran_ms(&self, now: MonoMillis) -> u64 {
        let runs = matches!(self.state, ContainerState::Running { .. });
        self.ran_before_ms + if runs { now.since(self.since) } else { 0 }
    }

    /// Enters a state. A new place in a queue is not a new state.
    pub(crate) fn enter(&mut self, state: ContainerState, now: MonoMillis) {
        let moved_up = self.state.waits_at().is_some() && state.waits_at().is_some();
        if !moved_up {
            self.ran_before_ms = self.ran_ms(now);
            self.since = now;
            self.joined = now;
        }
        self.state = state;
    }

    /// As others may see it, without what is said of it.
    pub(crate) fn summary(&self) -> ContainerSummary {
        ContainerSummary {
            spec: self.spec,
            state: self.state,
            since: self.since,
        }
    }

    /// As others may see it.
    pub(crate) fn view(&self) -> ContainerView {
        ContainerView {
            spec: self.spec,
            state: self.state,
            exit_status: self.exit_status,
            diagnostics: self.diagnostics.as_str().to_owned(),
            since: self.since,
        }
    }
}
