//! A client's connection to a Hadoop RPC server.
//!
//! One [`RpcClient`] is one TCP connection: it is authenticated when [`RpcClient::connect_host`]
//! returns, carries any number of calls at once, and fails as a whole. [`dial`](crate::dial)
//! chooses among a host's addresses, [`failover`](crate::failover) retries and chooses among
//! servers.
//!
//! ```text
//! call() ── frame ──▶ Outbound ──▶ socket ──▶ server
//!   ▲                                           │
//!   └─ oneshot ◀── call map ◀── connection task ◀┘
//! ```

mod calls;
mod error;
mod handshake;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::calls::CallMap;
pub use self::error::{BoxedError, LossReason, Operation, RpcError};
use crate::dial::{DialError, Dialer};
use crate::frame::{Decoded, FRAME_LENGTH_MAX, FrameDecoder};
use crate::header::{self, ClientId, MethodName};
use crate::kerberos::{KerberosLibrary, LIBRARY_TIMEOUT, ServerPrincipal};
use crate::outbound::Outbound;
use crate::protection::Protections;
use crate::service::Method;
use crate::token::Token;
use crate::wrapped::{self, Sender, WrappedReader, WrappedWriter};

/// Default limit of calls in flight on one connection. Further calls wait for their turn, within
/// their deadline.
const CALLS_IN_FLIGHT_MAX: usize = 1024;

/// Length of a token, in bytes, above which it is unwrapped off the runtime's workers.
const OFF_WORKER_BYTES: usize = 256 * 1024;

/// A client's identity and its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// A user name without a proof.
    Simple {
        /// Name of the user.
        user: String,
    },
    /// Possession of a token. The server derives the user from the token.
    Token(Token),
    /// A principal's key. The server derives the user from the principal.
    Kerberos(KerberosAuth),
}

/// A login to Kerberos, and the server that it is for.
#[derive(Clone, Debug)]
pub struct KerberosAuth {
    /// The login, with the library that proves it.
    pub library: Arc<dyn KerberosLibrary>,
    /// Principal that the server must be.
    pub server: ServerPrincipal,
    /// User to name to a server that wants no proof; `None`: such a server is refused
    /// (`ipc.client.fallback-to-simple-auth-allowed`).
    pub fall_back_to: Option<String>,
}

impl PartialEq for KerberosAuth {
    /// Two are equal that share a login.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.library, &other.library)
            && self.server == other.server
            && self.fall_back_to == other.fall_back_to
    }
}

impl Eq for KerberosAuth {}

/// Limits of one connection, and the way to open it.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Longest time from the look-up of the host's name to the end of authentication.
    pub connect_timeout: Duration,
    /// Longest time for one call, waiting for its turn included.
    pub call_timeout: Duration,
    /// Silence of the server after which a client with a call outstanding sends a ping.
    pub ping_interval: Duration,
    /// Most calls in flight; further ones wait.
    pub calls_in_flight_max: usize,
    /// Levels of protection that a client with a token accepts; the first one that the server
    /// offers is taken.
    pub protections: Protections,
    /// Opens the TCP connection.
    pub dialer: Dialer,
}

impl Default for ClientOptions {
    /// Hadoop's defaults: `ipc.client.connect.timeout`, `ipc.client.rpc-timeout.ms`,
    /// `ipc.ping.interval`, `hadoop.rpc.protection`.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(20),
            call_timeout: Duration::from_secs(120),
            ping_interval: Duration::from_secs(60),
            calls_in_flight_max: CALLS_IN_FLIGHT_MAX,
            protections: Protections::default(),
            dialer: Dialer::default(),
        }
    }
}

/// Handle on one connection. Clones share the connection, which closes when the last one is
/// dropped.
#[derive(Clone, Debug)]
pub struct RpcClient {
    connection: Arc<Connection>,
    _close_when_dropped: Arc<DropGuard>,
}

#[derive(Debug)]
struct Connection {
    address: SocketAddr,
    outbound: Outbound<()>,
    calls: CallMap,
    turns: Semaphore,
    call_timeout: Duration,
}

/// The random id that identifies this process to all servers.
fn client_id() -> &'static ClientId {
    static CLIENT_ID: OnceLock<ClientId> = OnceLock::new();
    CLIENT_ID.get_or_init(|| {
        let mut id: ClientId = rand::random();
        // Version and variant of a random UUID.
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        id
    })
}

impl RpcClient {
    /// Connects to a known address; otherwise as [`connect_host`](Self::connect_host).
    ///
    /// # Errors
    /// As [`connect_host`](Self::connect_host).
    pub async fn connect(
        address: SocketAddr,
        protocol: &'static str,
        auth: ClientAuth,
        options: &ClientOptions,
    ) -> Result<Self, RpcError> {
        let host = address.ip().to_string();
        Self::connect_host(&host, address.port(), protocol, auth, options).await
    }

