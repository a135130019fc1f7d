//! A Hadoop RPC server: one port, several protocols, one way to authenticate.
//!
//! ```text
//! accept loop ──place──▶ connection task (handshake, reads) ──▶ call, inline or in its own task
//!                                    ▲                                        │
//!                                    └────────── Outbound ◀──── answer ◀──────┘
//! ```
//! Everything that a peer can make grow has one owner with a limit in [`ServerLimits`]:
//!
//! | what | owner | at the limit |
//! |---|---|---|
//! | connections before authentication | `strangers` | a silent one is evicted |
//! | connections of callers | a semaphore, shares in `budget` | the next waits, then fails |
//! | bytes of requests, also decoded | `budget` | the next waits; too costly ones fail |
//! | bytes of answers, calls in flight | `budget` | no further call of the user is read |

mod budget;
mod calls;
mod connection;
mod handshake;
mod limits;
mod receiving;
mod refusal_log;
mod running;
mod strangers;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use refusals::Refusals;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::budget::Budgets;
pub use self::limits::ServerLimits;
use self::refusal_log::{OnUnauthorized, RefusalLog};
use self::running::ServiceCall;
use self::strangers::{StrangerPlace, Strangers};
use crate::exception::{HadoopException, RemoteException, RpcErrorCode};
use crate::frame::{DelimitedError, FRAME_LENGTH_MAX_UNAUTHENTICATED};
use crate::protection::Protections;
use crate::proto::hadoop_common::RequestHeaderProto;
pub use crate::sasl::ServerAuth;
use crate::service::{Authorize, Caller, Service};

/// Connections that the kernel queues for the accept loop, at most as many as
/// `net.core.somaxconn` says (4,096 by default). When the queue is full, the kernel drops a
/// newcomer's SYN, and the newcomer tries again after a second.
const BACKLOG: u32 = 4_096;

/// Pause after a failed accept. Failures that do not concern a single connection mean a shortage of
/// descriptors or memory, and would repeat at once.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Cost of a request, in bytes, up to which it needs no reservation: its frame, and what decoding
/// takes. The number of calls limits such requests.
pub const SMALL_REQUEST_BYTES: usize = FRAME_LENGTH_MAX_UNAUTHENTICATED;

/// Time that a request waits for memory that other requests have. Then its call fails, or its
/// connection ends if it has not arrived completely: requests of several users that each hold a
/// part and wait for the rest would wait for ever.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(30);

/// Requests that are decoded off the runtime's workers at a time.
const HEAVY_MAX: usize = 2;

/// Longest method name that is looked up, in bytes. The name is repeated in a refusal.
const METHOD_LENGTH_MAX: usize = 256;

/// A server that is not listening yet.
#[derive(Debug)]
pub struct RpcServerBuilder {
    auth: ServerAuth,
    protections: Protections,
    services: HashMap<&'static str, Arc<dyn Service>>,
    limits: ServerLimits,
    refusals: Arc<Refusals>,
    on_unauthorized: OnUnauthorized,
    authorization: Option<Arc<dyn Authorize>>,
}

impl fmt::Debug for dyn Authorize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorize")
    }
}

impl fmt::Debug for dyn Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} version {}", self.protocol(), self.version())
    }
}

impl RpcServerBuilder {
    /// Hosts a protocol; a second one of the same name replaces the first.
    #[must_use]
    pub fn service(mut self, service: impl Service) -> Self {
        self.services.insert(service.protocol(), Arc::new(service));
        self
    }

