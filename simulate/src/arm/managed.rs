//! A ResourceManager that knows the loads of its nodes: heartbeats, sorts, lost nodes, the limit of
//! the queues, and the begin and end of jobs. An [`Allocator`] is what an arm adds to it.

use std::collections::BTreeMap;

use records::{ContainerExitStatus, ContainerId, MonoMillis, NodeId};
use sched::{ContainerQueuingLimit, NodeLoad, NodeLoadConfig, NodeLoadMonitor, QueueLimitConfig};

use super::placer::{MasterCall, Placed, Placer, application_of};
use crate::measure::Cost;
use crate::node::{Node, node_id};
use crate::scenario::Settings;

/// Number before that of the first container that an arm numbers itself: above those of masters,
/// which come first.
const ID_START: i64 = 1 << 42;

/// Monitor of the loads of nodes.
pub(super) trait Loads {
    /// Takes the load of a node's heartbeat.
    fn update(&mut self, node: usize, load: &NodeLoad, now: MonoMillis);

    /// Forgets a node that is lost.
    fn remove(&mut self, node: usize);

    /// Sorts the nodes if a sort is due; returns whether it was.
    fn sort(&mut self, now: MonoMillis) -> bool;

    /// Returns the limit that the answer to a node's heartbeat carries.
    fn queuing_limit(&self) -> ContainerQueuingLimit;
}

/// The monitor that ships.
pub(super) struct Shipped {
    pub(super) monitor: NodeLoadMonitor,
    /// Ids of the nodes by their numbers.
    ids: Vec<NodeId>,
}

impl Shipped {
    pub(super) fn new(settings: &Settings, nodes: usize) -> Self {
        Self {
            monitor: NodeLoadMonitor::new(load_config(settings), MonoMillis(0)),
            ids: (0..nodes).map(node_id).collect(),
        }
    }
}

/// Returns the settings of the monitor.
pub(crate) fn load_config(settings: &Settings) -> NodeLoadConfig {
    NodeLoadConfig {
        comparator: settings.comparator.into(),
        sorting_interval_ms: settings.sorting_interval_ms,
        nodes_used: settings.nodes_used,
        queue_limit: queue_limit(settings),
    }
}

/// Returns the settings of the limit of the queues.
pub(super) fn queue_limit(settings: &Settings) -> QueueLimitConfig {
    let defaults = QueueLimitConfig::default_for(settings.comparator.into());
    QueueLimitConfig {
        sigma: settings.limit_stdev,
        min: settings.limit_min.unwrap_or(defaults.min),
        max: settings.limit_max.unwrap_or(defaults.max),
    }
}

impl Loads for Shipped {
    fn update(&mut self, node: usize, load: &NodeLoad, now: MonoMillis) {
        self.monitor.update(&self.ids[node], "/rack", load, now);
    }

    fn remove(&mut self, node: usize) {
        self.monitor.remove(&self.ids[node]);
    }

    fn sort(&mut self, now: MonoMillis) -> bool {
        self.monitor.tick(now)
    }

    fn queuing_limit(&self) -> ContainerQueuingLimit {
        self.monitor.queuing_limit()
    }
}

/// State of the ResourceManager, which allocators read.
pub(super) struct ResourceManager<L> {
    pub(super) loads: L,
    /// Numbers of the nodes that are not lost.
    pub(super) directory: Vec<usize>,
    /// Number of the last container whose id the arm has made itself.
    pub(super) last_id: i64,
    pub(super) cost: Cost,
}

impl<L> ResourceManager<L> {
    /// Returns an opportunistic container of a job with a new id.
    pub(super) fn place(&mut self, job: usize, node: usize) -> Placed {
        self.last_id += 1;
        let id = application_of(job).attempt(1).container(self.last_id);
        Placed::opportunistic(id, node)
    }
}

