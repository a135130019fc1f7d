//! The figures of one node.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use records::{ContainerId, NodeId, Resource};
use tests::node::NodeKind;
use tests::peer::{Nothing, Script};
use tests::played::open;
use tests::proc::processor_time;
use tests::proxied::{ProxiedPeers, start_master};
use tests::samples::Samples;
use tests::simulated::{Launched, SimulatedMaster, opportunistic_container};
use tokio::runtime::Runtime;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, DistributedSchedulingAllocateRequestProto, ExecutionTypeProto,
    RegisterApplicationMasterRequestProto, RemoteNodeProto,
};
use wire::protocol::application_master::{Allocate, RegisterApplicationMaster};
use wire::protocol::distributed_scheduling_am::AllocateForDistributedScheduling;
use wire::rpc::RpcClient;
use wire::token::Token;

/// Containers of one ask.
const HUNDRED: i32 = 100;

/// Nodes that the ResourceManager offers; Hadoop's default.
const NODES: u16 = 10;

/// Nodes when a hundred containers are asked for: a node gets one for each call that does not name its host.
const NODES_FOR_HUNDRED: u16 = 100;

/// What a container takes.
const SIZE: Resource = Resource::new(128, 1);

/// Masters before anything is measured, so that what a process needs once is there.
const FIRST: i32 = 20;

/// How much is done.
pub(crate) struct Effort {
    /// Masters that call at once.
    pub(crate) masters: i32,
    warm_up: usize,
    empty: usize,
    hundred: usize,
    period: Duration,
}

impl Effort {
    pub(crate) const QUICK: Self = Self {
        masters: 20,
        warm_up: 20,
        empty: 200,
        hundred: 20,
        period: Duration::from_secs(2),
    };
    pub(crate) const FULL: Self = Self {
        masters: 500,
        warm_up: 2_000,
        empty: 5_000,
        hundred: 300,
        period: Duration::from_secs(20),
    };
}

/// See the table.
pub(crate) struct Figures {
    /// The ResourceManager's answer to a call without asks.
    pub(crate) direct: Samples,
    /// The same through the proxy.
    pub(crate) empty: Samples,
    /// The ResourceManager's answer to a node that gave out a hundred.
    pub(crate) hundred_direct: Samples,
    /// A call of a master that gets a hundred.
    pub(crate) hundred: Samples,
    pub(crate) calls_per_s: f64,
    pub(crate) processors: f64,
    /// Without and with a master that has registered; of ours only, a JVM's memory says little.
    pub(crate) pipeline_kib: Option<(f64, f64)>,
}

/// A master that does one thing after the other.
struct Master {
    client: RpcClient,
    response_id: i32,
}

impl Master {
    async fn register(scheduler: SocketAddr, token: &Token) -> Self {
        let client = open(scheduler, token).await.expect("the token is good");
        let request = RegisterApplicationMasterRequestProto::default();
        let answer = client.call::<RegisterApplicationMaster>(&request).await;
        answer.expect("a master may register");
        Self {
            client,
            response_id: 0,
        }
    }

    /// One call; how long it took and how many containers it brought.
    async fn allocate(&mut self, request: AllocateRequestProto) -> (Duration, usize) {
        let request = AllocateRequestProto {
            response_id: Some(self.response_id),
            ..request
        };
        let begin = Instant::now();
        let answer = self.client.call::<Allocate>(&request).await;
        let elapsed = begin.elapsed();
        let answer = answer.expect("a registered master may call");
        self.response_id = answer.response_id();
        (elapsed, answer.allocated_containers.len())
    }
}

/// Measures a node of this kind.
pub(crate) fn measure(kind: &NodeKind, effort: &Effort) -> Figures {
    let peers = ProxiedPeers::start(kind, offering(NODES), |site| {
        site.set("yarn.nodemanager.distributed-scheduling.enabled", true);
    });
    let runtime = Runtime::new().expect("threads can be made");
    let (pipeline_kib, launched) = launch_all(kind, &peers, effort);
    let before = rss_kib(&peers);
    let mut masters = runtime.block_on(register_all(&peers, &launched));
    let registered_kib = (rss_kib(&peers) - before) / f64::from(effort.masters);
    let (direct, hundred_direct) = runtime.block_on(direct(&peers, effort));
    let first = &mut masters[0];
    let empty = runtime.block_on(empty(first, effort));
    peers.scheduler.say(offering(NODES_FOR_HUNDRED));
    let hundred = runtime.block_on(hundred(first, effort));
    peers.scheduler.say(offering(NODES));
    let (calls_per_s, processors) = runtime.block_on(rate(&peers, masters, effort));
    Figures {
        direct,
        empty,
        hundred_direct,
        hundred,
        calls_per_s,
        processors,
        pipeline_kib: pipeline_kib.map(|kib| (kib, kib + registered_kib)),
    }
}

/// A ResourceManager with nothing but so many nodes.
fn offering(nodes: u16) -> Arc<Script> {
    let nodes = (1..=nodes).map(remote_node).collect();
    Nothing { nodes }.into_script()
}

