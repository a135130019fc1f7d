//! What follows from a seed: the cluster's configuration, the rates of faults, the workload.

use std::sync::Arc;

use mini_rm::config::Config;
use records::{ExecutionType, NodeId, Resource};
use sched::{ContainerSchedulerConfig, LoadComparator};
use sim::{Distribution, LinkModel, Random, Streams};

use crate::node_config::{Failures, NodeConfig, Pace};
use crate::plan::{Plan, Work};
use crate::planted::Planted;

/// Capacity of each node.
pub const CAPACITY: Resource = Resource::new(8_192, 8);

/// Milliseconds from SIGTERM to SIGKILL.
pub const SIGKILL_DELAY_MS: u64 = 250;

/// Name of the auxiliary service that nodes have.
pub const SERVICE: &str = "mapreduce_shuffle";

/// Name of a node's host, before its number.
const HOST: &str = "n";

/// Share of a run in which faults happen, in percent. Afterwards everything must come to its end.
const FAULTS_PERCENT: u64 = 65;

/// Share of a run in which applications are submitted, in percent.
const SUBMISSIONS_PERCENT: u64 = 50;

/// Mean milliseconds between two applications for each node, in a run of churn.
const CHURN_SUBMISSION_MS: u64 = 600_000;

/// Probability that an agent ends a moment after it has accepted the start of a container, in parts
/// per million, where agents end at all.
const AFTER_START: u32 = 5_000;

/// The same after it has accepted the end of a container, which is rarer.
const AFTER_STOP: u32 = 300_000;

/// Probability that the kernel takes its time to end a process of nobody that an agent found and
/// killed, in parts per million; and where all faults are frequent.
const STUCK: u32 = 50_000;
const STUCK_OFTEN: u32 = 300_000;

/// Size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Number of nodes.
    pub nodes: usize,
    /// Length in virtual seconds.
    pub seconds: u64,
}

/// Returns the id of a node.
#[must_use]
pub fn node_id(index: usize) -> NodeId {
    NodeId {
        host: format!("{HOST}{index}"),
        port: 8041,
    }
}

/// Returns the number of a node.
///
/// # Panics
/// When the node is not of this simulation.
#[must_use]
pub fn index_of(id: &NodeId) -> usize {
    let number = id.host.strip_prefix(HOST);
    let number = number.and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{id} is not a node of the simulation"))
}

/// Mean milliseconds between two faults of a kind in the whole cluster; `None`: there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultRates {
    /// Between ends of agents.
    pub agent_crash_ms: Option<u64>,
    /// Between ends of machines.
    pub machine_crash_ms: Option<u64>,
    /// Between partitions of a node from the ResourceManager or from another machine.
    pub partition_ms: Option<u64>,
    /// Between settings of a node's wall clock.
    pub clock_ms: Option<u64>,
    /// Between times of a slow disk.
    pub slow_disk_ms: Option<u64>,
    /// Between containers that use too much memory.
    pub memory_ms: Option<u64>,
    /// Between starts of a ResourceManager without memory.
    pub rm_restart_ms: Option<u64>,
}

/// A run's configuration.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// Size of the run.
    pub size: Size,
    /// Network during the time of faults.
    pub link: LinkModel,
    /// Durations of work on nodes.
    pub pace: Pace,
    /// Failures of work on nodes.
    pub failures: Failures,
    /// Rates of faults.
    pub faults: FaultRates,
    /// Mean milliseconds between two applications.
    pub submission_ms: u64,
    /// Fault planted on purpose.
    pub planted: Option<Planted>,
    /// Name of the only checker that looks on; `None`: all do.
    pub only: Option<&'static str>,
    faults_percent: u64,
    submissions_percent: u64,
    heartbeat_ms: u64,
    pauses: bool,
    keeps_containers_on_resync: bool,
    queue_length_max: usize,
    aggregates_logs: bool,
}

impl Scenario {
    /// Returns the scenario of a seed. About half of the kinds of faults happen in each; in a
    /// quarter of the seeds all happen, and often.
    #[must_use]
    pub fn of(seed: u64, size: Size) -> Self {
        if seed.is_multiple_of(4) {
            Self::harsh(seed, size)
        } else {
            Self::mixed(seed, size)
        }
    }

