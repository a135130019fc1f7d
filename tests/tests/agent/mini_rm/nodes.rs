//! Nodes that report what cannot be.

use std::net::SocketAddr;

use records::{ApplicationId, NodeId, Resource};
use test_support::scripted::{LaunchRecorder, submit};
use test_support::simulated::SimulatedNode;
use tests::http;
use tokio_util::sync::CancellationToken;
use wire::exception::HadoopException;
use wire::proto::hadoop_yarn::{
    ContainerIdProto, ContainerStateProto, ContainerStatusProto, NodeActionProto,
    NodeHeartbeatRequestProto, NodeIdProto, NodeStatusProto, OpportunisticContainersStatusProto,
    RegisterNodeManagerRequestProto, ResourceProto, UnRegisterNodeManagerRequestProto,
};
use wire::protocol::resource_tracker::{
    self, NodeHeartbeat, RegisterNodeManager, UnRegisterNodeManager,
};
use wire::rpc::{ClientAuth, ClientOptions, RpcClient};

use crate::mini_rm::distributed::{ENABLED, SIZE, runtime, start_rm};

fn node(port: u16) -> NodeId {
    NodeId {
        host: "127.0.0.1".to_owned(),
        port,
    }
}

async fn connect(tracker: SocketAddr) -> RpcClient {
    let auth = ClientAuth::Simple {
        user: "node".to_owned(),
    };
    let options = ClientOptions::default();
    RpcClient::connect(tracker, resource_tracker::PROTOCOL, auth, &options)
        .await
        .unwrap()
}

/// Expects that an application's master is launched on a valid node, which has capacity for it and
/// is last by its name.
async fn assert_serves(addresses: mini_rm::Addresses, stop: CancellationToken) {
    let mut pad = LaunchRecorder::open(stop.clone()).await;
    let offers = Resource::new(8_192, 8);
    let node = SimulatedNode::register(addresses.tracker, pad.node_id(), offers).await;
    pad.trust(node.keys.0.clone().expect("a registration has keys"));
    let id = submit(addresses.client, SIZE).await;
    let launched = pad.launched().await;
    assert_eq!(launched.attempt.application_id, id);
    let get = move || http::get_json(&format!("http://{}/ws/v1/cluster/metrics", addresses.web));
    let metrics = tokio::task::spawn_blocking(get).await.unwrap().unwrap();
    assert!(metrics["clusterMetrics"].is_object(), "{metrics}");
    stop.cancel();
}

fn sized(id: NodeIdProto, memory: i64, virtual_cores: i32) -> RegisterNodeManagerRequestProto {
    RegisterNodeManagerRequestProto {
        node_id: Some(id),
        resource: Some(ResourceProto {
            memory: Some(memory),
            virtual_cores: Some(virtual_cores),
            ..ResourceProto::default()
        }),
        ..RegisterNodeManagerRequestProto::default()
    }
}

#[test]
fn a_node_that_does_not_say_who_or_how_large_it_is_is_refused() {
    runtime().block_on(async {
        let stop = CancellationToken::new();
        let (_rm, addresses) = start_rm(&ENABLED, stop.clone()).await;
        let client = connect(addresses.tracker).await;
        let good = NodeIdProto::from(&node(1));
        let portless = NodeIdProto {
            port: Some(-1),
            ..good.clone()
        };
        for request in [
            RegisterNodeManagerRequestProto::default(),
            RegisterNodeManagerRequestProto {
                node_id: Some(good.clone()),
                ..RegisterNodeManagerRequestProto::default()
            },
            sized(NodeIdProto::default(), 1024, 1),
            sized(portless, 1024, 1),
            sized(good.clone(), -1, 1),
            sized(good, 1024, i32::MIN),
        ] {
            let refusal = client.call::<RegisterNodeManager>(&request).await;
            let refusal = refusal.unwrap_err();
            let exception = refusal.remote().expect("it answers");
            assert!(exception.is(HadoopException::YarnException), "{exception}");
        }
        let nobody = UnRegisterNodeManagerRequestProto::default();
        assert!(client.call::<UnRegisterNodeManager>(&nobody).await.is_err());
        assert_serves(addresses, stop).await;
    });
}

