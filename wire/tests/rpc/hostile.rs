//! Peers that break the protocol: they get the answers that Java gives, and do no harm.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use wire::exception::{HadoopException, RpcErrorCode};
use wire::frame::{FRAME_LENGTH_MAX_UNAUTHENTICATED, put_delimited_bytes, put_frame};
use wire::header::Outcome;
use wire::proto::hadoop_common::rpc_sasl_proto::SaslState;

use super::*;

const PLAIN: &[u8] = b"hrpc\x09\x00\x00";
const SASL: &[u8] = b"hrpc\x09\x00\xdf";

fn sasl_frame(state: SaslState) -> BytesMut {
    let mut out = BytesMut::new();
    let message = RpcSaslProto {
        state: state.into(),
        ..RpcSaslProto::default()
    };
    header::put_sasl_request(&mut out, &message).unwrap();
    out
}

/// Makes a frame with a valid header of this call id (zigzag) and a payload that is not a message.
fn garbage_after_header(call_id: u8) -> BytesMut {
    let mut out = BytesMut::new();
    put_frame(&mut out, |out| {
        put_delimited_bytes(out, &[0x08, 2, 0x10, 0, 0x18, call_id, 0x22, 0]);
        put_delimited_bytes(out, &[0xff; 9]);
    })
    .unwrap();
    out
}

/// Sends these bytes and returns the fatal answer; checks that the server still serves others.
async fn fatal_answer(auth: ServerAuth, bytes: &[&[u8]]) -> (i32, RemoteException) {
    let server = start(auth).await;
    let mut raw = Raw::connect(server.address).await;
    raw.send(&bytes.concat()).await;
    let fatal = raw.fatal().await;
    assert_serves(&server).await;
    fatal
}

async fn assert_serves(server: &Running) {
    let client = match connect(server, ClientAuth::Token(token())).await {
        Ok(client) => client,
        Err(_) => connect(server, simple()).await.unwrap(),
    };
    assert_eq!(call(&client, "echo", b"fine").await.unwrap(), "fine");
}

#[track_caller]
fn assert_refused(
    fatal: (i32, RemoteException),
    call_id: i32,
    class: HadoopException,
    code: RpcErrorCode,
) {
    assert_eq!(fatal.0, call_id);
    assert!(fatal.1.is(class), "{}", fatal.1);
    assert_eq!(fatal.1.code, code);
}

#[tokio::test(start_paused = true)]
async fn http_request_is_answered_with_404() {
    let server = start(token_only()).await;
    let mut raw = Raw::connect(server.address).await;
    raw.send(b"GET /jmx HTTP/1.1\r\nHost: node\r\n\r\n").await;
    assert!(raw.rest().await.starts_with(b"HTTP/1.1 404 Not Found\r\n"));
}

#[tokio::test(start_paused = true)]
async fn newer_version_gets_ours() {
    let fatal = fatal_answer(ServerAuth::Simple, &[b"hrpc\x0a\x00\x00"]).await;
    assert_refused(
        fatal,
        -1,
        HadoopException::VersionMismatch,
        RpcErrorCode::FatalVersionMismatch,
    );
}

#[tokio::test(start_paused = true)]
async fn older_version_is_answered_in_its_own_form() {
    let server = start(ServerAuth::Simple).await;
    let mut raw = Raw::connect(server.address).await;
    raw.send(b"hrpc\x07\x00\x00").await;
    let rest = raw.rest().await;
    let class = b"org.apache.hadoop.ipc.RPC$VersionMismatch";
    assert_eq!(rest[..8], [0xff; 8]);
    assert_eq!(
        rest[8..12],
        u32::try_from(class.len()).unwrap().to_be_bytes()
    );
    assert!(rest[12..].starts_with(class));
}

#[tokio::test(start_paused = true)]
async fn unknown_auth_byte_is_refused() {
    let fatal = fatal_answer(ServerAuth::Simple, &[b"hrpc\x09\x00\x51"]).await;
    assert_refused(
        fatal,
        -1,
        HadoopException::Ipc,
        RpcErrorCode::FatalUnauthorized,
    );
}

