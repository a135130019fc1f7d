//! The placement of an arm as the world sees it.

use records::{
    ApplicationId, ContainerExitStatus, ContainerId, ExecutionType, MonoMillis, Priority,
    ResourceRequest,
};
use sched::{ContainerQueuingLimit, NodeLoad};

use super::reserving::Reserving;
use crate::measure::Cost;
use crate::node::{Node, SIZE};

/// Start of the simulated ResourceManager, a part of every id.
pub(crate) const CLUSTER_TIMESTAMP: i64 = 1_700_000_000_000;

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct MasterCall {
    /// Number of the job.
    pub(crate) job: usize,
    /// Node that the master runs on, whose proxy takes the call; `None`: outside the cluster.
    pub(crate) node: Option<usize>,
    /// Opportunistic containers that the job has asked for and not got.
    pub(crate) wanted: u32,
    /// Guaranteed ones.
    pub(crate) wanted_guaranteed: u32,
    /// Probes of the job that have neither got a place nor ended.
    pub(crate) probes: u32,
    pub(crate) now: MonoMillis,
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

    /// A call of a job's master. `ended`: ends that the answer tells. Returns the containers of the
    /// answer.
    fn master_calls(
        &mut self,
        call: &MasterCall,
        ended: &[(ContainerId, ContainerExitStatus)],
        nodes: &[Node],
    ) -> Vec<Placed>;

    /// The next call of its master gives back a container that it has no use for.
    fn release(&mut self, _id: ContainerId) {}

    /// The ResourceManager takes a node for lost, with all its containers.
    fn node_is_lost(&mut self, node: usize);

    /// A node that was lost has registered again, without containers. Its heartbeat follows.
    fn node_joins(&mut self, _node: usize) {}

    /// Returns the time by which the placement delays the answer to a call.
    fn answer_delay_ms(&self) -> u64 {
        0
    }

    /// A job's master has finished.
    fn job_ends(&mut self, job: usize, now: MonoMillis);

    /// Sorts the nodes if a sort is due.
    fn tick(&mut self, now: MonoMillis);

    /// Returns the limit that the answer to a node's heartbeat carries; none, unless the
    /// ResourceManager watches the queues.
    fn queuing_limit(&self) -> ContainerQueuingLimit {
        ContainerQueuingLimit {
            max_queue_length: None,
            max_queue_wait_time_ms: None,
        }
    }

    /// Returns the reservations of an arm that binds late by them.
    fn reserving(&self) -> Option<&Reserving> {
        None
    }

    /// As [`reserving`](Self::reserving), to be changed.
    fn reserving_mut(&mut self) -> Option<&mut Reserving> {
        None
    }

    /// Takes the containers of masters that the last heartbeat of a node has got. The
    /// ResourceManager starts them itself.
    fn masters_placed(&mut self) -> Vec<Placed> {
        Vec::new()
    }

    /// Returns the cost so far, without the nodes' own heartbeats.
    fn cost(&self) -> Cost;
}

/// Returns the id of a job's application. A ResourceManager numbers them from 1.
pub(crate) fn application_of(job: usize) -> ApplicationId {
    let number = i32::try_from(job + 1).unwrap_or(i32::MAX);
    ApplicationId::new(CLUSTER_TIMESTAMP, number)
}

/// Returns the job of a container.
pub(crate) fn job_of(id: &ContainerId) -> usize {
    let number = usize::try_from(id.application_id().id).unwrap_or(0);
    number.saturating_sub(1)
}

/// Returns an ask for containers on any node.
pub(super) fn ask(count: u32) -> ResourceRequest {
    ResourceRequest::on_any_node(Priority(1), SIZE, count)
}
