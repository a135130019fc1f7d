//! Further starts of a container: after a failure, and in place of a process that was ended for it.

use records::{ContainerExitStatus, ContainerId};

use super::room::Change;
use super::{ContainerScheduler, Turn};
use crate::action::{Action, Note, Refusal};
use crate::container::Estimate;
use crate::container_state::{ContainerState as S, Phase, Step};
use crate::retry::{ContainerRetryContext, GrantedRetries, RetryOn, is_failure};
use crate::timers::Timer;

/// Text before the diagnostics of each attempt of a container with a retry policy (Hadoop:
/// `ContainerImpl.RetryFailureTransition`).
const FROM_ATTEMPT: &str = "Diagnostic message from attempt : ";

/// Text for a container that gets its earlier launch context back (Hadoop: the same transition).
const ROLLED_BACK: &str = "Container Re-init Auto Rolled-Back.";

impl ContainerScheduler {
    pub(super) fn set_retry_policy(
        &mut self,
        id: ContainerId,
        policy: ContainerRetryContext,
    ) -> Result<Change, Refusal> {
        self.known(id)?;
        let interval_ms = policy
            .interval_ms
            .max(self.config.retry_minimum_interval_ms);
        if let Some(container) = self.containers.get_mut(&id) {
            container.retries.follow(ContainerRetryContext {
                interval_ms,
                ..policy
            });
        }
        Ok(Change::Other)
    }

    /// Returns the retries that a container has been granted, unless it is unknown.
    #[must_use]
    pub fn granted_retries(&self, id: &ContainerId) -> Option<GrantedRetries> {
        let container = self.containers.get(id)?;
        Some(container.retries.granted())
    }

    pub(super) fn set_can_roll_back(
        &mut self,
        id: ContainerId,
        can_roll_back: bool,
    ) -> Result<Change, Refusal> {
        self.known(id)?;
        if let Some(container) = self.containers.get_mut(&id) {
            container.can_roll_back = can_roll_back;
        }
        Ok(Change::Other)
    }

    /// Ends the container whose process ended, or lets it wait for its next launch. Only a
    /// container that was neither killed nor reported as gone can be launched again.
    pub(super) fn end_attempt(
        &mut self,
        id: ContainerId,
        killing: bool,
        status: ContainerExitStatus,
        diagnostics: &str,
        turn: &mut Turn<'_>,
    ) -> Change {
        let Some(container) = self.containers.get_mut(&id) else {
            return Change::Other;
        };
        let state = container.state;
        let failed = state.phase() == Phase::Active && is_failure(status);
        let retry = failed.then(|| container.retries.grant(status, turn.now.mono));
        let rolls_back = failed && container.can_roll_back;
        // A policy without retries, too: its container is already reported as gone here.
        let names_attempt = container.retries.policy().on != RetryOn::Never;
        if !killing && is_failure(status) && names_attempt {
            self.add_diagnostics(id, FROM_ATTEMPT, turn.now);
        }
        self.add_diagnostics(id, diagnostics, turn.now);
        if let Some(retry) = retry.flatten() {
            self.set_exit_status(id, status);
            turn.note(Note::Retried {
                id,
                status,
                after_ms: retry.after_ms,
                remaining: retry.remaining,
            });
            self.await_retry(id, state, retry.after_ms, turn)
        } else if rolls_back {
            self.set_exit_status(id, status);
            self.add_diagnostics(id, ROLLED_BACK, turn.now);
            turn.order(Action::RollBack(id));
            self.requeue(id, turn)
        } else {
            self.end_with_status(id, killing, status, turn);
            Change::Other
        }
    }

    /// Lets a failed container wait for its next launch: in its allocation, or for one if it was
    /// frozen.
    fn await_retry(
        &mut self,
        id: ContainerId,
        state: S,
        after_ms: u64,
        turn: &mut Turn<'_>,
    ) -> Change {
        if !state.holds_room() {
            return self.requeue(id, turn);
        }
        let order = state.can_evict();
        let order = order.unwrap_or_else(|| self.allocate_number());
        self.step(id, Step::AwaitRetry { order }, turn.now);
        self.timers.set(Timer::Retry(id), turn.now.mono + after_ms);
        Change::Other
    }

    /// Moves a container without processes to the end of the queue of its type.
    pub(super) fn requeue(&mut self, id: ContainerId, turn: &mut Turn<'_>) -> Change {
        self.timers.cancel(Timer::PauseEnd(id));
        self.timers.cancel(Timer::ForceKill(id));
        if let Some(container) = self.containers.get(&id) {
            let spec = container.spec;
            let place = self.next_place(&spec, turn.now.mono);
            self.step(id, Step::Requeue { place }, turn.now);
        }
        if let Some(container) = self.containers.get_mut(&id) {
            container.reported_wait_ms = None;
            container.estimate = Estimate::Open;
        }
        Change::Joined(id)
    }

    /// Ends the process of a running container, which is launched again afterwards.
    pub(super) fn restart(
        &mut self,
        id: ContainerId,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        let state = self.known(id)?.state;
        if !matches!(state, S::Running { .. }) {
            let state = state.rest_state();
            return Err(Refusal::NotRunning { id, state });
        }
        self.step(id, Step::Restart, turn.now);
        self.order_end(id, false, turn);
        Ok(Change::Other)
    }

    /// Launches a container again, in the allocation that it kept.
    pub(super) fn relaunch(&mut self, id: ContainerId, turn: &mut Turn<'_>) {
        if matches!(self.state(id), Some(S::Relaunching { .. })) {
            self.step(id, Step::Relaunch, turn.now);
            turn.order(Action::Launch(id));
        }
    }
}
