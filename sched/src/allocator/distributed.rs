//! Allocation of opportunistic containers by the node that an ApplicationMaster runs on (Hadoop:
//! `DistributedScheduler` and `DistributedOpportunisticContainerAllocator`): to the least loaded
//! nodes, which the ResourceManager lists in its answers.
//!
//! One allocator serves one attempt, in the AMRMProxy's chain between the attempt's master and the
//! ResourceManager. The steps of a heartbeat of the master:
//!
//! ```text
//!  request                                     answer
//!  ───────                                     ──────
//!  split off the opportunistic asks            received: confirmed(its nodes) returns the
//!  update_asks, update_blacklist                   containers; they get tokens and are added
//!  allocate(now): sent to the                      to the master's answer
//!      ResourceManager as the call's           failed: nothing to do, the next allocate()
//!      allocated_containers                        returns the same containers
//! ```
//!
//! Asks are served round-robin, one container each, the most urgent first; each at a host that it
//! names, else on a rack that it names, else anywhere if it may. In one heartbeat a node gets one
//! container, as in Hadoop, or a bounded number if its host is asked for.
//!
//! Differences from Hadoop:
//! - containers are spread over the nodes of several lists ([`Placement::Spread`]), or over all
//!   nodes of the cluster after looks at some of them ([`Placement::Look`], [`looking`])
//! - a list of nodes that is too old is not used
//! - containers of a failed call are kept and sent again with the same ids
//! - `relax_locality` is respected, and the more urgent ask comes first
//! - an ask that names a rack but no host is placed on that rack
//! - several NodeManagers on a host are several nodes
//! - the sequence of ids continues after a restart of the agent ([`DistributedAllocatorState`])

mod allocation;
mod binding;
mod claims;
mod looking;
mod unseen;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::ControlFlow;

use records::{
    ApplicationAttemptId, ContainerExitStatus, ContainerId, MonoMillis, NodeId, Resource,
    ResourceRequest,
};

pub use self::allocation::{AskOrigin, DistributedAllocation};
pub use self::binding::{BoundNodes, Wish};
use self::claims::Claims;
pub use self::looking::{KnownNodes, LookOutcome, LookPlan};
use self::looking::{LOOK_RATE, Looked};
use super::ask::AskKey;
use super::asks::{AskError, AskRules, OutstandingAsks};
use super::context::AttemptAsks;
use super::id_range::ContainerIdRange;
use super::remote_nodes::{
    HostPreferences, KnownNode, NodeList, Placement, RemoteNodes, Shares, Taken,
};
use super::{ALLOCATIONS_PER_CALL_MAX, ResourceLimits};
use crate::look::LookPlacer;
use crate::rate::Rate;

/// Configuration of the allocation on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributedAllocatorConfig {
    /// `yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat`, which nodes
    /// read too: most containers per heartbeat of a master. `None` (Hadoop: 0 or less) means
    /// [`ALLOCATIONS_PER_CALL_MAX`], which also bounds the configured number.
    pub max_per_heartbeat: Option<NonZeroU32>,
    /// Most containers for a node in one heartbeat of a master that asks for its host. Hadoop has
    /// no bound. Ten is between the least and the greatest limit of a queue.
    pub node_local_max: NonZeroU32,
    /// Most containers for a node in one heartbeat from asks that do not name its host. In Hadoop
    /// always 1.
    pub elsewhere_max: NonZeroU32,
    /// Choice of the node for a container whose ask does not name the node's host.
    pub placement: Placement,
    /// Milliseconds after which a list of nodes is too old to be used.
    pub nodes_age_max_ms: u64,
}

impl Default for DistributedAllocatorConfig {
    fn default() -> Self {
        Self {
            max_per_heartbeat: None,
            node_local_max: NonZeroU32::MIN.saturating_add(9),
            elsewhere_max: NonZeroU32::MIN,
            // The default of a node is `Look`; an allocator by itself makes no looks.
            placement: Placement::Spread,
            // Masters send heartbeats every second, slow ones every 30 s. A list that is a minute
            // old says nothing about the present load.
            nodes_age_max_ms: 60_000,
        }
    }
}

