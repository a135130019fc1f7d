//! Masters on nodes that give out opportunistic containers themselves (Hadoop: `OpportunisticContainerAllocatorAMService`
//! as `DistributedSchedulingAMProtocol`): what such a node needs to know, and the containers it has given out.
//!
//! A container from a node is taken in like one that was allocated here: it has to be started in time, is reported, may be
//! promoted, and its master hears of its end once. Three things differ from Hadoop. What a node sends a second time,
//! because an answer was lost, is known by its id even when the container has ended since. A call that is refused
//! leaves no containers behind of which no master was told. And a container on a node that has gone is not passed over
//! in silence: its master is told that it has ended.

use std::collections::BTreeSet;

use records::{
    ApplicationAttemptId, ContainerExitStatus, ContainerId, ExecutionType, NodeId, Now, Priority,
    Resource,
};
use sched::{ALLOCATIONS_PER_CALL_MAX, ContainerAllocation, Locality};
use wire::convert::required;
use wire::proto::hadoop_yarn::{
    ContainerProto, DistributedSchedulingAllocateRequestProto,
    DistributedSchedulingAllocateResponseProto, RegisterApplicationMasterRequestProto,
    RegisterDistributedSchedulingAmResponseProto, RemoteNodeProto,
};

use super::Core;
use super::placing::CONTAINERS_MAX;
use crate::refusal::{AllocationFault, Refusal};
use crate::scheduler::EPOCH_SHIFT;

/// Unfinished containers of one attempt beyond which its node gives out no more. A tenth of all there may be, and more than
/// an attempt starts in the time after which unused ones expire.
const CONTAINERS_PER_ATTEMPT_MAX: usize = CONTAINERS_MAX / 10;

/// Nodes in one answer, whatever `nodes-used` says: every master on such a node gets them with every heartbeat, some 80
/// bytes each.
const NODES_PER_ANSWER_MAX: usize = 1_000;

impl Core {
    /// `registerApplicationMasterForDistributedScheduling`: as for any master, and what the node needs to allocate.
    ///
    /// # Errors
    /// When the attempt is not the one that counts, or has registered.
    pub fn register_distributed(
        &mut self,
        attempt: ApplicationAttemptId,
        request: &RegisterApplicationMasterRequestProto,
        now: Now,
    ) -> Result<RegisterDistributedSchedulingAmResponseProto, Refusal> {
        let response = self.register_master(attempt, request, now)?;
        let expiry = i32::try_from(self.config.container_expiry_ms).unwrap_or(i32::MAX);
        Ok(RegisterDistributedSchedulingAmResponseProto {
            register_response: Some(response),
            max_container_resource: Some(self.config.allocation_max.into()),
            min_container_resource: Some(self.config.allocation_min.into()),
            incr_container_resource: Some(self.config.allocation_min.into()),
            container_token_expiry_interval: Some(expiry),
            container_id_start: Some(self.container_id_start()),
            nodes_for_scheduling: self.nodes_for_scheduling(),
        })
    }

    /// `allocateForDistributedScheduling`: as for any master, with what its node has given out.
    ///
    /// # Errors
    /// Those of [`Core::allocate`], or the node gave out what it cannot have. Then none of its containers counts: it may
    /// send them again.
    pub fn allocate_distributed(
        &mut self,
        attempt: ApplicationAttemptId,
        presented: &[u8],
        request: &DistributedSchedulingAllocateRequestProto,
        now: Now,
    ) -> Result<DistributedSchedulingAllocateResponseProto, Refusal> {
        const MESSAGE: &str = "DistributedSchedulingAllocateRequestProto";
        let call = required(
            request.allocate_request.as_ref(),
            MESSAGE,
            "allocate_request",
        )?;
        let given = self.read_given(attempt, &request.allocated_containers, now)?;
        let response = self.allocate(attempt, presented, call, now)?;
        // A repetition may carry containers that the call before it did not.
        self.take_given(attempt, given, now);
        Ok(DistributedSchedulingAllocateResponseProto {
            allocate_response: Some(response),
            nodes_for_scheduling: self.nodes_for_scheduling(),
        })
    }

    /// Nodes count down from here, this side counts up.
    fn container_id_start(&self) -> i64 {
        i64::from(self.config.epoch) << EPOCH_SHIFT
    }

