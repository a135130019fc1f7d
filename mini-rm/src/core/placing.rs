//! Allocation: passes the asks to `sched`'s allocators and turns their allocations into containers.

use records::{
    ApplicationAttemptId, ApplicationId, ExecutionType, Now, Priority, Resource, ResourceRequest,
};
use sched::{ContainerAllocation, OpportunisticContainerAllocator};

use super::{Core, Effect};
use crate::am_launcher::Launch;
use crate::applications::AttemptState;
use crate::containers::{Container, ContainerStage, PendingUpdate};
use crate::refusal::Refusal;
use crate::scheduler::{Session, Validated};

/// Limit on unfinished containers of all applications. Opportunistic ones hold no capacity, and
/// nodes claim any capacity they like, so nothing else bounds the containers of AMs that start none
/// before these expire.
pub(super) const CONTAINERS_MAX: usize = 1_000_000;

impl Core {
    /// Asks for a container for a new attempt's AM.
    pub(super) fn schedule_attempt(
        &mut self,
        attempt: ApplicationAttemptId,
        master: Resource,
        now: Now,
    ) -> Result<(), Refusal> {
        self.guaranteed.add_attempt(attempt);
        let ask = ResourceRequest::on_any_node(Priority(0), master, 1);
        if let Err(refusal) = self.guaranteed.update_asks(attempt, &[ask], now.mono) {
            self.guaranteed.remove_attempt(attempt);
            return Err(refusal.into());
        }
        let session = Session::new(attempt, self.config.epoch);
        self.sessions.insert(attempt.application_id, session);
        Ok(())
    }

    /// Adds an AM's asks to the allocators.
    pub(super) fn take_asks(
        &mut self,
        attempt: ApplicationAttemptId,
        asks: &Validated,
        now: Now,
    ) -> Result<(), Refusal> {
        let (additions, removals) = (&asks.blacklist_additions, &asks.blacklist_removals);
        self.guaranteed
            .update_blacklist(attempt, additions, removals)?;
        self.guaranteed
            .update_asks(attempt, &asks.guaranteed, now.mono)?;
        if let Some(session) = self.sessions.get_mut(&attempt.application_id) {
            session
                .opportunistic
                .update_blacklist(additions, removals)?;
            session
                .opportunistic
                .update_asks(&asks.opportunistic, now.mono)?;
        }
        Ok(())
    }

    /// Allocates capacity to pending asks, promotions first, as their containers run already. Stops
    /// after one pass of the allocator; the rest follows with the next call or tick, so that other
    /// calls are served in between.
    pub(super) fn place(&mut self, now: Now) {
        self.place_promotions(now);
        if self.containers.len() >= CONTAINERS_MAX {
            return;
        }
        let sessions = &mut self.sessions;
        let allocations = self.guaranteed.allocate(|attempt| {
            sessions
                .get_mut(&attempt.application_id)
                .expect("an attempt has a session for as long as it asks")
                .next_container()
        });
        for allocation in allocations {
            self.take_allocation(allocation, now);
        }
    }

    /// Grants the promotions of changed nodes as far as these have capacity, and drops those of
    /// containers that have ended.
    pub(super) fn place_promotions(&mut self, now: Now) {
        for (node, waiting) in self.promotions.take_changed() {
            let mut left = Vec::new();
            for id in waiting {
                let container = self.containers.get(&id);
                let Some(container) = container.filter(|c| c.pending == PendingUpdate::Promotion)
                else {
                    continue;
                };
                let charged = self.guaranteed.charge(id, &node, container.resource);
                if charged.is_ok() {
                    self.change_type(id, ExecutionType::Guaranteed, now);
                } else {
                    left.push(id);
                }
            }
            self.promotions.put_back(node, left);
        }
    }