/// Terms from the ResourceManager's answer to a registration (Hadoop:
/// `RegisterDistributedSchedulingAMResponse`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributedGrant {
    /// `min_container_resource`, `max_container_resource`, `incr_container_resource`; an absent
    /// increment is the minimum.
    pub limits: ResourceLimits,
    /// `container_token_expiry_interval`: lifetime of a container token in milliseconds.
    pub token_life_ms: u64,
    /// `container_id_start`: upper bound, exclusive, of the ids that this node may use.
    pub container_id_start: i64,
}

/// State to persist over a restart of the agent, as plain values. The list of nodes is left out
/// because it would be too old.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistributedAllocatorState {
    /// Terms of the last registration.
    pub grant: Option<DistributedGrant>,
    /// Lowest container id used. A caller that persists the state less often than it changes writes
    /// a lower id in advance.
    pub lowest_container_id: i64,
    /// Outstanding asks, as lines that rebuild the same table.
    pub asks: Vec<ResourceRequest>,
    /// Hosts that the attempt excludes.
    pub blacklist: Vec<String>,
    /// Containers that the ResourceManager has not confirmed.
    pub unconfirmed: Vec<DistributedAllocation>,
}

/// Allocates opportunistic containers for one attempt. Its size is bounded by
/// [`ASKS_MAX`](super::ASKS_MAX), [`ASK_LINES_MAX`](super::ASK_LINES_MAX),
/// [`ASK_BYTES_MAX`](super::ASK_BYTES_MAX), [`BLACKLIST_MAX`](super::BLACKLIST_MAX) and, for
/// unconfirmed containers, the allocations of one call. Lists of nodes are shared with other
/// attempts.
#[derive(Clone, Debug)]
pub struct DistributedOpportunisticContainerAllocator {
    attempt: ApplicationAttemptId,
    config: DistributedAllocatorConfig,
    grant: Option<DistributedGrant>,
    ids: ContainerIdRange,
    wanted: AttemptAsks,
    nodes: RemoteNodes,
    preferences: HostPreferences,
    unconfirmed: Vec<DistributedAllocation>,
    looks: LookPlacer<KnownNode>,
    look_rate: Rate,
    /// Time of the last plan of looks.
    planned: Option<MonoMillis>,
    claims: Claims,
}

/// Returns the seed of an attempt's random choices: another one for each attempt, so that attempts
/// do not choose alike.
fn seed_of(attempt: ApplicationAttemptId) -> u64 {
    let application = attempt.application_id;
    let mut seed = 0;
    for part in [
        application.cluster_timestamp,
        i64::from(application.id),
        i64::from(attempt.attempt_id),
    ] {
        seed = (seed ^ part.cast_unsigned()).wrapping_mul(0x0100_0000_01B3);
    }
    seed
}

/// Raises each type of an ask to at least 1, the smallest size.
fn at_least_one(asked: Resource) -> Resource {
    Resource::new(asked.memory_mb.max(1), asked.vcores.max(1))
}

impl DistributedOpportunisticContainerAllocator {
    /// Creates the allocator of an attempt whose master has not registered: it takes asks, but
    /// allocates nothing.
    #[must_use]
    pub fn new(attempt: ApplicationAttemptId, config: DistributedAllocatorConfig) -> Self {
        Self {
            attempt,
            config,
            grant: None,
            ids: ContainerIdRange::new(0, 0),
            wanted: AttemptAsks::new(AskRules::Strict),
            nodes: RemoteNodes::new(config.placement, seed_of(attempt)),
            preferences: HostPreferences::default(),
            unconfirmed: Vec::new(),
            looks: LookPlacer::new(!seed_of(attempt)),
            look_rate: LOOK_RATE,
            planned: None,
            claims: Claims::default(),
        }
    }

    /// Recreates an allocator after a restart of the agent. The list of nodes comes with the next
    /// answer.
    ///
    /// # Errors
    /// Asks or a blacklist beyond the bounds of an attempt, which no allocator can have had.
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

    /// Returns the state that [`restore`](Self::restore) takes.
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

