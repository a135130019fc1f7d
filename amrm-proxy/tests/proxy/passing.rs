//! Calls that pass, and AMs that misbehave.

use amrm_proxy::interceptor::AmMethod;
use amrm_proxy::observe::{CallResult, Observation};
use bytes::Bytes;
use prost::Message as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use wire::exception::{HadoopException, RemoteException, RpcErrorCode};
use wire::proto::hadoop_yarn::{AllocateRequestProto, AllocateResponseProto, ResourceRequestProto};

use crate::node::{Node, attempt, config};
use crate::scripted_rm::{ScriptedRm, always, refuse, silent};

/// A field that no message of Hadoop has, number 3000, with the text `new`.
const UNKNOWN: &[u8] = &[0xc2, 0xbb, 0x01, 3, b'n', b'e', b'w'];

fn with_unknown(message: &impl prost::Message) -> Bytes {
    [&message.encode_to_vec(), UNKNOWN].concat().into()
}

#[tokio::test]
async fn a_masters_life_passes_with_fields_that_nobody_knows() {
    let response = AllocateResponseProto {
        response_id: Some(1),
        num_cluster_nodes: Some(3),
        ..AllocateResponseProto::default()
    };
    let answer = with_unknown(&response);
    let rm = ScriptedRm::start(always(answer.clone())).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1, 1), rm.token(attempt(1, 1)));
    let am = node.connect(local).await.unwrap();
    let ask = ResourceRequestProto {
        resource_name: Some("*".to_owned()),
        num_containers: Some(2),
        ..ResourceRequestProto::default()
    };
    let request = with_unknown(&AllocateRequestProto {
        ask: vec![ask],
        response_id: Some(0),
        ..AllocateRequestProto::default()
    });
    for method in AmMethod::ALL {
        let got = am.call(method.as_str(), request.clone()).await;
        assert_eq!(got, Ok(answer.clone()), "{}", method.as_str());
    }
    let calls = rm.calls();
    let methods: Vec<_> = calls.iter().map(|call| call.method.as_str()).collect();
    assert_eq!(methods, AmMethod::ALL.map(AmMethod::as_str));
    assert!(calls.iter().all(|call| call.request == request));
    let observed = node.seen.all();
    let answered = observed.iter().filter(|observation| {
        matches!(
            observation,
            Observation::Call { result: CallResult::Answered, timing, .. } if timing.rm <= timing.total
        )
    });
    assert_eq!(answered.count(), 3, "{observed:?}");
}

#[tokio::test]
async fn exceptions_of_the_rm_pass_unchanged_whatever_their_class() {
    let exception = RemoteException {
        class_name: "org.apache.hadoop.yarn.exceptions.SomethingNew".to_owned(),
        message: "because\n\tat Somewhere".to_owned(),
        code: RpcErrorCode::Application,
    };
    let rm = ScriptedRm::start(refuse(exception.clone())).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1, 1), rm.token(attempt(1, 1)));
    let am = node.connect(local).await.unwrap();
    assert_eq!(am.call("allocate", Bytes::new()).await, Err(exception));
}

#[tokio::test]
async fn calls_that_are_none_are_refused() {
    let rm = ScriptedRm::start(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1, 1), rm.token(attempt(1, 1)));
    let am = node.connect(local).await.unwrap();
    let refusal = am.call("promote", Bytes::new()).await.unwrap_err();
    assert!(refusal.is(HadoopException::NoSuchMethod), "{refusal}");
    let refusal = am.call("allocate", &b"\x0a\x7f"[..]).await.unwrap_err();
    assert!(
        refusal.is(HadoopException::InvalidProtocolBuffer),
        "{refusal}"
    );
    assert_eq!(rm.calls().len(), 0);
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
}

#[tokio::test]
async fn more_asks_than_any_job_has_are_refused_and_the_next_call_passes() {
    let rm = ScriptedRm::start(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1, 1), rm.token(attempt(1, 1)));
    let am = node.connect(local).await.unwrap();
    let asks = |count: usize| AllocateRequestProto {
        ask: vec![ResourceRequestProto::default(); count],
        ..AllocateRequestProto::default()
    };
    let too_many = am
        .call("allocate", asks(100_001).encode_to_vec())
        .await
        .unwrap_err();
    assert!(
        too_many.is(HadoopException::InvalidResourceRequest),
        "{too_many}"
    );
    assert!(
        am.call("allocate", asks(100_000).encode_to_vec())
            .await
            .is_ok()
    );
    assert_eq!(rm.calls().len(), 1);
}

#[tokio::test]
async fn calls_without_end_at_once_are_refused_and_others_unaffected() {
    let rm = ScriptedRm::start(silent()).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1, 1), rm.token(attempt(1, 1)));
    let am = node.connect(local).await.unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..40 {
        let am = am.clone();
        calls.spawn(async move { am.call("allocate", Bytes::new()).await });
    }
    // Sixteen wait for the silent ResourceManager; the others come back at once.
    for _ in 0..24 {
        let refusal = calls.join_next().await.unwrap().unwrap().unwrap_err();
        assert!(refusal.is(HadoopException::Retriable), "{refusal}");
    }
    let other = node.admit(attempt(2, 1), rm.token(attempt(2, 1)));
    rm.say(always(Bytes::new()));
    let am = node.connect(other).await.unwrap();
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
    assert_eq!(calls.len(), 16);
}

#[tokio::test]
async fn a_half_open_master_holds_nobody_up() {
    let rm = ScriptedRm::start(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let mut half_open = TcpStream::connect(node.address).await.unwrap();
    let local = node.admit(attempt(1, 1), rm.token(attempt(1, 1)));
    let am = node.connect(local).await.unwrap();
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
    // It is still there: nothing has been said to it.
    let mut byte = [0];
    let read = tokio::time::timeout(
        std::time::Duration::from_millis(1),
        half_open.read(&mut byte),
    );
    assert!(read.await.is_err());
}