fn remote_node(number: u16) -> RemoteNodeProto {
    let id = NodeId {
        // Hadoop's node looks names up, so there are none.
        host: format!("127.0.1.{number}"),
        port: number,
    };
    RemoteNodeProto {
        node_id: Some((&id).into()),
        http_address: Some(format!("127.0.1.{number}:1")),
        rack_name: Some("/default-rack".to_owned()),
        node_partition: None,
    }
}

/// As many containers with a pipeline as without, so that the difference is the pipelines'.
fn launch_all(
    kind: &NodeKind,
    peers: &ProxiedPeers,
    effort: &Effort,
) -> (Option<f64>, Vec<Launched>) {
    let mut next = 0;
    let mut numbers = |count: i32| {
        next += count;
        next - count + 1..=next
    };
    for number in numbers(FIRST) {
        let _ = peers.launch(number);
    }
    let without = matches!(kind, NodeKind::Agent(_)).then(|| {
        let before = rss_kib(peers);
        for number in numbers(effort.masters) {
            start_master(&peers.rm, number, |_| None);
        }
        peers.rm.wait_heartbeats(3);
        rss_kib(peers) - before
    });
    let before = rss_kib(peers);
    let launched = numbers(effort.masters).map(|number| peers.launch(number));
    let launched: Vec<_> = launched.collect();
    peers.rm.wait_heartbeats(3);
    let with = rss_kib(peers) - before;
    let each = without.map(|without| (with - without) / f64::from(effort.masters));
    (each, launched)
}

async fn register_all(peers: &ProxiedPeers, launched: &[Launched]) -> Vec<Master> {
    let mut masters = Vec::new();
    for launched in launched {
        masters.push(Master::register(peers.proxy, &launched.token).await);
    }
    masters
}

/// What the ResourceManager takes without a proxy: for a call without asks, and for one that tells of a hundred containers.
async fn direct(peers: &ProxiedPeers, effort: &Effort) -> (Samples, Samples) {
    let application_id = records::ApplicationId {
        cluster_timestamp: 1,
        id: 1,
    };
    let attempt = records::ApplicationAttemptId {
        application_id,
        attempt_id: 1,
    };
    let token = peers.scheduler.token(attempt);
    let mut master = Master::register(peers.scheduler.address, &token).await;
    let samples = empty(&mut master, effort).await;
    let node = NodeId {
        host: "127.0.1.1".to_owned(),
        port: 1,
    };
    let given = (1..=HUNDRED).map(|number| {
        let id = ContainerId {
            attempt,
            id: (1 << 40) - i64::from(number),
        };
        opportunistic_container(id, &node, SIZE)
    });
    let request = DistributedSchedulingAllocateRequestProto {
        allocate_request: Some(AllocateRequestProto::default()),
        allocated_containers: given.collect(),
    };
    let mut times = Vec::new();
    for _ in 0..effort.hundred {
        let begin = Instant::now();
        let answer = master
            .client
            .call::<AllocateForDistributedScheduling>(&request);
        answer.await.expect("a node may tell");
        times.push(begin.elapsed());
    }
    (samples, times.into_iter().collect())
}

async fn empty(master: &mut Master, effort: &Effort) -> Samples {
    let mut times = Vec::new();
    for _ in 0..effort.warm_up + effort.empty {
        times.push(master.allocate(AllocateRequestProto::default()).await.0);
    }
    times.split_off(effort.warm_up).into_iter().collect()
}

async fn hundred(master: &mut Master, effort: &Effort) -> Samples {
    // The answer brings the new list of nodes.
    master.allocate(AllocateRequestProto::default()).await;
    let mut times = Vec::new();
    for _ in 0..effort.warm_up.min(100) + effort.hundred {
        let kind = ExecutionTypeProto::Opportunistic;
        let request = AllocateRequestProto {
            ask: vec![SimulatedMaster::ask(HUNDRED, SIZE, kind)],
            ..AllocateRequestProto::default()
        };
        let (elapsed, containers) = master.allocate(request).await;
        let wanted = usize::try_from(HUNDRED).expect("a small number");
        assert_eq!(containers, wanted, "the node did not answer at once");
        times.push(elapsed);
    }
    times
        .split_off(effort.warm_up.min(100))
        .into_iter()
        .collect()
}

/// Calls in a second of all masters together, each making one after the other, and the processors that the node used.
async fn rate(peers: &ProxiedPeers, masters: Vec<Master>, effort: &Effort) -> (f64, f64) {
    let id = peers.node.process.id();
    let before = processor_time(id);
    let begin = Instant::now();
    let period = effort.period;
    let tasks: Vec<_> = masters
        .into_iter()
        .map(|mut master| {
            tokio::spawn(async move {
                let mut calls = 0_u32;
                while begin.elapsed() < period {
                    master.allocate(AllocateRequestProto::default()).await;
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let mut calls = 0;
    for task in tasks {
        calls += task.await.expect("masters do not panic");
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let used = processor_time(id).saturating_sub(before).as_secs_f64();
    (f64::from(calls) / elapsed, used / elapsed)
}

/// Resident memory of the node.
fn rss_kib(peers: &ProxiedPeers) -> f64 {
    let path = format!("/proc/{}/status", peers.node.process.id());
    let status = fs::read_to_string(&path).expect("the node runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.expect("the kernel says how much")
}
