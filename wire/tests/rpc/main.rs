//! Client and server against each other, and each against a misbehaving peer, over loopback.

#![expect(
    clippy::unwrap_used,
    reason = "in a test a failure is to be seen where it happens"
)]

mod authorization;
mod calls;
mod client_alone;
mod hostile;
mod kerberos;
mod lifecycle;
mod memory;
mod refused;
mod wrapped;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use refusals::Refusals;
use test_support::tokens::master_key;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wire::exception::{HadoopException, RemoteException, RpcErrorCode};
use wire::frame::{Decoded, FRAME_LENGTH_MAX, FrameDecoder};
use wire::header::{self, Answer, ClientId, MethodName, Outcome};
use wire::layer::Layer;
use wire::proto::hadoop_common::RpcSaslProto;
use wire::raw_message::RawMessageError;
use wire::rpc::{
    Authorize, BoxFuture, Caller, ClientAuth, ClientOptions, Protections, RpcClient, RpcServer,
    SecretManager, ServerAuth, ServerLimits, Service, Verified,
};
use wire::token::{Token, kind};

const PROTOCOL: &str = "org.example.EchoProtocolPB";
const CLIENT_ID: ClientId = *b"0123456789abcdef";
const ATTEMPT: &str = "appattempt_1700000000000_0007_000001";

/// Returns an address of this machine with any free port.
fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// A protocol with methods that do what their names say.
#[derive(Default)]
struct Echo {
    /// Releases calls of `wait`.
    gate: Notify,
    /// Number of calls of `big` so far.
    big: AtomicUsize,
    /// Number of calls of `wait` so far.
    waiting: AtomicUsize,
    /// Number of calls of `wait` that have ended.
    waited: AtomicUsize,
    /// Thread that computed the cost of the last call of `thread`.
    measured_on: Mutex<String>,
}

/// Returns the id of this thread as text without spaces.
fn this_thread() -> String {
    format!("{:?}", std::thread::current().id())
}

#[derive(Clone, Default)]
struct EchoService(Arc<Echo>);

impl Service for EchoService {
    fn protocol(&self) -> &'static str {
        PROTOCOL
    }

    fn version(&self) -> u64 {
        1
    }

    fn request_cost(&self, method: &str, request: &[u8]) -> Result<usize, RawMessageError> {
        if method.starts_with("thread") {
            *self.0.measured_on.lock().unwrap() = this_thread();
        }
        Ok(if method.starts_with("costly") {
            100 * request.len()
        } else {
            0
        })
    }

    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        method: &'a str,
        request: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, RemoteException>> {
        Box::pin(async move {
            match method {
                "echo" | "costly" => Ok(request),
                "yield" => {
                    tokio::task::yield_now().await;
                    Ok(request)
                }
                "whoami" => Ok(format!("{} {:?}", caller.user, caller.token_kind).into()),
                "identifier" => Ok(caller.token_identifier.clone().unwrap_or_default()),
                "fail" => Err(RemoteException::new(
                    HadoopException::NmNotYetReady,
                    "not yet",
                )),
                "fail fatally" => Err(RemoteException::with_code(
                    HadoopException::AccessControl,
                    "not you",
                    RpcErrorCode::FatalUnauthorized,
                )),
                "thread" | "thread later" => {
                    if method == "thread later" {
                        tokio::task::yield_now().await;
                    }
                    let measured_on = self.0.measured_on.lock().unwrap();
                    Ok(format!("{measured_on} {}", this_thread()).into())
                }
                "big" | "big later" => {
                    if method == "big later" {
                        tokio::task::yield_now().await;
                    }
                    self.0.big.fetch_add(1, Ordering::Relaxed);
                    Ok(vec![7; 1 << 20].into())
                }
                "wait" | "costly wait" => {
                    self.0.waiting.fetch_add(1, Ordering::Relaxed);
                    self.0.gate.notified().await;
                    self.0.waited.fetch_add(1, Ordering::Relaxed);
                    Ok(request)
                }
                "hang" => std::future::pending().await,
                "panic" => panic!("a fault in a service, on purpose"),
                other => Err(RemoteException::new(HadoopException::NoSuchMethod, other)),
            }
        })
    }
}

