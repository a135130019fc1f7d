//! Allocation of guaranteed containers, first come first served (similar to Hadoop's
//! `FifoScheduler`): attempts in the order of arrival, their asks by priority, each on a node with
//! enough free resources now.
//!
//! Hosts and racks that an ask names are preferred, but no ask waits for them unless it does not
//! relax its locality. Among equal nodes the one with the most free memory is chosen, which spreads
//! the load. An ask that fits nowhere does not block those behind it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use records::{
    ApplicationAttemptId, ContainerId, ExecutionType, MonoMillis, NodeId, Resource, ResourceRequest,
};

use super::ask::Place;
use super::asks::{AskError, AskRules, OutstandingAsks};
use super::context::AttemptAsks;
use super::rooms::{ChargeError, NodeRoom, Released, Rooms};
use super::{ALLOCATIONS_PER_CALL_MAX, ContainerAllocation};

/// Allocates guaranteed containers. Its size is bounded by the nodes, their resources and the
/// attempts that the caller adds.
#[derive(Clone, Debug, Default)]
pub struct GuaranteedAllocator {
    rooms: Rooms,
    /// Attempts in the order of their arrival.
    attempts: BTreeMap<u64, (ApplicationAttemptId, AttemptAsks)>,
    arrivals: BTreeMap<ApplicationAttemptId, u64>,
    arrived: u64,
    /// Whether an event since the last pass could allow it to place more.
    changed: bool,
}

impl GuaranteedAllocator {
    /// Creates an allocator without nodes and attempts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an attempt behind those already present. No effect if it is known.
    pub fn add_attempt(&mut self, attempt: ApplicationAttemptId) {
        if self.arrivals.contains_key(&attempt) {
            return;
        }
        self.arrivals.insert(attempt, self.arrived);
        let asks = AttemptAsks::new(AskRules::Strict);
        self.attempts.insert(self.arrived, (attempt, asks));
        self.arrived += 1;
    }

    /// Removes an attempt and its asks. Its containers keep their allocation until they are
    /// released.
    pub fn remove_attempt(&mut self, attempt: ApplicationAttemptId) {
        if let Some(arrival) = self.arrivals.remove(&attempt) {
            self.attempts.remove(&arrival);
        }
    }

    /// Applies the guaranteed part of an allocate request, in its order, by the rules of
    /// [`OutstandingAsks::update`]. No effect for an unknown attempt.
    ///
    /// # Errors
    /// A line was rejected. Nothing has changed then.
    pub fn update_asks(
        &mut self,
        attempt: ApplicationAttemptId,
        requests: &[ResourceRequest],
        now: MonoMillis,
    ) -> Result<(), AskError> {
        self.changed |= !requests.is_empty();
        self.attempt_mut(attempt)
            .map_or(Ok(()), |asks| asks.update_asks(requests, now))
    }

    /// Changes the hosts that the attempt excludes. Removals come first: a host in both lists is on
    /// the blacklist. No effect for an unknown attempt.
    ///
    /// # Errors
    /// A name or the list is too long. Nothing has changed then.
    pub fn update_blacklist(
        &mut self,
        attempt: ApplicationAttemptId,
        additions: &[String],
        removals: &[String],
    ) -> Result<(), AskError> {
        self.changed |= !removals.is_empty();
        self.attempt_mut(attempt)
            .map_or(Ok(()), |asks| asks.update_blacklist(additions, removals))
    }

    fn attempt_mut(&mut self, attempt: ApplicationAttemptId) -> Option<&mut AttemptAsks> {
        let arrival = self.arrivals.get(&attempt)?;
        self.attempts.get_mut(arrival).map(|(_, asks)| asks)
    }

    /// Returns the outstanding asks of an attempt; `None` if it is unknown.
    #[must_use]
    pub fn asks(&self, attempt: ApplicationAttemptId) -> Option<&OutstandingAsks> {
        let arrival = self.arrivals.get(&attempt)?;
        self.attempts.get(arrival).map(|(_, asks)| &asks.asks)
    }

    /// Adds a registered node without containers; those that it still runs are recovered one by
    /// one. Returns the containers of a previous node with the same id, which lose their
    /// allocation.
    pub fn add_node(&mut self, id: NodeId, rack: String, capability: Resource) -> Vec<ContainerId> {
        self.changed = true;
        self.rooms.add_node(id, rack, capability)
    }

    /// Removes a node; returns its containers, which lose their allocation.
    pub fn remove_node(&mut self, id: &NodeId) -> Vec<ContainerId> {
        self.rooms.remove_node(id)
    }

    /// Changes the resources that a node offers; returns whether the node is known. Allocations
    /// stay, even if they exceed the new amount.
    pub fn set_capability(&mut self, id: &NodeId, capability: Resource) -> bool {
        self.changed = true;
        self.rooms.change(id, |room| room.capability = capability)
    }

    /// Sets whether a node gets new containers (not while it is decommissioned); returns whether
    /// the node is known.
    pub fn set_schedulable(&mut self, id: &NodeId, schedulable: bool) -> bool {
        self.changed = true;
        self.rooms.change(id, |room| room.schedulable = schedulable)
    }