    /// Applies the ResourceManager's answer to the master's registration, the first or one after a
    /// restart of the ResourceManager. Asks stay: the master sends its own again.
    pub fn registered(
        &mut self,
        grant: DistributedGrant,
        nodes: impl Into<NodeList>,
        now: MonoMillis,
    ) {
        match self.grant {
            None => self.ids = ContainerIdRange::new(grant.container_id_start, i64::MAX),
            Some(_) => self.ids.begin(grant.container_id_start),
        }
        self.grant = Some(grant);
        self.nodes.forget();
        self.claims.begin(now);
        self.nodes.replace(nodes.into(), now);
    }

    /// Applies the opportunistic part of an allocate request, in its order, with sizes as the
    /// master wrote them. The rules are those of [`OutstandingAsks::update`].
    ///
    /// # Errors
    /// A line was rejected. Nothing has changed then.
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

    /// Checks whether [`update_blacklist`](Self::update_blacklist) would accept the change.
    ///
    /// # Errors
    /// The error that `update_blacklist` would return.
    pub fn check_blacklist(
        &self,
        additions: &[String],
        removals: &[String],
    ) -> Result<(), AskError> {
        self.wanted.check_blacklist(additions, removals)
    }

    /// Changes the hosts that the attempt excludes. Removals come first: a host in both lists is on
    /// the blacklist.
    ///
    /// # Errors
    /// A name or the list is too long. Nothing has changed then.
    pub fn update_blacklist(
        &mut self,
        additions: &[String],
        removals: &[String],
    ) -> Result<(), AskError> {
        self.wanted.update_blacklist(additions, removals)
    }

    /// Changes the choice of nodes from now on. Containers that were placed stay where they are,
    /// and count against their nodes if the former choice has counted them.
    pub fn set_placement(&mut self, placement: Placement) {
        self.config.placement = placement;
        self.nodes.set_placement(placement);
    }

    /// Replaces the hosts that asks prefer among the nodes of the lists. Places that an ask names
    /// come before them. Under [`Placement::ListOrder`] a host is preferred only while the attempt
    /// has as few recent containers there as anywhere, because ends are not watched.
    pub fn set_preferences(&mut self, preferences: HostPreferences) {
        self.preferences = preferences;
    }

    /// Returns the containers to send to the ResourceManager with this call: those of a failed
    /// call, or else new ones for the outstanding asks, which are lowered. Containers keep their
    /// ids until [`confirmed`](Self::confirmed). Under [`Placement::Look`] asks for any node wait
    /// for [`allocate_seen`](Self::allocate_seen).
    pub fn allocate(&mut self, now: MonoMillis) -> &[DistributedAllocation] {
        if let Some(limits) = self.limits_to_allocate(now) {
            let budget = self.budget();
            self.give(limits, budget, &mut Looked::default(), now);
        }
        &self.unconfirmed
    }

    /// Returns the bounds of sizes if there is something to allocate and nodes to allocate on.
    fn limits_to_allocate(&self, now: MonoMillis) -> Option<ResourceLimits> {
        let is_fresh = self.nodes.is_fresh(now, self.config.nodes_age_max_ms);
        let is_due = is_fresh && self.unconfirmed.is_empty() && !self.wanted.asks.is_empty();
        self.grant.filter(|_| is_due).map(|grant| grant.limits)
    }

    /// Returns the most containers of this heartbeat. Called once for each.
    fn budget(&mut self) -> u32 {
        let max = self.config.max_per_heartbeat;
        max.map_or(ALLOCATIONS_PER_CALL_MAX, NonZeroU32::get)
            .min(ALLOCATIONS_PER_CALL_MAX)
            .min(self.nodes.next_limit())
    }

    /// Returns the containers of [`allocate`](Self::allocate) that the ResourceManager has not
    /// confirmed.
    #[must_use]
    pub fn unconfirmed(&self) -> &[DistributedAllocation] {
        &self.unconfirmed
    }