/// A running server; stopped on drop.
struct Running {
    address: SocketAddr,
    echo: Arc<Echo>,
    refusals: Arc<Refusals>,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn start(auth: ServerAuth) -> Running {
    start_with(auth, ServerLimits::default()).await
}

async fn start_with(auth: ServerAuth, limits: ServerLimits) -> Running {
    start_protected(auth, limits, Protections::default()).await
}

async fn start_protected(
    auth: ServerAuth,
    limits: ServerLimits,
    protections: Protections,
) -> Running {
    start_authorizing(auth, limits, protections, None).await
}

async fn start_authorizing(
    auth: ServerAuth,
    limits: ServerLimits,
    protections: Protections,
    authorization: Option<Arc<dyn Authorize>>,
) -> Running {
    let service = EchoService::default();
    let echo = Arc::clone(&service.0);
    let refusals = Arc::new(Refusals::default());
    let (server, address) = RpcServer::builder(auth)
        .service(service)
        .limits(limits)
        .protections(protections)
        .authorization(authorization)
        .refusals(Arc::clone(&refusals))
        .bind(loopback())
        .await
        .unwrap();
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(server.serve(shutdown.clone()));
    Running {
        address,
        echo,
        refusals,
        shutdown,
        serving,
    }
}

/// A secret manager that accepts every token, unless its identifier says otherwise. The identifier
/// names the user.
struct Keys;

impl SecretManager for Keys {
    fn kind(&self) -> &'static str {
        kind::NM_TOKEN
    }

    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException> {
        if identifier == b"of another node" {
            return Err(RemoteException::new(
                HadoopException::InvalidToken,
                "of another node",
            ));
        }
        let user = match identifier {
            b"identifier" => ATTEMPT.to_owned(),
            other => String::from_utf8_lossy(other).into_owned(),
        };
        Ok(Verified {
            password: master_key().sign(identifier).to_vec(),
            user,
            owner: None,
        })
    }
}

fn token_only() -> ServerAuth {
    ServerAuth::Token(Arc::new(Keys))
}

fn token_or_simple() -> ServerAuth {
    ServerAuth::TokenOrSimple(Arc::new(Keys))
}

fn token() -> Token {
    token_of(b"identifier")
}

/// Makes a token of the user with this name, or of [`ATTEMPT`] for `identifier`.
fn token_of(user: &'static [u8]) -> Token {
    Token::sign(
        &master_key(),
        Bytes::from_static(user),
        kind::NM_TOKEN,
        "127.0.0.1:8041",
    )
}

fn simple() -> ClientAuth {
    ClientAuth::Simple {
        user: "bob".to_owned(),
    }
}

async fn connect(server: &Running, auth: ClientAuth) -> Result<RpcClient, wire::rpc::RpcError> {
    RpcClient::connect(server.address, PROTOCOL, auth, &ClientOptions::default()).await
}

async fn call(
    client: &RpcClient,
    method: &str,
    request: &'static [u8],
) -> Result<Bytes, wire::rpc::RpcError> {
    client
        .call_raw(method, PROTOCOL, 1, Bytes::from_static(request))
        .await
}

/// Time after which a silent server fails a test instead of letting it hang. Longer than every
/// timeout of a server, and over at once where time is paused.
const SILENCE_MAX: Duration = Duration::from_secs(3_600);

/// A scripted peer that sends and reads raw bytes.
struct Raw {
    stream: TcpStream,
    decoder: FrameDecoder,
}

