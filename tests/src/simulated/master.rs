//! ApplicationMasters on either of the scheduler's protocols.

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
use wire::rpc::{ClientAuth, RpcClient, RpcError};

use super::{Launched, anybody, connect};

/// Submits an application whose master takes this much, and answers with its id.
///
/// # Panics
/// When the ResourceManager does not take it.
pub async fn submit(clients: SocketAddr, master: Resource) -> ApplicationId {
    let client = connect(clients, application_client::PROTOCOL, anybody()).await;
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

/// A container as a node's own allocator announces it.
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

/// A master that has been launched.
#[derive(Debug)]
pub struct SimulatedMaster {
    /// Its attempt.
    pub attempt: ApplicationAttemptId,
    /// The last container id that its node gave out; the ResourceManager's start before the first.
    pub last_given: i64,
    client: RpcClient,
    response_id: i32,
}

impl SimulatedMaster {
    /// Connects with the token that it was launched with.
    ///
    /// # Panics
    /// When the scheduler does not take it.
    pub async fn connect(scheduler: SocketAddr, launched: Launched) -> Self {
        let auth = ClientAuth::Token(launched.token);
        Self {
            attempt: launched.attempt,
            // The ResourceManager counts up from where nodes count down, and the master's container is its first.
            last_given: launched.container.id - 1,
            client: connect(scheduler, application_master::PROTOCOL, auth).await,
            response_id: 0,
        }
    }

    /// The connection, for calls that no master should make.
    #[must_use]
    pub const fn client(&self) -> &RpcClient {
        &self.client
    }

    /// Registers as any master.
    ///
    /// # Panics
    /// When it may not.
    pub async fn register(&self) {
        let request = RegisterApplicationMasterRequestProto::default();
        let answer = self.client.call::<RegisterApplicationMaster>(&request);
        answer.await.expect("a launched master may register");
    }

    /// Registers as the proxy of a node that allocates.
    ///
    /// # Errors
    /// Why not.
    pub async fn register_distributed(
        &self,
    ) -> Result<RegisterDistributedSchedulingAmResponseProto, RpcError> {
        let request = RegisterApplicationMasterRequestProto::default();
        self.client
            .call::<RegisterApplicationMasterForDistributedScheduling>(&request)
            .await
    }

    /// The next call.
    ///
    /// # Errors
    /// Why it was refused.
    pub async fn allocate(
        &mut self,
        request: AllocateRequestProto,
    ) -> Result<AllocateResponseProto, RpcError> {
        let request = self.numbered(request);
        let response = self.client.call::<Allocate>(&request).await?;
        self.response_id = response.response_id();
        Ok(response)
    }

    /// The next call, with what its node gave out.
    ///
    /// # Errors
    /// Why it was refused.
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

    /// An absolute ask for containers anywhere.
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

    /// Says that all went well.
    ///
    /// # Panics
    /// When the ResourceManager does not want to hear it.
    pub async fn finish(&self) {
        let request = FinishApplicationMasterRequestProto {
            final_application_status: Some(FinalApplicationStatusProto::AppSucceeded.into()),
            ..FinishApplicationMasterRequestProto::default()
        };
        let answer = self.client.call::<FinishApplicationMaster>(&request);
        answer.await.expect("a registered master may finish");
    }
}
