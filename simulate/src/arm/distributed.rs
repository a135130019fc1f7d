//! Placement by the nodes' proxies: `sched`'s allocator, one for each job, on the lists of the
//! ResourceManager's answers, or on all nodes after looks at them.

use records::{ContainerExitStatus, ContainerId, MonoMillis, NodeId, Resource};
use sched::{
    DistributedAllocatorConfig, DistributedGrant, DistributedOpportunisticContainerAllocator,
    KnownNode, NodeList, Placement, ResourceLimits,
};

use super::look::{Looks, remote};
use super::managed::{Allocator, Loads as _, ResourceManager, Shipped};
use super::placer::{MasterCall, Placed, application_of, ask};
use crate::measure::Cost;
use crate::node::{Node, SIZE, number_of};
use crate::scenario::{RmKind, Settings};

/// Terms of the ResourceManager.
pub(super) const GRANT: DistributedGrant = DistributedGrant {
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
    rm: RmKind,
    placement: Placement,
    /// Nodes that a proxy reads of the list in an answer.
    list: NodeList,
    /// Nodes on that list.
    listed: Vec<NodeId>,
    /// Looks at the nodes; `None` without.
    looks: Option<Looks>,
}

impl Distributed {
    pub(super) fn new(nodes_used: usize, rm: RmKind, placement: Placement) -> Self {
        Self {
            nodes_used,
            rm,
            placement,
            list: NodeList::default(),
            listed: Vec::new(),
            looks: None,
        }
    }

    /// Places after looks at the nodes, of which there are this many.
    pub(super) fn looking(settings: &Settings, rm: RmKind, nodes: usize) -> Self {
        Self {
            looks: Some(Looks::new(settings, nodes)),
            ..Self::new(settings.nodes_used, rm, Placement::Look)
        }
    }

    fn count_list(&self, cost: &mut Cost) {
        cost.list_entries += self.listed.len() as u64;
    }

    /// Takes the nodes of a list. Answers with the same nodes have the same list.
    fn take_list<'a>(&mut self, ids: impl Iterator<Item = &'a NodeId>) {
        let ids: Vec<&NodeId> = ids.collect();
        if ids.iter().copied().ne(&self.listed) {
            self.listed = ids.into_iter().cloned().collect();
            let numbers = self.listed.iter().filter_map(number_of);
            self.list = numbers.map(remote).map(KnownNode::from).collect();
        }
    }

    /// Has the answer to a call carry the nodes that are offered at this moment.
    fn offer(&mut self, loads: &Shipped) {
        match self.rm {
            RmKind::Hadoop => {}
            RmKind::Embedded => self.take_list(loads.monitor.least_loaded()),
        }
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
        self.offer(&rm.loads);
        let config = DistributedAllocatorConfig {
            placement: self.placement,
            ..DistributedAllocatorConfig::default()
        };
        let attempt = application_of(job).attempt(1);
        let mut allocator = DistributedOpportunisticContainerAllocator::new(attempt, config);
        allocator.registered(GRANT, self.list.clone(), now);
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
        self.offer(&rm.loads);
        self.count_list(&mut rm.cost);
        // One line of one ask is within every bound of an attempt.
        let updated = allocator.update_asks(&[ask(call.wanted)], call.now);
        debug_assert_eq!(updated, Ok(()));
        match &mut self.looks {
            Some(looks) => {
                // A proxy knows the limit that its node has got with the last heartbeat.
                let here = call.node.and_then(|node| nodes.get(node));
                let limit = match here {
                    Some(node) => node.queuing_limit(),
                    None => rm.loads.queuing_limit().max_queue_length,
                };
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
        match self.rm {
            RmKind::Hadoop => self.take_list(loads.monitor.select(self.nodes_used).iter()),
            RmKind::Embedded => {}
        }
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
