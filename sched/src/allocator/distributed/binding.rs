//! Allocation after late binding: containers on the nodes to whose room tasks were bound
//! ([`Binder`]), for the asks of the master's call.
//!
//! [`Binder`]: crate::Binder

use std::collections::VecDeque;

use records::{MonoMillis, Resource};

use super::DistributedOpportunisticContainerAllocator;
use super::looking::{KnownNodes, LookPlan, Looked};
use crate::allocator::remote_nodes::KnownNode;
use crate::reservation::ExpectedRun;

/// Containers of one size that an attempt wants on any node of a partition, and that late binding
/// may place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Partition of the nodes; empty: the default one.
    pub partition: String,
    /// Size of each container, as its token states it.
    pub size: Resource,
    /// Number of containers.
    pub wanted: u32,
    /// Nodes that may get them, where the attempt excludes some; `None`: all of the partition.
    pub usable: Option<Vec<KnownNode>>,
}

/// Nodes to whose room tasks of one size are bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundNodes {
    /// Partition of the nodes; empty: the default one.
    pub partition: String,
    /// Size of each container.
    pub size: Resource,
    /// A node for each task, that of the next one first.
    pub nodes: VecDeque<KnownNode>,
}

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

    /// Returns what late binding may place, the most urgent first. `None`: this heartbeat allocates
    /// nothing, because containers of a failed call come first, or nothing is asked for.
    #[must_use]
    pub fn wishes(&self, known: &KnownNodes, now: MonoMillis) -> Option<Vec<Wish>> {
        let groups = self.groups(self.limits_to_allocate(now)?);
        let wishes = groups.into_iter().map(|(partition, size, wanted)| {
            let nodes = known.of_partition(&partition);
            let usable = self.excludes_any().then(|| {
                let usable = nodes.iter().filter(|node| !self.is_excluded(node, now));
                usable.cloned().collect()
            });
            Wish {
                partition,
                size,
                wanted: u32::try_from(wanted).unwrap_or(u32::MAX),
                usable,
            }
        });
        Some(wishes.collect())
    }

    /// Allocates containers as [`allocate`](Self::allocate) does, those for any node on the nodes
    /// to which tasks were bound, under [`Placement::Look`](super::Placement::Look). Returns the
    /// nodes that got none: the master asks for fewer, or containers of a failed call come first.
    /// A node that the attempt excludes gets none, and is not returned.
    ///
    /// `plan`: looks at nodes that take no reservations, which get what is not bound, as far as
    /// they have room at once.
    pub fn allocate_bound(
        &mut self,
        mut bound: Vec<BoundNodes>,
        plan: Option<LookPlan>,
        now: MonoMillis,
    ) -> Vec<BoundNodes> {
        if self.excludes_any() {
            for BoundNodes { nodes, .. } in &mut bound {
                nodes.retain(|node| !self.is_excluded(node, now));
            }
        }
        let Some(limits) = self.limits_to_allocate(now) else {
            return bound;
        };
        let (budget, mut looked) = match plan {
            Some(plan) => (plan.budget(), self.looked(plan, Some(0), now).0),
            None => (self.budget(), Looked::default()),
        };
        looked.add(bound);
        self.give(limits, budget, &mut looked, now);
        self.take_back(&looked);
        looked.take_bound()
    }
}
