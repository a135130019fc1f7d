//! Placement by the nodes' proxies: `sched`'s allocator, one for each job, on the lists of the
//! ResourceManager's answers, or on all nodes after looks at them.

use records::{ContainerExitStatus, ContainerId, MonoMillis, Resource};
use sched::{
    DistributedAllocatorConfig, DistributedGrant, DistributedOpportunisticContainerAllocator,
    KnownNode, NodeList, Placement, ResourceLimits,
};

use super::look::{Looks, remote};
use super::managed::{Allocator, Loads as _, ResourceManager, Shipped};
use super::placer::{MasterCall, Placed, application_of, ask};
use crate::measure::Cost;
use crate::node::{Node, SIZE, number_of};
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
    nodes_used: usize,
    placement: Placement,
    /// Nodes of the last sort that a proxy reads of the list in an answer.
    list: NodeList,
    /// Nodes on that list.
    listed: usize,
    /// Looks at the nodes; `None` without.
    looks: Option<Looks>,
}

impl Distributed {
    pub(super) fn new(nodes_used: usize, placement: Placement) -> Self {
        Self {
            nodes_used,
            placement,
            list: NodeList::default(),
            listed: 0,
            looks: None,
        }
    }

    /// Places after looks at the nodes, of which there are this many.
    pub(super) fn looking(settings: &Settings, nodes: usize) -> Self {
        Self {
            looks: Some(Looks::new(settings, nodes)),
            ..Self::new(settings.nodes_used, Placement::Look)
        }
    }

    fn count_list(&self, cost: &mut Cost) {
        cost.list_entries += self.listed as u64;
    }
}

impl Allocator for Distributed {
    type Loads = Shipped;
    type Job = DistributedOpportunisticContainerAllocator;

    fn begin(
        &mut self,
        job: usize,
        rm: &mut ResourceManager<Shipped>,
        now: MonoMillis,
    ) -> Self::Job {
        let config = DistributedAllocatorConfig {
            placement: self.placement,
            ..DistributedAllocatorConfig::default()
        };
        let attempt = application_of(job).attempt(1);
        let mut allocator = DistributedOpportunisticContainerAllocator::new(attempt, config);
        allocator.registered(GRANT, self.list.clone(), now);
        // The registration is a call.
        rm.cost.rm_calls += 1;
        self.count_list(&mut rm.cost);
        allocator
    }

    fn allocate(
        &mut self,
        allocator: &mut Self::Job,
        call: &MasterCall,
        ended: &[(ContainerId, ContainerExitStatus)],
        nodes: &[Node],
        rm: &mut ResourceManager<Shipped>,
    ) -> Vec<Placed> {
        self.count_list(&mut rm.cost);
        // One line of one ask is within every bound of an attempt.
        let updated = allocator.update_asks(&[ask(call.wanted)], call.now);
        debug_assert_eq!(updated, Ok(()));
        match &mut self.looks {
            Some(looks) => {
                let limit = rm.loads.queuing_limit().max_queue_length;
                rm.cost.looks += looks.place(allocator, call, limit, nodes);
            }
            None => {
                allocator.allocate(call.now);
            }
        }
        for (id, status) in ended {
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

    fn sorted(&mut self, loads: &Shipped) {
        let ids = loads.monitor.select(self.nodes_used);
        self.listed = ids.len();
        let numbers = ids.iter().filter_map(number_of);
        self.list = numbers.map(remote).map(KnownNode::from).collect();
    }

    fn nodes_changed(&mut self, directory: &[usize]) {
        if let Some(looks) = &mut self.looks {
            looks.know(directory);
        }
    }

    fn answer_delay_ms(&self) -> u64 {
        self.looks.as_ref().map_or(0, Looks::look_ms)
    }
}
