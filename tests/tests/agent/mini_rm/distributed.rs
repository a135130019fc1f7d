//! Masters and nodes over the network: containers that a node's own allocator allocates.

use hadoop_conf::HostPort;
use mini_rm::Addresses;
use mini_rm::config::Config;
use records::Resource;
use test_support::scripted::{LaunchRecorder, ScriptedAmRmClient, opportunistic_container, submit};
use test_support::simulated::SimulatedNode;
use tokio_util::sync::CancellationToken;
use wire::proto::hadoop_yarn::{AllocateRequestProto, ExecutionTypeProto};
use wire::token::Token;

pub(crate) const SIZE: Resource = Resource::new(1_024, 1);

/// A ResourceManager, one node and a master that was launched on it and has not registered.
pub(crate) struct Cluster {
    _rm: mini_rm::Running,
    pub(crate) node: SimulatedNode,
    pub(crate) master: ScriptedAmRmClient,
    /// AMRMToken of the launch.
    pub(crate) token: Token,
    pub(crate) addresses: Addresses,
    pub(crate) stop: CancellationToken,
}

impl Cluster {
    pub(crate) async fn start(properties: &[(&str, &str)]) -> Self {
        let stop = CancellationToken::new();
        let (rm, addresses) = start_rm(properties, stop.clone()).await;
        let mut pad = LaunchRecorder::open(stop.clone()).await;
        let offers = Resource::new(8_192, 8);
        let node = SimulatedNode::register(addresses.tracker, pad.node_id(), offers).await;
        pad.trust(node.keys.0.clone().expect("a registration has keys"));
        submit(addresses.client, SIZE).await;
        let launched = pad.launched().await;
        let token = launched.token.clone();
        let master = ScriptedAmRmClient::connect(addresses.scheduler, launched).await;
        Self {
            _rm: rm,
            node,
            master,
            token,
            addresses,
            stop,
        }
    }
}

pub(crate) async fn start_rm(
    properties: &[(&str, &str)],
    stop: CancellationToken,
) -> (mini_rm::Running, Addresses) {
    start_rm_with(properties, |_| {}, stop).await
}

/// Starts as [`start_rm`] does, with changes that no property can make.
pub(crate) async fn start_rm_with(
    properties: &[(&str, &str)],
    change: impl FnOnce(&mut Config),
    stop: CancellationToken,
) -> (mini_rm::Running, Addresses) {
    let mut config = Config::of(properties).expect("the properties are good");
    for address in [
        &mut config.client,
        &mut config.scheduler,
        &mut config.tracker,
        &mut config.web,
    ] {
        *address = HostPort::new("127.0.0.1", 0);
    }
    change(&mut config);
    let rm = mini_rm::start(config, OPEN_FILES, stop)
        .await
        .expect("ports are free");
    let addresses = rm.addresses;
    (rm, addresses)
}

/// Files that a ResourceManager in this process may have open, as far as it knows.
const OPEN_FILES: u64 = 4_096;

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("threads can be made")
}

pub(crate) const ENABLED: [(&str, &str); 2] = [
    (
        "yarn.resourcemanager.opportunistic-container-allocation.enabled",
        "true",
    ),
    ("yarn.nodemanager.distributed-scheduling.enabled", "true"),
];

#[test]
fn a_container_that_a_node_gave_out_lives_and_its_end_is_told_once() {
    runtime().block_on(async {
        let mut cluster = Cluster::start(&ENABLED).await;
        let (node, master) = (&mut cluster.node, &mut cluster.master);
        node.heartbeat().await;
        let registered = master.register_distributed().await.unwrap();
        let id = master
            .attempt
            .container(registered.container_id_start() - 1);
        let given = opportunistic_container(id, &node.id, SIZE);
        let call = AllocateRequestProto::default;
        master
            .allocate_distributed(call(), vec![given])
            .await
            .unwrap();
        node.running
            .insert(id, (SIZE, ExecutionTypeProto::Opportunistic));
        node.heartbeat().await;
        assert!(node.running.contains_key(&id), "it may go on");
        node.running.clear();
        node.ended.insert(id, 3);
        node.heartbeat().await;
        let answer = master
            .allocate_distributed(call(), Vec::new())
            .await
            .unwrap();
        let statuses = answer
            .allocate_response
            .unwrap()
            .completed_container_statuses;
        assert_eq!(statuses.len(), 1);
        assert_eq!(statuses[0].exit_status(), 3);
        let answer = master
            .allocate_distributed(call(), Vec::new())
            .await
            .unwrap();
        let statuses = answer
            .allocate_response
            .unwrap()
            .completed_container_statuses;
        assert!(statuses.is_empty());
        node.heartbeat().await;
        assert!(node.ended.is_empty(), "it may be forgotten");
        let url = format!("http://{}/ws/v1/cluster/nodes", cluster.addresses.web);
        let nodes = tokio::task::spawn_blocking(move || tests::http::get_json(&url));
        let nodes = nodes.await.unwrap().unwrap();
        assert_eq!(nodes["nodes"]["node"][0]["numContainers"], 1, "{nodes}");
        master.finish().await;
        cluster.stop.cancel();
    });
}

#[test]
fn the_plain_protocol_is_served_beside_it() {
    runtime().block_on(async {
        let mut cluster = Cluster::start(&ENABLED).await;
        cluster.master.register().await;
        let guaranteed = ScriptedAmRmClient::ask(2, SIZE, ExecutionTypeProto::Guaranteed);
        let request = AllocateRequestProto {
            ask: vec![guaranteed],
            ..AllocateRequestProto::default()
        };
        let answer = cluster.master.allocate(request).await.unwrap();
        assert_eq!(answer.allocated_containers.len(), 2);
        cluster.stop.cancel();
    });
}

#[test]
fn without_the_property_there_is_no_such_protocol() {
    runtime().block_on(async {
        let cluster = Cluster::start(&ENABLED[..1]).await;
        let refusal = cluster.master.register_distributed().await.unwrap_err();
        let exception = refusal.remote().expect("the ResourceManager answers");
        assert!(
            exception.class_name.contains("RpcNoSuchProtocolException"),
            "{exception}"
        );
        cluster.stop.cancel();
    });
}
