//! AMs: registration, allocate, finish (Hadoop: `ApplicationMasterService` and its processors).

use records::{
    ApplicationAttemptId, ApplicationId, ContainerExitStatus, ContainerId, ExecutionType, NodeId,
    Now,
};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerUpdateTypeProto,
    FinishApplicationMasterRequestProto, NmTokenProto, RegisterApplicationMasterRequestProto,
    RegisterApplicationMasterResponseProto, SchedulerResourceTypes, UpdateContainerErrorProto,
    UpdateContainerRequestProto, UpdatedContainerProto,
};

use super::{Core, QUEUE};
use crate::applications::{AttemptState, cut};
use crate::containers::{Container, ContainerStage, PendingUpdate};
use crate::nodes::{CallOrder, call_order, next_response_id};
use crate::refusal::Refusal;
use crate::scheduler::{self, Session};
use wire::secrets::nm_token;

impl Core {
    /// Notes a call of the attempt's AM and returns the attempt's state.
    fn note_call(
        &mut self,
        attempt: ApplicationAttemptId,
        now: Now,
    ) -> Result<AttemptState, Refusal> {
        let application = self.applications.get_mut(&attempt.application_id);
        let live = application.and_then(|application| application.live_mut(attempt));
        let live = live.ok_or(Refusal::UnknownAttempt(attempt))?;
        live.last_contact = now.mono;
        Ok(live.state)
    }

    /// `registerApplicationMaster`.
    ///
    /// # Errors
    /// An attempt that is not current, or whose AM has registered.
    pub fn register_master(
        &mut self,
        attempt: ApplicationAttemptId,
        request: &RegisterApplicationMasterRequestProto,
        now: Now,
    ) -> Result<RegisterApplicationMasterResponseProto, Refusal> {
        let id = attempt.application_id;
        match self.note_call(attempt, now)? {
            AttemptState::Allocated | AttemptState::Launched => {}
            AttemptState::Running | AttemptState::Finishing => {
                return Err(Refusal::AlreadyRegistered(id));
            }
            AttemptState::Scheduled
            | AttemptState::Finished
            | AttemptState::Failed
            | AttemptState::Killed => return Err(Refusal::UnknownAttempt(attempt)),
        }
        if !request.placement_constraints.is_empty() {
            return Err(Refusal::NotSupported("placement by constraints"));
        }
        let application = self.applications.get_mut(&id);
        let application = application.ok_or(Refusal::UnknownAttempt(attempt))?;
        application.register(
            cut(request.host()),
            request.rpc_port(),
            cut(request.tracking_url()),
        );
        if let Some(session) = self.sessions.get_mut(&id) {
            session.start_node_updates();
        }
        let context = application.submission.am_container_spec.as_ref();
        Ok(RegisterApplicationMasterResponseProto {
            maximum_capability: Some(self.config.allocation_max.into()),
            application_ac_ls: context
                .map_or_else(Vec::new, |context| context.application_ac_ls.clone()),
            queue: Some(QUEUE.to_owned()),
            scheduler_resource_types: vec![
                SchedulerResourceTypes::Memory.into(),
                SchedulerResourceTypes::Cpu.into(),
            ],
            resource_types: super::reports::resource_types(),
            ..RegisterApplicationMasterResponseProto::default()
        })
    }

    /// `allocate`. `presented` is the identifier of the token with which the AM connected.
    ///
    /// # Errors
    /// An attempt that is not current, a call out of order, or an invalid request.
    pub fn allocate(
        &mut self,
        attempt: ApplicationAttemptId,
        presented: &[u8],
        request: &AllocateRequestProto,
        now: Now,
    ) -> Result<AllocateResponseProto, Refusal> {
        match self.note_call(attempt, now)? {
            AttemptState::Running => {}
            AttemptState::Allocated | AttemptState::Launched => {
                return Err(Refusal::NotRegistered(attempt));
            }
            AttemptState::Scheduled
            | AttemptState::Finishing
            | AttemptState::Finished
            | AttemptState::Failed
            | AttemptState::Killed => return Err(Refusal::UnknownAttempt(attempt)),
        }
        let id = attempt.application_id;
        let session = self
            .sessions
            .get(&id)
            .ok_or(Refusal::UnknownAttempt(attempt))?;
        let received = request.response_id();
        match (
            call_order(received, session.response_id),
            &session.last_response,
        ) {
            (CallOrder::Next, _) => {}
            (CallOrder::Repeated, Some(last)) => return Ok(AllocateResponseProto::clone(last)),
            (CallOrder::Repeated, None) | (CallOrder::OutOfOrder, _) => {
                return Err(Refusal::OutOfOrder {
                    attempt,
                    expected: session.response_id,
                    received,
                });
            }
        }
        let asks = scheduler::validated(request, &self.config)?;
        self.check_releases(attempt, &asks.releases)?;
        self.take_progress(id, request);
        self.acknowledge_ends(id);
        for container in &asks.releases {
            let why = "Container released by application";
            self.kill_container(*container, ContainerExitStatus::ABORTED, why, now);
        }
        self.take_asks(attempt, &asks, now)?;
        for update in &request.update_requests {
            self.take_update(id, attempt, update, now);
        }
        self.place(now);
        self.place_opportunistic(id, now);
        Ok(self.response(attempt, presented, now))
    }

