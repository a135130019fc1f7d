//! A client that proves itself by Kerberos against scripted servers, with a library that needs no
//! KDC. The bytes of the servers are those of a ResourceManager `rm/localhost@LAB.TEST`, but for
//! the mechanism's own tokens.

use std::net::IpAddr;

use prost::Message as _;
use tokio::net::TcpListener;
use wire::gssapi::{GssContext, GssError, Unwrapped};
use wire::header::{CALL_ID_SASL, CallRef};
use wire::kerberos::{KerberosLibrary, ServerPrincipal, Target};
use wire::proto::hadoop_common::rpc_sasl_proto::{SaslAuth, SaslState};
use wire::rpc::{KerberosAuth, LossReason, Protection, RpcError};

use super::*;

/// A library whose contexts are complete after one token of the server, and whose messages have a
/// mark in front.
#[derive(Debug, Default)]
struct Library {
    /// Servers that were to be proven, in order.
    targets: Mutex<Vec<Target>>,
    refusals: AtomicUsize,
    has_no_ticket: bool,
    is_full: bool,
}

const SIGNED: u8 = b'i';
const SEALED: u8 = b'c';

impl KerberosLibrary for Library {
    fn submit(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), GssError> {
        if self.is_full {
            return Err(GssError("64 calls wait already".to_owned()));
        }
        work();
        Ok(())
    }

    fn canonical_host(&self, address: IpAddr) -> String {
        assert!(address.is_loopback());
        "localhost".to_owned()
    }

    fn begin(&self, target: &Target) -> Result<Box<dyn GssContext>, GssError> {
        self.targets.lock().unwrap().push(target.clone());
        if self.has_no_ticket {
            return Err(GssError("no Kerberos login of nm/localhost".to_owned()));
        }
        Ok(Box::new(Context { steps: 0 }))
    }

    fn refused(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }
}

struct Context {
    steps: usize,
}

impl GssContext for Context {
    fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, GssError> {
        self.steps += 1;
        match (self.steps, token) {
            (1, b"") => Ok(b"AP-REQ".to_vec()),
            (2, b"AP-REP") => Ok(Vec::new()),
            _ => Err(GssError("Invalid token was supplied".to_owned())),
        }
    }

    fn is_complete(&self) -> bool {
        self.steps == 2
    }

    fn wrap(&mut self, message: &[u8], seal: bool) -> Result<Vec<u8>, GssError> {
        Ok([&[if seal { SEALED } else { SIGNED }], message].concat())
    }

    fn unwrap(&mut self, token: &[u8]) -> Result<Unwrapped, GssError> {
        let (mark, message) = token.split_first().ok_or(GssError("empty".to_owned()))?;
        Ok(Unwrapped {
            message: message.to_vec(),
            is_sealed: *mark == SEALED,
        })
    }
}

/// Message of a server.
type Reply = Result<RpcSaslProto, RemoteException>;

fn with(state: SaslState, token: Option<&'static [u8]>) -> Reply {
    Ok(RpcSaslProto {
        state: state.into(),
        token: token.map(Bytes::from_static),
        ..RpcSaslProto::default()
    })
}

fn auth(method: &str, mechanism: &str, host: &str) -> SaslAuth {
    SaslAuth {
        method: method.to_owned(),
        mechanism: mechanism.to_owned(),
        protocol: Some("rm".to_owned()),
        server_id: Some(host.to_owned()),
        challenge: None,
    }
}

fn offer(auth: SaslAuth) -> Reply {
    Ok(RpcSaslProto {
        state: SaslState::Negotiate.into(),
        auths: vec![auth],
        ..RpcSaslProto::default()
    })
}

fn kerberos() -> Reply {
    offer(auth("KERBEROS", "GSSAPI", "localhost"))
}

/// Answer of the server's library.
fn proof() -> Reply {
    with(SaslState::Challenge, Some(b"AP-REP"))
}

/// The layers of `hadoop.rpc.protection` = `authentication`.
fn layers() -> Reply {
    with(SaslState::Challenge, Some(b"i\x01\x01\x00\x00"))
}

fn success() -> Reply {
    with(SaslState::Success, None)
}

/// A connection to a scripted server.
struct Outcome {
    connected: Result<RpcClient, RpcError>,
    /// Messages of the client.
    sent: Vec<RpcSaslProto>,
    /// The server's end, if the script came to its end.
    raw: Raw,
}

