//! Nodes: registration, heartbeats, unregistration, expiry.

use std::collections::BTreeSet;

use records::{ContainerExitStatus, ContainerId, ContainerState, NodeId, Now, Resource};
use sched::NodeLoad;
use wire::convert::required;
use wire::proto::hadoop_yarn::{
    ContainerQueuingLimitProto, ContainerStatusProto, NodeActionProto, NodeHeartbeatRequestProto,
    NodeHeartbeatResponseProto, NodeStatusProto, RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto, UnRegisterNodeManagerRequestProto,
};

use super::Core;
use crate::containers::ContainerStage;
use crate::nodes::{CallOrder, Node, NodeState, Opportunistic};
use crate::refusal::Refusal;

/// Limit on remembered nodes, including gone ones. A new node replaces a gone one; with this many
/// active the next is refused. Hadoop's largest clusters have half as many.
const NODES_MAX: usize = 20_000;

/// Hadoop release that this ResourceManager reports: nodes may insist on a minimum.
pub const RM_VERSION: &str = "3.4.2";

impl Core {
    /// `registerNodeManager`: adds a node, or adds it again with its containers. A node stays in
    /// the rack of its first registration.
    ///
    /// # Errors
    /// A request without a node id, or [`Refusal::TooManyNodes`].
    pub fn register_node(
        &mut self,
        request: &RegisterNodeManagerRequestProto,
        rack: &str,
        now: Now,
    ) -> Result<RegisterNodeManagerResponseProto, Refusal> {
        const MESSAGE: &str = "RegisterNodeManagerRequestProto";
        let id = NodeId::try_from(required(request.node_id.as_ref(), MESSAGE, "node_id")?)?;
        let capability = required(request.resource.as_ref(), MESSAGE, "resource")?;
        let capability = Resource::try_from(capability)?;
        self.evict_gone_node(&id)?;
        let http_address = format!("{}:{}", id.host, request.http_port());
        let running = &mut self.running;
        let node = self.nodes.entry(id.clone()).or_insert_with(|| {
            let node = Node::new(id.clone(), rack.to_owned(), capability);
            *running += usize::from(node.state == NodeState::Running);
            node
        });
        node.http_address = http_address;
        node.capability = capability;
        if !self.guaranteed.set_capability(&id, capability) {
            self.guaranteed
                .add_node(id.clone(), node.rack.clone(), capability);
        }
        self.guaranteed.set_schedulable(&id, true);
        self.promotions.note_change(&id);
        node.version = crate::applications::cut(request.nm_version());
        change_state(node, NodeState::Running, &mut self.running);
        node.last_contact = now.mono;
        node.last_contact_wall = now.wall;
        node.restart_responses();
        self.reconcile_containers(&id, request, now);
        self.place_promotions(now);
        for session in self.sessions.values_mut() {
            session.nm_tokens.remove(&id);
            session.note_node(&id);
        }
        tracing::info!(node = %id, %capability, "node registered");
        Ok(RegisterNodeManagerResponseProto {
            container_token_master_key: Some(self.container_keys.current().clone().into()),
            nm_token_master_key: Some(self.nm_keys.current().clone().into()),
            node_action: Some(NodeActionProto::Normal.into()),
            rm_identifier: Some(self.started.0),
            rm_version: Some(RM_VERSION.to_owned()),
            ..RegisterNodeManagerResponseProto::default()
        })
    }

    fn evict_gone_node(&mut self, id: &NodeId) -> Result<(), Refusal> {
        if self.nodes.len() < NODES_MAX || self.nodes.contains_key(id) {
            return Ok(());
        }
        let gone = self.nodes.values().find(|node| !node.state.is_active());
        let gone = gone.map(|node| node.id.clone());
        let gone = gone.ok_or(Refusal::TooManyNodes(NODES_MAX))?;
        self.nodes.remove(&gone);
        Ok(())
    }

    /// Reconciles the containers that a node reports with the known ones: keeps those on both
    /// sides, orders the node to kill those that only it knows, and completes as lost those that
    /// only the core believed to run.
    fn reconcile_containers(
        &mut self,
        id: &NodeId,
        request: &RegisterNodeManagerRequestProto,
        now: Now,
    ) {
        let mut reported = BTreeSet::new();
        for status in &request.container_statuses {
            let container = status.container_id.as_ref().map(ContainerId::try_from);
            let Some(Ok(container)) = container else {
                continue;
            };
            reported.insert(container);
            let is_complete =
                ContainerState::from(status.container_state()) == ContainerState::Complete;
            let exit_status =
                is_complete.then(|| ContainerExitStatus(status.container_exit_status()));
            self.update_container(id, container, exit_status, status.diagnostics(), now);
        }
        let running: Vec<ContainerId> = self
            .nodes
            .get(id)
            .map_or_else(Vec::new, |node| node.containers.iter().copied().collect());
        for container in running {
            let is_started = self
                .containers
                .get(&container)
                .is_some_and(|container| container.stage == ContainerStage::Running);
            if is_started && !reported.contains(&container) {
                let why = "Container was lost when its node registered again";
                self.end_container(container, ContainerExitStatus::ABORTED, why, now);
            }
        }
        // An application that ended while the node was out of contact.
        for application in &request.running_applications {
            if let Ok(application) = application.try_into()
                && !self.sessions.contains_key(&application)
                && let Some(node) = self.nodes.get_mut(id)
            {
                node.orders.applications.insert(application);
            }
        }
    }

