//! Calls that wait, are lost, or find no ResourceManager.

use std::net::SocketAddr;

use prost::Message as _;
use sched::{KnownNode, RemoteNode};
use test_support::HeldPort;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use wire::rpc::{BoxFuture, Caller, RpcServer, SecretManager, ServerAuth, Service, Verified};
use wire::token::{MasterKey, kind};

use super::*;

fn managers(max_wait: Duration) -> ResourceManagers {
    ResourceManagers::new(RmConfig {
        addresses: vec!["rm:8030".to_owned()],
        max_wait: Some(max_wait),
        retry_interval: Duration::from_secs(30),
        distributed_scheduling: false,
        protections: Protections::default(),
    })
}

#[test]
fn no_call_is_held_longer_than_a_minute() {
    assert_eq!(managers(Duration::from_secs(900)).hold_max(), HOLD_MAX);
    let short = Duration::from_secs(9);
    assert_eq!(managers(short).hold_max(), short);
}

#[test]
fn containers_go_beside_the_masters_message_and_the_nodes_part_is_split_off() {
    use wire::proto::hadoop_yarn::{
        AllocateRequestProto, AllocateResponseProto, ContainerProto,
        DistributedSchedulingAllocateRequestProto, DistributedSchedulingAllocateResponseProto,
        RemoteNodeProto,
    };
    let container = ContainerProto::default();
    let sent = AllocateRequestProto {
        response_id: Some(7),
        ..AllocateRequestProto::default()
    };
    let message = RawMessage::parse(sent.encode_to_vec().into()).unwrap();
    let mut request = Request::new(AmMethod::Allocate, message);
    let allocated = vec![container.encode_to_vec().into(); 2];
    request.notes.put(AllocatedContainers(allocated));
    let call = encode(true, &request);
    assert_eq!(call.protocol, distributed_scheduling_am::PROTOCOL);
    let decoded = DistributedSchedulingAllocateRequestProto::decode(call.request).unwrap();
    assert_eq!(decoded.allocate_request, Some(sent));
    assert_eq!(decoded.allocated_containers, [container.clone(), container]);

    let for_am = AllocateResponseProto {
        response_id: Some(8),
        ..AllocateResponseProto::default()
    };
    let for_node = DistributedSchedulingAllocateResponseProto {
        allocate_response: None,
        nodes_for_scheduling: vec![RemoteNodeProto {
            node_id: Some((&test_support::ids::node("n1")).into()),
            ..RemoteNodeProto::default()
        }],
    };
    let answer = DistributedSchedulingAllocateResponseProto {
        allocate_response: Some(for_am.clone()),
        ..for_node.clone()
    };
    let answer = answer.encode_to_vec().into();
    let lists = NodeLists::default();
    let answer = read_answer(true, AmMethod::Allocate, answer, &lists).unwrap();
    assert_eq!(answer.message.encode(), for_am.encode_to_vec());
    assert_eq!(answer.nodes.nodes(), [known("n1")]);
}

fn known(host: &str) -> KnownNode {
    KnownNode::from(RemoteNode {
        node_id: test_support::ids::node(host),
        http_address: String::new(),
        rack: String::new(),
        partition: String::new(),
    })
}

/// Encodes an answer that consists of these parts, in their order.
fn parts(parts: &[(u32, &[u8])]) -> Bytes {
    let mut answer = Vec::new();
    for (number, content) in parts {
        let mut part = RawMessage::default();
        part.push(*number, content);
        answer.extend_from_slice(&part.encode());
    }
    answer.into()
}