    /// Sets the levels of protection that callers with a token may choose among; Hadoop's default,
    /// none but the proof, otherwise.
    #[must_use]
    pub fn protections(mut self, protections: Protections) -> Self {
        self.protections = protections;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Counts refusals here.
    #[must_use]
    pub fn refusals(mut self, refusals: Arc<Refusals>) -> Self {
        self.refusals = refusals;
        self
    }

    /// Has a function called with the address of each peer that did not prove its identity, and the
    /// answer to it, before the connection is closed. Anybody can have it called at any rate.
    #[must_use]
    pub fn on_unauthorized(
        mut self,
        call: impl Fn(SocketAddr, &str) + Send + Sync + 'static,
    ) -> Self {
        self.on_unauthorized = OnUnauthorized(Some(Arc::new(call)));
        self
    }

    /// Has each caller asked about before its first call; everybody may call otherwise. A call of
    /// another protocol than the connection's is not asked about, so a port hosts one protocol.
    #[must_use]
    pub fn authorization(mut self, authorization: Option<Arc<dyn Authorize>>) -> Self {
        self.authorization = authorization;
        self
    }

    /// Listens. Port 0 picks a free port, which the returned address contains. Peers may connect
    /// from now on and are served once [`RpcServer::serve`] runs.
    ///
    /// # Errors
    /// Those of the operating system, for example that the port is in use.
    pub async fn bind(self, address: SocketAddr) -> io::Result<(RpcServer, SocketAddr)> {
        self.on(listen(address)?)
    }

    /// Takes a socket that listens already and does not block. Returns the server and its address.
    ///
    /// # Errors
    /// Those of the operating system: it is no such socket.
    pub fn listening(self, listener: std::net::TcpListener) -> io::Result<(RpcServer, SocketAddr)> {
        self.on(TcpListener::from_std(listener)?)
    }

    fn on(self, listener: TcpListener) -> io::Result<(RpcServer, SocketAddr)> {
        let address = listener.local_addr()?;
        let Self {
            auth,
            protections,
            services,
            limits,
            refusals,
            on_unauthorized,
            authorization,
        } = self;
        Ok((
            RpcServer {
                listener,
                auth,
                protections,
                services,
                limits,
                refusals,
                on_unauthorized,
                authorization,
            },
            address,
        ))
    }
}

/// A server that is listening.
#[derive(Debug)]
pub struct RpcServer {
    listener: TcpListener,
    auth: ServerAuth,
    protections: Protections,
    services: HashMap<&'static str, Arc<dyn Service>>,
    limits: ServerLimits,
    refusals: Arc<Refusals>,
    on_unauthorized: OnUnauthorized,
    authorization: Option<Arc<dyn Authorize>>,
}

/// State shared by all connections of one server.
struct Shared {
    auth: ServerAuth,
    protections: Protections,
    services: HashMap<&'static str, Arc<dyn Service>>,
    limits: ServerLimits,
    strangers: Arc<Strangers>,
    refusals: Arc<Refusals>,
    refusal_log: RefusalLog,
    /// Rule of who may call; `None`: everybody.
    authorization: Option<Arc<dyn Authorize>>,
    /// Places of callers.
    connections: Arc<Semaphore>,
    budgets: Budgets,
    /// Permits to decode off the runtime's workers.
    heavy: Arc<Semaphore>,
    /// Tracker of the calls that run in tasks of their own.
    running: TaskTracker,
    shutdown: CancellationToken,
    /// Cancels calls that did not end during the drain.
    abandon: CancellationToken,
}

impl Shared {
    /// Decides whether a caller may use the protocol of its connection. Without a rule everybody
    /// may, and then the protocol counts with each call only.
    async fn authorize(
        &self,
        caller: &Caller,
        protocol: Option<&str>,
    ) -> Result<(), RemoteException> {
        let Some(rule) = &self.authorization else {
            return Ok(());
        };
        let refused = |text: String| {
            RemoteException::with_code(
                HadoopException::Authorization,
                text,
                RpcErrorCode::FatalUnauthorized,
            )
        };
        match protocol {
            None => Err(refused("Null protocol not authorized".to_owned())),
            Some(protocol) if !self.services.contains_key(protocol) => Err(refused(format!(
                "Unknown protocol: {}",
                shortened(protocol)
            ))),
            Some(protocol) => rule.authorize(caller, protocol).await,
        }
    }

    fn is_crowded(&self) -> bool {
        let places = self.limits.connections_max;
        let taken = places.saturating_sub(self.connections.available_permits());
        taken > places / 2
    }

