//! The port of a node on which a ResourceManager launches ApplicationMasters, without the node:
//! launches are passed to the test, and nothing runs.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use prost::Message as _;
use records::{ApplicationAttemptId, ContainerId, NodeId};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use wire::credentials::Credentials;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    ContainerTokenIdentifierProto, NmTokenIdentifierProto, StartContainersRequestProto,
    StartContainersResponseProto,
};
use wire::protocol::container_management::{
    ContainerManagementProtocol, ContainerManagementService,
};
use wire::rpc::{Caller, RpcServer, SecretManager, ServerAuth, Verified};
use wire::token::{MasterKey, Token, kind};

/// Launches that wait until the test takes them: more than any test makes.
const LAUNCHES_MAX: usize = 1_000;

/// An ApplicationMaster that was launched, and its token.
#[derive(Debug)]
pub struct Launched {
    /// Attempt that the master runs for.
    pub attempt: ApplicationAttemptId,
    /// Container that the master was launched in.
    pub container: ContainerId,
    /// AMRMToken from the master's credentials.
    pub token: Token,
}

/// ContainerManagement of any number of nodes on one port: records launches instead of running
/// them.
#[derive(Debug)]
pub struct LaunchRecorder {
    /// Address that the port listens on.
    pub address: SocketAddr,
    key: watch::Sender<Option<MasterKey>>,
    launches: mpsc::Receiver<Launched>,
}

impl LaunchRecorder {
    /// Listens on a free port until `stop`.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn open(stop: CancellationToken) -> Self {
        let (key, known) = watch::channel(None);
        let (sender, launches) = mpsc::channel(LAUNCHES_MAX);
        let service = ContainerManagementService::new(Arc::new(Recorder(sender)));
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

    /// Id of the node whose ContainerManagement listens on this port.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        NodeId {
            host: self.address.ip().to_string(),
            port: self.address.port(),
        }
    }

    /// Accepts NMTokens signed with this key, and no others, from now on.
    pub fn trust(&self, key: MasterKey) {
        self.key.send_replace(Some(key));
    }

    /// Waits for the next launch.
    ///
    /// # Panics
    /// When the port has closed.
    pub async fn launched(&mut self) -> Launched {
        self.launches.recv().await.expect("the port is open")
    }
}

/// Verifies NMTokens with the latest key.
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
            owner: None,
        })
    }
}

struct Recorder(mpsc::Sender<Launched>);

impl ContainerManagementProtocol for Recorder {
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
            let sent = self.0.send(launched).await;
            sent.expect("the test still waits for launches");
        }
        Ok(StartContainersResponseProto::default())
    }
}
