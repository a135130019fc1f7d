//! Placement by the ResourceManager: `sched`'s allocator of the embedded one.

use records::{ContainerExitStatus, ContainerId, MonoMillis};
use sched::{
    ContainerQueuingLimit, NodeLoad, NodeLoadMonitor, OpportunisticContainerAllocator,
    OpportunisticContainerContext, SplitMix64,
};
use sim::Streams;

use super::{Cost, MasterCall, Placed, Placer, application_of, ask, monitor, update};
use crate::node::{Node, node_id, number_of};
use crate::scenario::Settings;

pub(super) struct Central {
    monitor: NodeLoadMonitor,
    allocator: OpportunisticContainerAllocator,
    /// Asks of each job, in the order of arrival; `None` after the job's end.
    jobs: Vec<Option<OpportunisticContainerContext>>,
    last_id: i64,
    random: SplitMix64,
    cost: Cost,
}

impl Central {
    pub(super) fn new(settings: &Settings, streams: Streams) -> Self {
        Self {
            monitor: monitor(settings),
            allocator: OpportunisticContainerAllocator::default(),
            jobs: Vec::new(),
            last_id: 0,
            random: SplitMix64::new(streams.stream("placement", 0).seed()),
            cost: Cost::default(),
        }
    }
}

impl Placer for Central {
    fn node_beats(
        &mut self,
        node: usize,
        load: &NodeLoad,
        _ended: &[(ContainerId, ContainerExitStatus)],
        now: MonoMillis,
    ) {
        update(&mut self.monitor, node, load, now);
    }

    fn job_arrives(&mut self, job: usize, _now: MonoMillis) {
        self.jobs.resize(job, None);
        self.jobs.push(Some(OpportunisticContainerContext::new()));
    }

    fn master_calls(&mut self, call: &MasterCall<'_>, _nodes: &[Node]) -> Vec<Placed> {
        self.cost.rm_calls += 1;
        let Some(Some(context)) = self.jobs.get_mut(call.job) else {
            return Vec::new();
        };
        // One line of one ask is within every bound of an attempt.
        let updated = context.update_asks(&[ask(call.wanted)], call.now);
        debug_assert_eq!(updated, Ok(()));
        let attempt = application_of(call.job).attempt(1);
        let last_id = &mut self.last_id;
        let given = self
            .allocator
            .allocate(context, &mut self.monitor, &mut self.random, || {
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

    fn node_is_lost(&mut self, node: usize) {
        self.monitor.remove(&node_id(node));
    }

    fn job_ends(&mut self, job: usize) {
        if let Some(context) = self.jobs.get_mut(job) {
            *context = None;
        }
    }

    fn tick(&mut self, now: MonoMillis) {
        self.monitor.tick(now);
    }

    fn queuing_limit(&self) -> ContainerQueuingLimit {
        self.monitor.queuing_limit()
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}
