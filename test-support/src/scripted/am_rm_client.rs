//! An ApplicationMaster's connection to a scheduler, on either of its protocols, one call at a
//! time.

use std::net::SocketAddr;

use records::{ApplicationAttemptId, ApplicationId, ContainerId, NodeId, Resource};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ApplicationSubmissionContextProto,
    ContainerLaunchContextProto, ContainerProto, DistributedSchedulingAllocateRequestProto,
    DistributedSchedulingAllocateResponseProto, ExecutionTypeProto, ExecutionTypeRequestProto,
    FinalApplicationStatusProto, FinishApplicationMasterRequestProto,
    GetNewApplicationRequestProto, RegisterApplicationMasterRequestProto,
    RegisterDistributedSchedulingAmResponseProto, ResourceRequestProto,
    SubmitApplicationRequestProto,
};
use wire::protocol::application_client::{self, GetNewApplication, SubmitApplication};
use wire::protocol::application_master::{
    self, Allocate, FinishApplicationMaster, RegisterApplicationMaster,
};
use wire::protocol::distributed_scheduling_am::{
    AllocateForDistributedScheduling, RegisterApplicationMasterForDistributedScheduling,
};
use wire::rpc::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::token::Token;

use super::{Launched, connect, simple_auth};

/// Submits an application whose master has this size; returns its id.
///
/// # Panics
/// When the ResourceManager refuses.
pub async fn submit(clients: SocketAddr, master: Resource) -> ApplicationId {
    let client = connect(clients, application_client::PROTOCOL, simple_auth()).await;
    let new = client
        .call::<GetNewApplication>(&GetNewApplicationRequestProto {})
        .await
        .expect("the ResourceManager has ids");
    let id = new.application_id.expect("an answer has an id");
    let submission = SubmitApplicationRequestProto {
        application_submission_context: Some(ApplicationSubmissionContextProto {
            application_id: Some(id),
            am_container_spec: Some(ContainerLaunchContextProto::default()),
            resource: Some(master.into()),
            ..ApplicationSubmissionContextProto::default()
        }),
    };
    client
        .call::<SubmitApplication>(&submission)
        .await
        .expect("the ResourceManager takes applications");
    ApplicationId::try_from(&id).expect("the ResourceManager writes ids")
}

/// An opportunistic container as a node's own allocator reports it.
#[must_use]
pub fn opportunistic_container(id: ContainerId, node: &NodeId, size: Resource) -> ContainerProto {
    ContainerProto {
        id: Some(id.into()),
        node_id: Some(node.into()),
        resource: Some(size.into()),
        priority: Some(1.into()),
        execution_type: Some(ExecutionTypeProto::Opportunistic.into()),
        ..ContainerProto::default()
    }
}

/// Opens a connection to a scheduler, of a ResourceManager or of a node's proxy, with an AMRMToken.
///
/// # Errors
/// When nothing listens or the token is rejected.
pub async fn connect_scheduler(
    scheduler: SocketAddr,
    token: &Token,
) -> Result<RpcClient, RpcError> {
    let auth = ClientAuth::Token(token.clone());
    let options = ClientOptions::default();
    RpcClient::connect(scheduler, application_master::PROTOCOL, auth, &options).await
}

/// A launched master that makes the calls that a test asks for.
#[derive(Debug)]
pub struct ScriptedAmRmClient {
    /// Attempt that the calls are made for.
    pub attempt: ApplicationAttemptId,
    /// Number of the last container that its node allocated; before the first, the start of the
    /// node's range.
    pub last_given: i64,
    client: RpcClient,
    response_id: i32,
}

impl ScriptedAmRmClient {
    /// Connects with the AMRMToken of a launch.
    ///
    /// # Panics
    /// When the scheduler rejects the token.
    pub async fn connect(scheduler: SocketAddr, launched: Launched) -> Self {
        let auth = ClientAuth::Token(launched.token);
        Self {
            attempt: launched.attempt,
            // The ResourceManager counts up from where nodes count down, and the master's container
            // is the first.
            last_given: launched.container.id - 1,
            client: connect(scheduler, application_master::PROTOCOL, auth).await,
            response_id: 0,
        }
    }

