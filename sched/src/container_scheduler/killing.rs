//! Kills: on request, by eviction, by shedding and by rejection.

use records::{ApplicationId, ContainerId};

use super::room::Change;
use super::{ContainerScheduler, Turn};
use crate::action::{Action, KillReason, Note, PauseEnd, Refusal, RejectReason};
use crate::container_state::{ContainerState as S, Ending, Phase, Step};
use crate::kill_cause::KillCause;
use crate::timers::Timer;

impl ContainerScheduler {
    pub(super) fn kill_on_request(
        &mut self,
        id: ContainerId,
        reason: KillReason,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        self.known(id)?;
        self.kill(id, KillCause::Asked(reason), turn);
        Ok(Change::Other)
    }

    /// Kills every container of an application. None of them starts in the resources of another,
    /// because the scheduler settles only after the last kill.
    pub(super) fn kill_application(
        &mut self,
        application_id: ApplicationId,
        reason: KillReason,
        turn: &mut Turn<'_>,
    ) {
        let bound = |attempt_id, id| application_id.attempt(attempt_id).container(id);
        let range = bound(i32::MIN, i64::MIN)..=bound(i32::MAX, i64::MAX);
        let ids: Vec<ContainerId> = self.containers.range(range).map(|(id, _)| *id).collect();
        for id in ids {
            self.kill(id, KillCause::Asked(reason), turn);
        }
    }

    /// Kills a container in any state. A container that is being killed, or has ended, keeps its
    /// first cause.
    ///
    /// An unanswered launch is terminated at once, not after its answer: the launcher then may skip
    /// creating the process, and an existing process gets its signal without the delay of a round
    /// trip.
    pub(super) fn kill(&mut self, id: ContainerId, cause: KillCause, turn: &mut Turn<'_>) {
        let Some(state) = self.state(id) else { return };
        match state.phase() {
            Phase::Unstarted | Phase::Relaunching => {
                self.apply_cause(id, cause, turn);
                let localizing = state == S::Localizing;
                self.add_diagnostics(id, cause.before_launch(localizing), turn.now);
                self.end(id, Ending::Killed, turn);
            }
            Phase::Active | Phase::Restarting => {
                if cause.has_typical_run_time() {
                    self.record_run_time(id, turn.now.mono);
                }
                self.apply_cause(id, cause, turn);
                self.timers.cancel(Timer::PauseEnd(id));
                self.step(id, Step::Kill, turn.now);
                self.order_end(id, cause.is_urgent(), turn);
            }
            Phase::Killing | Phase::Gone | Phase::Ended => {}
        }
    }

    fn apply_cause(&mut self, id: ContainerId, cause: KillCause, turn: &Turn<'_>) {
        self.set_exit_status(id, cause.exit_status());
        self.add_diagnostics(id, &cause.diagnostics(), turn.now);
    }

    /// Orders the end of a container's processes: by SIGKILL at once, or by SIGTERM and after the
    /// delay SIGKILL. A container that is killed while it restarts keeps the time of its SIGKILL.
    pub(super) fn order_end(&mut self, id: ContainerId, urgent: bool, turn: &mut Turn<'_>) {
        let delay_ms = self.config.sigkill_delay_ms;
        if delay_ms == 0 || urgent {
            self.timers.cancel(Timer::ForceKill(id));
            turn.order(Action::ForceKill(id));
        } else {
            self.timers
                .set_first(Timer::ForceKill(id), turn.now.mono + delay_ms);
            turn.order(Action::Terminate(id));
        }
    }

    /// Ends a container that has no process, or none any more. Frees its allocation now, before the
    /// clean-up.
    pub(super) fn end(&mut self, id: ContainerId, ending: Ending, turn: &mut Turn<'_>) {
        self.timers.cancel(Timer::ForceKill(id));
        self.timers.cancel(Timer::PauseEnd(id));
        self.timers.cancel(Timer::Retry(id));
        self.step(id, Step::End(ending), turn.now);
        turn.order(Action::CleanUp(id));
    }

    /// Kills a container that can no longer stay frozen.
    pub(super) fn end_pause(&mut self, id: ContainerId, reason: PauseEnd, turn: &mut Turn<'_>) {
        let Some(container) = self.containers.get(&id) else {
            return;
        };
        let paused_ms = turn.now.mono.since(container.since);
        let ran_ms = container.ran_ms(turn.now.mono);
        turn.note(Note::PausedKilled {
            id,
            reason,
            paused_ms,
            ran_ms,
        });
        self.kill(id, KillCause::PauseEnded { reason, paused_ms }, turn);
    }

    /// Kills an opportunistic container that may not wait, or may not wait any longer.
    pub(super) fn reject(&mut self, id: ContainerId, reason: RejectReason, turn: &mut Turn<'_>) {
        let Some(asked) = self
            .containers
            .get(&id)
            .map(|container| container.spec.resource)
        else {
            return;
        };
        turn.note(Note::Rejected { id, reason });
        self.kill(
            id,
            KillCause::Rejected {
                reason,
                asked,
                node: self.node,
            },
            turn,
        );
    }
}
