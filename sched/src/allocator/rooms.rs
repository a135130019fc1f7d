//! Free resources of nodes for guaranteed containers, and the containers that hold the rest.
//!
//! Nodes are also ordered by free memory: all together, per rack and per host. A container finds
//! the emptiest node without visiting the others. Full nodes are left out of these orders, so that
//! a job that names every host of a busy cluster finds the few free ones at little cost.

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerId, NodeId, Resource};
use thiserror::Error;

/// Reason why a container cannot be charged to a node; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChargeError {
    /// The node is not registered, or was removed.
    #[error("node {0} is not registered")]
    UnknownNode(NodeId),
    /// The container already holds an allocation.
    #[error("container {container} already holds an allocation on {node}")]
    AlreadyCharged {
        /// Container that was to be charged.
        container: ContainerId,
        /// Node on which it holds its allocation.
        node: NodeId,
    },
    /// The container does not fit into the free resources.
    #[error("{node} has {free} free, less than {wanted}")]
    NoRoom {
        /// Node that was to be charged.
        node: NodeId,
        /// Free resources of the node.
        free: Resource,
        /// Size of the container.
        wanted: Resource,
    },
}

/// Allocation that the end of a container released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// Node of the allocation.
    pub node_id: NodeId,
    /// Size of the allocation.
    pub resource: Resource,
}

/// Resources of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRoom {
    /// Path of the node's rack.
    pub rack: String,
    /// Resources that the node offers.
    pub capability: Resource,
    /// Sum of the guaranteed allocations. Exceeds `capability` only after that shrank, or when
    /// containers were recovered on a node that is smaller than before.
    pub allocated: Resource,
    /// Whether the node gets new containers: false while it is decommissioned.
    pub schedulable: bool,
    containers: BTreeSet<ContainerId>,
}

impl NodeRoom {
    /// Returns the free resources, each type at least 0.
    #[must_use]
    pub fn free(&self) -> Resource {
        self.capability.saturating_sub(self.allocated)
    }

    /// Returns the guaranteed containers in the order of their ids.
    pub fn containers(&self) -> impl ExactSizeIterator<Item = &ContainerId> {
        self.containers.iter()
    }

    /// Returns the node's key in the orders by free resources; `None` if nothing can be placed on
    /// it.
    fn place(&self, id: &NodeId) -> Option<FreePlace> {
        let free = self.free();
        let usable = self.schedulable && free.memory_mb > 0 && free.vcores > 0;
        usable.then(|| FreePlace {
            memory_mb: free.memory_mb,
            vcores: free.vcores,
            id: id.clone(),
        })
    }
}

/// Key of a node by free resources; the emptiest node is the last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FreePlace {
    memory_mb: u64,
    vcores: u32,
    id: NodeId,
}

impl FreePlace {
    fn fits(&self, resource: Resource) -> bool {
        resource.fits_in(Resource::new(self.memory_mb, self.vcores))
    }
}

type FreeOrder = BTreeSet<FreePlace>;

/// Registered nodes and their guaranteed containers, with the orders by free resources.
#[derive(Clone, Debug, Default)]
pub(super) struct Rooms {
    nodes: BTreeMap<NodeId, NodeRoom>,
    containers: BTreeMap<ContainerId, Released>,
    free: FreeOrder,
    /// Nodes with free resources, by rack.
    free_by_rack: BTreeMap<String, FreeOrder>,
    /// Nodes with free resources, by host. Several NodeManagers on one machine are several nodes.
    free_by_host: BTreeMap<String, FreeOrder>,
    total: TotalFree,
}

/// Sum of free resources over all nodes that get new containers. Wide enough that it can neither
/// overflow nor saturate with as many nodes as fit into memory.
#[derive(Clone, Copy, Debug, Default)]
struct TotalFree {
    memory_mb: u128,
    vcores: u64,
}

impl Rooms {
    /// Adds a node without containers; returns the containers of a previous node with the same id.
    pub(super) fn add_node(
        &mut self,
        id: NodeId,
        rack: String,
        capability: Resource,
    ) -> Vec<ContainerId> {
        let lost = self.remove_node(&id);
        let room = NodeRoom {
            rack,
            capability,
            allocated: Resource::default(),
            schedulable: true,
            containers: BTreeSet::new(),
        };
        self.insert_order(&id, &room);
        self.nodes.insert(id, room);
        lost
    }

    /// Removes a node; returns its containers.
    pub(super) fn remove_node(&mut self, id: &NodeId) -> Vec<ContainerId> {
        let Some(room) = self.nodes.remove(id) else {
            return Vec::new();
        };
        self.remove_order(id, &room);
        for container in &room.containers {
            self.containers.remove(container);
        }
        room.containers.into_iter().collect()
    }

    /// Changes a node and keeps the orders consistent; returns whether the node is known.
    pub(super) fn change(&mut self, id: &NodeId, change: impl FnOnce(&mut NodeRoom)) -> bool {
        let Some(mut room) = self.nodes.remove(id) else {
            return false;
        };
        self.remove_order(id, &room);
        change(&mut room);
        self.insert_order(id, &room);
        self.nodes.insert(id.clone(), room);
        true
    }

