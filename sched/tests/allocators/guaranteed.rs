//! The guaranteed allocator against sums computed the slow way.

use std::collections::BTreeMap;

use proptest::prelude::*;
use records::{ContainerId, MonoMillis, NodeId, Resource, ResourceRequest};
use sched::{ContainerAllocation, GuaranteedAllocator};

use crate::asked::Asked;
use crate::{Node, attempt, host_name, next_id, requests};

const ATTEMPTS: i32 = 3;

#[derive(Clone, Debug)]
enum Op {
    OfNode(Node, NodeOp),
    OfAttempt(i32, AttemptOp),
    /// Releases the container at this index, if there are that many.
    Release(usize),
    Charge(Node, Resource),
    Allocate,
}

#[derive(Clone, Debug)]
enum NodeOp {
    Add(Resource),
    Remove,
    Resize(Resource),
    Schedulable(bool),
}

#[derive(Clone, Debug)]
enum AttemptOp {
    Add,
    Remove,
    Ask(Vec<ResourceRequest>),
    Blacklist(Vec<String>, Vec<String>),
}

fn size() -> impl Strategy<Value = Resource> {
    (0..12_u64, 0..8_u32).prop_map(|(m, v)| Resource::new(m, v))
}

fn node_op() -> impl Strategy<Value = NodeOp> {
    prop_oneof![
        3 => size().prop_map(NodeOp::Add),
        1 => Just(NodeOp::Remove),
        1 => size().prop_map(NodeOp::Resize),
        1 => any::<bool>().prop_map(NodeOp::Schedulable),
    ]
}

