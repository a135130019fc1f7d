//! The client against scripted servers.

use std::time::Duration;

use prost::Message as _;
use test_support::HeldPort;
use tokio::net::TcpListener;
use tokio::time::Instant;
use wire::exception::RpcErrorCode;
use wire::header::{CALL_ID_PING, CallRef};
use wire::proto::hadoop_common::rpc_sasl_proto::SaslState;
use wire::rpc::{LossReason, RpcError};

use super::*;

/// Connects a client and returns it with its server's end of the connection, preamble taken.
async fn pair() -> (RpcClient, Raw) {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = RpcClient::connect(address, PROTOCOL, simple(), &ClientOptions::default())
        .await
        .unwrap();
    let mut raw = Raw::over(listener.accept().await.unwrap().0);
    let mut preamble = [0; 7];
    raw.stream.read_exact(&mut preamble).await.unwrap();
    assert_eq!(preamble, *b"hrpc\x09\x00\x00");
    (client, raw)
}

async fn next_call_id(raw: &mut Raw) -> i32 {
    let mut frame = raw.frame().await.expect("a frame");
    header::take_request_header(&mut frame).unwrap().call_id
}

fn calling(client: &RpcClient) -> JoinHandle<Result<Bytes, RpcError>> {
    let client = client.clone();
    tokio::spawn(async move { call(&client, "any", b"").await })
}

fn success(call_id: i32, response: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    header::put_success(&mut out, &CallRef::out_of_band(call_id), response).unwrap();
    out
}

