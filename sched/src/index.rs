//! Index over the containers, kept so that no decision has to visit all of them: the two queues,
//! the evictable containers in the order of their starts, and the sums.
//!
//! A container's entries are a function of its type, size and state alone. Therefore one function
//! adds them and one removes them, nothing can drift, and a rebuilt index must equal the current
//! one. Room withheld after a restart is in the sums as well.

use std::collections::BTreeMap;

use records::{ContainerId, ExecutionType, Resource};

use crate::container_spec::ContainerSpec;
use crate::container_state::ContainerState;
use crate::queue::{Queue, Waiting};
use crate::utilization::{Amount, ResourceUtilizationTracker, VmemPmemRatio};

/// Queues, order of starts and sums, all derived from the containers and from what is withheld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    vmem_check: Option<VmemPmemRatio>,
    guaranteed: Queue,
    opportunistic: Queue,
    /// Opportunistic containers that may be evicted, by the order of their starts.
    evictable: BTreeMap<u64, (ContainerId, Amount)>,
    utilization: ResourceUtilizationTracker,
}

impl Index {
    /// Creates the index of no containers.
    pub(crate) fn new(vmem_check: Option<VmemPmemRatio>) -> Self {
        Self {
            vmem_check,
            guaranteed: Queue::default(),
            opportunistic: Queue::default(),
            evictable: BTreeMap::new(),
            utilization: ResourceUtilizationTracker::default(),
        }
    }

    /// Returns a container's size in every dimension.
    pub(crate) fn amount(&self, spec: &ContainerSpec) -> Amount {
        Amount::new(spec.resource, self.vmem_check)
    }

    /// Adds the entries of a container.
    pub(crate) fn insert(&mut self, spec: &ContainerSpec, state: ContainerState) {
        let amount = self.amount(spec);
        self.utilization.add(spec.execution_type, state, amount);
        if let Some(place) = state.waits_at() {
            self.queue_mut(spec.execution_type).insert(
                place,
                Waiting {
                    id: spec.id,
                    amount,
                },
                state.frozen_mb(),
            );
        }
        if let Some(order) = evictable_order(spec, state) {
            self.evictable.insert(order, (spec.id, amount));
        }
    }

    /// Removes the entries of a container that was inserted with the same values.
    pub(crate) fn remove(&mut self, spec: &ContainerSpec, state: ContainerState) {
        let amount = self.amount(spec);
        self.utilization
            .subtract(spec.execution_type, state, amount);
        if let Some(place) = state.waits_at() {
            self.queue_mut(spec.execution_type).remove(place);
        }
        if let Some(order) = evictable_order(spec, state) {
            self.evictable.remove(&order);
        }
    }

    /// Adds room that no container may take. It is freed without a further decision.
    pub(crate) fn withhold(&mut self, resource: Resource) {
        let amount = Amount::new(resource, self.vmem_check);
        self.utilization.allocated += amount;
        self.utilization.being_freed += amount;
    }

    /// Removes room that was added before.
    pub(crate) fn give_back(&mut self, resource: Resource) {
        let amount = Amount::new(resource, self.vmem_check);
        self.utilization.allocated -= amount;
        self.utilization.being_freed -= amount;
    }

    /// Returns the queue of guaranteed containers.
    pub(crate) fn guaranteed(&self) -> &Queue {
        &self.guaranteed
    }

    /// Returns the queue of opportunistic containers.
    pub(crate) fn opportunistic(&self) -> &Queue {
        &self.opportunistic
    }

    /// Returns the queue of a type.
    pub(crate) fn queue(&self, execution_type: ExecutionType) -> &Queue {
        match execution_type {
            ExecutionType::Guaranteed => &self.guaranteed,
            ExecutionType::Opportunistic => &self.opportunistic,
        }
    }

    fn queue_mut(&mut self, execution_type: ExecutionType) -> &mut Queue {
        match execution_type {
            ExecutionType::Guaranteed => &mut self.guaranteed,
            ExecutionType::Opportunistic => &mut self.opportunistic,
        }
    }

    /// Returns the opportunistic containers that may be evicted, most recently started first.
    pub(crate) fn evictable_newest_first(
        &self,
    ) -> impl Iterator<Item = (ContainerId, Amount)> + '_ {
        self.evictable.values().rev().copied()
    }

    /// Returns the memory that frozen containers hold, in mebibytes.
    pub(crate) fn frozen_mb(&self) -> u128 {
        self.guaranteed.frozen_mb() + self.opportunistic.frozen_mb()
    }

    /// Returns the sums over the containers that hold an allocation.
    pub(crate) fn utilization(&self) -> &ResourceUtilizationTracker {
        &self.utilization
    }

    /// Returns the sum of all allocations held.
    pub(crate) fn allocated(&self) -> Amount {
        self.utilization.allocated
    }

    /// Returns the sum of all allocations less those that are freed without a further decision.
    pub(crate) fn kept(&self) -> Amount {
        self.utilization.allocated - self.utilization.being_freed
    }
}

fn evictable_order(spec: &ContainerSpec, state: ContainerState) -> Option<u64> {
    match spec.execution_type {
        ExecutionType::Guaranteed => None,
        ExecutionType::Opportunistic => state.can_evict(),
    }
}
