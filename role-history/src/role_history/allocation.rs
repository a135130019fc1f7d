//! Containers that were allocated (Slider: `AppState.onContainersAllocated` and
//! `RoleHistory.onContainerAllocated`).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use records::Now;

use super::{Life, RoleHistory};
use crate::action::{
    Action, AllocatedContainer, AskedBy, Assignment, ContainerAllocationOutcome, RequestId,
};
use crate::node_entry::{NodeEntry, Phase};
use crate::node_index::NodeIndex;

impl RoleHistory {
    /// Matches allocated containers with outstanding requests, accepts those that are wanted and
    /// releases the others.
    ///
    /// A container on a node that was asked for ends that request, whichever request caused it. A
    /// container that no request explains is accepted while the role wants more (Slider's code; its
    /// documents release it).
    pub fn on_containers_allocated(
        &mut self,
        mut allocated: Vec<AllocatedContainer>,
        now: Now,
        actions: &mut Vec<Action>,
    ) {
        // Most recently used nodes first (Slider: `ContainerAllocationComparator`), and answers to
        // placed requests before all others, so that an open request does not take them.
        allocated.sort_by_cached_key(|container| {
            let role = container.asked_by.role();
            let last_used = self.nodes.last_used(&container.host, role);
            (role, Reverse(last_used), container.container)
        });
        let (placed, others): (Vec<_>, Vec<_>) = allocated.into_iter().partition(|container| {
            let node = self.nodes.find(&container.host);
            let role = container.asked_by.role();
            node.is_some_and(|node| self.outstanding.placed(role, node).is_some())
        });
        let mut roles = BTreeSet::new();
        for container in placed.into_iter().chain(others) {
            roles.insert(container.asked_by.role());
            self.on_container_allocated(&container, actions);
        }
        for role in roles {
            self.review_role(role, now, actions);
        }
    }

    fn on_container_allocated(
        &mut self,
        allocated: &AllocatedContainer,
        actions: &mut Vec<Action>,
    ) {
        let (container, role) = (allocated.container, allocated.asked_by.role());
        if self.containers.is_known(container) {
            self.ignored.duplicate_allocations += 1;
            return;
        }
        if !self.roles.contains_key(&role) {
            self.ignored.unknown_roles += 1;
            self.refuse(allocated, actions);
            return;
        }
        let node = self.nodes.get_or_create(&allocated.host);
        let outcome = self.match_request(allocated, node, actions);
        let Some(status) = self.status_mut(role) else {
            return;
        };
        let wanted = status.actual < status.desired;
        let is_satisfied = status.desired <= status.actual.saturating_add(1);
        if is_satisfied {
            self.cancel_all(role, actions);
        }
        if !wanted || self.life == Life::TornDown {
            self.ignored.surplus_allocations += 1;
            self.refuse(allocated, actions);
            return;
        }
        if let Some(state) = self.roles.get_mut(&role) {
            state.status.actual += 1;
            state.unfulfilled.remove(&node);
        }
        self.containers
            .insert(container, role, node, Phase::Starting);
        self.nodes
            .update(node, role, |entry| entry.add(Phase::Starting));
        if outcome == ContainerAllocationOutcome::Unallocated {
            // The anti-affine ask in flight may name this node, which is no candidate any more.
            self.cancel_anti_affine(role, actions);
        }
        actions.push(Action::Assign(Assignment {
            container,
            role,
            host: self.nodes.node(node).host().clone(),
            outcome,
        }));
    }

    /// Ends the request that the container answers.
    fn match_request(
        &mut self,
        allocated: &AllocatedContainer,
        node: NodeIndex,
        actions: &mut Vec<Action>,
    ) -> ContainerAllocationOutcome {
        let role = allocated.asked_by.role();
        let placed = self.outstanding.placed(role, node);
        let found = placed.or_else(|| self.first_open(allocated));
        let satisfied = found.and_then(|request| {
            let satisfied = self.outstanding.satisfy(request, node)?;
            actions.push(Action::Satisfied {
                request,
                container: allocated.container,
                remaining: satisfied.remaining,
            });
            Some(satisfied)
        });
        let Some(satisfied) = satisfied else {
            return ContainerAllocationOutcome::Unallocated;
        };
        if let Some(asked) = satisfied.node {
            // The request was counted on the node that it named, wherever the container is.
            self.nodes.update(asked, role, NodeEntry::clear_requested);
            if let Some(state) = self.roles.get_mut(&role) {
                state.unfulfilled.insert(asked);
            }
        }
        satisfied.outcome
    }

    /// Returns the open request that has waited longest among those of the container's kind and
    /// size.
    fn first_open(&self, allocated: &AllocatedContainer) -> Option<RequestId> {
        let role = allocated.asked_by.role();
        let resource = self.roles.get(&role)?.role.resource;
        if !resource.fits_in(allocated.resource) {
            return None;
        }
        self.outstanding.open(role).find(|&request| {
            let no_location = self.outstanding.get(request).map(|r| r.has_no_location());
            match allocated.asked_by {
                AskedBy::Priority(priority) => no_location == Some(priority.no_location),
                AskedBy::Role(_) => true,
            }
        })
    }

    /// Returns a container to the ResourceManager. Its completion will be ignored.
    fn refuse(&mut self, allocated: &AllocatedContainer, actions: &mut Vec<Action>) {
        self.containers.ignore(allocated.container);
        actions.push(Action::Release(allocated.container));
    }
}
