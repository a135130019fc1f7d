//! Distributed allocation on a ResourceManager with Hadoop's lists, by each placement, in a steady
//! stream of jobs: how many containers nodes turn away or shed, how long jobs take, how much of the
//! cluster runs, and how unequal the queues are.
//!
//! Nodes of 8 places and queues of 15. Jobs of 100 containers arrive evenly; four of five jobs have
//! tasks of 6 s, one has tasks of 26 s, each plus or minus 5 %. Everything beats once a second,
//! each at its own tenth of the second. The first half of the jobs fills the cluster and is not
//! measured.

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

impl Setting {
    /// Returns the number of jobs that fill the cluster.
    const fn filling(&self) -> usize {
        self.jobs / 2
    }
}

/// Sums of one run.
#[derive(Clone, Debug, Default)]
struct Sums {
    refused: u32,
    shed: u32,
    /// Jobs that have ended.
    ended: usize,
    /// Milliseconds from arrival to end of each measured job.
    times_ms: Vec<u64>,
    /// Ticks while measured jobs arrived.
    ticks: u32,
    /// Shares of the places that ran a task, one for each of these ticks, added up.
    used: f64,
    /// Standard deviations of the queue lengths, likewise.
    queue_stdev: f64,
}

/// Figures of one run.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Containers that nodes refused or shed, per container of the jobs.
    turned_away: f64,
    /// From arrival to end of a job.
    median_ms: u64,
    /// Share of the places that run a task while jobs arrive.
    used: f64,
    /// Standard deviation of the queue lengths.
    queue_stdev: f64,
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
    sums: Sums,
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
            sums: Sums::default(),
        }
    }

    fn run(mut self) -> Sums {
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
            if self.jobs.len() < self.setting.jobs {
                if tick % self.setting.job_every == 0 {
                    self.submit(now);
                }
                if self.jobs.len() > self.setting.filling() {
                    self.measure();
                }
            }
            for number in (0..self.jobs.len()).filter(|number| beats(*number)) {
                self.master_heartbeat(number, now);
            }
            if self.sums.ended == self.setting.jobs {
                return self.sums;
            }
        }
        unreachable!("the loop has no end")
    }

    fn measure(&mut self) {
        let nodes = f64::from(u32::try_from(self.nodes.len()).unwrap());
        let running = f64::from(u32::try_from(self.running.len()).unwrap());
        let queue = |node: &SimulatedNode| f64::from(node.load().queue_length);
        let mean = self.nodes.iter().map(queue).sum::<f64>() / nodes;
        let square = |node: &SimulatedNode| (queue(node) - mean).powi(2);
        let variance = self.nodes.iter().map(square).sum::<f64>() / nodes;
        self.sums.ticks += 1;
        self.sums.used += running / (nodes * f64::from(PLACES));
        self.sums.queue_stdev += variance.sqrt();
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
                plan.hears(position, LookAnswer::Seen(node.scheduler.sight(now)));
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
            self.sums.ended += 1;
            if number >= self.setting.filling() {
                self.sums.times_ms.push(now.since(job.arrived));
            }
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
                    self.sums.refused += 1;
                    (id, ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER)
                }
                News::Shed(id) => {
                    self.sums.shed += 1;
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

/// Runs a placement; prints and returns what it comes to.
fn run(setting: Setting, placement: Placement) -> Outcome {
    let setting = Setting {
        placement,
        ..setting
    };
    let mut sums = Cluster::new(setting).run();
    sums.times_ms.sort_unstable();
    let at = |percent: usize| sums.times_ms[(sums.times_ms.len() - 1) * percent / 100];
    let containers = f64::from(u32::try_from(setting.jobs).unwrap() * TASKS);
    let ticks = f64::from(sums.ticks);
    let outcome = Outcome {
        turned_away: f64::from(sums.refused + sums.shed) / containers,
        median_ms: at(50),
        used: sums.used / ticks,
        queue_stdev: sums.queue_stdev / ticks,
    };
    println!(
        "{} nodes, {} on a list, {placement:?}: refused {}, shed {}; p95 {} ms; {outcome:?}",
        setting.nodes,
        setting.nodes_used,
        sums.refused,
        sums.shed,
        at(95),
    );
    outcome
}

/// Returns a setting with a load of 0.8: 100 containers of 10 s each 1.6 s on 800 places.
fn a_hundred_nodes(nodes_used: usize) -> Setting {
    Setting {
        nodes: 100,
        nodes_used,
        jobs: 200,
        job_every: 16,
        placement: Placement::Spread,
    }
}

/// Returns a setting with a load of 0.63: 100 containers of 10 s each 0.2 s on 8,000 places.
fn a_thousand_nodes(nodes_used: usize) -> Setting {
    Setting {
        nodes: 1_000,
        nodes_used,
        jobs: 300,
        job_every: 2,
        placement: Placement::Spread,
    }
}

/// Checks that spreading over a list that is too short turns away less than a tenth of what the
/// list's order does, and that jobs end sooner.
fn assert_spread_is_better(setting: Setting) -> Outcome {
    let [in_order, spread] = [Placement::ListOrder, Placement::Spread].map(|it| run(setting, it));
    assert!(
        in_order.turned_away > 10.0 * spread.turned_away,
        "{in_order:?} {spread:?}"
    );
    assert!(
        spread.median_ms < in_order.median_ms,
        "{in_order:?} {spread:?}"
    );
    spread
}

/// Checks that looks turn nothing away, run what arrives, and level the queues.
fn assert_looks_see(look: &Outcome, offered: f64) {
    assert!(look.turned_away <= 0.01, "{look:?}");
    assert!(look.used >= 0.95 * offered, "{look:?}");
    assert!(look.queue_stdev < 1.0, "{look:?}");
}

#[test]
fn a_hundred_nodes_with_ten_on_a_list() {
    let spread = assert_spread_is_better(a_hundred_nodes(10));
    let look = run(a_hundred_nodes(10), Placement::Look);
    assert_looks_see(&look, 0.8);
    assert!(look.median_ms < spread.median_ms, "{look:?} {spread:?}");
}

#[test]
fn with_all_nodes_on_the_list_every_placement_finds_the_free_places() {
    for placement in [Placement::ListOrder, Placement::Spread, Placement::Look] {
        assert_looks_see(&run(a_hundred_nodes(100), placement), 0.8);
    }
}

#[test]
fn looks_do_at_a_thousand_nodes_what_lists_that_suffice_do() {
    // A list of a hundred offers more places between two sorts than containers arrive.
    let by_lists = run(a_thousand_nodes(100), Placement::Spread);
    for nodes_used in [1, 10] {
        let look = run(a_thousand_nodes(nodes_used), Placement::Look);
        assert_looks_see(&look, 0.63);
        assert!(
            look.median_ms <= by_lists.median_ms,
            "{look:?} {by_lists:?}"
        );
    }
}

#[test]
fn a_thousand_nodes_with_ten_on_a_list_are_too_much_for_lists() {
    // Ten nodes have 230 places, those of their queues included, and 500 containers arrive between
    // two sorts.
    let spread = run(a_thousand_nodes(10), Placement::Spread);
    assert!(spread.turned_away > 0.5 && spread.used < 0.4, "{spread:?}");
}

#[test]
fn looks_hold_back_what_a_burst_has_no_room_for() {
    // 6,000 containers within 12 s on 800 places.
    let burst = Setting {
        nodes: 100,
        jobs: 60,
        ..a_thousand_nodes(10)
    };
    let look = run(burst, Placement::Look);
    assert!(look.turned_away <= 0.01, "{look:?}");
    let by_lists = run(burst, Placement::Spread);
    assert!(
        look.median_ms <= by_lists.median_ms,
        "{look:?} {by_lists:?}"
    );
}
