//! Opportunistic containers, allocated by the node that an ApplicationMaster runs on (Hadoop: `DistributedScheduler` and
//! `DistributedOpportunisticContainerAllocator`): to the least loaded nodes that the ResourceManager offers with its
//! answers.
//!
//! One allocator serves one attempt and lives in the AMRMProxy's chain between its master and the ResourceManager. This is
//! a heartbeat of the master:
//!
//! ```text
//!  on the way out                                on the way back
//!  ──────────────                                ───────────────
//!  split off the opportunistic asks              the answer came: confirmed(its nodes)
//!  update_asks, update_blacklist                     answers with the containers, whose tokens are made now and
//!  allocate(now): goes to the ResourceManager        which are added to the master's answer
//!      as the call's allocated_containers        the call failed: nothing to do, the next allocate() has them again
//! ```
//!
//! Asks are served in turns, one container each, the most urgent first; each at a host that it names, else on a rack
//! that it names, else anywhere if it may. In one heartbeat a node gets one container unless its host is asked for, as in
//! Hadoop, and a bounded number if it is.
//!
//! Not as in Hadoop: a list of nodes that has become old is not used; what the ResourceManager has not heard of because
//! a call failed is kept, with its ids; `relax_locality` counts, the more urgent ask comes first, and an ask that names a rack
//! but no host finds the rack; several NodeManagers on a host are several nodes; ids go on after a restart of the agent
//! ([`DistributedAllocatorState`]).

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::ControlFlow;

use records::{
    ApplicationAttemptId, ExecutionType, ExecutionTypeRequest, MonoMillis, Resource, ResourceName,
    ResourceRequest,
};

use super::ask::AskKey;
use super::asks::{AskError, AskRules, OutstandingAsks};
use super::context::AttemptAsks;
use super::id_range::ContainerIdRange;
use super::remote_nodes::{RemoteNode, RemoteNodes, Shares};
use super::{ALLOCATIONS_PER_CALL_MAX, ContainerAllocation, Locality, ResourceLimits};

/// What an operator decides about allocation on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributedAllocatorConfig {
    /// `yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat`, which nodes read too: most
    /// containers per heartbeat of a master. `None` (Hadoop: 0 or less) is [`ALLOCATIONS_PER_CALL_MAX`], which also bounds a
    /// number.
    pub max_per_heartbeat: Option<NonZeroU32>,
    /// Containers that a node gets in one heartbeat of a master that asks for its host. Hadoop has no bound. Ten are as
    /// many as a queue takes that is neither at its least nor its greatest limit.
    pub node_local_max: NonZeroU32,
    /// Containers that it gets from asks that do not name its host. In Hadoop always 1.
    pub elsewhere_max: NonZeroU32,
    /// Milliseconds after which a list of nodes is not used any more.
    pub nodes_age_max_ms: u64,
}

impl Default for DistributedAllocatorConfig {
    fn default() -> Self {
        Self {
            max_per_heartbeat: None,
            node_local_max: NonZeroU32::MIN.saturating_add(9),
            elsewhere_max: NonZeroU32::MIN,
            // Masters speak every second, slow ones every half minute. Who has not had an answer for a minute knows nothing.
            nodes_age_max_ms: 60_000,
        }
    }
}

/// What the ResourceManager's answer to a registration allows (Hadoop: `RegisterDistributedSchedulingAMResponse`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributedGrant {
    /// `min_container_resource`, `max_container_resource`, `incr_container_resource`; an absent increment is the minimum.
    pub limits: ResourceLimits,
    /// `container_token_expiry_interval`: milliseconds for which a container token is good.
    pub token_life_ms: u64,
    /// `container_id_start`: ids below it may be given out.
    pub container_id_start: i64,
}

/// A container that was given out here, and what its token and its message need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistributedAllocation {
    /// The container, in the size that its token says.
    pub container: ContainerAllocation,
    /// Where the pages of its node are, as `host:port`.
    pub http_address: String,
    /// The partition of its node; the default one is the empty text.
    pub partition: String,
    /// The ask that it answers.
    pub origin: AskOrigin,
}

