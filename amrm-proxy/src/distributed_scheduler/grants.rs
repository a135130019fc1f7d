//! Decodes the ResourceManager's grants and what its answers contain about nodes. Pure.

use std::collections::BTreeSet;

use prost::Message as _;
use records::{NodeId, Resource};
use sched::{DistributedGrant, RemoteNode, ResourceLimits};
use wire::proto::hadoop_yarn::{
    NodeReportProto, NodeStateProto, RegisterDistributedSchedulingAmResponseProto, RemoteNodeProto,
};
use wire::raw_message::RawMessage;

use crate::fields::{allocate_response, distributed_allocate_response};

/// Decodes the list of nodes in an answer. Nodes that cannot be read are left out.
pub(super) fn read_nodes(scheduling: &RawMessage) -> Vec<RemoteNode> {
    scheduling
        .all(distributed_allocate_response::NODES)
        .filter_map(|node| RemoteNodeProto::decode(node).ok())
        .filter_map(read_node)
        .collect()
}

/// Decodes the nodes of an answer's `updated_nodes` that take no new containers.
pub(super) fn read_gone_nodes(message: &RawMessage) -> BTreeSet<NodeId> {
    message
        .all(allocate_response::UPDATED_NODES)
        .filter_map(|report| NodeReportProto::decode(report).ok())
        .filter(|report| match report.node_state() {
            NodeStateProto::NsNew | NodeStateProto::NsRunning => false,
            NodeStateProto::NsUnhealthy
            | NodeStateProto::NsDecommissioned
            | NodeStateProto::NsLost
            | NodeStateProto::NsRebooted
            | NodeStateProto::NsDecommissioning
            | NodeStateProto::NsShutdown => true,
        })
        .filter_map(|report| NodeId::try_from(report.node_id?).ok())
        .collect()
}

/// Decodes a node of the list; `None` when it has no id.
fn read_node(node: RemoteNodeProto) -> Option<RemoteNode> {
    Some(RemoteNode {
        node_id: NodeId::try_from(node.node_id?).ok()?,
        http_address: node.http_address.unwrap_or_default(),
        rack: node.rack_name.unwrap_or_default(),
        partition: node.node_partition.unwrap_or_default(),
    })
}

/// Decodes the grant and the nodes in the answer to a registration. A missing increment equals the
/// minimum, as in Hadoop.
pub(super) fn read_grant(
    answer: RegisterDistributedSchedulingAmResponseProto,
) -> Option<(DistributedGrant, Vec<RemoteNode>)> {
    let size = |size: Option<&_>| Resource::try_from(size?).ok();
    let minimum = size(answer.min_container_resource.as_ref())?;
    let limits = ResourceLimits {
        minimum: Resource::new(minimum.memory_mb.max(1), minimum.vcores.max(1)),
        maximum: size(answer.max_container_resource.as_ref())?,
        increment: size(answer.incr_container_resource.as_ref()).unwrap_or(minimum),
    };
    let grant = DistributedGrant {
        limits,
        token_life_ms: u64::try_from(answer.container_token_expiry_interval()).ok()?,
        container_id_start: answer.container_id_start?,
    };
    let nodes = answer
        .nodes_for_scheduling
        .into_iter()
        .filter_map(read_node);
    Some((grant, nodes.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_is_the_one_granted_and_at_least_one_of_each() {
        for (granted, read) in [((128, 2), (128, 2)), ((0, 0), (1, 1))] {
            let answer = RegisterDistributedSchedulingAmResponseProto {
                min_container_resource: Some(Resource::new(granted.0, granted.1).into()),
                max_container_resource: Some(Resource::new(2_048, 4).into()),
                container_id_start: Some(0),
                ..RegisterDistributedSchedulingAmResponseProto::default()
            };
            let (grant, _) = read_grant(answer).unwrap();
            assert_eq!(grant.limits.minimum, Resource::new(read.0, read.1));
        }
    }
}
