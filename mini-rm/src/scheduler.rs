//! What one master asked for and has not heard, around `sched`'s allocators: asks are read and checked here, answers wait
//! here. No decision is made here.

use std::collections::BTreeSet;

use records::{
    ApplicationAttemptId, ContainerId, ExecutionType, NodeId, Resource, ResourceRequest,
};
use sched::{OpportunisticContainerContext, ResourceLimits};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerStatusProto, ResourceRequestProto,
    UpdateContainerErrorProto, UpdatedContainerProto,
};

use crate::config::Config;
use crate::refusal::Refusal;

/// Bits of a container id below the epoch (Hadoop: `ResourceManager.EPOCH_BIT_SHIFT`).
pub const EPOCH_SHIFT: u32 = 40;

/// A container that has ended and whose node still keeps it, until the master has heard.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedContainer {
    /// Which.
    pub id: ContainerId,
    /// Where.
    pub node: NodeId,
    /// What the master gets.
    pub status: ContainerStatusProto,
}

/// The conversation with one attempt's master. It grows by containers that ended or were allocated between two calls,
/// which are bounded by what was allocated.
#[derive(Debug)]
pub struct Session {
    /// Whose.
    pub attempt: ApplicationAttemptId,
    /// The number of the last answer.
    pub response_id: i32,
    /// The last answer, for a repetition.
    pub last_response: Option<Box<AllocateResponseProto>>,
    /// What it wants of opportunistic containers.
    pub opportunistic: OpportunisticContainerContext,
    /// Nodes it has an NMToken for.
    pub nm_tokens: BTreeSet<NodeId>,
    /// Updates it has not heard of.
    pub updated: Vec<UpdatedContainerProto>,
    /// Updates it asked for in vain.
    pub update_errors: Vec<UpdateContainerErrorProto>,
    /// Nodes that came or went since its last call; `None` before it has registered, when it is nobody's concern.
    changed_nodes: Option<BTreeSet<NodeId>>,
    /// The lowest container id that its node has given out; the start of nodes' ids when it has given out none.
    pub lowest_of_nodes: i64,
    last_container: i64,
    allocated: Vec<ContainerId>,
    ends: Vec<EndedContainer>,
    told: Vec<EndedContainer>,
}

impl Session {
    /// With an attempt that has not asked for anything, in this epoch of the ResourceManager.
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
            allocated: Vec::new(),
            ends: Vec::new(),
            told: Vec::new(),
        }
    }

    /// The attempt's next container id. The master's own is the first.
    pub const fn next_container(&mut self) -> ContainerId {
        self.last_container += 1;
        self.attempt.container(self.last_container)
    }

    /// The master has registered: from now on it hears of nodes. Applications that wait for theirs may be many, and so
    /// may nodes.
    pub fn begin(&mut self) {
        self.changed_nodes.get_or_insert_default();
    }

    /// A node came or went.
    pub fn note_node(&mut self, node: &NodeId) {
        if let Some(changed) = &mut self.changed_nodes {
            changed.insert(node.clone());
        }
    }

    /// The nodes that came or went since the last call.
    pub fn take_changed_nodes(&mut self) -> BTreeSet<NodeId> {
        self.changed_nodes
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// A container was allocated; the master hears of it with its next call.
    pub fn allocate(&mut self, id: ContainerId) {
        self.allocated.push(id);
    }

    /// What was allocated since the last call.
    pub fn take_allocated(&mut self) -> Vec<ContainerId> {
        std::mem::take(&mut self.allocated)
    }

    /// A container has ended; the master hears of it with its next call.
    pub fn end(&mut self, ended: EndedContainer) {
        self.ends.push(ended);
    }

    /// The statuses of containers that have ended since the last call.
    pub fn tell_ends(&mut self) -> Vec<ContainerStatusProto> {
        self.told = std::mem::take(&mut self.ends);
        self.told.iter().map(|ended| ended.status.clone()).collect()
    }

    /// The last answer has arrived; the ends that were in it.
    pub fn acknowledge(&mut self) -> Vec<EndedContainer> {
        std::mem::take(&mut self.told)
    }

    /// Whether the master has not heard of this container's end, or may not have.
    #[must_use]
    pub fn has_unheard_end(&self, id: ContainerId) -> bool {
        self.ends
            .iter()
            .chain(&self.told)
            .any(|ended| ended.id == id)
    }

    /// The ends that nobody will hear of.
    pub fn into_unheard(self) -> impl Iterator<Item = EndedContainer> {
        self.ends.into_iter().chain(self.told)
    }
}

/// What an allocate request asks for, checked as a whole before anything of it counts.
#[derive(Debug)]
pub struct Validated {
    /// Lines for guaranteed containers.
    pub guaranteed: Vec<ResourceRequest>,
    /// Lines for opportunistic containers.
    pub opportunistic: Vec<ResourceRequest>,
    /// Containers given back.
    pub releases: Vec<ContainerId>,
    /// Hosts to avoid from now on.
    pub blacklist_additions: Vec<String>,
    /// Hosts to avoid no longer.
    pub blacklist_removals: Vec<String>,
}

const fn limits(config: &Config) -> ResourceLimits {
    ResourceLimits {
        minimum: config.allocation_min,
        maximum: config.allocation_max,
        increment: config.allocation_min,
    }
}

/// The size that an ask for a guaranteed container gets.
///
/// # Errors
/// When no container is that large.
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
/// What is wrong with it.
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
        // A scheduler that does not give out opportunistic containers takes every ask for a guaranteed one, as Hadoop's.
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