    /// The least loaded nodes, the best first.
    fn nodes_for_scheduling(&self) -> Vec<RemoteNodeProto> {
        let ids = self.load.least_loaded().iter();
        let nodes = ids.filter_map(|id| self.nodes.get(id));
        nodes
            .take(NODES_PER_ANSWER_MAX)
            .map(|node| RemoteNodeProto {
                node_id: Some((&node.id).into()),
                http_address: Some(node.http_address.clone()),
                rack_name: Some(node.rack.clone()),
                node_partition: Some(String::new()),
            })
            .collect()
    }

    /// Checks what a node says it has given out, as a whole.
    fn read_given(
        &self,
        attempt: ApplicationAttemptId,
        containers: &[ContainerProto],
        now: Now,
    ) -> Result<Vec<ContainerAllocation>, Refusal> {
        let per_call = usize::try_from(ALLOCATIONS_PER_CALL_MAX).unwrap_or(usize::MAX);
        if containers.len() > per_call {
            return Err(Refusal::TooManyContainers(per_call));
        }
        let given: Vec<ContainerAllocation> = containers
            .iter()
            .map(|container| self.read_container(attempt, container, now))
            .collect::<Result<_, _>>()?;
        if given.is_empty() {
            return Ok(given);
        }
        if self.containers.len() + given.len() > CONTAINERS_MAX {
            return Err(Refusal::TooManyContainers(CONTAINERS_MAX));
        }
        let held = self.containers_of(attempt).count();
        if held + given.len() > CONTAINERS_PER_ATTEMPT_MAX {
            return Err(Refusal::TooManyContainers(CONTAINERS_PER_ATTEMPT_MAX));
        }
        Ok(given)
    }

    fn read_container(
        &self,
        attempt: ApplicationAttemptId,
        container: &ContainerProto,
        now: Now,
    ) -> Result<ContainerAllocation, Refusal> {
        const MESSAGE: &str = "ContainerProto";
        let id = required(container.id.as_ref(), MESSAGE, "id")?;
        let container_id = ContainerId::try_from(id)?;
        let fault = |fault| {
            Err(Refusal::ForeignAllocation {
                container: container_id,
                fault,
            })
        };
        if container_id.attempt != attempt {
            return fault(AllocationFault::OtherAttempt);
        }
        if container_id.id >= self.container_id_start() {
            return fault(AllocationFault::IdOfResourceManager);
        }
        if ExecutionType::from(container.execution_type()) != ExecutionType::Opportunistic {
            return fault(AllocationFault::NotOpportunistic);
        }
        let node_id = required(container.node_id.as_ref(), MESSAGE, "nodeId")?;
        let asked = required(container.resource.as_ref(), MESSAGE, "resource")?;
        let asked = Resource::try_from(asked)?;
        let max = self.config.allocation_max;
        if !asked.fits_in(max) {
            return Err(Refusal::TooLarge { asked, max });
        }
        let priority = container.priority.map_or(0, |priority| priority.priority());
        Ok(ContainerAllocation {
            container_id,
            node_id: NodeId::try_from(node_id)?,
            resource: asked,
            priority: Priority(priority),
            allocation_request_id: container.allocation_request_id(),
            execution_type: ExecutionType::Opportunistic,
            locality: Locality::OffSwitch,
            asked_at: now.mono,
        })
    }

    /// Takes in what a node has given out, each container once: ids go down, so one that is not below all those of earlier
    /// calls has been heard of. The master of one that cannot be is told of its end with the call after this one,
    /// for it hears of the container itself with the answer to this.
    fn take_given(
        &mut self,
        attempt: ApplicationAttemptId,
        given: Vec<ContainerAllocation>,
        now: Now,
    ) {
        let id = attempt.application_id;
        let Some(lowest) = self
            .sessions
            .get(&id)
            .map(|session| session.lowest_of_nodes)
        else {
            return;
        };
        let mut seen = BTreeSet::new();
        for allocation in given {
            let container = allocation.container_id;
            if container.id >= lowest || !seen.insert(container.id) {
                continue;
            }
            let node = self.nodes.get(&allocation.node_id);
            let is_there = node.is_some_and(|node| node.state.is_active());
            self.take_in(allocation, false, now);
            if !is_there {
                let why = "Container was allocated on a node that has gone";
                self.end_container(container, ContainerExitStatus::ABORTED, why, now);
            }
        }
        if let Some(session) = self.sessions.get_mut(&id)
            && let Some(first) = seen.first()
        {
            session.lowest_of_nodes = *first;
        }
    }
}
