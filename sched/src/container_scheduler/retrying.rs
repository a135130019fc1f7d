//! Further starts of a container whose process failed.

use records::{ContainerExitStatus, ContainerId};

use super::room::Change;
use super::{ContainerScheduler, Turn};
use crate::action::{Action, Note, Refusal};
use crate::container_state::{ContainerState as S, Phase, Step};
use crate::retry::{ContainerRetryContext, Retries, RetryOn, is_failure};
use crate::timers::Timer;

/// Text before the diagnostics of each attempt of a container with a retry policy (Hadoop:
/// `ContainerImpl.RetryFailureTransition`).
const FROM_ATTEMPT: &str = "Diagnostic message from attempt : ";

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
            container.retries = Retries::new(ContainerRetryContext {
                interval_ms,
                ..policy
            });
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
        if failed && container.retries.policy().on != RetryOn::Never {
            self.add_diagnostics(id, FROM_ATTEMPT, turn.now);
        }
        self.add_diagnostics(id, diagnostics, turn.now);
        let Some(retry) = retry.flatten() else {
            self.end_with_status(id, killing, status, turn);
            return Change::Other;
        };
        self.set_exit_status(id, status);
        self.timers.cancel(Timer::PauseEnd(id));
        turn.note(Note::Retried {
            id,
            status,
            after_ms: retry.after_ms,
            remaining: retry.remaining,
        });
        if !state.holds_room() {
            let place = self.allocate_place();
            self.step(id, Step::Requeue { place }, turn.now);
            return Change::Joined(id);
        }
        let order = state.can_evict();
        let order = order.unwrap_or_else(|| self.allocate_place());
        self.step(id, Step::AwaitRetry { order }, turn.now);
        let at = turn.now.mono + retry.after_ms;
        self.timers.set(Timer::Retry(id), at);
        Change::Other
    }

    /// Launches a container again, in the allocation that it kept.
    pub(super) fn relaunch(&mut self, id: ContainerId, turn: &mut Turn<'_>) {
        if matches!(self.state(id), Some(S::Relaunching { .. })) {
            self.step(id, Step::Relaunch, turn.now);
            turn.order(Action::Launch(id));
        }
    }
}
