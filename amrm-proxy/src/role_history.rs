//! The role history of a service inside the chain: containers of the service go back to the nodes
//! where they ran.
//!
//! ```text
//!  on the way out                                on the way back
//!  asks for any node: opportunistic ones         allocated and ended containers, nodes that
//!  prefer the nodes of the history, guaranteed   changed: the history learns them, and is saved
//!  ones name them if the service wants it        by a thread of its own when it changed
//! ```
//!
//! Decisions are [`role_history`]'s; this module maps them onto an AM's calls (`asks` for the
//! lines, `service` for the history). A role is a priority with an allocation request id. An AM
//! that opts in to nothing has no such interceptor.
//!
//! An AM never waits for the history's files ([`files`]): its registration does for at most 100 ms.
//! A history that is loaded later joins what has happened since.
//!
//! The AM gets what it asked for: the counts of its asks stay (`asks`), asks are its own again
//! after the timeout of their role, and a container that the ResourceManager allocates only because
//! this node repeated a count is returned without the AM noticing.

mod asks;
pub mod files;
pub mod opt_in;
mod persisted;
pub mod policy;
mod publish;
mod received;
mod service;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use records::{ApplicationAttemptId, ContainerExitStatus, ContainerId, MonoMillis, Now, Priority};
use role_history::{CompletedContainer, RoleId, Snapshot};
use sched::HostPreferences;
use wire::exception::RemoteException;
use wire::raw_message::RawMessage;

use self::asks::{AskKey, Asks, Plan, Stated};
use self::files::HistoryNews;
use self::opt_in::OptIn;
use self::policy::Policies;
use self::received::Answer;
use self::service::{Received, RoleKey, Service};
use self::view::{HistorySource, RoleHistoryView};
use crate::calls::Calls;
use crate::config::HistoryConfig;
use crate::fields::allocate_request;
use crate::interceptor::{
    Action, AmMethod, Context, Interceptor, Outcome, Pass, Request, Response,
};
use crate::observe::{HistoryEvent, Observation};
use crate::store::Part;

/// Interval between saves, and between views, in milliseconds for each [`INTERVAL_ENTRIES`]
/// entries. Each takes some milliseconds per so many.
const INTERVAL_MS: u64 = 1_000;

/// Number of entries per [`INTERVAL_MS`].
const INTERVAL_ENTRIES: usize = 10_000;

/// Maximum of hosts whose rack is known. Others count as on [`DEFAULT_RACK`].
const RACKS_MAX: usize = 100_000;

/// Rack of nodes without a topology (Hadoop: `NetworkTopology.DEFAULT_RACK`). An AM's own library
/// assumes the same. On a cluster with racks, the ResourceManager finds no such host until a list
/// or a report of nodes has named its rack, and the ask is relaxed after the timeout.
const DEFAULT_RACK: &str = "/default-rack";

/// Maximum of surplus containers whose end is awaited.
const SURPLUS_MAX: usize = 10_000;

/// Interceptor that keeps the role history of one attempt's service.
#[derive(Debug)]
pub struct ServiceHistory {
    opt_in: OptIn,
    service: Service,
    asks: Asks,
    /// Nodes to name, by role.
    plans: BTreeMap<RoleId, Plan>,
    racks: BTreeMap<String, Arc<str>>,
    calls: Calls,
    /// Surplus containers that the ResourceManager does not know to be released.
    to_release: BTreeSet<ContainerId>,
    /// Surplus containers that have not ended.
    surplus: BTreeSet<ContainerId>,
    /// Surplus containers that ended with the last answer, which may have to be repeated.
    ended_surplus: Vec<ContainerId>,
    source: HistorySource,
    is_saving: bool,
    saved_at: MonoMillis,
    view: RoleHistoryView,
    viewed_at: Option<MonoMillis>,
    is_unpersisted: bool,
    /// Whether the nodes to name may differ from those that the ResourceManager has. Where they do
    /// not, a call with thousands of outstanding containers is as quick as one with none.
    is_naming_due: bool,
    /// Whether the ResourceManager may have executed the current call before.
    is_retry: bool,
    /// Containers that the last answer brought for asks. The AM may not have got the answer.
    counted: Vec<(ContainerId, String, AskKey)>,
}

