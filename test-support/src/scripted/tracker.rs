//! The state of a ResourceManager with one node, and its answers: `ResourceTrackerService` without
//! the network.

use std::collections::{BTreeMap, VecDeque};

use records::{ApplicationId, ContainerId, ContainerState, NodeId};
use wire::proto::hadoop_yarn::{
    ContainerStateProto, ContainerStatusProto, LogAggregationStatusProto, NodeActionProto,
    NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, NodeStatusProto,
    RegisterNodeManagerRequestProto, RegisterNodeManagerResponseProto,
};
use wire::token::MasterKey;

use crate::RmSecrets;

/// Number of heartbeats kept: half a minute of a node that sends one every 100 ms. Tests look at
/// the last few; a measurement must not grow by what it does not look at.
const HEARTBEATS_KEPT: usize = 300;

/// Mask at which response ids wrap (Hadoop: `getNextResponseId`).
const RESPONSE_ID_MASK: i32 = i32::MAX;

/// Default interval between two heartbeats, milliseconds: short, so that orders arrive soon.
const HEARTBEAT_INTERVAL_MS: i64 = 100;

/// A container that the node reported as finished.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed {
    /// Exit status in the first report.
    pub exit_status: i32,
    /// Diagnostics in the first report.
    pub diagnostics: String,
    /// Number of heartbeats that reported the container.
    pub reports: usize,
}

/// Treatment of the next heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answer {
    /// The heartbeat is answered.
    #[default]
    Given,
    /// The heartbeat is carried out, but the connection breaks before the answer is sent.
    Lost,
}

/// State of a ResourceManager with one node.
#[derive(Debug)]
pub struct Tracker {
    secrets: RmSecrets,
    node: Option<NodeId>,
    response_id: i32,
    last_response: Option<NodeHeartbeatResponseProto>,
    orders: NodeHeartbeatResponseProto,
    /// Diagnostics with which registrations are refused; `None` accepts them.
    pub refusal: Option<String>,
    /// Treatment of the next heartbeat.
    pub next_answer: Answer,
    /// Whether each finished container is acknowledged at once, as by an ApplicationMaster that
    /// always listens.
    pub acknowledge_all: bool,
    /// Ordered interval between two heartbeats, milliseconds.
    pub heartbeat_interval_ms: i64,
    /// Every registration, oldest first.
    pub registrations: Vec<RegisterNodeManagerRequestProto>,
    /// The last heartbeats, oldest first: at most some hundred.
    pub heartbeats: VecDeque<NodeStatusProto>,
    /// States of log aggregation that heartbeats reported, oldest first.
    pub log_reports: Vec<(ApplicationId, LogAggregationStatusProto)>,
    /// Number of heartbeats carried out since the start, without repetitions.
    pub heartbeat_count: usize,
    /// Number of heartbeats answered with the previous answer.
    pub repeated: usize,
    /// Key ids in the node's last heartbeat: for container tokens, for NMTokens.
    pub known_key_ids: (Option<i32>, Option<i32>),
    /// Every container that was reported as finished.
    pub completed: BTreeMap<ContainerId, Completed>,
    /// Number of unregistrations.
    pub unregistrations: usize,
}

impl Tracker {
    /// Returns the state of a ResourceManager that starts now and knows no node.
    #[must_use]
    pub fn new() -> Self {
        Self {
            secrets: RmSecrets::new(),
            node: None,
            response_id: 0,
            last_response: None,
            orders: NodeHeartbeatResponseProto::default(),
            refusal: None,
            next_answer: Answer::Given,
            acknowledge_all: false,
            heartbeat_interval_ms: HEARTBEAT_INTERVAL_MS,
            registrations: Vec::new(),
            heartbeats: VecDeque::new(),
            log_reports: Vec::new(),
            heartbeat_count: 0,
            repeated: 0,
            known_key_ids: (None, None),
            completed: BTreeMap::new(),
            unregistrations: 0,
        }
    }

    /// Returns the present keys.
    #[must_use]
    pub const fn secrets(&self) -> &RmSecrets {
        &self.secrets
    }

    /// Returns the node's id, once it is registered.
    #[must_use]
    pub const fn node(&self) -> Option<&NodeId> {
        self.node.as_ref()
    }

    /// Returns whether a heartbeat came since the last registration: then the node has the keys.
    #[must_use]
    pub const fn has_heartbeat(&self) -> bool {
        self.last_response.is_some()
    }

    /// Returns the answer to the next heartbeat, for adding orders.
    pub const fn orders(&mut self) -> &mut NodeHeartbeatResponseProto {
        &mut self.orders
    }

