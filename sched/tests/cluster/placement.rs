//! Distributed allocation on a ResourceManager with Hadoop's lists: how many containers nodes turn
//! away, and how long jobs take, with both placements.
//!
//! Nodes of 8 places and queues of 15. Jobs of 100 containers arrive evenly; four of five jobs have
//! tasks of 6 s, one has tasks of 26 s, each plus or minus 5 %. Everything beats once a second,
//! each at its own tenth of the second.

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerExitStatus, ContainerId, MonoMillis, NodeId, Resource};
use sched::{
    ContainerSchedulerConfig, DistributedAllocatorConfig, DistributedGrant,
    DistributedOpportunisticContainerAllocator, Draw, Event, KnownNode, KnownNodes, LookAnswer,
    NodeLoadConfig, NodeLoadMonitor, Placement, RemoteNode, ResourceLimits, SplitMix64,
};
use test_support::ids::attempt;

use crate::node::{News, SIZE, SimulatedNode, ask};

const TICK_MS: u64 = 100;
const TICKS_PER_BEAT: u64 = 10;
const PLACES: u32 = 8;
const TASKS: u32 = 100;

const GRANT: DistributedGrant = DistributedGrant {
    limits: ResourceLimits {
        minimum: SIZE,
        maximum: Resource::new(8_192, 8),
        increment: SIZE,
    },
    token_life_ms: 600_000,
    container_id_start: 1 << 40,
};

fn remote(id: &NodeId) -> RemoteNode {
    RemoteNode {
        node_id: id.clone(),
        http_address: String::new(),
        rack: "/rack".to_owned(),
        partition: String::new(),
    }
}

/// Cluster and workload of one run.
#[derive(Clone, Copy, Debug)]
struct Setting {
    nodes: usize,
    /// Nodes on a list of the ResourceManager.
    nodes_used: usize,
    jobs: usize,
    /// Ticks from one job to the next.
    job_every: u64,
    placement: Placement,
}

/// Results of one run.
#[derive(Clone, Debug)]
struct Outcome {
    refused: u32,
    shed: u32,
    /// Milliseconds from arrival to end of each job, shortest first.
    times_ms: Vec<u64>,
    /// Time at which the last job ended.
    finished_ms: u64,
}

/// An ApplicationMaster and its node's allocator.
struct Job {
    allocator: DistributedOpportunisticContainerAllocator,
    arrived: MonoMillis,
    task_ms: u64,
    /// Tasks without a container.
    wanted: u32,
    left: u32,
    /// Ends since the last heartbeat.
    ends: Vec<(ContainerId, ContainerExitStatus)>,
}

struct Cluster {
    setting: Setting,
    nodes: Vec<SimulatedNode>,
    by_id: BTreeMap<NodeId, usize>,
    /// All nodes, for placement by looks.
    known: KnownNodes,
    monitor: NodeLoadMonitor,
    jobs: Vec<Job>,
    /// Ends of running containers.
    running: BTreeSet<(MonoMillis, ContainerId, usize)>,
    random: SplitMix64,
    outcome: Outcome,
}

impl Cluster {
    fn new(setting: Setting) -> Self {
        let config = ContainerSchedulerConfig {
            queue_length_max: 15,
            ..ContainerSchedulerConfig::default()
        };
        let nodes: Vec<_> = (0..setting.nodes)
            .map(|number| SimulatedNode::new(number, PLACES, config))
            .collect();
        let load = NodeLoadConfig {
            nodes_used: setting.nodes_used,
            ..NodeLoadConfig::default()
        };
        Self {
            setting,
            by_id: nodes.iter().map(|node| node.id.clone()).zip(0..).collect(),
            known: nodes
                .iter()
                .map(|node| KnownNode::from(remote(&node.id)))
                .collect(),
            nodes,
            monitor: NodeLoadMonitor::new(load, MonoMillis(0)),
            jobs: Vec::new(),
            running: BTreeSet::new(),
            random: SplitMix64::new(7),
            outcome: Outcome {
                refused: 0,
                shed: 0,
                times_ms: Vec::new(),
                finished_ms: 0,
            },
        }
    }

