//! Masters behind an AMRMProxy: many of them, with keys that roll.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use amrm_proxy::config::{
    DistributedAllocatorConfig, FileAccess, InterceptorKind, ProxyConfig, ThrottleConfig,
    TokenPolicy,
};
use amrm_proxy::observe::NoObserver;
use amrm_proxy::rm_forwarder::RmConfig;
use amrm_proxy::store::{NoStore, StoredState};
use amrm_proxy::{
    Admission, AmStart, AmrmProxy, AmrmProxyService, LookParts, NodeKeys, NodeTokenKeys, ProxyParts,
};
use prost::Message as _;
use records::{ContainerId, EpochMillis, NodeId, Now, Resource};
use test_support::scripted::{LaunchRecorder, Launched, ScriptedAmRmClient, submit};
use test_support::simulated::SimulatedNode;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::credentials::Credentials;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, ContainerTokenIdentifierProto, ExecutionTypeProto,
};
use wire::protocol::application_master;
use wire::rpc::{ClientAuth, ClientOptions, RpcClient, RpcServer, ServerAuth};
use wire::secrets::RollTimes;
use wire::token::Token;

use crate::mini_rm::distributed::{ENABLED, runtime, start_rm_with};

/// Number of masters at once. A tenth of it is a busy node.
const MASTERS: usize = 100;

/// Number of containers of each master.
const WANTED: usize = 6;

/// Interval of key rolls: at least one during the life of each master. A machine that is busy
/// building may take a second from a master's launch to its first call, which its token has to
/// outlive.
const ROLLS: RollTimes = RollTimes {
    interval: 4_000,
    overlap: 2_500,
};

/// Duration of each master's life.
const LIFE: Duration = Duration::from_secs(6);

struct Keys(NodeTokenKeys);

impl NodeKeys for Keys {
    fn current(&self) -> Option<NodeTokenKeys> {
        Some(self.0.clone())
    }
}

/// Returns a proxy configured as a node's.
async fn start_proxy(
    scheduler: SocketAddr,
    keys: NodeTokenKeys,
    stop: &CancellationToken,
) -> (Arc<AmrmProxy>, SocketAddr) {
    let started = Instant::now();
    let config = ProxyConfig {
        pipeline: InterceptorKind::ALL.to_vec(),
        rm: RmConfig {
            addresses: vec![scheduler.to_string()],
            max_wait: None,
            retry_interval: Duration::from_millis(100),
            distributed_scheduling: true,
            protections: wire::protection::Protections::default(),
        },
        token: TokenPolicy::default(),
        keys: ROLLS,
        throttle: ThrottleConfig::default(),
        relabel: Vec::new(),
        role_history: None,
        allocator: DistributedAllocatorConfig::default(),
    };
    let parts = ProxyParts {
        store: Arc::new(NoStore),
        found: StoredState::default(),
        node_keys: Arc::new(Keys(keys)),
        files: FileAccess::default(),
        looks: LookParts::default(),
        reservations: None,
        observer: Arc::new(NoObserver),
        clock: Arc::new(move || Now {
            mono: started.elapsed().into(),
            wall: EpochMillis(test_support::now_ms()),
        }),
    };
    let (proxy, _update_task) = AmrmProxy::new(config, parts);
    let proxy = Arc::new(proxy);
    let (server, address) = RpcServer::builder(ServerAuth::Token(proxy.tokens()))
        .service(AmrmProxyService::new(Arc::clone(&proxy)))
        .bind((Ipv4Addr::LOCALHOST, 0).into())
        .await
        .expect("a port is free");
    tokio::spawn(server.serve(stop.clone()));
    let rolling = Arc::clone(&proxy);
    let rolled = stop.clone();
    tokio::spawn(async move { rolling.roll_keys(rolled).await });
    (proxy, address)
}

fn admit(proxy: &Arc<AmrmProxy>, launched: &Launched) -> Token {
    let credentials = Credentials {
        tokens: BTreeMap::from([(String::new(), launched.token.clone())]),
        ..Credentials::default()
    };
    let start = AmStart {
        attempt: launched.attempt,
        user: "simulated",
        tags: Vec::new(),
        role_history: None,
        credentials: &credentials.write_v0(),
    };
    let Ok(Admission::Admitted { credentials, start }) = proxy.admit(&start) else {
        panic!("a master with a token is proxied");
    };
    start.succeeded();
    let credentials = Credentials::read(&credentials.0).expect("the proxy writes credentials");
    credentials.tokens[""].clone()
}

