//! Model: guaranteed containers. The ResourceManager places on a node when that sends a
//! heartbeat, as Hadoop's schedulers do, and a job's master gets the containers with its next call.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use records::{ContainerExitStatus, ContainerId, MonoMillis};
use sched::NodeLoad;

use super::placer::{MasterCall, Placed, Placer, application_of, job_of};
use crate::measure::Cost;
use crate::node::Node;
use crate::scenario::{Policy, Scenario};

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

impl Order {
    /// Returns the order of a policy; `None`: its containers are not all guaranteed.
    pub(super) fn of(policy: Policy) -> Option<Self> {
        let orders = [
            (Policy::GuaranteedFifo, Self::Fifo),
            (Policy::GuaranteedFair, Self::Fair),
            (Policy::GuaranteedShortest, Self::Shortest),
        ];
        let (_, order) = orders.into_iter().find(|(of, _)| *of == policy)?;
        Some(order)
    }
}

#[derive(Clone, Debug, Default)]
struct Job {
    /// Whether its master waits for a container.
    wants_master: bool,
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

/// Number before that of the first container: above those that proxies number.
const ID_START: i64 = 1 << 41;

pub(super) struct Guaranteed {
    order: Order,
    /// Places by node, and those of them that are free, as the ResourceManager knows them.
    places: Vec<u32>,
    free: Vec<u32>,
    jobs: BTreeMap<usize, Job>,
    /// Jobs that want containers, the next one to be served first.
    waiting: BTreeSet<(u64, usize)>,
    /// Containers that have not ended.
    held: BTreeMap<ContainerId, Held>,
    /// Times of all containers that have ended.
    ended: Mean,
    last_id: i64,
    masters: Masters,
    cost: Cost,
}

/// Containers of masters.
#[derive(Debug)]
struct Masters {
    /// Most at a time; `None`: masters have no containers.
    most: Option<u64>,
    /// Jobs whose masters run or are about to.
    active: u64,
    /// Jobs that wait for fewer masters, in the order of arrival.
    inactive: VecDeque<usize>,
    /// Containers that nobody has taken yet.
    placed: Vec<Placed>,
}

/// Container that has not ended.
#[derive(Clone, Copy, Debug)]
struct Held {
    node: usize,
    is_master: bool,
    /// Time at which its master got it.
    since: Option<MonoMillis>,
}

impl Guaranteed {
    pub(super) fn new(scenario: &Scenario, order: Order) -> Self {
        let cluster = &scenario.cluster;
        let places: Vec<u32> = cluster.each_node().map(|node| node.places).collect();
        Self {
            order,
            free: places.clone(),
            places,
            jobs: BTreeMap::new(),
            waiting: BTreeSet::new(),
            held: BTreeMap::new(),
            ended: Mean::default(),
            last_id: ID_START,
            masters: Masters {
                most: scenario.masters.most(cluster.all_places()),
                active: 0,
                inactive: VecDeque::new(),
                placed: Vec::new(),
            },
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
        if job.wanted > 0 || job.wants_master {
            self.waiting.insert((job.rank, number));
        }
        self.jobs.insert(number, job);
    }

    /// Has masters ask for their containers, as many as may run.
    fn begin_masters(&mut self) {
        let most = self.masters.most.unwrap_or(0);
        while self.masters.active < most
            && let Some(number) = self.masters.inactive.pop_front()
        {
            self.masters.active += 1;
            self.change(number, |job| job.wants_master = true);
        }
    }

    /// Has a job ask for a container for another master. What it had asked for is forgotten, with
    /// the containers that its master had not got.
    fn begin_again(&mut self, number: usize) {
        self.masters.active -= 1;
        let mut given = Vec::new();
        self.change(number, |job| {
            job.wanted = 0;
            given = std::mem::take(&mut job.given);
            job.held = job
                .held
                .saturating_sub(1 + u32::try_from(given.len()).unwrap_or(0));
        });
        for placed in given {
            self.held.remove(&placed.id);
            self.free[placed.node] += 1;
        }
        if self.jobs.contains_key(&number) {
            self.masters.inactive.push_front(number);
        }
        self.begin_masters();
    }

    /// Places on a node as long as it has free places and somebody waits.
    fn fill(&mut self, node: usize) {
        while self.free[node] > 0
            && let Some((_, number)) = self.waiting.first().copied()
        {
            self.free[node] -= 1;
            self.last_id += 1;
            let id = application_of(number).attempt(1).container(self.last_id);
            let is_master = self.jobs.get(&number).is_some_and(|job| job.wants_master);
            let placed = Placed::guaranteed(id, node);
            let held = Held {
                node,
                is_master,
                since: None,
            };
            self.held.insert(id, held);
            if is_master {
                self.masters.placed.push(placed);
            }
            self.change(number, |job| {
                job.held += 1;
                if is_master {
                    job.wants_master = false;
                } else {
                    job.wanted -= 1;
                    job.given.push(placed);
                }
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
            let Some(held) = self.held.remove(id) else {
                continue;
            };
            self.free[node] += 1;
            if held.is_master {
                self.masters.active -= 1;
                self.begin_masters();
                continue;
            }
            let took_ms = now.0 - held.since.unwrap_or(now).0;
            self.ended.add(took_ms);
            self.change(job_of(id), |job| {
                job.held -= 1;
                job.ended.add(took_ms);
            });
        }
        self.fill(node);
    }

    fn job_arrives(&mut self, job: usize, _now: MonoMillis) {
        self.jobs.insert(job, Job::default());
        // The registration is a call.
        self.cost.rm_calls += 1;
        if self.masters.most.is_some() {
            self.masters.inactive.push_back(job);
            self.begin_masters();
        }
    }

    fn master_calls(
        &mut self,
        call: &MasterCall,
        _ended: &[(ContainerId, ContainerExitStatus)],
        _nodes: &[Node],
    ) -> Vec<Placed> {
        self.cost.rm_calls += 1;
        let mut given = Vec::new();
        self.change(call.job, |job| {
            given = std::mem::take(&mut job.given);
            let got = u32::try_from(given.len()).unwrap_or(u32::MAX);
            job.wanted = call.wanted_guaranteed.saturating_sub(got);
        });
        for placed in &given {
            if let Some(held) = self.held.get_mut(&placed.id) {
                held.since = Some(call.now);
            }
        }
        given
    }

    fn job_ends(&mut self, job: usize, _now: MonoMillis) {
        self.change(job, |job| {
            job.wanted = 0;
            job.wants_master = false;
        });
        self.jobs.remove(&job);
    }

    fn node_is_lost(&mut self, node: usize) {
        self.free[node] = 0;
        let all = self.held.iter().filter(|(_, held)| held.node == node);
        let lost: Vec<(ContainerId, bool)> = all.map(|(id, held)| (*id, held.is_master)).collect();
        for (id, is_master) in lost {
            if self.held.remove(&id).is_none() {
                // It went with its job's master.
                continue;
            }
            let number = job_of(&id);
            if is_master {
                self.begin_again(number);
                continue;
            }
            self.change(number, |job| {
                job.held -= 1;
                // One that its master has not got is asked for again.
                let before = job.given.len();
                job.given.retain(|placed| placed.id != id);
                job.wanted += u32::from(job.given.len() < before);
            });
        }
    }

    fn node_joins(&mut self, node: usize) {
        self.free[node] = self.places[node];
    }

    fn masters_placed(&mut self) -> Vec<Placed> {
        std::mem::take(&mut self.masters.placed)
    }

    fn tick(&mut self, _now: MonoMillis) {}

    fn cost(&self) -> Cost {
        self.cost
    }
}
