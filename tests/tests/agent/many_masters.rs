//! Five hundred masters on one node, whose key rolls while they ask and whose ResourceManager
//! sometimes fails.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use records::Resource;
use test_support::scripted::{IdleScheduler, SchedulerCall, Script, answering};
use test_support::scripted::{Launched, ScriptedAmRmClient};
use tests::node::NodeKind;
use tests::proxy_cluster::ProxyCluster;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, DistributedSchedulingAllocateRequestProto,
    ExecutionTypeProto, ResourceRequestProto,
};

use crate::AGENT;

const MASTERS: i32 = 500;

/// Asks of each master.
const ROUNDS: i32 = 5;
const PER_ROUND: i32 = 4;

/// The ResourceManager refuses one heartbeat in this many.
const REFUSED_OF: u32 = 7;

/// Pause between two heartbeats of a master.
const BEAT: Duration = Duration::from_millis(500);

/// Deadline for the whole life of one master.
const DEADLINE: Duration = Duration::from_secs(300);

/// Containers that were reported to the ResourceManager, by attempt, and whether in a call that it
/// answered: those of a refused call come again with the next, whether they were recorded or not.
#[derive(Default)]
struct Reported(Mutex<BTreeMap<String, BTreeMap<i64, bool>>>);

impl Reported {
    fn note(&self, call: &SchedulerCall<'_>, is_answered: bool) {
        let request: DistributedSchedulingAllocateRequestProto =
            prost::Message::decode(call.request.clone()).unwrap();
        let mut reported = self.0.lock().unwrap();
        for container in request.allocated_containers {
            let id = container.id.unwrap_or_default().id();
            let of_attempt = reported.entry(call.attempt.to_owned()).or_default();
            let before = of_attempt.insert(id, is_answered);
            assert_ne!(before, Some(true), "{id} of {} came again", call.attempt);
        }
    }

    fn of(&self, attempt: &str) -> BTreeSet<i64> {
        let reported = self.0.lock().unwrap();
        let of_attempt = reported.get(attempt).into_iter().flatten();
        of_attempt.map(|(id, _)| *id).collect()
    }
}

/// Returns a script that answers with nodes only and refuses some calls; every second refused call
/// has recorded its containers first, as the real ResourceManager does when the rest of the call is
/// invalid.
fn failing_now_and_then(nothing: IdleScheduler, reported: Arc<Reported>) -> Arc<Script> {
    let count = AtomicU32::new(0);
    answering(move |call| {
        if call.method == "allocateForDistributedScheduling" {
            let number = count.fetch_add(1, Ordering::Relaxed);
            if number.is_multiple_of(REFUSED_OF) {
                if number.is_multiple_of(2 * REFUSED_OF) {
                    reported.note(call, false);
                }
                let exception = HadoopException::YarnException;
                return Err(RemoteException::new(exception, "not now".to_owned()));
            }
            reported.note(call, true);
        }
        nothing.answer(call)
    })
}

/// A master and its containers.
struct Master {
    proxy: SocketAddr,
    client: ScriptedAmRmClient,
    got: BTreeSet<i64>,
    renewals: u32,
}

impl Master {
    async fn register(proxy: SocketAddr, launched: Launched) -> Self {
        let client = ScriptedAmRmClient::connect(proxy, launched).await;
        client.register().await;
        Self {
            proxy,
            client,
            got: BTreeSet::new(),
            renewals: 0,
        }
    }

    /// Sends one heartbeat, again as often as the ResourceManager refuses it.
    async fn beat(&mut self, ask: Vec<ResourceRequestProto>) {
        let request = AllocateRequestProto {
            ask,
            ..AllocateRequestProto::default()
        };
        let answer = loop {
            match self.client.allocate(request.clone()).await {
                Ok(answer) => break answer,
                Err(error) => {
                    let exception = error.remote();
                    let exception =
                        exception.unwrap_or_else(|| panic!("the node is lost: {error}"));
                    assert_eq!(exception.message, "not now");
                }
            }
        };
        self.take(answer).await;
    }

    async fn take(&mut self, answer: AllocateResponseProto) {
        for container in answer.allocated_containers {
            let id = container.id.unwrap_or_default().id();
            assert!(self.got.insert(id), "{id} came twice");
        }
        if let Some(token) = answer.am_rm_token {
            self.client.renew(self.proxy, token.into()).await;
            self.renewals += 1;
        }
    }

    async fn live(mut self) -> BTreeSet<i64> {
        let kind = ExecutionTypeProto::Opportunistic;
        for round in 0..ROUNDS {
            let ask = ResourceRequestProto {
                priority: Some((round + 1).into()),
                ..ScriptedAmRmClient::ask(PER_ROUND, Resource::new(128, 1), kind)
            };
            self.beat(vec![ask]).await;
            let wanted = usize::try_from((round + 1) * PER_ROUND).unwrap();
            // The last rounds use a new key.
            let is_rolled = |master: &Self| round + 2 < ROUNDS || master.renewals > 0;
            while self.got.len() < wanted || !is_rolled(&self) {
                tokio::time::sleep(BEAT).await;
                self.beat(Vec::new()).await;
            }
        }
        self.client.finish().await;
        self.got
    }
}

#[test]
fn five_hundred_masters_get_what_they_ask_for_once_while_the_nodes_key_rolls() {
    let reported = Arc::new(Reported::default());
    let script = failing_now_and_then(IdleScheduler::default(), Arc::clone(&reported));
    let peers = ProxyCluster::start(&NodeKind::Agent(AGENT.into()), script, |site| {
        site.set("yarn.nodemanager.distributed-scheduling.enabled", true)
            // A new key is used after one and a half of this, when each master must have called.
            .set("yarn.am.liveness-monitor.expiry-interval-ms", 20_000)
            .set(
                "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs",
                61,
            );
    });
    let nothing = IdleScheduler {
        nodes: vec![peers.remote_node()],
    };
    peers
        .scheduler
        .set_script(failing_now_and_then(nothing, Arc::clone(&reported)));
    let launched: Vec<Launched> = (1..=MASTERS).map(|number| peers.launch(number)).collect();
    let proxy = peers.proxy;
    let lives: Vec<_> = launched
        .into_iter()
        .map(|launched| {
            let life = async move {
                let attempt = launched.attempt;
                let master = Master::register(proxy, launched).await;
                (attempt, master.live().await)
            };
            let bounded = async move { tokio::time::timeout(DEADLINE, life).await };
            peers.rm.runtime().spawn(bounded)
        })
        .collect();
    for life in lives {
        let (attempt, got) = peers.rm.runtime().block_on(life).unwrap().unwrap();
        assert_eq!(got.len(), usize::try_from(ROUNDS * PER_ROUND).unwrap());
        assert_eq!(got, reported.of(&attempt.to_string()), "{attempt}");
        let counted_down = -1_000..0;
        assert!(got.iter().all(|id| counted_down.contains(id)), "{got:?}");
    }
}
