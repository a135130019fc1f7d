//! Nodes: what each said last, what is to be told it next, and which heartbeat is a repetition
//! (Hadoop: `RMNodeImpl`, `ResourceTrackerService`).

use std::collections::{BTreeMap, BTreeSet};

use records::{ApplicationId, ContainerId, EpochMillis, MonoMillis, NodeId, Resource};
use wire::proto::hadoop_yarn::{ContainerProto, NodeHeartbeatResponseProto, NodeStateProto};

/// The rack of a node that nothing is known of (Hadoop: `NetworkTopology.DEFAULT_RACK`).
pub const DEFAULT_RACK: &str = "/default-rack";

/// Where a node is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Reports, and gets containers.
    Running,
    /// Reports that it is ill, and gets no containers.
    Unhealthy,
    /// Has been silent for too long.
    Lost,
    /// Has said good-bye.
    Shutdown,
}

impl NodeState {
    /// Whether it reports.
    #[must_use]
    pub const fn is_active(self) -> bool {
        match self {
            Self::Running | Self::Unhealthy => true,
            Self::Lost | Self::Shutdown => false,
        }
    }

    /// Hadoop's name, as in REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Unhealthy => "UNHEALTHY",
            Self::Lost => "LOST",
            Self::Shutdown => "SHUTDOWN",
        }
    }
}

impl From<NodeState> for NodeStateProto {
    fn from(state: NodeState) -> Self {
        match state {
            NodeState::Running => Self::NsRunning,
            NodeState::Unhealthy => Self::NsUnhealthy,
            NodeState::Lost => Self::NsLost,
            NodeState::Shutdown => Self::NsShutdown,
        }
    }
}

/// What a node shall do; it hears of it with the answer to its next heartbeat. Bounded by the containers and
/// applications that the node has had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Orders {
    /// Containers to end.
    pub cleanup: BTreeSet<ContainerId>,
    /// Finished containers whose end has been heard.
    pub forget: BTreeSet<ContainerId>,
    /// Applications that have ended.
    pub applications: BTreeSet<ApplicationId>,
    /// Containers with a new type, each as it is now: a master may change its mind many times between two heartbeats.
    pub updates: BTreeMap<ContainerId, ContainerProto>,
}

/// What the sequence number of a heartbeat, or of a master's call, says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The answer to the last one was lost: give it again.
    Repeated,
    /// The next one.
    Next,
    /// Neither: the two sides have lost each other.
    OutOfOrder,
}

/// The number after this one. Wraps to 0.
#[must_use]
pub const fn next_response_id(id: i32) -> i32 {
    id.wrapping_add(1) & i32::MAX
}

/// Judges a call that carries the number `sent`, where the last answer carried `last`.
#[must_use]
pub const fn turn(sent: i32, last: i32) -> Turn {
    if sent == last {
        Turn::Next
    } else if next_response_id(sent) == last {
        Turn::Repeated
    } else {
        Turn::OutOfOrder
    }
}

/// Opportunistic containers of a node, as it said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opportunistic {
    /// Those that run.
    pub running: i32,
    /// Those that wait.
    pub queued: i32,
    /// What those that run may use, in gibibytes, as nodes count it, and virtual cores.
    pub used: (i64, i32),
}

/// A node that has registered at least once.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Where its pages are, as `host:port`.
    pub http_address: String,
    /// Its rack, a path.
    pub rack: String,
    /// What it offers.
    pub capability: Resource,
    /// Its version of Hadoop.
    pub version: String,
    /// Where it is in its life.
    pub state: NodeState,
    /// Unfinished containers on it.
    pub containers: BTreeSet<ContainerId>,
    /// What it shall do.
    pub orders: Orders,
    /// When it was last heard of.
    pub heard: MonoMillis,
    /// The same for people.
    pub heard_wall: EpochMillis,
    /// What it says of its health.
    pub health_report: String,
    /// Its opportunistic containers.
    pub opportunistic: Opportunistic,
    response_id: i32,
    last_response: Option<NodeHeartbeatResponseProto>,
}

impl Node {
    /// A node that registers.
    #[must_use]
    pub fn new(id: NodeId, rack: String, capability: Resource) -> Self {
        Self {
            id,
            http_address: String::new(),
            rack,
            capability,
            version: String::new(),
            state: NodeState::Running,
            containers: BTreeSet::new(),
            orders: Orders::default(),
            heard: MonoMillis(0),
            heard_wall: EpochMillis(0),
            health_report: String::new(),
            opportunistic: Opportunistic::default(),
            response_id: 0,
            last_response: None,
        }
    }

    /// Starts counting heartbeats again, as after a registration.
    pub fn restart_responses(&mut self) {
        self.response_id = 0;
        self.last_response = None;
    }

    /// What to do with a heartbeat that carries this number.
    #[must_use]
    pub fn turn(&self, sent: i32) -> Turn {
        turn(sent, self.response_id)
    }

    /// The answer to the last heartbeat, once there was one.
    #[must_use]
    pub const fn last_response(&self) -> Option<&NodeHeartbeatResponseProto> {
        self.last_response.as_ref()
    }

    /// Takes the orders into an answer, numbers it and keeps it for a repetition.
    pub fn answer(
        &mut self,
        mut response: NodeHeartbeatResponseProto,
    ) -> NodeHeartbeatResponseProto {
        let orders = std::mem::take(&mut self.orders);
        response.containers_to_cleanup = orders.cleanup.into_iter().map(Into::into).collect();
        response.containers_to_be_removed_from_nm =
            orders.forget.into_iter().map(Into::into).collect();
        response.applications_to_cleanup =
            orders.applications.into_iter().map(Into::into).collect();
        response.containers_to_update = orders.updates.into_values().collect();
        self.response_id = next_response_id(self.response_id);
        response.response_id = Some(self.response_id);
        self.last_response = Some(response.clone());
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_the_next_one_or_a_repetition_or_out_of_order() {
        assert_eq!(turn(5, 5), Turn::Next);
        assert_eq!(turn(4, 5), Turn::Repeated);
        assert_eq!(turn(3, 5), Turn::OutOfOrder);
        assert_eq!(turn(6, 5), Turn::OutOfOrder);
        assert_eq!(turn(-1, 0), Turn::Repeated);
    }

    #[test]
    fn numbers_wrap_to_zero_and_a_repetition_is_known_across_it() {
        assert_eq!(next_response_id(i32::MAX), 0);
        assert_eq!(turn(i32::MAX, 0), Turn::Repeated);
    }

    #[test]
    fn orders_are_given_once_and_repeated_only_for_the_same_heartbeat() {
        let id = NodeId {
            host: "n".to_owned(),
            port: 1,
        };
        let mut node = Node::new(id, DEFAULT_RACK.to_owned(), Resource::new(1, 1));
        node.orders.applications.insert(ApplicationId::new(1, 1));
        let first = node.answer(NodeHeartbeatResponseProto::default());
        assert_eq!(first.applications_to_cleanup.len(), 1);
        assert_eq!(node.turn(0), Turn::Repeated);
        assert_eq!(node.last_response(), Some(&first));
        assert_eq!(node.turn(1), Turn::Next);
        let second = node.answer(NodeHeartbeatResponseProto::default());
        assert!(second.applications_to_cleanup.is_empty());
    }
}
