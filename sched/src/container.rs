//! State of one container.

use records::{ContainerExitStatus, MonoMillis};
use serde::{Deserialize, Serialize};

use crate::container_spec::ContainerSpec;
use crate::container_state::ContainerState;
use crate::diagnostics::Diagnostics;
use crate::queue_order::{QueuePlace, is_zero};
use crate::retry::Retries;
use crate::run_profile::RunProfile;
use crate::view::{ContainerSummary, ContainerView};

/// Estimated wait of a queued container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Estimate {
    /// No estimate was made since the container joined the queue.
    Open,
    /// Estimated when no run time was known.
    Unknown,
    /// Milliseconds from joining the queue to the start.
    Wait(u64),
}

/// Pause in an earlier run of the agent, which goes on once the container is frozen again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EarlierPause {
    /// Place among the waiting containers.
    pub(crate) place: QueuePlace,
    /// Time at which the pause began.
    pub(crate) since: MonoMillis,
}

/// State of one container that the scheduler keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Container {
    pub(crate) spec: ContainerSpec,
    pub(crate) state: ContainerState,
    /// Time at which the state was entered.
    pub(crate) since: MonoMillis,
    /// Milliseconds that the container ran before its current state, pauses excluded.
    ran_before_ms: u64,
    /// Time of joining the queue of its type; for a frozen container, of being frozen.
    pub(crate) joined: MonoMillis,
    /// Wait of a new container, in milliseconds, that the last heartbeat before this container was
    /// localized reported to the ResourceManager.
    pub(crate) reported_wait_ms: Option<u64>,
    /// Estimate made with the first heartbeat after the container joined the queue.
    pub(crate) estimate: Estimate,
    /// Pause before the container was taken over; dropped with the state that it was taken over in.
    pub(crate) earlier_pause: Option<EarlierPause>,
    pub(crate) exit_status: ContainerExitStatus,
    #[serde(skip)]
    pub(crate) diagnostics: Diagnostics,
    /// Time, in milliseconds, at which the container would start in the order of arrival, as
    /// foreseen when it began to wait. 0 unless an order needs it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) fifo_start_ms: u64,
    /// Time until which others that do not delay it may pass the container, since it was first
    /// passed because it did not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) passed_until: Option<MonoMillis>,
    /// Hints of the launch context about the length of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<RunProfile>,
    /// Retry policy and the retries so far.
    pub(crate) retries: Retries,
    /// Whether a failure leads back to an earlier launch context.
    pub(crate) can_roll_back: bool,
    /// Whether the container is forgotten as soon as it is done.
    pub(crate) forget_when_done: bool,
}

impl Container {
    /// Returns a container that was just accepted.
    pub(crate) fn new(spec: ContainerSpec, now: MonoMillis) -> Self {
        Self {
            spec,
            state: ContainerState::Localizing,
            since: now,
            ran_before_ms: 0,
            joined: now,
            reported_wait_ms: None,
            estimate: Estimate::Open,
            earlier_pause: None,
            exit_status: ContainerExitStatus::INVALID,
            diagnostics: Diagnostics::default(),
            fifo_start_ms: 0,
            passed_until: None,
            profile: None,
            retries: Retries::default(),
            can_roll_back: false,
            forget_when_done: false,
        }
    }

    /// Returns the container without its diagnostics, which no decision depends on.
    pub(crate) fn without_diagnostics(&self) -> Self {
        Self {
            diagnostics: Diagnostics::default(),
            retries: self.retries.clone(),
            ..*self
        }
    }

    /// Returns the milliseconds that the container ran before its current state, pauses excluded.
    pub(crate) const fn ran_before_ms(&self) -> u64 {
        self.ran_before_ms
    }

    /// Returns whether a failure may lead to another launch instead of the container's end.
    pub(crate) fn may_start_again(&self) -> bool {
        self.can_roll_back || self.retries.policy().can_retry()
    }

    /// Returns the milliseconds that the container has run so far: with a process that was neither
    /// frozen nor being killed.
    pub(crate) fn ran_ms(&self, now: MonoMillis) -> u64 {
        let runs = matches!(self.state, ContainerState::Running { .. });
        self.ran_before_ms + if runs { now.since(self.since) } else { 0 }
    }

    /// Enters a state. A new place in a queue is not a new state.
    pub(crate) fn enter(&mut self, state: ContainerState, now: MonoMillis) {
        self.earlier_pause = None;
        self.passed_until = None;
        self.ran_before_ms = self.ran_ms(now);
        self.since = now;
        self.joined = now;
        self.state = state;
    }

    /// Returns the state without the diagnostics.
    pub(crate) fn summary(&self) -> ContainerSummary {
        ContainerSummary {
            spec: self.spec,
            state: self.state,
            since: self.since,
        }
    }

    /// Returns the state with exit status and diagnostics.
    pub(crate) fn view(&self) -> ContainerView {
        ContainerView {
            spec: self.spec,
            state: self.state,
            exit_status: self.exit_status,
            diagnostics: self.diagnostics.as_str().to_owned(),
            since: self.since,
            ran_before_ms: self.ran_before_ms,
        }
    }
}
