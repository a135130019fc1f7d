//! Read-only views of containers: for heartbeats and AMs, registrations, and web pages.

use std::sync::Arc;

use access_control::AccessList;
use node_view::snapshot::{
    self, ApplicationSnapshot, ContainerSnapshot, Counts, NodeNumbers, NodeSnapshot,
};
use records::{ContainerId, ContainerState, ExecutionType, Now};
use sched::Event;
use wire::proto::hadoop_yarn::{ContainerStatusProto, NmContainerStatusProto};

use super::diagnostics_budget::{DIAGNOSTICS_BYTES_MAX, shorten};
use super::{Core, Effect};
use crate::applications::ApplicationState;
use crate::messages::{Status, registration_status};

impl Core {
    /// Returns the status of a container in the agent's memory.
    pub(super) fn status_of(&self, id: &ContainerId) -> Option<Status> {
        let view = self.scheduler.container(id)?;
        Some(self.containers.get(id)?.status(view))
    }

    /// Hadoop's order: everything in memory that is not done, then every completion that no
    /// answered heartbeat carried.
    pub(super) fn heartbeat_statuses(&mut self) -> Vec<ContainerStatusProto> {
        let completed = self.ledger.take_for_heartbeat();
        // A status has hundreds of bytes, which a growing list would move several times.
        let mut statuses = Vec::with_capacity(self.containers.len() + completed.len());
        let living = self
            .scheduler
            .containers()
            .filter(|view| view.state.container_state() != ContainerState::Complete)
            .filter_map(|view| Some(self.containers.get(&view.spec.id)?.status(view)));
        let machine = &self.config.machine;
        let all = living.chain(completed);
        statuses.extend(all.map(|status| status.into_message(machine)));
        let texts = statuses
            .iter_mut()
            .filter_map(|status| status.diagnostics.as_mut());
        shorten(texts, DIAGNOSTICS_BYTES_MAX);
        statuses
    }

    /// Returns the containers for a registration: those whose application this node still knows.
    pub(super) fn registration_statuses(&self) -> Vec<NmContainerStatusProto> {
        let mut statuses: Vec<_> = self
            .scheduler
            .containers()
            .filter_map(|view| {
                let facts = &self.containers.get(&view.spec.id)?.facts;
                Some(registration_status(view, facts))
            })
            .collect();
        let texts = statuses
            .iter_mut()
            .filter_map(|status| status.diagnostics.as_mut());
        shorten(texts, DIAGNOSTICS_BYTES_MAX);
        statuses
    }

    /// Returns the last status of a container for the ledger, once for each container.
    pub(super) fn last_status(&mut self, id: ContainerId) -> Option<Status> {
        let status = self.status_of(&id)?;
        let container = self.containers.get_mut(&id)?;
        let is_noted = std::mem::replace(&mut container.completion_noted, true);
        (!is_noted).then_some(status)
    }

    /// Drops a container that the ResourceManager has acknowledged, or whose application is over.
    /// One that is not done yet is dropped when it is: were it missing from one heartbeat, a
    /// ResourceManager would take every opportunistic container of the node for lost
    /// (`RMNodeImpl.findLostContainers`).
    pub(super) fn forget(&mut self, id: ContainerId, now: Now) {
        let Some(view) = self.scheduler.container(&id) else {
            return;
        };
        if view.state.container_state() != ContainerState::Complete {
            if let Some(container) = self.containers.get_mut(&id) {
                container.acknowledged_early = true;
            }
            return;
        }
        self.must_feed(Event::Forget(id), now);
        let container = self.containers.remove(&id);
        if container.is_some_and(|container| container.setups.has_resources()) {
            self.effects.push(Effect::ForgetResources(id));
        }
        self.stories.end(id);
        self.applications.container_forgotten(&id);
        let used_until = self.started.expiry(&id);
        self.recorder.forget(id, used_until, &mut self.effects);
    }

    /// Returns the state of the node for web pages and REST.
    #[must_use]
    pub fn snapshot(&self) -> NodeSnapshot {
        let containers = self
            .scheduler
            .containers()
            .filter_map(|view| {
                let user = self.containers.get(&view.spec.id)?.user.to_string();
                Some(ContainerSnapshot {
                    id: view.spec.id,
                    user,
                    state: view.state,
                    exit_status: view.exit_status,
                    diagnostics: view.diagnostics,
                    resource: view.spec.resource,
                    execution_type: view.spec.execution_type,
                })
            })
            .collect();
        let applications = self
            .applications
            .iter()
            .map(|(id, application)| ApplicationSnapshot {
                id: *id,
                user: application.user.to_string(),
                state: match application.state {
                    ApplicationState::Running => snapshot::ApplicationState::Running,
                    ApplicationState::Finishing => {
                        snapshot::ApplicationState::FinishingContainersWait
                    }
                    ApplicationState::Finished { .. } => snapshot::ApplicationState::Finished,
                },
                containers: application.live.iter().copied().collect(),
                view_acl: match &application.view_list {
                    Some(held) => held.list.clone(),
                    None => AccessList::default(),
                },
                aggregated: self.logs.uploaded.of(id),
            })
            .collect();
        NodeSnapshot {
            about: Arc::clone(self.condition.about()),
            rm: self.registration.contact().0,
            numbers: self.numbers(),
            applications,
            containers,
            uses: Arc::default(),
        }
    }

    /// Returns the numbers of the node that need no walk over the containers.
    #[must_use]
    pub fn numbers(&self) -> NodeNumbers {
        let scheduler = &self.scheduler;
        let opportunistic = scheduler.opportunistic_status();
        let holding = |execution_type| clamped(scheduler.holding_room_count(execution_type));
        let waiting = |execution_type| clamped(scheduler.queue_length(execution_type));
        NodeNumbers {
            total: scheduler.node_resource(),
            allocated: scheduler.allocated(),
            held: self.held_room(),
            counts: Counts {
                running_guaranteed: holding(ExecutionType::Guaranteed),
                running_opportunistic: holding(ExecutionType::Opportunistic),
                // The ResourceManager is told a greater number while the node is drained.
                waiting: waiting(ExecutionType::Guaranteed) + waiting(ExecutionType::Opportunistic),
            },
            paused: clamped(scheduler.paused_count()),
            opportunistic,
            takes_opportunistic: scheduler.takes_opportunistic(),
            frozen_memory_mb: scheduler.frozen_memory_mb(),
            queuing_limit: scheduler.queuing_limit(),
        }
    }
}

/// Counts are bounded by [`sched::CONTAINERS_MAX`]; the clamp only satisfies the type.
fn clamped(containers: usize) -> u32 {
    u32::try_from(containers).unwrap_or(u32::MAX)
}
