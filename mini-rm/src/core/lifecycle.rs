//! Ends of containers, attempts and applications, and the consequences of each.

use records::{
    ApplicationAttemptId, ApplicationId, ContainerExitStatus, ContainerId, ExecutionType, Now,
};
use wire::proto::hadoop_yarn::{ContainerStateProto, ContainerStatusProto, ExecutionTypeProto};

use super::Core;
use crate::applications::{Aftermath, AttemptState};
use crate::scheduler::CompletedContainer;

impl Core {
    /// Completes a container, for its AM to receive. If it runs an AM, the attempt ends.
    pub(super) fn end_container(
        &mut self,
        id: ContainerId,
        exit_status: ContainerExitStatus,
        diagnostics: &str,
        now: Now,
    ) {
        let Some(container) = self.containers.remove(&id) else {
            return;
        };
        self.guaranteed.release(id);
        self.promotions.note_change(&container.node);
        let mut node = self.nodes.get_mut(&container.node);
        if let Some(node) = &mut node {
            node.containers.remove(&id);
        }
        let session = self.sessions.get_mut(&id.application_id());
        let session = session.filter(|session| session.attempt == id.attempt);
        if let Some(session) = session.filter(|_| !container.is_master) {
            // As in Hadoop, the AM receives the end even of a container that it never got; it
            // gets another for the same ask.
            let unfetched = session.take_unfetched(id);
            let unfetched =
                unfetched.filter(|_| container.execution_type == ExecutionType::Guaranteed);
            if let (Some(allocation), Some(node)) = (unfetched, &node) {
                self.guaranteed.restore_ask(&allocation, &node.rack);
            }
            session.complete(CompletedContainer {
                id,
                node: container.node,
                status: ContainerStatusProto {
                    container_id: Some(id.into()),
                    state: Some(ContainerStateProto::CComplete.into()),
                    diagnostics: Some(crate::applications::cut(diagnostics)),
                    exit_status: Some(exit_status.0),
                    capability: Some(container.resource.into()),
                    execution_type: Some(ExecutionTypeProto::from(container.execution_type).into()),
                    ..ContainerStatusProto::default()
                },
            });
            return;
        }
        // A container under an order to be killed is forgotten when its node reports the
        // completion.
        if let Some(node) = node.filter(|node| !node.orders.cleanup.contains(&id)) {
            node.orders.forget.insert(id);
        }
        if container.is_master {
            self.master_ended(id.attempt, exit_status, diagnostics, now);
        }
    }

    /// Completes a container by decision of the core and orders its node to kill it.
    pub(super) fn kill_container(
        &mut self,
        id: ContainerId,
        exit_status: ContainerExitStatus,
        diagnostics: &str,
        now: Now,
    ) {
        let node = self.containers.get(&id).map(|container| &container.node);
        if let Some(node) = node.and_then(|node| self.nodes.get_mut(node))
            && node.state.is_active()
        {
            node.orders.cleanup.insert(id);
        }
        self.end_container(id, exit_status, diagnostics, now);
    }

    fn master_ended(
        &mut self,
        attempt: ApplicationAttemptId,
        exit_status: ContainerExitStatus,
        diagnostics: &str,
        now: Now,
    ) {
        let id = attempt.application_id;
        // An attempt that was killed has ended before its AM does.
        let application = self.applications.get_mut(&id);
        let Some(application) = application.filter(|application| {
            application.attempt().id == attempt && !application.attempt().state.is_final()
        }) else {
            return;
        };
        tracing::info!(%attempt, %exit_status, "ApplicationMaster ended");
        let aftermath = application.master_ended(exit_status, diagnostics, now);
        let (next, master_size) = (application.attempt().id, application.master_size);
        self.end_session(attempt, now);
        match aftermath {
            Aftermath::Retry => {
                if let Err(refusal) = self.schedule_attempt(next, master_size, now) {
                    // Cannot happen, since the first attempt asked for the same; but an application
                    // without a scheduled attempt would never end.
                    let killed = self.kill(id, &refusal.to_string(), now);
                    debug_assert_eq!(killed, Ok(true), "the application is known");
                }
            }
            Aftermath::Over => self.application_over(id),
        }
    }