/// What an ask was like that a container answers, as far as the container does not say it: enough to ask again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskOrigin {
    /// The size that was asked for.
    pub capability: Resource,
    /// Whether the container could have been anywhere.
    pub relax_locality: bool,
    /// The rack whose line the container answers.
    pub rack: Option<String>,
}

impl DistributedAllocation {
    /// The lines of an ask for this container alone.
    fn ask_again(&self) -> impl Iterator<Item = ResourceRequest> {
        let Self {
            container,
            partition,
            origin,
            ..
        } = self;
        let host = (container.locality == Locality::NodeLocal)
            .then(|| ResourceName::Host(container.node_id.host.clone()));
        let rack = origin.rack.clone().map(ResourceName::Rack);
        let total = (ResourceName::Any, origin.relax_locality);
        let places = [host, rack].into_iter().flatten().map(|name| (name, true));
        [total]
            .into_iter()
            .chain(places)
            .map(|(resource_name, relax_locality)| ResourceRequest {
                priority: container.priority,
                resource_name,
                capability: origin.capability,
                num_containers: 1,
                relax_locality,
                allocation_request_id: container.allocation_request_id,
                execution_type_request: ExecutionTypeRequest::default(),
                node_label_expression: (!partition.is_empty()).then(|| partition.clone()),
            })
    }
}

/// What has to survive a restart of the agent, as plain values. The list of nodes does not: it would be old.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistributedAllocatorState {
    /// Of the last registration.
    pub grant: Option<DistributedGrant>,
    /// The lowest container id that was given out. Who writes it less often than it changes writes a lower one ahead.
    pub lowest_container_id: i64,
    /// Outstanding asks, in lines that make the same table again.
    pub asks: Vec<ResourceRequest>,
    /// Hosts that the attempt wants nothing on.
    pub blacklist: Vec<String>,
    /// Containers that the ResourceManager has not confirmed.
    pub unconfirmed: Vec<DistributedAllocation>,
}

/// See the module. What it holds is bounded by [`ASKS_MAX`](super::ASKS_MAX),
/// [`ASK_LINES_MAX`](super::ASK_LINES_MAX), [`ASK_BYTES_MAX`](super::ASK_BYTES_MAX), [`BLACKLIST_MAX`](super::BLACKLIST_MAX), [`REMOTE_NODES_MAX`](super::REMOTE_NODES_MAX) and, for containers without a
/// confirmation, one call's worth.
#[derive(Clone, Debug)]
pub struct DistributedOpportunisticContainerAllocator {
    attempt: ApplicationAttemptId,
    config: DistributedAllocatorConfig,
    grant: Option<DistributedGrant>,
    ids: ContainerIdRange,
    wanted: AttemptAsks,
    nodes: RemoteNodes,
    unconfirmed: Vec<DistributedAllocation>,
}

/// An ask for nothing is one for the least there is.
fn at_least_one(asked: Resource) -> Resource {
    Resource::new(asked.memory_mb.max(1), asked.vcores.max(1))
}

impl DistributedOpportunisticContainerAllocator {
    /// For an attempt whose master has not registered: it may ask, and gets nothing.
    #[must_use]
    pub fn new(attempt: ApplicationAttemptId, config: DistributedAllocatorConfig) -> Self {
        Self {
            attempt,
            config,
            grant: None,
            ids: ContainerIdRange::new(0, 0),
            wanted: AttemptAsks::new(AskRules::Strict),
            nodes: RemoteNodes::default(),
            unconfirmed: Vec::new(),
        }
    }

    /// As it was before the agent was restarted, but for the list of nodes, which comes with the next answer.
    ///
    /// # Errors
    /// Asks or a blacklist beyond what an attempt may have: not a state that an allocator was in.
    pub fn restore(
        attempt: ApplicationAttemptId,
        config: DistributedAllocatorConfig,
        state: DistributedAllocatorState,
        now: MonoMillis,
    ) -> Result<Self, AskError> {
        let mut restored = Self::new(attempt, config);
        restored.wanted.update_asks(&state.asks, now)?;
        restored.wanted.update_blacklist(&state.blacklist, &[])?;
        if let Some(grant) = state.grant {
            restored.ids =
                ContainerIdRange::new(grant.container_id_start, state.lowest_container_id);
        }
        restored.grant = state.grant;
        restored.unconfirmed = state.unconfirmed;
        Ok(restored)
    }

