//! Calls that pass the proxy, and AMs that misbehave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use amrm_proxy::call::AmMethod;
use amrm_proxy::config::InterceptorKind;
use amrm_proxy::observe::{CallResult, Observation};
use bytes::Bytes;
use prost::Message as _;
use records::Resource;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::exception::{HadoopException, RemoteException, RpcErrorCode};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, DistributedSchedulingAllocateResponseProto,
    ExecutionTypeProto, ExecutionTypeRequestProto, RegisterApplicationMasterResponseProto,
    RegisterDistributedSchedulingAmResponseProto, ResourceRequestProto,
};

use crate::node::{Node, config, connect, start_scheduler};
use test_support::ids::attempt;
use test_support::scripted::{Script, always, answering, refuse, silent};

/// A field that no message of Hadoop has: number 3000 with the text `new`.
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
    let rm = start_scheduler(always(answer.clone())).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
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
    let rm = start_scheduler(refuse(exception.clone())).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    assert_eq!(am.call("allocate", Bytes::new()).await, Err(exception));
    let results = node.seen.all().into_iter().filter_map(|seen| {
        let Observation::Call { result, .. } = seen else {
            return None;
        };
        Some(result)
    });
    assert_eq!(results.collect::<Vec<_>>(), [CallResult::Refused]);
}

#[tokio::test]
async fn a_master_that_calls_too_often_waits_for_its_answer() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let mut config = config(&[rm.address]);
    config.throttle.calls_per_second_max = 4;
    config.throttle.calls_burst = 1;
    let node = Node::start(config).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    am.call("allocate", Bytes::new()).await.unwrap();
    // The node's clock stands still, so the second call comes a quarter of a second too early.
    let began = Instant::now();
    am.call("allocate", Bytes::new()).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(250));
}

#[tokio::test]
async fn calls_that_are_none_are_refused() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
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

/// Asks for every host of a large cluster at ten priorities, with the total of each: the longest
/// table of asks.
fn asks_for_a_large_cluster() -> Vec<ResourceRequestProto> {
    let ask = |priority: i32, name: String| ResourceRequestProto {
        priority: Some(priority.into()),
        resource_name: Some(name),
        capability: Some(Resource::new(1024, 1).into()),
        num_containers: Some(1),
        execution_type_request: Some(ExecutionTypeRequestProto {
            execution_type: Some(ExecutionTypeProto::Opportunistic.into()),
            ..ExecutionTypeRequestProto::default()
        }),
        ..ResourceRequestProto::default()
    };
    let hosts = |priority: i32| {
        let names = (1..10_000).map(|host| format!("worker-{host:05}.example.com"));
        let total = ask(priority, "*".to_owned());
        let named = names.map(move |name| ask(priority, name));
        std::iter::once(total).chain(named)
    };
    (1..=10).flat_map(hosts).collect()
}

/// Grants every registration and answers every other call with an empty message.
fn granting() -> Arc<Script> {
    let grant = RegisterDistributedSchedulingAmResponseProto {
        register_response: Some(RegisterApplicationMasterResponseProto::default()),
        min_container_resource: Some(Resource::new(128, 1).into()),
        max_container_resource: Some(Resource::new(8192, 4).into()),
        container_token_expiry_interval: Some(600_000),
        container_id_start: Some(1 << 40),
        ..RegisterDistributedSchedulingAmResponseProto::default()
    };
    let nothing = DistributedSchedulingAllocateResponseProto {
        allocate_response: Some(AllocateResponseProto {
            response_id: Some(1),
            num_cluster_nodes: Some(0),
            ..AllocateResponseProto::default()
        }),
        ..DistributedSchedulingAllocateResponseProto::default()
    };
    answering(move |call| {
        let answer = if call.method.starts_with("register") {
            grant.encode_to_vec()
        } else {
            nothing.encode_to_vec()
        };
        Ok(answer.into())
    })
}

#[tokio::test]
async fn more_asks_than_any_job_has_are_refused_and_as_many_as_a_large_one_has_are_taken() {
    let rm = start_scheduler(granting()).await;
    let mut config = config(&[rm.address]);
    config.rm.distributed_scheduling = true;
    config
        .pipeline
        .insert(2, InterceptorKind::DistributedScheduler);
    // A request of this length is delayed, which is not tested here.
    config.throttle.calls_per_second_max = 0;
    let node = Node::start(config).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    am.call("registerApplicationMaster", Bytes::new())
        .await
        .unwrap();
    let request = |ask| AllocateRequestProto {
        ask,
        response_id: Some(0),
        ..AllocateRequestProto::default()
    };
    let asks = asks_for_a_large_cluster();
    assert_eq!(asks.len(), 100_000);
    let one_more = [&asks[..1], &asks].concat();
    let too_many = am
        .call("allocate", request(one_more).encode_to_vec())
        .await
        .unwrap_err();
    assert!(
        too_many.is(HadoopException::InvalidResourceRequest),
        "{too_many}"
    );
    assert_eq!(rm.calls().len(), 1);
    let outstanding = || node.proxy.snapshot().gauges.containers_outstanding;
    assert_eq!(outstanding(), 0, "nothing of it is in force");
    am.call("allocate", request(asks).encode_to_vec())
        .await
        .unwrap();
    assert_eq!(outstanding(), 10);
    assert!(
        rm.calls()[1].request.len() < 100,
        "what is answered here does not go on"
    );
    am.call("allocate", request(Vec::new()).encode_to_vec())
        .await
        .unwrap();
    assert_eq!(outstanding(), 10);
}

