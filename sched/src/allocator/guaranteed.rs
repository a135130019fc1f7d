//! Guaranteed containers, first come first served (Hadoop's nearest kin: `FifoScheduler`): attempts in the order they
//! came, their asks by priority, each on a node that has room for it now.
//!
//! Hosts and racks that an ask names come first if they have room, but nothing waits for them to have it, unless the ask
//! does not relax its locality. Among equals the node with the most free memory is taken, which spreads the load. An ask
//! that fits nowhere does not hold up those behind it.

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

/// See the module. It is bounded by the nodes, their room and the attempts that the caller adds.
#[derive(Clone, Debug, Default)]
pub struct GuaranteedAllocator {
    rooms: Rooms,
    /// In the order of their arrival.
    attempts: BTreeMap<u64, (ApplicationAttemptId, AttemptAsks)>,
    arrivals: BTreeMap<ApplicationAttemptId, u64>,
    arrived: u64,
    /// Whether anything happened since the last pass that could let it place more than nothing.
    changed: bool,
}

impl GuaranteedAllocator {
    /// Without nodes and attempts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An attempt may ask from now on, behind those that are here. No effect on one that is known.
    pub fn add_attempt(&mut self, attempt: ApplicationAttemptId) {
        if self.arrivals.contains_key(&attempt) {
            return;
        }
        self.arrivals.insert(attempt, self.arrived);
        let asks = AttemptAsks::new(AskRules::Strict);
        self.attempts.insert(self.arrived, (attempt, asks));
        self.arrived += 1;
    }

    /// Forgets what an attempt wants. Its containers keep their room until they are released.
    pub fn remove_attempt(&mut self, attempt: ApplicationAttemptId) {
        if let Some(arrival) = self.arrivals.remove(&attempt) {
            self.attempts.remove(&arrival);
        }
    }

    /// Takes in the guaranteed part of an allocate request, in its order. See [`OutstandingAsks::update`]. No effect for
    /// an attempt that is not known.
    ///
    /// # Errors
    /// A line that is refused. Nothing has changed then.
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

    /// Hosts that the attempt wants nothing on. Removals come first: a host in both lists is on the blacklist. No effect
    /// for an attempt that is not known.
    ///
    /// # Errors
    /// A name or list that is too long. Nothing has changed then.
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

    /// What an attempt still wants; `None` for one that is not known.
    #[must_use]
    pub fn asks(&self, attempt: ApplicationAttemptId) -> Option<&OutstandingAsks> {
        let arrival = self.arrivals.get(&attempt)?;
        self.attempts.get(arrival).map(|(_, asks)| &asks.asks)
    }

    /// A node has registered, with nothing on it: what it still runs is to be recovered. Answers with the containers
    /// that held room on a node of the same id.
    pub fn add_node(&mut self, id: NodeId, rack: String, capability: Resource) -> Vec<ContainerId> {
        self.changed = true;
        self.rooms.add_node(id, rack, capability)
    }

    /// A node is gone; answers with the containers that held room on it and now hold none.
    pub fn remove_node(&mut self, id: &NodeId) -> Vec<ContainerId> {
        self.rooms.remove_node(id)
    }

    /// A node offers another amount; says whether it is known. What is allocated stays, even if it is more.
    pub fn set_capability(&mut self, id: &NodeId, capability: Resource) -> bool {
        self.changed = true;
        self.rooms.change(id, |room| room.capability = capability)
    }

    /// Whether a node gets new containers (not while it is decommissioned); says whether it is known.
    pub fn set_schedulable(&mut self, id: &NodeId, schedulable: bool) -> bool {
        self.changed = true;
        self.rooms.change(id, |room| room.schedulable = schedulable)
    }

    /// Gives a container room on a node outside the order of asks: a promotion, for one that runs there already.
    ///
    /// # Errors
    /// The node is unknown or has no room, or the container has its room already.
    pub fn charge(
        &mut self,
        container: ContainerId,
        node: &NodeId,
        resource: Resource,
    ) -> Result<(), ChargeError> {
        self.rooms.charge(container, node, resource, false)
    }

    /// Books a guaranteed container that a node reports and that runs whatever the books say, after a restart.
    ///
    /// # Errors
    /// The node is unknown, or the container has its room already.
    pub fn recover(
        &mut self,
        container: ContainerId,
        node: &NodeId,
        resource: Resource,
    ) -> Result<(), ChargeError> {
        self.rooms.charge(container, node, resource, true)
    }

    /// A container has ended, was given back or became opportunistic: its room is free. `None` if it held none.
    pub fn release(&mut self, container: ContainerId) -> Option<Released> {
        let released = self.rooms.release(container);
        self.changed |= released.is_some();
        released
    }

    /// What a container holds; `None` if nothing.
    #[must_use]
    pub fn held(&self, container: ContainerId) -> Option<&Released> {
        self.rooms.held(container)
    }

    /// One node.
    #[must_use]
    pub fn node(&self, id: &NodeId) -> Option<&NodeRoom> {
        self.rooms.node(id)
    }

    /// All nodes in the order of their ids.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeId, &NodeRoom)> {
        self.rooms.nodes()
    }

    /// What all nodes that get new containers have free together: an application's headroom.
    #[must_use]
    pub fn free(&self) -> Resource {
        self.rooms.total_free()
    }

    /// Gives attempts what they want as far as there is room for it, and lowers their asks by that. Each container gets
    /// its id from `next_id`, for the attempt it is for, and holds its room until it is released. At most
    /// [`ALLOCATIONS_PER_CALL_MAX`] per call; call again while that many come. Costs nothing if nothing has happened since
    /// the last call.
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

/// The turn of one attempt.
struct Pass<'a> {
    rooms: &'a mut Rooms,
    asks: &'a mut AttemptAsks,
    /// A size that no node had room for in this pass. Room only shrinks in a pass, so larger ones need no look.
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
            let asked_at = ask.asked_at();
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
                    asked_at,
                });
                Some(rack)
            });
            ControlFlow::Continue(())
        });
    }
}