impl Raw {
    async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    fn over(stream: TcpStream) -> Self {
        // Bytes reach the other end at once: paused time does not wait for the kernel's.
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            decoder: FrameDecoder::new(FRAME_LENGTH_MAX),
        }
    }

    /// Connects as user `bob`, ready to call.
    async fn ready(address: SocketAddr) -> Self {
        let mut raw = Self::connect(address).await;
        raw.send(&[&b"hrpc\x09\x00\x00"[..], &context()].concat())
            .await;
        raw
    }

    /// Connects as [`ready`](Self::ready) does, with a buffer of the kernel's for answers that does
    /// not grow.
    async fn ready_to_leave_unread(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(128 * 1024).unwrap();
        let mut raw = Self::over(socket.connect(address).await.unwrap());
        raw.send(&[&b"hrpc\x09\x00\x00"[..], &context()].concat())
            .await;
        raw
    }

    /// Connects with a token of this user, ready to call.
    async fn proven(address: SocketAddr, user: &'static [u8]) -> Self {
        let mut raw = Self::connect(address).await;
        raw.authenticate(token_of(user)).await;
        let mut context = BytesMut::new();
        header::put_context(&mut context, &CLIENT_ID, None, PROTOCOL).unwrap();
        raw.send(&context).await;
        raw
    }

    /// Proves the token by hand, up to the context.
    async fn authenticate(&mut self, token: Token) {
        let layer = self.authenticate_with(token, Protections::default());
        assert!(layer.await.is_none());
    }

    /// Proves the token by hand; returns the layer that was agreed on.
    async fn authenticate_with(&mut self, token: Token, levels: Protections) -> Option<Layer> {
        use prost::Message as _;
        let mut client = wire::sasl::SaslClient::new(token, levels, "cnonce".to_owned());
        let mut next = BytesMut::from(&b"hrpc\x09\x00\xdf"[..]);
        header::put_sasl_request(&mut next, &client.start()).unwrap();
        loop {
            self.send(&next).await;
            let Outcome::Success(message) = self.answer().await.outcome else {
                panic!("refused");
            };
            match client
                .handle(&RpcSaslProto::decode(message).unwrap())
                .unwrap()
            {
                wire::sasl::ClientStep::Send(message) => {
                    next.clear();
                    header::put_sasl_request(&mut next, &message).unwrap();
                }
                wire::sasl::ClientStep::Done => return client.take_layer(),
            }
        }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Reads the next frame; `None` if the peer has closed.
    async fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Decoded::Complete(frame) = self.decoder.frame().unwrap() {
                return Some(frame);
            }
            let read = self.stream.read_buf(self.decoder.read_buffer());
            let read = timeout(SILENCE_MAX, read).await.expect("a frame or an end");
            if read.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    async fn answer(&mut self) -> Answer {
        header::decode_answer(self.frame().await.expect("an answer")).unwrap()
    }

    /// Reads the fatal answer after which the peer closes.
    async fn fatal(&mut self) -> (i32, RemoteException) {
        let answer = self.answer().await;
        let Outcome::Fatal(exception) = answer.outcome else {
            panic!("not fatal: {answer:?}");
        };
        assert_eq!(self.frame().await, None, "closed after a fatal answer");
        (answer.call_id, exception)
    }

    /// Reads everything until the peer closes.
    async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let read = self.stream.read_to_end(&mut rest);
        let _ = timeout(SILENCE_MAX, read).await.expect("an end");
        rest
    }
}

fn context() -> BytesMut {
    let mut out = BytesMut::new();
    header::put_context(&mut out, &CLIENT_ID, Some("bob"), PROTOCOL).unwrap();
    out
}

fn call_frame(call_id: i32, method: &str, request: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    let name = MethodName {
        method,
        protocol: PROTOCOL,
        version: 1,
    };
    header::put_call(&mut out, call_id, &CLIENT_ID, name, request).unwrap();
    out
}

/// Number of answers of 1 MiB that [`calls_with_long_answers`] asks for: more than the kernel
/// buffers for a peer that is [`ready_to_leave_unread`](Raw::ready_to_leave_unread).
const LONG_ANSWERS: usize = 12;

/// Returns calls that are read together and all started before the first is answered.
fn calls_with_long_answers() -> Vec<u8> {
    let calls: Vec<BytesMut> = (0..)
        .take(LONG_ANSWERS)
        .map(|call_id| call_frame(call_id, "big later", b""))
        .collect();
    calls.concat()
}

/// Waits until the service has made this many long answers.
async fn until_answered(server: &Running, answers: usize) {
    while server.echo.big.load(Ordering::Relaxed) < answers {
        tokio::task::yield_now().await;
    }
}
