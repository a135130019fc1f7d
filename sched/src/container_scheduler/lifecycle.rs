//! Events of one container: acceptance, localization, launch, pause, update, exit, clean-up.
//!
//! An answer may arrive after its container was killed. Such a late answer is accepted and changes
//! nothing. An answer that no action explains is refused.

use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis};

use super::room::Change;
use super::{ContainerScheduler, Turn};
use crate::action::{Action, Completion, Note, Refusal};
use crate::admission;
use crate::config::CONTAINERS_MAX;
use crate::container::{Container, EarlierPause, Estimate};
use crate::container_spec::ContainerSpec;
use crate::container_state::{ContainerState as S, Ending, Phase, Step};
use crate::kill_cause::{KILLED_BY_EXTERNAL_SIGNAL, KillCause};
use crate::timers::Timer;

impl ContainerScheduler {
    pub(super) fn start(
        &mut self,
        spec: ContainerSpec,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        if self.containers.contains_key(&spec.id) {
            return Err(Refusal::AlreadyKnown(spec.id));
        }
        if self.containers.len() >= CONTAINERS_MAX {
            return Err(Refusal::TooManyContainers(self.containers.len()));
        }
        let container = Container::new(spec, turn.now.mono);
        self.index.insert(&container.spec, container.state);
        self.containers.insert(spec.id, container);
        turn.order(Action::Localize(spec.id));
        Ok(Change::Other)
    }

    /// Moves a localized container to the queue of its type; `settle` starts it if it fits.
    pub(super) fn localized(
        &mut self,
        id: ContainerId,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        let Some(container) = self.localizing(id, "Localized")? else {
            return Ok(Change::Other);
        };
        let spec = container.spec;
        if self.refuses_newcomer(spec, turn) {
            return Ok(Change::Other);
        }
        if spec.execution_type == ExecutionType::Opportunistic {
            let amount = self.index.amount(&spec);
            let admitted = admission::admit(&self.config, amount, &self.index, self.node_amount());
            if let Err(reason) = admitted {
                self.reject(id, reason, turn);
                return Ok(Change::Other);
            }
        }
        let place = self.next_place(&spec, turn.now.mono);
        self.step(id, Step::Enqueue { place }, turn.now);
        if let Some(container) = self.containers.get_mut(&id)
            && spec.execution_type == ExecutionType::Opportunistic
        {
            container.reported_wait_ms = self.estimated_wait_ms;
            self.typical_ask = spec.resource;
        }
        Ok(Change::Joined(id))
    }

    /// Returns a container whose resources are being localized; `None` for one that has ended
    /// meanwhile.
    fn localizing(
        &self,
        id: ContainerId,
        event: &'static str,
    ) -> Result<Option<&Container>, Refusal> {
        let container = self.known(id)?;
        match container.state.phase() {
            Phase::Unstarted if container.state == S::Localizing => Ok(Some(container)),
            Phase::Ended => Ok(None),
            Phase::Unstarted
            | Phase::Active
            | Phase::Relaunching
            | Phase::Restarting
            | Phase::Killing
            | Phase::Gone => Err(unexpected(container, event)),
        }
    }

    pub(super) fn localization_failed(
        &mut self,
        id: ContainerId,
        diagnostics: &str,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        if self.localizing(id, "LocalizationFailed")?.is_none() {
            return Ok(Change::Other);
        }
        // The status stays INVALID (-1000), as in Hadoop.
        self.add_diagnostics(id, diagnostics, turn.now);
        self.end(id, Ending::LocalizationFailed, turn);
        Ok(Change::Other)
    }

    pub(super) fn launched(
        &mut self,
        id: ContainerId,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        let container = self.known(id)?;
        match container.state.phase() {
            Phase::Active if matches!(container.state, S::Launching { .. }) => {
                self.step(id, Step::Launched, turn.now);
            }
            Phase::Killing | Phase::Gone | Phase::Ended => {}
            Phase::Unstarted | Phase::Active | Phase::Relaunching | Phase::Restarting => {
                return Err(unexpected(container, "Launched"));
            }
        }
        Ok(Change::Other)
    }

    pub(super) fn launch_failed(
        &mut self,
        id: ContainerId,
        status: ContainerExitStatus,
        diagnostics: &str,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        let container = self.known(id)?;
        let killing = match container.state.phase() {
            Phase::Active if matches!(container.state, S::Launching { .. }) => false,
            Phase::Killing => true,
            Phase::Unstarted
            | Phase::Active
            | Phase::Relaunching
            | Phase::Restarting
            | Phase::Gone
            | Phase::Ended => {
                return Err(unexpected(container, "LaunchFailed"));
            }
        };
        Ok(self.end_attempt(id, killing, status, diagnostics, turn))
    }

