//! Opportunistic containers after looks at nodes: a ResourceManager that lists one node and knows
//! more, and nodes whose web ports the test scripts.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use amrm_proxy::config::InterceptorKind;
use amrm_proxy::observe::{LookNumbers, Observation};
use amrm_proxy::store::{AttemptRecords, NoStore, Store, StoredState};
use amrm_proxy::{LookParts, LookSettings, NodeTokenKeys};
use bytes::Bytes;
use records::{ApplicationAttemptId, NodeId, Resource};
use sched::Placement;
use test_support::ids::attempt;
use test_support::scripted::{
    IdleScheduler, Launched, ScriptedAmRmClient, ScriptedScheduler, ScriptedWebPort, WebAnswer,
};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, ContainerProto, ExecutionTypeProto, GetClusterNodesRequestProto,
    GetClusterNodesResponseProto, NodeReportProto, NodeStateProto, RemoteNodeProto,
};
use wire::protocol::application_client::{ApplicationClientProtocol, ApplicationClientService};
use wire::rpc::{Caller, RpcServer, ServerAuth};
use wire::token::MasterKey;

use crate::node::{Keys, Node, config};

/// Deadline of a test on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Size of every container: a GiB and a core.
const SIZE: Resource = Resource::new(1_024, 1);

/// Load of a scripted node of eight places.
#[derive(Default)]
struct Load {
    running: AtomicU32,
    queued: AtomicU32,
}

impl Load {
    fn set(&self, running: u32, queued: u32) {
        self.running.store(running, Ordering::SeqCst);
        self.queued.store(queued, Ordering::SeqCst);
    }

    fn answer(&self, path: &str) -> WebAnswer {
        if path != "/jmx?qry=Hadoop:service=NodeManager,name=NodeManagerMetrics" {
            return WebAnswer::Whole(404, String::new());
        }
        let running = self.running.load(Ordering::SeqCst);
        let (queued, free) = (self.queued.load(Ordering::SeqCst), 8 - i64::from(running));
        let free = free - i64::from(queued);
        WebAnswer::Whole(
            200,
            format!(
                "{{\"beans\": [{{\"name\": \"Hadoop:service=NodeManager,name=NodeManagerMetrics\", \
                 \"ContainersRunning\": {running}, \"ContainersOpportunisticQueued\": {queued}, \
                 \"AvailableGB\": {free}, \"AvailableVCores\": {free}, \
                 \"TakesOpportunisticContainers\": 1}}]}}"
            ),
        )
    }
}

/// Node of the cluster.
struct Host {
    id: NodeId,
    load: Arc<Load>,
    port: ScriptedWebPort,
}

impl Host {
    async fn start(number: usize) -> Self {
        let load = Arc::new(Load::default());
        let answers = Arc::clone(&load);
        Self {
            port: ScriptedWebPort::open(move |path| answers.answer(path)).await,
            load,
            id: id_of(number),
        }
    }

    /// Starts three hosts; returns them, and what the ResourceManager knows of each.
    async fn start_three() -> ([Self; 3], Vec<(NodeId, SocketAddr)>) {
        let hosts = [
            Self::start(0).await,
            Self::start(1).await,
            Self::start(2).await,
        ];
        let nodes = hosts.each_ref();
        let nodes = nodes.map(|host| (host.id.clone(), host.port.address));
        (hosts, nodes.into())
    }
}

fn id_of(number: usize) -> NodeId {
    NodeId {
        host: format!("n{number}"),
        port: 8041,
    }
}

/// The ResourceManager's service for clients, which knows these nodes.
#[derive(Default)]
struct Clients {
    nodes: Vec<(NodeId, SocketAddr)>,
    users: Mutex<Vec<String>>,
}

impl ApplicationClientProtocol for Clients {
    async fn get_cluster_nodes(
        &self,
        caller: &Caller,
        request: GetClusterNodesRequestProto,
    ) -> Result<GetClusterNodesResponseProto, RemoteException> {
        let running = NodeStateProto::NsRunning;
        assert_eq!(request.node_states().collect::<Vec<_>>(), [running]);
        self.users.lock().unwrap().push(caller.user.clone());
        let report = |(id, address): &(NodeId, SocketAddr)| NodeReportProto {
            node_id: Some(id.into()),
            http_address: Some(address.to_string()),
            rack_name: Some("/rack".to_owned()),
            capability: Some(Resource::new(8_192, 8).into()),
            node_state: Some(running.into()),
            ..NodeReportProto::default()
        };
        Ok(GetClusterNodesResponseProto {
            node_reports: self.nodes.iter().map(report).collect(),
        })
    }
}

/// A node with a proxy, and a cluster around it.
struct Cluster {
    clients: Arc<Clients>,
    node: Node,
    am: ScriptedAmRmClient,
    asks: u64,
    _rm: ScriptedScheduler,
    _stop: DropGuard,
}