impl ServiceHistory {
    /// Makes the interceptor of an attempt that opts in.
    #[must_use]
    pub fn new(
        config: &HistoryConfig,
        attempt: ApplicationAttemptId,
        user: &str,
        opt_in: OptIn,
        now: Now,
    ) -> Self {
        let policies = opt_in.policies().unwrap_or_else(|error| {
            tracing::warn!(%attempt, service = opt_in.service, %error, "the policies of the roles cannot be read; the defaults apply");
            Policies::default()
        });
        let entries_max = config.files.entries_max();
        Self {
            service: Service::new(policies, config.placement_timeout_ms, entries_max, now),
            asks: Asks::default(),
            plans: BTreeMap::new(),
            racks: BTreeMap::new(),
            calls: Calls::default(),
            to_release: BTreeSet::new(),
            surplus: BTreeSet::new(),
            ended_surplus: Vec::new(),
            source: HistorySource::Loading,
            is_saving: false,
            saved_at: now.mono,
            view: RoleHistoryView::new(&opt_in, attempt, user),
            viewed_at: None,
            is_unpersisted: false,
            is_naming_due: true,
            is_retry: false,
            counted: Vec::new(),
            opt_in,
        }
    }

    /// Returns whether this node chooses the nodes of an ask.
    fn is_planned(&self, key: AskKey, ask: &asks::Ask) -> bool {
        !ask.is_left_to_am && (self.opt_in.is_guaranteed || !key.is_guaranteed())
    }

    fn role_of(&mut self, key: AskKey) -> Option<RoleId> {
        self.service.role_of(RoleKey::of(key))
    }

    /// Brings the numbers that roles want in line with the AM's asks.
    fn set_wanted(&mut self, now: Now) {
        let mut wanted: BTreeMap<RoleId, u32> = BTreeMap::new();
        let asks: Vec<_> = self
            .asks
            .iter()
            .map(|(key, ask)| (key, ask.wanted, self.is_planned(key, ask)))
            .collect();
        for (key, count, is_planned) in asks {
            if let Some(role) = self.role_of(key) {
                let of_role = wanted.entry(role).or_default();
                *of_role = of_role.saturating_add(if is_planned { count } else { 0 });
            }
        }
        let roles: Vec<_> = self.service.roles.keys().copied().collect();
        for role in roles {
            let count = wanted.get(&role).copied().unwrap_or(0);
            self.service.set_wanted(role, count, now);
        }
    }

    /// Returns the asks of one kind whose nodes this node chooses, each with its role and with the
    /// hosts of its role's plan. A role's guaranteed ask has the first of them.
    fn planned(&self, is_guaranteed: bool) -> impl Iterator<Item = (AskKey, RoleId, Plan)> {
        let asks = self.asks.iter();
        let asks = asks.filter(move |(key, ask)| {
            key.is_guaranteed() == is_guaranteed && ask.wanted > 0 && self.is_planned(*key, ask)
        });
        asks.filter_map(|(key, ask)| {
            let role = self.service.known_role(RoleKey::of(key))?;
            let plan = self.plans.get(&role)?;
            let before = if key.is_guaranteed() {
                0
            } else {
                self.asks.wanted(key.guaranteed())
            };
            let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
            let hosts = plan.hosts.iter().skip(count(before));
            let plan = Plan {
                hosts: hosts.take(count(ask.wanted)).cloned().collect(),
                is_strict: plan.is_strict,
            };
            Some((key, role, plan))
        })
    }

    /// Prefers the nodes of the history in opportunistic asks. A host is given up for a wait that
    /// is estimated to be longer than the role would wait for it in vain.
    fn preferences(&self) -> HostPreferences {
        let mut preferences = HostPreferences::new(self.service.placement_timeout_ms());
        for (key, role, plan) in self.planned(false) {
            let hosts = self.service.preferred(role, &plan);
            preferences.set(Priority(key.priority), key.request_id, hosts);
        }
        preferences
    }

    fn allocate(&mut self, request: &mut Request, now: Now, actions: &mut Vec<Action>) {
        let id = request.message.int32(allocate_request::RESPONSE_ID);
        self.is_retry = self.calls.begin(id.unwrap_or(0));
        let message = &mut request.message;
        if self.calls.is_repeat {
            let stated = Stated::of(message);
            self.asks.make_strict(message, &stated);
            return;
        }
        let escalated = self.service.tick(now);
        observe(actions, HistoryEvent::Escalated, escalated);
        let stated = self.asks.state_all(message);
        if stated.is_taken {
            self.set_wanted(now);
            self.is_unpersisted = true;
        }
        if self.is_retry {
            self.asks.name_again(message, &stated);
        } else {
            self.name_nodes(message, &stated, now);
        }
        request.preferences = self.preferences();
        let releases = self.to_release.iter().map(|id| received::encode_id(*id));
        request
            .message
            .extend(allocate_request::RELEASE, releases.collect::<Vec<_>>());
    }

