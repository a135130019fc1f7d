//! Encodes containers and their tokens for AMs, nodes and the ResourceManager. Pure: keys and time
//! are arguments.
//!
//! The tokens are valid on other nodes because the ResourceManager gives all nodes the same keys.
//! Source: `OpportunisticContainerAllocator.buildContainer`,
//! `NMTokenSecretManagerInNM.generateNMToken`.

use std::fmt::Write as _;

use bytes::Bytes;
use prost::Message as _;
use records::{ApplicationAttemptId, EpochMillis, NodeId, Resource};
use sched::DistributedAllocation;
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerTokenIdentifierProto, ContainerTypeProto, ExecutionTypeProto,
    NmTokenProto,
};
use wire::secrets::{nm_token, put_container_token};
use wire::token::Signer;

use crate::node_keys::NodeTokenKeys;

/// User and validity of a call's container tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) user: &'a str,
    pub(super) now: EpochMillis,
    pub(super) token_life_ms: u64,
}

/// Encoder for the containers of one call, each with its token. Common fields are set once and the
/// messages are reused, because a call may contain thousands of containers.
pub(super) struct ContainerWriter {
    signer: Signer,
    identifier: ContainerTokenIdentifierProto,
    container: ContainerProto,
    /// Resource size that both messages currently contain.
    size: Option<Resource>,
}

impl ContainerWriter {
    pub(super) fn new(keys: &NodeTokenKeys, terms: Terms<'_>) -> Self {
        let life = i64::try_from(terms.token_life_ms).unwrap_or(i64::MAX);
        Self {
            signer: keys.container_token.signer(),
            // Fields that are absent here are set for each container, or while signing.
            identifier: ContainerTokenIdentifierProto {
                app_submitter: Some(terms.user.to_owned()),
                expiry_time_stamp: Some(terms.now.0.saturating_add(life)),
                rm_identifier: Some(keys.rm_identifier),
                creation_time: Some(terms.now.0),
                container_type: Some(ContainerTypeProto::Task.into()),
                version: Some(0),
                ..ContainerTokenIdentifierProto::default()
            },
            container: ContainerProto::default(),
            size: None,
        }
    }

    /// Encodes a container with its token, as `ContainerProto`.
    pub(super) fn encode(&mut self, allocation: &DistributedAllocation) -> Bytes {
        let DistributedAllocation {
            container: given,
            http_address,
            partition,
            origin: _,
        } = allocation;
        let Self {
            signer,
            identifier,
            container,
            size,
        } = self;
        let kind = i32::from(ExecutionTypeProto::from(given.execution_type));
        let id = Some(given.container_id.into());
        if *size != Some(given.resource) {
            identifier.resource = Some(given.resource.into());
            container.resource = Some(given.resource.into());
            *size = Some(given.resource);
        }

        identifier.container_id = id;
        let address = identifier.nm_host_addr.get_or_insert_default();
        address.clear();
        write!(address, "{}", given.node_id).expect("a String grows as needed");
        identifier.priority = Some(given.priority.0.into());
        let label = identifier.node_label_expression.get_or_insert_default();
        label.clone_from(partition);
        identifier.execution_type = Some(kind);
        identifier.allocation_request_id = Some(given.allocation_request_id);

        container.id = id;
        let node = container.node_id.get_or_insert_default();
        node.host
            .get_or_insert_default()
            .clone_from(&given.node_id.host);
        node.port = Some(given.node_id.port.into());
        let address = container.node_http_address.get_or_insert_default();
        address.clone_from(http_address);
        container.priority = Some(given.priority.0.into());
        let token = container.container_token.get_or_insert_default();
        put_container_token(signer, identifier, token);
        container.execution_type = Some(kind);
        container.allocation_request_id = Some(given.allocation_request_id);
        container.encode_to_vec().into()
    }
}

/// Encodes an `NMTokenProto` that allows the attempt to call a node.
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
