//! A master's connection to a node, with tokens of its own making.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicI64, Ordering};

use records::{ApplicationAttemptId, ApplicationId, ContainerId, NodeId};
use tokio::runtime::Handle;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerExceptionMapProto, ContainerStatusProto, ContainerUpdateRequestProto,
    GetContainerStatusesRequestProto, SignalContainerCommandProto, SignalContainerRequestProto,
    StartContainerRequestProto, StartContainersRequestProto, StopContainersRequestProto,
};
use wire::protocol::container_management::{
    self, GetContainerStatuses, SignalToContainer, StartContainers, StopContainers, UpdateContainer,
};
use wire::rpc::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::token::Token;

use super::ScriptedRm;
use crate::{Allocation, LaunchContext, RmSecrets, current_user};

/// The reason why a node did not do what it was asked.
#[derive(Debug)]
pub enum Refusal {
    /// The node refused the whole call, or the call failed on its way.
    Call(RpcError),
    /// The node refused this container and answered the call.
    Container(RemoteException),
}

impl Refusal {
    /// Returns the exception that the node named.
    ///
    /// # Panics
    /// When the call failed on its way, so that the node named none.
    #[must_use]
    #[track_caller]
    pub fn exception(&self) -> &RemoteException {
        match self {
            Self::Container(exception) => exception,
            Self::Call(error) => error
                .remote()
                .unwrap_or_else(|| panic!("the node did not answer: {error}")),
        }
    }

    /// Returns whether the node named this exception.
    #[must_use]
    #[track_caller]
    pub fn is(&self, exception: HadoopException) -> bool {
        self.exception().is(exception)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => write!(f, "call refused: {error}"),
            Self::Container(exception) => write!(f, "container refused: {exception}"),
        }
    }
}

/// An application attempt connected to a node.
#[derive(Debug)]
pub struct ScriptedAm {
    attempt: ApplicationAttemptId,
    node: NodeId,
    user: String,
    secrets: RmSecrets,
    nm_token: Token,
    client: RpcClient,
    runtime: Handle,
    last_container: AtomicI64,
}

impl ScriptedAm {
    /// Connects the first attempt of the application with this number to the node of `rm`, once
    /// that is registered.
    ///
    /// # Panics
    /// When the node does not register or refuses the connection.
    #[must_use]
    #[track_caller]
    pub fn connect(rm: &ScriptedRm, application: i32) -> Self {
        Self::connect_as(&current_user(), rm, application)
    }

    /// Connects as [`connect`](Self::connect) does, with an application of this user.
    ///
    /// # Panics
    /// When the node does not register or refuses the connection.
    #[must_use]
    #[track_caller]
    pub fn connect_as(user: &str, rm: &ScriptedRm, application: i32) -> Self {
        let node = rm.wait_registered();
        let secrets = rm.secrets();
        let attempt = ApplicationId::new(secrets.rm_identifier, application).attempt(1);
        let nm_token = secrets.nm_token(attempt, &node, user);
        let client = Self::open(rm, &node, &nm_token)
            .unwrap_or_else(|error| panic!("{node} refuses {attempt}: {error}"));
        Self {
            attempt,
            node,
            user: user.to_owned(),
            secrets,
            nm_token,
            client,
            runtime: rm.runtime().clone(),
            // The first container of an attempt is its ApplicationMaster's.
            last_container: AtomicI64::new(1),
        }
    }