    /// Releases everything that an attempt holds.
    pub(super) fn end_session(&mut self, attempt: ApplicationAttemptId, now: Now) {
        self.master_secrets.revoke(attempt);
        self.guaranteed.remove_attempt(attempt);
        if let Some(session) = self.sessions.remove(&attempt.application_id) {
            for ended in session.into_unacknowledged() {
                if let Some(node) = self.nodes.get_mut(&ended.node) {
                    node.orders.forget.insert(ended.id);
                }
            }
        }
        let containers: Vec<ContainerId> = self
            .containers_of(attempt)
            .map(|container| container.id)
            .collect();
        for id in containers {
            let status = ContainerExitStatus::KILLED_BY_RESOURCEMANAGER;
            self.kill_container(id, status, "Container killed with its attempt", now);
        }
    }

    /// Ends an application: notifies its nodes, and forgets the oldest ended application above the
    /// limit.
    pub(super) fn application_over(&mut self, id: ApplicationId) {
        let Some(application) = self.applications.get_mut(&id) else {
            return;
        };
        tracing::info!(application = %id, state = application.state.as_str(), "application ended");
        // Frees the largest part, secrets included, which nothing needs any more.
        application.submission.am_container_spec = None;
        for node in std::mem::take(&mut application.nodes) {
            if let Some(node) = self.nodes.get_mut(&node)
                && node.state.is_active()
            {
                node.orders.applications.insert(id);
            }
        }
        self.ended.push_back(id);
        while self.ended.len() > self.config.finished_max {
            if let Some(oldest) = self.ended.pop_front() {
                self.applications.remove(&oldest);
            }
        }
    }

    /// Records the result of a launch: the node accepted the AM's container, or the reason why not.
    pub fn master_launched(
        &mut self,
        attempt: ApplicationAttemptId,
        outcome: Result<(), String>,
        now: Now,
    ) {
        let application = self.applications.get_mut(&attempt.application_id);
        let Some(application) = application else {
            return;
        };
        let Some(live) = application.live_mut(attempt) else {
            return;
        };
        live.last_contact = now.mono;
        let master = live.master;
        match outcome {
            Ok(()) => {
                // An AM may register before the answer to its start arrives.
                if live.state == AttemptState::Allocated {
                    live.state = AttemptState::Launched;
                }
                application.launched.get_or_insert(now.wall);
            }
            Err(why) => {
                tracing::warn!(%attempt, %why, "ApplicationMaster failed to start");
                if let Some(master) = master {
                    let status = ContainerExitStatus::LAUNCH_FAILED;
                    self.kill_container(master, status, &why, now);
                    self.place(now);
                }
            }
        }
    }

    pub(super) fn expire_masters(&mut self, now: Now) {
        let expiry_ms = self.config.master_expiry_ms;
        let silent = self.sessions.keys().filter_map(|id| {
            let attempt = self.applications.get(id)?.attempt();
            let is_awaited = match attempt.state {
                AttemptState::Launched | AttemptState::Running | AttemptState::Finishing => true,
                AttemptState::Scheduled
                | AttemptState::Allocated
                | AttemptState::Finished
                | AttemptState::Failed
                | AttemptState::Killed => false,
            };
            (is_awaited && now.mono.since(attempt.last_contact) > expiry_ms)
                .then_some(attempt.master?)
        });
        let silent: Vec<ContainerId> = silent.collect();
        for master in silent {
            let why = "ApplicationMaster was silent for too long";
            self.kill_container(master, ContainerExitStatus::INVALID, why, now);
        }
    }

    pub(super) fn expire_containers(&mut self, now: Now) {
        let expiry_ms = self.config.container_expiry_ms;
        let expired = self
            .containers
            .values()
            .filter(|container| !container.is_master && container.is_expired(now.mono, expiry_ms));
        let expired: Vec<ContainerId> = expired.map(|container| container.id).collect();
        for id in expired {
            let why = "Container expired since it was unused";
            self.kill_container(id, ContainerExitStatus::ABORTED, why, now);
        }
    }
}