    /// Makes new keys; the node receives them with its next heartbeats.
    pub fn roll_keys(&mut self) {
        self.secrets = self.secrets.rolled();
    }

    /// Returns whether the node's last heartbeat named the present keys.
    #[must_use]
    pub fn keys_are_known(&self) -> bool {
        let secrets = &self.secrets;
        self.known_key_ids
            == (
                Some(secrets.container_token_key.key_id),
                Some(secrets.nm_token_key.key_id),
            )
    }

    /// Restarts with another identifier, other keys, and no node. What was recorded stays.
    pub fn restart(&mut self) {
        self.secrets = RmSecrets::new();
        self.node = None;
        self.last_response = None;
        self.orders = NodeHeartbeatResponseProto::default();
    }

    /// Returns a container's status in the last heartbeat.
    #[must_use]
    pub fn status(&self, id: ContainerId) -> Option<&ContainerStatusProto> {
        let last = self.heartbeats.back()?;
        last.containers_statuses.iter().find(|status| {
            let found = status.container_id.as_ref().map(ContainerId::try_from);
            found == Some(Ok(id))
        })
    }

    /// Answers `registerNodeManager`, unless `refusal` is set.
    pub fn register(
        &mut self,
        request: RegisterNodeManagerRequestProto,
    ) -> RegisterNodeManagerResponseProto {
        let node = request.node_id.as_ref().map(NodeId::try_from);
        self.registrations.push(request);
        let refusal = match (node, &self.refusal) {
            (Some(Ok(node)), None) => {
                self.node = Some(node);
                None
            }
            (Some(Ok(_)), Some(refusal)) => Some(refusal.clone()),
            (Some(Err(error)), _) => Some(format!("Invalid node id: {error}")),
            (None, _) => Some("no node id".to_owned()),
        };
        if let Some(refusal) = refusal {
            return RegisterNodeManagerResponseProto {
                node_action: Some(NodeActionProto::Shutdown.into()),
                diagnostics_message: Some(refusal),
                ..RegisterNodeManagerResponseProto::default()
            };
        }
        self.response_id = 0;
        self.last_response = None;
        RegisterNodeManagerResponseProto {
            container_token_master_key: Some(self.secrets.container_token_key.clone().into()),
            nm_token_master_key: Some(self.secrets.nm_token_key.clone().into()),
            node_action: Some(NodeActionProto::Normal.into()),
            rm_identifier: Some(self.secrets.rm_identifier),
            rm_version: Some(crate::HADOOP_VERSION.to_owned()),
            ..RegisterNodeManagerResponseProto::default()
        }
    }

    /// Answers `nodeHeartbeat`, in the order of Hadoop's checks.
    pub fn heartbeat(&mut self, request: NodeHeartbeatRequestProto) -> NodeHeartbeatResponseProto {
        let status = request.node_status.unwrap_or_default();
        let node = status
            .node_id
            .as_ref()
            .and_then(|id| NodeId::try_from(id).ok());
        if node.is_none() || node != self.node {
            return resync("Node not found resyncing");
        }
        let sent = status.response_id();
        if let Some(last) = &self.last_response
            && next(sent) == self.response_id
        {
            self.repeated += 1;
            return last.clone();
        }
        if sent != self.response_id {
            self.node = None;
            return resync("Too far behind rm response id");
        }
        self.known_key_ids = (
            request
                .last_known_container_token_master_key
                .and_then(|key| key.key_id),
            request
                .last_known_nm_token_master_key
                .and_then(|key| key.key_id),
        );
        for report in &request.log_aggregation_reports_for_apps {
            let id = report.application_id.as_ref().map(ApplicationId::try_from);
            if let Some(Ok(id)) = id {
                self.log_reports.push((id, report.log_aggregation_status()));
            }
        }
        self.take(status);
        self.response_id = next(self.response_id);
        let mut response = std::mem::take(&mut self.orders);
        response.response_id = Some(self.response_id);
        response.next_heart_beat_interval = Some(self.heartbeat_interval_ms);
        response
            .node_action
            .get_or_insert(NodeActionProto::Normal.into());
        let (container_token, nm_token) = self.known_key_ids;
        response.container_token_master_key =
            unless_known(&self.secrets.container_token_key, container_token);
        response.nm_token_master_key = unless_known(&self.secrets.nm_token_key, nm_token);
        self.last_response = Some(response.clone());
        response
    }

    /// Records `unRegisterNodeManager`.
    pub fn unregister(&mut self) {
        self.unregistrations += 1;
        self.node = None;
    }