#[tokio::test(start_paused = true)]
async fn refusal_reaches_a_client_that_has_sent_more() {
    let frames: [&[u8]; 3] = [PLAIN, &context(), &call_frame(0, "echo", &[1; 200_000])];
    let fatal = fatal_answer(token_only(), &frames).await;
    assert_refused(
        fatal,
        -1,
        HadoopException::AccessControl,
        RpcErrorCode::FatalUnauthorized,
    );
}

/// A reset connection might lose the refusal.
#[tokio::test(start_paused = true)]
async fn refused_peer_may_send_on_and_sees_the_end_at_once() {
    for auth in [token_only(), ServerAuth::Simple] {
        let server = start(auth).await;
        let mut raw = Raw::connect(server.address).await;
        raw.send(&[PLAIN, &context(), &context()].concat()).await;
        assert!(matches!(raw.answer().await.outcome, Outcome::Fatal(_)));
        assert_eq!(raw.frame().await, None);
        // Once the server has closed its receiving side, too, the second of them fails.
        for _ in 0..2 {
            raw.send(&[0; 1_000]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn call_before_context_is_refused() {
    let fatal = fatal_answer(ServerAuth::Simple, &[PLAIN, &call_frame(7, "echo", b"")]).await;
    assert_refused(
        fatal,
        7,
        HadoopException::RpcServer,
        RpcErrorCode::FatalInvalidRpcHeader,
    );
}

#[tokio::test(start_paused = true)]
async fn second_context_is_refused() {
    let fatal = fatal_answer(ServerAuth::Simple, &[PLAIN, &context(), &context()]).await;
    assert_refused(
        fatal,
        -3,
        HadoopException::RpcServer,
        RpcErrorCode::FatalInvalidRpcHeader,
    );
}

#[tokio::test(start_paused = true)]
async fn context_during_negotiation_is_refused() {
    let server = start(token_only()).await;
    let mut raw = Raw::connect(server.address).await;
    raw.send(&[SASL, &sasl_frame(SaslState::Negotiate)].concat())
        .await;
    assert_eq!(raw.answer().await.call_id, -33);
    raw.send(&context()).await;
    assert_refused(
        raw.fatal().await,
        -3,
        HadoopException::RpcServer,
        RpcErrorCode::FatalInvalidRpcHeader,
    );
}

#[tokio::test(start_paused = true)]
async fn sasl_on_a_plain_connection_is_refused() {
    let negotiate = sasl_frame(SaslState::Negotiate);
    for frames in [&[PLAIN, &negotiate][..], &[PLAIN, &context(), &negotiate]] {
        let fatal = fatal_answer(ServerAuth::Simple, frames).await;
        assert_eq!(fatal.1.message, "SASL protocol not requested by client");
        assert_refused(
            fatal,
            -33,
            HadoopException::RpcServer,
            RpcErrorCode::FatalInvalidRpcHeader,
        );
    }
}

#[tokio::test(start_paused = true)]
async fn sasl_after_the_proof_is_refused() {
    let server = start(token_only()).await;
    let mut context = BytesMut::new();
    header::put_context(&mut context, &CLIENT_ID, None, PROTOCOL).unwrap();
    for before in [&b""[..], &context] {
        let mut raw = Raw::connect(server.address).await;
        raw.authenticate(token()).await;
        raw.send(&[before, &sasl_frame(SaslState::Negotiate)].concat())
            .await;
        let fatal = raw.fatal().await;
        assert_eq!(fatal.1.message, "SASL negotiation is over");
        assert_refused(
            fatal,
            -33,
            HadoopException::RpcServer,
            RpcErrorCode::FatalInvalidRpcHeader,
        );
    }
}

#[tokio::test(start_paused = true)]
async fn garbage_in_a_sasl_frame_is_refused() {
    let fatal = fatal_answer(token_only(), &[SASL, &garbage_after_header(0x41)]).await;
    assert_refused(
        fatal,
        -33,
        HadoopException::RpcServer,
        RpcErrorCode::FatalDeserializingRequest,
    );
}

#[tokio::test(start_paused = true)]
async fn garbage_context_is_refused() {
    let fatal = fatal_answer(ServerAuth::Simple, &[PLAIN, &garbage_after_header(0x05)]).await;
    assert_refused(
        fatal,
        -3,
        HadoopException::RpcServer,
        RpcErrorCode::FatalDeserializingRequest,
    );
}

#[tokio::test(start_paused = true)]
async fn garbage_header_is_refused_without_a_call_id() {
    let garbage: &[u8] = b"\0\0\0\x04\xff\xff\xff\xff";
    for frames in [&[PLAIN, garbage][..], &[PLAIN, &context(), garbage]] {
        let fatal = fatal_answer(ServerAuth::Simple, frames).await;
        assert_refused(
            fatal,
            -1,
            HadoopException::RpcServer,
            RpcErrorCode::FatalDeserializingRequest,
        );
    }
}

#[tokio::test(start_paused = true)]
async fn garbage_in_a_call_fails_only_the_call() {
    let server = start(ServerAuth::Simple).await;
    let mut raw = Raw::ready(server.address).await;
    raw.send(&[garbage_after_header(0x02), call_frame(2, "echo", b"x")].concat())
        .await;
    let answer = raw.answer().await;
    let Outcome::Error(error) = answer.outcome else {
        panic!("not an error");
    };
    assert_eq!(answer.call_id, 1);
    assert!(error.is(HadoopException::InvalidProtocolBuffer));
    assert_eq!(
        raw.answer().await.outcome,
        Outcome::Success(Bytes::from_static(b"x"))
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_special_call_id_is_refused() {
    // -5 in zigzag.
    let fatal = fatal_answer(
        ServerAuth::Simple,
        &[PLAIN, &context(), &garbage_after_header(9)],
    )
    .await;
    assert_refused(
        fatal,
        -5,
        HadoopException::RpcServer,
        RpcErrorCode::FatalInvalidRpcHeader,
    );
}

#[tokio::test(start_paused = true)]
async fn user_other_than_the_tokens_is_refused() {
    let server = start(token_only()).await;
    let mut raw = Raw::connect(server.address).await;
    raw.authenticate(token()).await;
    raw.send(&context()).await;
    assert_refused(
        raw.fatal().await,
        -3,
        HadoopException::AccessControl,
        RpcErrorCode::FatalUnauthorized,
    );
}

#[tokio::test(start_paused = true)]
async fn impossible_lengths_end_the_connection_without_a_word() {
    let began = Instant::now();
    let server = start(ServerAuth::Simple).await;
    let too_long = u32::try_from(FRAME_LENGTH_MAX_UNAUTHENTICATED + 1)
        .unwrap()
        .to_be_bytes();
    for length in [[0xff; 4], too_long] {
        let mut raw = Raw::connect(server.address).await;
        raw.send(&[PLAIN, &length].concat()).await;
        assert_eq!(raw.rest().await, b"");
    }
    let mut raw = Raw::ready(server.address).await;
    raw.send(&u32::try_from(FRAME_LENGTH_MAX + 1).unwrap().to_be_bytes())
        .await;
    assert_eq!(raw.rest().await, b"");
    // The lengths end the connections, and no timeout.
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_serves(&server).await;
}

#[tokio::test(start_paused = true)]
async fn calls_before_an_impossible_length_are_answered() {
    let server = start(ServerAuth::Simple).await;
    let mut raw = Raw::ready(server.address).await;
    raw.send(&[&call_frame(1, "echo", b"x")[..], &[0xff; 4]].concat())
        .await;
    assert_eq!(
        raw.answer().await.outcome,
        Outcome::Success(Bytes::from_static(b"x"))
    );
    assert_eq!(raw.frame().await, None);
}

#[tokio::test(start_paused = true)]
async fn frame_cut_by_the_end_of_the_connection_is_harmless() {
    let server = start(ServerAuth::Simple).await;
    let whole = [PLAIN, &context(), &call_frame(1, "echo", b"x")].concat();
    for cut in [3, 7, 9, 40, whole.len() - 1] {
        let mut raw = Raw::connect(server.address).await;
        raw.send(&whole[..cut]).await;
        raw.stream.shutdown().await.unwrap();
        assert_eq!(raw.rest().await, b"");
    }
    assert_serves(&server).await;
}

#[tokio::test(start_paused = true)]
async fn peer_that_dribbles_its_handshake_is_cut_off() {
    let server = start(token_only()).await;
    let begin = Instant::now();
    let mut raw = Raw::connect(server.address).await;
    raw.send(SASL).await;
    // A ping every second: pings do not extend the timeout.
    let mut ping = BytesMut::new();
    header::put_ping(&mut ping, &CLIENT_ID);
    let mut scratch = [0; 1];
    loop {
        if let Ok(read) = timeout(Duration::from_secs(1), raw.stream.read(&mut scratch)).await {
            assert_eq!(read.unwrap_or(0), 0);
            break;
        }
        if raw.stream.write_all(&ping).await.is_err() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "still connected");
    }
    assert!(begin.elapsed() >= Duration::from_secs(19));
}

/// Neither before authentication nor after it: a silent peer gives way to newer ones, and callers
/// have places of their own.
#[tokio::test]
async fn silent_peers_keep_nobody_out() {
    let limits = ServerLimits {
        strangers_max: 3,
        ..ServerLimits::default()
    };
    let server = start_with(ServerAuth::Simple, limits).await;
    let client = connect(&server, simple()).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(Raw::connect(server.address).await);
    }
    let mut raw = Raw::ready(server.address).await;
    raw.send(&call_frame(1, "echo", b"x")).await;
    assert_eq!(
        raw.answer().await.outcome,
        Outcome::Success(Bytes::from_static(b"x"))
    );
    assert_eq!(call(&client, "echo", b"y").await.unwrap(), "y");
    // At least as many as did not fit.
    for evicted in &mut silent[..16] {
        assert_eq!(evicted.rest().await, b"");
    }
}

#[tokio::test(start_paused = true)]
async fn silent_peer_gives_way_before_one_that_has_sent_something() {
    let limits = ServerLimits {
        strangers_max: 2,
        ..ServerLimits::default()
    };
    let server = start_with(token_only(), limits).await;
    let mut begun = Raw::connect(server.address).await;
    begun
        .send(&[SASL, &sasl_frame(SaslState::Negotiate)].concat())
        .await;
    assert_eq!(begun.answer().await.call_id, -33);
    let mut silent = Raw::connect(server.address).await;
    // Longer than any round trip.
    sleep(Duration::from_secs(1)).await;
    let client = connect(&server, ClientAuth::Token(token())).await.unwrap();
    assert_eq!(call(&client, "echo", b"x").await.unwrap(), "x");
    assert_eq!(silent.rest().await, b"");
    begun.send(&context()).await;
    assert_eq!(begun.fatal().await.0, -3);
}

#[tokio::test]
async fn callers_take_no_places_of_peers_that_authenticate_themselves() {
    let limits = ServerLimits {
        strangers_max: 2,
        ..ServerLimits::default()
    };
    let server = start_with(ServerAuth::Simple, limits).await;
    let mut slow = Raw::connect(server.address).await;
    let mut callers = Vec::new();
    for _ in 0..3 {
        let caller = connect(&server, simple()).await.unwrap();
        assert_eq!(call(&caller, "echo", b"x").await.unwrap(), "x");
        callers.push(caller);
    }
    slow.send(&[PLAIN, &context(), &call_frame(1, "echo", b"y")].concat())
        .await;
    assert_eq!(
        slow.answer().await.outcome,
        Outcome::Success(Bytes::from_static(b"y"))
    );
}

#[tokio::test]
async fn one_user_leaves_connections_for_others() {
    let limits = ServerLimits {
        connections_max: 4,
        ..ServerLimits::default()
    };
    let server = start_with(token_only(), limits).await;
    let mut own = Vec::new();
    for _ in 0..10 {
        own.push(Raw::proven(server.address, b"one").await);
    }
    let mut other = Raw::proven(server.address, b"other").await;
    other.send(&call_frame(1, "echo", b"x")).await;
    assert!(matches!(other.answer().await.outcome, Outcome::Success(_)));
}

#[tokio::test(start_paused = true)]
async fn peer_that_does_not_read_its_answers_fills_only_a_bounded_buffer() {
    let server = start(ServerAuth::Simple).await;
    let mut raw = Raw::ready(server.address).await;
    for call_id in 0..500 {
        raw.send(&call_frame(call_id, "big", b"")).await;
    }
    // Long enough for the server to close the connection.
    sleep(Duration::from_secs(300)).await;
    let asked = server.echo.big.load(Ordering::Relaxed);
    // The high-water mark, and the kernel's buffers on both sides.
    assert!(
        asked < 50,
        "{asked} answers of 1 MiB made for a peer that reads none"
    );
    assert_serves(&server).await;
}
