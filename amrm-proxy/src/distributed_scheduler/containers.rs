//! Containers as AMs, nodes and the ResourceManager read them: messages and tokens. Pure: keys and time are given.
//!
//! The tokens work on other nodes because the ResourceManager gives all of them the same keys. Source:
//! `OpportunisticContainerAllocator.buildContainer`, `NMTokenSecretManagerInNM.generateNMToken`.

use prost::Message as _;
use records::{ApplicationAttemptId, EpochMillis, NodeId};
use sched::{ContainerAllocation, DistributedAllocation};
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerTokenIdentifierProto, ContainerTypeProto, ExecutionTypeProto,
    NmTokenProto,
};
use wire::secrets::{container_token, nm_token};
use wire::token::MasterKey;

/// What a node signs with: as its ResourceManager told it, the same on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTokenKeys {
    /// Signs container tokens.
    pub container_token: MasterKey,
    /// Signs NMTokens.
    pub nm_token: MasterKey,
    /// Of this node's registration: other nodes of the same ResourceManager have the same.
    pub rm_identifier: i64,
}

/// Who a container is for, and until when it must be started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) user: &'a str,
    pub(super) now: EpochMillis,
    pub(super) token_life_ms: u64,
}

/// A container with its token, encoded.
pub(super) fn encode(
    allocation: &DistributedAllocation,
    keys: &NodeTokenKeys,
    terms: Terms<'_>,
) -> Vec<u8> {
    let DistributedAllocation {
        container,
        http_address,
        partition,
        origin: _,
    } = allocation;
    let ContainerAllocation {
        container_id,
        node_id,
        resource,
        priority,
        allocation_request_id,
        execution_type,
        ..
    } = container;
    let life = i64::try_from(terms.token_life_ms).unwrap_or(i64::MAX);
    let kind = i32::from(ExecutionTypeProto::from(*execution_type));
    let token = container_token(
        &keys.container_token,
        ContainerTokenIdentifierProto {
            container_id: Some((*container_id).into()),
            nm_host_addr: Some(node_id.to_string()),
            app_submitter: Some(terms.user.to_owned()),
            resource: Some((*resource).into()),
            expiry_time_stamp: Some(terms.now.0.saturating_add(life)),
            // Filled in where it is signed.
            master_key_id: None,
            rm_identifier: Some(keys.rm_identifier),
            priority: Some(priority.0.into()),
            creation_time: Some(terms.now.0),
            log_aggregation_context: None,
            node_label_expression: Some(partition.clone()),
            container_type: Some(ContainerTypeProto::Task.into()),
            execution_type: Some(kind),
            version: Some(0),
            allocation_request_id: Some(*allocation_request_id),
            allocation_tags: Vec::new(),
        },
    );
    ContainerProto {
        id: Some((*container_id).into()),
        node_id: Some(node_id.into()),
        node_http_address: Some(http_address.clone()),
        resource: Some((*resource).into()),
        priority: Some(priority.0.into()),
        container_token: Some(token.into()),
        execution_type: Some(kind),
        allocation_request_id: Some(*allocation_request_id),
        ..ContainerProto::default()
    }
    .encode_to_vec()
}

/// The right of an attempt to talk to a node, encoded.
pub(super) fn encode_nm_token(
    attempt: ApplicationAttemptId,
    node: &NodeId,
    user: &str,
    keys: &NodeTokenKeys,
) -> Vec<u8> {
    NmTokenProto {
        node_id: Some(node.into()),
        token: Some(nm_token(&keys.nm_token, attempt, node, user).into()),
    }
    .encode_to_vec()
}