    /// Allocates to an attempt the opportunistic containers for which nodes' queues have places.
    pub(super) fn place_opportunistic(&mut self, id: ApplicationId, now: Now) {
        if self.containers.len() >= CONTAINERS_MAX {
            return;
        }
        let Some(mut session) = self.sessions.remove(&id) else {
            return;
        };
        let allocator = OpportunisticContainerAllocator {
            max_per_heartbeat: self.config.opportunistic.max_per_heartbeat,
        };
        let mut context = std::mem::take(&mut session.opportunistic);
        let allocations =
            allocator.allocate(&mut context, &mut self.load, &mut self.random, || {
                session.next_container()
            });
        session.opportunistic = context;
        self.sessions.insert(id, session);
        for allocation in allocations {
            self.take_allocation(allocation, now);
        }
    }

    /// Makes an allocation a container: the attempt's AM if it has none, else one for the AM to
    /// start.
    fn take_allocation(&mut self, allocation: ContainerAllocation, now: Now) {
        let id = allocation.container_id;
        let application = self.applications.get(&id.application_id());
        let Some(application) = application else {
            self.guaranteed.release(id);
            self.promotions.note_change(&allocation.node_id);
            return;
        };
        let is_master = application.attempt().state == AttemptState::Scheduled;
        let container = self.add_container(&allocation, is_master, now);
        if is_master {
            self.launch(&container, now);
        } else if let Some(session) = self.sessions.get_mut(&id.application_id()) {
            session.allocate(allocation);
        }
    }

    /// Adds an allocation to the containers and to its node.
    pub(super) fn add_container(
        &mut self,
        allocation: &ContainerAllocation,
        is_master: bool,
        now: Now,
    ) -> Container {
        let id = allocation.container_id;
        if let Some(node) = self.nodes.get_mut(&allocation.node_id) {
            node.containers.insert(id);
            if let Some(application) = self.applications.get_mut(&id.application_id()) {
                application.nodes.insert(node.id.clone());
            }
        }
        let is_acquired = is_master || allocation.execution_type == ExecutionType::Opportunistic;
        let container = Container {
            id,
            node: allocation.node_id.clone(),
            resource: allocation.resource,
            priority: allocation.priority.0,
            allocation_request_id: allocation.allocation_request_id,
            execution_type: allocation.execution_type,
            version: 0,
            stage: if is_acquired {
                ContainerStage::Acquired(now.mono)
            } else {
                ContainerStage::Allocated
            },
            is_master,
            created: now.wall,
            pending: PendingUpdate::None,
        };
        self.containers.insert(id, container.clone());
        container
    }

    /// Orders the launch of an AM.
    fn launch(&mut self, container: &Container, now: Now) {
        let attempt = container.id.attempt;
        let container_token = self.token_of(container, now);
        let Some(application) = self.applications.get_mut(&attempt.application_id) else {
            return;
        };
        let live = application.attempt_mut();
        live.state = AttemptState::Allocated;
        live.master = Some(container.id);
        live.last_contact = now.mono;
        let context = application
            .submission
            .am_container_spec
            .clone()
            .unwrap_or_default();
        let (user, submitted) = (application.user.clone(), application.submitted);
        tracing::info!(%attempt, node = %container.node, "starting the ApplicationMaster");
        self.effects.push(Effect::Launch(Box::new(Launch {
            attempt,
            node: container.node.clone(),
            nm_token: self.nm_token(attempt, &container.node, &user),
            container_token,
            master_token: self.master_secrets.activate(attempt, &user),
            context,
            submitted,
        })));
    }

    /// Returns the number of nodes on which opportunistic containers are allocated at present.
    #[must_use]
    pub fn nodes_offered(&self) -> usize {
        self.load.least_loaded().count()
    }

    /// Returns the capacity that is free for guaranteed containers.
    pub(super) fn free_resources(&self) -> Resource {
        self.guaranteed.free()
    }

    /// Returns the unfinished containers of an attempt, including its AM's.
    pub fn containers_of(&self, attempt: ApplicationAttemptId) -> impl Iterator<Item = &Container> {
        let first = attempt.container(i64::MIN);
        let last = attempt.container(i64::MAX);
        self.containers
            .range(first..=last)
            .map(|(_, container)| container)
    }
}
