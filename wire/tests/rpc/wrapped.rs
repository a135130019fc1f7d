//! Connections with a security layer: calls through it, peers that break it, and somebody on the
//! way who changes what is sent.

use tokio::net::TcpListener;
use wire::client::LossReason;
use wire::digest_md5::DigestError;
use wire::layer::LayerError;
use wire::proto::hadoop_common::rpc_sasl_proto::SaslState;
use wire::rpc::{Protection, Protections, RpcError};
use wire::sasl::SaslError;
use wire::wrapped::{Sender, WrappedReader, WrappedWriter, put_token, token_of_answer};

use super::*;

const LEVELS: [Protection; 2] = [Protection::Integrity, Protection::Privacy];

async fn start_wrapped(levels: Protections, limits: ServerLimits) -> Running {
    start_protected(token_only(), limits, levels).await
}

async fn connect_with(address: SocketAddr, levels: Protections) -> Result<RpcClient, RpcError> {
    let options = ClientOptions {
        protections: levels,
        ..ClientOptions::default()
    };
    RpcClient::connect(address, PROTOCOL, ClientAuth::Token(token()), &options).await
}

/// A scripted client that has proved its token and agreed on a layer.
struct Peer {
    raw: Raw,
    writer: WrappedWriter,
    reader: WrappedReader,
}

impl Peer {
    async fn connect(server: &Running, level: Protection) -> Self {
        let mut raw = Raw::connect(server.address).await;
        let layer = raw.authenticate_with(token(), level.into()).await;
        let layer = layer.expect("a layer");
        Self {
            raw,
            writer: WrappedWriter::new(layer.wrap, Sender::Client),
            reader: WrappedReader::new(layer.unwrap, FRAME_LENGTH_MAX),
        }
    }

    /// Wraps frames into one token; returns the frame that carries it.
    fn wrap(&mut self, frames: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        let put = self
            .writer
            .put(&mut out, |out| out.extend_from_slice(frames));
        put.unwrap();
        out
    }

    async fn send(&mut self, frames: &[u8]) {
        let wrapped = self.wrap(frames);
        self.raw.send(&wrapped).await;
    }

    /// Reads the next answer out of its token; `None` if the server has closed.
    async fn answer(&mut self) -> Option<Answer> {
        loop {
            match self.reader.frame().unwrap() {
                Decoded::Complete(frame) => return Some(header::decode_answer(frame).unwrap()),
                Decoded::Incomplete if self.reader.unfed_bytes() > 0 => self.reader.feed(),
                Decoded::Incomplete => {
                    let token = token_of_answer(self.raw.frame().await?).unwrap();
                    self.reader.open(token).unwrap();
                }
            }
        }
    }

    /// Reads the fatal answer after which the server closes.
    async fn fatal(&mut self) -> (i32, RemoteException) {
        let answer = self.answer().await.expect("an answer");
        let Outcome::Fatal(exception) = answer.outcome else {
            panic!("not fatal: {answer:?}");
        };
        assert_eq!(self.raw.frame().await, None, "closed after a fatal answer");
        (answer.call_id, exception)
    }
}

fn own_context() -> BytesMut {
    let mut out = BytesMut::new();
    header::put_context(&mut out, &CLIENT_ID, None, PROTOCOL).unwrap();
    out
}

#[tokio::test]
async fn calls_of_any_length_pass_under_every_level() {
    for level in LEVELS {
        let server = start_wrapped(level.into(), ServerLimits::default()).await;
        let client = connect_with(server.address, level.into()).await.unwrap();
        let known = call(&client, "whoami", b"").await.unwrap();
        assert_eq!(known, format!("{ATTEMPT} Some(\"NMToken\")"));
        for length in [0, 1, 6, 7, 20_000, 600_000] {
            let request = Bytes::from(vec![3; length]);
            let answer = client.call_raw("yield", PROTOCOL, 1, request.clone());
            assert_eq!(answer.await.unwrap(), request);
        }
        let calls = (0..100).map(|_| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, "yield", &[4; 900]).await.unwrap() })
        });
        for answer in calls.collect::<Vec<_>>() {
            assert_eq!(answer.await.unwrap(), [4; 900][..]);
        }
    }
}

