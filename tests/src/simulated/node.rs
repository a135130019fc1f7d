//! Nodes that register, report and obey, and a port where masters are launched.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use prost::Message as _;
use records::{ApplicationAttemptId, ContainerId, NodeId, Resource};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use wire::credentials::Credentials;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    ContainerStateProto, ContainerStatusProto, ContainerTokenIdentifierProto, ExecutionTypeProto,
    NmTokenIdentifierProto, NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, NodeStatusProto,
    OpportunisticContainersStatusProto, RegisterNodeManagerRequestProto,
    StartContainersRequestProto, StartContainersResponseProto,
};
use wire::protocol::container_management::{
    ContainerManagementProtocol, ContainerManagementService,
};
use wire::protocol::resource_tracker::{self, NodeHeartbeat, RegisterNodeManager};
use wire::rpc::{Caller, RpcClient, RpcServer, SecretManager, ServerAuth, Verified};
use wire::token::{MasterKey, Token, kind};

use super::{anybody, connect};

/// Launches that wait for somebody to look: more than any test makes.
const LAUNCHES_MAX: usize = 1_000;

/// A master that was launched.
#[derive(Debug)]
pub struct Launched {
    /// Its attempt.
    pub attempt: ApplicationAttemptId,
    /// Its container.
    pub container: ContainerId,
    /// Its right to talk to the scheduler.
    pub token: Token,
}

/// Where a ResourceManager launches masters on the nodes of this program.
#[derive(Debug)]
pub struct LaunchPad {
    /// Where it listens.
    pub address: SocketAddr,
    key: watch::Sender<Option<MasterKey>>,
    launches: mpsc::Receiver<Launched>,
}

impl LaunchPad {
    /// Listens on a free port until `stop`.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn open(stop: CancellationToken) -> Self {
        let (key, known) = watch::channel(None);
        let (sender, launches) = mpsc::channel(LAUNCHES_MAX);
        let service = ContainerManagementService::new(Arc::new(Pad(sender)));
        let (server, address) = RpcServer::builder(ServerAuth::Token(Arc::new(NmSecrets(known))))
            .service(service)
            .bind((Ipv4Addr::LOCALHOST, 0).into())
            .await
            .expect("a port is free");
        tokio::spawn(server.serve(stop));
        Self {
            address,
            key,
            launches,
        }
    }

    /// The node that this port is of.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        NodeId {
            host: self.address.ip().to_string(),
            port: self.address.port(),
        }
    }

    /// From now on NMTokens of this key count.
    pub fn trust(&self, key: MasterKey) {
        self.key.send_replace(Some(key));
    }

    /// The next master that is launched.
    ///
    /// # Panics
    /// When the port has closed.
    pub async fn launched(&mut self) -> Launched {
        self.launches.recv().await.expect("the port is open")
    }
}

/// Verifies NMTokens with the key that is known now.
struct NmSecrets(watch::Receiver<Option<MasterKey>>);

impl SecretManager for NmSecrets {
    fn kind(&self) -> &'static str {
        kind::NM_TOKEN
    }

    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException> {
        let invalid = || RemoteException::new(HadoopException::InvalidToken, "not an NMToken");
        let decoded = NmTokenIdentifierProto::decode(identifier).map_err(|_| invalid())?;
        let key = self.0.borrow().clone();
        let key = key.filter(|key| decoded.key_id == Some(key.key_id));
        Ok(Verified {
            password: key.ok_or_else(invalid)?.sign(identifier).to_vec(),
            user: "master".to_owned(),
        })
    }
}

struct Pad(mpsc::Sender<Launched>);

impl ContainerManagementProtocol for Pad {
    async fn start_containers(
        &self,
        _caller: &Caller,
        request: StartContainersRequestProto,
    ) -> Result<StartContainersResponseProto, RemoteException> {
        for start in request.start_container_request {
            let token = start.container_token.unwrap_or_default();
            let identifier = ContainerTokenIdentifierProto::decode(token.identifier)
                .expect("the ResourceManager writes container tokens");
            let id = identifier.container_id.unwrap_or_default();
            let container = ContainerId::try_from(&id).expect("a token names its container");
            let context = start.container_launch_context.unwrap_or_default();
            let tokens = context.tokens.unwrap_or_default();
            let credentials = Credentials::read(&tokens).expect("a master has credentials");
            let token = credentials.token_of_kind(kind::AM_RM_TOKEN);
            let launched = Launched {
                attempt: container.attempt,
                container,
                token: token.expect("a master has an AMRMToken").clone(),
            };
            self.0.send(launched).await.expect("somebody looks at it");
        }
        Ok(StartContainersResponseProto::default())
    }
}