    /// Allocates resources of a node to a container outside the order of asks: a promotion of a
    /// container that runs there already.
    ///
    /// # Errors
    /// The node is unknown or has too few resources, or the container already has an allocation.
    pub fn charge(
        &mut self,
        container: ContainerId,
        node: &NodeId,
        resource: Resource,
    ) -> Result<(), ChargeError> {
        self.rooms.charge(container, node, resource, false)
    }

    /// Records a guaranteed container that a node reports after a restart. It runs already, so it
    /// need not fit.
    ///
    /// # Errors
    /// The node is unknown, or the container already has an allocation.
    pub fn recover(
        &mut self,
        container: ContainerId,
        node: &NodeId,
        resource: Resource,
    ) -> Result<(), ChargeError> {
        self.rooms.charge(container, node, resource, true)
    }

    /// Releases the allocation of a container that ended, was released by its AM or became
    /// opportunistic. `None` if it had none.
    pub fn release(&mut self, container: ContainerId) -> Option<Released> {
        let released = self.rooms.release(container);
        self.changed |= released.is_some();
        released
    }

    /// Restores the ask of a container that has ended before its AM got it, so that the AM gets
    /// another (Hadoop: `AbstractYarnScheduler.recoverResourceRequestForContainer`). `rack` is that
    /// of the allocation's node. No effect for an unknown attempt.
    pub fn restore_ask(&mut self, allocation: &ContainerAllocation, rack: &str) {
        if let Some(asks) = self.attempt_mut(allocation.container_id.attempt) {
            asks.asks.restore(allocation, rack);
            self.changed = true;
        }
    }

    /// Returns the allocation of a container; `None` if it has none.
    #[must_use]
    pub fn held(&self, container: ContainerId) -> Option<&Released> {
        self.rooms.held(container)
    }

    /// Returns a registered node.
    #[must_use]
    pub fn node(&self, id: &NodeId) -> Option<&NodeRoom> {
        self.rooms.node(id)
    }

    /// Returns all nodes in the order of their ids.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeId, &NodeRoom)> {
        self.rooms.nodes()
    }

    /// Returns the sum of free resources over all nodes that get new containers: an application's
    /// headroom.
    #[must_use]
    pub fn free(&self) -> Resource {
        self.rooms.total_free()
    }

    /// Allocates containers to attempts as far as resources are free, and lowers their asks.
    /// `next_id` returns the id of each container, for its attempt; the container keeps its
    /// allocation until it is released. Allocates at most [`ALLOCATIONS_PER_CALL_MAX`] per call;
    /// call again while that many are returned. Costs nothing if nothing has happened since the
    /// last call.
    pub fn allocate(
        &mut self,
        mut next_id: impl FnMut(ApplicationAttemptId) -> ContainerId,
    ) -> Vec<ContainerAllocation> {
        let mut allocations = Vec::new();
        if !self.changed {
            return allocations;
        }
        let mut budget = ALLOCATIONS_PER_CALL_MAX;
        let mut refused = None;
        for (attempt, asks) in self.attempts.values_mut() {
            let mut pass = Pass {
                rooms: &mut self.rooms,
                asks,
                refused: &mut refused,
                budget: &mut budget,
                allocations: &mut allocations,
            };
            pass.run(|| next_id(*attempt));
        }
        self.changed = budget == 0;
        allocations
    }
}

/// Allocation for one attempt.
struct Pass<'a> {
    rooms: &'a mut Rooms,
    asks: &'a mut AttemptAsks,
    /// Size that no node could hold in this pass. Free resources only shrink during a pass, so
    /// larger sizes are skipped.
    refused: &'a mut Option<Resource>,
    budget: &'a mut u32,
    allocations: &'a mut Vec<ContainerAllocation>,
}

impl Pass<'_> {
    fn run(&mut self, mut next_id: impl FnMut() -> ContainerId) {
        let AttemptAsks { asks, blacklist } = &mut *self.asks;
        asks.for_each(|key, ask| {
            if *self.budget == 0 || self.rooms.is_full() {
                return ControlFlow::Break(());
            }
            let resource = key.capability();
            if self.refused.is_some_and(|size| size.fits_in(resource)) {
                return ControlFlow::Continue(());
            }
            if self.rooms.anywhere(resource, |_| true).is_none() {
                *self.refused = Some(resource);
                return ControlFlow::Continue(());
            }
            let (asked_at, relax_locality) = (ask.asked_at(), ask.wants_any());
            ask.sweep(self.budget, |place, locality| {
                let allowed = |node: &NodeId| !blacklist.contains(&node.host);
                let node_id = match place {
                    Place::Host(host) if blacklist.contains(host) => None,
                    Place::Host(host) => self.rooms.on_host(host, resource),
                    Place::Rack(rack) => self.rooms.on_rack(rack, resource, allowed),
                    Place::Any => self.rooms.anywhere(resource, allowed),
                }?;
                let rack = self.rooms.node(&node_id)?.rack.clone();
                let container_id = next_id();
                self.rooms
                    .charge(container_id, &node_id, resource, false)
                    .ok()?;
                self.allocations.push(ContainerAllocation {
                    container_id,
                    node_id,
                    resource,
                    priority: key.priority,
                    allocation_request_id: key.allocation_request_id,
                    execution_type: ExecutionType::Guaranteed,
                    locality,
                    relax_locality,
                    asked_at,
                });
                Some(rack)
            });
            ControlFlow::Continue(())
        });
    }
}
