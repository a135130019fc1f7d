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
use crate::racks::Racks;

/// ResourceTracker on a handle of the core, with the table of racks.
#[derive(Debug)]
pub struct Tracker {
    /// Handle of the core, which makes every decision.
    pub core: Handle,
    /// Racks of the nodes.
    pub racks: Racks,
}

impl ResourceTracker for Tracker {
    async fn register_node_manager(
        &self,
        caller: &Caller,
        request: RegisterNodeManagerRequestProto,
    ) -> Result<RegisterNodeManagerResponseProto, RemoteException> {
        let host = request.node_id.as_ref().map_or("", |id| id.host());
        let rack = self.racks.of(host, caller.peer.ip()).to_owned();
        self.core
            .call(move |core, now| core.register_node(&request, &rack, now))
            .await
    }

    async fn node_heartbeat(
        &self,
        _caller: &Caller,
        request: NodeHeartbeatRequestProto,
    ) -> Result<NodeHeartbeatResponseProto, RemoteException> {
        Ok(self
            .core
            .run(move |core, now| core.heartbeat(request, now))
            .await?)
    }

    async fn un_register_node_manager(
        &self,
        _caller: &Caller,
        request: UnRegisterNodeManagerRequestProto,
    ) -> Result<UnRegisterNodeManagerResponseProto, RemoteException> {
        self.core
            .call(move |core, now| core.unregister_node(&request, now))
            .await?;
        Ok(UnRegisterNodeManagerResponseProto {})
    }
}
