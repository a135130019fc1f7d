//! The measurements of a cluster.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use records::{ContainerId, NodeId};
use test_support::scripted::{ScriptedAmRmClient, opportunistic_container};
use test_support::simulated::SimulatedNode;
use tests::proc::processor_time;
use tests::samples::Samples;
use tokio::sync::Mutex;
use wire::proto::hadoop_yarn::{AllocateRequestProto, ContainerIdProto, ExecutionTypeProto};

use crate::cluster::{Cluster, SIZE};

/// Containers that a master asks for with one call, which releases those of the previous call.
const BATCH: i32 = 100;

/// Interval of a node's heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Allocator of the containers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// The ResourceManager allocates.
    Scheduler(ExecutionTypeProto),
    /// The master's node allocates and reports to the ResourceManager.
    Node,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheduler(ExecutionTypeProto::Guaranteed) => "guaranteed",
            Self::Scheduler(ExecutionTypeProto::Opportunistic) => "opportunistic",
            Self::Node => "opportunistic, from a node",
        })
    }
}

/// Rate of allocation.
pub(crate) struct Rate {
    pub(crate) containers_per_s: f64,
    /// Times of calls, each for [`BATCH`] containers.
    pub(crate) calls: Samples,
    /// Processors that the ResourceManager used, the nodes' heartbeats included.
    pub(crate) processors: f64,
}

/// Cost of heartbeats.
pub(crate) struct Load {
    pub(crate) processors: f64,
    pub(crate) per_s: f64,
    pub(crate) answers: Samples,
}

/// Sends a heartbeat of each node once a second, spread over it.
pub(crate) async fn heartbeat_load(cluster: &Cluster, period: Duration) -> Load {
    let before = processor_time(cluster.process.id());
    let begin = Instant::now();
    let answers = heartbeats(&cluster.nodes, period).await;
    let elapsed = begin.elapsed().as_secs_f64();
    let used = processor_time(cluster.process.id()).saturating_sub(before);
    Load {
        processors: used.as_secs_f64() / elapsed,
        per_s: count(answers.len()) / elapsed,
        answers: answers.into_iter().collect(),
    }
}

async fn heartbeats(nodes: &[Arc<Mutex<SimulatedNode>>], period: Duration) -> Vec<Duration> {
    let begin = tokio::time::Instant::now();
    let step = HEARTBEAT / u32::try_from(nodes.len()).expect("some thousands");
    let tasks: Vec<_> = (0_u32..)
        .zip(nodes)
        .map(|(number, node)| {
            let node = Arc::clone(node);
            tokio::spawn(async move {
                let mut times = Vec::new();
                let mut due = begin + step * number;
                while due < begin + period {
                    tokio::time::sleep_until(due).await;
                    let mut node = node.lock().await;
                    let sent = Instant::now();
                    node.heartbeat().await;
                    times.push(sent.elapsed());
                    due += HEARTBEAT;
                }
                times
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.expect("nodes do not panic"));
    }
    all
}

/// Lets this many masters ask and release as quickly as they are answered, while the nodes'
/// heartbeats continue.
pub(crate) async fn allocation_rate(
    cluster: &mut Cluster,
    way: Way,
    masters: usize,
    period: Duration,
) -> Rate {
    let beside = cluster.nodes.clone();
    let nodes = tokio::spawn(async move { heartbeats(&beside, period).await });
    let place = cluster.nodes[1].lock().await.id.clone();
    let before = processor_time(cluster.process.id());
    let begin = Instant::now();
    let mut idle = cluster.masters.split_off(masters);
    let tasks: Vec<_> = cluster
        .masters
        .drain(..)
        .map(|master| tokio::spawn(ask_and_give_back(master, way, place.clone(), period)))
        .collect();
    let (mut containers, mut calls) = (0, Vec::new());
    for task in tasks {
        let (master, got, times) = task.await.expect("masters do not panic");
        cluster.masters.push(master);
        containers += got;
        calls.extend(times);
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let used = processor_time(cluster.process.id()).saturating_sub(before);
    cluster.masters.append(&mut idle);
    nodes.await.expect("nodes do not panic");
    Rate {
        containers_per_s: count(containers) / elapsed,
        calls: calls.into_iter().collect(),
        processors: used.as_secs_f64() / elapsed,
    }
}

async fn ask_and_give_back(
    mut master: ScriptedAmRmClient,
    way: Way,
    place: NodeId,
    period: Duration,
) -> (ScriptedAmRmClient, usize, Vec<Duration>) {
    let begin = Instant::now();
    let (mut got, mut times, mut release) = (0, Vec::new(), Vec::new());
    while begin.elapsed() < period {
        let mut request = AllocateRequestProto {
            release: std::mem::take(&mut release),
            ..AllocateRequestProto::default()
        };
        let sent = Instant::now();
        release = match way {
            Way::Scheduler(kind) => {
                request.ask = vec![ScriptedAmRmClient::ask(BATCH, SIZE, kind)];
                let answer = master.allocate(request).await.expect("asks are good");
                ids(answer.allocated_containers)
            }
            Way::Node => {
                let given = give_out(&mut master, &place);
                let all = given.iter().filter_map(|each| each.id).collect();
                let answer = master.allocate_distributed(request, given).await;
                answer.expect("nodes may give out");
                all
            }
        };
        times.push(sent.elapsed());
        got += release.len();
    }
    let last = AllocateRequestProto {
        ask: match way {
            Way::Scheduler(kind) => vec![ScriptedAmRmClient::ask(0, SIZE, kind)],
            Way::Node => Vec::new(),
        },
        release,
        ..AllocateRequestProto::default()
    };
    master.allocate(last).await.expect("all may be given back");
    (master, got, times)
}

fn ids(containers: Vec<wire::proto::hadoop_yarn::ContainerProto>) -> Vec<ContainerIdProto> {
    containers.into_iter().filter_map(|each| each.id).collect()
}

/// Returns the next containers of the master's node.
fn give_out(
    master: &mut ScriptedAmRmClient,
    place: &NodeId,
) -> Vec<wire::proto::hadoop_yarn::ContainerProto> {
    (0..BATCH)
        .map(|_| {
            master.last_given -= 1;
            let id = ContainerId {
                attempt: master.attempt,
                id: master.last_given,
            };
            opportunistic_container(id, place, SIZE)
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts for people to read")]
fn count(value: usize) -> f64 {
    value as f64
}
