//! Calls of AMs about containers that exist: stop, status, update, signal. All are authorised by application.

use std::sync::Arc;

use records::{ApplicationId, ContainerId, ExecutionType, Now};
use sched::{ContainerSpec, Event, KillReason};
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerStatusProto, ContainerTokenIdentifierProto, LocalizationStatusProto,
};

use super::Core;
use super::admit::{refusal_to_exception, yarn_exception};
use crate::launch::ContainerSignal;

impl Core {
    /// `stopContainers` for one container: kills it with -105. Stopping one that stopped lately is a success.
    ///
    /// # Errors
    /// `YarnException` when the container is unknown or another application's.
    pub fn stop_container(
        &mut self,
        application: ApplicationId,
        id: ContainerId,
        now: Now,
    ) -> Result<(), RemoteException> {
        if !self.containers.contains_key(&id) {
            return if self.ledger.is_recently_stopped(&id, now.mono) {
                Ok(())
            } else {
                Err(yarn_exception(format!(
                    "Container {id} is not handled by this NodeManager"
                )))
            };
        }
        authorize(application, &id, "stop")?;
        if let Some(record) = self.containers.get(&id) {
            crate::audit::stopped(&id, &record.user);
        }
        self.must_feed(
            Event::Kill {
                id,
                reason: KillReason::ApplicationMaster,
            },
            now,
        );
        Ok(())
    }

    /// `getContainerStatuses` for one container.
    ///
    /// # Errors
    /// `YarnException` with Hadoop's texts when it is unknown, stopped and forgotten, or another application's.
    pub fn container_status(
        &self,
        application: ApplicationId,
        id: ContainerId,
        now: Now,
    ) -> Result<ContainerStatusProto, RemoteException> {
        self.require_known(&id, now)?;
        authorize(application, &id, "get status for")?;
        self.status_of(&id).ok_or_else(|| unknown(&id))
    }

    /// `getLocalizationStatuses` for one container.
    ///
    /// # Errors
    /// As [`Self::container_status`].
    pub fn localization_statuses(
        &self,
        application: ApplicationId,
        id: ContainerId,
        now: Now,
    ) -> Result<Vec<LocalizationStatusProto>, RemoteException> {
        self.require_known(&id, now)?;
        authorize(application, &id, "get localization status for")?;
        Ok(self.hands.localization_statuses(&id))
    }

    /// `updateContainer` for one container, its token verified: a new size, a new execution type, or both.
    ///
    /// # Errors
    /// As for a start, and `YarnException` when the version is not newer or an increase is still unreported.
    pub fn update_container(
        &mut self,
        application: ApplicationId,
        spec: ContainerSpec,
        token: Arc<ContainerTokenIdentifierProto>,
        now: Now,
    ) -> Result<(), RemoteException> {
        let id = spec.id;
        if application != id.application_id() {
            return Err(yarn_exception(format!(
                "Unauthorized request to increase container resource. \nApplication {application} does not own container {id}"
            )));
        }
        self.check_expiry_and_registration(&token, &id, now.wall)?;
        self.require_known(&id, now)?;
        self.update(spec, token, now)
    }

    /// Applies an update, of an AM or of the ResourceManager.
    pub(super) fn update(
        &mut self,
        spec: ContainerSpec,
        token: Arc<ContainerTokenIdentifierProto>,
        now: Now,
    ) -> Result<(), RemoteException> {
        let id = spec.id;
        let before = self
            .scheduler
            .container(&id)
            .ok_or_else(|| unknown(&id))?
            .spec;
        let grows = before.resource != spec.resource && before.resource.fits_in(spec.resource);
        let promoted = before.execution_type == ExecutionType::Opportunistic
            && spec.execution_type == ExecutionType::Guaranteed;
        if (grows || promoted) && self.increased.contains_key(&id) {
            return Err(yarn_exception(format!(
                "Container {id} resource is being increased -or- is undergoing ExecutionType promoted."
            )));
        }
        self.feed(Event::Update(spec), now)
            .map_err(|refusal| refusal_to_exception(&refusal))?;
        if let Some(record) = self.containers.get_mut(&id) {
            if grows {
                let report = ContainerProto {
                    id: token.container_id,
                    resource: token.resource.clone(),
                    execution_type: token.execution_type,
                    version: token.version,
                    ..Default::default()
                };
                self.increased.insert(id, report);
            }
            record.token = token;
        }
        Ok(())
    }

    /// `signalToContainer`, from an AM or a heartbeat. Unknown and not yet launched containers are passed over.
    pub fn signal(&mut self, id: ContainerId, signal: ContainerSignal) {
        if let Some(record) = self.containers.get(&id) {
            let result = self.hands.signal(id, &record.user, signal);
            tracing::info!(container = %id, result, "{}", signal.as_str());
        }
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

fn authorize(
    application: ApplicationId,
    id: &ContainerId,
    what: &str,
) -> Result<(), RemoteException> {
    if application == id.application_id() {
        Ok(())
    } else {
        Err(yarn_exception(format!(
            "{application} attempted to {what} non-application container : {id}"
        )))
    }
}

fn unknown(id: &ContainerId) -> RemoteException {
    yarn_exception(format!("Container {id} is not handled by this NodeManager"))
}
