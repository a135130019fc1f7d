//! A connection to whichever configured ResourceManager answers.

use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::time::timeout;
use wire::client::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::exception::HadoopException;
use wire::proto::hadoop_yarn::{
    NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto, UnRegisterNodeManagerRequestProto,
    UnRegisterNodeManagerResponseProto,
};
use wire::protocol::resource_tracker::{
    self, NodeHeartbeat, RegisterNodeManager, UnRegisterNodeManager,
};
use wire::rpc::Method;

/// How to reach the ResourceManagers.
#[derive(Clone, Debug)]
pub struct RmConnectionConfig {
    /// `host:port` of each ResourceTracker, in the order of `yarn.resourcemanager.ha.rm-ids`; at least one.
    pub addresses: Vec<String>,
    /// The user that this process runs as, which a simple connection names.
    pub user: String,
    /// How long one attempt to resolve the name may take, and then one to connect.
    pub connect_timeout: Duration,
    /// How long one call may take.
    pub call_timeout: Duration,
}

/// Why a call did not bring an answer.
#[derive(Debug, Error)]
pub enum RmCallError {
    /// The name of a ResourceManager does not resolve.
    #[error("resolving the ResourceManager's address {address}")]
    Resolve {
        /// As configured.
        address: String,
        /// What the resolver says.
        #[source]
        source: std::io::Error,
    },
    /// The call failed, locally or remotely.
    #[error("calling {method} of the ResourceManager at {address}")]
    Call {
        /// As configured.
        address: String,
        /// Which method.
        method: &'static str,
        /// Why.
        #[source]
        source: RpcError,
    },
}

impl RmCallError {
    /// Whether an active ResourceManager answered, with an exception of its own. Then the connection is good, and
    /// another address would be no better.
    #[must_use]
    pub fn is_of_active_rm(&self) -> bool {
        matches!(self, Self::Call { source: RpcError::Remote(e), .. } if !e.is(HadoopException::Standby))
    }
}

/// The ResourceManagers as the status updater calls them. Each method makes one call, once.
///
/// # Errors
/// [`RmCallError`]. After one that is not [`RmCallError::is_of_active_rm`] the next call goes to the next address.
pub trait ResourceTracker: Send {
    /// The address that the next call goes to, for people.
    fn address(&self) -> &str;

    /// How many addresses are tried in turn.
    fn addresses(&self) -> usize;

    /// `registerNodeManager`.
    fn register(
        &mut self,
        request: &RegisterNodeManagerRequestProto,
    ) -> impl Future<Output = Result<RegisterNodeManagerResponseProto, RmCallError>> + Send;

    /// `nodeHeartbeat`.
    fn heartbeat(
        &mut self,
        request: &NodeHeartbeatRequestProto,
    ) -> impl Future<Output = Result<NodeHeartbeatResponseProto, RmCallError>> + Send;

    /// `unRegisterNodeManager`.
    fn unregister(
        &mut self,
        request: &UnRegisterNodeManagerRequestProto,
    ) -> impl Future<Output = Result<UnRegisterNodeManagerResponseProto, RmCallError>> + Send;
}

/// At most one open connection. After a failure the next call opens a new one, to the next address in turn.
pub struct RmConnection {
    config: RmConnectionConfig,
    current: usize,
    client: Option<RpcClient>,
}

impl RmConnection {
    /// Nothing is opened before the first call.
    #[must_use]
    pub fn new(config: RmConnectionConfig) -> Self {
        Self {
            config,
            current: 0,
            client: None,
        }
    }

    fn current_address(&self) -> &str {
        self.config
            .addresses
            .get(self.current)
            .map_or("", String::as_str)
    }

    /// Makes one call, once.
    ///
    /// # Errors
    /// [`RmCallError`]. A connection that failed is given up, so that the caller's next try opens another.
    async fn call<M: Method>(&mut self, request: &M::Request) -> Result<M::Response, RmCallError> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => match self.open().await {
                Ok(client) => self.client.insert(client).clone(),
                Err(error) => {
                    self.give_up();
                    return Err(error);
                }
            },
        };
        let address = self.current_address().to_owned();
        let result = client.call::<M>(request).await;
        let result = result.map_err(|source| RmCallError::Call {
            address,
            method: M::NAME,
            source,
        });
        if result.as_ref().is_err_and(|error| !error.is_of_active_rm()) {
            self.give_up();
        }
        result
    }

    async fn open(&self) -> Result<RpcClient, RmCallError> {
        let address = self.current_address().to_owned();
        let resolved = match timeout(
            self.config.connect_timeout,
            tokio::net::lookup_host(&address),
        )
        .await
        {
            Ok(Ok(mut found)) => found
                .next()
                .ok_or_else(|| std::io::Error::other("the name has no address")),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        };
        let resolved: SocketAddr = match resolved {
            Ok(resolved) => resolved,
            Err(source) => return Err(RmCallError::Resolve { address, source }),
        };
        let auth = ClientAuth::Simple {
            user: self.config.user.clone(),
        };
        let options = ClientOptions {
            connect_timeout: self.config.connect_timeout,
            call_timeout: self.config.call_timeout,
            ..ClientOptions::default()
        };
        RpcClient::connect(resolved, resource_tracker::PROTOCOL, auth, &options)
            .await
            .map_err(|source| RmCallError::Call {
                address,
                method: "connect",
                source,
            })
    }

    fn give_up(&mut self) {
        self.client = None;
        self.current = (self.current + 1) % self.config.addresses.len().max(1);
    }
}

impl ResourceTracker for RmConnection {
    fn address(&self) -> &str {
        self.current_address()
    }

    fn addresses(&self) -> usize {
        self.config.addresses.len()
    }

    async fn register(
        &mut self,
        request: &RegisterNodeManagerRequestProto,
    ) -> Result<RegisterNodeManagerResponseProto, RmCallError> {
        self.call::<RegisterNodeManager>(request).await
    }

    async fn heartbeat(
        &mut self,
        request: &NodeHeartbeatRequestProto,
    ) -> Result<NodeHeartbeatResponseProto, RmCallError> {
        self.call::<NodeHeartbeat>(request).await
    }

    async fn unregister(
        &mut self,
        request: &UnRegisterNodeManagerRequestProto,
    ) -> Result<UnRegisterNodeManagerResponseProto, RmCallError> {
        self.call::<UnRegisterNodeManager>(request).await
    }
}
