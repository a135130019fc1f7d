//! Calls of AMs about existing containers: stop, status, update, signal. Authorization is by
//! application.

use std::sync::Arc;

use container_runtime::launch::ContainerSignal;
use localize::SetNumber;
use records::{ApplicationAttemptId, ContainerId, ContainerState, ExecutionType, Now};
use sched::{Event, KillReason};
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::ContainerStatusProto;

use super::admit::{Purpose, authorize_token, refusal_to_exception, yarn_exception};
use super::diagnostics_budget::{ANSWER_DIAGNOSTICS_BYTES_MAX, keep_end};
use super::effect::{Effect, Observed};
use super::{Asker, Core};
use crate::call::UpdateRequest;
use crate::messages::Increase;

impl Core {
    /// `stopContainers` for one container: kills it with -105. Stopping one that stopped lately is
    /// a success.
    ///
    /// # Errors
    /// `YarnException` when the container is unknown or another application's.
    pub fn stop_container(
        &mut self,
        asker: Asker,
        id: ContainerId,
        now: Now,
    ) -> Result<(), RemoteException> {
        authorize(asker.attempt, &id, "stop")?;
        if !self.containers.contains_key(&id) {
            return if self.ledger.is_recently_stopped(&id, now.mono) {
                Ok(())
            } else {
                Err(unknown(&id))
            };
        }
        self.observe(Observed::StopRequested { id, asker });
        let reason = KillReason::ApplicationMaster;
        self.must_feed(Event::Kill { id, reason }, now);
        Ok(())
    }

    /// `getContainerStatuses`: one answer each, in order, with the errors of
    /// [`Self::container_status`]. Diagnostics that together exceed an answer keep their ends.
    #[must_use]
    pub fn container_statuses(
        &self,
        asker: Asker,
        ids: &[ContainerId],
        now: Now,
    ) -> Vec<Result<ContainerStatusProto, RemoteException>> {
        let share = ANSWER_DIAGNOSTICS_BYTES_MAX / ids.len().max(1);
        let statuses = ids.iter().map(|id| {
            let mut status = self.container_status(asker, *id, now)?;
            if let Some(text) = &mut status.diagnostics {
                keep_end(text, share);
            }
            Ok(status)
        });
        statuses.collect()
    }

    /// Returns the status of one container, for `getContainerStatuses`.
    ///
    /// # Errors
    /// `YarnException` with Hadoop's texts when it is unknown, stopped and forgotten, or another
    /// application's.
    pub fn container_status(
        &self,
        asker: Asker,
        id: ContainerId,
        now: Now,
    ) -> Result<ContainerStatusProto, RemoteException> {
        authorize(asker.attempt, &id, "get status for")?;
        self.require_known(&id, now)?;
        let status = self.status_of(&id).ok_or_else(|| unknown(&id))?;
        Ok(status.into_message(&self.config.machine))
    }

    /// `getLocalizationStatuses`: the last of each container's sets of resources, in order, of
    /// which the localizer knows the statuses, with the errors of [`Self::container_status`].
    #[must_use]
    pub fn localization_sets(
        &self,
        asker: Asker,
        ids: Vec<ContainerId>,
        now: Now,
    ) -> Vec<Result<(ContainerId, SetNumber), RemoteException>> {
        let checked = ids.into_iter().map(|id| {
            authorize(asker.attempt, &id, "get status for")?;
            self.require_known(&id, now)?;
            let container = self.containers.get(&id);
            let set = container.map(|container| container.setups.set());
            Ok((id, set.unwrap_or_default()))
        });
        checked.collect()
    }

    /// `updateContainer` for one container, its token verified: a new size, a new execution type,
    /// or both.
    ///
    /// # Errors
    /// As for a start, and `YarnException` when the version is not newer or an increase is still
    /// unreported.
    pub fn update_container(
        &mut self,
        asker: Asker,
        request: UpdateRequest,
        now: Now,
    ) -> Result<(), RemoteException> {
        let id = request.spec.id;
        authorize_token(Purpose::Update, asker.attempt, &id)?;
        self.check_expiry_and_registration(Purpose::Update, &request.token, &id, now.wall)?;
        self.attempts.remember(asker.attempt, asker.key_id)?;
        self.require_known(&id, now)?;
        self.update(request, now)
    }

    /// Applies an update from an AM or from the ResourceManager.
    pub(super) fn update(
        &mut self,
        request: UpdateRequest,
        now: Now,
    ) -> Result<(), RemoteException> {
        let UpdateRequest {
            spec,
            token,
            identifier,
        } = request;
        let id = spec.id;
        let view = self.scheduler.container(&id).ok_or_else(|| unknown(&id))?;
        let before = view.spec;
        let grows = before.resource != spec.resource && before.resource.fits_in(spec.resource);
        let promoted = before.execution_type == ExecutionType::Opportunistic
            && spec.execution_type == ExecutionType::Guaranteed;
        if (grows || promoted) && self.increases.has(&id) {
            return Err(yarn_exception(format!(
                "Container {id} resource is being increased -or- is undergoing ExecutionType promoted."
            )));
        }
        self.feed(Event::Update(spec), now)
            .map_err(|refusal| refusal_to_exception(&refusal))?;
        if let Some(container) = self.containers.get_mut(&id) {
            container.facts = Arc::new(token.facts);
            // The increase of a container that has ended is of no use to its AM.
            if grows && view.state.container_state() != ContainerState::Complete {
                let facts = Arc::clone(&container.facts);
                self.increases.add(Increase { spec, facts });
            }
        }
        self.recorder.updated(id, identifier);
        self.remember([id], now);
        Ok(())
    }

    /// `signalToContainer`, from an AM or a heartbeat. Unknown and not yet launched containers are
    /// passed over.
    pub fn signal(&mut self, id: ContainerId, signal: ContainerSignal) {
        let Some(container) = self.containers.get(&id) else {
            return;
        };
        let user = container.user.clone();
        self.effects.push(Effect::Signal { id, user, signal });
    }

    fn require_known(&self, id: &ContainerId, now: Now) -> Result<(), RemoteException> {
        if self.containers.contains_key(id) {
            Ok(())
        } else if self.ledger.is_recently_stopped(id, now.mono) {
            Err(yarn_exception(format!(
                "Container {id} was recently stopped on node manager."
            )))
        } else {
            Err(unknown(id))
        }
    }
}

/// Checks that a container is one of the caller's application. Comes before all other checks, so
/// that a caller cannot learn which containers of other applications are here.
fn authorize(
    attempt: ApplicationAttemptId,
    id: &ContainerId,
    what: &str,
) -> Result<(), RemoteException> {
    if attempt.application_id == id.application_id() {
        Ok(())
    } else {
        Err(yarn_exception(format!(
            "{attempt} attempted to {what} non-application container : {id}"
        )))
    }
}

fn unknown(id: &ContainerId) -> RemoteException {
    yarn_exception(format!("Container {id} is not handled by this NodeManager"))
}
