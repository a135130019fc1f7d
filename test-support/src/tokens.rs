//! Keys of a ResourceManager, and the tokens signed with them.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use records::{ApplicationAttemptId, ContainerId, ExecutionType, NodeId, Resource};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerTokenIdentifierProto, ContainerTypeProto, ExecutionTypeProto,
    LogAggregationContextProto,
};
use wire::token::{MasterKey, Token};

/// Hadoop's default lifetime of a container token, in milliseconds
/// (`yarn.resourcemanager.rm.container-allocation.expiry-interval-ms`).
const CONTAINER_TOKEN_LIFE_MS: i64 = 600_000;

/// Returns the present time in milliseconds since 1970.
///
/// # Panics
/// When the clock is set to before 1970.
#[must_use]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.expect("the clock is after 1970");
    i64::try_from(since.as_millis()).expect("milliseconds fit for millions of years")
}

/// Returns the key that the golden tokens captured from Hadoop are signed with.
#[must_use]
pub fn master_key() -> MasterKey {
    MasterKey::new(42, Bytes::from_static(&[1, 2, 3, 4, 5, 6, 7, 8]))
}

/// Keys that a ResourceManager shares with its nodes.
#[derive(Debug, Clone)]
pub struct RmSecrets {
    /// Start of the ResourceManager, in milliseconds since 1970; part of every container token and
    /// application id.
    pub rm_identifier: i64,
    /// Key of container tokens.
    pub container_token_key: MasterKey,
    /// Key of NMTokens.
    pub nm_token_key: MasterKey,
}

impl RmSecrets {
    /// Returns the keys of a ResourceManager that starts now; no two calls in a process return the
    /// same.
    #[must_use]
    pub fn new() -> Self {
        static STARTED: AtomicI32 = AtomicI32::new(0);
        let number = i64::from(STARTED.fetch_add(1, Ordering::Relaxed));
        Self {
            rm_identifier: now_ms() + number,
            container_token_key: new_key(),
            nm_token_key: new_key(),
        }
    }

    /// Returns the same ResourceManager with new keys.
    #[must_use]
    pub fn rolled(&self) -> Self {
        Self {
            rm_identifier: self.rm_identifier,
            container_token_key: new_key(),
            nm_token_key: new_key(),
        }
    }

    /// Returns the NMToken with which `attempt` may call `node`.
    #[must_use]
    pub fn nm_token(&self, attempt: ApplicationAttemptId, node: &NodeId, user: &str) -> Token {
        wire::secrets::nm_token(&self.nm_token_key, attempt, node, user)
    }

    /// Returns the token with which a container may be started. Written field by field as Java
    /// writes it: Java signs its own encoding again to verify.
    #[must_use]
    pub fn container_token(&self, allocation: &Allocation) -> TokenProto {
        let identifier = ContainerTokenIdentifierProto {
            container_id: Some(allocation.id.into()),
            nm_host_addr: Some(allocation.node.clone()),
            app_submitter: Some(allocation.user.clone()),
            resource: Some(allocation.resource.into()),
            expiry_time_stamp: Some(allocation.expires_ms),
            // Filled in where it is signed.
            master_key_id: None,
            rm_identifier: Some(allocation.rm_identifier),
            priority: Some(0.into()),
            creation_time: Some(now_ms()),
            log_aggregation_context: allocation.log_aggregation.clone(),
            node_label_expression: Some(String::new()),
            container_type: Some(allocation.container_type.into()),
            execution_type: Some(ExecutionTypeProto::from(allocation.execution_type).into()),
            version: Some(allocation.version),
            allocation_request_id: Some(-1),
            allocation_tags: Vec::new(),
        };
        wire::secrets::container_token(&self.container_token_key, identifier).into()
    }
}