    /// `nodeHeartbeat`, with Hadoop's checks in Hadoop's order.
    pub fn heartbeat(
        &mut self,
        request: NodeHeartbeatRequestProto,
        now: Now,
    ) -> NodeHeartbeatResponseProto {
        let status = request.node_status.unwrap_or_default();
        let id = status
            .node_id
            .as_ref()
            .and_then(|id| NodeId::try_from(id).ok());
        let node = id.and_then(|id| self.nodes.get_mut(&id));
        let Some(node) = node.filter(|node| node.state.is_active()) else {
            return resync("Node not found resyncing");
        };
        node.last_contact = now.mono;
        node.last_contact_wall = now.wall;
        match node.call_order(status.response_id()) {
            CallOrder::Next => {}
            CallOrder::Repeated => {
                if let Some(last) = node.last_response() {
                    return last.clone();
                }
                return resync("Too far behind rm response id");
            }
            CallOrder::OutOfOrder => return resync("Too far behind rm response id"),
        }
        let id = node.id.clone();
        self.take_status(&id, &status, now);
        let known = |key: Option<wire::proto::hadoop_yarn::MasterKeyProto>| key?.key_id;
        let container_key = known(request.last_known_container_token_master_key);
        let nm_key = known(request.last_known_nm_token_master_key);
        let limit = self.load.queuing_limit();
        let is_enabled = self.config.opportunistic.is_enabled;
        let response = NodeHeartbeatResponseProto {
            node_action: Some(NodeActionProto::Normal.into()),
            next_heart_beat_interval: i64::try_from(self.config.heartbeat_ms).ok(),
            container_token_master_key: self
                .container_keys
                .newest_unless_known(container_key)
                .map(|key| key.clone().into()),
            nm_token_master_key: self
                .nm_keys
                .newest_unless_known(nm_key)
                .map(|key| key.clone().into()),
            container_queuing_limit: is_enabled.then(|| ContainerQueuingLimitProto {
                max_queue_length: Some(wire_limit(limit.max_queue_length)),
                max_queue_wait_time_in_ms: Some(wire_limit(limit.max_queue_wait_time_ms)),
            }),
            ..NodeHeartbeatResponseProto::default()
        };
        self.place(now);
        match self.nodes.get_mut(&id) {
            Some(node) => node.answer(response),
            None => resync("Node not found resyncing"),
        }
    }

    fn take_status(&mut self, id: &NodeId, status: &NodeStatusProto, now: Now) {
        let mut allocated = Resource::new(0, 0);
        for container in &status.containers_statuses {
            let is_complete = ContainerState::from(container.state()) == ContainerState::Complete;
            if !is_complete {
                let capability = container.capability.as_ref().map(Resource::try_from);
                if let Some(Ok(capability)) = capability {
                    allocated = allocated.saturating_add(capability);
                }
            }
            self.take_container_status(id, container, is_complete, now);
        }
        let Some(node) = self.nodes.get_mut(id) else {
            return;
        };
        let health = status.node_health_status.as_ref();
        let is_healthy = health.is_none_or(|health| health.is_node_healthy.unwrap_or(true));
        let state = if is_healthy {
            NodeState::Running
        } else {
            NodeState::Unhealthy
        };
        if node.state != state {
            change_state(node, state, &mut self.running);
            self.guaranteed.set_schedulable(id, is_healthy);
            self.promotions.note_change(id);
            for session in self.sessions.values_mut() {
                session.note_node(id);
            }
        }
        node.health_report = health.map_or_else(String::new, |health| {
            crate::applications::cut(health.health_report())
        });
        let said = status.opportunistic_containers_status.unwrap_or_default();
        node.opportunistic = Opportunistic {
            running: said.running_opport_containers(),
            queued: said.queued_opport_containers(),
            used: (said.opport_memory_used(), said.opport_cores_used()),
        };
        if !is_healthy {
            self.load.remove(id);
            return;
        }
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        let load = NodeLoad {
            queue_length: count(said.wait_queue_length()),
            queue_wait_time_ms: u32::try_from(said.estimated_queue_wait_time()).ok(),
            queue_capacity: count(said.opport_queue_capacity()),
            capability: node.capability,
            allocated,
            decommissioning: false,
        };
        self.load.update(id, &node.rack, &load, now.mono);
    }