    fn take_progress(&mut self, id: ApplicationId, request: &AllocateRequestProto) {
        let Some(application) = self.applications.get_mut(&id) else {
            return;
        };
        let attempt = application.attempt_mut();
        let progress = request.progress();
        attempt.progress = if progress.is_nan() {
            0.0
        } else {
            progress.clamp(0.0, 1.0)
        };
        if !request.tracking_url().is_empty() {
            attempt.tracking_url = cut(request.tracking_url());
        }
    }

    /// Checks that the AM releases only containers that it holds or held.
    fn check_releases(
        &self,
        attempt: ApplicationAttemptId,
        releases: &[ContainerId],
    ) -> Result<(), Refusal> {
        let foreign = releases.iter().find(|id| id.attempt != attempt);
        foreign.map_or(Ok(()), |id| Err(Refusal::ForeignRelease(*id)))
    }

    /// Acknowledges the completions in the last answer, which has arrived since the AM calls again:
    /// nodes may forget these containers.
    fn acknowledge_ends(&mut self, id: ApplicationId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        for ended in session.acknowledge_completed() {
            if let Some(node) = self.nodes.get_mut(&ended.node) {
                node.orders.forget.insert(ended.id);
            }
        }
    }

    /// Applies one update request, or records its refusal for the answer.
    fn take_update(
        &mut self,
        application: ApplicationId,
        attempt: ApplicationAttemptId,
        update: &UpdateContainerRequestProto,
        now: Now,
    ) {
        let refusal = self.try_update(attempt, update, now);
        if let Err((reason, current_container_version)) = refusal
            && let Some(session) = self.sessions.get_mut(&application)
        {
            session.update_errors.push(UpdateContainerErrorProto {
                reason: Some(reason.to_owned()),
                update_request: Some(update.clone()),
                current_container_version: Some(current_container_version),
            });
        }
    }

    /// Applies one update request. A refusal is its reason and the container's version, -1 for an
    /// unknown container.
    fn try_update(
        &mut self,
        attempt: ApplicationAttemptId,
        update: &UpdateContainerRequestProto,
        now: Now,
    ) -> Result<(), (&'static str, i32)> {
        let id = ContainerId::try_from(&update.container_id).ok();
        let container = id.filter(|id| id.attempt == attempt);
        let container = container.and_then(|id| self.containers.get_mut(&id));
        let Some(container) = container.filter(|container| !container.is_master) else {
            return Err(("INVALID_CONTAINER_ID", -1));
        };
        let version = container.version;
        if update.container_version != version {
            return Err(("INCORRECT_CONTAINER_VERSION_ERROR", version));
        }
        if container.pending != PendingUpdate::None {
            return Err(("UPDATE_OUTSTANDING_ERROR", version));
        }
        match update.update_type() {
            ContainerUpdateTypeProto::PromoteExecutionType => {
                if container.execution_type == ExecutionType::Opportunistic {
                    container.pending = PendingUpdate::Promotion;
                    let id = container.id;
                    self.promotions.add(&container.node, id);
                }
                Ok(())
            }
            ContainerUpdateTypeProto::DemoteExecutionType => {
                if container.execution_type == ExecutionType::Guaranteed {
                    let id = container.id;
                    self.guaranteed.release(id);
                    self.promotions.note_change(&container.node);
                    self.change_type(id, ExecutionType::Opportunistic, now);
                }
                Ok(())
            }
            ContainerUpdateTypeProto::IncreaseResource
            | ContainerUpdateTypeProto::DecreaseResource => {
                Err(("RESOURCE_OUTSIDE_ALLOWED_RANGE", version))
            }
        }
    }

