//! Role histories over real connections and files: a service's second run, and masters without one.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use amrm_proxy::config::{
    FilesConfig, HistoryConfig, HistoryRule, InterceptorKind, OptIn, ProxyConfig,
};
use amrm_proxy::observe::{HistoryEvent, Observation};
use hadoop_fs::Uri;
use prost::Message as _;
use tokio::time::timeout;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerIdProto, ContainerProto, NodeIdProto,
    PriorityProto, ResourceRequestProto,
};

use crate::node::{Am, Node, config, start_scheduler};
use test_support::ids::attempt;
use test_support::scripted::{Script, answering};

/// Time in which a save ends, on a busy machine.
const SAVE_DEADLINE: Duration = Duration::from_secs(60);

/// Returns a proxy that keeps histories in this directory, for this user.
fn with_history(rm: SocketAddr, directory: &Path, user: &str) -> ProxyConfig {
    let mut config = config(&[rm]);
    config.pipeline.insert(2, InterceptorKind::RoleHistory);
    config.role_history = Some(HistoryConfig {
        files: FilesConfig {
            directory: Uri::file(directory.display().to_string()),
            user_bytes_max: 1 << 20,
        },
        placement_timeout_ms: 30_000,
        rules: vec![HistoryRule {
            name: "store".to_owned(),
            user: Some(user.to_owned()),
            tag: None,
            opt_in: OptIn {
                service: "store".to_owned(),
                is_guaranteed: true,
                policy: String::new(),
            },
        }],
    });
    config
}

const PRIORITY: PriorityProto = PriorityProto { priority: Some(4) };

fn ask(response_id: i32) -> AllocateRequestProto {
    AllocateRequestProto {
        ask: vec![ResourceRequestProto {
            priority: Some(PRIORITY),
            resource_name: Some("*".to_owned()),
            num_containers: Some(1),
            ..ResourceRequestProto::default()
        }],
        response_id: Some(response_id),
        ..AllocateRequestProto::default()
    }
}

/// Returns a ResourceManager that gives a container on `n7` to each call that asks for one.
fn giving() -> Arc<Script> {
    answering(|call| {
        if call.method != "allocate" {
            return Ok(bytes::Bytes::new());
        }
        let request = AllocateRequestProto::decode(call.request.clone()).unwrap();
        let container = ContainerProto {
            id: Some(ContainerIdProto::from(attempt(1).container(2))),
            node_id: Some(NodeIdProto {
                host: Some("n7".to_owned()),
                port: Some(1),
            }),
            priority: Some(PRIORITY),
            ..ContainerProto::default()
        };
        let is_asked = !request.ask.is_empty();
        let response = AllocateResponseProto {
            response_id: Some(request.response_id() + 1),
            allocated_containers: is_asked.then_some(container).into_iter().collect(),
            ..AllocateResponseProto::default()
        };
        Ok(response.encode_to_vec().into())
    })
}

/// Calls until the history is saved.
async fn wait_saved(node: &Node, am: &Am) {
    let saved = Observation::History(HistoryEvent::Saved);
    let mut response_id = 1;
    while !node.seen.all().contains(&saved) {
        let idle = AllocateRequestProto {
            response_id: Some(response_id),
            ..AllocateRequestProto::default()
        };
        am.call("allocate", idle.encode_to_vec()).await.unwrap();
        response_id += 1;
        // Saves of one attempt have an interval.
        node.set_clock_ms(u64::try_from(response_id).unwrap() * 1_000);
    }
}

#[tokio::test]
async fn the_next_run_of_a_service_asks_for_the_nodes_of_the_last_one() {
    let directory = tempfile::tempdir().unwrap();
    let rm = start_scheduler(giving()).await;
    let first = Node::start(with_history(rm.address, directory.path(), "alice")).await;
    let am = first.connect(first.admit(attempt(1), rm.token(attempt(1))));
    let am = am.await.unwrap();
    am.call("registerApplicationMaster", Vec::new())
        .await
        .unwrap();
    let given = am.call("allocate", ask(0).encode_to_vec()).await.unwrap();
    let given = AllocateResponseProto::decode(given).unwrap();
    assert_eq!(given.allocated_containers.len(), 1);
    timeout(SAVE_DEADLINE, wait_saved(&first, &am))
        .await
        .expect("the history is saved");
    assert_eq!(first.proxy.role_histories()[0].service, "store");
    drop(first);

    // Another node, where the next master of the service runs.
    let second = Node::start(with_history(rm.address, directory.path(), "alice")).await;
    let am = second.connect(second.admit(attempt(2), rm.token(attempt(2))));
    let am = am.await.unwrap();
    am.call("registerApplicationMaster", Vec::new())
        .await
        .unwrap();
    let mut response_id = 0;
    // A slow disk may bring the history after the registration; the ask changes then.
    loop {
        am.call("allocate", ask(response_id).encode_to_vec())
            .await
            .unwrap();
        let calls = rm.calls();
        let last = calls.last().unwrap();
        let sent = AllocateRequestProto::decode(last.request.clone()).unwrap();
        let places = sent.ask.iter().map(|line| line.resource_name().to_owned());
        let mut places: Vec<_> = places.collect();
        places.sort();
        if places != ["*"] {
            assert_eq!(places, ["*", "/default-rack", "n7"]);
            break;
        }
        response_id += 1;
    }
}

#[tokio::test]
async fn a_master_that_opts_in_to_nothing_sees_no_change() {
    let directory = tempfile::tempdir().unwrap();
    let rm = start_scheduler(giving()).await;
    // The rule is another user's.
    let node = Node::start(with_history(rm.address, directory.path(), "bob")).await;
    let am = node.connect(node.admit(attempt(1), rm.token(attempt(1))));
    let am = am.await.unwrap();
    for response_id in 0..3 {
        let request = ask(response_id).encode_to_vec();
        let answer = am.call("allocate", request.clone()).await.unwrap();
        let answer = AllocateResponseProto::decode(answer).unwrap();
        assert_eq!(answer.allocated_containers.len(), 1);
        assert_eq!(rm.calls().last().unwrap().request, request);
    }
    assert!(node.proxy.role_histories().is_empty());
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(files.is_empty());
}
