//! Calls that succeed, and refusals that reach the client.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use wire::exception::{HadoopException, RemoteException, RpcErrorCode};
use wire::header::Outcome;
use wire::rpc::{ClientAuth, RpcError, ServerAuth};
use wire::token::Token;

use super::*;

fn remote(result: Result<Bytes, RpcError>) -> RemoteException {
    match result {
        Err(RpcError::Remote(exception)) => exception,
        other => panic!("not refused by the server: {other:?}"),
    }
}

#[tokio::test]
async fn simple_caller_has_the_claimed_name() {
    let server = start(ServerAuth::Simple).await;
    let client = connect(&server, simple()).await.unwrap();
    assert_eq!(call(&client, "whoami", b"").await.unwrap(), "bob None");
    assert_eq!(call(&client, "echo", b"").await.unwrap(), "");
    assert_eq!(call(&client, "yield", b"later").await.unwrap(), "later");
}

#[tokio::test]
async fn token_caller_has_the_name_in_its_token() {
    for auth in [token_only(), token_or_simple()] {
        let server = start(auth).await;
        let client = connect(&server, ClientAuth::Token(token())).await.unwrap();
        assert_eq!(
            call(&client, "whoami", b"").await.unwrap(),
            format!("{ATTEMPT} Some(\"NMToken\")")
        );
        assert_eq!(
            call(&client, "identifier", b"").await.unwrap(),
            "identifier"
        );
    }
}

#[tokio::test]
async fn token_caller_may_claim_the_name_in_its_token() {
    let server = start(token_only()).await;
    let mut raw = Raw::connect(server.address).await;
    raw.authenticate(token()).await;
    let mut context = BytesMut::new();
    header::put_context(&mut context, &CLIENT_ID, Some(ATTEMPT), PROTOCOL).unwrap();
    raw.send(&[context, call_frame(1, "echo", b"x")].concat())
        .await;
    assert_eq!(
        raw.answer().await.outcome,
        Outcome::Success(Bytes::from_static(b"x"))
    );
}

#[tokio::test]
async fn token_caller_may_call_before_its_proof_is_answered() {
    use prost::Message as _;
    let server = start(token_only()).await;
    let mut raw = Raw::connect(server.address).await;
    let mut client =
        wire::sasl::SaslClient::new(token(), Protections::default(), "cnonce".to_owned());
    let mut out = BytesMut::from(&b"hrpc\x09\x00\xdf"[..]);
    header::put_sasl_request(&mut out, &client.start()).unwrap();
    raw.send(&out).await;
    let Outcome::Success(offer) = raw.answer().await.outcome else {
        panic!("refused");
    };
    let step = client.handle(&RpcSaslProto::decode(offer).unwrap());
    let Ok(wire::sasl::ClientStep::Send(proof)) = step else {
        panic!("no proof but {step:?}");
    };
    out.clear();
    header::put_sasl_request(&mut out, &proof).unwrap();
    header::put_context(&mut out, &CLIENT_ID, None, PROTOCOL).unwrap();
    out.extend_from_slice(&call_frame(1, "echo", b"x"));
    raw.send(&out).await;
    assert_eq!(raw.answer().await.call_id, header::CALL_ID_SASL);
    assert_eq!(raw.answer().await.call_id, 1);
}

#[tokio::test]
async fn simple_caller_is_let_in_beside_tokens() {
    let server = start(token_or_simple()).await;
    let client = connect(&server, simple()).await.unwrap();
    assert_eq!(call(&client, "whoami", b"").await.unwrap(), "bob None");
}

#[tokio::test]
async fn token_is_of_no_use_on_a_server_without_tokens() {
    let server = start(ServerAuth::Simple).await;
    let refused = connect(&server, ClientAuth::Token(token())).await;
    assert!(matches!(refused, Err(RpcError::Sasl { .. })));
}

#[tokio::test]
async fn caller_without_token_is_refused_by_a_token_server() {
    let server = start(token_only()).await;
    let client = connect(&server, simple()).await.unwrap();
    let error = remote(call(&client, "echo", b"").await);
    assert!(error.is(HadoopException::AccessControl));
    assert_eq!(error.code, RpcErrorCode::FatalUnauthorized);
    assert_eq!(
        error.message,
        "SIMPLE authentication is not enabled.  Available:[TOKEN]"
    );
}