#[tokio::test(start_paused = true)]
async fn calls_without_end_at_once_are_refused_and_others_unaffected() {
    let began = Instant::now();
    let rm = start_scheduler(silent()).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..40 {
        let am = am.clone();
        calls.spawn(async move { am.call("allocate", Bytes::new()).await });
    }
    // Sixteen calls wait for the silent ResourceManager; the others are refused at once.
    for _ in 0..24 {
        let refusal = calls.join_next().await.unwrap().unwrap().unwrap_err();
        assert!(refusal.is(HadoopException::Retriable), "{refusal}");
    }
    // From then on the ResourceManager answers new calls, and not the one that it has.
    while rm.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    rm.set_script(always(Bytes::new()));
    let other = node.admit(attempt(2), rm.token(attempt(2)));
    let am = node.connect(other).await.unwrap();
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
    // No wait for the ResourceManager has ended: the calls were refused for their number.
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(calls.try_join_next().is_none());
    assert_eq!(calls.len(), 16);
}

/// A connection between AM and node that passes a limited number of bytes from the AM.
struct Wire {
    address: SocketAddr,
    left: Arc<AtomicUsize>,
}

impl Wire {
    async fn to(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let of_task = Arc::clone(&left);
        tokio::spawn(async move {
            let (am, _) = listener.accept().await.unwrap();
            let (mut from_am, mut to_am) = am.into_split();
            let (mut from_node, mut to_node) = TcpStream::connect(node).await.unwrap().into_split();
            let back =
                tokio::spawn(async move { tokio::io::copy(&mut from_node, &mut to_am).await });
            let mut buffer = vec![0; 4096];
            loop {
                let length = from_am.read(&mut buffer).await.unwrap();
                let left = of_task.load(Ordering::Relaxed);
                if length == 0 {
                    break;
                }
                let passed = length.min(left);
                to_node.write_all(&buffer[..passed]).await.unwrap();
                of_task.store(left - passed, Ordering::Relaxed);
            }
            back.abort();
        });
        Self { address, left }
    }
}

#[tokio::test]
async fn masters_that_stop_in_the_middle_hold_nobody_up() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    // One connection sends nothing; the other authenticates and stops within a request of eight
    // megabytes.
    let silent = TcpStream::connect(node.address).await.unwrap();
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let wire = Wire::to(node.address).await;
    let stuck = connect(wire.address, local.clone()).await.unwrap();
    wire.left.store(1_000_000, Ordering::Relaxed);
    let long = |bytes: usize| AllocateRequestProto {
        tracking_url: Some("x".repeat(bytes)),
        ..AllocateRequestProto::default()
    };
    let half =
        tokio::spawn(async move { stuck.call("allocate", long(8 << 20).encode_to_vec()).await });
    while wire.left.load(Ordering::Relaxed) > 0 {
        tokio::task::yield_now().await;
    }
    // The AM's own heartbeats continue over another connection, and other AMs may send long
    // requests.
    let again = node.connect(local).await.unwrap();
    assert!(again.call("allocate", Bytes::new()).await.is_ok());
    let local = node.admit(attempt(2), rm.token(attempt(2)));
    let other = node.connect(local).await.unwrap();
    let request = long(8 << 20).encode_to_vec();
    assert!(other.call("allocate", request).await.is_ok());
    assert_eq!(rm.calls().len(), 2);
    assert!(!half.is_finished());
    half.abort();
    drop(silent);
}

#[tokio::test]
async fn a_request_longer_than_any_master_needs_ends_its_connection_and_no_other() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local.clone()).await.unwrap();
    let endless = Bytes::from(vec![0; 33 << 20]);
    let lost = am.try_call("allocate", endless).await.unwrap_err();
    assert!(lost.remote().is_none(), "{lost}");
    assert_eq!(rm.calls().len(), 0);
    let am = node.connect(local).await.unwrap();
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
}

#[tokio::test]
async fn a_request_that_takes_too_much_memory_once_it_is_split_is_refused_before_that() {
    let rm = start_scheduler(always(Bytes::new())).await;
    let node = Node::start(config(&[rm.address])).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    // Two million empty fields: four megabytes, of which each field takes dozens of bytes.
    let fields = Bytes::from([0x0a_u8, 0x00].repeat(2_000_000));
    for method in AmMethod::ALL {
        let refusal = am.call(method.as_str(), fields.clone()).await.unwrap_err();
        assert!(refusal.is(HadoopException::RpcServer), "{refusal}");
    }
    assert_eq!(rm.calls().len(), 0);
    assert!(am.call("allocate", Bytes::new()).await.is_ok());
}