    /// Charges a container to a node. The container must fit unless it is `recovered`, that is, it
    /// runs already.
    pub(super) fn charge(
        &mut self,
        container: ContainerId,
        node: &NodeId,
        resource: Resource,
        recovered: bool,
    ) -> Result<(), ChargeError> {
        if let Some(held) = self.containers.get(&container) {
            return Err(ChargeError::AlreadyCharged {
                container,
                node: held.node_id.clone(),
            });
        }
        let Some(room) = self.nodes.get(node) else {
            return Err(ChargeError::UnknownNode(node.clone()));
        };
        if !recovered && !resource.fits_in(room.free()) {
            return Err(ChargeError::NoRoom {
                node: node.clone(),
                free: room.free(),
                wanted: resource,
            });
        }
        self.change(node, |room| {
            room.allocated = room.allocated.saturating_add(resource);
            room.containers.insert(container);
        });
        let held = Released {
            node_id: node.clone(),
            resource,
        };
        self.containers.insert(container, held);
        Ok(())
    }

    /// Releases the allocation of a container; `None` if it had none.
    pub(super) fn release(&mut self, container: ContainerId) -> Option<Released> {
        let held = self.containers.remove(&container)?;
        self.change(&held.node_id, |room| {
            room.allocated = room.allocated.saturating_sub(held.resource);
            room.containers.remove(&container);
        });
        Some(held)
    }

    pub(super) fn node(&self, id: &NodeId) -> Option<&NodeRoom> {
        self.nodes.get(id)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (&NodeId, &NodeRoom)> {
        self.nodes.iter()
    }

    /// Returns the allocation of a container.
    pub(super) fn held(&self, container: ContainerId) -> Option<&Released> {
        self.containers.get(&container)
    }

    /// Returns whether no node has free resources.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns the emptiest node of a host that fits a container.
    pub(super) fn on_host(&self, host: &str, resource: Resource) -> Option<NodeId> {
        emptiest(self.free_by_host.get(host)?, resource, |_| true)
    }

    /// Returns the emptiest node of a rack that fits a container and that `allowed` accepts.
    pub(super) fn on_rack(
        &self,
        rack: &str,
        resource: Resource,
        allowed: impl Fn(&NodeId) -> bool,
    ) -> Option<NodeId> {
        emptiest(self.free_by_rack.get(rack)?, resource, allowed)
    }

    /// Returns the emptiest of all nodes that fits a container and that `allowed` accepts.
    pub(super) fn anywhere(
        &self,
        resource: Resource,
        allowed: impl Fn(&NodeId) -> bool,
    ) -> Option<NodeId> {
        emptiest(&self.free, resource, allowed)
    }

    /// Returns the sum of free resources over all nodes that get new containers, clamped to what
    /// the type holds.
    pub(super) fn total_free(&self) -> Resource {
        Resource {
            memory_mb: u64::try_from(self.total.memory_mb).unwrap_or(u64::MAX),
            vcores: u32::try_from(self.total.vcores).unwrap_or(u32::MAX),
        }
    }

    fn insert_order(&mut self, id: &NodeId, room: &NodeRoom) {
        if room.schedulable {
            let free = room.free();
            self.total.memory_mb += u128::from(free.memory_mb);
            self.total.vcores += u64::from(free.vcores);
        }
        if let Some(place) = room.place(id) {
            insert_place(&mut self.free_by_rack, &room.rack, &place);
            insert_place(&mut self.free_by_host, &id.host, &place);
            self.free.insert(place);
        }
    }

    fn remove_order(&mut self, id: &NodeId, room: &NodeRoom) {
        if room.schedulable {
            let free = room.free();
            self.total.memory_mb -= u128::from(free.memory_mb);
            self.total.vcores -= u64::from(free.vcores);
        }
        let Some(place) = room.place(id) else {
            return;
        };
        self.free.remove(&place);
        remove_place(&mut self.free_by_rack, &room.rack, &place);
        remove_place(&mut self.free_by_host, &id.host, &place);
    }
}

fn insert_place(orders: &mut BTreeMap<String, FreeOrder>, name: &str, place: &FreePlace) {
    if let Some(order) = orders.get_mut(name) {
        order.insert(place.clone());
    } else {
        orders.insert(name.to_owned(), FreeOrder::from([place.clone()]));
    }
}

fn remove_place(orders: &mut BTreeMap<String, FreeOrder>, name: &str, place: &FreePlace) {
    if let Some(order) = orders.get_mut(name) {
        order.remove(place);
        if order.is_empty() {
            orders.remove(name);
        }
    }
}

fn emptiest(
    order: &FreeOrder,
    resource: Resource,
    allowed: impl Fn(&NodeId) -> bool,
) -> Option<NodeId> {
    order
        .iter()
        .rev()
        .take_while(|place| resource.memory_mb <= place.memory_mb)
        .find(|place| place.fits(resource) && allowed(&place.id))
        .map(|place| place.id.clone())
}