#[test]
fn a_heartbeat_of_a_node_that_is_not_known_is_answered_with_resync() {
    runtime().block_on(async {
        let stop = CancellationToken::new();
        let (_rm, addresses) = start_rm(&ENABLED, stop.clone()).await;
        let client = connect(addresses.tracker).await;
        let unknown = NodeStatusProto {
            node_id: Some((&node(7)).into()),
            response_id: Some(i32::MIN),
            ..NodeStatusProto::default()
        };
        for node_status in [None, Some(NodeStatusProto::default()), Some(unknown)] {
            let request = NodeHeartbeatRequestProto {
                node_status,
                ..NodeHeartbeatRequestProto::default()
            };
            let answer = client.call::<NodeHeartbeat>(&request).await.unwrap();
            assert_eq!(answer.node_action(), NodeActionProto::Resync);
        }
        assert_serves(addresses, stop).await;
    });
}

/// Returns a status of a container of another ResourceManager, or of none at all.
fn strange(number: i64, container_id: Option<ContainerIdProto>) -> ContainerStatusProto {
    let complete = number % 2 == 0;
    let state = if complete {
        ContainerStateProto::CComplete
    } else {
        ContainerStateProto::CRunning
    };
    ContainerStatusProto {
        container_id,
        state: Some(state.into()),
        exit_status: Some(i32::MIN),
        diagnostics: Some("\u{0}".repeat(100)),
        capability: Some(ResourceProto {
            memory: Some(i64::MAX),
            virtual_cores: Some(i32::MAX),
            ..ResourceProto::default()
        }),
        ..ContainerStatusProto::default()
    }
}

#[test]
fn numbers_as_large_as_they_can_be_do_no_harm() {
    runtime().block_on(async {
        let stop = CancellationToken::new();
        let (_rm, addresses) = start_rm(&ENABLED, stop.clone()).await;
        let client = connect(addresses.tracker).await;
        for port in 1..=4 {
            let id = NodeIdProto::from(&node(port));
            // Without a virtual core no container is placed there.
            let vcores = if port == 4 { 0 } else { i32::MAX };
            let request = sized(id.clone(), i64::MAX, vcores);
            client.call::<RegisterNodeManager>(&request).await.unwrap();
            let attempt = ApplicationId::new(1, 1).attempt(1);
            let mut containers: Vec<_> = (0..1000)
                .map(|number| {
                    let id = attempt.container(number);
                    strange(number, Some(id.into()))
                })
                .collect();
            containers.push(strange(1, None));
            containers.push(strange(2, Some(ContainerIdProto::default())));
            let heartbeat = NodeHeartbeatRequestProto {
                node_status: Some(NodeStatusProto {
                    node_id: Some(id),
                    response_id: Some(0),
                    containers_statuses: containers,
                    opportunistic_containers_status: Some(OpportunisticContainersStatusProto {
                        running_opport_containers: Some(i32::MAX),
                        opport_memory_used: Some(i64::MAX),
                        opport_cores_used: Some(i32::MAX),
                        queued_opport_containers: Some(i32::MAX),
                        wait_queue_length: Some(i32::MAX),
                        estimated_queue_wait_time: Some(i32::MAX),
                        opport_queue_capacity: Some(i32::MAX),
                    }),
                    ..NodeStatusProto::default()
                }),
                ..NodeHeartbeatRequestProto::default()
            };
            let answer = client.call::<NodeHeartbeat>(&heartbeat).await.unwrap();
            assert_eq!(answer.node_action(), NodeActionProto::Normal);
            // Unknown containers are ended, or forgotten where they ended by themselves.
            assert_eq!(answer.containers_to_cleanup.len(), 500);
            assert_eq!(answer.containers_to_be_removed_from_nm.len(), 500);
        }
        let get = move |path: &str| {
            http::get_json(&format!("http://{}/ws/v1/cluster/{path}", addresses.web))
        };
        let answers =
            tokio::task::spawn_blocking(move || ["metrics", "nodes", "scheduler", "info"].map(get));
        for answer in answers.await.unwrap() {
            answer.unwrap();
        }
        // Lost, so that they do not get the master.
        for port in 1..=4 {
            let goodbye = UnRegisterNodeManagerRequestProto {
                node_id: Some((&node(port)).into()),
            };
            client
                .call::<UnRegisterNodeManager>(&goodbye)
                .await
                .unwrap();
        }
        assert_serves(addresses, stop).await;
    });
}