    /// Returns the scenario of a seed with all kinds of faults, each often.
    #[must_use]
    pub fn harsh(seed: u64, size: Size) -> Self {
        let mixed = Self::mixed(seed, size);
        let nodes = (size.nodes as u64).max(1);
        let per_node = |seconds: u64| Some(seconds * 1_000 / nodes);
        Self {
            link: LinkModel {
                loss_per_million: 30_000,
                duplicate_per_million: 30_000,
                ..mixed.link
            },
            pace: Pace {
                commit: Distribution::LogUniform(1, 400),
                ..mixed.pace
            },
            faults: FaultRates {
                agent_crash_ms: per_node(60),
                machine_crash_ms: per_node(600),
                partition_ms: per_node(120),
                clock_ms: per_node(200),
                slow_disk_ms: per_node(120),
                memory_ms: per_node(60),
                rm_restart_ms: Some(size.seconds * 400),
            },
            failures: Failures {
                after_start: AFTER_START,
                after_stop: AFTER_STOP,
                stuck: STUCK_OFTEN,
                ..mixed.failures
            },
            ..mixed
        }
    }

    /// Returns the scenario of a seed in which applications come and all kinds of faults happen to
    /// the end, for a look at what grows.
    #[must_use]
    pub fn churn(seed: u64, size: Size) -> Self {
        let harsh = Self::harsh(seed, size);
        let nodes = (size.nodes as u64).max(1);
        Self {
            failures: Failures {
                agents_until_ms: size.seconds * 1_000,
                ..harsh.failures
            },
            faults_percent: 100,
            submissions_percent: 100,
            submission_ms: CHURN_SUBMISSION_MS / nodes,
            ..harsh
        }
    }

    fn mixed(seed: u64, size: Size) -> Self {
        let mut random = Streams::new(seed).stream("scenario", 0);
        let random = &mut random;
        let nodes = size.nodes as u64;
        // A fault of each kind on each node every so often, on average.
        let mut rate = |seconds: u64| {
            let every = random.within(seconds..=4 * seconds) * 1_000;
            random.chance(500_000).then_some(every / nodes.max(1))
        };
        let faults = FaultRates {
            agent_crash_ms: rate(300),
            machine_crash_ms: rate(1_200),
            partition_ms: rate(300),
            clock_ms: rate(600),
            slow_disk_ms: rate(300),
            memory_ms: rate(120),
            rm_restart_ms: None,
        };
        let is_lossy = random.chance(600_000);
        let link = LinkModel {
            delay_ms: Distribution::LogUniform(1, random.within(2..=400)),
            loss_per_million: if is_lossy { pick(random, 30_000) } else { 0 },
            duplicate_per_million: if is_lossy { pick(random, 30_000) } else { 0 },
        };
        let rm_restarts = random.chance(100_000);
        let agents_end = faults.agent_crash_ms.is_some();
        Self {
            seed,
            size,
            link,
            pace: Pace {
                launch: Distribution::LogUniform(2, 60),
                localize: Distribution::LogUniform(20, 5_000),
                freeze: Distribution::Uniform(0, 20),
                commit: Distribution::LogUniform(1, random.within(2..=200)),
            },
            failures: Failures {
                launch: pick(random, 10_000),
                localize: pick(random, 20_000),
                freeze: pick(random, 50_000),
                after_start: if agents_end { AFTER_START } else { 0 },
                after_stop: if agents_end { AFTER_STOP } else { 0 },
                stuck: STUCK,
                agents_until_ms: size.seconds * 10 * FAULTS_PERCENT,
            },
            faults: FaultRates {
                rm_restart_ms: rm_restarts.then_some(size.seconds * 700),
                ..faults
            },
            submission_ms: random.within(20..=60) * 60_000 / nodes.max(1),
            planted: None,
            only: None,
            faults_percent: FAULTS_PERCENT,
            submissions_percent: SUBMISSIONS_PERCENT,
            heartbeat_ms: *random.pick(&[1_000, 2_000, 3_000]).unwrap_or(&1_000),
            pauses: random.chance(500_000),
            keeps_containers_on_resync: random.chance(850_000),
            queue_length_max: usize::try_from(random.within(2..=20)).unwrap_or(2),
            aggregates_logs: random.chance(500_000),
        }
    }

    /// Returns the virtual time, in milliseconds, until which faults happen.
    #[must_use]
    pub const fn faults_until_ms(&self) -> u64 {
        self.size.seconds * 10 * self.faults_percent
    }