    fn run(mut self) -> Outcome {
        for tick in 0.. {
            let now = MonoMillis(tick * TICK_MS);
            assert!(now.0 < 7_200_000, "{:?} does not end", self.setting);
            self.end_due(now);
            let beats = |number: usize| {
                u64::try_from(number).unwrap() % TICKS_PER_BEAT == tick % TICKS_PER_BEAT
            };
            for number in (0..self.nodes.len()).filter(|number| beats(*number)) {
                self.node_heartbeat(number, now);
            }
            self.monitor.tick(now);
            if self.jobs.len() < self.setting.jobs && tick % self.setting.job_every == 0 {
                self.submit(now);
            }
            for number in (0..self.jobs.len()).filter(|number| beats(*number)) {
                self.master_heartbeat(number, now);
            }
            if self.outcome.times_ms.len() == self.setting.jobs {
                self.outcome.times_ms.sort_unstable();
                self.outcome.finished_ms = now.0;
                return self.outcome;
            }
        }
        unreachable!("the loop has no end")
    }

    fn end_due(&mut self, now: MonoMillis) {
        while let Some((at, id, node)) = self.running.first().copied()
            && at <= now
        {
            self.running.pop_first();
            let news = self.nodes[node].exit(id, now);
            self.hear(node, &news, now);
        }
    }

    fn node_heartbeat(&mut self, number: usize, now: MonoMillis) {
        let node = &self.nodes[number];
        let load = node.load();
        self.monitor.update(&node.id.clone(), "/rack", &load, now);
        let limit = Event::QueuingLimit(self.monitor.queuing_limit());
        let news = self.nodes[number].feed(limit, now);
        self.hear(number, &news, now);
    }

    fn submit(&mut self, now: MonoMillis) {
        let number = self.jobs.len();
        let config = DistributedAllocatorConfig {
            placement: self.setting.placement,
            ..DistributedAllocatorConfig::default()
        };
        let attempt = attempt(i32::try_from(number).unwrap());
        let mut allocator = DistributedOpportunisticContainerAllocator::new(attempt, config);
        allocator.registered(GRANT, self.list(), now);
        self.jobs.push(Job {
            allocator,
            arrived: now,
            task_ms: if number % 5 == 4 { 26_000 } else { 6_000 },
            wanted: TASKS,
            left: TASKS,
            ends: Vec::new(),
        });
    }

    /// Returns the list that the ResourceManager's next answer carries.
    fn list(&self) -> Vec<RemoteNode> {
        let ids = self.monitor.select(self.setting.nodes_used).iter();
        ids.map(remote).collect()
    }

    fn master_heartbeat(&mut self, number: usize, now: MonoMillis) {
        let list = self.list();
        let job = &mut self.jobs[number];
        if job.left == 0 {
            return;
        }
        job.allocator.update_asks(&[ask(job.wanted)], now).unwrap();
        if let Some(mut plan) = job.allocator.plan_looks(&self.known, now) {
            for (position, node) in plan.nodes().to_vec().iter().enumerate() {
                let node = &self.nodes[self.by_id[&node.node().node_id]];
                plan.hears(position, LookAnswer::Seen(node.sight(now)));
            }
            let limit = self.monitor.queuing_limit().max_queue_length;
            job.allocator.allocate_seen(plan, limit, now);
        } else {
            job.allocator.allocate(now);
        }
        // The answer reports the ends, and the master starts what it got.
        for (id, status) in std::mem::take(&mut job.ends) {
            job.allocator.container_ended(id, status, now);
            if status == ContainerExitStatus::SUCCESS {
                job.left -= 1;
            } else {
                job.wanted += 1;
            }
        }
        let given = job.allocator.confirmed(list, now);
        job.wanted -= u32::try_from(given.len()).unwrap();
        if job.left == 0 {
            self.outcome.times_ms.push(now.since(job.arrived));
        }
        for allocation in given {
            let node = self.by_id[&allocation.container.node_id];
            let news = self.nodes[node].start(allocation.container.container_id, now);
            self.hear(node, &news, now);
        }
    }

    fn hear(&mut self, node: usize, news: &[News], now: MonoMillis) {
        for news in news {
            let (id, status) = match *news {
                News::Started(id) => {
                    let task_ms = self.job_of(id).task_ms;
                    let spread = usize::try_from(task_ms / 10).unwrap();
                    let more = u64::try_from(self.random.below(spread)).unwrap();
                    let end = now + (task_ms - task_ms / 20 + more);
                    self.running.insert((end, id, node));
                    continue;
                }
                News::Succeeded(id) => (id, ContainerExitStatus::SUCCESS),
                News::Refused(id) => {
                    self.outcome.refused += 1;
                    (id, ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER)
                }
                News::Shed(id) => {
                    self.outcome.shed += 1;
                    (id, ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER)
                }
            };
            self.job_of(id).ends.push((id, status));
        }
    }

