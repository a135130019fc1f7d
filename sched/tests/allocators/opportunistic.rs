//! The opportunistic allocator against queues counted the slow way.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use proptest::prelude::*;
use records::{ContainerId, MonoMillis, NodeId, Resource, ResourceRequest};
use sched::{
    ContainerAllocation, LoadComparator, Locality, NodeLoad, NodeLoadConfig, NodeLoadMonitor,
    OpportunisticContainerAllocator, OpportunisticContainerContext, QueueLimitConfig, SplitMix64,
};

use crate::asked::Asked;
use crate::{Node, attempt, host_name, next_id, requests};

#[derive(Clone, Debug)]
enum Op {
    Heartbeat(Node, NodeLoad),
    Remove(Node),
    Sort,
    Ask(Vec<ResourceRequest>),
    Blacklist(Vec<String>, Vec<String>),
    Allocate(u32),
}

fn load() -> impl Strategy<Value = NodeLoad> {
    (
        0..4_u32,
        0..6_u32,
        (0..8_u64, 0..6_u32),
        (0..4_u64, 0..4_u32),
    )
        .prop_map(
            |(queue_length, queue_capacity, capability, allocated)| NodeLoad {
                queue_length,
                queue_wait_time_ms: Some(queue_length),
                queue_capacity,
                capability: Resource::new(capability.0, capability.1),
                allocated: Resource::new(allocated.0, allocated.1),
                decommissioning: false,
            },
        )
}

fn op() -> impl Strategy<Value = Op> {
    let hosts = || prop::collection::vec(host_name(), 0..2);
    prop_oneof![
        6 => (Node::any(), load()).prop_map(|(n, l)| Op::Heartbeat(n, l)),
        1 => Node::any().prop_map(Op::Remove),
        3 => Just(Op::Sort),
        4 => requests().prop_map(Op::Ask),
        1 => (hosts(), hosts()).prop_map(|(add, remove)| Op::Blacklist(add, remove)),
        4 => (0..8_u32).prop_map(Op::Allocate),
    ]
}

struct World {
    comparator: LoadComparator,
    nodes_used: usize,
    queues: BTreeMap<NodeId, NodeLoad>,
    /// Waiting containers in the last heartbeat of each node.
    waiting: BTreeMap<NodeId, u32>,
    /// Limit that the monitor publishes.
    limit: Option<usize>,
    racks: BTreeMap<NodeId, String>,
    asked: Asked,
    last_id: i64,
}

impl World {
    /// Returns whether a node may take another container, and counts it if so.
    fn takes(&mut self, id: &NodeId, size: Resource) -> bool {
        let Some(node) = self.queues.get_mut(id) else {
            return false;
        };
        let room = node.capability.saturating_sub(node.allocated);
        let queues = match self.comparator {
            LoadComparator::QueueWaitTime => return true,
            LoadComparator::QueueLengthThenResources if size.fits_in(room) => {
                node.allocated = node.allocated.saturating_add(size);
                return true;
            }
            LoadComparator::QueueLengthThenResources => size.fits_in(node.capability),
            LoadComparator::QueueLength => true,
        };
        let waiting = self.waiting[id] as usize;
        let is_at_limit = waiting > 0 && self.limit.is_some_and(|limit| waiting >= limit);
        let joins = queues && !is_at_limit && node.queue_length < node.queue_capacity;
        node.queue_length += u32::from(joins);
        joins
    }

    fn given(
        &mut self,
        given: &ContainerAllocation,
        offered: &[NodeId],
    ) -> Result<(), TestCaseError> {
        let rack = self.racks.get(&given.node_id).cloned();
        let rack = rack.ok_or_else(|| TestCaseError::fail("an unknown node"))?;
        if given.locality == Locality::OffSwitch {
            prop_assert!(offered.contains(&given.node_id));
        }
        prop_assert!(self.takes(&given.node_id, given.resource));
        self.asked.give(given, &rack).map_err(TestCaseError::fail)
    }

    /// Returns whether a node of the list could have taken a container that is still wanted.
    fn held_back(&mut self, offered: &[NodeId]) -> bool {
        offered.iter().any(|id| {
            let sizes = self.asked.wanted_on(id, &self.racks[id]);
            sizes.into_iter().any(|size| self.takes(id, size))
        })
    }
}

