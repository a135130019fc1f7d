//! State of the ResourceManager and all code that changes it. No I/O and no clock: calls and the
//! time come in, answers go out, and [`Effect`]s describe the work to do outside.
//!
//! | module | callers and subject |
//! |---|---|
//! | `nodes` | nodes: register, heartbeat, unregister |
//! | `clients` | clients: submission, kill |
//! | `application_masters` | AMs: register, allocate, finish |
//! | `distributed` | AMs behind a proxy that allocates: the same, with the node's containers |
//! | `placing` | all of them: allocation through `sched` |
//! | `promotions` | `placing`: opportunistic containers that wait for a promotion |
//! | `lifecycle` | all of them: completion of containers, attempts and applications |
//! | `reports` | clients and web pages: read-only views |

mod application_masters;
mod clients;
mod distributed;
mod lifecycle;
mod nodes;
mod placing;
mod promotions;
mod reports;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use records::{ApplicationId, ContainerId, EpochMillis, MonoMillis, NodeId, Now};
use sched::{GuaranteedAllocator, NodeLoadMonitor, SplitMix64};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerTokenIdentifierProto, ContainerTypeProto, ExecutionTypeProto,
};

use crate::am_launcher::Launch;
use crate::applications::Application;
use crate::config::Config;
use crate::containers::Container;
use crate::nodes::Node;
use crate::scheduler::Session;
use wire::secrets::{AmrmTokenSecretManager, KeyRing, container_token};

use self::promotions::Promotions;

pub use self::nodes::RM_VERSION;

/// Name of the only queue.
pub const QUEUE: &str = "default";

/// Milliseconds between two checks for expired peers: each check visits every node, AM and
/// container.
const EXPIRY_INTERVAL_MS: u64 = 1000;

/// Work that the core leaves to its task.
#[derive(Debug)]
pub enum Effect {
    /// Launch of an AM on its node.
    Launch(Box<Launch>),
}

/// The whole state, with the time and the random numbers injected.
#[derive(Debug)]
pub struct Core {
    config: Arc<Config>,
    /// Start time of this run: part of application ids and of container tokens.
    started: EpochMillis,
    container_keys: KeyRing,
    nm_keys: KeyRing,
    master_secrets: Arc<AmrmTokenSecretManager>,
    nodes: BTreeMap<NodeId, Node>,
    /// Number of running nodes, which every answer to an AM states.
    running: usize,
    /// Allocator of guaranteed containers, with each node's capacity and the pending asks.
    guaranteed: GuaranteedAllocator,
    load: NodeLoadMonitor,
    applications: BTreeMap<ApplicationId, Application>,
    /// Sessions of live attempts: pending asks and what the next answer carries.
    sessions: BTreeMap<ApplicationId, Session>,
    containers: BTreeMap<ContainerId, Container>,
    last_application: i32,
    /// Finished applications, oldest first.
    ended: VecDeque<ApplicationId>,
    promotions: Promotions,
    random: SplitMix64,
    /// Time of the next check for expired peers.
    next_expiry: MonoMillis,
    effects: Vec<Effect>,
}

impl Core {
    /// Returns a ResourceManager that starts now. Its random choices follow from `seed`.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        master_secrets: Arc<AmrmTokenSecretManager>,
        seed: u64,
        now: Now,
    ) -> Self {
        Self {
            started: now.wall,
            container_keys: KeyRing::new(config.container_keys, now.mono),
            nm_keys: KeyRing::new(config.nm_keys, now.mono),
            master_secrets,
            nodes: BTreeMap::new(),
            running: 0,
            guaranteed: GuaranteedAllocator::new(),
            load: NodeLoadMonitor::new(config.opportunistic.load, now.mono),
            applications: BTreeMap::new(),
            sessions: BTreeMap::new(),
            containers: BTreeMap::new(),
            last_application: 0,
            ended: VecDeque::new(),
            promotions: Promotions::default(),
            random: SplitMix64::new(seed),
            next_expiry: now.mono,
            effects: Vec::new(),
            config,
        }
    }

    /// Takes the effects since the last call, in the order in which they arose.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Does what is due: rolls keys, expires silent peers, sorts nodes, places asks.
    pub fn tick(&mut self, now: Now) {
        self.container_keys.tick(now.mono);
        if self.nm_keys.tick(now.mono) {
            // Tokens of the previous key expire, so every AM is sent new ones.
            for session in self.sessions.values_mut() {
                session.nm_tokens.clear();
            }
        }
        self.master_secrets.tick(now.mono);
        self.load.tick(now.mono);
        if now.mono >= self.next_expiry {
            self.next_expiry = now.mono + EXPIRY_INTERVAL_MS;
            self.expire_nodes(now);
            self.expire_masters(now);
            self.expire_containers(now);
        }
        self.place(now);
    }

    /// Returns a container as its AM receives it, with a fresh token.
    fn container_proto(&self, container: &Container, now: Now) -> ContainerProto {
        let http_address = self.nodes.get(&container.node);
        ContainerProto {
            id: Some(container.id.into()),
            node_id: Some((&container.node).into()),
            node_http_address: http_address.map(|node| node.http_address.clone()),
            resource: Some(container.resource.into()),
            priority: Some(container.priority.into()),
            container_token: Some(self.token_of(container, now)),
            execution_type: Some(ExecutionTypeProto::from(container.execution_type).into()),
            allocation_request_id: Some(container.allocation_request_id),
            version: Some(container.version),
            allocation_tags: Vec::new(),
            exposed_ports: None,
        }
    }

    fn token_of(&self, container: &Container, now: Now) -> TokenProto {
        let application = self.applications.get(&container.id.application_id());
        let kind = if container.is_master {
            ContainerTypeProto::ApplicationMaster
        } else {
            ContainerTypeProto::Task
        };
        let expiry = i64::try_from(self.config.container_expiry_ms).unwrap_or(i64::MAX);
        let identifier = ContainerTokenIdentifierProto {
            container_id: Some(container.id.into()),
            nm_host_addr: Some(container.node.to_string()),
            app_submitter: application.map(|application| application.user.clone()),
            resource: Some(container.resource.into()),
            expiry_time_stamp: Some(now.wall.0.saturating_add(expiry)),
            master_key_id: None,
            rm_identifier: Some(self.started.0),
            priority: Some(container.priority.into()),
            creation_time: Some(container.created.0),
            log_aggregation_context: application
                .and_then(|application| application.submission.log_aggregation_context.clone()),
            node_label_expression: Some(String::new()),
            container_type: Some(kind.into()),
            execution_type: Some(ExecutionTypeProto::from(container.execution_type).into()),
            version: Some(container.version),
            allocation_request_id: Some(container.allocation_request_id),
            allocation_tags: Vec::new(),
        };
        container_token(self.container_keys.current(), identifier).into()
    }
}
