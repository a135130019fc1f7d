//! Nodes: the last report of each, the orders for its next heartbeat's answer, and the check
//! whether a heartbeat is a repetition (Hadoop: `RMNodeImpl`, `ResourceTrackerService`).

use std::collections::{BTreeMap, BTreeSet};

use records::{ApplicationId, ContainerId, EpochMillis, MonoMillis, NodeId, Resource};
use wire::proto::hadoop_yarn::{ContainerProto, NodeHeartbeatResponseProto, NodeStateProto};

/// Rack of a node for which no rack is configured (Hadoop: `NetworkTopology.DEFAULT_RACK`).
pub const DEFAULT_RACK: &str = "/default-rack";

/// State of a node in its life cycle (Hadoop: `NodeState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Sends heartbeats and is given containers.
    Running,
    /// Sends heartbeats that report bad health, and is given no containers.
    Unhealthy,
    /// Sent no heartbeat for the expiry interval.
    Lost,
    /// Unregistered, and sends no heartbeats.
    Shutdown,
}

impl NodeState {
    /// Returns whether a node in this state sends heartbeats.
    #[must_use]
    pub const fn is_active(self) -> bool {
        match self {
            Self::Running | Self::Unhealthy => true,
            Self::Lost | Self::Shutdown => false,
        }
    }

    /// Returns Hadoop's name of the state, as in REST.
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

/// Orders to a node that go out with the answer to its next heartbeat. Bounded by the number of
/// containers and applications that the node has had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Orders {
    /// Containers to kill.
    pub cleanup: BTreeSet<ContainerId>,
    /// Finished containers whose completion the AM has acknowledged, so that the node may forget
    /// them.
    pub forget: BTreeSet<ContainerId>,
    /// Applications that have finished, whose files and logs the node may clean up.
    pub applications: BTreeSet<ApplicationId>,
    /// Containers with a new execution type, each in its latest version: an AM may change its mind
    /// many times between two heartbeats.
    pub updates: BTreeMap<ContainerId, ContainerProto>,
}

/// Place of a heartbeat or of an allocate call in its sequence, judged by its response id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOrder {
    /// Call whose answer was lost; the same answer is sent again.
    Repeated,
    /// The next call in the sequence.
    Next,
    /// Call that is neither, so that the peer has to register again.
    OutOfOrder,
}

/// Returns the response id that follows this one. Wraps to 0.
#[must_use]
pub const fn next_response_id(id: i32) -> i32 {
    id.wrapping_add(1) & i32::MAX
}

/// Compares the response id `sent` in a call with the id `last` in the last answer.
#[must_use]
pub const fn call_order(sent: i32, last: i32) -> CallOrder {
    if sent == last {
        CallOrder::Next
    } else if next_response_id(sent) == last {
        CallOrder::Repeated
    } else {
        CallOrder::OutOfOrder
    }
}

/// Opportunistic containers of a node, as of its last heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opportunistic {
    /// Number of containers that run.
    pub running: i32,
    /// Number of containers that are queued.
    pub queued: i32,
    /// Resources that the running ones may use: gibibytes, since that is the unit nodes report, and
    /// virtual cores.
    pub used: (i64, i32),
}

/// A node that has registered at least once.
#[derive(Clone, Debug)]
pub struct Node {
    /// Id of the node.
    pub id: NodeId,
    /// Address of the node's web pages, as `host:port`.
    pub http_address: String,
    /// Rack of the node, a path.
    pub rack: String,
    /// Resources that the node registered with.
    pub capability: Resource,
    /// Version of Hadoop that the node reports.
    pub version: String,
    /// State in the life cycle.
    pub state: NodeState,
    /// Unfinished containers on the node.
    pub containers: BTreeSet<ContainerId>,
    /// Orders for the answer to the next heartbeat.
    pub orders: Orders,
    /// Time of the last registration or heartbeat.
    pub last_contact: MonoMillis,
    /// Wall-clock time of the last registration or heartbeat, for reports.
    pub last_contact_wall: EpochMillis,
    /// Health report of the last heartbeat.
    pub health_report: String,
    /// Opportunistic containers, as of the last heartbeat.
    pub opportunistic: Opportunistic,
    response_id: i32,
    last_response: Option<NodeHeartbeatResponseProto>,
}

impl Node {
    /// Returns a node that registers now.
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
            last_contact: MonoMillis(0),
            last_contact_wall: EpochMillis(0),
            health_report: String::new(),
            opportunistic: Opportunistic::default(),
            response_id: 0,
            last_response: None,
        }
    }

    /// Restarts the sequence of heartbeats, as a registration does.
    pub fn restart_responses(&mut self) {
        self.response_id = 0;
        self.last_response = None;
    }

    /// Returns the place of a heartbeat with this response id in the sequence.
    #[must_use]
    pub fn call_order(&self, sent: i32) -> CallOrder {
        call_order(sent, self.response_id)
    }

    /// Returns the answer to the last heartbeat; `None` before the first.
    #[must_use]
    pub const fn last_response(&self) -> Option<&NodeHeartbeatResponseProto> {
        self.last_response.as_ref()
    }

    /// Moves the orders into an answer, numbers it and keeps a copy for a repetition.
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
        assert_eq!(call_order(5, 5), CallOrder::Next);
        assert_eq!(call_order(4, 5), CallOrder::Repeated);
        assert_eq!(call_order(3, 5), CallOrder::OutOfOrder);
        assert_eq!(call_order(6, 5), CallOrder::OutOfOrder);
        assert_eq!(call_order(-1, 0), CallOrder::Repeated);
    }

    #[test]
    fn numbers_wrap_to_zero_and_a_repetition_is_known_across_it() {
        assert_eq!(next_response_id(i32::MAX), 0);
        assert_eq!(call_order(i32::MAX, 0), CallOrder::Repeated);
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
        assert_eq!(node.call_order(0), CallOrder::Repeated);
        assert_eq!(node.last_response(), Some(&first));
        assert_eq!(node.call_order(1), CallOrder::Next);
        let second = node.answer(NodeHeartbeatResponseProto::default());
        assert!(second.applications_to_cleanup.is_empty());
    }
}