struct Subject {
    monitor: NodeLoadMonitor,
    context: OpportunisticContainerContext,
    random: SplitMix64,
}

impl Subject {
    fn allocate(
        &mut self,
        max: u32,
        mut id: impl FnMut() -> ContainerId,
    ) -> Vec<ContainerAllocation> {
        let allocator = OpportunisticContainerAllocator {
            max_per_heartbeat: NonZeroU32::new(max),
        };
        allocator.allocate(
            &mut self.context,
            &mut self.monitor,
            &mut self.random,
            &mut id,
        )
    }
}

fn step(world: &mut World, subject: &mut Subject, op: Op) -> Result<(), TestCaseError> {
    let now = MonoMillis(1);
    match op {
        Op::Heartbeat(node, load) => {
            let known = world.queues.get(&node.id());
            let queue_capacity = known.map_or(load.queue_capacity, |known| known.queue_capacity);
            let kept = NodeLoad {
                queue_capacity,
                ..load
            };
            world.queues.insert(node.id(), kept);
            world.waiting.insert(node.id(), load.queue_length);
            world.racks.insert(node.id(), node.rack());
            subject.monitor.update(&node.id(), &node.rack(), &load, now);
        }
        Op::Remove(node) => {
            world.queues.remove(&node.id());
            world.racks.remove(&node.id());
            subject.monitor.remove(&node.id());
        }
        Op::Sort => subject.monitor.sort(now),
        Op::Ask(requests) => {
            requests.iter().for_each(|request| world.asked.ask(request));
            prop_assert_eq!(subject.context.update_asks(&requests, now), Ok(()));
        }
        Op::Blacklist(add, remove) => {
            world.asked.blacklist.retain(|host| !remove.contains(host));
            world.asked.blacklist.extend(add.iter().cloned());
            prop_assert_eq!(subject.context.update_blacklist(&add, &remove), Ok(()));
        }
        Op::Allocate(max) => {
            world.limit = subject.monitor.queuing_limit().max_queue_length;
            let offered: Vec<_> = subject.monitor.least_loaded().cloned().collect();
            prop_assert!(offered.len() <= world.nodes_used);
            let mut again = Subject {
                monitor: subject.monitor.clone(),
                context: subject.context.clone(),
                random: subject.random.clone(),
            };
            let mut last = world.last_id;
            let given = subject.allocate(max, || next_id(&mut world.last_id, attempt(0)));
            let repeated = again.allocate(max, || next_id(&mut last, attempt(0)));
            prop_assert_eq!(&repeated, &given);
            for allocation in &given {
                world.given(allocation, &offered)?;
            }
            let all = max == 0 || given.len() < max as usize;
            prop_assert!(max == 0 || given.len() <= max as usize);
            prop_assert!(!all || !world.held_back(&offered));
        }
    }
    for (id, node) in subject.monitor.nodes() {
        let load = &world.queues[id];
        prop_assert_eq!(node.queue_length, load.queue_length);
        prop_assert_eq!(node.allocated, load.allocated);
    }
    world
        .asked
        .agrees(subject.context.asks())
        .map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_given_was_wanted_and_has_a_place_and_what_has_a_place_is_given(
        comparator in prop_oneof![
            Just(LoadComparator::QueueLength),
            Just(LoadComparator::QueueLengthThenResources),
            Just(LoadComparator::QueueWaitTime),
        ],
        nodes_used in 0..10_usize,
        seed in any::<u64>(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let queue_limit = QueueLimitConfig { sigma: 1.0, min: 1, max: 3 };
        let config =
            NodeLoadConfig { comparator, nodes_used, queue_limit, ..NodeLoadConfig::default() };
        let mut subject = Subject {
            monitor: NodeLoadMonitor::new(config, MonoMillis(0)),
            context: OpportunisticContainerContext::new(),
            random: SplitMix64::new(seed),
        };
        let mut world = World {
            comparator,
            nodes_used,
            queues: BTreeMap::new(),
            waiting: BTreeMap::new(),
            limit: None,
            racks: BTreeMap::new(),
            asked: Asked::new(true),
            last_id: 0,
        };
        for op in ops {
            step(&mut world, &mut subject, op)?;
        }
    }
}
