//! Contents of an answer that the history learns, and the surplus containers taken out of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use records::{ContainerExitStatus, ContainerId};
use role_history::{CompletedContainer, NodeReport, NodeState, Ran};
use sched::{KnownNode, NodeList};
use wire::proto::hadoop_yarn::{
    ContainerIdProto, ContainerProto, ContainerStatusProto, ExecutionTypeProto, NodeReportProto,
    NodeStateProto,
};

use super::asks::AskKey;
use crate::call::Response;
use crate::fields::{allocate_response, register_response};

/// Longest diagnostics of an ended container that are kept, in characters.
const DIAGNOSTICS_MAX: usize = 200;

/// Container with its host and the key of its ask.
type Allocated = (ContainerId, String, AskKey);

/// Answer on its way to the AM.
pub(super) struct Answer<'a>(&'a mut Response);

impl<'a> Answer<'a> {
    pub(super) fn new(response: &'a mut Response) -> Self {
        Self(response)
    }

    /// Returns the allocated containers.
    pub(super) fn allocated(&self) -> Vec<Allocated> {
        let containers = self.0.message.all(allocate_response::ALLOCATED_CONTAINERS);
        containers.filter_map(read_container).collect()
    }

    /// Returns the containers that earlier attempts of the application left running.
    pub(super) fn left_by_previous_attempts(&self) -> Vec<Allocated> {
        let field = register_response::CONTAINERS_FROM_PREVIOUS_ATTEMPTS;
        self.0
            .message
            .all(field)
            .filter_map(read_container)
            .collect()
    }

    /// Returns the ended containers.
    pub(super) fn completed(&self) -> Vec<CompletedContainer> {
        let statuses = self.0.message.all(allocate_response::COMPLETED_CONTAINERS);
        let statuses = statuses.filter_map(|status| ContainerStatusProto::decode(status).ok());
        let completed = statuses.filter_map(|status| {
            let container = ContainerId::try_from(status.container_id.as_ref()?).ok()?;
            let diagnostics = status.diagnostics().chars().take(DIAGNOSTICS_MAX);
            Some(CompletedContainer {
                container,
                exit_status: ContainerExitStatus(status.exit_status()),
                diagnostics: diagnostics.collect(),
                ran: ran(&status),
            })
        });
        completed.collect()
    }

    /// Returns the nodes whose state changed.
    pub(super) fn reports(&self) -> Vec<NodeReport> {
        let report = |report: NodeReportProto| NodeReport {
            state: report.node_state.map(|_| node_state(report.node_state())),
            label: report.node_labels.into_iter().next().unwrap_or_default(),
            host: report
                .node_id
                .map(|id| id.host().to_owned())
                .unwrap_or_default(),
        };
        self.node_reports().map(report).collect()
    }

    /// Returns the racks of the nodes that the answer names. `offered`: list of the last answer,
    /// which is replaced; the same list again is not read.
    pub(super) fn racks(&self, offered: &mut NodeList) -> Vec<(String, Arc<str>)> {
        let reports = self.node_reports();
        let reports = reports.filter_map(|report| Some((report.node_id?, report.rack_name?)));
        let mut racks: Vec<_> = reports
            .map(|(id, rack)| (id.host().to_owned(), rack.into()))
            .collect();
        let list = &self.0.nodes;
        if !list.is_same(offered) {
            let nodes = list.nodes().iter().map(KnownNode::node);
            let nodes = nodes.filter(|node| !node.rack.is_empty());
            racks.extend(nodes.map(|node| (node.node_id.host.clone(), node.rack.as_str().into())));
            *offered = list.clone();
        }
        racks
    }

    fn node_reports(&self) -> impl Iterator<Item = NodeReportProto> {
        let reports = self.0.message.all(allocate_response::UPDATED_NODES);
        reports.filter_map(|report| NodeReportProto::decode(report).ok())
    }

    /// Removes allocated containers that the AM does not get.
    pub(super) fn remove_allocated(&mut self, removed: &BTreeSet<ContainerId>) {
        if removed.is_empty() {
            return;
        }
        let message = &mut self.0.message;
        message.retain(allocate_response::ALLOCATED_CONTAINERS, |container| {
            let read = read_container(container.clone());
            read.is_none_or(|(id, ..)| !removed.contains(&id))
        });
    }

    /// Removes the ends of containers that the AM did not get. Returns those that have ended.
    pub(super) fn remove_ended(&mut self, removed: &BTreeSet<ContainerId>) -> Vec<ContainerId> {
        let mut ended = Vec::new();
        if removed.is_empty() {
            return ended;
        }
        let message = &mut self.0.message;
        message.retain(allocate_response::COMPLETED_CONTAINERS, |status| {
            let read = ContainerStatusProto::decode(status.clone());
            let id = read.ok().and_then(|status| status.container_id);
            let id = id.and_then(|id| ContainerId::try_from(&id).ok());
            let removed = id.filter(|id| removed.contains(id));
            ended.extend(removed);
            removed.is_none()
        });
        ended
    }
}

fn read_container(container: Bytes) -> Option<Allocated> {
    let container = ContainerProto::decode(container).ok()?;
    let id = ContainerId::try_from(container.id.as_ref()?).ok()?;
    let host = container.node_id.as_ref()?.host().to_owned();
    Some((id, host, AskKey::of_container(&container)))
}

/// Encodes the id of a container to release.
pub(super) fn encode_id(id: ContainerId) -> Vec<u8> {
    ContainerIdProto::from(id).encode_to_vec()
}

const fn node_state(state: NodeStateProto) -> NodeState {
    match state {
        NodeStateProto::NsNew => NodeState::New,
        NodeStateProto::NsRunning => NodeState::Running,
        NodeStateProto::NsUnhealthy => NodeState::Unhealthy,
        NodeStateProto::NsDecommissioned => NodeState::Decommissioned,
        NodeStateProto::NsLost => NodeState::Lost,
        NodeStateProto::NsRebooted => NodeState::Rebooted,
        NodeStateProto::NsDecommissioning => NodeState::Decommissioning,
        NodeStateProto::NsShutdown => NodeState::Shutdown,
    }
}

/// Returns what is known of the time for which a container ran. A guaranteed one started when its
/// ApplicationMaster got it, as far as this node can see; an opportunistic one may have waited.
fn ran(status: &ContainerStatusProto) -> Ran {
    match (wire::run_time::of(status), status.execution_type()) {
        (Some(ran_ms), _) => Ran::For(ran_ms),
        (None, ExecutionTypeProto::Guaranteed) => Ran::SinceStart,
        (None, ExecutionTypeProto::Opportunistic) => Ran::Unknown,
    }
}