    /// Names nodes in the guaranteed asks of a request, whose lines state this.
    fn name_nodes(&mut self, message: &mut RawMessage, stated: &Stated, now: Now) {
        if let Some(plans) = self.service.plans(now.mono) {
            self.plans = plans;
            self.is_naming_due = true;
        }
        self.is_naming_due |= stated.is_taken;
        if !self.is_naming_due {
            return;
        }
        let plans = self.planned(true).map(|(key, _, plan)| (key, plan));
        let plans = plans.collect();
        let rack_of = |host: &str| rack_of(&self.racks, host);
        let is_changed = self.asks.name_nodes(message, stated, &plans, rack_of);
        self.is_unpersisted |= is_changed && self.opt_in.is_guaranteed;
    }

    /// Takes the answer to an `allocate`.
    fn answered(&mut self, answer: &mut Answer<'_>, context: &Context<'_>) -> Vec<bool> {
        if self.calls.is_repeat {
            answer.remove_allocated(&self.surplus);
            answer.remove_ended(&self.surplus);
            return Vec::new();
        }
        self.calls.complete();
        self.asks.commit();
        self.is_naming_due = self.is_retry;
        self.to_release.clear();
        for ended in self.ended_surplus.drain(..) {
            self.surplus.remove(&ended);
        }
        self.ended_surplus = answer.remove_ended(&self.surplus);
        for (host, rack) in answer.racks() {
            if self.racks.contains_key(&host) || self.racks.len() < RACKS_MAX {
                let before = self.racks.insert(host, Arc::clone(&rack));
                self.is_naming_due |= before != Some(rack);
            }
        }
        let now = context.now;
        self.service.report(&answer.reports(), now);
        let mut received = Vec::new();
        self.counted.clear();
        for (container, host, key) in answer.allocated() {
            if self.asks.wanted(key) > 0 {
                self.counted.push((container, host.clone(), key));
            }
            let rack = rack_of(&self.racks, &host);
            let is_surplus = self.asks.receive(key, &host, &rack);
            self.is_naming_due = true;
            if is_surplus && self.surplus.len() < SURPLUS_MAX {
                self.surplus.insert(container);
                self.to_release.insert(container);
            } else if let Some(role) = self.role_of(key) {
                received.push(Received {
                    container,
                    host,
                    role,
                });
            }
        }
        answer.remove_allocated(&self.to_release);
        let on_history = self.service.receive(received, now);
        self.service.complete(answer.completed(), now);
        self.set_wanted(now);
        self.asks.end_call();
        on_history
    }

    /// Takes back what the last answer brought: its containers ended with the ResourceManager that
    /// allocated them, and the AM still wants others.
    fn take_back(&mut self, now: Now) {
        let mut ended = Vec::new();
        for (container, host, key) in std::mem::take(&mut self.counted) {
            let rack = rack_of(&self.racks, &host);
            self.asks.take_back(key, &host, &rack);
            ended.push(CompletedContainer {
                container,
                exit_status: ContainerExitStatus::ABORTED,
                diagnostics: String::new(),
            });
        }
        self.service.complete(ended, now);
        self.set_wanted(now);
    }

    /// Returns the interval between saves or views of a history of this size.
    fn interval_ms(&self) -> u64 {
        let entries = self.service.history.nodes().entries();
        let size = u64::try_from(1 + entries / INTERVAL_ENTRIES);
        INTERVAL_MS.saturating_mul(size.unwrap_or(u64::MAX))
    }

    /// Saves what changed, if the files are known and the last save was long enough ago.
    fn save(&mut self, now: Now, is_last: bool, actions: &mut Vec<Action>) {
        let is_ready = match self.source {
            HistorySource::Loading | HistorySource::Unavailable => false,
            HistorySource::New | HistorySource::File { .. } => true,
        };
        let is_due = !self.is_saving && now.mono.since(self.saved_at) >= self.interval_ms();
        if is_ready
            && (is_due || is_last)
            && let Some(snapshot) = self.service.snapshot(now)
        {
            self.is_saving = true;
            self.saved_at = now.mono;
            actions.push(Action::SaveHistory(Box::new(snapshot)));
        }
    }