#[test]
fn the_same_list_again_is_the_one_that_is_known() {
    use distributed_allocate_response::{ALLOCATE_RESPONSE, NODES};
    let node = |host: &str| {
        let node = wire::proto::hadoop_yarn::RemoteNodeProto {
            node_id: Some((&test_support::ids::node(host)).into()),
            ..Default::default()
        };
        node.encode_to_vec()
    };
    let (one, other) = (node("a"), node("b"));
    let lists = NodeLists::default();
    let decode = |fields: &[(u32, &[u8])]| {
        read_answer(true, AmMethod::Allocate, parts(fields), &lists).unwrap()
    };
    let first = decode(&[(ALLOCATE_RESPONSE, b""), (NODES, &one), (NODES, &other)]);
    assert_eq!(first.nodes.nodes(), [known("a"), known("b")]);
    // The AM's part has changed, the list has not.
    let am = b"\x10\x07";
    let again = decode(&[(ALLOCATE_RESPONSE, am), (NODES, &one), (NODES, &other)]);
    assert!(again.nodes.is_same(&first.nodes));
    assert_eq!(again.message.encode(), &am[..]);
    // A list in another order, and answers that are not an AM's part with a list.
    for (fields, message) in [
        (
            &[(ALLOCATE_RESPONSE, &am[..]), (NODES, &other), (NODES, &one)][..],
            &am[..],
        ),
        (
            &[(NODES, &one), (NODES, &other), (ALLOCATE_RESPONSE, am)],
            am,
        ),
        (
            &[
                (ALLOCATE_RESPONSE, am),
                (NODES, &one),
                (ALLOCATE_RESPONSE, b"\x18\x01"),
            ],
            b"\x10\x07\x18\x01",
        ),
        (
            &[(ALLOCATE_RESPONSE, am), (NODES, &one), (9, b"unknown")],
            am,
        ),
    ] {
        for _ in 0..2 {
            let answer = decode(fields);
            let nodes = fields.iter().filter(|(number, _)| *number == NODES);
            assert_eq!(answer.nodes.nodes().len(), nodes.count());
            assert!(!answer.nodes.is_same(&first.nodes));
            assert_eq!(answer.message.encode(), message, "{fields:?}");
        }
    }
    assert!(decode(&[(ALLOCATE_RESPONSE, am)]).nodes.nodes().is_empty());
    let lost = decode_without_am(&lists);
    assert!(matches!(lost, Err(AnswerError::Incomplete(_))));
}

fn decode_without_am(lists: &NodeLists) -> Result<Response, AnswerError> {
    read_answer(true, AmMethod::Allocate, Bytes::new(), lists)
}

fn key() -> MasterKey {
    MasterKey::new(1, Bytes::from_static(b"key"))
}

struct Keys;

impl SecretManager for Keys {
    fn kind(&self) -> &'static str {
        kind::AM_RM_TOKEN
    }

    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException> {
        Ok(Verified {
            password: key().sign(identifier).to_vec(),
            user: "attempt".to_owned(),
            owner: None,
        })
    }
}

struct Rm;

impl Service for Rm {
    fn protocol(&self) -> &'static str {
        application_master::PROTOCOL
    }

    fn version(&self) -> u64 {
        application_master::VERSION
    }

    fn call<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a str,
        _: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, RemoteException>> {
        Box::pin(async { Ok(Bytes::new()) })
    }
}

#[tokio::test]
async fn a_resource_manager_whose_name_has_a_dead_first_address_is_reached() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let dead = HeldPort::free();
    let server = RpcServer::builder(ServerAuth::Token(Arc::new(Keys))).service(Rm);
    let (server, alive) = server.bind(any).await.unwrap();
    let serving = tokio::spawn(server.serve(CancellationToken::new()));
    let _serving = AbortOnDropHandle::new(serving);
    let mut rms = managers(Duration::from_secs(900));
    rms.dialer = Dialer::new(Arc::new(vec![dead.address(), alive]));
    let token = Token::sign(&key(), Bytes::from_static(b"id"), kind::AM_RM_TOKEN, "");
    let mut forwarder = RmForwarder::new(Arc::new(rms), token);
    let request = Request::new(AmMethod::Allocate, RawMessage::default());
    let answer = forwarder.call(&request, Instant::now() + HOLD_MAX).await;
    assert!(answer.is_ok(), "{answer:?}");
}