impl Cluster {
    /// Starts a cluster whose ResourceManager lists the first node only, and an AM.
    async fn start(nodes: Vec<(NodeId, SocketAddr)>, wait_max: Duration) -> Self {
        Self::start_with(nodes, wait_max, Arc::new(NoStore), StoredState::default()).await
    }

    /// Starts a cluster with a node that keeps records.
    async fn start_with(
        nodes: Vec<(NodeId, SocketAddr)>,
        wait_max: Duration,
        store: Arc<dyn Store>,
        found: StoredState,
    ) -> Self {
        let (first, web) = &nodes[0];
        let listed = RemoteNodeProto {
            node_id: Some(first.into()),
            http_address: Some(web.to_string()),
            rack_name: Some("/rack".to_owned()),
            node_partition: None,
        };
        let idle = IdleScheduler {
            nodes: vec![listed],
        };
        let rm = ScriptedScheduler::open(idle.into_script()).await;
        let clients = Arc::new(Clients {
            nodes,
            ..Clients::default()
        });
        let service = ApplicationClientService::new(Arc::clone(&clients));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = RpcServer::builder(ServerAuth::Simple).service(service);
        let (server, for_clients) = server.bind(any).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(stop.clone()));
        let mut config = config(&[rm.address]);
        config.rm.distributed_scheduling = true;
        config.pipeline = vec![
            InterceptorKind::DistributedScheduler,
            InterceptorKind::Forwarder,
        ];
        config.allocator.placement = Placement::Look;
        let key = |id| MasterKey::new(id, Bytes::from_static(b"of the cluster"));
        let keys = NodeTokenKeys {
            container_token: key(1),
            nm_token: key(2),
            rm_identifier: 7,
        };
        let looks = LookParts {
            rm_clients: vec![for_clients.to_string()],
            user: "yarn".to_owned(),
            settings: LookSettings {
                queue_length_max: Some(5),
                wait_max,
                binds_late: false,
            },
        };
        let parts = (Arc::new(Keys(keys)) as Arc<_>, looks);
        let node = Node::start_keyed(config, store, found, parts).await;
        node.proxy.set_queue_limit(Some(2));
        let token = node.admit(attempt(1), rm.token(attempt(1)));
        let launched = Launched {
            attempt: attempt(1),
            container: attempt(1).container(1),
            token,
        };
        let am = ScriptedAmRmClient::connect(node.address, launched).await;
        am.register().await;
        Self {
            clients,
            node,
            am,
            asks: 0,
            _rm: rm,
            _stop: stop.drop_guard(),
        }
    }

    /// Makes a heartbeat a second after the last one that wants `count` containers; returns the
    /// hosts of those that the AM gets.
    async fn beat(&mut self, count: Option<i32>) -> Vec<String> {
        self.asks += 1;
        self.node.set_clock_ms(self.asks * 1_000);
        let ask = count
            .map(|count| ScriptedAmRmClient::ask(count, SIZE, ExecutionTypeProto::Opportunistic));
        let request = AllocateRequestProto {
            ask: ask.into_iter().collect(),
            ..AllocateRequestProto::default()
        };
        let answer = self.am.allocate(request).await.unwrap();
        let host = |container: ContainerProto| container.node_id.unwrap().host().to_owned();
        let mut hosts: Vec<_> = answer.allocated_containers.into_iter().map(host).collect();
        hosts.sort();
        hosts
    }

    /// Makes heartbeats until the AM gets containers; returns their hosts.
    async fn beat_until_given(&mut self) -> Vec<String> {
        let given = async {
            loop {
                let hosts = self.beat(None).await;
                if !hosts.is_empty() {
                    return hosts;
                }
            }
        };
        timeout(DEADLINE, given).await.expect("containers come")
    }

    fn looks(&self) -> Vec<LookNumbers> {
        let seen = self.node.seen.all().into_iter();
        seen.filter_map(|observation| {
            let Observation::Looked(numbers) = observation else {
                return None;
            };
            Some(numbers)
        })
        .collect()
    }
}

#[tokio::test]
async fn containers_go_to_nodes_with_room_and_the_rest_waits_for_the_next_heartbeat() {
    let (hosts, nodes) = Host::start_three().await;
    // The listed node has no room, and neither has one of the others.
    hosts[0].load.set(8, 2);
    hosts[1].load.set(6, 0);
    hosts[2].load.set(8, 2);
    let mut cluster = Cluster::start(nodes, DEADLINE).await;
    assert_eq!(cluster.beat(Some(9)).await, [""; 0]);
    let given = cluster.beat_until_given().await;
    // Two places and a queue of two, the ResourceManager's limit.
    assert_eq!(given, ["n1"; 4]);
    hosts[1].load.set(8, 2);
    assert_eq!(cluster.beat(None).await, [""; 0]);
    hosts[2].load.set(5, 0);
    assert_eq!(cluster.beat_until_given().await, ["n2"; 5]);
    // All are served: nobody is looked at any more.
    let requests = hosts.each_ref().map(|host| host.port.requests());
    assert_eq!(cluster.beat(None).await, [""; 0]);
    for (host, requests) in hosts.iter().zip(requests) {
        assert_eq!(
            (host.port.connections(), host.port.requests()),
            (1, requests)
        );
    }
    let looks = cluster.looks();
    assert!(
        looks
            .iter()
            .all(|look| look.asked == look.answered && look.unseen == 0)
    );
    assert_eq!(looks[0].held_back, 9);
    assert_eq!(looks.last().unwrap().held_back, 0);
    let users = cluster.clients.users.lock().unwrap();
    assert!(!users.is_empty() && users.iter().all(|user| user == "yarn"));
}