    /// Publishes the view, if the last one is old enough. What changes after it comes with a later
    /// call, which every AM makes.
    fn publish(&mut self, now: Now, actions: &mut Vec<Action>) {
        let is_fresh = |at: MonoMillis| now.mono.since(at) < self.interval_ms();
        if self.viewed_at.is_some_and(is_fresh) {
            return;
        }
        self.viewed_at = Some(now.mono);
        self.view.source = self.source;
        publish::fill(&mut self.view, &self.service);
        actions.push(Action::PublishHistory(Box::new(self.view.clone())));
    }

    fn persist(&mut self, actions: &mut Vec<Action>) {
        if self.is_unpersisted && self.opt_in.is_guaranteed {
            self.is_unpersisted = false;
            let record = persisted::encode(&self.asks);
            actions.push(Action::Persist(Part::RoleHistory, record));
        }
    }

    fn saved(&mut self, snapshot: &Snapshot) {
        self.is_saving = false;
        self.service.history.set_saved(snapshot);
        self.view.saved_at = Some(snapshot.history.saved);
    }
}

fn rack_of(racks: &BTreeMap<String, Arc<str>>, host: &str) -> Arc<str> {
    let known = racks.get(host).map(Arc::clone);
    known.unwrap_or_else(|| DEFAULT_RACK.into())
}

fn observe(actions: &mut Vec<Action>, event: HistoryEvent, times: u64) {
    for _ in 0..times {
        actions.push(Action::Observe(Observation::History(event)));
    }
}

impl Interceptor for ServiceHistory {
    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<Pass, RemoteException> {
        match request.method {
            AmMethod::Register => {
                self.calls = Calls::default();
                self.asks.clear();
                self.is_naming_due = true;
                self.set_wanted(context.now);
            }
            AmMethod::Allocate => self.allocate(request, context.now, actions),
            AmMethod::Finish => {}
        }
        Ok(Pass::default())
    }

    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        let Ok(response) = outcome else {
            return;
        };
        let mut answer = Answer::new(response);
        match method {
            AmMethod::Register => {
                let mut live = Vec::new();
                for (container, host, key) in answer.left_by_previous_attempts() {
                    if let Some(role) = self.role_of(key) {
                        live.push(Received {
                            container,
                            host,
                            role,
                        });
                    }
                }
                self.service.replay(live, context.now);
            }
            AmMethod::Allocate => {
                for on_history in self.answered(&mut answer, context) {
                    observe(actions, HistoryEvent::Placed { on_history }, 1);
                }
                self.persist(actions);
            }
            AmMethod::Finish => {}
        }
        self.save(context.now, method == AmMethod::Finish, actions);
        self.publish(context.now, actions);
    }

    fn on_reregistered(
        &mut self,
        _grant: Option<&Response>,
        _request: &mut Request,
        context: &Context<'_>,
        _actions: &mut Vec<Action>,
    ) {
        // A new ResourceManager does not repeat an answer of the one before.
        if self.calls.is_repeat {
            self.calls.is_repeat = false;
            self.take_back(context.now);
        }
        self.is_retry = true;
    }

    fn on_history(&mut self, news: &HistoryNews, context: &Context<'_>, actions: &mut Vec<Action>) {
        let (attempt, service) = (context.attempt, &self.opt_in.service);
        match news {
            HistoryNews::Loaded { history, skipped } => {
                let skipped = u64::try_from(*skipped).unwrap_or(u64::MAX);
                observe(actions, HistoryEvent::FileSkipped, skipped);
                self.source = HistorySource::New;
                if let Some(saved) = history {
                    let report = self.service.load(saved, context.now);
                    self.source = HistorySource::File {
                        saved: saved.saved,
                        entries: report.loaded,
                    };
                }
            }
            HistoryNews::Unavailable => self.source = HistorySource::Unavailable,
            HistoryNews::Saved(snapshot) => {
                self.saved(snapshot);
                observe(actions, HistoryEvent::Saved, 1);
            }
            HistoryNews::SaveFailed => {
                self.is_saving = false;
                observe(actions, HistoryEvent::SaveFailed, 1);
            }
            HistoryNews::Late => {
                tracing::warn!(%attempt, service, "the role history is not loaded yet; the ApplicationMaster goes on with an empty one");
            }
        }
        self.viewed_at = None;
    }

    fn restore(&mut self, attempt: ApplicationAttemptId, part: Part, value: &[u8], now: Now) {
        if part == Part::RoleHistory {
            if persisted::restore(&mut self.asks, value).is_none() {
                tracing::warn!(%attempt, "a stored record of the role history cannot be read");
            }
            self.is_naming_due = true;
            self.set_wanted(now);
        }
    }
}

#[cfg(test)]
mod tests;
