//! Container tokens, read once at the core's border: the scheduler's part of them, what a call is
//! checked by, and what is told back.

use log_aggregation::policy::ContainerRole;
use prost::Message;
use records::{ContainerId, EpochMillis, Resource};
use sched::ContainerSpec;
use wire::convert::ConvertError;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{ContainerTokenIdentifierProto, ContainerTypeProto, ResourceProto};

/// What a verified container token says, except for the scheduler's part ([`read_spec`]).
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerToken {
    /// User who submitted the application; not checked to be a name.
    pub submitter: String,
    /// Time until which the container may be started or changed.
    pub expiry: EpochMillis,
    /// Registration of the node at the time of the allocation.
    pub rm_identifier: i64,
    /// `LogAggregationContextProto`: the wishes of the application for its logs.
    pub log_context: Option<Vec<u8>>,
    /// Facts that are kept as long as the container is known.
    pub facts: TokenFacts,
}

/// Facts of a container's last token that the scheduler does not need: most are told back to the
/// ResourceManager as they came.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenFacts {
    /// Size as the ResourceManager wrote it, with types of resources that this node does not read.
    /// Decisions are by the scheduler's size.
    pub written_size: Option<ResourceProto>,
    /// Role of the container in its application.
    pub role: ContainerRole,
    /// Time of the allocation, in milliseconds of the ResourceManager's clock.
    pub creation_time: Option<i64>,
    /// Time from the allocation to the token's expiry, in milliseconds.
    pub life_ms: i64,
    /// Priority of the request that the container answers.
    pub priority: Option<i32>,
    /// Labels of the nodes that the request named.
    pub node_label_expression: Option<String>,
    /// Id of the request.
    pub allocation_request_id: Option<i64>,
    /// Tags for placement constraints.
    pub allocation_tags: Vec<String>,
}

impl From<ContainerTokenIdentifierProto> for ContainerToken {
    fn from(token: ContainerTokenIdentifierProto) -> Self {
        let expiry = token.expiry_time_stamp();
        Self {
            expiry: EpochMillis(expiry),
            rm_identifier: token.rm_identifier(),
            log_context: token
                .log_aggregation_context
                .as_ref()
                .map(Message::encode_to_vec),
            facts: TokenFacts {
                role: role(&token),
                life_ms: expiry.saturating_sub(token.creation_time()),
                creation_time: token.creation_time,
                priority: token.priority.and_then(|priority| priority.priority),
                node_label_expression: token.node_label_expression,
                allocation_request_id: token.allocation_request_id,
                allocation_tags: token.allocation_tags,
                written_size: token.resource,
            },
            submitter: token.app_submitter.unwrap_or_default(),
        }
    }
}

/// Returns the role that a token states. One without a role is a task's, although the message's
/// default is the other.
fn role(token: &ContainerTokenIdentifierProto) -> ContainerRole {
    match token.container_type.map(|_| token.container_type()) {
        Some(ContainerTypeProto::ApplicationMaster) => ContainerRole::ApplicationMaster,
        Some(ContainerTypeProto::Task) | None => ContainerRole::Task,
    }
}

/// Reads the fields of a container token that the scheduler needs.
///
/// # Errors
/// `YarnException` naming the field that is missing or makes no sense.
pub fn read_spec(token: &ContainerTokenIdentifierProto) -> Result<ContainerSpec, RemoteException> {
    let unreadable = |error: ConvertError| {
        RemoteException::new(
            HadoopException::YarnException,
            format!("Invalid ContainerToken: {error}"),
        )
    };
    let id = token
        .container_id
        .as_ref()
        .map(ContainerId::try_from)
        .transpose()
        .map_err(unreadable)?;
    let id = id.ok_or_else(|| {
        RemoteException::new(
            HadoopException::YarnException,
            "Invalid ContainerToken: no container id",
        )
    })?;
    let resource = token
        .resource
        .as_ref()
        .map(Resource::try_from)
        .transpose()
        .map_err(unreadable)?;
    Ok(ContainerSpec {
        id,
        resource: resource.unwrap_or_default(),
        execution_type: token.execution_type().into(),
        version: token.version(),
    })
}
