//! A simulated ResourceManager: nodes with slots, most of which other services use, and one answer
//! a second.

use std::collections::BTreeMap;

use records::{ApplicationId, ContainerId, Resource};
use role_history::{
    Action, AllocatedContainer, Ask, AskedBy, NodeReport, NodeState, RequestId, RoleId,
};
use sched::{Draw as _, SplitMix64};

pub(crate) const NODES: usize = 1_000;
pub(crate) const SIZE: Resource = Resource::new(1_024, 1);

/// Slots of a node.
const SLOTS: usize = 8;

/// Containers that the ResourceManager allocates in a second.
const ALLOCATIONS_PER_S: usize = 100;

struct Node {
    up: bool,
    /// Slots that other services use.
    others: usize,
    ours: usize,
}

pub(crate) struct ResourceManager {
    random: SplitMix64,
    nodes: Vec<Node>,
    asks: BTreeMap<RequestId, Ask>,
    pub(crate) containers: BTreeMap<ContainerId, (RoleId, usize)>,
    released: Vec<ContainerId>,
    last: i64,
}

pub(crate) fn host(node: usize) -> String {
    format!("node-{node:04}")
}

/// Returns the number of the node with this host name.
pub(crate) fn number(host: &str) -> usize {
    host.trim_start_matches("node-")
        .parse()
        .expect("a host of this cluster")
}

impl ResourceManager {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let node = |_| Node {
            up: true,
            others: 4 + random.below(SLOTS - 3),
            ours: 0,
        };
        Self {
            nodes: (0..NODES).map(node).collect(),
            random,
            asks: BTreeMap::new(),
            containers: BTreeMap::new(),
            released: Vec::new(),
            last: 0,
        }
    }

    /// Returns the state of every node.
    pub(crate) fn reports(&self) -> Vec<NodeReport> {
        let report = |(at, node): (usize, &Node)| NodeReport {
            host: host(at),
            state: Some(if node.up {
                NodeState::Running
            } else {
                NodeState::Lost
            }),
            label: String::new(),
        };
        self.nodes.iter().enumerate().map(report).collect()
    }

    /// Notes what the service sent.
    pub(crate) fn receive(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Request(ask) | Action::Escalate { to: ask, .. } => {
                    self.asks.insert(ask.request, ask);
                }
                Action::Cancel(ask) => {
                    self.asks.remove(&ask.request);
                }
                Action::Satisfied { request, .. } => {
                    self.asks.remove(&request);
                }
                Action::Release(container) => self.released.push(container),
                Action::Save
                | Action::Assign(_)
                | Action::UpdateBlacklist { .. }
                | Action::FailApplication { .. } => {}
            }
        }
    }

    /// Lets a second pass for the other services: one node in a hundred changes its load.
    pub(crate) fn churn(&mut self) {
        for _ in 0..NODES / 100 {
            let others = 4 + self.random.below(SLOTS - 3);
            let at = self.random.below(NODES);
            let node = &mut self.nodes[at];
            node.others = others.min(SLOTS - node.ours);
        }
    }

    /// Breaks a node, or repairs one. Returns it with its state and the containers that were lost.
    pub(crate) fn toggle_node(&mut self) -> (usize, NodeState, Vec<ContainerId>) {
        let broken = self.nodes.iter().position(|node| !node.up);
        if let Some(at) = broken
            && self.random.below(2) == 0
        {
            self.nodes[at].up = true;
            return (at, NodeState::Running, Vec::new());
        }
        let at = self.random.below(NODES);
        self.nodes[at].up = false;
        let lost = self.containers.iter().filter(|(_, (_, node))| *node == at);
        let lost: Vec<_> = lost.map(|(&container, _)| container).collect();
        lost.iter().for_each(|&container| self.end(container));
        (at, NodeState::Lost, lost)
    }

    /// Answers asks. A strict one gets its node or nothing.
    pub(crate) fn allocate(&mut self) -> Vec<AllocatedContainer> {
        let mut allocated = Vec::new();
        let asks: Vec<_> = self.asks.values().cloned().collect();
        for ask in asks.into_iter().take(ALLOCATIONS_PER_S) {
            let has_slot = |node: &Node| node.up && node.others + node.ours < SLOTS;
            let found = if ask.relax_locality {
                let free: Vec<_> = (0..NODES).filter(|&at| has_slot(&self.nodes[at])).collect();
                (!free.is_empty()).then(|| free[self.random.below(free.len())])
            } else {
                Some(number(&ask.hosts[0])).filter(|&at| has_slot(&self.nodes[at]))
            };
            if let Some(at) = found {
                self.asks.remove(&ask.request);
                self.nodes[at].ours += 1;
                self.last += 1;
                let container = ApplicationId::new(1, 1).attempt(1).container(self.last);
                self.containers.insert(container, (ask.priority.role, at));
                allocated.push(AllocatedContainer {
                    container,
                    host: host(at),
                    asked_by: AskedBy::Priority(ask.priority),
                    resource: SIZE,
                });
            }
        }
        allocated
    }

    /// Returns the containers whose release was asked for, which have ended.
    pub(crate) fn take_released(&mut self) -> Vec<ContainerId> {
        let released = std::mem::take(&mut self.released);
        released.iter().for_each(|&container| self.end(container));
        released
    }

    /// Ends a container, whose slot others may take before the service asks again.
    pub(crate) fn end(&mut self, container: ContainerId) {
        if let Some((_, at)) = self.containers.remove(&container) {
            self.nodes[at].ours -= 1;
            if self.random.below(10) == 0 {
                self.nodes[at].others += 1;
            }
        }
    }

    pub(crate) fn draw(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    /// Returns the number of nodes that the service uses, and the most containers on one of them.
    pub(crate) fn spread(&self) -> (usize, usize) {
        let used = self.nodes.iter().filter(|node| node.ours > 0).count();
        let most = self.nodes.iter().map(|node| node.ours).max();
        (used, most.unwrap_or(0))
    }
}