    /// Returns the virtual time, in milliseconds, until which applications are submitted.
    #[must_use]
    pub const fn submissions_until_ms(&self) -> u64 {
        self.size.seconds * 10 * self.submissions_percent
    }

    /// Returns the virtual time, in milliseconds, at which the run is complete.
    #[must_use]
    pub const fn until_ms(&self) -> u64 {
        self.size.seconds * 1_000
    }

    /// Returns the ResourceManager's configuration: Hadoop's, with expiries short enough for a run.
    ///
    /// # Panics
    /// When `mini_rm` refuses it.
    #[must_use]
    pub fn rm_config(&self) -> Config {
        let heartbeat = self.heartbeat_ms.to_string();
        let config = Config::of(&[
            (
                "yarn.resourcemanager.opportunistic-container-allocation.enabled",
                "true",
            ),
            (
                "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms",
                &heartbeat,
            ),
            ("yarn.nm.liveness-monitor.expiry-interval-ms", "30000"),
            ("yarn.am.liveness-monitor.expiry-interval-ms", "30000"),
            (
                "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms",
                "60000",
            ),
            (
                "yarn.resourcemanager.container-tokens.master-key-rolling-interval-secs",
                "120",
            ),
            (
                "yarn.resourcemanager.nm-tokens.master-key-rolling-interval-secs",
                "150",
            ),
            ("yarn.resourcemanager.am.max-attempts", "4"),
            ("yarn.scheduler.minimum-allocation-mb", "256"),
        ]);
        config.expect("the simulation configures a ResourceManager correctly")
    }

    /// Returns a node's configuration.
    #[must_use]
    pub fn node_config(&self, index: usize, directory: &Arc<dir_handle::DirHandle>) -> NodeConfig {
        NodeConfig {
            id: node_id(index),
            capacity: CAPACITY,
            scheduler: ContainerSchedulerConfig {
                queue_length_max: self.queue_length_max,
                load_comparator: LoadComparator::default(),
                use_pause_for_preemption: self.pauses,
                pause_max_ms: 60_000,
                memory_ceiling_mb: CAPACITY.memory_mb + 2_048,
                vmem_check: None,
                sigkill_delay_ms: SIGKILL_DELAY_MS,
                ..ContainerSchedulerConfig::default()
            },
            keeps_containers_on_resync: self.keeps_containers_on_resync,
            aggregates_logs: self.aggregates_logs,
            directory: Arc::clone(directory),
        }
    }
}

/// Returns a probability up to `most`, small ones more often.
fn pick(random: &mut Random, most: u32) -> u32 {
    let drawn = Distribution::LogUniform(1, u64::from(most)).sample(random);
    u32::try_from(drawn).unwrap_or(most)
}

/// Kind of containers that an AM asks for.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Priority of the asks, by which the AM recognizes what it gets.
    pub priority: i32,
    /// Size.
    pub resource: Resource,
    /// Execution type.
    pub execution_type: ExecutionType,
    /// Number of tasks.
    pub tasks: u32,
}

/// Draws the tasks of an application.
pub fn classes(random: &mut Random) -> Vec<Class> {
    let kinds = [
        ExecutionType::Guaranteed,
        ExecutionType::Opportunistic,
        ExecutionType::Opportunistic,
    ];
    let mut priority = 0;
    let class = |kind: &ExecutionType| {
        priority += 1;
        let sizes = [(512, 1), (1_024, 1), (2_048, 2), (3_072, 1)];
        let (memory_mb, vcores) = *random.pick(&sizes).unwrap_or(&sizes[0]);
        let tasks = Distribution::LogUniform(1, 60).sample(random);
        Class {
            priority,
            resource: Resource::new(memory_mb, vcores),
            execution_type: *kind,
            tasks: u32::try_from(tasks).unwrap_or(1),
        }
    };
    kinds.iter().map(class).collect()
}

/// Draws what a task will do.
pub fn task(random: &mut Random) -> Plan {
    let fails = random.chance(30_000);
    Plan {
        work: Work::Task {
            run_ms: Distribution::LogUniform(10, 90_000).sample(random),
            status: if fails { 1 } else { 0 },
        },
        ignores_term: random.chance(150_000),
        stuck_ms: Distribution::Mostly(0, 20_000, 50_000).sample(random),
    }
}
