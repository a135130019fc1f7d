//! Allocation of opportunistic containers in one place for all nodes (Hadoop:
//! `CentralizedOpportunisticContainerAllocator`): to the hosts and racks that an ask names, else to
//! the least loaded nodes, as long as their queues have free places.
//!
//! Hadoop draws a random start for every container. Here a call draws once and continues from node
//! to node, so that the containers of one burst spread evenly over the nodes that can take them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::ControlFlow;

use records::{ContainerId, ExecutionType, MonoMillis, NodeId, ResourceRequest};

use super::ask::Place;
use super::asks::{AskError, AskRules, OutstandingAsks};
use super::context::AttemptAsks;
use super::ring::Ring;
use super::{ALLOCATIONS_PER_CALL_MAX, ContainerAllocation};
use crate::node_load::NodeLoadMonitor;
use crate::random::Draw;

/// Outstanding opportunistic asks of one attempt (Hadoop: `OpportunisticContainerContext`).
#[derive(Clone, Debug)]
pub struct OpportunisticContainerContext(AttemptAsks);

impl Default for OpportunisticContainerContext {
    fn default() -> Self {
        Self::new()
    }
}

impl OpportunisticContainerContext {
    /// Creates a context without asks.
    #[must_use]
    pub const fn new() -> Self {
        Self(AttemptAsks::new(AskRules::HadoopOpportunistic))
    }

    /// Applies the opportunistic part of an allocate request, in its order, by the rules of
    /// [`OutstandingAsks::update`].
    ///
    /// # Errors
    /// A line was rejected. Nothing has changed then.
    pub fn update_asks(
        &mut self,
        requests: &[ResourceRequest],
        now: MonoMillis,
    ) -> Result<(), AskError> {
        self.0.update_asks(requests, now)
    }

    /// Changes the hosts that the attempt excludes. Removals come first: a host in both lists is on
    /// the blacklist.
    ///
    /// # Errors
    /// A name or the list is too long. Nothing has changed then.
    pub fn update_blacklist(
        &mut self,
        additions: &[String],
        removals: &[String],
    ) -> Result<(), AskError> {
        self.0.update_blacklist(additions, removals)
    }

    /// Returns the outstanding asks.
    #[must_use]
    pub const fn asks(&self) -> &OutstandingAsks {
        &self.0.asks
    }
}

/// Allocates opportunistic containers on the nodes of a [`NodeLoadMonitor`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpportunisticContainerAllocator {
    /// `yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat`: most
    /// containers per call. `None` (Hadoop: 0 or less) means [`ALLOCATIONS_PER_CALL_MAX`], which
    /// also bounds the configured number.
    pub max_per_heartbeat: Option<NonZeroU32>,
}

impl OpportunisticContainerAllocator {
    /// Allocates containers for the asks of `context` as far as the nodes take them. Lowers the
    /// asks and lengthens the nodes' queues accordingly. `next_id` returns the id of each
    /// container. The rest stays outstanding.
    pub fn allocate(
        &self,
        context: &mut OpportunisticContainerContext,
        nodes: &mut NodeLoadMonitor,
        random: &mut impl Draw,
        mut next_id: impl FnMut() -> ContainerId,
    ) -> Vec<ContainerAllocation> {
        let mut budget = self
            .max_per_heartbeat
            .map_or(ALLOCATIONS_PER_CALL_MAX, NonZeroU32::get)
            .min(ALLOCATIONS_PER_CALL_MAX);
        let AttemptAsks { asks, blacklist } = &mut context.0;
        let allowed = |node: &NodeId| !blacklist.contains(&node.host);
        let mut offered = nodes.offered().filter(|(_, node)| allowed(node));
        if asks.is_empty() {
            // Every call draws, so that a call without asks changes nothing for the next one.
            if offered.next().is_some() {
                random.below(1);
            }
            return Vec::new();
        }
        let mut anywhere = Ring::new(offered.map(|(place, _)| place).collect(), random);
        let mut on_rack: BTreeMap<String, Ring<NodeId>> = BTreeMap::new();
        let mut allocations = Vec::new();
        asks.for_each(|key, ask| {
            if budget == 0 {
                return ControlFlow::Break(());
            }
            let resource = key.capability();
            let asked_at = ask.asked_at();
            ask.sweep(&mut budget, |place, locality| {
                let node_id = match place {
                    Place::Host(host) if blacklist.contains(host) => None,
                    Place::Host(host) => nodes
                        .nodes_of_host(host)
                        .into_iter()
                        .find(|node| nodes.compare_and_increment(node, resource)),
                    Place::Rack(rack) => {
                        if !on_rack.contains_key(rack) {
                            let ids = nodes.nodes_of_rack(rack).filter(|node| allowed(node));
                            let ring = Ring::new(ids.cloned().collect(), random);
                            on_rack.insert(rack.to_owned(), ring);
                        }
                        let ring = on_rack.get_mut(rack)?;
                        ring.take(|id| nodes.offer(id, resource)).cloned()
                    }
                    Place::Any => {
                        let place = anywhere.take(|place| nodes.offer_at(*place, resource));
                        place.and_then(|place| nodes.at(*place)).cloned()
                    }
                }?;
                let rack = nodes.node(&node_id)?.rack.clone();
                allocations.push(ContainerAllocation {
                    container_id: next_id(),
                    node_id,
                    resource,
                    priority: key.priority,
                    allocation_request_id: key.allocation_request_id,
                    execution_type: ExecutionType::Opportunistic,
                    locality,
                    relax_locality: true,
                    asked_at,
                });
                Some(rack)
            });
            ControlFlow::Continue(())
        });
        allocations
    }
}
