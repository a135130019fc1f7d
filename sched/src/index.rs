//! Everything that follows from the containers and is kept so that no decision has to look at all of them: the two
//! queues, who may be evicted in the order of starts, and the sums.
//!
//! A container's part in all of it is a function of its type, size and state alone. So there is one way in and one way
//! out, nothing can drift, and a rebuilt index must equal the one at hand.

use std::collections::BTreeMap;

use records::{ContainerId, ExecutionType};

use crate::action::ContainerSpec;
use crate::container_state::ContainerState;
use crate::queue::{Queue, Waiting};
use crate::utilization::{Amount, ResourceUtilizationTracker, VmemPmemRatio};

/// See the module.
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
    /// Of no containers.
    pub(crate) fn new(vmem_check: Option<VmemPmemRatio>) -> Self {
        Self {
            vmem_check,
            guaranteed: Queue::default(),
            opportunistic: Queue::default(),
            evictable: BTreeMap::new(),
            utilization: ResourceUtilizationTracker::default(),
        }
    }

    /// What a container takes in every dimension.
    pub(crate) fn amount(&self, spec: &ContainerSpec) -> Amount {
        Amount::new(spec.resource, self.vmem_check)
    }

    /// Takes a container in.
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

    /// Takes a container out that was taken in with the same values.
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

    /// The queue of guaranteed containers.
    pub(crate) fn guaranteed(&self) -> &Queue {
        &self.guaranteed
    }

    /// The queue of opportunistic containers.
    pub(crate) fn opportunistic(&self) -> &Queue {
        &self.opportunistic
    }

    /// The queue of a type.
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

    /// Opportunistic containers that may be evicted, most recently started first.
    pub(crate) fn evictable_newest_first(
        &self,
    ) -> impl Iterator<Item = (ContainerId, Amount)> + '_ {
        self.evictable.values().rev().copied()
    }

    /// Mebibytes that frozen containers hold.
    pub(crate) fn frozen_mb(&self) -> u128 {
        self.guaranteed.frozen_mb() + self.opportunistic.frozen_mb()
    }

    /// Sums over the containers that hold room.
    pub(crate) fn utilization(&self) -> &ResourceUtilizationTracker {
        &self.utilization
    }

    /// What the containers that hold room were given.
    pub(crate) fn allocated(&self) -> Amount {
        self.utilization.allocated
    }

    /// What is held, less what comes back without a further decision.
    pub(crate) fn kept(&self) -> Amount {
        self.utilization.allocated - self.utilization.coming_back
    }
}

fn evictable_order(spec: &ContainerSpec, state: ContainerState) -> Option<u64> {
    match spec.execution_type {
        ExecutionType::Guaranteed => None,
        ExecutionType::Opportunistic => state.can_evict(),
    }
}