    fn take_container_status(
        &mut self,
        node: &NodeId,
        status: &ContainerStatusProto,
        is_complete: bool,
        now: Now,
    ) {
        let id = status.container_id.as_ref().map(ContainerId::try_from);
        if let Some(Ok(id)) = id {
            let exit_status = is_complete.then(|| ContainerExitStatus(status.exit_status()));
            self.update_container(node, id, exit_status, status.diagnostics(), now);
        }
    }

    /// Records that a container runs on a node, or completed there with this status.
    fn update_container(
        &mut self,
        node: &NodeId,
        id: ContainerId,
        exit_status: Option<ContainerExitStatus>,
        diagnostics: &str,
        now: Now,
    ) {
        let is_known = self
            .containers
            .get_mut(&id)
            .filter(|container| container.node == *node);
        match (is_known, exit_status) {
            (Some(container), None) => container.stage = ContainerStage::Running,
            (Some(_), Some(exit_status)) => self.end_container(id, exit_status, diagnostics, now),
            (None, None) => {
                if let Some(node) = self.nodes.get_mut(node) {
                    node.orders.cleanup.insert(id);
                }
            }
            (None, Some(_)) => {
                if !self.awaits_acknowledgement(id)
                    && let Some(node) = self.nodes.get_mut(node)
                {
                    node.orders.forget.insert(id);
                }
            }
        }
    }

    /// Returns whether the AM has not yet acknowledged a container's completion.
    fn awaits_acknowledgement(&self, id: ContainerId) -> bool {
        let session = self.sessions.get(&id.application_id());
        session.is_some_and(|session| session.is_unacknowledged(id))
    }

    /// `unRegisterNodeManager`.
    ///
    /// # Errors
    /// A request without a node id.
    pub fn unregister_node(
        &mut self,
        request: &UnRegisterNodeManagerRequestProto,
        now: Now,
    ) -> Result<(), Refusal> {
        const MESSAGE: &str = "UnRegisterNodeManagerRequestProto";
        let id = NodeId::try_from(required(request.node_id.as_ref(), MESSAGE, "node_id")?)?;
        self.deactivate_node(&id, NodeState::Shutdown, now);
        self.place(now);
        Ok(())
    }

    pub(super) fn expire_nodes(&mut self, now: Now) {
        let expiry_ms = self.config.node_expiry_ms;
        let silent = self
            .nodes
            .values()
            .filter(|node| node.state.is_active() && now.mono.since(node.last_contact) > expiry_ms);
        let silent: Vec<NodeId> = silent.map(|node| node.id.clone()).collect();
        for id in silent {
            tracing::warn!(node = %id, "node lost");
            self.deactivate_node(&id, NodeState::Lost, now);
        }
    }

    /// Marks a node as gone and completes its containers.
    fn deactivate_node(&mut self, id: &NodeId, state: NodeState, now: Now) {
        let Some(node) = self.nodes.get_mut(id) else {
            return;
        };
        if !node.state.is_active() {
            return;
        }
        change_state(node, state, &mut self.running);
        self.load.remove(id);
        for session in self.sessions.values_mut() {
            session.note_node(id);
        }
        let containers: Vec<ContainerId> = node.containers.iter().copied().collect();
        for container in containers {
            let why = "Container released on a *lost* node";
            self.end_container(container, ContainerExitStatus::ABORTED, why, now);
        }
        self.guaranteed.remove_node(id);
        if let Some(node) = self.nodes.get_mut(id) {
            node.orders = crate::nodes::Orders::default();
            node.opportunistic = Opportunistic::default();
        }
    }

    /// Returns the running nodes, ordered by id.
    pub(super) fn running_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes
            .values()
            .filter(|node| node.state == NodeState::Running)
    }
}

/// Sets a node's state and updates the number of running nodes.
fn change_state(node: &mut Node, state: NodeState, running: &mut usize) {
    *running -= usize::from(node.state == NodeState::Running);
    *running += usize::from(state == NodeState::Running);
    node.state = state;
}

fn resync(why: &str) -> NodeHeartbeatResponseProto {
    NodeHeartbeatResponseProto {
        node_action: Some(NodeActionProto::Resync.into()),
        diagnostics_message: Some(why.to_owned()),
        ..NodeHeartbeatResponseProto::default()
    }
}

/// Returns the limit as on the wire, where -1 stands for no limit.
fn wire_limit<T: TryInto<i32>>(limit: Option<T>) -> i32 {
    limit.map_or(-1, |limit| limit.try_into().unwrap_or(i32::MAX))
}