    fn job_of(&mut self, id: ContainerId) -> &mut Job {
        &mut self.jobs[usize::try_from(id.application_id().id).unwrap()]
    }
}

/// Runs both placements by lists; returns refusals per container and the time to finish, first
/// those of the list's order.
fn compare(setting: Setting) -> [(f64, u64); 2] {
    [Placement::ListOrder, Placement::Spread].map(|placement| {
        let (refused, _, finished_ms) = run(setting, placement);
        (refused, finished_ms)
    })
}

/// Runs a placement and prints what it comes to; returns refusals and sheds per container, and the
/// time to finish.
fn run(setting: Setting, placement: Placement) -> (f64, f64, u64) {
    let outcome = Cluster::new(Setting {
        placement,
        ..setting
    })
    .run();
    let containers = f64::from(u32::try_from(setting.jobs).unwrap() * TASKS);
    let refused = f64::from(outcome.refused) / containers;
    let shed = f64::from(outcome.shed) / containers;
    let at = |percent: usize| outcome.times_ms[(setting.jobs - 1) * percent / 100];
    println!(
        "{} nodes, {} on a list, {placement:?}: refused {refused:.3}, shed {shed:.3} per \
         container; jobs p50 {} ms, p95 {} ms; all in {} ms",
        setting.nodes,
        setting.nodes_used,
        at(50),
        at(95),
        outcome.finished_ms,
    );
    (refused, shed, outcome.finished_ms)
}

/// Checks that spreading refuses less than a tenth of what the list's order does, and ends sooner.
fn assert_spread_is_better(setting: Setting) -> (f64, u64) {
    let [in_order, spread] = compare(setting);
    assert!(in_order.0 > 10.0 * spread.0, "{in_order:?} {spread:?}");
    assert!(spread.1 < in_order.1, "{in_order:?} {spread:?}");
    spread
}

/// Returns a setting of 60 jobs with a load of 0.63: 100 containers of 10 s each 0.2 s on 8,000
/// places.
fn a_thousand_nodes(nodes_used: usize) -> Setting {
    Setting {
        nodes: 1_000,
        nodes_used,
        jobs: 60,
        job_every: 2,
        placement: Placement::Spread,
    }
}

#[test]
fn a_hundred_nodes_with_ten_on_a_list() {
    let spread = assert_spread_is_better(Setting {
        nodes: 100,
        nodes_used: 10,
        jobs: 60,
        // 100 containers of 10 s on 800 places: a load of 0.8.
        job_every: 16,
        placement: Placement::Spread,
    });
    assert!(spread.0 < 0.05, "{spread:?}");
}

#[test]
fn a_thousand_nodes_with_ten_on_a_list() {
    // Ten nodes each second are too few for nothing to be refused.
    let spread = assert_spread_is_better(a_thousand_nodes(10));
    assert!(spread.0 < 0.2, "{spread:?}");
}

#[test]
fn a_thousand_nodes_with_a_hundred_on_a_list() {
    // Lists this long suffice: neither placement has refusals, and their times are those of the
    // last jobs.
    let [in_order, spread] = compare(a_thousand_nodes(100));
    assert!(spread.0 < 0.05, "{spread:?}");
    assert!(
        spread.1 < in_order.1 + in_order.1 / 10,
        "{in_order:?} {spread:?}"
    );
}

#[test]
fn looks_at_nodes_leave_no_refusals_and_sheds_however_short_the_list() {
    let (.., by_lists) = run(a_thousand_nodes(100), Placement::Spread);
    for nodes_used in [1, 10] {
        let (refused, shed, finished_ms) = run(a_thousand_nodes(nodes_used), Placement::Look);
        assert!(refused + shed <= 0.01, "{refused} {shed}");
        assert!(finished_ms <= by_lists, "{finished_ms} {by_lists}");
    }
}

#[test]
fn looks_hold_back_what_a_burst_has_no_room_for() {
    // 6,000 containers within 12 s on 800 places.
    let burst = Setting {
        nodes: 100,
        ..a_thousand_nodes(10)
    };
    let (refused, shed, finished_ms) = run(burst, Placement::Look);
    assert!(refused + shed <= 0.01, "{refused} {shed}");
    let (.., by_lists) = run(burst, Placement::Spread);
    assert!(finished_ms <= by_lists, "{finished_ms} {by_lists}");
}
