//! The keys of a ResourceManager, and the tokens that it makes with them.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use records::{ApplicationAttemptId, ContainerId, ExecutionType, NodeId, Resource};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerTokenIdentifierProto, ContainerTypeProto, ExecutionTypeProto,
};
use wire::token::{MasterKey, Token};

/// Hadoop's default for the life of a container token, in milliseconds
/// (`yarn.resourcemanager.rm.container-allocation.expiry-interval-ms`).
const CONTAINER_TOKEN_LIFE_MS: i64 = 600_000;

/// Milliseconds since 1970.
///
/// # Panics
/// When the clock is set to before 1970.
#[must_use]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.expect("the clock is after 1970");
    i64::try_from(since.as_millis()).expect("milliseconds fit for millions of years")
}

/// What a ResourceManager shares with its nodes.
#[derive(Debug, Clone)]
pub struct RmSecrets {
    /// When it started, in milliseconds since 1970; it is in every container token and in every application id.
    pub rm_identifier: i64,
    /// Signs container tokens.
    pub container_token_key: MasterKey,
    /// Signs NMTokens.
    pub nm_token_key: MasterKey,
}

impl RmSecrets {
    /// Those of a ResourceManager that starts now. No two calls in a process give the same.
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

    /// The same ResourceManager with new keys.
    #[must_use]
    pub fn rolled(&self) -> Self {
        Self {
            rm_identifier: self.rm_identifier,
            container_token_key: new_key(),
            nm_token_key: new_key(),
        }
    }

    /// The right of `attempt` to talk to `node`.
    #[must_use]
    pub fn nm_token(&self, attempt: ApplicationAttemptId, node: &NodeId, user: &str) -> Token {
        wire::secrets::nm_token(&self.nm_token_key, attempt, node, user)
    }

    /// The right to start this container. Written field by field as Java does, which verifies what it wrote again.
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
            log_aggregation_context: None,
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

/// Eight bytes as Java makes them, and an id that is often negative. Random enough to differ; nothing here is worth stealing.
fn new_key() -> MasterKey {
    static KEYS: AtomicI32 = AtomicI32::new(-2);
    let key_id = KEYS.fetch_add(1, Ordering::Relaxed);
    let mut bytes = now_ms().to_be_bytes();
    bytes[..4].copy_from_slice(&key_id.to_be_bytes());
    MasterKey::new(key_id, Bytes::copy_from_slice(&bytes))
}

/// A container as the ResourceManager gives it to an attempt. A test changes what shall be wrong with it.
#[derive(Debug, Clone)]
pub struct Allocation {
    /// The container.
    pub id: ContainerId,
    /// On which node, as `host:port`.
    pub node: String,
    /// Who runs it.
    pub user: String,
    /// What it may use.
    pub resource: Resource,
    /// What it is promised.
    pub execution_type: ExecutionType,
    /// Until when it must be started, in milliseconds since 1970.
    pub expires_ms: i64,
    /// Which run of the ResourceManager allocated it.
    pub rm_identifier: i64,
    /// Counts its updates, from 0.
    pub version: i32,
    /// Whether it is an ApplicationMaster's.
    pub container_type: ContainerTypeProto,
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
        }
    }

    /// The same container, promised nothing.
    #[must_use]
    pub fn opportunistic(mut self) -> Self {
        self.execution_type = ExecutionType::Opportunistic;
        self
    }

    /// The same container, an ApplicationMaster's.
    #[must_use]
    pub fn master(mut self) -> Self {
        self.container_type = ContainerTypeProto::ApplicationMaster;
        self
    }

    /// The same container with so much memory.
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