fn lost_reason(result: Result<Bytes, RpcError>) -> Arc<LossReason> {
    match result {
        Err(RpcError::ConnectionLost { reason, .. }) => reason,
        other => panic!("not lost: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_call_times_out_and_the_others_go_on() {
    let (client, mut raw) = pair().await;
    let begin = Instant::now();
    let unanswered = calling(&client);
    assert_eq!(next_call_id(&mut raw).await, header::CALL_ID_CONTEXT);
    let late = next_call_id(&mut raw).await;
    assert!(matches!(
        unanswered.await.unwrap(),
        Err(RpcError::Timeout { .. })
    ));
    assert!(begin.elapsed() >= Duration::from_secs(120));
    assert_eq!(next_call_id(&mut raw).await, CALL_ID_PING);

    let answered = calling(&client);
    let mut call_id = next_call_id(&mut raw).await;
    while call_id == CALL_ID_PING {
        call_id = next_call_id(&mut raw).await;
    }
    raw.send(&[success(late, b"late"), success(call_id, b"now")].concat())
        .await;
    assert_eq!(answered.await.unwrap().unwrap(), "now");
}

#[tokio::test(start_paused = true)]
async fn waiting_client_pings_and_an_idle_one_does_not() {
    let (client, mut raw) = pair().await;
    assert_eq!(next_call_id(&mut raw).await, header::CALL_ID_CONTEXT);
    let silent = tokio::time::timeout(Duration::from_secs(600), raw.frame()).await;
    assert!(silent.is_err(), "an idle client says nothing");
    let begin = Instant::now();
    let _waiting = calling(&client);
    assert!(next_call_id(&mut raw).await >= 0);
    assert_eq!(next_call_id(&mut raw).await, CALL_ID_PING);
    assert!(begin.elapsed() <= Duration::from_secs(61));
}

#[tokio::test]
async fn fatal_answer_of_any_id_fails_every_call_with_the_servers_words() {
    let (client, mut raw) = pair().await;
    let (first, second) = (calling(&client), calling(&client));
    let refusal = RemoteException::with_code(
        HadoopException::AccessControl,
        "go away",
        RpcErrorCode::FatalUnauthorized,
    );
    let mut out = BytesMut::new();
    header::put_failure(&mut out, &CallRef::out_of_band(-1), &refusal).unwrap();
    raw.send(&out).await;
    for call in [first, second] {
        let Err(RpcError::Remote(exception)) = call.await.unwrap() else {
            panic!("not told");
        };
        assert_eq!(exception, refusal);
    }
    assert!(client.is_lost());
}

#[tokio::test]
async fn broken_answers_end_the_connection() {
    let foreign = {
        let mut out = BytesMut::new();
        let call = CallRef {
            client_id: Bytes::from_static(&[9; 16]),
            ..CallRef::out_of_band(0)
        };
        header::put_success(&mut out, &call, b"").unwrap();
        out.to_vec()
    };
    let negative_length = vec![0xff; 4];
    let too_long = vec![0x7f, 0xff, 0xff, 0xff];
    let garbage = vec![0, 0, 0, 2, 0xff, 0xff];
    let strange_id = success(-33, b"").to_vec();
    for bytes in [
        foreign,
        negative_length,
        too_long,
        garbage,
        strange_id,
        vec![],
    ] {
        let (client, mut raw) = pair().await;
        let waiting = calling(&client);
        assert_eq!(next_call_id(&mut raw).await, header::CALL_ID_CONTEXT);
        assert_eq!(next_call_id(&mut raw).await, 0);
        raw.send(&bytes).await;
        if bytes.is_empty() {
            drop(raw);
        }
        let reason = lost_reason(waiting.await.unwrap());
        match *reason {
            LossReason::ClosedByServer => assert!(bytes.is_empty()),
            LossReason::ForeignClientId
            | LossReason::StrangeCallId { .. }
            | LossReason::Frame(_)
            | LossReason::Answer(_) => assert!(!bytes.is_empty()),
            LossReason::Fatal(_)
            | LossReason::NotWrapped(_)
            | LossReason::Layer(_)
            | LossReason::Io(_)
            | LossReason::ClosedByCaller
            | LossReason::Stalled => {
                panic!("{reason}")
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_does_not_answer_the_negotiation_is_given_up() {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let auth = ClientAuth::Token(token());
    let result = RpcClient::connect(address, PROTOCOL, auth, &ClientOptions::default()).await;
    assert!(matches!(result, Err(RpcError::Timeout { .. })));
}

#[tokio::test]
async fn answer_to_a_call_is_no_part_of_the_negotiation() {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let connecting = tokio::spawn(async move {
        let auth = ClientAuth::Token(token());
        RpcClient::connect(address, PROTOCOL, auth, &ClientOptions::default()).await
    });
    let mut raw = Raw::over(listener.accept().await.unwrap().0);
    let mut preamble = [0; 7];
    raw.stream.read_exact(&mut preamble).await.unwrap();
    assert!(next_call_id(&mut raw).await < 0);
    let message = RpcSaslProto {
        state: SaslState::Success.into(),
        ..RpcSaslProto::default()
    };
    raw.send(&success(0, &message.encode_to_vec())).await;
    let reason = lost_reason(connecting.await.unwrap().map(|_| Bytes::new()));
    assert!(
        matches!(*reason, LossReason::StrangeCallId { call_id: 0 }),
        "{reason}"
    );
}

#[tokio::test(start_paused = true)]
async fn server_that_reads_nothing_is_given_up() {
    let (client, _raw) = pair().await;
    // More than the kernel buffers.
    let request = Bytes::from(vec![0; 64 << 20]);
    let long = client.call_raw("any", PROTOCOL, 1, request).await;
    assert!(matches!(long, Err(RpcError::Timeout { .. })), "{long:?}");
    for _ in 0..20 {
        match call(&client, "any", b"").await {
            Err(RpcError::Timeout { .. }) => {}
            lost => {
                let reason = lost_reason(lost);
                assert!(matches!(*reason, LossReason::Stalled), "{reason}");
                return;
            }
        }
    }
    panic!("still connected");
}

#[tokio::test]
async fn server_that_is_not_there_is_a_connect_error() {
    let port = HeldPort::free();
    let address = port.address();
    let result = RpcClient::connect(address, PROTOCOL, simple(), &ClientOptions::default()).await;
    assert!(matches!(result, Err(RpcError::Dial(_))));
}

#[tokio::test]
async fn a_lost_connection_is_closed_though_its_handle_is_kept() {
    let (client, mut raw) = pair().await;
    raw.stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    raw.stream.read_to_end(&mut rest).await.unwrap();
    assert!(client.is_lost());
}