    /// Finds the service of a call and checks version and method name.
    fn resolve(
        &self,
        call: Result<(RequestHeaderProto, Bytes), DelimitedError>,
        caller: &Arc<Caller>,
    ) -> Result<ServiceCall, RemoteException> {
        let (header, request) = call.map_err(|error| {
            RemoteException::new(HadoopException::InvalidProtocolBuffer, error.to_string())
        })?;
        let protocol = header.declaring_class_protocol_name;
        let Some(service) = self.services.get(protocol.as_str()) else {
            return Err(RemoteException::new(
                HadoopException::NoSuchProtocol,
                format!("Unknown protocol: {}", shortened(&protocol)),
            ));
        };
        let version = header.client_protocol_version;
        if version != service.version() {
            let text = format!(
                "Protocol {protocol} version mismatch. (client = {version}, server = {})",
                service.version()
            );
            return Err(RemoteException::new(HadoopException::VersionMismatch, text));
        }
        if header.method_name.len() > METHOD_LENGTH_MAX {
            return Err(RemoteException::new(
                HadoopException::NoSuchMethod,
                format!(
                    "Unknown method {} of {protocol}",
                    shortened(&header.method_name)
                ),
            ));
        }
        Ok(ServiceCall {
            service: Arc::clone(service),
            caller: Arc::clone(caller),
            method: header.method_name,
            request,
        })
    }
}

/// Shortens a peer's text for use in an answer to it.
fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

impl RpcServer {
    /// Starts building a server with this authentication, no protocol yet and default limits.
    #[must_use]
    pub fn builder(auth: ServerAuth) -> RpcServerBuilder {
        RpcServerBuilder {
            auth,
            protections: Protections::default(),
            services: HashMap::new(),
            limits: ServerLimits::default(),
            refusals: Arc::default(),
            on_unauthorized: OnUnauthorized::default(),
            authorization: None,
        }
    }

    /// Serves until `shutdown`, then accepts no more, answers the calls in flight, and closes every
    /// connection.
    pub async fn serve(self, shutdown: CancellationToken) {
        let Self {
            listener,
            auth,
            protections,
            services,
            limits,
            refusals,
            on_unauthorized,
            authorization,
        } = self;
        let shared = Arc::new(Shared {
            auth,
            protections,
            services,
            strangers: Arc::new(Strangers::new(limits.strangers_max)),
            refusals,
            refusal_log: RefusalLog::new(on_unauthorized),
            authorization,
            connections: Arc::new(Semaphore::new(limits.connections_max)),
            budgets: Budgets::new(&limits),
            heavy: Arc::new(Semaphore::new(HEAVY_MAX)),
            limits,
            running: TaskTracker::new(),
            shutdown: shutdown.clone(),
            abandon: CancellationToken::new(),
        });
        // Cancels also if this future is dropped: no task of the server outlives it.
        let _abandoned = shared.abandon.clone().drop_guard();
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = accept(&listener, &shared.strangers) => accepted,
            };
            let (stream, peer, place) = accepted;
            let abandon = shared.abandon.clone();
            let serving = connection::serve(Arc::clone(&shared), stream, peer, place);
            connections.spawn(async move {
                tokio::select! {
                    () = serving => {}
                    () = abandon.cancelled() => {}
                }
            });
        }
        drop(listener);
        connections.close();
        shared.running.close();
        let drained = async {
            shared.running.wait().await;
            connections.wait().await;
        };
        if timeout(shared.limits.drain_timeout, drained).await.is_err() {
            shared.abandon.cancel();
            shared.running.wait().await;
            connections.wait().await;
        }
    }
}

impl AsFd for RpcServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Listens as [`TcpListener::bind`] does, with a longer queue.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Waits for the next connection, and for its place.
async fn accept(
    listener: &TcpListener,
    strangers: &Arc<Strangers>,
) -> (TcpStream, SocketAddr, StrangerPlace) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, strangers.admit(peer.ip()).await),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                // Frees a descriptor, if that is what is missing.
                strangers.evict_one();
                sleep(ACCEPT_RETRY_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Shutdown};

    use socket2::SockRef;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failed_accepts_pause_and_take_the_descriptors_of_silent_peers() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        // Every accept fails from now on.
        SockRef::from(&listener).shutdown(Shutdown::Both).unwrap();
        let strangers = Arc::new(Strangers::new(1));
        let silent = strangers.admit(Ipv4Addr::LOCALHOST.into()).await;
        let accepted = timeout(Duration::from_secs(1), accept(&listener, &strangers)).await;
        assert!(accepted.is_err());
        assert!(silent.evicted.is_cancelled());
    }
}
