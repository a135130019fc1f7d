//! The ResourceTracker of the ResourceManagers, as the status updater calls it.

use wire::failover::{CallError, Link};
use wire::proto::hadoop_yarn::{
    NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto, UnRegisterNodeManagerRequestProto,
    UnRegisterNodeManagerResponseProto,
};
use wire::protocol::resource_tracker::{NodeHeartbeat, RegisterNodeManager, UnRegisterNodeManager};

/// The ResourceManagers, by their index in the configuration. Each call is made to the given one.
///
/// # Errors
/// [`CallError`].
pub trait ResourceTracker: Send {
    /// The address of a ResourceManager, for people.
    fn address(&self, endpoint: usize) -> &str;

    /// How many ResourceManagers there are.
    fn endpoint_count(&self) -> usize;

    /// Calls `registerNodeManager`, once.
    fn register(
        &mut self,
        endpoint: usize,
        request: &RegisterNodeManagerRequestProto,
    ) -> impl Future<Output = Result<RegisterNodeManagerResponseProto, CallError>> + Send;

    /// Calls `nodeHeartbeat`, once.
    fn heartbeat(
        &mut self,
        endpoint: usize,
        request: &NodeHeartbeatRequestProto,
    ) -> impl Future<Output = Result<NodeHeartbeatResponseProto, CallError>> + Send;

    /// Calls `unRegisterNodeManager`, once.
    fn unregister(
        &mut self,
        endpoint: usize,
        request: &UnRegisterNodeManagerRequestProto,
    ) -> impl Future<Output = Result<UnRegisterNodeManagerResponseProto, CallError>> + Send;
}

impl ResourceTracker for Link {
    fn address(&self, endpoint: usize) -> &str {
        self.endpoints().address(endpoint)
    }

    fn endpoint_count(&self) -> usize {
        self.endpoints().count()
    }

    async fn register(
        &mut self,
        endpoint: usize,
        request: &RegisterNodeManagerRequestProto,
    ) -> Result<RegisterNodeManagerResponseProto, CallError> {
        self.call::<RegisterNodeManager>(endpoint, request).await
    }

    async fn heartbeat(
        &mut self,
        endpoint: usize,
        request: &NodeHeartbeatRequestProto,
    ) -> Result<NodeHeartbeatResponseProto, CallError> {
        self.call::<NodeHeartbeat>(endpoint, request).await
    }

    async fn unregister(
        &mut self,
        endpoint: usize,
        request: &UnRegisterNodeManagerRequestProto,
    ) -> Result<UnRegisterNodeManagerResponseProto, CallError> {
        self.call::<UnRegisterNodeManager>(endpoint, request).await
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;
    use tokio_util::task::AbortOnDropHandle;
    use wire::client::{ClientAuth, ClientOptions};
    use wire::dial::Dialer;
    use wire::exception::RemoteException;
    use wire::failover::{Endpoints, LinkConfig};
    use wire::protocol::resource_tracker::{
        self, ResourceTracker as Served, ResourceTrackerService,
    };
    use wire::rpc::Caller;
    use wire::server::{RpcServer, ServerAuth};

    use super::*;

    struct Rm;

    impl Served for Rm {
        async fn node_heartbeat(
            &self,
            _: &Caller,
            _: NodeHeartbeatRequestProto,
        ) -> Result<NodeHeartbeatResponseProto, RemoteException> {
            Ok(NodeHeartbeatResponseProto::default())
        }
    }

    #[tokio::test]
    async fn a_heartbeat_reaches_a_resource_manager_whose_name_has_a_dead_first_address() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        // Bound and released: nobody listens there.
        let dead = TcpListener::bind(any).unwrap().local_addr().unwrap();
        let server = RpcServer::builder(ServerAuth::Simple)
            .service(ResourceTrackerService::new(Arc::new(Rm)));
        let (server, alive) = server.bind(any).await.unwrap();
        let serving = tokio::spawn(server.serve(CancellationToken::new()));
        let _serving = AbortOnDropHandle::new(serving);
        let mut link = Link::new(LinkConfig {
            endpoints: Arc::new(Endpoints::new(vec!["rm:8031".to_owned()])),
            protocol: resource_tracker::PROTOCOL,
            auth: ClientAuth::Simple {
                user: "yarn".to_owned(),
            },
            options: ClientOptions {
                dialer: Dialer::new(Arc::new(vec![dead, alive])),
                ..ClientOptions::default()
            },
        });
        let request = NodeHeartbeatRequestProto::default();
        let answer = link.heartbeat(0, &request).await;
        assert!(answer.is_ok(), "{answer:?}");
    }
}
