//! The part of an arm that places containers: ResourceManager and proxies, on the code that ships
//! where there is any.

mod beside;
mod central;
mod distributed;
mod guaranteed;
mod hadoop;
mod look;
mod sampled;

use records::{
    ApplicationId, ContainerExitStatus, ContainerId, ExecutionType, ExecutionTypeRequest,
    MonoMillis, Priority, ResourceName, ResourceRequest,
};
use sched::{
    ContainerQueuingLimit, ContainerSchedulerConfig, NodeLoad, NodeLoadConfig, NodeLoadMonitor,
    QueueLimitConfig,
};
use sim::Streams;

use crate::node::{Node, SIZE, node_id};
use crate::scenario::{Arm, Cluster, Policy, Scenario, Settings};

/// Start of the simulated ResourceManager, a part of every id.
const CLUSTER_TIMESTAMP: i64 = 1_700_000_000_000;

/// Container that a placer gives to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) id: ContainerId,
    /// Number of the node.
    pub(crate) node: usize,
    pub(crate) execution_type: ExecutionType,
    /// Whether the master decides what runs only when the container has a place, and drops it if
    /// nothing is left to run (late binding).
    pub(crate) is_probe: bool,
}

impl Placed {
    /// Returns a guaranteed container.
    pub(crate) const fn guaranteed(id: ContainerId, node: usize) -> Self {
        Self {
            id,
            node,
            execution_type: ExecutionType::Guaranteed,
            is_probe: false,
        }
    }

    /// Returns an opportunistic container that runs what the master has chosen for it.
    pub(crate) const fn opportunistic(id: ContainerId, node: usize) -> Self {
        Self {
            id,
            node,
            execution_type: ExecutionType::Opportunistic,
            is_probe: false,
        }
    }
}

/// Heartbeat of an ApplicationMaster, as a placer sees it.
pub(crate) struct MasterCall<'a> {
    /// Number of the job.
    pub(crate) job: usize,
    /// Opportunistic containers that the job has asked for and not got.
    pub(crate) wanted: u32,
    /// Guaranteed ones.
    pub(crate) wanted_guaranteed: u32,
    /// Probes of the job that have neither got a place nor ended.
    pub(crate) probes: u32,
    /// Ends that the answer reports.
    pub(crate) ended: &'a [(ContainerId, ContainerExitStatus)],
    pub(crate) now: MonoMillis,
}

/// Cost of an arm to the ResourceManager and to the proxies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls that the ResourceManager answered.
    pub rm_calls: u64,
    /// Entries of lists of nodes that its answers carried.
    pub list_entries: u64,
    /// Looks at nodes.
    pub looks: u64,
}

/// Placement of an arm.
pub(crate) trait Placer {
    /// A node's heartbeat. `ended` are the containers whose ends it reports.
    fn node_beats(
        &mut self,
        node: usize,
        load: &NodeLoad,
        ended: &[(ContainerId, ContainerExitStatus)],
        now: MonoMillis,
    );

    /// A job has arrived; its first call comes later.
    fn job_arrives(&mut self, job: usize, now: MonoMillis);

