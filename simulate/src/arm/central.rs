//! Placement by the ResourceManager: `sched`'s allocator of the embedded one.

use records::{ContainerExitStatus, ContainerId, MonoMillis};
use sched::{OpportunisticContainerAllocator, OpportunisticContainerContext, SplitMix64};
use sim::Streams;

use super::managed::{Allocator, ResourceManager, Shipped};
use super::placer::{MasterCall, Placed, application_of, ask};
use crate::node::{Node, number_of};

pub(super) struct Central {
    allocator: OpportunisticContainerAllocator,
    random: SplitMix64,
}

impl Central {
    pub(super) fn new(streams: Streams) -> Self {
        Self {
            allocator: OpportunisticContainerAllocator::default(),
            random: SplitMix64::new(streams.stream("placement", 0).seed()),
        }
    }
}

impl Allocator for Central {
    type Loads = Shipped;
    /// Asks of the job.
    type Job = OpportunisticContainerContext;

    fn begin(
        &mut self,
        _job: usize,
        _rm: &mut ResourceManager<Shipped>,
        _now: MonoMillis,
    ) -> Self::Job {
        OpportunisticContainerContext::new()
    }

    fn allocate(
        &mut self,
        context: &mut Self::Job,
        call: &MasterCall,
        _ended: &[(ContainerId, ContainerExitStatus)],
        _nodes: &[Node],
        rm: &mut ResourceManager<Shipped>,
    ) -> Vec<Placed> {
        // One line of one ask is within every bound of an attempt.
        let updated = context.update_asks(&[ask(call.wanted)], call.now);
        debug_assert_eq!(updated, Ok(()));
        let attempt = application_of(call.job).attempt(1);
        let (monitor, last_id) = (&mut rm.loads.monitor, &mut rm.last_id);
        let given = self
            .allocator
            .allocate(context, monitor, &mut self.random, || {
                *last_id += 1;
                attempt.container(*last_id)
            });
        let placed = given.iter().filter_map(|container| {
            Some(Placed::opportunistic(
                container.container_id,
                number_of(&container.node_id)?,
            ))
        });
        placed.collect()
    }
}