    fn give(
        &mut self,
        limits: ResourceLimits,
        mut budget: u32,
        looked: &mut Looked,
        now: MonoMillis,
    ) {
        let shares = Shares {
            local: self.config.node_local_max.get(),
            elsewhere: self.config.elsewhere_max.get(),
        };
        let Self {
            attempt,
            ids,
            wanted: AttemptAsks { asks, blacklist },
            nodes,
            preferences,
            unconfirmed,
            ..
        } = self;
        let run_time_ms = nodes.run_time_ms();
        let names_places = asks.names_places() || !preferences.is_empty();
        let mut turn = nodes.turn(blacklist, shares, names_places, now);
        turn.set_preferences(preferences, run_time_ms);
        asks.in_turns(|key, ask| {
            if budget == 0 {
                return ControlFlow::Break(());
            }
            let size = limits.normalize(key.capability());
            let seen;
            let (node, locality) = match turn.take(key, ask) {
                Some(Taken::Node(node, locality)) => (node, locality),
                Some(Taken::Anywhere) => {
                    let Some(known) = looked.take(ask.partition(), size) else {
                        return ControlFlow::Continue(false);
                    };
                    seen = known;
                    (seen.node(), looking::locality_of(ask, seen.node()))
                }
                None => return ControlFlow::Continue(false),
            };
            let Some(id) = ids.next() else {
                return ControlFlow::Break(());
            };
            budget -= 1;
            let id = attempt.container(id);
            let given = DistributedAllocation::answer(key, ask, id, (node, locality), size);
            unconfirmed.push(given);
            ControlFlow::Continue(true)
        });
        let placed = unconfirmed.iter().map(|given| &given.container);
        nodes.placed(placed.map(|c| (c.container_id.id, &c.node_id)), now);
    }

    /// Notes that a container has ended. With [`KILLED_BY_CONTAINER_SCHEDULER`] its node has turned
    /// it away, removed it from the queue or evicted it: the node is left alone for a while.
    ///
    /// [`KILLED_BY_CONTAINER_SCHEDULER`]: ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER
    pub fn container_ended(
        &mut self,
        id: ContainerId,
        exit_status: ContainerExitStatus,
        now: MonoMillis,
    ) {
        let is_refusal = exit_status == ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER;
        if !is_refusal {
            self.nodes.learn_run_time(id.id, now);
        }
        self.nodes.ended(id.id, is_refusal.then_some(now));
    }

    /// Applies the ResourceManager's answer to a call: the containers sent with it are known there,
    /// and `nodes`, even if empty, replaces the list. Returns the containers, which are passed to
    /// the master.
    pub fn confirmed(
        &mut self,
        nodes: impl Into<NodeList>,
        now: MonoMillis,
    ) -> Vec<DistributedAllocation> {
        self.nodes.replace(nodes.into(), now);
        std::mem::take(&mut self.unconfirmed)
    }

    /// Removes nodes that the ResourceManager reports as lost, unhealthy or leaving (Hadoop:
    /// `updated_nodes`) from the candidates, until a list has them again.
    pub fn remove_nodes(&mut self, gone: &BTreeSet<NodeId>) {
        self.nodes.remove(gone);
    }

    /// Asks again for the unconfirmed containers and for `undelivered` ones after a change of the
    /// ResourceManager: the new one knows neither, and the master has seen neither. The new asks
    /// keep the oldest time of their containers. Ids are not used again.
    ///
    /// # Errors
    /// The asks exceed the bounds of an attempt. The excess is dropped.
    pub fn ask_again_for(
        &mut self,
        undelivered: Vec<DistributedAllocation>,
    ) -> Result<(), AskError> {
        let mut given = std::mem::take(&mut self.unconfirmed);
        given.extend(undelivered);
        self.nodes.forget();
        for DistributedAllocation { container, .. } in &given {
            self.nodes.ended(container.container_id.id, None);
        }
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

    /// Returns the outstanding asks.
    #[must_use]
    pub const fn asks(&self) -> &OutstandingAsks {
        &self.wanted.asks
    }

    /// Returns the terms of the last registration; `None` before the first.
    #[must_use]
    pub const fn grant(&self) -> Option<&DistributedGrant> {
        self.grant.as_ref()
    }

    /// Returns the lowest id used; the next ones are below it.
    #[must_use]
    pub const fn lowest_container_id(&self) -> i64 {
        self.ids.lowest()
    }

    /// Returns the time at which the list of nodes came; `None` without a list.
    #[must_use]
    pub const fn nodes_received(&self) -> Option<MonoMillis> {
        self.nodes.received()
    }
}
