//! A service's history and the roles in it, behind one attempt's calls.
//!
//! The AM decides how many containers it wants and replaces those that end, so the history's
//! desired number of a role always is what the role has and what the AM still wants.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use records::{ContainerId, MonoMillis, Now, Resource};
use role_history::{
    Action, AllocatedContainer, AskedBy, CompletedContainer, LiveContainer, NodeReport, RequestId,
    RoleHistory, RoleHistoryConfig, RoleId, SavedHistory, Snapshot, ThawReport,
};

use super::asks::AskKey;
use super::plan::RolePlan;
use super::policy::{Placement, Policies, RolePolicy};
use super::role_key::RoleKey;
use super::view::{PLACEMENTS_LISTED_MAX, PlacementView};

/// Maximum of roles of a service. Asks of further ones pass unchanged.
pub(super) const ROLES_MAX: usize = 256;

/// Maximum of containers for which a service plans nodes at a time. Plans for the rest follow as
/// these get their nodes.
const PLANNED_MAX: u32 = 10_000;

/// Maximum of containers whose end is awaited.
const CONTAINERS_MAX: usize = 100_000;

/// Maximum of hosts that an opportunistic ask prefers. The ResourceManager lists no more nodes.
const PREFERRED_MAX: usize = 200;

/// Containers of a role that this attempt got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RoleCounts {
    pub(super) placed: u64,
    pub(super) placed_on_history: u64,
    pub(super) escalated: u64,
}

/// Role as this module knows it beside the history.
#[derive(Clone, Debug)]
pub(super) struct KnownRole {
    pub(super) key: RoleKey,
    policy: RolePolicy,
    timeout_ms: u64,
    pub(super) counts: RoleCounts,
    pub(super) plan: RolePlan,
    /// Guaranteed ask that names the plan's nodes.
    ask: Option<AskKey>,
}

/// Change of the nodes that an ask shall name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlanChange {
    pub(super) ask: AskKey,
    /// Hosts whose count may have changed, with their counts.
    pub(super) touched: Vec<(Arc<str>, u32)>,
    /// Whether other nodes are excluded.
    pub(super) is_strict: bool,
}

/// Container that an answer brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) container: ContainerId,
    pub(super) host: String,
    pub(super) role: RoleId,
}

/// History of a service with its roles.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) history: RoleHistory,
    pub(super) roles: BTreeMap<RoleId, KnownRole>,
    by_key: BTreeMap<RoleKey, RoleId>,
    policies: Policies,
    timeout_ms: u64,
    entries_max: usize,
    containers: usize,
    pub(super) placements: VecDeque<PlacementView>,
    /// Roles of the outstanding asks.
    asked: BTreeMap<RequestId, RoleId>,
    /// Whether nodes that asks name may have changed since [`Self::plan_changes`].
    is_plan_stale: bool,
    /// Time at which a plan changes by itself.
    plan_until: Option<MonoMillis>,
    actions: Vec<Action>,
}

impl Service {
    pub(super) fn new(policies: Policies, timeout_ms: u64, entries_max: usize, now: Now) -> Self {
        let config = RoleHistoryConfig {
            replaces_ended: false,
            ..RoleHistoryConfig::default()
        };
        let history = RoleHistory::new(config, [], now);
        Self {
            history: history.expect("no roles have no names in common"),
            roles: BTreeMap::new(),
            by_key: BTreeMap::new(),
            policies,
            timeout_ms,
            entries_max,
            containers: 0,
            placements: VecDeque::new(),
            asked: BTreeMap::new(),
            is_plan_stale: true,
            plan_until: None,
            actions: Vec::new(),
        }
    }

    /// Returns the milliseconds until a host is given up, of roles without a policy of their own.
    pub(super) const fn placement_timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    /// Returns the role of asks, which is made with the first; `None` beyond the maximum.
    pub(super) fn role_of(&mut self, key: RoleKey) -> Option<RoleId> {
        let known = self.known_role(key);
        known.or_else(|| self.add_role(key, key.name()))
    }

