//! Placement by the nodes' proxies: `sched`'s allocator, one for each job, on the lists of the
//! ResourceManager's answers.

use records::{ContainerExitStatus, ContainerId, MonoMillis, Resource};
use sched::{
    ContainerQueuingLimit, DistributedAllocatorConfig, DistributedGrant,
    DistributedOpportunisticContainerAllocator, KnownNode, NodeList, NodeLoad, NodeLoadMonitor,
    Placement, RemoteNode, ResourceLimits,
};

use super::{Cost, MasterCall, Placed, Placer, application_of, ask, monitor, update};
use crate::node::{Node, SIZE, node_id, number_of};
use crate::scenario::Settings;

/// Terms of the ResourceManager.
const GRANT: DistributedGrant = DistributedGrant {
    limits: ResourceLimits {
        minimum: SIZE,
        maximum: Resource::new(8_192, 8),
        increment: SIZE,
    },
    token_life_ms: 600_000,
    container_id_start: 1 << 40,
};

pub(super) struct Distributed {
    monitor: NodeLoadMonitor,
    nodes_used: usize,
    placement: Placement,
    /// Nodes of the last sort that a proxy reads of the list in an answer.
    list: NodeList,
    /// Nodes on that list.
    listed: usize,
    /// Allocator of each job, in the order of arrival; `None` after the job's end.
    jobs: Vec<Option<DistributedOpportunisticContainerAllocator>>,
    cost: Cost,
}

impl Distributed {
    pub(super) fn new(settings: &Settings, placement: Placement) -> Self {
        Self {
            monitor: monitor(settings),
            nodes_used: settings.nodes_used,
            placement,
            list: NodeList::default(),
            listed: 0,
            jobs: Vec::new(),
            cost: Cost::default(),
        }
    }

    fn count_answer(&mut self) {
        self.cost.rm_calls += 1;
        self.cost.list_entries += self.listed as u64;
    }
}

impl Placer for Distributed {
    fn node_beats(
        &mut self,
        node: usize,
        load: &NodeLoad,
        _ended: &[(ContainerId, ContainerExitStatus)],
        now: MonoMillis,
    ) {
        update(&mut self.monitor, node, load, now);
    }

    fn job_arrives(&mut self, job: usize, now: MonoMillis) {
        let config = DistributedAllocatorConfig {
            placement: self.placement,
            ..DistributedAllocatorConfig::default()
        };
        let attempt = application_of(job).attempt(1);
        let mut allocator = DistributedOpportunisticContainerAllocator::new(attempt, config);
        allocator.registered(GRANT, self.list.clone(), now);
        self.count_answer();
        self.jobs.resize(job, None);
        self.jobs.push(Some(allocator));
    }

    fn master_calls(&mut self, call: &MasterCall<'_>, _nodes: &[Node]) -> Vec<Placed> {
        self.count_answer();
        let Some(Some(allocator)) = self.jobs.get_mut(call.job) else {
            return Vec::new();
        };
        // One line of one ask is within every bound of an attempt.
        let updated = allocator.update_asks(&[ask(call.wanted)], call.now);
        debug_assert_eq!(updated, Ok(()));
        allocator.allocate(call.now);
        for (id, status) in call.ended {
            allocator.container_ended(*id, *status, call.now);
        }
        let given = allocator.confirmed(self.list.clone(), call.now);
        let placed = given.iter().filter_map(|allocation| {
            Some(Placed::opportunistic(
                allocation.container.container_id,
                number_of(&allocation.container.node_id)?,
            ))
        });
        placed.collect()
    }

    fn node_is_lost(&mut self, node: usize) {
        self.monitor.remove(&node_id(node));
    }

    fn job_ends(&mut self, job: usize) {
        if let Some(allocator) = self.jobs.get_mut(job) {
            *allocator = None;
        }
    }

    fn tick(&mut self, now: MonoMillis) {
        if !self.monitor.tick(now) {
            return;
        }
        let ids = self.monitor.select(self.nodes_used);
        self.listed = ids.len();
        self.list = ids
            .iter()
            .map(|id| RemoteNode {
                node_id: id.clone(),
                http_address: String::new(),
                rack: "/rack".to_owned(),
                partition: String::new(),
            })
            .map(KnownNode::from)
            .collect();
    }

    fn queuing_limit(&self) -> ContainerQueuingLimit {
        self.monitor.queuing_limit()
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}
