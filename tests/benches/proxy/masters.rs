//! The masters, and a ResourceManager that allocates nothing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use records::{NodeId, Resource};
use test_support::scripted::{
    IdleScheduler, Launched, SchedulerCall, Script, ScriptedAmRmClient, ScriptedScheduler,
    answering,
};
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, ExecutionTypeProto, RemoteNodeProto, ResourceRequestProto,
};
use wire::protocol::distributed_scheduling_am::AllocateForDistributedScheduling;
use wire::rpc::Method as _;

/// Number of containers in one ask.
const HUNDRED: usize = 100;

/// Size of a container.
const SIZE: Resource = Resource::new(128, 1);

/// Interval at which a ResourceManager sorts its nodes, and has another list for everybody
/// (`yarn.resourcemanager.nm-container-queuing.sorting-nodes-interval-ms`).
const SORT_INTERVAL: Duration = Duration::from_secs(1);

/// Returns a ResourceManager that offers only this many nodes, each second in another order.
pub(crate) fn offering(nodes: u16) -> Arc<Script> {
    let sorting = Sorting::new(nodes);
    answering(move |call| sorting.answer(call))
}

/// A ResourceManager that allocates nothing.
struct Sorting {
    began: Instant,
    /// Its answers, one after the other, and then again from the first.
    orders: Vec<IdleScheduler>,
}

impl Sorting {
    fn new(nodes: u16) -> Self {
        let order = |first: u16| {
            let mut nodes: Vec<_> = (1..=nodes).map(remote_node).collect();
            nodes.rotate_left(first.into());
            IdleScheduler { nodes }
        };
        Self {
            began: Instant::now(),
            orders: (0..nodes.min(10)).map(order).collect(),
        }
    }

    fn answer(&self, call: &SchedulerCall<'_>) -> Result<Bytes, RemoteException> {
        let sorts = self.began.elapsed().as_secs() / SORT_INTERVAL.as_secs();
        let order = usize::try_from(sorts).unwrap_or(0) % self.orders.len();
        self.orders[order].answer(call)
    }
}

fn host(number: u16) -> String {
    format!("127.1.{}.{}", number / 250, number % 250 + 1)
}

fn remote_node(number: u16) -> RemoteNodeProto {
    let id = NodeId {
        // Hadoop's node looks names up, so the hosts are addresses.
        host: host(number),
        port: number,
    };
    RemoteNodeProto {
        node_id: Some((&id).into()),
        http_address: Some(format!("{}:1", host(number))),
        rack_name: Some("/default-rack".to_owned()),
        node_partition: None,
    }
}

/// The last message in which a node reported its containers to a ResourceManager.
#[derive(Clone, Default)]
pub(crate) struct LastReport(Arc<Mutex<Bytes>>);

impl LastReport {
    /// Returns a ResourceManager like [`offering`] that keeps the message.
    pub(crate) fn kept_by(&self, nodes: u16) -> Arc<Script> {
        let (report, sorting) = (Arc::clone(&self.0), Sorting::new(nodes));
        answering(move |call| {
            if call.method == AllocateForDistributedScheduling::NAME {
                *report.lock().unwrap_or_else(PoisonError::into_inner) = call.request.clone();
            }
            sorting.answer(call)
        })
    }

    pub(crate) fn message(&self) -> Bytes {
        let report = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        report.clone()
    }
}

/// A master that makes one call after the other.
pub(crate) struct Master(ScriptedAmRmClient);

impl Master {
    pub(crate) async fn register(scheduler: SocketAddr, launched: Launched) -> Self {
        let client = ScriptedAmRmClient::connect(scheduler, launched).await;
        client.register().await;
        Self(client)
    }

    pub(crate) async fn register_all(scheduler: SocketAddr, launched: Vec<Launched>) -> Vec<Self> {
        let mut masters = Vec::new();
        for launched in launched {
            masters.push(Self::register(scheduler, launched).await);
        }
        masters
    }

    /// Registers the same attempt at the ResourceManager itself, on a connection of its own.
    pub(crate) async fn beside_proxy(&self, scheduler: &ScriptedScheduler) -> Self {
        let attempt = self.0.attempt;
        let launched = Launched {
            attempt,
            container: attempt.container(1),
            token: scheduler.token(attempt),
        };
        Self::register(scheduler.address, launched).await
    }

    /// Makes one call without asks.
    pub(crate) async fn empty(&mut self) -> Duration {
        self.allocate(Vec::new()).await.0
    }

    /// Makes one call that asks for a hundred containers and gets them.
    pub(crate) async fn hundred(&mut self) -> Duration {
        let count = i32::try_from(HUNDRED).expect("a small number");
        let ask = ScriptedAmRmClient::ask(count, SIZE, ExecutionTypeProto::Opportunistic);
        let (elapsed, containers) = self.allocate(vec![ask]).await;
        assert_eq!(containers, HUNDRED, "the node did not answer at once");
        elapsed
    }

    /// Makes one call; returns its duration and the number of containers in the answer.
    async fn allocate(&mut self, ask: Vec<ResourceRequestProto>) -> (Duration, usize) {
        let request = AllocateRequestProto {
            ask,
            ..AllocateRequestProto::default()
        };
        let begin = Instant::now();
        let answer = self.0.allocate(request).await;
        let elapsed = begin.elapsed();
        let answer = answer.expect("a registered master may call");
        (elapsed, answer.allocated_containers.len())
    }

    /// Sends a node's message on this connection, unchanged.
    pub(crate) async fn send_report(&self, message: Bytes) -> Duration {
        let begin = Instant::now();
        let answer = self.0.client().call_raw(
            AllocateForDistributedScheduling::NAME,
            AllocateForDistributedScheduling::PROTOCOL,
            AllocateForDistributedScheduling::VERSION,
            message,
        );
        answer.await.expect("a node may tell");
        begin.elapsed()
    }
}
