//! DistributedSchedulingAMProtocol, for AMs on nodes that allocate opportunistic containers
//! themselves. The caller is the node's AMRMProxy with the AM's AMRMToken.

use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    DistributedSchedulingAllocateRequestProto, DistributedSchedulingAllocateResponseProto,
    FinishApplicationMasterRequestProto, FinishApplicationMasterResponseProto,
    RegisterApplicationMasterRequestProto, RegisterDistributedSchedulingAmResponseProto,
};
use wire::protocol::application_master::ApplicationMasterProtocol;
use wire::protocol::distributed_scheduling_am::DistributedSchedulingAMProtocol;
use wire::rpc::Caller;

use super::application_master::{ApplicationMasters, identify};

impl DistributedSchedulingAMProtocol for ApplicationMasters {
    async fn register_application_master_for_distributed_scheduling(
        &self,
        caller: &Caller,
        request: RegisterApplicationMasterRequestProto,
    ) -> Result<RegisterDistributedSchedulingAmResponseProto, RemoteException> {
        let (_, attempt) = identify(caller)?;
        self.0
            .call(move |core, now| core.register_distributed(attempt, &request, now))
            .await
    }

    async fn allocate_for_distributed_scheduling(
        &self,
        caller: &Caller,
        request: DistributedSchedulingAllocateRequestProto,
    ) -> Result<DistributedSchedulingAllocateResponseProto, RemoteException> {
        let (presented, attempt) = identify(caller)?;
        self.0
            .call(move |core, now| core.allocate_distributed(attempt, &presented, &request, now))
            .await
    }

    async fn finish_application_master(
        &self,
        caller: &Caller,
        request: FinishApplicationMasterRequestProto,
    ) -> Result<FinishApplicationMasterResponseProto, RemoteException> {
        ApplicationMasterProtocol::finish_application_master(self, caller, request).await
    }
}