/// Connects to a server that answers with these messages in turn.
async fn connect_to(
    library: &Arc<Library>,
    levels: Protections,
    fall_back_to: Option<&str>,
    replies: Vec<Reply>,
) -> Outcome {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut raw = Raw::over(listener.accept().await.unwrap().0);
        let mut preamble = [0; 7];
        raw.stream.read_exact(&mut preamble).await.unwrap();
        assert_eq!(preamble, *b"hrpc\x09\x00\xdf");
        let mut sent = Vec::new();
        for reply in replies {
            let Some(mut frame) = raw.frame().await else {
                break;
            };
            let header = header::take_request_header(&mut frame).unwrap();
            assert_eq!(header.call_id, CALL_ID_SASL);
            sent.push(RpcSaslProto::decode_length_delimited(frame).unwrap());
            let mut out = BytesMut::new();
            match reply {
                Ok(message) => header::put_sasl_response(&mut out, &message).unwrap(),
                Err(refusal) => {
                    let call = CallRef::out_of_band(CALL_ID_SASL);
                    header::put_failure(&mut out, &call, &refusal).unwrap();
                }
            }
            raw.send(&out).await;
        }
        (sent, raw)
    });
    let auth = ClientAuth::Kerberos(KerberosAuth {
        library: Arc::clone(library) as _,
        server: ServerPrincipal::Exact("rm/_HOST@LAB.TEST".to_owned()),
        fall_back_to: fall_back_to.map(str::to_owned),
    });
    let options = ClientOptions {
        protections: levels,
        ..ClientOptions::default()
    };
    let connected = RpcClient::connect(address, PROTOCOL, auth, &options).await;
    if connected.is_ok() {
        let (sent, raw) = server.await.unwrap();
        return Outcome {
            connected,
            sent,
            raw,
        };
    }
    let (sent, mut raw) = server.await.unwrap();
    // Nothing more comes: no context, and no call in clear.
    assert_eq!(raw.frame().await, None);
    Outcome {
        connected,
        sent,
        raw,
    }
}

/// Returns the texts of a failed connection, the outermost first.
async fn refused(replies: Vec<Reply>) -> String {
    let library = Arc::default();
    text(connect_to(&library, Protections::default(), None, replies).await)
}

