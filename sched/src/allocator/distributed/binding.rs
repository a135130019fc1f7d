//! Allocation after late binding: containers on the nodes to whose room tasks were bound
//! ([`Binder`]), for the asks of the master's call.
//!
//! [`Binder`]: crate::Binder

use std::collections::VecDeque;

use records::{MonoMillis, Resource};

use super::DistributedOpportunisticContainerAllocator;
use super::looking::Looked;
use crate::allocator::remote_nodes::KnownNode;
use crate::reservation::ExpectedRun;

impl DistributedOpportunisticContainerAllocator {
    /// Returns how long containers of the attempt are expected to run: from their placement until
    /// their ends are told.
    #[must_use]
    pub fn expected_run(&self, now: MonoMillis) -> ExpectedRun {
        if let Some(mean_ms) = self.nodes.run_time_ms() {
            return ExpectedRun::Mean(mean_ms);
        }
        let ages = self.nodes.live().map(|(_, placed)| now.since(placed));
        ExpectedRun::AtLeast(ages.max().unwrap_or(0))
    }

    /// Allocates containers as [`allocate`](Self::allocate) does, those of this size for any node
    /// of this partition on the nodes to which tasks were bound, under
    /// [`Placement::Look`](super::Placement::Look). Returns the nodes that got none: the master
    /// asks for fewer, or containers of a failed call come first.
    pub fn allocate_bound(
        &mut self,
        partition: &str,
        size: Resource,
        bound: VecDeque<KnownNode>,
        now: MonoMillis,
    ) -> VecDeque<KnownNode> {
        let Some(limits) = self.limits_to_allocate(now) else {
            return bound;
        };
        let budget = self.budget();
        let mut looked = Looked::on(partition, size, bound);
        self.give(limits, budget, &mut looked, now);
        looked.left()
    }
}