/// Placement of an arm's opportunistic containers.
pub(super) trait Allocator {
    /// Monitor that the ResourceManager has.
    type Loads: Loads;
    /// State of a job until its end.
    type Job;

    /// Returns the state of a job whose master registers.
    fn begin(
        &mut self,
        job: usize,
        rm: &mut ResourceManager<Self::Loads>,
        now: MonoMillis,
    ) -> Self::Job;

    /// Returns the containers of the answer to a call, which is counted. `ended`: ends that the
    /// answer tells.
    fn allocate(
        &mut self,
        state: &mut Self::Job,
        call: &MasterCall,
        ended: &[(ContainerId, ContainerExitStatus)],
        nodes: &[Node],
        rm: &mut ResourceManager<Self::Loads>,
    ) -> Vec<Placed>;

    /// The ResourceManager has sorted its nodes.
    fn sorted(&mut self, _loads: &Self::Loads) {}

    /// A node was lost or has joined: these are not lost.
    fn nodes_changed(&mut self, _directory: &[usize]) {}

    /// Returns the time by which the placement delays the answer to a call.
    fn answer_delay_ms(&self) -> u64 {
        0
    }

    /// Returns whether the ResourceManager limits the queues.
    fn has_limit(&self) -> bool {
        true
    }
}

/// ResourceManager with an allocator.
pub(super) struct Managed<A: Allocator> {
    rm: ResourceManager<A::Loads>,
    allocator: A,
    /// State of each job from its first call to its end.
    jobs: BTreeMap<usize, A::Job>,
}

impl<A: Allocator> Managed<A> {
    pub(super) fn new(loads: A::Loads, nodes: usize, allocator: A) -> Self {
        Self {
            rm: ResourceManager {
                loads,
                directory: (0..nodes).collect(),
                last_id: ID_START,
                cost: Cost::default(),
            },
            allocator,
            jobs: BTreeMap::new(),
        }
    }
}

impl<A: Allocator> Placer for Managed<A> {
    fn node_beats(
        &mut self,
        node: usize,
        load: &NodeLoad,
        _ended: &[(ContainerId, ContainerExitStatus)],
        now: MonoMillis,
    ) {
        self.rm.loads.update(node, load, now);
    }

    fn job_arrives(&mut self, _job: usize, _now: MonoMillis) {}

    fn master_calls(
        &mut self,
        call: &MasterCall,
        ended: &[(ContainerId, ContainerExitStatus)],
        nodes: &[Node],
    ) -> Vec<Placed> {
        self.rm.cost.rm_calls += 1;
        let begun = self.jobs.entry(call.job);
        let state = begun.or_insert_with(|| {
            // The registration is a call.
            self.rm.cost.rm_calls += 1;
            self.allocator.begin(call.job, &mut self.rm, call.now)
        });
        self.allocator
            .allocate(state, call, ended, nodes, &mut self.rm)
    }

    fn node_is_lost(&mut self, node: usize) {
        self.rm.loads.remove(node);
        self.rm.directory.retain(|known| *known != node);
        self.allocator.nodes_changed(&self.rm.directory);
    }

    fn node_joins(&mut self, node: usize) {
        self.rm.directory.push(node);
        self.allocator.nodes_changed(&self.rm.directory);
    }

    fn answer_delay_ms(&self) -> u64 {
        self.allocator.answer_delay_ms()
    }

    fn job_ends(&mut self, job: usize, _now: MonoMillis) {
        self.jobs.remove(&job);
    }

    fn tick(&mut self, now: MonoMillis) {
        if self.rm.loads.sort(now) {
            self.allocator.sorted(&self.rm.loads);
        }
    }

    fn queuing_limit(&self) -> ContainerQueuingLimit {
        if self.allocator.has_limit() {
            return self.rm.loads.queuing_limit();
        }
        ContainerQueuingLimit {
            max_queue_length: None,
            max_queue_wait_time_ms: None,
        }
    }

    fn cost(&self) -> Cost {
        self.rm.cost
    }
}
