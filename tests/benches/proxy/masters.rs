//! The masters, and a ResourceManager that allocates nothing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use records::{NodeId, Resource};
use test_support::scripted::{
    IdleScheduler, Launched, Script, ScriptedAmRmClient, ScriptedScheduler, answering,
};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, ExecutionTypeProto, RemoteNodeProto, ResourceRequestProto,
};
use wire::protocol::distributed_scheduling_am::AllocateForDistributedScheduling;
use wire::rpc::Method as _;

/// Number of containers in one ask.
const HUNDRED: usize = 100;

/// Size of a container.
const SIZE: Resource = Resource::new(128, 1);

/// Returns a ResourceManager that offers only this many nodes.
pub(crate) fn offering(nodes: u16) -> Arc<Script> {
    nothing(nodes).into_script()
}

fn nothing(nodes: u16) -> IdleScheduler {
    IdleScheduler {
        nodes: (1..=nodes).map(remote_node).collect(),
    }
}

fn remote_node(number: u16) -> RemoteNodeProto {
    let id = NodeId {
        // Hadoop's node looks names up, so the hosts are addresses.
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

/// The last message in which a node reported its containers to a ResourceManager.
#[derive(Clone, Default)]
pub(crate) struct LastReport(Arc<Mutex<Bytes>>);

impl LastReport {
    /// Returns a ResourceManager like [`offering`] that keeps the message.
    pub(crate) fn kept_by(&self, nodes: u16) -> Arc<Script> {
        let (report, nothing) = (Arc::clone(&self.0), nothing(nodes));
        answering(move |call| {
            if call.method == AllocateForDistributedScheduling::NAME {
                *report.lock().unwrap_or_else(PoisonError::into_inner) = call.request.clone();
            }
            nothing.answer(call)
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