impl Default for RmSecrets {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns a key of eight bytes as Java makes them, with an id that is often negative. Random
/// enough to differ; the key protects nothing.
fn new_key() -> MasterKey {
    static KEYS: AtomicI32 = AtomicI32::new(-2);
    let key_id = KEYS.fetch_add(1, Ordering::Relaxed);
    let mut bytes = now_ms().to_be_bytes();
    bytes[..4].copy_from_slice(&key_id.to_be_bytes());
    MasterKey::new(key_id, Bytes::copy_from_slice(&bytes))
}

/// A container as the ResourceManager allocates it to an attempt. A test changes the field that is
/// to be wrong.
#[derive(Debug, Clone)]
pub struct Allocation {
    /// Id of the container.
    pub id: ContainerId,
    /// Id of the node, as `host:port`.
    pub node: String,
    /// User whose processes the container runs.
    pub user: String,
    /// Size of the container.
    pub resource: Resource,
    /// Execution type that the container starts with.
    pub execution_type: ExecutionType,
    /// Time until which the container must be started, in milliseconds since 1970.
    pub expires_ms: i64,
    /// Identifier of the ResourceManager's run that allocated the container.
    pub rm_identifier: i64,
    /// Number of updates, from 0.
    pub version: i32,
    /// Whether the container is a task's or an ApplicationMaster's.
    pub container_type: ContainerTypeProto,
    /// Wishes of the application for the aggregation of its logs.
    pub log_aggregation: Option<LogAggregationContextProto>,
    /// Whether a node's allocator gives the container out if it is opportunistic.
    pub is_of_node: bool,
}

impl Allocation {
    /// A guaranteed container of 128 MiB and one virtual core on `node`, good for ten minutes.
    #[must_use]
    pub fn new(id: ContainerId, node: &NodeId, user: &str, rm_identifier: i64) -> Self {
        Self {
            id,
            node: node.to_string(),
            user: user.to_owned(),
            resource: Resource::new(128, 1),
            execution_type: ExecutionType::Guaranteed,
            expires_ms: now_ms() + CONTAINER_TOKEN_LIFE_MS,
            rm_identifier,
            version: 0,
            container_type: ContainerTypeProto::Task,
            log_aggregation: None,
            is_of_node: false,
        }
    }

    /// Makes the container opportunistic. Where the allocation says so, a new one is then one that
    /// a node's allocator gave out in the ResourceManager's first epoch, from whose start, 0, ids
    /// are counted down.
    #[must_use]
    pub fn opportunistic(mut self) -> Self {
        if self.is_of_node && self.version == 0 {
            self.id.id = -self.id.id.abs();
        }
        self.execution_type = ExecutionType::Opportunistic;
        self
    }

    /// Makes the container an ApplicationMaster's.
    #[must_use]
    pub fn master(mut self) -> Self {
        self.container_type = ContainerTypeProto::ApplicationMaster;
        self
    }

    /// Has logs whose names match this expression uploaded while the application runs.
    #[must_use]
    pub fn rolled_logs(mut self, pattern: &str) -> Self {
        self.log_aggregation = Some(LogAggregationContextProto {
            rolled_logs_include_pattern: Some(pattern.to_owned()),
            ..LogAggregationContextProto::default()
        });
        self
    }

    /// Sets the container's memory, in MiB.
    #[must_use]
    pub fn memory_mb(mut self, memory_mb: u64) -> Self {
        self.resource.memory_mb = memory_mb;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_of_a_resource_manager_share_nothing() {
        let (first, second) = (RmSecrets::new(), RmSecrets::new());
        assert_ne!(first.rm_identifier, second.rm_identifier);
        assert_ne!(first.container_token_key, second.container_token_key);
        assert_ne!(first.nm_token_key, second.nm_token_key);
    }

    #[test]
    fn keys_of_one_run_differ() {
        let secrets = RmSecrets::new();
        assert_ne!(
            secrets.container_token_key.key_id,
            secrets.nm_token_key.key_id
        );
        assert_ne!(
            secrets.container_token_key.secret(),
            secrets.nm_token_key.secret()
        );
    }
}