/// Runs a master that gets its containers and then unregisters; returns their ids and hosts, and
/// its newest token.
async fn live(
    address: SocketAddr,
    launched: Launched,
    node_keys: NodeTokenKeys,
) -> (BTreeMap<ContainerId, String>, Token) {
    let mut token = launched.token.clone();
    let mut master = ScriptedAmRmClient::connect(address, launched).await;
    master.register().await;
    let mut got = BTreeMap::new();
    let size = Resource::new(64, 1);
    let count = i32::try_from(WANTED).expect("a small number");
    let mut asks = vec![ScriptedAmRmClient::ask(
        count,
        size,
        ExecutionTypeProto::Opportunistic,
    )];
    let began = Instant::now();
    while got.len() < WANTED || began.elapsed() < LIFE {
        let request = AllocateRequestProto {
            ask: std::mem::take(&mut asks),
            ..AllocateRequestProto::default()
        };
        let answer = master
            .allocate(request)
            .await
            .expect("a heartbeat is answered");
        for container in answer.allocated_containers {
            let id = container
                .id
                .as_ref()
                .and_then(|id| ContainerId::try_from(id).ok());
            let container_token = container.container_token.expect("a container has a token");
            let key = &node_keys.container_token;
            assert!(key.verify(&container_token.identifier, &container_token.password));
            let identifier = ContainerTokenIdentifierProto::decode(container_token.identifier)
                .expect("the proxy writes container tokens");
            assert_eq!(identifier.app_submitter(), "simulated");
            let host = identifier.nm_host_addr().to_owned();
            let known = got.insert(id.expect("a container has an id"), host);
            assert_eq!(known, None, "a container twice");
        }
        if let Some(renewed) = answer.am_rm_token {
            token = renewed.into();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    master.finish().await;
    (got, token)
}

#[test]
fn many_masters_get_their_containers_once_each_while_both_keys_roll() {
    runtime().block_on(async {
        let stop = CancellationToken::new();
        let rolling = |config: &mut mini_rm::config::Config| config.master_keys = ROLLS;
        let (_rm, addresses) = start_rm_with(&ENABLED, rolling, stop.clone()).await;
        let mut pad = LaunchRecorder::open(stop.clone()).await;
        // Capacity for every master, and two nodes more without any: only for their containers,
        // which wait in a queue.
        let offers = Resource::new(4_000_000, 10_000);
        let mut nodes =
            vec![SimulatedNode::register(addresses.tracker, pad.node_id(), offers).await];
        for port in [1, 2] {
            let id = NodeId {
                host: "elsewhere".to_owned(),
                port,
            };
            let no_room = Resource::new(512, 1);
            nodes.push(SimulatedNode::register(addresses.tracker, id, no_room).await);
        }
        let (nm_token, container_token) = nodes[0].keys.clone();
        let keys = NodeTokenKeys {
            container_token: container_token.expect("a registration has keys"),
            nm_token: nm_token.expect("a registration has keys"),
            rm_identifier: 1,
        };
        pad.trust(keys.nm_token.clone());
        let (proxy, address) = start_proxy(addresses.scheduler, keys.clone(), &stop).await;
        let heartbeats = tokio::spawn(async move {
            loop {
                for node in &mut nodes {
                    node.heartbeat().await;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        for _ in 0..MASTERS {
            submit(addresses.client, Resource::new(1_024, 1)).await;
        }
        let mut masters = JoinSet::new();
        for _ in 0..MASTERS {
            let mut launched = pad.launched().await;
            launched.token = admit(&proxy, &launched);
            masters.spawn(live(address, launched, keys.clone()));
        }
        let (mut ids, mut hosts) = (BTreeSet::new(), BTreeSet::new());
        let mut last = None;
        while let Some(master) = masters.join_next().await {
            let (got, token) = master.expect("no master panics");
            assert_eq!(got.len(), WANTED);
            hosts.extend(got.values().cloned());
            for id in got.into_keys() {
                assert!(ids.insert(id), "{id} belongs to two");
            }
            last = Some(token);
        }
        assert_eq!(ids.len(), MASTERS * WANTED);
        assert_eq!(hosts.len(), 3, "all nodes got some");
        assert_eq!(proxy.snapshot().pipelines, MASTERS);
        // The newest token of the last master is accepted by the proxy.
        let auth = ClientAuth::Token(last.expect("there was one"));
        let options = ClientOptions::default();
        let again = RpcClient::connect(address, application_master::PROTOCOL, auth, &options);
        again.await.expect("a renewed token counts");
        heartbeats.abort();
        stop.cancel();
    });
}
