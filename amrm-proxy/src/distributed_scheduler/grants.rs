//! Decodes the ResourceManager's grants and its lists of nodes. Pure.

use records::{NodeId, Resource};
use sched::{DistributedGrant, RemoteNode, ResourceLimits};
use wire::proto::hadoop_yarn::{RegisterDistributedSchedulingAmResponseProto, RemoteNodeProto};

/// Decodes a node of the list; `None` when it has no id.
pub(super) fn read_node(node: RemoteNodeProto) -> Option<RemoteNode> {
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
