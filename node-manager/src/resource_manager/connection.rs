//! The ResourceTracker of the ResourceManagers, as the status updater calls it.

use std::sync::Arc;
use std::time::Duration;

use wire::client::{ClientAuth, ClientOptions};
use wire::dial::Dialer;
use wire::failover::{CallError, Endpoints, Link, LinkConfig};
use wire::proto::hadoop_yarn::{
    NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto, UnRegisterNodeManagerRequestProto,
    UnRegisterNodeManagerResponseProto,
};
use wire::protocol::resource_tracker::{
    self, NodeHeartbeat, RegisterNodeManager, UnRegisterNodeManager,
};

/// Addresses of the ResourceManagers, and the limits of connections and calls.
#[derive(Clone, Debug)]
pub struct RmConnectionConfig {
    /// `host:port` of each ResourceTracker, in the order of `yarn.resourcemanager.ha.rm-ids`; at
    /// least one.
    pub addresses: Vec<String>,
    /// User that this process runs as, which a simple connection names.
    pub user: String,
    /// Longest time to connect to one ResourceManager, the look-up of its name included.
    pub connect_timeout: Duration,
    /// Longest time for one call.
    pub call_timeout: Duration,
    /// Opens the TCP connections.
    pub dialer: Dialer,
}

/// The ResourceManagers, by their index in the configuration. Each call is made to the given one.
///
/// # Errors
/// [`CallError`].
pub trait ResourceTracker: Send {
    /// The address of a ResourceManager, for people.
    fn address(&self, endpoint: usize) -> &str;

    /// How many ResourceManagers there are.
    fn endpoints(&self) -> usize;

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

/// At most one open connection, to one of the ResourceManagers.
pub struct RmConnection {
    link: Link,
}

impl RmConnection {
    /// Returns a connection that opens with the first call.
    #[must_use]
    pub fn new(config: RmConnectionConfig) -> Self {
        Self {
            link: Link::new(LinkConfig {
                endpoints: Arc::new(Endpoints::new(config.addresses)),
                protocol: resource_tracker::PROTOCOL,
                auth: ClientAuth::Simple { user: config.user },
                options: ClientOptions {
                    connect_timeout: config.connect_timeout,
                    call_timeout: config.call_timeout,
                    dialer: config.dialer,
                    ..ClientOptions::default()
                },
            }),
        }
    }
}

impl ResourceTracker for RmConnection {
    fn address(&self, endpoint: usize) -> &str {
        self.link.endpoints().address(endpoint)
    }

    fn endpoints(&self) -> usize {
        self.link.endpoints().count()
    }

    async fn register(
        &mut self,
        endpoint: usize,
        request: &RegisterNodeManagerRequestProto,
    ) -> Result<RegisterNodeManagerResponseProto, CallError> {
        self.link
            .call::<RegisterNodeManager>(endpoint, request)
            .await
    }

    async fn heartbeat(
        &mut self,
        endpoint: usize,
        request: &NodeHeartbeatRequestProto,
    ) -> Result<NodeHeartbeatResponseProto, CallError> {
        self.link.call::<NodeHeartbeat>(endpoint, request).await
    }

    async fn unregister(
        &mut self,
        endpoint: usize,
        request: &UnRegisterNodeManagerRequestProto,
    ) -> Result<UnRegisterNodeManagerResponseProto, CallError> {
        self.link
            .call::<UnRegisterNodeManager>(endpoint, request)
            .await
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};

    use tokio_util::sync::CancellationToken;
    use tokio_util::task::AbortOnDropHandle;
    use wire::exception::RemoteException;
    use wire::protocol::resource_tracker::{ResourceTracker as Served, ResourceTrackerService};
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
        let mut connection = RmConnection::new(RmConnectionConfig {
            addresses: vec!["rm:8031".to_owned()],
            user: "yarn".to_owned(),
            connect_timeout: Duration::from_secs(20),
            call_timeout: Duration::from_secs(20),
            dialer: Dialer::new(Arc::new(vec![dead, alive])),
        });
        let request = NodeHeartbeatRequestProto::default();
        let answer = connection.heartbeat(0, &request).await;
        assert!(answer.is_ok(), "{answer:?}");
    }
}