#[tokio::test]
async fn wrong_password_forged_identifier_and_foreign_token_are_refused() {
    let server = start(token_only()).await;
    let wrong = Token {
        password: Bytes::from_static(b"wrong"),
        ..token()
    };
    let forged = Token {
        identifier: Bytes::from_static(b"Identifier"),
        ..token()
    };
    let foreign = Token {
        identifier: Bytes::from_static(b"of another node"),
        ..token()
    };
    for (token, expected) in [
        (wrong, HadoopException::Sasl),
        (forged, HadoopException::Sasl),
        (foreign, HadoopException::InvalidToken),
    ] {
        let Err(RpcError::Remote(error)) = connect(&server, ClientAuth::Token(token)).await else {
            panic!("let in");
        };
        assert!(error.is(expected), "{error}");
        assert_eq!(error.code, RpcErrorCode::FatalUnauthorized);
    }
}

#[tokio::test]
async fn refused_calls_leave_the_connection_open() {
    let server = start(ServerAuth::Simple).await;
    let client = connect(&server, simple()).await.unwrap();
    let request = || Bytes::from_static(b"r");
    let no_protocol = remote(
        client
            .call_raw("echo", "org.example.None", 1, request())
            .await,
    );
    assert!(no_protocol.is(HadoopException::NoSuchProtocol));
    assert_eq!(no_protocol.message, "Unknown protocol: org.example.None");
    assert_eq!(no_protocol.code, RpcErrorCode::NoSuchProtocol);
    let version = remote(client.call_raw("echo", PROTOCOL, 2, request()).await);
    assert!(version.is(HadoopException::VersionMismatch));
    assert_eq!(version.code, RpcErrorCode::RpcVersionMismatch);
    let no_method = remote(call(&client, "none", b"r").await);
    assert!(no_method.is(HadoopException::NoSuchMethod));
    assert_eq!(no_method.code, RpcErrorCode::NoSuchMethod);
    let failed = remote(call(&client, "fail", b"r").await);
    assert_eq!(
        failed,
        RemoteException::new(HadoopException::NmNotYetReady, "not yet")
    );
    assert_eq!(call(&client, "echo", b"still").await.unwrap(), "still");
}

#[tokio::test]
async fn refusals_do_not_repeat_long_names() {
    let server = start(ServerAuth::Simple).await;
    let client = connect(&server, simple()).await.unwrap();
    let long = "n".repeat(100_000);
    let no_method = remote(client.call_raw(&long, PROTOCOL, 1, Bytes::new()).await);
    assert!(no_method.is(HadoopException::NoSuchMethod));
    assert!(no_method.message.len() < 1_000);
    let no_protocol = remote(client.call_raw("echo", &long, 1, Bytes::new()).await);
    assert!(no_protocol.is(HadoopException::NoSuchProtocol));
    assert!(no_protocol.message.len() < 1_000);
}

#[tokio::test]
async fn fatal_failure_of_a_service_fails_only_its_call() {
    let server = start(ServerAuth::Simple).await;
    let client = connect(&server, simple()).await.unwrap();
    let error = remote(call(&client, "fail fatally", b"").await);
    assert!(error.is(HadoopException::AccessControl));
    assert_eq!(error.code, RpcErrorCode::Application);
    assert_eq!(call(&client, "echo", b"still").await.unwrap(), "still");
}

#[tokio::test]
async fn panic_in_a_service_fails_only_its_call() {
    let server = start(ServerAuth::Simple).await;
    let client = connect(&server, simple()).await.unwrap();
    let error = remote(call(&client, "panic", b"").await);
    assert!(error.is(HadoopException::RpcServer));
    assert_eq!(error.code, RpcErrorCode::RpcServer);
    assert_eq!(call(&client, "echo", b"still").await.unwrap(), "still");
}