    /// Connects to a host and authenticates. `protocol` is what the connection context names; calls
    /// of other protocols may go over the same connection.
    ///
    /// # Errors
    /// [`RpcError::Dial`], [`RpcError::Timeout`], [`RpcError::ConnectionLost`] for the network;
    /// [`RpcError::Remote`] when the server refuses, [`RpcError::Sasl`] when this side does. With
    /// [`ClientAuth::Simple`] a refusal only shows at the first call.
    pub async fn connect_host(
        host: &str,
        port: u16,
        protocol: &'static str,
        auth: ClientAuth,
        options: &ClientOptions,
    ) -> Result<Self, RpcError> {
        let mut deadline = Instant::now() + options.connect_timeout;
        let (address, stream) = options.dialer.connect(host, port, deadline).await?;
        let mut after = options.connect_timeout;
        if let ClientAuth::Kerberos(_) = auth {
            // The library's calls have limits of their own, so that its error says whose silence
            // it was: the look-up with the first step is one call, and later ones only compute.
            after += LIBRARY_TIMEOUT;
            deadline += LIBRARY_TIMEOUT;
        }
        let opening = Self::open(stream, address, protocol, auth, options);
        timeout_at(deadline, opening)
            .await
            .map_err(|_| RpcError::Timeout {
                address,
                operation: Operation::Connect,
                after,
            })?
    }

    async fn open(
        mut stream: TcpStream,
        address: SocketAddr,
        protocol: &'static str,
        auth: ClientAuth,
        options: &ClientOptions,
    ) -> Result<Self, RpcError> {
        stream
            .set_nodelay(true)
            .map_err(|source| DialError::Connect { address, source })?;
        let mut decoder = FrameDecoder::new(crate::frame::FRAME_LENGTH_MAX_UNAUTHENTICATED);
        let protections = &options.protections;
        let opening = handshake::run(&mut stream, &mut decoder, address, auth, protections).await?;
        decoder.set_length_max(FRAME_LENGTH_MAX);

        let (read, write) = stream.into_split();
        let layer = opening.layer;
        let (wrap, unwrap) = layer.map(|layer| (layer.wrap, layer.unwrap)).unzip();
        let writer = wrap.map(|wrap| WrappedWriter::new(wrap, Sender::Client));
        let outbound = Outbound::new(write, opening.unsent, writer);
        outbound
            .push(|out| header::put_context(out, client_id(), opening.user.as_deref(), protocol))
            .map_err(RpcError::RequestTooLong)?;
        let connection = Arc::new(Connection {
            address,
            outbound,
            calls: CallMap::default(),
            turns: Semaphore::new(options.calls_in_flight_max),
            call_timeout: options.call_timeout,
        });
        let closed = CancellationToken::new();
        let task = Task {
            read,
            decoder,
            wrapped: unwrap.map(|unwrap| WrappedReader::new(unwrap, FRAME_LENGTH_MAX)),
            connection: Arc::clone(&connection),
            closed: closed.clone(),
            ping_interval: options.ping_interval,
        };
        // The task first sends the context; a call made at once is sent along with it.
        tokio::spawn(task.run());
        Ok(Self {
            connection,
            _close_when_dropped: Arc::new(closed.drop_guard()),
        })
    }

    /// Makes one call.
    ///
    /// # Errors
    /// [`RpcError::Remote`] is the server's answer. After [`RpcError::Timeout`] and
    /// [`RpcError::ConnectionLost`] it is unknown whether the call was carried out; after the
    /// latter every further call fails too.
    pub async fn call<M: Method>(&self, request: &M::Request) -> Result<M::Response, RpcError> {
        let request = request.encode_to_vec().into();
        let response = self
            .call_raw(M::NAME, M::PROTOCOL, M::VERSION, request)
            .await?;
        M::Response::decode(response).map_err(|source| RpcError::Decode {
            method: M::NAME,
            source: source.into(),
        })
    }