    /// Opens a connection to a node with any NMToken.
    ///
    /// # Errors
    /// When the node refuses or does not answer.
    pub fn open(rm: &ScriptedRm, node: &NodeId, nm_token: &Token) -> Result<RpcClient, RpcError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, node.port));
        let auth = ClientAuth::Token(nm_token.clone());
        let options = ClientOptions::default();
        let connecting =
            RpcClient::connect(address, container_management::PROTOCOL, auth, &options);
        rm.runtime().block_on(connecting)
    }

    /// Opens the connection again with the first NMToken.
    ///
    /// # Errors
    /// When the node refuses.
    pub fn reconnect(&mut self, rm: &ScriptedRm) -> Result<(), RpcError> {
        self.client = Self::open(rm, &self.node, &self.nm_token)?;
        Ok(())
    }

    /// Signs later container tokens with the present keys and identifier of the ResourceManager.
    pub fn renew_secrets(&mut self, rm: &ScriptedRm) {
        self.secrets = rm.secrets();
    }

    /// Returns the attempt's id.
    #[must_use]
    pub const fn attempt(&self) -> ApplicationAttemptId {
        self.attempt
    }

    /// Returns the node's id.
    #[must_use]
    pub const fn node(&self) -> &NodeId {
        &self.node
    }

    /// Returns the connection, for calls that no master makes.
    #[must_use]
    pub const fn client(&self) -> &RpcClient {
        &self.client
    }

    /// Returns the keys that container tokens are signed with.
    #[must_use]
    pub const fn secrets(&self) -> &RmSecrets {
        &self.secrets
    }

    /// Returns the attempt's first container, its ApplicationMaster's: guaranteed, 128 MiB.
    #[must_use]
    pub fn first(&self) -> Allocation {
        let id = self.attempt.container(1);
        Allocation::new(id, &self.node, &self.user, self.secrets.rm_identifier)
    }

    /// Returns a new guaranteed container of 128 MiB on the node.
    #[must_use]
    pub fn allocate(&self) -> Allocation {
        let id = self
            .attempt
            .container(self.last_container.fetch_add(1, Ordering::Relaxed) + 1);
        Allocation {
            is_of_node: true,
            ..Allocation::new(id, &self.node, &self.user, self.secrets.rm_identifier)
        }
    }

    /// Starts many containers in one call.
    ///
    /// # Errors
    /// When the node refuses the call, or the first container that it refuses.
    pub fn start_all(&self, containers: Vec<(Allocation, LaunchContext)>) -> Result<(), Refusal> {
        let requests =
            containers
                .into_iter()
                .map(|(allocation, context)| StartContainerRequestProto {
                    container_launch_context: Some(context.into_proto()),
                    container_token: Some(self.secrets.container_token(&allocation)),
                });
        self.send_start(requests.collect())
    }

    /// Starts a container with any token.
    ///
    /// # Errors
    /// When the node refuses.
    pub fn start_with(&self, token: TokenProto, context: LaunchContext) -> Result<(), Refusal> {
        self.send_start(vec![StartContainerRequestProto {
            container_launch_context: Some(context.into_proto()),
            container_token: Some(token),
        }])
    }

    fn send_start(&self, requests: Vec<StartContainerRequestProto>) -> Result<(), Refusal> {
        let request = StartContainersRequestProto {
            start_container_request: requests,
        };
        let response = self
            .runtime
            .block_on(self.client.call::<StartContainers>(&request));
        first_failure(response.map(|response| response.failed_requests))
    }

    /// Starts an allocated container.
    ///
    /// # Errors
    /// When the node refuses.
    pub fn try_start(
        &self,
        allocation: &Allocation,
        context: LaunchContext,
    ) -> Result<ContainerId, Refusal> {
        self.start_with(self.secrets.container_token(allocation), context)
            .map(|()| allocation.id)
    }

    /// Starts a command in an allocated container.
    ///
    /// # Panics
    /// When the node refuses.
    #[track_caller]
    pub fn start(&self, allocation: &Allocation, command: &str) -> ContainerId {
        self.try_start(allocation, LaunchContext::command(command))
            .unwrap_or_else(|refusal| panic!("{} does not start: {refusal}", allocation.id))
    }

    /// Starts a command in a new guaranteed container.
    ///
    /// # Panics
    /// When the node refuses.
    #[track_caller]
    pub fn run(&self, command: &str) -> ContainerId {
        self.start(&self.allocate(), command)
    }

    /// Stops a container.
    ///
    /// # Errors
    /// When the node refuses.
    pub fn stop(&self, id: ContainerId) -> Result<(), Refusal> {
        let request = StopContainersRequestProto {
            container_id: vec![id.into()],
        };
        let response = self
            .runtime
            .block_on(self.client.call::<StopContainers>(&request));
        first_failure(response.map(|response| response.failed_requests))
    }

    /// Returns the status of a container.
    ///
    /// # Errors
    /// When the node refuses.
    ///
    /// # Panics
    /// When the node answers neither with a status nor with a refusal.
    pub fn status(&self, id: ContainerId) -> Result<ContainerStatusProto, Refusal> {
        let request = GetContainerStatusesRequestProto {
            container_id: vec![id.into()],
        };
        let response = self
            .runtime
            .block_on(self.client.call::<GetContainerStatuses>(&request));
        let mut response = response.map_err(Refusal::Call)?;
        first_failure(Ok(response.failed_requests))?;
        Ok(response
            .status
            .pop()
            .expect("a node answers with a status or a refusal"))
    }

    /// Changes a container to the size and type of `allocation`, whose version must be higher than
    /// before.
    ///
    /// # Errors
    /// When the node refuses.
    pub fn update(&self, allocation: &Allocation) -> Result<(), Refusal> {
        let request = ContainerUpdateRequestProto {
            update_container_token: vec![self.secrets.container_token(allocation)],
        };
        let response = self
            .runtime
            .block_on(self.client.call::<UpdateContainer>(&request));
        first_failure(response.map(|response| response.failed_requests))
    }

    /// Sends a signal to a container.
    ///
    /// # Errors
    /// When the node refuses.
    pub fn signal(
        &self,
        id: ContainerId,
        command: SignalContainerCommandProto,
    ) -> Result<(), Refusal> {
        let request = SignalContainerRequestProto {
            container_id: id.into(),
            command: command.into(),
        };
        let response = self
            .runtime
            .block_on(self.client.call::<SignalToContainer>(&request));
        response.map(|_| ()).map_err(Refusal::Call)
    }
}

fn first_failure(
    response: Result<Vec<ContainerExceptionMapProto>, RpcError>,
) -> Result<(), Refusal> {
    match response.map_err(Refusal::Call)?.into_iter().next() {
        None => Ok(()),
        Some(failure) => Err(Refusal::Container(
            failure.exception.unwrap_or_default().into(),
        )),
    }
}
