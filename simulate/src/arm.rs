//! The part of an arm that places containers: ResourceManager and proxies, on the code that ships
//! where there is any.

mod beside;
mod central;
mod distributed;
mod embedded;
mod guaranteed;
mod hadoop;
mod look;
mod managed;
mod placer;
mod reserving;
mod sampled;
mod stated;

use sched::{ContainerSchedulerConfig, Placement};
use sim::Streams;

use self::beside::Beside;
use self::central::Central;
use self::distributed::Distributed;
use self::embedded::Embedded;
use self::guaranteed::{Guaranteed, Order};
use self::hadoop::{Hadoop, Kind, Monitor};
use self::managed::{Managed, Shipped};
use self::reserving::Reserving;
use self::sampled::{Mode, Sampled};
use crate::job::Job;
use crate::node::room_of;
use crate::scenario::{Arm, Cluster, NodeKind, Policy, RmKind, Scenario};

pub(crate) use self::managed::load_config;
pub(crate) use self::placer::{
    CLUSTER_TIMESTAMP, MasterCall, Placed, Placer, application_of, job_of,
};
pub(crate) use self::reserving::Letter;
pub(crate) use self::stated::Stated;

/// Creates the placement of an arm; `None` for a bound, which has no cluster.
pub(crate) fn placer(
    scenario: &Scenario,
    arm: &Arm,
    jobs: &[Job],
    streams: Streams,
) -> Option<Box<dyn Placer>> {
    let guaranteed = |order| Guaranteed::new(scenario, order);
    if let Some(order) = Order::of(arm.policy) {
        return Some(Box::new(guaranteed(order)));
    }
    let of_arm = opportunistic(arm, &scenario.cluster, jobs, streams)?;
    if !scenario.masters.container && !scenario.workload.has_guaranteed() {
        return Some(of_arm);
    }
    let guaranteed: Box<dyn Placer> = match scenario.cluster.resource_manager {
        RmKind::Hadoop => Box::new(guaranteed(Order::Fifo)),
        RmKind::Embedded => Box::new(Embedded::new(scenario)),
    };
    Some(Box::new(Beside::new(guaranteed, of_arm)))
}

/// Creates the placement of an arm's opportunistic containers; `None` if it has none.
fn opportunistic(
    arm: &Arm,
    cluster: &Cluster,
    jobs: &[Job],
    streams: Streams,
) -> Option<Box<dyn Placer>> {
    let kind = cluster.resource_manager;
    let settings = &arm.settings;
    let nodes = cluster.node_count();
    let shipped = || Shipped::new(settings, nodes);
    let distributed = |placement| -> Box<dyn Placer> {
        let allocator = Distributed::new(settings.nodes_used, kind, placement);
        Box::new(Managed::new(shipped(), nodes, allocator))
    };
    let hadoop = |kind| -> Box<dyn Placer> {
        let allocator = Hadoop::new(settings, kind, streams);
        Box::new(Managed::new(Monitor::new(settings), nodes, allocator))
    };
    let sampled = |mode| -> Box<dyn Placer> {
        Box::new(Managed::new(shipped(), nodes, Sampled::new(mode, streams)))
    };
    Some(match arm.policy {
        Policy::Spread => distributed(Placement::Spread),
        Policy::ListOrder => distributed(Placement::ListOrder),
        Policy::Central => Box::new(Managed::new(shipped(), nodes, Central::new(streams))),
        Policy::HadoopCentral => hadoop(Kind::Central),
        Policy::HadoopDistributed => hadoop(Kind::Distributed),
        Policy::Random => sampled(Mode::Random),
        Policy::Looks => sampled(Mode::Looks),
        Policy::Look => {
            let allocator = Distributed::looking(settings, kind, nodes);
            Box::new(Managed::new(shipped(), nodes, allocator))
        }
        Policy::Reservations => {
            let hints = crate::hints::of_jobs(arm, jobs);
            Box::new(Reserving::new(settings, hints, nodes))
        }
        Policy::SparrowEarly => sampled(Mode::Batch),
        Policy::SparrowLate => sampled(Mode::Probes),
        Policy::GuaranteedFifo
        | Policy::GuaranteedFair
        | Policy::GuaranteedShortest
        | Policy::OmniscientFifo
        | Policy::OmniscientShortest => return None,
    })
}

/// Returns the configuration of a node's scheduler. Sparrow's nodes have no bound on queues.
pub(crate) fn scheduler_config(arm: &Arm, node: NodeKind) -> ContainerSchedulerConfig {
    let memory_mb = room_of(node).memory_mb;
    let queue_length_max = if arm.policy.is_sparrow() {
        sched::QUEUE_LENGTH_MAX
    } else {
        arm.settings.queue_length
    };
    ContainerSchedulerConfig {
        queue_length_max,
        queue_order: arm.settings.queue_order.into(),
        queue_bound_factor: arm.settings.queue_bound_factor,
        load_comparator: arm.settings.comparator.into(),
        use_pause_for_preemption: arm.settings.pause,
        pause_max_ms: arm.settings.pause_max_s * 1_000,
        memory_ceiling_mb: memory_mb + memory_mb * arm.settings.pause_memory_percent / 100,
        ..ContainerSchedulerConfig::default()
    }
}