    fn take(&mut self, status: NodeStatusProto) {
        for container in &status.containers_statuses {
            let id = container.container_id.as_ref().map(ContainerId::try_from);
            let complete = ContainerStateProto::from(ContainerState::Complete);
            if let Some(Ok(id)) = id
                && container.state() == complete
            {
                let completed = self.completed.entry(id).or_insert_with(|| Completed {
                    exit_status: container.exit_status(),
                    diagnostics: container.diagnostics().to_owned(),
                    reports: 0,
                });
                completed.reports += 1;
                if self.acknowledge_all {
                    self.orders.containers_to_be_removed_from_nm.push(id.into());
                }
            }
        }
        if self.heartbeats.len() == HEARTBEATS_KEPT {
            self.heartbeats.pop_front();
        }
        self.heartbeats.push_back(status);
        self.heartbeat_count += 1;
    }
}

impl Default for Tracker {
    fn default() -> Self {
        Self::new()
    }
}

const fn next(response_id: i32) -> i32 {
    response_id.wrapping_add(1) & RESPONSE_ID_MASK
}

fn resync(why: &str) -> NodeHeartbeatResponseProto {
    NodeHeartbeatResponseProto {
        node_action: Some(NodeActionProto::Resync.into()),
        diagnostics_message: Some(why.to_owned()),
        ..NodeHeartbeatResponseProto::default()
    }
}

fn unless_known(
    key: &MasterKey,
    known: Option<i32>,
) -> Option<wire::proto::hadoop_yarn::MasterKeyProto> {
    (known != Some(key.key_id)).then(|| key.clone().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeId {
        NodeId {
            host: "n".to_owned(),
            port: 1,
        }
    }

    fn registered() -> Tracker {
        let mut tracker = Tracker::new();
        tracker.register(RegisterNodeManagerRequestProto {
            node_id: Some((&node()).into()),
            ..RegisterNodeManagerRequestProto::default()
        });
        tracker
    }

    fn heartbeat(response_id: i32) -> NodeHeartbeatRequestProto {
        NodeHeartbeatRequestProto {
            node_status: Some(NodeStatusProto {
                node_id: Some((&node()).into()),
                response_id: Some(response_id),
                ..NodeStatusProto::default()
            }),
            ..NodeHeartbeatRequestProto::default()
        }
    }

    #[test]
    fn a_repeated_heartbeat_gets_the_same_orders_again_and_a_new_one_does_not() {
        let mut tracker = registered();
        tracker
            .orders()
            .applications_to_cleanup
            .push(records::ApplicationId::new(1, 1).into());
        let first = tracker.heartbeat(heartbeat(0));
        assert_eq!(first.applications_to_cleanup.len(), 1);
        assert_eq!(tracker.heartbeat(heartbeat(0)), first);
        assert!(
            tracker
                .heartbeat(heartbeat(1))
                .applications_to_cleanup
                .is_empty()
        );
        assert_eq!((tracker.heartbeat_count, tracker.repeated), (2, 1));
    }

    #[test]
    fn a_stranger_and_a_node_too_far_behind_are_sent_to_register_again() {
        let mut tracker = registered();
        assert_eq!(
            tracker.heartbeat(heartbeat(7)).node_action(),
            NodeActionProto::Resync
        );
        assert_eq!(
            tracker.heartbeat(heartbeat(0)).node_action(),
            NodeActionProto::Resync
        );
    }

    #[test]
    fn a_refused_node_stays_unknown() {
        let mut tracker = Tracker::new();
        tracker.refusal = Some("too old".to_owned());
        let answer = tracker.register(RegisterNodeManagerRequestProto {
            node_id: Some((&node()).into()),
            ..RegisterNodeManagerRequestProto::default()
        });
        assert_eq!(answer.node_action(), NodeActionProto::Shutdown);
        assert_eq!(tracker.node(), None);
    }

    #[test]
    fn rolled_keys_are_sent_until_the_node_names_them() {
        let mut tracker = registered();
        tracker.roll_keys();
        let answer = tracker.heartbeat(heartbeat(0));
        assert!(
            answer.container_token_master_key.is_some() && answer.nm_token_master_key.is_some()
        );
        let mut request = heartbeat(1);
        request.last_known_container_token_master_key = answer.container_token_master_key;
        request.last_known_nm_token_master_key = answer.nm_token_master_key;
        let answer = tracker.heartbeat(request);
        assert!(
            answer.container_token_master_key.is_none() && answer.nm_token_master_key.is_none()
        );
        assert!(tracker.keys_are_known());
    }
}