    /// A call of a job's master. Returns the containers of the answer.
    fn master_calls(&mut self, call: &MasterCall<'_>, nodes: &[Node]) -> Vec<Placed>;

    /// The ResourceManager takes a node for lost, with all its containers.
    fn node_is_lost(&mut self, node: usize);

    /// A node that was lost has registered again, without containers. Its heartbeat follows.
    fn node_joins(&mut self, _node: usize) {}

    /// Returns the time by which the placement delays the answer to a call.
    fn answer_delay_ms(&self) -> u64 {
        0
    }

    /// A job has ended.
    fn job_ends(&mut self, job: usize);

    /// Sorts the nodes if a sort is due.
    fn tick(&mut self, now: MonoMillis);

    /// Returns the limit that the answer to a node's heartbeat carries.
    fn queuing_limit(&self) -> ContainerQueuingLimit;

    /// Takes the containers of masters that the last heartbeat of a node has got. The
    /// ResourceManager starts them itself.
    fn masters_placed(&mut self) -> Vec<Placed> {
        Vec::new()
    }

    /// Returns the cost so far, without the nodes' own heartbeats.
    fn cost(&self) -> Cost;
}

/// Creates the placement of an arm; `None` for a bound, which has no cluster.
pub(crate) fn placer(scenario: &Scenario, arm: &Arm, streams: Streams) -> Option<Box<dyn Placer>> {
    let guaranteed = |order| guaranteed::Guaranteed::new(scenario, order);
    if let Some(order) = guaranteed::Order::of(arm.policy) {
        return Some(Box::new(guaranteed(order)));
    }
    let of_arm = opportunistic(arm, &scenario.cluster, streams)?;
    if !scenario.masters.container && !scenario.workload.has_guaranteed() {
        return Some(of_arm);
    }
    let guaranteed = guaranteed(guaranteed::Order::Fifo);
    Some(Box::new(beside::Beside::new(guaranteed, of_arm)))
}

/// Creates the placement of an arm's opportunistic containers; `None` if it has none.
fn opportunistic(arm: &Arm, cluster: &Cluster, streams: Streams) -> Option<Box<dyn Placer>> {
    let settings = &arm.settings;
    let nodes = cluster.node_count();
    let hadoop = |allocator| -> Box<dyn Placer> {
        Box::new(hadoop::Hadoop::new(settings, allocator, streams))
    };
    let sampled = |mode| -> Box<dyn Placer> {
        Box::new(sampled::Sampled::new(settings, mode, nodes, streams))
    };
    Some(match arm.policy {
        Policy::Spread => Box::new(distributed::Distributed::new(
            settings,
            sched::Placement::Spread,
        )),
        Policy::ListOrder => Box::new(distributed::Distributed::new(
            settings,
            sched::Placement::ListOrder,
        )),
        Policy::Central => Box::new(central::Central::new(settings, streams)),
        Policy::HadoopCentral => hadoop(hadoop::Allocator::Central),
        Policy::HadoopDistributed => hadoop(hadoop::Allocator::Distributed),
        Policy::Random => sampled(sampled::Mode::Random),
        Policy::Looks => sampled(sampled::Mode::Looks),
        Policy::Look => Box::new(look::Looked::new(settings, nodes, streams)),
        Policy::SparrowEarly => sampled(sampled::Mode::Batch),
        Policy::SparrowLate => sampled(sampled::Mode::Probes),
        Policy::GuaranteedFifo
        | Policy::GuaranteedFair
        | Policy::GuaranteedShortest
        | Policy::OmniscientFifo
        | Policy::OmniscientShortest => return None,
    })
}

/// Returns the configuration of the nodes' schedulers. Sparrow's nodes have no bound on queues.
pub(crate) fn scheduler_config(arm: &Arm) -> ContainerSchedulerConfig {
    let queue_length_max = if arm.policy.is_sparrow() {
        sched::QUEUE_LENGTH_MAX
    } else {
        arm.settings.queue_length
    };
    ContainerSchedulerConfig {
        queue_length_max,
        load_comparator: arm.settings.comparator.into(),
        ..ContainerSchedulerConfig::default()
    }
}

/// Returns the ResourceManager's monitor of loads.
fn monitor(settings: &Settings) -> NodeLoadMonitor {
    let comparator = settings.comparator.into();
    let defaults = QueueLimitConfig::default_for(comparator);
    let config = NodeLoadConfig {
        comparator,
        sorting_interval_ms: settings.sorting_interval_ms,
        nodes_used: settings.nodes_used,
        queue_limit: QueueLimitConfig {
            sigma: settings.limit_stdev,
            min: settings.limit_min.unwrap_or(defaults.min),
            max: settings.limit_max.unwrap_or(defaults.max),
        },
    };
    NodeLoadMonitor::new(config, MonoMillis(0))
}

fn update(monitor: &mut NodeLoadMonitor, node: usize, load: &NodeLoad, now: MonoMillis) {
    monitor.update(&node_id(node), "/rack", load, now);
}

/// Returns the id of a job's application.
pub(crate) fn application_of(job: usize) -> ApplicationId {
    let number = i32::try_from(job).unwrap_or(i32::MAX);
    ApplicationId::new(CLUSTER_TIMESTAMP, number)
}

/// Returns the job of a container.
pub(crate) fn job_of(id: &ContainerId) -> usize {
    usize::try_from(id.application_id().id).unwrap_or(0)
}

/// Returns an ask for containers on any node.
fn ask(count: u32) -> ResourceRequest {
    ResourceRequest {
        priority: Priority(1),
        resource_name: ResourceName::Any,
        capability: SIZE,
        num_containers: count,
        relax_locality: true,
        allocation_request_id: 0,
        execution_type_request: ExecutionTypeRequest::default(),
        node_label_expression: None,
    }
}