/// A node that runs whatever it is told to run, at no cost.
#[derive(Debug)]
pub struct SimulatedNode {
    /// Its id.
    pub id: NodeId,
    /// The keys of NMTokens and of container tokens, as the registration told them.
    pub keys: (Option<MasterKey>, Option<MasterKey>),
    /// What runs on it, which a test changes.
    pub running: BTreeMap<ContainerId, (Resource, ExecutionTypeProto)>,
    /// What has ended on it with which exit status, until the ResourceManager says to forget it.
    pub ended: BTreeMap<ContainerId, i32>,
    /// Opportunistic containers that may wait.
    pub queue_capacity: i32,
    client: RpcClient,
    response_id: i32,
}

impl SimulatedNode {
    /// Joins the cluster.
    ///
    /// # Panics
    /// When it may not.
    pub async fn register(tracker: SocketAddr, id: NodeId, offers: Resource) -> Self {
        let client = connect(tracker, resource_tracker::PROTOCOL, anybody()).await;
        let request = RegisterNodeManagerRequestProto {
            node_id: Some((&id).into()),
            http_port: Some(1),
            resource: Some(offers.into()),
            nm_version: Some("3.4.2".to_owned()),
            ..RegisterNodeManagerRequestProto::default()
        };
        let answer = client.call::<RegisterNodeManager>(&request).await;
        let answer = answer.expect("the ResourceManager takes nodes");
        let key = |key: Option<_>| key.and_then(|key| MasterKey::try_from(key).ok());
        Self {
            id,
            keys: (
                key(answer.nm_token_master_key),
                key(answer.container_token_master_key),
            ),
            running: BTreeMap::new(),
            ended: BTreeMap::new(),
            queue_capacity: 10,
            client,
            response_id: 0,
        }
    }

    /// Reports, and obeys what comes back.
    ///
    /// # Panics
    /// When the ResourceManager does not answer.
    pub async fn heartbeat(&mut self) -> NodeHeartbeatResponseProto {
        let request = self.report();
        let answer = self.client.call::<NodeHeartbeat>(&request).await;
        let answer = answer.expect("the ResourceManager answers nodes");
        self.response_id = answer.response_id();
        for id in &answer.containers_to_cleanup {
            if let Ok(id) = ContainerId::try_from(id)
                && self.running.remove(&id).is_some()
            {
                self.ended.insert(id, -105);
            }
        }
        for id in &answer.containers_to_be_removed_from_nm {
            if let Ok(id) = ContainerId::try_from(id) {
                self.ended.remove(&id);
            }
        }
        answer
    }

    fn report(&self) -> NodeHeartbeatRequestProto {
        let running = self.running.iter().map(|(id, (size, kind))| {
            let size = Some((*size).into());
            (*id, ContainerStateProto::CRunning, None, size, *kind)
        });
        let ended = self.ended.iter().map(|(id, exit)| {
            let kind = ExecutionTypeProto::Guaranteed;
            (*id, ContainerStateProto::CComplete, Some(*exit), None, kind)
        });
        let statuses = running
            .chain(ended)
            .map(
                |(id, state, exit_status, capability, kind)| ContainerStatusProto {
                    container_id: Some(id.into()),
                    state: Some(state.into()),
                    exit_status,
                    capability,
                    execution_type: Some(kind.into()),
                    ..ContainerStatusProto::default()
                },
            );
        let key_id = |key: &Option<MasterKey>| key.clone().map(Into::into);
        NodeHeartbeatRequestProto {
            node_status: Some(NodeStatusProto {
                node_id: Some((&self.id).into()),
                response_id: Some(self.response_id),
                containers_statuses: statuses.collect(),
                opportunistic_containers_status: Some(OpportunisticContainersStatusProto {
                    opport_queue_capacity: Some(self.queue_capacity),
                    ..OpportunisticContainersStatusProto::default()
                }),
                ..NodeStatusProto::default()
            }),
            last_known_nm_token_master_key: key_id(&self.keys.0),
            last_known_container_token_master_key: key_id(&self.keys.1),
            ..NodeHeartbeatRequestProto::default()
        }
    }
}