    /// What [`restore`](Self::restore) takes.
    #[must_use]
    pub fn state(&self) -> DistributedAllocatorState {
        DistributedAllocatorState {
            grant: self.grant,
            lowest_container_id: self.ids.lowest(),
            asks: self.wanted.asks.requests().collect(),
            blacklist: self.wanted.blacklist.iter().cloned().collect(),
            unconfirmed: self.unconfirmed.clone(),
        }
    }

    /// The ResourceManager has answered the master's registration, the first or one after its restart. Asks stay: the
    /// master sends its own again.
    pub fn registered(&mut self, grant: DistributedGrant, nodes: Vec<RemoteNode>, now: MonoMillis) {
        match self.grant {
            None => self.ids = ContainerIdRange::new(grant.container_id_start, i64::MAX),
            Some(_) => self.ids.begin(grant.container_id_start),
        }
        self.grant = Some(grant);
        self.nodes.replace(nodes, now);
    }

    /// Takes in the opportunistic part of an allocate request, in its order, sizes as the master wrote them. See
    /// [`OutstandingAsks::update`].
    ///
    /// # Errors
    /// A line that is refused. Nothing has changed then.
    pub fn update_asks(
        &mut self,
        requests: &[ResourceRequest],
        now: MonoMillis,
    ) -> Result<(), AskError> {
        let raised: Vec<ResourceRequest> = requests
            .iter()
            .map(|request| ResourceRequest {
                capability: at_least_one(request.capability),
                ..request.clone()
            })
            .collect();
        self.wanted.update_asks(&raised, now)
    }

    /// Whether [`update_blacklist`](Self::update_blacklist) would take this.
    ///
    /// # Errors
    /// As there.
    pub fn check_blacklist(
        &self,
        additions: &[String],
        removals: &[String],
    ) -> Result<(), AskError> {
        self.wanted.check_blacklist(additions, removals)
    }

    /// Hosts that the attempt wants nothing on. Removals come first: a host in both lists is on the blacklist.
    ///
    /// # Errors
    /// A name or list that is too long. Nothing has changed then.
    pub fn update_blacklist(
        &mut self,
        additions: &[String],
        removals: &[String],
    ) -> Result<(), AskError> {
        self.wanted.update_blacklist(additions, removals)
    }

    /// What goes to the ResourceManager with this call: the containers of a call that failed, or else new ones for what is
    /// outstanding, which is lowered by them. Each of the same ids until [`confirmed`](Self::confirmed).
    pub fn allocate(&mut self, now: MonoMillis) -> &[DistributedAllocation] {
        let is_fresh = self.nodes.is_fresh(now, self.config.nodes_age_max_ms);
        if let Some(grant) = self.grant
            && is_fresh
            && self.unconfirmed.is_empty()
            && !self.wanted.asks.is_empty()
        {
            self.give(grant.limits, now);
        }
        &self.unconfirmed
    }

    /// The containers that [`allocate`](Self::allocate) gave out and the ResourceManager has not confirmed.
    #[must_use]
    pub fn unconfirmed(&self) -> &[DistributedAllocation] {
        &self.unconfirmed
    }