    /// Returns the role of asks, if it has been made.
    pub(super) fn known_role(&self, key: RoleKey) -> Option<RoleId> {
        self.by_key.get(&key).copied()
    }

    fn add_role(&mut self, key: RoleKey, name: String) -> Option<RoleId> {
        if self.roles.len() >= ROLES_MAX {
            return None;
        }
        // The priority itself, as in Slider's files, unless another role has that number.
        let own = RoleId::new(key.priority).filter(|id| !self.roles.contains_key(id));
        let mut free = (0..).filter_map(RoleId::new);
        let id = own.or_else(|| free.find(|id| !self.roles.contains_key(id)))?;
        let policy = self.policies.of(key.priority);
        let timeout_ms = policy.timeout_ms(self.timeout_ms);
        let role = policy.role(id, name, self.timeout_ms);
        self.history.add_role(role).ok()?;
        self.by_key.insert(key, id);
        let known = KnownRole {
            key,
            policy,
            timeout_ms,
            counts: RoleCounts::default(),
            plan: RolePlan::default(),
            ask: None,
        };
        self.roles.insert(id, known);
        Some(id)
    }

    /// Takes a loaded history and asks anew, since the asks so far knew nothing of it.
    pub(super) fn load(&mut self, saved: &SavedHistory, now: Now) -> ThawReport {
        let names = saved.role_map.iter().flatten();
        for (name, &number) in names {
            let key = RoleKey::from_name(name).unwrap_or_else(|| RoleKey::new(number, 0));
            if !self.by_key.contains_key(&key) {
                self.add_role(key, name.clone());
            }
        }
        if saved.role_map.is_none() {
            for (_, entry) in saved.iter() {
                self.role_of(RoleKey::new(entry.role, 0));
            }
        }
        let report = self.history.thaw(saved);
        let roles: Vec<_> = self.roles.keys().copied().collect();
        for role in roles {
            let wanted = self.history.requested(role);
            self.set_wanted(role, 0, now);
            self.set_wanted(role, wanted, now);
        }
        report
    }

    /// Sets the number of containers that the AM wants beside those it has.
    pub(super) fn set_wanted(&mut self, role: RoleId, wanted: u32, now: Now) {
        let Some(status) = self.history.status(role) else {
            return;
        };
        let wanted = wanted.min(PLANNED_MAX);
        let desired = status.actual.saturating_add(wanted);
        if desired != status.desired {
            // The role exists.
            let _ = self
                .history
                .set_desired(role, desired, now, &mut self.actions);
            self.follow(now);
        }
    }

    /// Sets the guaranteed ask that names a role's nodes, and the number of its containers. Returns
    /// the ask that named them before, if that is another.
    pub(super) fn set_named(
        &mut self,
        role: RoleId,
        named: Option<(AskKey, u32)>,
    ) -> Option<AskKey> {
        let known = self.roles.get_mut(&role)?;
        let share = named.map_or(0, |(_, count)| count);
        self.is_plan_stale |= known.plan.set_share(share);
        let (ask, _) = named?;
        let before = known.ask.replace(ask).filter(|before| *before != ask)?;
        known.plan.touch_all();
        self.is_plan_stale = true;
        Some(before)
    }

    /// Notes containers that the AM gets. Returns for each whether its role had run on the node.
    pub(super) fn receive(&mut self, received: Vec<Received>, now: Now) -> Vec<bool> {
        let mut arrivals: BTreeMap<RoleId, u32> = BTreeMap::new();
        let mut allocated = Vec::new();
        for Received {
            container,
            host,
            role,
        } in received
        {
            let is_full = self.containers >= CONTAINERS_MAX
                || self.history.nodes().entries() >= self.entries_max;
            if !is_full {
                self.containers += 1;
                *arrivals.entry(role).or_default() += 1;
                allocated.push(AllocatedContainer {
                    container,
                    host,
                    asked_by: AskedBy::Role(role),
                    resource: Resource::new(0, 0),
                });
            }
        }
        // The AM gets whatever was allocated, so the history accepts all of it.
        for (role, count) in arrivals {
            if self.history.requested(role) < count {
                self.set_wanted(role, count, now);
            }
        }
        let before = self.last_uses(&allocated);
        self.history
            .on_containers_allocated(allocated, now, &mut self.actions);
        self.place(&before, now)
    }