fn text(outcome: Outcome) -> String {
    let error = outcome.connected.expect_err("it is not proven");
    assert!(matches!(error, RpcError::Sasl { .. }), "{error:?}");
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn the_client_says_what_javas_says() {
    let library = Arc::default();
    let replies = vec![kerberos(), proof(), layers(), success()];
    let outcome = connect_to(&library, Protections::default(), None, replies).await;
    let client = outcome.connected.unwrap();
    let [negotiate, initiate, empty, layer] = outcome.sent.as_slice() else {
        panic!("{:?}", outcome.sent);
    };
    assert!(negotiate.state() == SaslState::Negotiate);
    assert!(initiate.state() == SaslState::Initiate);
    assert_eq!(initiate.token.as_deref(), Some(&b"AP-REQ"[..]));
    let entry = initiate.auths[0].encode_to_vec();
    assert_eq!(
        entry,
        b"\x0a\x08KERBEROS\x12\x06GSSAPI\x1a\x02rm\x22\x09localhost"
    );
    assert_eq!(
        empty.encode_to_vec(),
        [0x10, 4, 0x1a, 0],
        "present and empty"
    );
    assert_eq!(layer.token.as_deref(), Some(&b"i\x01\x00\x00\x00"[..]));
    let target = Target::Principal("rm/localhost@LAB.TEST".to_owned());
    assert_eq!(*library.targets.lock().unwrap(), [target]);
    // The context names nobody: the user is the principal.
    let mut raw = outcome.raw;
    let calling = tokio::spawn(async move { call(&client, "any", b"").await });
    let mut frame = raw.frame().await.unwrap();
    header::take_request_header(&mut frame).unwrap();
    let mut unnamed = BytesMut::new();
    header::put_context(&mut unnamed, &CLIENT_ID, None, PROTOCOL).unwrap();
    assert!(unnamed.ends_with(&frame), "{frame:?}");
    calling.abort();
}

#[tokio::test]
async fn what_follows_is_protected_by_the_layer_that_was_chosen() {
    for (level, layers, mark) in [
        (Protection::Integrity, b"i\x02\x01\x00\x00", SIGNED),
        (Protection::Privacy, b"i\x04\x01\x00\x00", SEALED),
    ] {
        let library = Arc::default();
        let layers = with(SaslState::Challenge, Some(layers));
        let replies = vec![kerberos(), proof(), layers, success()];
        let outcome = connect_to(&library, level.into(), None, replies).await;
        let client = outcome.connected.unwrap();
        let mut raw = outcome.raw;
        let calling = tokio::spawn(async move { call(&client, "any", b"").await });
        let mut frame = raw.frame().await.unwrap();
        let header = header::take_request_header(&mut frame).unwrap();
        assert_eq!(header.call_id, CALL_ID_SASL);
        let wrapped = RpcSaslProto::decode_length_delimited(frame).unwrap();
        assert!(wrapped.state() == SaslState::Wrap);
        assert_eq!(wrapped.token.unwrap()[0], mark);
        calling.abort();
    }
}

#[tokio::test]
async fn a_server_that_wants_no_proof_is_refused_unless_that_is_allowed() {
    let told = refused(vec![success()]).await;
    assert!(
        told.contains("Server asks us to fall back to SIMPLE auth"),
        "{told}"
    );
    let library: Arc<Library> = Arc::default();
    let levels = Protections::default();
    let outcome = connect_to(&library, levels, Some("yarn"), vec![success()]).await;
    assert!(outcome.connected.is_ok());
    assert!(library.targets.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_server_without_kerberos_gets_nothing() {
    for (method, mechanism) in [
        ("TOKEN", "DIGEST-MD5"),
        ("SIMPLE", ""),
        ("KERBEROS", "NTLM"),
    ] {
        let told = refused(vec![offer(auth(method, mechanism, "localhost"))]).await;
        let expected = format!("Client cannot authenticate via:[{method}]");
        assert!(told.contains(&expected), "{told}");
    }
}

#[tokio::test]
async fn another_server_gets_no_ticket() {
    let library: Arc<Library> = Arc::default();
    let other = offer(auth("KERBEROS", "GSSAPI", "elsewhere"));
    let outcome = connect_to(&library, Protections::default(), None, vec![other]).await;
    let told = text(outcome);
    assert!(
        told.contains("invalid Kerberos principal: rm/elsewhere, expecting: rm/localhost@LAB.TEST"),
        "{told}"
    );
    assert!(library.targets.lock().unwrap().is_empty());
}

#[tokio::test]
async fn messages_that_prove_nothing_end_the_connection() {
    let extra = || with(SaslState::Success, Some(b"more"));
    let again = with(SaslState::Challenge, Some(b"i\x01\x01\x00\x00"));
    for (replies, part) in [
        (
            vec![kerberos(), success()],
            "ends the authentication too early",
        ),
        (
            vec![kerberos(), proof(), success()],
            "ends the authentication too early",
        ),
        (
            vec![kerberos(), with(SaslState::Challenge, None)],
            "contains no token",
        ),
        (
            vec![kerberos(), with(SaslState::Challenge, Some(b"AP-RUP"))],
            "Invalid token",
        ),
        (vec![kerberos(), kerberos()], "unexpected SASL state"),
        (
            vec![kerberos(), with(SaslState::Wrap, Some(b"x"))],
            "unexpected SASL state",
        ),
        (
            vec![kerberos(), proof(), layers(), extra()],
            "unexpected SASL state",
        ),
        (vec![kerberos(), proof(), layers(), again], "after the end"),
        (
            vec![
                kerberos(),
                proof(),
                with(SaslState::Challenge, Some(b"i\x06\x01\x00\x00")),
            ],
            "No common protection layer",
        ),
        (
            vec![
                kerberos(),
                proof(),
                with(SaslState::Challenge, Some(b"i\x01")),
            ],
            "has 1 bytes and not four",
        ),
    ] {
        let told = refused(replies).await;
        assert!(told.contains(part), "{part} in {told}");
    }
}

#[tokio::test]
async fn a_refused_proof_is_told_to_the_login_and_is_no_answer_of_the_server() {
    let library: Arc<Library> = Arc::default();
    let refusal = RemoteException::new(HadoopException::Sasl, "GSS initiate failed");
    let replies = vec![kerberos(), Err(refusal)];
    let outcome = connect_to(&library, Protections::default(), None, replies).await;
    let told = text(outcome);
    assert!(told.contains("GSS initiate failed"), "{told}");
    assert_eq!(library.refusals.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_login_that_fails_is_told_in_its_words() {
    let no_ticket = Library {
        has_no_ticket: true,
        ..Library::default()
    };
    let full = Library {
        is_full: true,
        ..Library::default()
    };
    for (library, part) in [
        (no_ticket, "no Kerberos login of nm/localhost"),
        (full, "64 calls wait already"),
    ] {
        let replies = vec![kerberos()];
        let outcome = connect_to(&Arc::new(library), Protections::default(), None, replies).await;
        let told = text(outcome);
        assert!(told.contains(part), "{told}");
    }
}

#[tokio::test]
async fn a_server_that_closes_in_between_is_a_lost_connection() {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { drop(listener.accept().await) });
    let auth = ClientAuth::Kerberos(KerberosAuth {
        library: Arc::new(Library::default()),
        server: ServerPrincipal::Exact("rm/_HOST@LAB.TEST".to_owned()),
        fall_back_to: None,
    });
    let lost = RpcClient::connect(address, PROTOCOL, auth, &ClientOptions::default()).await;
    let Err(RpcError::ConnectionLost { reason, .. }) = lost else {
        panic!("{lost:?}");
    };
    assert!(
        matches!(*reason, LossReason::ClosedByServer | LossReason::Io(_)),
        "{reason:?}"
    );
    server.await.unwrap();
}
