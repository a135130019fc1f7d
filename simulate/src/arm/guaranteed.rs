//! Model: guaranteed containers. The ResourceManager places on a node when that sends a
//! heartbeat, as Hadoop's schedulers do, and a job's master gets the containers with its next call.

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis};
use sched::{ContainerQueuingLimit, NodeLoad};

use super::{Cost, MasterCall, Placed, Placer, application_of};
use crate::node::Node;
use crate::scenario::Cluster;

/// Order in which jobs are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The job that came first.
    Fifo,
    /// The job with the fewest containers.
    Fair,
    /// The job with the least work left, as far as the ResourceManager can know: the number of its
    /// tasks that have not ended, times the mean time of its containers that have. Before the first
    /// end, the mean of all jobs counts.
    Shortest,
}

#[derive(Clone, Debug, Default)]
struct Job {
    /// Containers that the last call asked for, without those placed since.
    wanted: u32,
    /// Containers placed that have not ended.
    held: u32,
    /// Containers that the next answer carries.
    given: Vec<Placed>,
    /// Times of the containers that have ended.
    ended: Mean,
    /// Place among those that wait.
    rank: u64,
}

/// Mean of some times.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: u64,
    sum_ms: u64,
}

impl Mean {
    const fn add(&mut self, time_ms: u64) {
        self.count += 1;
        self.sum_ms += time_ms;
    }

    fn get(self) -> Option<u64> {
        self.sum_ms.checked_div(self.count)
    }
}

/// Number before that of the first container: no opportunistic container has one above it.
const ID_START: i64 = 1 << 41;

pub(super) struct Guaranteed {
    order: Order,
    /// Free places by node, as the ResourceManager knows them.
    free: Vec<u32>,
    jobs: BTreeMap<usize, Job>,
    /// Jobs that want containers, the next one to be served first.
    waiting: BTreeSet<(u64, usize)>,
    /// Containers that have not ended, with the times at which their masters got them.
    held: BTreeMap<ContainerId, Option<MonoMillis>>,
    /// Times of all containers that have ended.
    ended: Mean,
    last_id: i64,
    cost: Cost,
}

impl Guaranteed {
    pub(super) fn new(cluster: &Cluster, order: Order) -> Self {
        Self {
            order,
            free: cluster.each_node().map(|node| node.places).collect(),
            jobs: BTreeMap::new(),
            waiting: BTreeSet::new(),
            held: BTreeMap::new(),
            ended: Mean::default(),
            last_id: ID_START,
            cost: Cost::default(),
        }
    }

    fn rank(&self, job: &Job) -> u64 {
        match self.order {
            Order::Fifo => 0,
            Order::Fair => u64::from(job.held),
            Order::Shortest => {
                let tasks = u64::from(job.wanted) + u64::from(job.held);
                let mean_ms = job.ended.get().or_else(|| self.ended.get());
                tasks.saturating_mul(mean_ms.unwrap_or(1))
            }
        }
    }

    /// Changes a job, and its place among those that wait.
    fn change(&mut self, number: usize, change: impl FnOnce(&mut Job)) {
        let Some(mut job) = self.jobs.remove(&number) else {
            return;
        };
        self.waiting.remove(&(job.rank, number));
        change(&mut job);
        job.rank = self.rank(&job);
        if job.wanted > 0 {
            self.waiting.insert((job.rank, number));
        }
        self.jobs.insert(number, job);
    }

    /// Places on a node as long as it has free places and somebody waits.
    fn fill(&mut self, node: usize) {
        while self.free[node] > 0
            && let Some((_, number)) = self.waiting.first().copied()
        {
            self.free[node] -= 1;
            self.last_id += 1;
            let id = application_of(number).attempt(1).container(self.last_id);
            self.held.insert(id, None);
            self.change(number, |job| {
                job.wanted -= 1;
                job.held += 1;
                job.given.push(Placed {
                    id,
                    node,
                    execution_type: ExecutionType::Guaranteed,
                    is_probe: false,
                });
            });
        }
    }
}

impl Placer for Guaranteed {
    fn node_beats(
        &mut self,
        node: usize,
        _load: &NodeLoad,
        ended: &[(ContainerId, ContainerExitStatus)],
        now: MonoMillis,
    ) {
        for (id, _) in ended {
            let Some(since) = self.held.remove(id) else {
                continue;
            };
            self.free[node] += 1;
            let took_ms = now.0 - since.unwrap_or(now).0;
            self.ended.add(took_ms);
            self.change(super::job_of(id), |job| {
                job.held -= 1;
                job.ended.add(took_ms);
            });
        }
        self.fill(node);
    }

    fn job_arrives(&mut self, job: usize, _now: MonoMillis) {
        self.jobs.insert(job, Job::default());
    }

    fn master_calls(&mut self, call: &MasterCall<'_>, _nodes: &[Node]) -> Vec<Placed> {
        self.cost.rm_calls += 1;
        let mut given = Vec::new();
        self.change(call.job, |job| {
            given = std::mem::take(&mut job.given);
            let got = u32::try_from(given.len()).unwrap_or(u32::MAX);
            job.wanted = call.wanted_guaranteed.saturating_sub(got);
        });
        let times = given.iter().map(|placed| (placed.id, Some(call.now)));
        self.held.extend(times);
        given
    }

    fn job_ends(&mut self, job: usize) {
        self.change(job, |job| job.wanted = 0);
        self.jobs.remove(&job);
    }

    fn tick(&mut self, _now: MonoMillis) {}

    fn queuing_limit(&self) -> ContainerQueuingLimit {
        ContainerQueuingLimit {
            max_queue_length: None,
            max_queue_wait_time_ms: None,
        }
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}