    /// Makes one call with messages that stay encoded, for callers that forward them.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn call_raw(
        &self,
        method: &str,
        protocol: &str,
        version: u64,
        request: Bytes,
    ) -> Result<Bytes, RpcError> {
        let connection = &*self.connection;
        let after = connection.call_timeout;
        let timed_out = |_| RpcError::Timeout {
            address: connection.address,
            operation: Operation::Call,
            after,
        };
        let deadline = Instant::now() + after;
        let _turn = match connection.turns.try_acquire() {
            Ok(turn) => turn,
            Err(_) => timeout_at(deadline, connection.turns.acquire())
                .await
                .map_err(timed_out)?
                .expect("the semaphore is never closed"),
        };
        let waiting = connection
            .calls
            .begin()
            .map_err(|reason| RpcError::lost(connection.address, &reason))?;
        let name = MethodName {
            method,
            protocol,
            version,
        };
        connection
            .outbound
            .push(|out| header::put_call(out, waiting.call_id(), client_id(), name, &request))
            .map_err(RpcError::RequestTooLong)?;
        connection.outbound.flush_now();
        match timeout_at(deadline, waiting.outcome())
            .await
            .map_err(timed_out)?
        {
            Ok(outcome) => outcome.map_err(RpcError::Remote),
            Err(reason) => Err(RpcError::lost(connection.address, &reason)),
        }
    }

    /// The address of the server that this connection is to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.connection.address
    }

    /// Whether the connection is lost, so that every further call would fail.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.connection.calls.is_lost()
    }
}

/// The connection's task: reads answers, sends what the socket did not take at once, and pings.
struct Task {
    read: OwnedReadHalf,
    decoder: FrameDecoder,
    /// The answers inside the messages of a security layer, if one was agreed on.
    wrapped: Option<WrappedReader>,
    connection: Arc<Connection>,
    closed: CancellationToken,
    ping_interval: Duration,
}

impl Task {
    async fn run(mut self) {
        let reason = match self.drive().await {
            Ok(never) => match never {},
            Err(reason) => reason,
        };
        tracing::debug!(address = %self.connection.address, %reason, "RPC connection ended");
        self.connection.calls.fail_all(reason);
        // Closed now and not with the last handle: a server that stops waits until its clients have
        // closed.
        self.connection.outbound.close();
    }

    async fn drive(&mut self) -> Result<std::convert::Infallible, LossReason> {
        let mut last_read = Instant::now();
        let ping = sleep_until(last_read + self.ping_interval);
        tokio::pin!(ping);
        loop {
            while let Decoded::Complete(frame) = self.decoder.frame()? {
                if self.wrapped.is_some() {
                    self.take_wrapped(frame).await?;
                } else {
                    self.complete(frame)?;
                }
            }
            tokio::select! {
                read = self.read.read_buf(self.decoder.read_buffer()) => {
                    if read? == 0 {
                        return Err(LossReason::ClosedByServer);
                    }
                    last_read = Instant::now();
                }
                error = self.connection.outbound.flush_leftovers() => return Err(error.into()),
                () = self.closed.cancelled() => return Err(LossReason::ClosedByCaller),
                () = &mut ping => {
                    if last_read.elapsed() >= self.ping_interval && self.connection.calls.outstanding() > 0 {
                        self.ping()?;
                        last_read = Instant::now();
                    }
                    let due = last_read + self.ping_interval;
                    let now = Instant::now();
                    ping.as_mut().reset(if due > now { due } else { now + self.ping_interval });
                }
            }
        }
    }

    /// Completes the call that a frame answers.
    fn complete(&self, frame: Bytes) -> Result<(), LossReason> {
        let answer = header::decode_answer(frame)?;
        if !answer.client_id.is_empty() && answer.client_id != client_id()[..] {
            return Err(LossReason::ForeignClientId);
        }
        self.connection
            .calls
            .complete(answer.call_id, answer.outcome)
    }

    /// Unwraps a frame and completes the calls that the frames in it answer.
    async fn take_wrapped(&mut self, frame: Bytes) -> Result<(), LossReason> {
        let token = wrapped::token_of_answer(frame)?;
        let Some(mut reader) = self.wrapped.take() else {
            return Ok(());
        };
        let opened;
        (reader, opened) = if token.len() > OFF_WORKER_BYTES {
            let opening = spawn_blocking(move || {
                let opened = reader.open(token);
                (reader, opened)
            });
            opening.await.expect("it neither panics nor is cancelled")
        } else {
            let opened = reader.open(token);
            (reader, opened)
        };
        opened?;
        loop {
            match reader.frame()? {
                Decoded::Complete(frame) => self.complete(frame)?,
                Decoded::Incomplete if reader.unfed_bytes() == 0 => break,
                Decoded::Incomplete => reader.feed(),
            }
        }
        self.wrapped = Some(reader);
        Ok(())
    }

    /// Appends a ping, which is sent with the leftovers.
    fn ping(&self) -> Result<(), LossReason> {
        let outbound = &self.connection.outbound;
        if outbound.stalled_for() > self.connection.call_timeout {
            return Err(LossReason::Stalled);
        }
        outbound
            .push(|out| {
                header::put_ping(out, client_id());
                Ok::<(), std::convert::Infallible>(())
            })
            .unwrap_or_else(|never| match never {});
        Ok(())
    }
}