    /// Makes a container guaranteed or opportunistic; notifies its AM, and its node where so
    /// configured. The caller has updated the allocators.
    pub(super) fn change_type(&mut self, id: ContainerId, to: ExecutionType, now: Now) {
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        container.execution_type = to;
        container.version += 1;
        container.pending = PendingUpdate::None;
        let container = container.clone();
        let proto = self.container_proto(&container, now);
        if self.config.updates_go_to_nodes
            && let Some(node) = self.nodes.get_mut(&container.node)
        {
            node.orders.updates.insert(id, proto.clone());
        }
        let update_type = match to {
            ExecutionType::Guaranteed => ContainerUpdateTypeProto::PromoteExecutionType,
            ExecutionType::Opportunistic => ContainerUpdateTypeProto::DemoteExecutionType,
        };
        if let Some(session) = self.sessions.get_mut(&id.application_id()) {
            session.updated.push(UpdatedContainerProto {
                update_type: update_type.into(),
                container: proto,
            });
        }
    }

    /// Returns an answer with everything that the AM has not received yet.
    fn response(
        &mut self,
        attempt: ApplicationAttemptId,
        presented: &[u8],
        now: Now,
    ) -> AllocateResponseProto {
        let id = attempt.application_id;
        let mut session = self
            .sessions
            .remove(&id)
            .unwrap_or_else(|| Session::new(attempt, self.config.epoch));
        let mut containers = Vec::new();
        for container in session.take_allocated() {
            if let Some(container) = self.containers.get_mut(&container) {
                if container.stage == ContainerStage::Allocated {
                    container.stage = ContainerStage::Acquired(now.mono);
                }
                containers.push(container.clone());
            }
        }
        let nm_tokens = self.nm_tokens_for(&mut session, &containers);
        let renewed = self.master_secrets.renewed_token(attempt, presented);
        let changed = session.take_changed_nodes();
        session.response_id = next_response_id(session.response_id);
        let response = AllocateResponseProto {
            response_id: Some(session.response_id),
            allocated_containers: containers
                .iter()
                .map(|container| self.container_proto(container, now))
                .collect(),
            completed_container_statuses: session.send_completed(),
            limit: Some(self.free_resources().into()),
            updated_nodes: changed
                .iter()
                .filter_map(|node| self.nodes.get(node).map(super::reports::node_report))
                .collect(),
            num_cluster_nodes: i32::try_from(self.running).ok(),
            nm_tokens,
            am_rm_token: renewed.map(Into::into),
            application_priority: Some(0.into()),
            update_errors: std::mem::take(&mut session.update_errors),
            updated_containers: std::mem::take(&mut session.updated),
            ..AllocateResponseProto::default()
        };
        session.last_response = Some(Box::new(response.clone()));
        self.sessions.insert(id, session);
        response
    }

    /// Returns an NMToken for each node for which the AM has none.
    fn nm_tokens_for(&self, session: &mut Session, containers: &[Container]) -> Vec<NmTokenProto> {
        let id = session.attempt.application_id;
        let user = self
            .applications
            .get(&id)
            .map_or("", |application| &application.user);
        let mut tokens = Vec::new();
        for container in containers {
            if session.nm_tokens.insert(container.node.clone()) {
                let token = self.nm_token(session.attempt, &container.node, user);
                tokens.push(NmTokenProto {
                    node_id: Some((&container.node).into()),
                    token: Some(token.into()),
                });
            }
        }
        tokens
    }

    /// Returns the token with which an attempt calls a node.
    pub(super) fn nm_token(
        &self,
        attempt: ApplicationAttemptId,
        node: &NodeId,
        user: &str,
    ) -> wire::token::Token {
        nm_token(self.nm_keys.current(), attempt, node, user)
    }

    /// `finishApplicationMaster`. Returns whether the end is recorded, which is at once: no state
    /// store is written.
    ///
    /// # Errors
    /// An attempt that is not current, or whose AM has not registered.
    pub fn finish_master(
        &mut self,
        attempt: ApplicationAttemptId,
        request: &FinishApplicationMasterRequestProto,
        now: Now,
    ) -> Result<bool, Refusal> {
        match self.note_call(attempt, now)? {
            AttemptState::Running => {}
            AttemptState::Finishing => return Ok(true),
            AttemptState::Allocated | AttemptState::Launched => {
                return Err(Refusal::NotRegistered(attempt));
            }
            AttemptState::Scheduled
            | AttemptState::Finished
            | AttemptState::Failed
            | AttemptState::Killed => return Err(Refusal::UnknownAttempt(attempt)),
        }
        let application = self.applications.get_mut(&attempt.application_id);
        let application = application.ok_or(Refusal::UnknownAttempt(attempt))?;
        application.finish(
            request.final_application_status(),
            request.diagnostics(),
            request.tracking_url(),
            now.wall,
        );
        Ok(true)
    }
}
