//! One AM's session around `sched`'s allocators: reads and checks asks, and queues what the next
//! allocate answer carries. Makes no scheduling decision.

use std::collections::{BTreeMap, BTreeSet};

use records::{
    ApplicationAttemptId, ContainerId, ExecutionType, NodeId, Resource, ResourceRequest,
};
use sched::{ContainerAllocation, OpportunisticContainerContext, ResourceLimits};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerStatusProto, ResourceRequestProto,
    UpdateContainerErrorProto, UpdatedContainerProto,
};

use crate::config::Config;
use crate::refusal::Refusal;

/// Number of bits of a container id below the epoch (Hadoop: `ResourceManager.EPOCH_BIT_SHIFT`).
pub const EPOCH_SHIFT: u32 = 40;

/// A completed container that its node keeps until the AM has acknowledged the completion.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedContainer {
    /// Id of the container.
    pub id: ContainerId,
    /// Node that ran the container.
    pub node: NodeId,
    /// Status for the AM.
    pub status: ContainerStatusProto,
}

/// Session with one attempt's AM. Grows with the containers that complete or are allocated between
/// two calls, which are bounded by the number allocated.
#[derive(Debug)]
pub struct Session {
    /// Attempt whose AM it is.
    pub attempt: ApplicationAttemptId,
    /// Response id of the last answer.
    pub response_id: i32,
    /// Last answer, for a repetition.
    pub last_response: Option<Box<AllocateResponseProto>>,
    /// Opportunistic containers that the AM asks for.
    pub opportunistic: OpportunisticContainerContext,
    /// Nodes for which the AM has an NMToken.
    pub nm_tokens: BTreeSet<NodeId>,
    /// Container updates for the next answer.
    pub updated: Vec<UpdatedContainerProto>,
    /// Refused container updates for the next answer.
    pub update_errors: Vec<UpdateContainerErrorProto>,
    /// Nodes that came or went since the last call; `None` before the AM has registered, as it
    /// needs no report then.
    changed_nodes: Option<BTreeSet<NodeId>>,
    /// Lowest container id that a node of the attempt allocated itself; initially the upper end of
    /// that range.
    pub lowest_of_nodes: i64,
    last_container: i64,
    /// Allocations that no answer has carried, in their order, as ids go up.
    allocated: BTreeMap<ContainerId, ContainerAllocation>,
    completed: Vec<CompletedContainer>,
    unacknowledged: Vec<CompletedContainer>,
}

impl Session {
    /// Returns a session that has asked for nothing, in this epoch of the ResourceManager.
    #[must_use]
    pub const fn new(attempt: ApplicationAttemptId, epoch: i32) -> Self {
        Self {
            attempt,
            response_id: 0,
            last_response: None,
            opportunistic: OpportunisticContainerContext::new(),
            nm_tokens: BTreeSet::new(),
            updated: Vec::new(),
            update_errors: Vec::new(),
            changed_nodes: None,
            lowest_of_nodes: (epoch as i64) << EPOCH_SHIFT,
            last_container: (epoch as i64) << EPOCH_SHIFT,
            allocated: BTreeMap::new(),
            completed: Vec::new(),
            unacknowledged: Vec::new(),
        }
    }

    /// Returns the attempt's next container id. The first is the AM's own.
    pub const fn next_container(&mut self) -> ContainerId {
        self.last_container += 1;
        self.attempt.container(self.last_container)
    }

    /// Starts the collection of node changes, when the AM registers. Not earlier: many applications
    /// may wait for their AM while many nodes come and go.
    pub fn start_node_updates(&mut self) {
        self.changed_nodes.get_or_insert_default();
    }

    /// Notes that a node came or went.
    pub fn note_node(&mut self, node: &NodeId) {
        if let Some(changed) = &mut self.changed_nodes {
            changed.insert(node.clone());
        }
    }

