//! AMs on nodes that allocate opportunistic containers themselves (Hadoop:
//! `OpportunisticContainerAllocatorAMService` as `DistributedSchedulingAMProtocol`): the parameters
//! that such a node needs, and the containers that it allocated.
//!
//! A node's container is treated like one allocated here: it expires unless started, is reported,
//! may be promoted, and the AM receives its completion once. Three things differ from Hadoop. A
//! container sent twice, because an answer was lost, is recognized by its id even if it has
//! completed since. A refused call leaves no container behind that no AM knows. And a container on
//! a node that has gone is not dropped silently: the AM receives its completion.

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

/// Unfinished containers of one attempt above which its node is to allocate no more. A tenth of the
/// limit for all attempts, and more than an attempt starts before unused ones expire.
const CONTAINERS_PER_ATTEMPT_MAX: usize = CONTAINERS_MAX / 10;

impl Core {
    /// `registerApplicationMasterForDistributedScheduling`: registers any AM, and returns the
    /// parameters with which its node allocates.
    ///
    /// # Errors
    /// An attempt that is not current, or whose AM has registered.
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

    /// `allocateForDistributedScheduling`: as `allocate`, with the containers that the AM's node
    /// allocated.
    ///
    /// # Errors
    /// Those of [`Core::allocate`], or a container that the node cannot have allocated. Then none
    /// of its containers is recorded: it may send them again.
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
        let allocations =
            self.read_node_allocations(attempt, &request.allocated_containers, now)?;
        let response = self.allocate(attempt, presented, call, now)?;
        // A repetition may carry containers that the first call did not.
        self.add_node_allocations(attempt, allocations, now);
        Ok(DistributedSchedulingAllocateResponseProto {
            allocate_response: Some(response),
            nodes_for_scheduling: self.nodes_for_scheduling(),
        })
    }

    /// Returns the id from which nodes count down and the ResourceManager counts up.
    fn container_id_start(&self) -> i64 {
        i64::from(self.config.epoch) << EPOCH_SHIFT
    }

    /// Returns the least loaded nodes, the least loaded first.
    fn nodes_for_scheduling(&self) -> Vec<RemoteNodeProto> {
        let ids = self.load.least_loaded();
        let nodes = ids.filter_map(|id| self.nodes.get(id));
        nodes
            .map(|node| RemoteNodeProto {
                node_id: Some((&node.id).into()),
                http_address: Some(node.http_address.clone()),
                rack_name: Some(node.rack.clone()),
                node_partition: Some(String::new()),
            })
            .collect()
    }

    /// Reads and checks the containers that a node allocated; one defect refuses all.
    fn read_node_allocations(
        &self,
        attempt: ApplicationAttemptId,
        containers: &[ContainerProto],
        now: Now,
    ) -> Result<Vec<ContainerAllocation>, Refusal> {
        let per_call = usize::try_from(ALLOCATIONS_PER_CALL_MAX).unwrap_or(usize::MAX);
        if containers.len() > per_call {
            return Err(Refusal::TooManyContainers(per_call));
        }
        let allocations: Vec<ContainerAllocation> = containers
            .iter()
            .map(|container| self.read_container(attempt, container, now))
            .collect::<Result<_, _>>()?;
        if allocations.is_empty() {
            return Ok(allocations);
        }
        if self.containers.len() + allocations.len() > CONTAINERS_MAX {
            return Err(Refusal::TooManyContainers(CONTAINERS_MAX));
        }
        let held = self.containers_of(attempt).count();
        if held + allocations.len() > CONTAINERS_PER_ATTEMPT_MAX {
            return Err(Refusal::TooManyContainers(CONTAINERS_PER_ATTEMPT_MAX));
        }
        Ok(allocations)
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
            relax_locality: true,
            asked_at: now.mono,
        })
    }

    /// Records the containers that a node allocated, each once: ids go down, so one that is not
    /// below those of all earlier calls is known. A container on a node that has gone is completed;
    /// the AM receives the completion with the call after this one, since the answer to this one
    /// delivers the container itself.
    fn add_node_allocations(
        &mut self,
        attempt: ApplicationAttemptId,
        allocations: Vec<ContainerAllocation>,
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
        for allocation in allocations {
            let container = allocation.container_id;
            if container.id >= lowest || !seen.insert(container.id) {
                continue;
            }
            let node = self.nodes.get(&allocation.node_id);
            let is_there = node.is_some_and(|node| node.state.is_active());
            self.add_container(&allocation, false, now);
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