    /// Connects anew with another AMRMToken of the attempt; the next call has the next response id.
    ///
    /// # Panics
    /// When the scheduler rejects the token.
    pub async fn renew(&mut self, scheduler: SocketAddr, token: Token) {
        let auth = ClientAuth::Token(token);
        self.client = connect(scheduler, application_master::PROTOCOL, auth).await;
    }

    /// Returns the connection, for calls that no master should make.
    #[must_use]
    pub const fn client(&self) -> &RpcClient {
        &self.client
    }

    /// Registers as a master without a proxy does.
    ///
    /// # Panics
    /// When the scheduler refuses.
    pub async fn register(&self) {
        let request = RegisterApplicationMasterRequestProto::default();
        let answer = self.client.call::<RegisterApplicationMaster>(&request);
        answer.await.expect("a launched master may register");
    }

    /// Registers as the proxy of a node that allocates opportunistic containers.
    ///
    /// # Errors
    /// When the scheduler refuses.
    pub async fn register_distributed(
        &self,
    ) -> Result<RegisterDistributedSchedulingAmResponseProto, RpcError> {
        let request = RegisterApplicationMasterRequestProto::default();
        self.client
            .call::<RegisterApplicationMasterForDistributedScheduling>(&request)
            .await
    }

    /// Makes the next `allocate` call; its response id is filled in.
    ///
    /// # Errors
    /// When the scheduler refuses.
    pub async fn allocate(
        &mut self,
        request: AllocateRequestProto,
    ) -> Result<AllocateResponseProto, RpcError> {
        let request = self.numbered(request);
        let response = self.client.call::<Allocate>(&request).await?;
        self.response_id = response.response_id();
        Ok(response)
    }

    /// Makes the next call of the distributed protocol, with the containers that its node
    /// allocated.
    ///
    /// # Errors
    /// When the scheduler refuses.
    pub async fn allocate_distributed(
        &mut self,
        request: AllocateRequestProto,
        given: Vec<ContainerProto>,
    ) -> Result<DistributedSchedulingAllocateResponseProto, RpcError> {
        let request = DistributedSchedulingAllocateRequestProto {
            allocate_request: Some(self.numbered(request)),
            allocated_containers: given,
        };
        let response = self
            .client
            .call::<AllocateForDistributedScheduling>(&request)
            .await?;
        if let Some(inner) = &response.allocate_response {
            self.response_id = inner.response_id();
        }
        Ok(response)
    }

    fn numbered(&self, request: AllocateRequestProto) -> AllocateRequestProto {
        AllocateRequestProto {
            response_id: Some(self.response_id),
            ..request
        }
    }

    /// Returns an ask for `count` containers in total, on any node.
    #[must_use]
    pub fn ask(count: i32, size: Resource, kind: ExecutionTypeProto) -> ResourceRequestProto {
        ResourceRequestProto {
            priority: Some(1.into()),
            resource_name: Some("*".to_owned()),
            capability: Some(size.into()),
            num_containers: Some(count),
            execution_type_request: Some(ExecutionTypeRequestProto {
                execution_type: Some(kind.into()),
                enforce_execution_type: Some(true),
            }),
            ..ResourceRequestProto::default()
        }
    }

    /// Unregisters with success.
    ///
    /// # Panics
    /// When the ResourceManager refuses.
    pub async fn finish(&self) {
        let request = FinishApplicationMasterRequestProto {
            final_application_status: Some(FinalApplicationStatusProto::AppSucceeded.into()),
            ..FinishApplicationMasterRequestProto::default()
        };
        let answer = self.client.call::<FinishApplicationMaster>(&request);
        answer.await.expect("a registered master may finish");
    }
}