fn attempt_op() -> impl Strategy<Value = AttemptOp> {
    let hosts = || prop::collection::vec(host_name(), 0..2);
    prop_oneof![
        2 => Just(AttemptOp::Add),
        1 => Just(AttemptOp::Remove),
        5 => requests().prop_map(AttemptOp::Ask),
        1 => (hosts(), hosts()).prop_map(|(add, remove)| AttemptOp::Blacklist(add, remove)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (Node::any(), node_op()).prop_map(|(n, op)| Op::OfNode(n, op)),
        6 => (0..ATTEMPTS, attempt_op()).prop_map(|(a, op)| Op::OfAttempt(a, op)),
        4 => (0..6_usize).prop_map(Op::Release),
        1 => (Node::any(), size()).prop_map(|(n, s)| Op::Charge(n, s)),
        4 => Just(Op::Allocate),
    ]
}

#[derive(Debug)]
struct Room {
    rack: String,
    capability: Resource,
    schedulable: bool,
}

#[derive(Debug, Default)]
struct Books {
    nodes: BTreeMap<NodeId, Room>,
    containers: BTreeMap<ContainerId, (NodeId, Resource)>,
    attempts: BTreeMap<i32, Asked>,
    last_id: i64,
}

impl Books {
    fn allocated(&self, node: &NodeId) -> Resource {
        self.containers
            .values()
            .filter(|(on, _)| on == node)
            .fold(Resource::default(), |sum, (_, r)| sum.saturating_add(*r))
    }

    fn free(&self, node: &NodeId) -> Resource {
        self.nodes[node]
            .capability
            .saturating_sub(self.allocated(node))
    }

    /// Removes the containers of a node that has gone; returns them.
    fn clear(&mut self, node: &NodeId) -> Vec<ContainerId> {
        let on_node = |(on, _): &(NodeId, Resource)| on == node;
        let lost = self.containers.iter().filter(|(_, held)| on_node(held));
        let lost: Vec<ContainerId> = lost.map(|(id, _)| *id).collect();
        self.containers.retain(|_, held| !on_node(held));
        lost
    }

    fn allocation(&mut self, given: &ContainerAllocation) -> Result<(), TestCaseError> {
        let room = self.nodes.get(&given.node_id);
        let room = room.ok_or_else(|| TestCaseError::fail("an unknown node"))?;
        prop_assert!(room.schedulable);
        prop_assert!(given.resource.fits_in(self.free(&given.node_id)));
        let id = given.container_id.application_id().id;
        let asked = self.attempts.get_mut(&id);
        let asked = asked.ok_or_else(|| TestCaseError::fail("an unknown attempt"))?;
        asked.give(given, &room.rack).map_err(TestCaseError::fail)?;
        let held = (given.node_id.clone(), given.resource);
        prop_assert!(self.containers.insert(given.container_id, held).is_none());
        Ok(())
    }

    /// Checks that a pass has left no container that could be allocated.
    fn nothing_is_held_back(&self) -> Result<(), TestCaseError> {
        for (id, room) in self.nodes.iter().filter(|(_, room)| room.schedulable) {
            let free = self.free(id);
            for asked in self.attempts.values() {
                for size in asked.wanted_on(id, &room.rack) {
                    prop_assert!(!size.fits_in(free), "{size} fits {id}: {free}");
                }
            }
        }
        Ok(())
    }

    fn agree(&self, allocator: &GuaranteedAllocator) -> Result<(), TestCaseError> {
        prop_assert_eq!(allocator.nodes().count(), self.nodes.len());
        let schedulable = self.nodes.iter().filter(|(_, room)| room.schedulable);
        let free = schedulable.fold(Resource::default(), |sum, (id, _)| {
            sum.saturating_add(self.free(id))
        });
        prop_assert_eq!(allocator.free(), free);
        for (id, node) in allocator.nodes() {
            prop_assert_eq!(node.allocated, self.allocated(id));
            prop_assert_eq!(node.capability, self.nodes[id].capability);
            for container in node.containers() {
                prop_assert_eq!(&self.containers[container].0, id);
            }
        }
        for id in 0..ATTEMPTS {
            let table = allocator.asks(attempt(id));
            prop_assert_eq!(table.is_some(), self.attempts.contains_key(&id));
            if let Some(table) = table {
                self.attempts[&id]
                    .agrees(table)
                    .map_err(TestCaseError::fail)?;
            }
        }
        Ok(())
    }

    fn of_node(
        &mut self,
        allocator: &mut GuaranteedAllocator,
        node: Node,
        op: NodeOp,
    ) -> Result<(), TestCaseError> {
        let id = node.id();
        match op {
            NodeOp::Add(capability) => {
                let lost = self.clear(&id);
                let room = Room {
                    rack: node.rack(),
                    capability,
                    schedulable: true,
                };
                self.nodes.insert(id.clone(), room);
                prop_assert_eq!(
                    allocator.add_node(id.clone(), node.rack(), capability),
                    lost
                );
            }
            NodeOp::Remove => {
                let lost = self.clear(&id);
                self.nodes.remove(&id);
                prop_assert_eq!(allocator.remove_node(&id), lost);
            }
            NodeOp::Resize(capability) => {
                let room = self.nodes.get_mut(&id);
                let known = room.map(|room| room.capability = capability).is_some();
                prop_assert_eq!(allocator.set_capability(&id, capability), known);
            }
            NodeOp::Schedulable(schedulable) => {
                let room = self.nodes.get_mut(&id);
                let known = room.map(|room| room.schedulable = schedulable).is_some();
                prop_assert_eq!(allocator.set_schedulable(&id, schedulable), known);
            }
        }
        Ok(())
    }

    fn of_attempt(
        &mut self,
        allocator: &mut GuaranteedAllocator,
        id: i32,
        op: AttemptOp,
    ) -> Result<(), TestCaseError> {
        match op {
            AttemptOp::Add => {
                self.attempts.entry(id).or_insert_with(|| Asked::new(false));
                allocator.add_attempt(attempt(id));
            }
            AttemptOp::Remove => {
                self.attempts.remove(&id);
                allocator.remove_attempt(attempt(id));
            }
            AttemptOp::Ask(requests) => {
                if let Some(asked) = self.attempts.get_mut(&id) {
                    requests.iter().for_each(|request| asked.ask(request));
                }
                let taken = allocator.update_asks(attempt(id), &requests, MonoMillis(0));
                prop_assert_eq!(taken, Ok(()));
            }
            AttemptOp::Blacklist(add, remove) => {
                if let Some(asked) = self.attempts.get_mut(&id) {
                    asked.blacklist.retain(|host| !remove.contains(host));
                    asked.blacklist.extend(add.iter().cloned());
                }
                let taken = allocator.update_blacklist(attempt(id), &add, &remove);
                prop_assert_eq!(taken, Ok(()));
            }
        }
        Ok(())
    }

    fn step(&mut self, allocator: &mut GuaranteedAllocator, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::OfNode(node, op) => self.of_node(allocator, node, op)?,
            Op::OfAttempt(of, op) => self.of_attempt(allocator, of, op)?,
            Op::Release(index) => {
                let container = self.containers.keys().nth(index).copied();
                let Some(container) = container else {
                    return Ok(());
                };
                let held = self.containers.remove(&container);
                let released = allocator.release(container);
                prop_assert_eq!(released.map(|r| (r.node_id, r.resource)), held);
            }
            Op::Charge(node, resource) => {
                let id = next_id(&mut self.last_id, attempt(0));
                let known = self.nodes.contains_key(&node.id());
                let fits = known && resource.fits_in(self.free(&node.id()));
                prop_assert_eq!(allocator.charge(id, &node.id(), resource).is_ok(), fits);
                if fits {
                    self.containers.insert(id, (node.id(), resource));
                }
            }
            Op::Allocate => {
                let mut last = self.last_id;
                let mut again = allocator.clone();
                let given = allocator.allocate(|of| next_id(&mut self.last_id, of));
                prop_assert_eq!(&again.allocate(|of| next_id(&mut last, of)), &given);
                for allocation in &given {
                    self.allocation(allocation)?;
                }
                self.nothing_is_held_back()?;
            }
        }
        self.agree(allocator)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_given_was_wanted_and_fits_and_what_fits_is_given(
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut allocator = GuaranteedAllocator::new();
        let mut books = Books::default();
        let attempts = (0..ATTEMPTS).map(|id| Op::OfAttempt(id, AttemptOp::Add));
        for op in attempts.chain(ops) {
            books.step(&mut allocator, op)?;
        }
    }
}