    /// Frees the allocation of a container without processes, before its output has been read. A
    /// container that may be retried keeps the allocation until its exit status is known.
    pub(super) fn processes_gone(
        &mut self,
        id: ContainerId,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        let container = self.known(id)?;
        match container.state.phase() {
            Phase::Active if container.may_start_again() => return Ok(Change::Other),
            Phase::Restarting => return Ok(Change::Other),
            Phase::Active => self.record_run_time(id, turn.now.mono),
            Phase::Killing => {}
            Phase::Unstarted | Phase::Relaunching | Phase::Gone | Phase::Ended => {
                return Err(unexpected(container, "ProcessesGone"));
            }
        }
        self.timers.cancel(Timer::ForceKill(id));
        self.timers.cancel(Timer::PauseEnd(id));
        self.step(id, Step::Gone, turn.now);
        Ok(Change::Other)
    }

    pub(super) fn exited(
        &mut self,
        id: ContainerId,
        status: ContainerExitStatus,
        diagnostics: &str,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        let container = self.known(id)?;
        let phase = container.state.phase();
        let killing = match phase {
            // However the process ended, the container goes on (Hadoop:
            // `KilledForReInitializationTransition`).
            Phase::Restarting => return Ok(self.requeue(id, turn)),
            Phase::Active => false,
            Phase::Killing => true,
            Phase::Gone => container.state == S::Gone { killed: true },
            Phase::Unstarted | Phase::Relaunching | Phase::Ended => {
                return Err(unexpected(container, "Exited"));
            }
        };
        if phase == Phase::Active {
            self.record_run_time(id, turn.now.mono);
        }
        let change = self.end_attempt(id, killing, status, diagnostics, turn);
        if !killing && status.is_signalled() {
            self.add_diagnostics(id, KILLED_BY_EXTERNAL_SIGNAL, turn.now);
        }
        Ok(change)
    }

    /// Sets the final exit status and ends the container. The status of a process that ended by
    /// itself counts even after a kill was ordered: 0 is success. A process ended by SIGTERM or
    /// SIGKILL after such an order keeps the status of the order.
    pub(super) fn end_with_status(
        &mut self,
        id: ContainerId,
        killing: bool,
        status: ContainerExitStatus,
        turn: &mut Turn<'_>,
    ) {
        let ending = if killing && status.is_signalled() {
            Ending::Killed
        } else {
            self.set_exit_status(id, status);
            if status == ContainerExitStatus::SUCCESS {
                Ending::Succeeded
            } else {
                Ending::Failed
            }
        };
        self.end(id, ending, turn);
    }

    /// Moves a frozen container to the queue of its type, ahead of containers that have not
    /// started.
    pub(super) fn paused(
        &mut self,
        id: ContainerId,
        held_mb: Option<u64>,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        let container = self.known(id)?;
        match container.state.phase() {
            Phase::Active if container.state == S::Pausing => {
                let spec = container.spec;
                let held_mb = held_mb.unwrap_or(spec.resource.memory_mb);
                let pause = container.earlier_pause;
                let EarlierPause { place, since } = pause.unwrap_or_else(|| EarlierPause {
                    place: self.next_frozen_place(),
                    since: turn.now.mono,
                });
                self.step(id, Step::Paused { place, held_mb }, turn.now);
                self.modify(id, |container| {
                    container.since = since;
                    container.joined = since;
                });
                self.set_pause_timer(spec, since);
                Ok(Change::Joined(id))
            }
            Phase::Relaunching | Phase::Killing | Phase::Gone | Phase::Ended => Ok(Change::Other),
            Phase::Unstarted | Phase::Active | Phase::Restarting => {
                Err(unexpected(container, "Paused"))
            }
        }
    }

    /// Sets the timer that ends the pause of an opportunistic container frozen at `since`. A
    /// guaranteed container, promoted while it was frozen, gets room by eviction and is never
    /// killed for it.
    fn set_pause_timer(&mut self, spec: ContainerSpec, since: MonoMillis) {
        let timer = Timer::PauseEnd(spec.id);
        match spec.execution_type {
            ExecutionType::Guaranteed => self.timers.cancel(timer),
            ExecutionType::Opportunistic => {
                self.timers.set(timer, since + self.config.pause_max_ms);
            }
        }
    }

    /// Updates the memory that a frozen container holds. The container may have been thawed or
    /// killed in the meantime.
    pub(super) fn frozen_memory(
        &mut self,
        id: ContainerId,
        held_mb: u64,
    ) -> Result<Change, Refusal> {
        if let S::Paused { place, .. } = self.known(id)?.state {
            self.modify(id, |container| {
                container.state = S::Paused { place, held_mb };
            });
        }
        Ok(Change::Other)
    }