    /// Takes the nodes that came or went since the last call.
    pub fn take_changed_nodes(&mut self) -> BTreeSet<NodeId> {
        self.changed_nodes
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Queues an allocated container for the next answer.
    pub fn allocate(&mut self, allocation: ContainerAllocation) {
        self.allocated.insert(allocation.container_id, allocation);
    }

    /// Takes the containers that were allocated since the last call, in the order of allocation.
    pub fn take_allocated(&mut self) -> impl Iterator<Item = ContainerId> + use<> {
        std::mem::take(&mut self.allocated).into_keys()
    }

    /// Takes a container that no answer has carried; `None` for all others.
    pub fn take_unfetched(&mut self, id: ContainerId) -> Option<ContainerAllocation> {
        self.allocated.remove(&id)
    }

    /// Queues a completed container for the next answer.
    pub fn complete(&mut self, completed: CompletedContainer) {
        self.completed.push(completed);
    }

    /// Moves the completed containers to the unacknowledged ones and returns their statuses for an
    /// answer.
    pub fn send_completed(&mut self) -> Vec<ContainerStatusProto> {
        self.unacknowledged = std::mem::take(&mut self.completed);
        self.unacknowledged
            .iter()
            .map(|ended| ended.status.clone())
            .collect()
    }

    /// Takes the completed containers of the last answer, which has arrived.
    pub fn acknowledge_completed(&mut self) -> Vec<CompletedContainer> {
        std::mem::take(&mut self.unacknowledged)
    }

    /// Returns whether the AM has not acknowledged this container's completion.
    #[must_use]
    pub fn is_unacknowledged(&self, id: ContainerId) -> bool {
        self.completed
            .iter()
            .chain(&self.unacknowledged)
            .any(|ended| ended.id == id)
    }

    /// Returns the completed containers that the AM never acknowledged.
    pub fn into_unacknowledged(self) -> impl Iterator<Item = CompletedContainer> {
        self.completed.into_iter().chain(self.unacknowledged)
    }
}

/// An allocate request's contents, checked as a whole before any part takes effect.
#[derive(Debug)]
pub struct Validated {
    /// Asks for guaranteed containers.
    pub guaranteed: Vec<ResourceRequest>,
    /// Asks for opportunistic containers.
    pub opportunistic: Vec<ResourceRequest>,
    /// Containers that the AM releases.
    pub releases: Vec<ContainerId>,
    /// Hosts to add to the blacklist.
    pub blacklist_additions: Vec<String>,
    /// Hosts to remove from the blacklist.
    pub blacklist_removals: Vec<String>,
}

const fn limits(config: &Config) -> ResourceLimits {
    ResourceLimits {
        minimum: config.allocation_min,
        maximum: config.allocation_max,
        increment: config.allocation_min,
    }
}

/// Normalizes the size of an ask for a guaranteed container.
///
/// # Errors
/// [`Refusal::TooLarge`] above the maximum allocation.
pub fn normalized(asked: Resource, config: &Config) -> Result<Resource, Refusal> {
    let max = config.allocation_max;
    if !asked.fits_in(max) {
        return Err(Refusal::TooLarge { asked, max });
    }
    Ok(limits(config).normalize(asked))
}

/// Reads and checks an allocate request.
///
/// # Errors
/// The first defect found.
pub fn validated(request: &AllocateRequestProto, config: &Config) -> Result<Validated, Refusal> {
    if !request.scheduling_requests.is_empty() {
        return Err(Refusal::NotSupported("placement by constraints"));
    }
    let blacklist = request.blacklist_request.clone().unwrap_or_default();
    if blacklist.blacklist_additions.iter().any(|name| name == "*") {
        return Err(Refusal::BlacklistOfAny);
    }
    let releases = request.release.iter().map(ContainerId::try_from);
    let mut validated = Validated {
        guaranteed: Vec::new(),
        opportunistic: Vec::new(),
        releases: releases.collect::<Result<_, _>>()?,
        blacklist_additions: blacklist.blacklist_additions,
        blacklist_removals: blacklist.blacklist_removals,
    };
    for ask in &request.ask {
        let mut ask = read_ask(ask)?;
        let asked_type = ask.execution_type_request.execution_type;
        // A scheduler without opportunistic containers treats every ask as one for a guaranteed
        // container, as Hadoop's does.
        if config.opportunistic.is_enabled && asked_type == ExecutionType::Opportunistic {
            ask.capability = limits(config).normalize(ask.capability);
            validated.opportunistic.push(ask);
        } else {
            ask.capability = normalized(ask.capability, config)?;
            validated.guaranteed.push(ask);
        }
    }
    Ok(validated)
}

fn read_ask(ask: &ResourceRequestProto) -> Result<ResourceRequest, Refusal> {
    let count = ask.num_containers();
    if count < 0 {
        return Err(Refusal::NegativeCount(count));
    }
    if !ask.node_label_expression().is_empty() {
        return Err(Refusal::NotSupported("a node label"));
    }
    ResourceRequest::try_from(ask).map_err(Refusal::Size)
}