    fn last_uses(&self, allocated: &[AllocatedContainer]) -> BTreeMap<ContainerId, i64> {
        let last_use = |container: &AllocatedContainer| {
            let node = self.history.nodes().get(&container.host)?;
            let entry = node.entry(container.asked_by.role())?;
            Some((container.container, entry.last_used().0))
        };
        let uses = allocated.iter().filter_map(last_use);
        uses.filter(|(_, last_used)| *last_used > 0).collect()
    }

    /// Records the assigned containers. They count as started: the AM starts them at once, and
    /// this node does not see it.
    fn place(&mut self, before: &BTreeMap<ContainerId, i64>, now: Now) -> Vec<bool> {
        let mut on_history = Vec::new();
        for action in std::mem::take(&mut self.actions) {
            self.note(&action, now);
            let Action::Assign(assignment) = action else {
                continue;
            };
            let last_used = before.get(&assignment.container).copied();
            on_history.push(last_used.is_some());
            if let Some(known) = self.roles.get_mut(&assignment.role) {
                known.counts.placed += 1;
                known.counts.placed_on_history += u64::from(last_used.is_some());
                self.placements.push_front(PlacementView {
                    at: now.wall,
                    container: assignment.container,
                    role: known.key.name(),
                    host: assignment.host,
                    last_used: last_used.map(records::EpochMillis),
                    outcome: assignment.outcome,
                });
                self.placements.truncate(PLACEMENTS_LISTED_MAX);
            }
            // Just assigned, so neither unknown nor started.
            let _ = self
                .history
                .on_container_started(assignment.container, now, &mut self.actions);
        }
        self.follow(now);
        on_history
    }

    /// Adds the containers that an earlier attempt left running.
    pub(super) fn replay(&mut self, live: Vec<Received>, now: Now) {
        let live: Vec<_> = live.into_iter().take(CONTAINERS_MAX).collect();
        self.containers += live.len();
        for Received {
            container,
            host,
            role,
        } in live
        {
            let desired = self.history.status(role).map(|status| status.desired);
            let container = LiveContainer {
                container,
                host,
                role,
            };
            self.history
                .replay_live([container], now, &mut self.actions);
            let desired = desired.unwrap_or(0).saturating_add(1);
            let _ = self
                .history
                .set_desired(role, desired, now, &mut self.actions);
        }
        self.follow(now);
    }

    /// Notes ended containers.
    pub(super) fn complete(&mut self, completed: Vec<CompletedContainer>, now: Now) {
        self.containers = self.containers.saturating_sub(completed.len());
        self.history
            .on_containers_completed(completed, now, &mut self.actions);
        self.follow(now);
    }

    /// Notes changed nodes.
    pub(super) fn report(&mut self, reports: &[NodeReport], now: Now) {
        self.history
            .on_nodes_updated(reports, now, &mut self.actions);
        self.follow(now);
    }

    /// Does what is due. Returns the number of asks that were relaxed.
    pub(super) fn tick(&mut self, now: Now) -> u64 {
        let escalated = |service: &Self| -> u64 {
            let roles = service.roles.values();
            roles.map(|role| role.counts.escalated).sum()
        };
        let before = escalated(self);
        self.history.on_tick(now, &mut self.actions);
        self.follow(now);
        escalated(self) - before
    }

    /// Returns a copy to save, if something has changed.
    pub(super) fn snapshot(&self, now: Now) -> Option<Snapshot> {
        let is_dirty = self.history.is_dirty();
        is_dirty.then(|| self.history.snapshot(now))
    }