    pub(super) fn resumed(
        &mut self,
        id: ContainerId,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        let container = self.known(id)?;
        match container.state.phase() {
            Phase::Active if matches!(container.state, S::Resuming { .. }) => {
                self.step(id, Step::Resumed, turn.now);
            }
            // The container was chosen as a victim again before this answer.
            Phase::Active if container.state == S::Pausing => {}
            Phase::Relaunching | Phase::Killing | Phase::Gone | Phase::Ended => {}
            Phase::Unstarted | Phase::Active | Phase::Restarting => {
                return Err(unexpected(container, "Resumed"));
            }
        }
        Ok(Change::Other)
    }

    pub(super) fn pause_failed(
        &mut self,
        id: ContainerId,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        let container = self.known(id)?;
        match container.state.phase() {
            Phase::Active if matches!(container.state, S::Pausing | S::Resuming { .. }) => {
                self.kill(id, KillCause::PauseFailed, turn);
            }
            Phase::Relaunching | Phase::Killing | Phase::Gone | Phase::Ended => {}
            Phase::Unstarted | Phase::Active | Phase::Restarting => {
                return Err(unexpected(container, "PauseFailed"));
            }
        }
        Ok(Change::Other)
    }

    pub(super) fn cleaned_up(
        &mut self,
        id: ContainerId,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        let container = self.known(id)?;
        if !matches!(container.state, S::Completing(_)) {
            return Err(unexpected(container, "CleanedUp"));
        }
        let completion = Completion {
            id,
            exit_status: container.exit_status,
            execution_type: container.spec.execution_type,
        };
        let forget = container.forget_when_done;
        self.step(id, Step::CleanedUp, turn.now);
        turn.order(Action::Completed(completion));
        if forget {
            self.drop_container(id);
        }
        Ok(Change::Other)
    }

    pub(super) fn forget(&mut self, id: ContainerId) -> Result<Change, Refusal> {
        if matches!(self.known(id)?.state, S::Done(_)) {
            self.drop_container(id);
        } else if let Some(container) = self.containers.get_mut(&id) {
            container.forget_when_done = true;
        }
        Ok(Change::Other)
    }

    pub(super) fn annotate(
        &mut self,
        id: ContainerId,
        diagnostics: &str,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        if !matches!(self.known(id)?.state, S::Done(_)) {
            self.add_diagnostics(id, diagnostics, turn.now);
        }
        Ok(Change::Other)
    }

    fn drop_container(&mut self, id: ContainerId) {
        if let Some(container) = self.containers.remove(&id) {
            self.index.remove(&container.spec, container.state);
        }
    }

    /// Applies a new size, type or both. A waiting container whose type changes joins the end of
    /// the other queue.
    pub(super) fn update(
        &mut self,
        spec: ContainerSpec,
        turn: &mut Turn<'_>,
    ) -> Result<Change, Refusal> {
        let id = spec.id;
        let Container {
            spec: old,
            state,
            since,
            ..
        } = *self.known(id)?;
        if spec.version <= old.version {
            return Err(Refusal::VersionNotGreater {
                id,
                current: old.version,
                requested: spec.version,
            });
        }
        let type_changed = spec.execution_type != old.execution_type;
        // A place is taken only if the container moves, so that the numbers have no unexplained
        // gaps.
        let place = match state.waits_at() {
            Some(_) if !type_changed => None,
            Some(_) if state.frozen_mb().is_some() => Some(self.next_frozen_place()),
            Some(_) => Some(self.next_place(&spec, turn.now.mono)),
            None => None,
        };
        self.modify(id, |container| {
            container.spec = spec;
            if let Some(place) = place {
                container.joined = turn.now.mono;
                container.passed_until = None;
                container.reported_wait_ms = None;
                container.estimate = Estimate::Open;
                container.state = state
                    .after(Step::Enqueue { place })
                    .expect("a waiting container may join the other queue");
            }
        });
        if type_changed && matches!(state, S::Paused { .. }) {
            self.set_pause_timer(spec, since);
        }
        if state.has_limits() && (type_changed || spec.resource != old.resource) {
            turn.order(Action::ApplyLimits(spec));
        }
        if type_changed && !state.has_ended() {
            turn.note(match spec.execution_type {
                ExecutionType::Guaranteed => Note::Promoted(id),
                ExecutionType::Opportunistic => Note::Demoted(id),
            });
        }
        if type_changed {
            self.end_if_drained(id, turn);
        }
        let grew = !spec.resource.fits_in(old.resource);
        Ok(if place.is_some() {
            Change::Joined(id)
        } else if grew && state.waits_at().is_some() {
            Change::GrewWaiting(id)
        } else if grew && state.holds_room() {
            Change::GrewRunning(id)
        } else {
            Change::Other
        })
    }
}

fn unexpected(container: &Container, answer: &'static str) -> Refusal {
    Refusal::UnexpectedAnswer {
        id: container.spec.id,
        state: container.state.rest_state(),
        answer,
    }
}
