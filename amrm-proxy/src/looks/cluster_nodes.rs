//! All nodes of the cluster, from the ResourceManager's port for clients.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use records::{NodeId, Resource};
use sched::RemoteNode;
use thiserror::Error;
use tokio::time::Instant;
use wire::client::{ClientAuth, ClientOptions};
use wire::failover::{
    Endpoints, FailoverClient, FailoverError, LinkConfig, Pauses, Policy, RawCall, Reactions,
};
use wire::proto::hadoop_yarn::{GetClusterNodesRequestProto, NodeReportProto, NodeStateProto};
use wire::protocol::application_client::{self, GetClusterNodes};
use wire::raw_message::{RawMessage, RawMessageError};
use wire::rpc::Method as _;

use super::directory::{NODES_MAX, ReportedNode};

/// Largest answer that is decoded, in bytes: 320 for each of the nodes that are known at most.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Number of the answer's field for reports of nodes.
const NODE_REPORTS: u32 = 1;

/// Longest time for the question, other ResourceManagers and a new connection included.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Reason for which an answer is not used.
#[derive(Debug, Error)]
pub(super) enum AnswerError {
    #[error("an answer of {0} bytes")]
    TooLong(usize),
    #[error("no message")]
    Garbage(#[from] RawMessageError),
}

/// Answer to the question for all nodes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClusterNodes {
    pub(super) nodes: Vec<ReportedNode>,
    pub(super) bytes: usize,
}

/// Asks the ResourceManagers at these addresses for the nodes that take containers. Each question
/// opens a connection of its own: thousands of nodes ask hours apart.
pub(super) async fn ask(
    endpoints: Arc<Endpoints>,
    user: String,
) -> Result<ClusterNodes, FailoverError> {
    let config = LinkConfig {
        endpoints,
        protocol: application_client::PROTOCOL,
        auth: ClientAuth::Simple { user },
        options: ClientOptions {
            connect_timeout: Duration::from_secs(10),
            call_timeout: ANSWER_TIMEOUT,
            calls_in_flight_max: 1,
            ..ClientOptions::default()
        },
    };
    let policy = Policy {
        pauses: Pauses::NODE,
        interval_max: Duration::from_secs(1),
        give_up_after: None,
        reactions: Reactions::REPEATABLE,
    };
    let mut client = FailoverClient::new(config, policy);
    let request = GetClusterNodesRequestProto {
        node_states: vec![NodeStateProto::NsRunning.into()],
    };
    let call = RawCall {
        method: GetClusterNodes::NAME,
        protocol: application_client::PROTOCOL,
        version: GetClusterNodes::VERSION,
        request: request.encode_to_vec().into(),
    };
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    client.call_raw(&call, deadline, read).await
}

/// Decodes an answer, report by report. Reports that cannot be read are left out, and so is what
/// exceeds the number of nodes.
fn read(answer: Bytes) -> Result<ClusterNodes, AnswerError> {
    let bytes = answer.len();
    if bytes > ANSWER_BYTES_MAX {
        return Err(AnswerError::TooLong(bytes));
    }
    let answer = RawMessage::parse(answer)?;
    let reports = answer.all(NODE_REPORTS);
    let nodes = reports
        .filter_map(|report| NodeReportProto::decode(report).ok())
        .filter_map(read_report)
        .take(NODES_MAX);
    Ok(ClusterNodes {
        nodes: nodes.collect(),
        bytes,
    })
}

/// Decodes a report; `None` for a node without an id, or one that takes no containers.
pub(super) fn read_report(report: NodeReportProto) -> Option<ReportedNode> {
    if report.node_state() != NodeStateProto::NsRunning {
        return None;
    }
    let capability = report.capability.as_ref();
    Some(ReportedNode {
        capability: capability.and_then(|size| Resource::try_from(size).ok()),
        node: RemoteNode {
            node_id: NodeId::try_from(report.node_id?).ok()?,
            http_address: report.http_address.unwrap_or_default(),
            rack: report.rack_name.unwrap_or_default(),
            // A node has one partition at most.
            partition: report.node_labels.into_iter().next().unwrap_or_default(),
        },
    })
}

#[cfg(test)]
mod tests {
    use test_support::ids::node;
    use wire::proto::hadoop_yarn::GetClusterNodesResponseProto;

    use super::*;

    fn report(host: &str, state: NodeStateProto) -> NodeReportProto {
        NodeReportProto {
            node_id: Some(node(host).into()),
            http_address: Some(format!("{host}:8042")),
            rack_name: Some("/rack".to_owned()),
            capability: Some(Resource::new(8_192, 8).into()),
            node_state: Some(state.into()),
            node_labels: vec!["gpu".to_owned()],
            ..NodeReportProto::default()
        }
    }

    fn read_all(reports: Vec<NodeReportProto>) -> ClusterNodes {
        let answer = GetClusterNodesResponseProto {
            node_reports: reports,
        };
        read(answer.encode_to_vec().into()).unwrap()
    }

    #[test]
    fn running_nodes_are_read_with_address_partition_and_size() {
        let nameless = NodeReportProto {
            node_id: None,
            ..report("b", NodeStateProto::NsRunning)
        };
        let read = read_all(vec![
            report("a", NodeStateProto::NsRunning),
            nameless,
            report("c", NodeStateProto::NsUnhealthy),
            report("d", NodeStateProto::NsDecommissioning),
        ]);
        let expected = ReportedNode {
            node: RemoteNode {
                node_id: node("a"),
                http_address: "a:8042".to_owned(),
                rack: "/rack".to_owned(),
                partition: "gpu".to_owned(),
            },
            capability: Some(Resource::new(8_192, 8)),
        };
        assert_eq!(read.nodes, [expected]);
        assert!(read.bytes > 100);
    }

    #[test]
    fn too_long_answers_too_many_nodes_and_garbage_are_bounded() {
        let long = Bytes::from(vec![0; ANSWER_BYTES_MAX + 1]);
        assert!(matches!(read(long), Err(AnswerError::TooLong(_))));
        assert!(read(Bytes::from_static(b"\xff\xff\xff")).is_err());
        // A report that is no report, beside one that is.
        let mut answer = RawMessage::default();
        answer.push(NODE_REPORTS, b"\x0a\xff");
        let good = report("a", NodeStateProto::NsRunning).encode_to_vec();
        answer.push(NODE_REPORTS, &good);
        assert_eq!(read(answer.encode()).unwrap().nodes.len(), 1);
        let small = NodeReportProto {
            node_id: Some(node("a").into()),
            node_state: Some(NodeStateProto::NsRunning.into()),
            ..NodeReportProto::default()
        };
        let many = vec![small; NODES_MAX + 10];
        assert_eq!(read_all(many).nodes.len(), NODES_MAX);
    }
}
