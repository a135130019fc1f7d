//! Decodes the ResourceManager's grants and what its answers contain about nodes. Pure.

use std::collections::BTreeSet;

use prost::Message as _;
use records::{NodeId, Resource};
use sched::{DistributedGrant, ResourceLimits};
use wire::proto::hadoop_yarn::{
    NodeReportProto, NodeStateProto, RegisterDistributedSchedulingAmResponseProto,
};
use wire::raw_message::RawMessage;

use crate::fields::allocate_response;

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

/// Decodes the grant in the answer to a registration. A missing increment equals the minimum, as in
/// Hadoop.
pub(super) fn read_grant(
    answer: &RegisterDistributedSchedulingAmResponseProto,
) -> Option<DistributedGrant> {
    let size = |size: Option<&_>| Resource::try_from(size?).ok();
    let minimum = size(answer.min_container_resource.as_ref())?;
    let limits = ResourceLimits {
        minimum: Resource::new(minimum.memory_mb.max(1), minimum.vcores.max(1)),
        maximum: size(answer.max_container_resource.as_ref())?,
        increment: size(answer.incr_container_resource.as_ref()).unwrap_or(minimum),
    };
    Some(DistributedGrant {
        limits,
        token_life_ms: u64::try_from(answer.container_token_expiry_interval()).ok()?,
        container_id_start: answer.container_id_start?,
    })
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
            let grant = read_grant(&answer).unwrap();
            assert_eq!(grant.limits.minimum, Resource::new(read.0, read.1));
        }
    }
}