#[tokio::test]
async fn containers_are_spread_over_nodes_with_equal_loads() {
    let (hosts, nodes) = Host::start_three().await;
    hosts[0].load.set(8, 2);
    let mut cluster = Cluster::start(nodes, DEADLINE).await;
    assert_eq!(cluster.beat(Some(16)).await, [""; 0]);
    let given = cluster.beat_until_given().await;
    assert_eq!(given, [["n1"; 8], ["n2"; 8]].concat());
}

/// Store that keeps the nodes of the cluster alone.
#[derive(Default)]
struct KeptNodes(Mutex<Option<Vec<u8>>>);

impl Store for KeptNodes {
    fn put_keys(&self, _: Vec<u8>) {}

    fn put_nodes(&self, value: Option<Vec<u8>>) {
        *self.0.lock().unwrap() = value;
    }

    fn attempt(&self, attempt: ApplicationAttemptId) -> Box<dyn AttemptRecords> {
        NoStore.attempt(attempt)
    }
}

#[tokio::test]
async fn the_nodes_of_the_cluster_are_known_after_a_restart() {
    let (hosts, nodes) = Host::start_three().await;
    hosts[0].load.set(8, 2);
    let store = Arc::new(KeptNodes::default());
    let found = StoredState::default();
    let kept = Arc::clone(&store) as Arc<_>;
    let mut cluster = Cluster::start_with(nodes.clone(), DEADLINE, kept, found).await;
    assert_eq!(
        cluster.beat(Some(1)).await,
        [""; 0],
        "the listed node is full"
    );
    cluster.beat_until_given().await;
    drop(cluster);
    let found = StoredState {
        nodes: store.0.lock().unwrap().take(),
        ..StoredState::default()
    };
    assert!(found.nodes.is_some());
    let kept = Arc::clone(&store) as Arc<_>;
    let mut cluster = Cluster::start_with(nodes, DEADLINE, kept, found).await;
    assert_eq!(cluster.beat(Some(4)).await.len(), 4, "in the first call");
    assert!(cluster.clients.users.lock().unwrap().is_empty());
}

#[tokio::test]
async fn another_choice_of_nodes_is_taken_over_while_attempts_run() {
    let (hosts, nodes) = Host::start_three().await;
    for host in &hosts {
        host.load.set(8, 2);
    }
    let mut cluster = Cluster::start(nodes, DEADLINE).await;
    let settings = LookSettings {
        queue_length_max: Some(5),
        wait_max: DEADLINE,
        binds_late: false,
    };
    assert_eq!(cluster.beat(Some(4)).await, [""; 0], "no node has room");
    // Without looks, the list's only node gets its share whatever it has.
    for placement in [Placement::Spread, Placement::ListOrder] {
        cluster.node.proxy.change_looks(placement, settings);
        let looks = cluster.looks().len();
        assert_eq!(cluster.beat(None).await, ["n0"], "{placement:?}");
        assert_eq!(cluster.looks().len(), looks);
    }
    cluster.node.proxy.change_looks(Placement::Look, settings);
    assert_eq!(cluster.beat(None).await, [""; 0], "no node has room");
    hosts[2].load.set(0, 0);
    assert_eq!(cluster.beat_until_given().await, ["n2"; 2]);
}

#[tokio::test]
async fn nodes_that_never_answer_hold_no_call_and_are_soon_left_in_peace() {
    let silent = ScriptedWebPort::open(|_| WebAnswer::Silence).await;
    let nodes = (0..40).map(|number| (id_of(number), silent.address));
    let mut cluster = Cluster::start(nodes.collect(), Duration::from_millis(20)).await;
    let all = async {
        // By its own counts the AM gets every container at once.
        for _ in 0..60 {
            assert_eq!(cluster.beat(Some(1)).await.len(), 1);
        }
    };
    timeout(DEADLINE, all).await.expect("no call is held");
    let looks = cluster.looks();
    assert!(
        looks
            .iter()
            .all(|look| (look.answered, look.unseen) == (0, 1))
    );
    // Ten failures in a row, then none but a new try after longer and longer pauses.
    let tries = looks.iter().filter(|look| look.asked > 0).count();
    assert!((5..20).contains(&tries), "{tries}");
    assert!(silent.connections() <= 2 * tries);
}
