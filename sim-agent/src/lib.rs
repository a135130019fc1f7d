//! A node's agent in virtual time, without its threads: the shipped core, the shipped session with
//! the ResourceManager and the shipped keys, and the steps of calls between them.
//!
//! In: calls with their tokens, and the time. Out: answers, and the core's effects, which the owner
//! performs on workers, processes and disks of its own making. May not know those, nor the owner's
//! events.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use container_runtime::monitor::Sample;
use launch_context::ContextLimits;
use node_core::{
    Asker, Attempts, Core, CoreConfig, CoreParts, LogAggregation, Machine, Runtimes,
    ServiceMetadata, StartOutcome,
};
use node_manager::container_manager::{read_asker, start_request, verified};
use node_manager::resource_manager::{
    Intervals, NodeDescription, Registered, RegistrationRefused, Session,
};
use node_manager::secrets::NodeSecrets;
use node_view::snapshot::{About, MemoryChecks};
use records::{ContainerId, EpochMillis, NodeId, Now, Resource};
use sched::{ContainerScheduler, ContainerSchedulerConfig};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerLaunchContextProto, RegisterNodeManagerRequestProto, RegisterNodeManagerResponseProto,
};
use wire::rpc::{Caller, SecretManager as _};
use wire::token::Token;

/// Port of every node's web pages.
pub const HTTP_PORT: u16 = 8042;

/// Hadoop release that nodes report.
const VERSION: &str = node_manager::HADOOP_VERSION;

/// Configuration of an agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Id of the node.
    pub id: NodeId,
    /// Resources that the node offers.
    pub capacity: Resource,
    /// Configuration of the scheduler.
    pub scheduler: ContainerSchedulerConfig,
    /// Aggregation of logs; `None`: they stay on the node.
    pub log_aggregation: Option<LogAggregation>,
    /// Milliseconds for which logs stay on the node after their application's end.
    pub log_retain_ms: u64,
    /// Auxiliary services of the node.
    pub services: ServiceMetadata,
    /// Whether records are kept for the next agent.
    pub remembers: bool,
    /// Whether what the scheduler gets is recorded.
    pub records_events: bool,
}

/// Start of a container, as an entry of `startContainers`.
#[derive(Clone, Debug)]
pub struct Start {
    /// Token of the container.
    pub token: TokenProto,
    /// Launch context.
    pub context: ContainerLaunchContextProto,
}

/// Answers to each container of a call: `Err` is the exception's text.
pub type Each = Vec<(ContainerId, Result<(), String>)>;

/// An agent without its threads.
pub struct Shell {
    /// State of the node.
    pub core: Core,
    /// Conversation with the ResourceManager.
    pub session: Session,
    /// Keys with which calls are verified.
    pub secrets: Arc<NodeSecrets>,
    remembers: bool,
}

impl Shell {
    /// Returns an agent without containers that is not registered.
    #[must_use]
    pub fn new(config: &AgentConfig) -> Self {
        let secrets = Arc::new(NodeSecrets::default());
        secrets.set_node_id(config.id.clone());
        let intervals = Intervals {
            usual: Duration::from_secs(1),
            max: Duration::from_secs(10),
        };
        let description = NodeDescription {
            node_id: config.id.clone(),
            http_port: HTTP_PORT,
            capability: config.capacity,
            physical: config.capacity,
            version: VERSION.to_owned(),
        };
        Self {
            core: Core::new(CoreParts {
                config: core_config(config),
                about: Arc::new(about(config)),
                scheduler: ContainerScheduler::new(config.scheduler, config.capacity),
                attempts: Arc::clone(&secrets) as Arc<dyn Attempts>,
            }),
            session: Session::new(description, intervals),
            secrets,
            remembers: config.remembers,
        }
    }

    /// Checks an NMToken as a connection does, and reads who calls.
    ///
    /// # Errors
    /// `InvalidToken`: the token is not signed with a key of this node, or for another one.
    pub fn asker(&self, token: &Token) -> Result<Asker, RemoteException> {
        let verified = self.secrets.retrieve(&token.identifier)?;
        if verified.password != token.password {
            let invalid = HadoopException::InvalidToken;
            return Err(RemoteException::new(invalid, "a forged NMToken"));
        }
        let owner = verified.owner.unwrap_or_default();
        read_asker(&Caller {
            user: verified.user,
            owner,
            token_identifier: Some(token.identifier.clone()),
            token_kind: None,
            peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
        })
    }

    /// Handles `startContainers` on a connection that was opened with this NMToken.
    ///
    /// # Errors
    /// The exception that refuses the call as a whole.
    pub fn start(
        &mut self,
        nm_token: &Token,
        starts: Vec<Start>,
        now: Now,
    ) -> Result<Each, RemoteException> {
        let asker = self.asker(nm_token)?;
        let received_us = now.mono.0 * 1_000;
        let mut requests = Vec::with_capacity(starts.len());
        for Start { token, context } in starts {
            let verified = verified(&self.secrets, &token)?;
            let request = start_request(verified, context, self.remembers, received_us);
            requests.push(request);
        }
        let ids: Vec<ContainerId> = requests.iter().map(|request| request.spec.id).collect();
        let outcomes = self.core.start_all(asker, requests, now);
        let mut each = Each::new();
        for (id, outcome) in ids.into_iter().zip(outcomes) {
            match outcome {
                StartOutcome::Started => each.push((id, Ok(()))),
                StartOutcome::Refused(error) => each.push((id, Err(error.message))),
                StartOutcome::CallFailed(error) => return Err(error),
            }
        }
        Ok(each)
    }

    /// Makes the request of `registerNodeManager`.
    pub fn registration(&mut self, now: Now) -> RegisterNodeManagerRequestProto {
        let report = self.core.registration_report();
        let heartbeat = self.core.heartbeat_report(now);
        self.session
            .registration(report, heartbeat, Sample::default())
    }

    /// Takes the answer to a registration: its keys, and what it sets.
    ///
    /// # Errors
    /// The ResourceManager does not want the node, or its answer is incomplete.
    pub fn registered(
        &mut self,
        response: &mut RegisterNodeManagerResponseProto,
        now: Now,
    ) -> Result<Registered, RegistrationRefused> {
        let registered = self.session.registered(response)?;
        self.secrets.roll(registered.keys.clone());
        self.core
            .registered(registered.rm_identifier, registered.resource, now);
        Ok(registered)
    }
}

fn about(config: &AgentConfig) -> About {
    let checks = MemoryChecks {
        pmem: true,
        vmem: false,
        vmem_pmem_ratio: 2.1,
    };
    About::at_start(config.id.clone(), HTTP_PORT, EpochMillis(0), checks)
}

fn core_config(config: &AgentConfig) -> CoreConfig {
    CoreConfig {
        machine: Machine {
            name: config.id.host.clone(),
            address: config.id.host.clone(),
        },
        log_retain_ms: config.log_retain_ms,
        log_aggregation: config.log_aggregation,
        track_stopped_ms: 600_000,
        can_freeze: true,
        runtimes: Runtimes::Ignored,
        contexts: ContextLimits {
            resources_max: 100,
            bytes_max: 1 << 20,
            node_bytes_max: 64 << 20,
        },
        private_output: false,
        service_metadata: config.services.clone(),
        remembers: config.remembers,
        // No boot: a modelled monotonic clock begins with each agent, so records of an earlier one
        // are read by the wall clock.
        boot: 0,
        is_secure: true,
        tokens_end_after_ms: 600_000,
        records_events: config.records_events,
    }
}