#[tokio::test]
async fn quick_call_overtakes_a_slow_one() {
    let server = start(ServerAuth::Simple).await;
    let client = connect(&server, simple()).await.unwrap();
    let slow = {
        let client = client.clone();
        tokio::spawn(async move { call(&client, "wait", b"slow").await })
    };
    while server.echo.waiting.load(Ordering::Relaxed) == 0 {
        assert_eq!(call(&client, "echo", b"quick").await.unwrap(), "quick");
    }
    server.echo.gate.notify_one();
    assert_eq!(slow.await.unwrap().unwrap(), "slow");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_concurrent_callers_each_get_their_own_answer() {
    let server = start(token_only()).await;
    let client = connect(&server, ClientAuth::Token(token())).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..1000_u32 {
        let client = client.clone();
        calls.spawn(async move {
            let method = if number % 2 == 0 { "echo" } else { "yield" };
            let request = Bytes::copy_from_slice(&number.to_be_bytes());
            let response = client
                .call_raw(method, PROTOCOL, 1, request.clone())
                .await
                .unwrap();
            assert_eq!(response, request);
        });
    }
    while let Some(result) = calls.join_next().await {
        result.unwrap();
    }
}

#[tokio::test]
async fn thousand_pipelined_calls_are_each_answered_once() {
    let server = start(ServerAuth::Simple).await;
    let mut raw = Raw::ready(server.address).await;
    let mut frames = BytesMut::new();
    for number in 0..1000 {
        let method = if number % 3 == 0 { "yield" } else { "echo" };
        frames.extend_from_slice(&call_frame(number * 2, method, &number.to_be_bytes()));
    }
    raw.send(&frames).await;
    let mut answers = BTreeMap::new();
    for _ in 0..1000 {
        let answer = raw.answer().await;
        assert_eq!(answer.client_id[..], CLIENT_ID);
        assert!(answers.insert(answer.call_id, answer.outcome).is_none());
    }
    for number in 0..1000_i32 {
        let expected = Outcome::Success(Bytes::copy_from_slice(&number.to_be_bytes()));
        assert_eq!(answers[&(number * 2)], expected);
    }
}

#[tokio::test]
async fn call_id_used_twice_is_answered_twice() {
    let server = start(ServerAuth::Simple).await;
    let mut raw = Raw::ready(server.address).await;
    raw.send(&[call_frame(5, "yield", b"a"), call_frame(5, "yield", b"b")].concat())
        .await;
    let mut outcomes = [raw.answer().await, raw.answer().await];
    assert!(outcomes.iter().all(|answer| answer.call_id == 5));
    outcomes.sort_by_key(|answer| format!("{:?}", answer.outcome));
    assert_eq!(
        outcomes[1].outcome,
        Outcome::Success(Bytes::from_static(b"b"))
    );
}

#[tokio::test]
async fn peer_that_sends_no_more_gets_its_answer() {
    let server = start(ServerAuth::Simple).await;
    for _ in 0..20 {
        let mut raw = Raw::ready(server.address).await;
        raw.send(&call_frame(1, "echo", b"x")).await;
        raw.stream.shutdown().await.unwrap();
        assert_eq!(
            raw.answer().await.outcome,
            Outcome::Success(Bytes::from_static(b"x"))
        );
    }
}

#[tokio::test]
async fn frames_in_single_bytes_are_understood() {
    let server = start(ServerAuth::Simple).await;
    let mut raw = Raw::connect(server.address).await;
    let everything = [
        &b"hrpc\x09\x00\x00"[..],
        &context(),
        &call_frame(1, "echo", b"x"),
    ]
    .concat();
    for byte in everything {
        raw.send(&[byte]).await;
    }
    assert_eq!(
        raw.answer().await.outcome,
        Outcome::Success(Bytes::from_static(b"x"))
    );
}

#[tokio::test]
async fn large_messages_pass_in_both_directions() {
    let server = start(ServerAuth::Simple).await;
    let client = connect(&server, simple()).await.unwrap();
    let request = Bytes::from(vec![3; 8 << 20]);
    assert_eq!(
        client
            .call_raw("echo", PROTOCOL, 1, request.clone())
            .await
            .unwrap(),
        request
    );
}