#[tokio::test]
async fn the_clients_first_level_that_the_server_offers_is_taken() {
    use Protection::{Authentication, Integrity, Privacy};
    let list = |levels: &[Protection]| levels.iter().copied().collect::<Protections>();
    let server = start_wrapped(list(&[Authentication, Privacy]), ServerLimits::default()).await;
    for levels in [
        list(&[Privacy, Authentication]),
        list(&[Integrity, Authentication]),
        list(&[Integrity, Privacy]),
    ] {
        let client = connect_with(server.address, levels).await.unwrap();
        assert_eq!(call(&client, "echo", b"fine").await.unwrap(), "fine");
    }
    let none = connect_with(server.address, Integrity.into()).await;
    let source = SaslError::Digest(DigestError::NoCommonProtection);
    let Err(RpcError::Sasl { source: found, .. }) = none else {
        panic!("connected");
    };
    assert_eq!(found, source);
}

#[tokio::test]
async fn java_sends_the_context_with_the_first_call_in_one_token() {
    for level in LEVELS {
        let server = start_wrapped(level.into(), ServerLimits::default()).await;
        let mut peer = Peer::connect(&server, level).await;
        let long = [1; 60_000];
        let first = [own_context(), call_frame(7, "echo", &long)].concat();
        peer.send(&first).await;
        assert_eq!(peer.answer().await.unwrap().call_id, 7);
        // A call in three tokens, with a ping in front.
        let mut ping = BytesMut::new();
        header::put_ping(&mut ping, &CLIENT_ID);
        let rest = [ping, call_frame(8, "echo", &long)].concat();
        for part in rest.chunks(25_000) {
            peer.send(part).await;
        }
        assert_eq!(peer.answer().await.unwrap().call_id, 8);
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_in_clear_is_refused_once_a_layer_was_agreed_on() {
    for clear in [own_context(), call_frame(1, "echo", b"")] {
        let server = start_wrapped(Protection::Privacy.into(), ServerLimits::default()).await;
        let mut peer = Peer::connect(&server, Protection::Privacy).await;
        peer.raw.send(&clear).await;
        let (_, exception) = peer.fatal().await;
        assert!(exception.is(HadoopException::RpcServer));
        assert_eq!(exception.code, RpcErrorCode::FatalInvalidRpcHeader);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrapped_frame_without_a_layer_is_refused_as_java_does() {
    let server = start(token_only()).await;
    let mut raw = Raw::proven(server.address, b"identifier").await;
    let mut wrapped = BytesMut::new();
    put_token(&mut wrapped, Sender::Client, b"some token").unwrap();
    raw.send(&wrapped).await;
    let (call_id, exception) = raw.fatal().await;
    assert_eq!(call_id, -33);
    assert!(exception.is(HadoopException::Sasl));
    assert_eq!(exception.message, "Server is not wrapping data");
    assert_eq!(exception.code, RpcErrorCode::FatalInvalidRpcHeader);
}

#[tokio::test(start_paused = true)]
async fn a_negotiation_after_a_layer_was_agreed_on_is_refused() {
    let server = start_wrapped(Protection::Integrity.into(), ServerLimits::default()).await;
    let mut peer = Peer::connect(&server, Protection::Integrity).await;
    let mut negotiate = BytesMut::new();
    let message = RpcSaslProto {
        state: SaslState::Negotiate.into(),
        ..RpcSaslProto::default()
    };
    header::put_sasl_request(&mut negotiate, &message).unwrap();
    peer.raw.send(&negotiate).await;
    let (call_id, exception) = peer.fatal().await;
    assert_eq!(call_id, -33);
    assert_eq!(exception.code, RpcErrorCode::FatalInvalidRpcHeader);
}

#[tokio::test(start_paused = true)]
async fn the_context_comes_first_and_names_nobody_else() {
    let server = start_wrapped(Protection::Privacy.into(), ServerLimits::default()).await;
    let mut early = Peer::connect(&server, Protection::Privacy).await;
    early.send(&call_frame(4, "echo", b"")).await;
    let (call_id, exception) = early.fatal().await;
    assert_eq!(call_id, 4);
    assert_eq!(exception.code, RpcErrorCode::FatalInvalidRpcHeader);
    let mut another = Peer::connect(&server, Protection::Privacy).await;
    another.send(&context()).await;
    let (call_id, exception) = another.fatal().await;
    assert_eq!(call_id, -3);
    assert!(exception.is(HadoopException::AccessControl));
    let mut twice = Peer::connect(&server, Protection::Privacy).await;
    twice.send(&[own_context(), own_context()].concat()).await;
    assert_eq!(twice.fatal().await.0, -3);
}

/// Java closes without an answer, too.
#[tokio::test(start_paused = true)]
async fn changed_repeated_moved_and_cut_messages_end_their_connection_alone() {
    for level in LEVELS {
        let server = start_wrapped(level.into(), ServerLimits::default()).await;
        let neighbour = connect_with(server.address, level.into()).await.unwrap();
        type Attack = fn(&mut Peer) -> Vec<u8>;
        let attacks: [Attack; 6] = [
            |peer| {
                let mut changed = peer.wrap(&call_frame(1, "echo", b"message"));
                let at = changed.len() - 20;
                changed[at] ^= 1;
                changed.to_vec()
            },
            |peer| {
                let call = peer.wrap(&call_frame(1, "wait", b""));
                [&call[..], &call[..]].concat()
            },
            |peer| {
                let first = peer.wrap(&call_frame(1, "wait", b""));
                let second = peer.wrap(&call_frame(2, "wait", b""));
                [second, first].concat()
            },
            |peer| {
                let _dropped = peer.wrap(&call_frame(1, "wait", b""));
                peer.wrap(&call_frame(2, "wait", b"")).to_vec()
            },
            |_| {
                let mut empty = BytesMut::new();
                put_token(&mut empty, Sender::Client, b"").unwrap();
                empty.to_vec()
            },
            |_| {
                let mut foreign = BytesMut::new();
                put_token(&mut foreign, Sender::Client, &[0x5a; 400]).unwrap();
                foreign.to_vec()
            },
        ];
        for (index, attack) in attacks.into_iter().enumerate() {
            let mut peer = Peer::connect(&server, level).await;
            peer.send(&own_context()).await;
            let bytes = attack(&mut peer);
            peer.raw.send(&bytes).await;
            assert!(peer.answer().await.is_none(), "attack {index}");
            let refused = server.refusals.of(refusals::Reason::Malformed);
            assert_eq!(refused, index as u64 + 1);
        }
        assert_eq!(call(&neighbour, "echo", b"fine").await.unwrap(), "fine");
    }
}

#[tokio::test(start_paused = true)]
async fn frames_that_are_too_long_inside_or_outside_end_the_connection() {
    let limits = ServerLimits {
        frame_length_max: 100_000,
        ..ServerLimits::default()
    };
    let server = start_wrapped(Protection::Privacy.into(), limits).await;
    let declared = 100_001_u32.to_be_bytes();
    let mut outside = Peer::connect(&server, Protection::Privacy).await;
    outside.raw.send(&declared).await;
    assert!(outside.answer().await.is_none());
    let mut inside = Peer::connect(&server, Protection::Privacy).await;
    inside.send(&declared).await;
    assert!(inside.answer().await.is_none());
    assert_eq!(server.refusals.of(refusals::Reason::TooLarge), 2);
}

/// Limits with which a user has 1 MiB for requests.
fn small_memory() -> ServerLimits {
    ServerLimits {
        frame_length_max: 1 << 20,
        requests_bytes_max: 2 << 20,
        ..ServerLimits::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_message_counts_before_and_after_it_is_unwrapped() {
    let server = start_wrapped(Protection::Integrity.into(), small_memory()).await;
    // In clear such a request has place enough.
    let mut long = Peer::connect(&server, Protection::Integrity).await;
    long.send(&own_context()).await;
    let request = long.wrap(&call_frame(1, "echo", &[1; 600_000]));
    // The server does not read all of it.
    let _ = long.raw.stream.write_all(&request).await;
    assert!(long.answer().await.is_none());
    assert_eq!(server.refusals.of(refusals::Reason::NoMemory), 1);
}

#[tokio::test]
async fn memory_of_wrapped_messages_is_given_back() {
    for level in LEVELS {
        let server = start_wrapped(level.into(), small_memory()).await;
        let client = connect_with(server.address, level.into()).await.unwrap();
        for _ in 0..3 {
            let request = Bytes::from(vec![1; 500_000]);
            let answer = client.call_raw("echo", PROTOCOL, 1, request);
            assert_eq!(answer.await.unwrap().len(), 500_000);
        }
        // Several calls in one token, each with memory of its own.
        let mut peer = Peer::connect(&server, level).await;
        let calls = (0..20).map(|call_id| call_frame(call_id, "yield", &[1; 20_000]));
        let calls: Vec<_> = calls.collect();
        peer.send(&[own_context().to_vec(), calls.concat()].concat())
            .await;
        let mut answered = Vec::new();
        for _ in 0..20 {
            answered.push(peer.answer().await.unwrap().call_id);
        }
        answered.sort_unstable();
        assert_eq!(answered, (0..20).collect::<Vec<_>>());
        let request = Bytes::from(vec![1; 500_000]);
        let answer = client.call_raw("echo", PROTOCOL, 1, request);
        assert_eq!(answer.await.unwrap().len(), 500_000);
    }
}

/// Number of frames that a server sends before the first wrapped one.
const HANDSHAKE_FRAMES: usize = 2;

/// Passes connections on to a server, and on the way back replaces each frame behind the handshake
/// by what `change` makes of it.
async fn relay(to: SocketAddr, change: fn(Bytes) -> Vec<Bytes>) -> SocketAddr {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let mut server = Raw::connect(to).await;
        let (mut from_client, mut to_client) = client.into_split();
        let (from_server, mut to_server) = server.stream.into_split();
        tokio::spawn(async move {
            let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        });
        let mut from_server = from_server;
        let mut passed = 0;
        loop {
            while let Decoded::Complete(frame) = server.decoder.frame().unwrap() {
                let frames = if passed < HANDSHAKE_FRAMES {
                    vec![frame]
                } else {
                    change(frame)
                };
                passed += 1;
                for frame in frames {
                    let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
                    let bytes = [&length[..], &frame].concat();
                    if to_client.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
            }
            let buffer = server.decoder.read_buffer();
            if from_server.read_buf(buffer).await.unwrap_or(0) == 0 {
                return;
            }
        }
    });
    address
}

async fn reason_of_loss(level: Protection, change: fn(Bytes) -> Vec<Bytes>) -> Arc<LossReason> {
    let server = start_wrapped(level.into(), ServerLimits::default()).await;
    let address = relay(server.address, change).await;
    let client = connect_with(address, level.into()).await.unwrap();
    let _first = call(&client, "echo", b"first").await;
    match call(&client, "echo", b"second").await {
        Err(RpcError::ConnectionLost { reason, .. }) => reason,
        other => panic!("not lost: {other:?}"),
    }
}

#[tokio::test]
async fn a_client_takes_no_answer_that_was_changed_repeated_or_put_in_clear() {
    for level in LEVELS {
        let changed = reason_of_loss(level, |frame| {
            let mut bytes = frame.to_vec();
            let at = bytes.len() - 17;
            bytes[at] ^= 0x80;
            vec![bytes.into()]
        });
        let changed = changed.await;
        assert!(matches!(*changed, LossReason::Layer(LayerError::Signature)));
        let repeated = reason_of_loss(level, |frame| vec![frame.clone(), frame]).await;
        let LossReason::Layer(LayerError::Sequence { found, expected }) = *repeated else {
            panic!("another reason: {repeated}");
        };
        assert_eq!((found, expected), (0, 1));
        let forged = reason_of_loss(level, |_| {
            let mut out = BytesMut::new();
            let call = header::CallRef::out_of_band(0);
            header::put_success(&mut out, &call, b"forged").unwrap();
            vec![out.split_off(4).freeze()]
        });
        assert!(matches!(*forged.await, LossReason::NotWrapped(_)));
        let ended = reason_of_loss(level, |_| {
            let mut out = BytesMut::new();
            let call = header::CallRef::out_of_band(-1);
            let error = RemoteException::with_code(
                HadoopException::AccessControl,
                "forged",
                RpcErrorCode::FatalUnauthorized,
            );
            header::put_failure(&mut out, &call, &error).unwrap();
            vec![out.split_off(4).freeze()]
        });
        assert!(matches!(*ended.await, LossReason::NotWrapped(_)));
    }
}
