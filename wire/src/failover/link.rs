//! One connection at a time to a group of servers that stand in for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use prost::Message as _;
use thiserror::Error;

use super::plan::Failure;
use crate::client::{BoxedError, ClientAuth, ClientOptions, RpcClient, RpcError};
use crate::dial;
use crate::service::Method;
use crate::token::Token;

/// The ResourceManagers of a cluster at the port of one protocol, and which of them answered last.
/// Shared by the clients of a process, so that with hundreds of them not each has to find out by
/// itself.
#[derive(Debug)]
pub struct Endpoints {
    addresses: Vec<String>,
    active: AtomicUsize,
}

impl Endpoints {
    /// Returns a group in which none has been tried. `addresses`: `host:port` of each, in the order
    /// of `yarn.resourcemanager.ha.rm-ids`; at least one.
    #[must_use]
    pub const fn new(addresses: Vec<String>) -> Self {
        Self {
            addresses,
            active: AtomicUsize::new(0),
        }
    }

    /// Number of servers.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.addresses.len()
    }

    /// The `host:port` of a server.
    #[must_use]
    pub fn address(&self, endpoint: usize) -> &str {
        self.addresses.get(endpoint).map_or("", String::as_str)
    }

    pub(super) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Makes the next server the active one after `failed` did not answer. Does nothing when
    /// another client has done so: of hundreds that lose the same server only the first turns.
    pub(super) fn turn_from(&self, failed: usize) {
        let next = (failed + 1) % self.count().max(1);
        let _turned_by_another =
            self.active
                .compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A failed try of a call.
#[derive(Debug, Error)]
#[error("calling {method} of the ResourceManager at {address}")]
pub struct CallError {
    /// Address of the server, as configured.
    pub address: String,
    /// Method that was called, also when connecting failed.
    pub method: &'static str,
    /// Whether the connection was open before the call.
    pub reused: bool,
    /// Reason of the failure.
    pub source: RpcError,
}

impl CallError {
    /// Classifies the failure by what it says about the server.
    #[must_use]
    pub fn failure(&self) -> Failure {
        Failure::of(&self.source, self.reused)
    }
}

/// A call with an encoded request.
#[derive(Clone, Debug)]
pub struct RawCall {
    /// Name of the method.
    pub method: &'static str,
    /// Protocol that the method belongs to.
    pub protocol: &'static str,
    /// Version of the protocol.
    pub version: u64,
    /// Encoded request message.
    pub request: Bytes,
}

impl RawCall {
    pub(super) fn of<M: Method>(request: &M::Request) -> Self {
        Self {
            method: M::NAME,
            protocol: M::PROTOCOL,
            version: M::VERSION,
            request: request.encode_to_vec().into(),
        }
    }
}

/// Servers, identity and limits of a [`Link`].
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Servers to choose from.
    pub endpoints: Arc<Endpoints>,
    /// Protocol that connections are opened for.
    pub protocol: &'static str,
    /// Identity to connect with.
    pub auth: ClientAuth,
    /// Limits of connections and calls. The limit for connecting covers the look-up of the name and
    /// all its addresses.
    pub options: ClientOptions,
}

/// At most one open connection. Makes each call once; [`FailoverClient`](super::FailoverClient)
/// repeats them.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    open: Option<(usize, RpcClient)>,
}

impl Link {
    /// Returns a link that opens its first connection with the first call.
    #[must_use]
    pub const fn new(config: LinkConfig) -> Self {
        Self { config, open: None }
    }

    /// The servers to choose from.
    #[must_use]
    pub const fn endpoints(&self) -> &Arc<Endpoints> {
        &self.config.endpoints
    }

    /// Whether the open connection, if any, is to this server and of use.
    pub(super) fn is_open_to(&self, endpoint: usize) -> bool {
        self.client(endpoint).is_some()
    }

    fn client(&self, endpoint: usize) -> Option<&RpcClient> {
        let (open_to, client) = self.open.as_ref()?;
        (*open_to == endpoint && !client.is_lost()).then_some(client)
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Connects with this token from the next call on. Returns whether it is a new one, for which
    /// the open connection is closed: on that, a ResourceManager sends the new token with each
    /// answer until the old key ends.
    pub(super) fn set_token(&mut self, token: Token) -> bool {
        let is_new = match &self.config.auth {
            ClientAuth::Token(current) => *current != token,
            ClientAuth::Simple { .. } | ClientAuth::Kerberos(_) => true,
        };
        if is_new {
            self.config.auth = ClientAuth::Token(token);
            self.close();
        }
        is_new
    }

    /// Makes one call to the given server, once.
    ///
    /// # Errors
    /// [`CallError`]. The connection stays open only when the active server answered.
    pub async fn call<M: Method>(
        &mut self,
        endpoint: usize,
        request: &M::Request,
    ) -> Result<M::Response, CallError> {
        let call = RawCall::of::<M>(request);
        self.call_raw(endpoint, &call, M::Response::decode).await
    }

    pub(super) async fn call_raw<T, E: Into<BoxedError>>(
        &mut self,
        endpoint: usize,
        call: &RawCall,
        decode: impl FnOnce(Bytes) -> Result<T, E>,
    ) -> Result<T, CallError> {
        let reused = self.is_open_to(endpoint);
        let answer = match self.open(endpoint).await {
            Ok(client) => {
                client
                    .call_raw(
                        call.method,
                        call.protocol,
                        call.version,
                        call.request.clone(),
                    )
                    .await
            }
            Err(error) => Err(error),
        };
        let decoded = answer.and_then(|answer| {
            decode(answer).map_err(|source| RpcError::Decode {
                method: call.method,
                source: source.into(),
            })
        });
        let error = match decoded {
            Ok(answer) => return Ok(answer),
            Err(source) => CallError {
                address: self.config.endpoints.address(endpoint).to_owned(),
                method: call.method,
                reused,
                source,
            },
        };
        if !error.failure().is_of_active() {
            self.close();
        }
        Err(error)
    }

    async fn open(&mut self, endpoint: usize) -> Result<RpcClient, RpcError> {
        if let Some(client) = self.client(endpoint) {
            return Ok(client.clone());
        }
        self.close();
        let LinkConfig {
            endpoints,
            protocol,
            auth,
            options,
        } = &self.config;
        let (host, port) = dial::split_host_port(endpoints.address(endpoint))?;
        let client = RpcClient::connect_host(host, port, protocol, auth.clone(), options).await?;
        Ok(self.open.insert((endpoint, client)).1.clone())
    }
}