    fn give(&mut self, limits: ResourceLimits, now: MonoMillis) {
        let max = self.config.max_per_heartbeat;
        let mut budget = max.map_or(ALLOCATIONS_PER_CALL_MAX, NonZeroU32::get);
        budget = budget.min(ALLOCATIONS_PER_CALL_MAX);
        let shares = Shares {
            local: self.config.node_local_max.get(),
            elsewhere: self.config.elsewhere_max.get(),
        };
        let Self {
            attempt,
            ids,
            wanted: AttemptAsks { asks, blacklist },
            nodes,
            unconfirmed,
            ..
        } = self;
        let mut turn = nodes.turn(blacklist, shares, now);
        asks.in_turns(|key, ask| {
            if budget == 0 {
                return ControlFlow::Break(());
            }
            let Some((node, locality)) = turn.take(ask) else {
                return ControlFlow::Continue(false);
            };
            let Some(id) = ids.next() else {
                return ControlFlow::Break(());
            };
            let names_rack = locality != Locality::OffSwitch && ask.wants_rack(&node.rack);
            let origin = AskOrigin {
                capability: key.capability(),
                relax_locality: ask.relax_locality,
                rack: names_rack.then(|| node.rack.clone()),
            };
            ask.answer(&node.node_id.host, &node.rack, locality);
            budget -= 1;
            unconfirmed.push(DistributedAllocation {
                container: ContainerAllocation {
                    container_id: attempt.container(id),
                    node_id: node.node_id.clone(),
                    resource: limits.normalize(key.capability()),
                    priority: key.priority,
                    allocation_request_id: key.allocation_request_id,
                    execution_type: ExecutionType::Opportunistic,
                    locality,
                    asked_at: ask.asked_at(),
                },
                http_address: node.http_address.clone(),
                partition: node.partition.clone(),
                origin,
            });
            ControlFlow::Continue(true)
        });
    }

    /// The ResourceManager has answered the call: it knows the containers that went with it, and offers these nodes from
    /// now on, none if the list is empty. Answers with the containers, which are the master's now.
    pub fn confirmed(
        &mut self,
        nodes: Vec<RemoteNode>,
        now: MonoMillis,
    ) -> Vec<DistributedAllocation> {
        self.nodes.replace(nodes, now);
        std::mem::take(&mut self.unconfirmed)
    }

    /// There is a new ResourceManager, which will not hear of the containers that have no confirmation, and which has not
    /// heard of these, nor has the master: what they are for is wanted again, and has been for as long. Their ids are not
    /// used again.
    ///
    /// # Errors
    /// More than an attempt may ask for. What is beyond is not asked for.
    pub fn take_back(&mut self, unheard: Vec<DistributedAllocation>) -> Result<(), AskError> {
        let mut given = std::mem::take(&mut self.unconfirmed);
        given.extend(unheard);
        let Some(since) = given.iter().map(|given| given.container.asked_at).min() else {
            return Ok(());
        };
        let name_of = |line: &ResourceRequest| line.resource_name.as_str().to_owned();
        let mut table: BTreeMap<_, ResourceRequest> = self
            .wanted
            .asks
            .requests()
            .map(|line| ((AskKey::of(&line), name_of(&line)), line))
            .collect();
        let mut changed = BTreeSet::new();
        for again in given.iter().flat_map(DistributedAllocation::ask_again) {
            let key = (AskKey::of(&again), name_of(&again));
            changed.insert(key.clone());
            table
                .entry(key)
                .and_modify(|line| line.num_containers = line.num_containers.saturating_add(1))
                .or_insert(again);
        }
        let lines: Vec<_> = changed
            .into_iter()
            .filter_map(|key| table.remove(&key))
            .collect();
        if self.update_asks(&lines, since).is_ok() {
            return Ok(());
        }
        let mut refused = Ok(());
        for line in &lines {
            refused = self
                .update_asks(std::slice::from_ref(line), since)
                .and(refused);
        }
        refused
    }

    /// What is still wanted.
    #[must_use]
    pub const fn asks(&self) -> &OutstandingAsks {
        &self.wanted.asks
    }

    /// What the last registration allows; `None` before the first.
    #[must_use]
    pub const fn grant(&self) -> Option<&DistributedGrant> {
        self.grant.as_ref()
    }

    /// Ids are given out below this one.
    #[must_use]
    pub const fn lowest_container_id(&self) -> i64 {
        self.ids.lowest()
    }

    /// When the list of nodes came; `None` without one.
    #[must_use]
    pub const fn nodes_received(&self) -> Option<MonoMillis> {
        self.nodes.received()
    }
}
