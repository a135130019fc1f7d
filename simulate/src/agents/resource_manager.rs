//! The ResourceManager: the core of the embedded one, and the coding of calls to it.

use std::sync::Arc;

use amrm_proxy::call::{AmMethod, Outcome, Request};
use amrm_proxy::node_lists::NodeLists;
use amrm_proxy::rm_forwarder::{encode, read_answer};
use bytes::Bytes;
use mini_rm::config::{Config, OpportunisticConfig};
use mini_rm::core::{Core, Effect, QUEUE};
use mini_rm::nodes::DEFAULT_RACK;
use prost::Message;
use records::{ApplicationAttemptId, ApplicationId, ContainerId, NodeId, Now, Resource};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ApplicationSubmissionContextProto, ContainerLaunchContextProto, ContainerTokenIdentifierProto,
    FinishApplicationMasterResponseProto, NodeHeartbeatRequestProto, NodeHeartbeatResponseProto,
    RegisterNodeManagerRequestProto, RegisterNodeManagerResponseProto,
};
use wire::secrets::AmrmTokenSecretManager;
use wire::token::Token;

use crate::arm::load_config;
use crate::node::SIZE;
use crate::scenario::Settings;

/// User of every job.
pub(super) const USER: &str = "simulated";

/// Size of the largest container.
const LARGEST: Resource = Resource::new(8_192, 8);

/// Container of a master that the ResourceManager launches.
pub(super) struct Launched {
    pub(super) container: ContainerId,
    pub(super) node: NodeId,
    pub(super) nm_token: Token,
    pub(super) container_token: TokenProto,
    pub(super) context: ContainerLaunchContextProto,
}

pub(super) struct ResourceManager {
    core: Core,
    /// Whether nodes allocate opportunistic containers.
    is_distributed: bool,
    /// Lists of nodes that proxies have read.
    lists: NodeLists,
}

impl ResourceManager {
    pub(super) fn new(settings: &Settings, is_distributed: bool, seed: u64, now: Now) -> Self {
        let defaults = Config::of(&[]).expect("defaults are a configuration");
        let config = Arc::new(Config {
            allocation_min: SIZE,
            allocation_max: LARGEST,
            // Ids of the nodes' containers are then above 0, as in every epoch but the first.
            epoch: 1,
            opportunistic: OpportunisticConfig {
                is_enabled: true,
                is_distributed,
                max_per_heartbeat: None,
                load: load_config(settings),
            },
            ..defaults
        });
        let secrets = AmrmTokenSecretManager::new(config.master_keys, now.mono);
        Self {
            core: Core::new(config, Arc::new(secrets), seed, now),
            is_distributed,
            lists: NodeLists::default(),
        }
    }

    pub(super) fn register_node(
        &mut self,
        request: &RegisterNodeManagerRequestProto,
        now: Now,
    ) -> RegisterNodeManagerResponseProto {
        let registered = self.core.register_node(request, DEFAULT_RACK, now);
        registered.expect("a node is registered within the bounds of a scenario")
    }

    pub(super) fn heartbeat(
        &mut self,
        request: NodeHeartbeatRequestProto,
        now: Now,
    ) -> NodeHeartbeatResponseProto {
        self.core.heartbeat(request, now)
    }

    pub(super) fn tick(&mut self, now: Now) {
        self.core.tick(now);
    }

    /// Submits the next application, which has this id.
    pub(super) fn submit(
        &mut self,
        id: ApplicationId,
        master: ContainerLaunchContextProto,
        now: Now,
    ) {
        let next = self.core.new_application();
        debug_assert_eq!(next, id, "jobs arrive in the order of their numbers");
        let submission = ApplicationSubmissionContextProto {
            application_id: Some(id.into()),
            queue: Some(QUEUE.to_owned()),
            am_container_spec: Some(master),
            resource: Some(SIZE.into()),
            ..ApplicationSubmissionContextProto::default()
        };
        let submitted = self.core.submit(submission, USER, now);
        submitted.expect("a job is accepted within the bounds of a scenario");
    }

    /// Takes the masters to launch.
    pub(super) fn take_launches(&mut self) -> Vec<Launched> {
        let effects = self.core.take_effects().into_iter();
        let launched = effects.map(|Effect::Launch(launch)| Launched {
            container: container_of(&launch.container_token),
            node: launch.node,
            nm_token: launch.nm_token,
            container_token: launch.container_token,
            context: launch.context,
        });
        launched.collect()
    }

    /// Takes a node's answer to the launch of a master.
    pub(super) fn master_launched(
        &mut self,
        attempt: ApplicationAttemptId,
        outcome: Result<(), String>,
        now: Now,
    ) {
        self.core.master_launched(attempt, outcome, now);
    }

    /// Handles a call that a pipeline forwards.
    pub(super) fn call(
        &mut self,
        attempt: ApplicationAttemptId,
        request: &Request,
        now: Now,
    ) -> Outcome {
        let call = encode(self.is_distributed, request).request;
        let answer = match (request.method, self.is_distributed) {
            (AmMethod::Register, false) => {
                let registered = self.core.register_master(attempt, &read(call)?, now);
                registered.map(|answer| written(&answer))
            }
            (AmMethod::Register, true) => {
                let registered = self.core.register_distributed(attempt, &read(call)?, now);
                registered.map(|answer| written(&answer))
            }
            (AmMethod::Allocate, false) => {
                let allocated = self.core.allocate(attempt, b"", &read(call)?, now);
                allocated.map(|answer| written(&answer))
            }
            (AmMethod::Allocate, true) => {
                let request = read(call)?;
                let allocated = self.core.allocate_distributed(attempt, b"", &request, now);
                allocated.map(|answer| written(&answer))
            }
            (AmMethod::Finish, _) => {
                let finished = self.core.finish_master(attempt, &read(call)?, now);
                finished.map(|is_unregistered| {
                    written(&FinishApplicationMasterResponseProto {
                        is_unregistered: Some(is_unregistered),
                    })
                })
            }
        };
        let answer = answer.map_err(|refusal| {
            RemoteException::new(HadoopException::YarnException, refusal.to_string())
        })?;
        let read = read_answer(self.is_distributed, request.method, answer, &self.lists);
        read.map_err(|error| unreadable(&error))
    }
}

fn read<M: Message + Default>(call: Bytes) -> Result<M, RemoteException> {
    M::decode(call).map_err(|error| unreadable(&error))
}

fn written(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn unreadable(error: &impl ToString) -> RemoteException {
    RemoteException::new(HadoopException::InvalidProtocolBuffer, error.to_string())
}

/// Reads the id in a container token.
fn container_of(token: &TokenProto) -> ContainerId {
    let identifier = ContainerTokenIdentifierProto::decode(&*token.identifier);
    let id = identifier.ok().and_then(|token| token.container_id);
    let id = id.and_then(|id| ContainerId::try_from(&id).ok());
    id.expect("the ResourceManager makes container tokens with an id")
}
