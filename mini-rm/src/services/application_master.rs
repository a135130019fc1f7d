//! ApplicationMasterProtocol, for AMs. The AMRMToken of the connection identifies the caller.

use bytes::Bytes;
use records::ApplicationAttemptId;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, FinishApplicationMasterRequestProto,
    FinishApplicationMasterResponseProto, RegisterApplicationMasterRequestProto,
    RegisterApplicationMasterResponseProto,
};
use wire::protocol::application_master::ApplicationMasterProtocol;
use wire::rpc::Caller;

use crate::core_task::Handle;
use wire::secrets::attempt_of;

/// ApplicationMasterProtocol and DistributedSchedulingAMProtocol on a handle of the core.
#[derive(Debug)]
pub struct ApplicationMasters(pub Handle);

/// Returns the token's identifier and the attempt that it names.
pub(super) fn identify(caller: &Caller) -> Result<(Bytes, ApplicationAttemptId), RemoteException> {
    let identifier = caller.token_identifier.clone().ok_or_else(|| {
        RemoteException::new(HadoopException::AccessControl, "an AMRMToken is needed")
    })?;
    let attempt = attempt_of(&identifier)?;
    Ok((identifier, attempt))
}

impl ApplicationMasterProtocol for ApplicationMasters {
    async fn register_application_master(
        &self,
        caller: &Caller,
        request: RegisterApplicationMasterRequestProto,
    ) -> Result<RegisterApplicationMasterResponseProto, RemoteException> {
        let (_, attempt) = identify(caller)?;
        self.0
            .call(move |core, now| core.register_master(attempt, &request, now))
            .await
    }

    async fn allocate(
        &self,
        caller: &Caller,
        request: AllocateRequestProto,
    ) -> Result<AllocateResponseProto, RemoteException> {
        let (presented, attempt) = identify(caller)?;
        self.0
            .call(move |core, now| core.allocate(attempt, &presented, &request, now))
            .await
    }

    async fn finish_application_master(
        &self,
        caller: &Caller,
        request: FinishApplicationMasterRequestProto,
    ) -> Result<FinishApplicationMasterResponseProto, RemoteException> {
        let (_, attempt) = identify(caller)?;
        let is_unregistered = self
            .0
            .call(move |core, now| core.finish_master(attempt, &request, now))
            .await?;
        Ok(FinishApplicationMasterResponseProto {
            is_unregistered: Some(is_unregistered),
        })
    }
}