    /// Handles the history's actions. What is asked for follows from its state.
    fn follow(&mut self, now: Now) {
        for action in std::mem::take(&mut self.actions) {
            self.note(&action, now);
        }
    }

    /// Brings the plan of an action's role up to date.
    fn note(&mut self, action: &Action, now: Now) {
        match action {
            Action::Request(ask) => self.add(ask, now),
            Action::Escalate { from, to } => {
                // A label in the place of the host, or the host as a preference.
                if from.hosts != to.hosts {
                    self.remove(from.request);
                    self.add(to, now);
                }
                if let Some(known) = self.roles.get_mut(&from.priority.role) {
                    known.counts.escalated += 1;
                    known.plan.relax(from.request);
                }
            }
            Action::Cancel(ask) => self.remove(ask.request),
            Action::Satisfied {
                request,
                remaining: 0,
                ..
            } => self.remove(*request),
            Action::Satisfied { .. }
            | Action::Save
            | Action::Assign(_)
            | Action::Release(_)
            | Action::UpdateBlacklist { .. }
            | Action::FailApplication { .. } => return,
        }
        self.is_plan_stale = true;
    }

    fn add(&mut self, ask: &role_history::Ask, now: Now) {
        let role = ask.priority.role;
        if let Some(known) = self.roles.get_mut(&role) {
            let host = ask.hosts.first().map(Arc::clone);
            known.plan.add(ask.request, host, now.mono);
            self.asked.insert(ask.request, role);
        }
    }

    fn remove(&mut self, request: RequestId) {
        let role = self.asked.remove(&request);
        if let Some(known) = role.and_then(|role| self.roles.get_mut(&role)) {
            known.plan.remove(request);
        }
    }

    /// Returns what the guaranteed asks shall name, as far as that may have changed since the last
    /// time; `None` if nothing has.
    pub(super) fn plan_changes(&mut self, now: MonoMillis) -> Option<Vec<PlanChange>> {
        let is_due = self.plan_until.is_some_and(|until| until <= now);
        if !self.is_plan_stale && !is_due {
            return None;
        }
        debug_assert_eq!(self.asked.len(), self.history.outstanding_len());
        self.is_plan_stale = false;
        self.plan_until = None;
        let mut changes = Vec::new();
        for known in self.roles.values_mut() {
            let Some(ask) = known.ask else {
                continue;
            };
            let open_until = known.plan.first_open().map(|at| at + known.timeout_ms);
            let is_strict = known.is_strict(open_until, now);
            if is_strict && known.policy.placement == Placement::Escalate {
                self.plan_until = [self.plan_until, open_until].into_iter().flatten().min();
            }
            changes.push(PlanChange {
                ask,
                touched: known.plan.take_touched(),
                is_strict,
            });
        }
        Some(changes)
    }

    /// Returns the hosts that this many opportunistic containers of a role prefer, the first first.
    pub(super) fn preferred(&self, role: RoleId, wanted: u32) -> Vec<Arc<str>> {
        let planned = self.roles.get(&role).into_iter();
        let planned = planned.flat_map(|known| known.plan.rest());
        let planned = planned.take(usize::try_from(wanted).unwrap_or(usize::MAX));
        let ready = self.history.nodes().ready(role);
        let hosts = planned.chain(ready.map(|node| node.host()));
        hosts.take(PREFERRED_MAX).map(Arc::clone).collect()
    }
}

impl KnownRole {
    /// Returns whether the role's containers accept no other nodes than those that are named.
    fn is_strict(&self, open_until: Option<MonoMillis>, now: MonoMillis) -> bool {
        match self.policy.placement {
            Placement::Relaxed | Placement::Anywhere => false,
            Placement::Strict => true,
            // An ask relaxes as a whole. Containers without a host of their own wait until those
            // with one have it, no longer than the timeout.
            Placement::Escalate => {
                !self.plan.is_relaxed() && open_until.is_none_or(|until| now < until)
            }
        }
    }
}
