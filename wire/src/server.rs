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
use self::refusal_log::{OnUnauthorized, RefusalLog};
use self::running::ServiceCall;
use self::strangers::{StrangerPlace, Strangers};
use crate::exception::{HadoopException, RemoteException};
use crate::frame::{DelimitedError, FRAME_LENGTH_MAX, FRAME_LENGTH_MAX_UNAUTHENTICATED};
use crate::protection::Protections;
use crate::proto::hadoop_common::RequestHeaderProto;
pub use crate::sasl::ServerAuth;
use crate::service::{Caller, Service};

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

/// The limits of one server, for all peers together and for each.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Connections of callers at a time; further ones wait for a place while they have the time
    /// to authenticate. A user who has proved a token gets half.
    pub connections_max: usize,
    /// Connections of peers that have not authenticated themselves. A further one evicts one of an
    /// address that holds more than a sixteenth, or one that is silent or takes too long, and waits
    /// until there is such a one.
    pub strangers_max: usize,
    /// Calls in flight on one connection; its further calls are not read.
    pub calls_per_connection_max: usize,
    /// Longest frame of an authenticated peer, in bytes.
    pub frame_length_max: usize,
    /// Total bytes of requests that cost more than [`SMALL_REQUEST_BYTES`]: frames as far as they
    /// have arrived, and what decoding them takes, until their calls end. A user who has proved a
    /// token gets half; one request may cost half.
    pub requests_bytes_max: usize,
    /// Total bytes of answers that their peers have not read, with a reservation for each call
    /// without an answer. A user who has proved a token gets half.
    pub answers_bytes_max: usize,
    /// Bytes reserved for a call's answer until its length is known.
    pub answer_bytes_reserved: usize,
    /// Time for a frame to arrive, beside the time that
    /// [`receive_rate_min`](Self::receive_rate_min) gives it.
    pub receive_grace: Duration,
    /// Lowest rate at which a frame may arrive, in bytes per second.
    pub receive_rate_min: usize,
    /// Time from accept to connection context, so that half-open peers do not occupy connections.
    pub handshake_timeout: Duration,
    /// Time without calls after which a connection is closed.
    pub idle_timeout: Duration,
    /// The same timeout while more than half of [`connections_max`](Self::connections_max) are
    /// open.
    pub idle_timeout_crowded: Duration,
    /// Time that a peer may leave answers unread.
    pub stall_timeout: Duration,
    /// Time for calls in flight to finish once the server shuts down.
    pub drain_timeout: Duration,
}

impl Default for ServerLimits {
    /// Returns limits for a server whose callers prove no identity, such as the nodes of a
    /// cluster; Hadoop's defaults where it has them: `ipc.maximum.data.length`, and twice
    /// `ipc.client.connection.maxidletime` when crowded.
    fn default() -> Self {
        Self {
            connections_max: 4096,
            strangers_max: 2048,
            calls_per_connection_max: 256,
            frame_length_max: FRAME_LENGTH_MAX,
            requests_bytes_max: 4 * FRAME_LENGTH_MAX,
            answers_bytes_max: 2 * FRAME_LENGTH_MAX,
            answer_bytes_reserved: 64 * 1024,
            receive_grace: Duration::from_secs(10),
            receive_rate_min: 64 * 1024,
            handshake_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(600),
            idle_timeout_crowded: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(5),
        }
    }
}

impl ServerLimits {
    /// Returns these limits for a port that may have this many descriptors: half for peers that
    /// have not authenticated themselves, and the rest for callers.
    #[must_use]
    pub fn within_descriptors(self, descriptors: usize) -> Self {
        let strangers = (descriptors / 2).clamp(1, self.strangers_max);
        let callers = descriptors.saturating_sub(strangers);
        Self {
            connections_max: callers.clamp(1, self.connections_max),
            strangers_max: strangers,
            ..self
        }
    }

    /// Returns the bytes that one request may cost: its frame, and what decoding takes.
    #[must_use]
    pub const fn request_cost_max(&self) -> usize {
        self.requests_bytes_max / 2
    }

    /// Returns the time within which this many bytes of a frame have to arrive.
    fn time_for(&self, bytes: usize) -> Duration {
        let seconds = bytes / self.receive_rate_min.max(1);
        self.receive_grace + Duration::from_secs(seconds as u64)
    }
}

/// A server that is not listening yet.
#[derive(Debug)]
pub struct RpcServerBuilder {
    auth: ServerAuth,
    protections: Protections,
    services: HashMap<&'static str, Arc<dyn Service>>,
    limits: ServerLimits,
    refusals: Arc<Refusals>,
    on_unauthorized: OnUnauthorized,
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
        } = self;
        let shared = Arc::new(Shared {
            auth,
            protections,
            services,
            strangers: Arc::new(Strangers::new(limits.strangers_max)),
            refusals,
            refusal_log: RefusalLog::new(on_unauthorized),
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
