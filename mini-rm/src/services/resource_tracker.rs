//! ResourceTracker, for nodes.

use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto, UnRegisterNodeManagerRequestProto,
    UnRegisterNodeManagerResponseProto,
};
use wire::protocol::resource_tracker::ResourceTracker;
use wire::rpc::Caller;

use crate::core_task::Handle;

/// The service.
#[derive(Debug)]
pub struct Tracker(pub Handle);

impl ResourceTracker for Tracker {
    async fn register_node_manager(
        &self,
        _caller: &Caller,
        request: RegisterNodeManagerRequestProto,
    ) -> Result<RegisterNodeManagerResponseProto, RemoteException> {
        self.0
            .call(move |core, now| core.register_node(&request, now))
            .await
    }

    async fn node_heartbeat(
        &self,
        _caller: &Caller,
        request: NodeHeartbeatRequestProto,
    ) -> Result<NodeHeartbeatResponseProto, RemoteException> {
        Ok(self
            .0
            .run(move |core, now| core.heartbeat(request, now))
            .await?)
    }

    async fn un_register_node_manager(
        &self,
        _caller: &Caller,
        request: UnRegisterNodeManagerRequestProto,
    ) -> Result<UnRegisterNodeManagerResponseProto, RemoteException> {
        self.0
            .call(move |core, now| core.unregister_node(&request, now))
            .await?;
        Ok(UnRegisterNodeManagerResponseProto {})
    }
}
