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
mod background;
pub mod files;
mod named;
pub mod opt_in;
pub(crate) mod performer;
mod persisted;
mod plan;
pub mod policy;
mod publish;
mod received;
mod role_key;
mod service;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use records::{ApplicationAttemptId, ContainerExitStatus, ContainerId, MonoMillis, Now, Priority};
use role_history::{CompletedContainer, Ran, RoleId};
use sched::{HostPreferences, NodeList};
use wire::exception::RemoteException;
use wire::raw_message::RawMessage;

use self::asks::{AskKey, Asks, Stated};
pub use self::background::Effect;
use self::background::{ASKS, PLACES};
use self::files::HistoryNews;
use self::opt_in::OptIn;
use self::policy::Policies;
use self::received::Answer;
use self::role_key::RoleKey;
use self::service::{Received, Service};
use self::view::{HistorySource, RoleHistoryView};
use crate::call::{AmMethod, Outcome, Request, Response};
use crate::calls::Calls;
use crate::config::HistoryConfig;
use crate::fields::allocate_request;
use crate::interceptor::{Action, Actions, Context, Interceptor, Pass};
use crate::observe::{HistoryEvent, Observation};
use crate::store::Part;

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
    racks: BTreeMap<String, Arc<str>>,
    /// List of nodes of the last answer.
    offered: NodeList,
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
    /// Saves in a row that have failed.
    save_failures: u32,
    view: RoleHistoryView,
    viewed_at: Option<MonoMillis>,
    is_unpersisted: bool,
    are_places_unpersisted: bool,
    /// Time at which the places of asks were stored last.
    places_at: Option<MonoMillis>,
    /// Whether the nodes to name may differ from those that the ResourceManager has. Where they do
    /// not, a call with thousands of outstanding containers is as quick as one with none.
    is_naming_due: bool,
    /// Whether the ResourceManager may have executed the current call before.
    is_retry: bool,
    /// Containers that the last answer brought for asks. The AM may not have got the answer.
    counted: Vec<(ContainerId, String, AskKey)>,
}

/// Containers that the asks of a role want.
#[derive(Default)]
struct Wanted {
    count: u32,
    /// Guaranteed ask among them, with its part of the count.
    named: Option<(AskKey, u32)>,
}

impl Wanted {
    /// Adds an ask. A second guaranteed one is left as it is.
    fn add(&mut self, key: AskKey, count: u32) {
        if key.is_guaranteed() && count > 0 {
            if self.named.is_some() {
                return;
            }
            self.named = Some((key, count));
        }
        self.count = self.count.saturating_add(count);
    }
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
            racks: BTreeMap::new(),
            offered: NodeList::default(),
            calls: Calls::default(),
            to_release: BTreeSet::new(),
            surplus: BTreeSet::new(),
            ended_surplus: Vec::new(),
            source: HistorySource::Loading,
            is_saving: false,
            saved_at: now.mono,
            save_failures: 0,
            view: RoleHistoryView::new(&opt_in, attempt, user),
            viewed_at: None,
            is_unpersisted: false,
            are_places_unpersisted: false,
            places_at: None,
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

    /// Brings the numbers that roles want in line with the AM's asks. Of a role's guaranteed asks
    /// the first one names nodes.
    fn set_wanted(&mut self, now: Now) {
        let asks: Vec<_> = self
            .asks
            .iter()
            .map(|(key, ask)| (key, ask.wanted, self.is_planned(key, ask)))
            .collect();
        let mut wanted: BTreeMap<RoleId, Wanted> = BTreeMap::new();
        for (key, count, is_planned) in asks {
            if let Some(role) = self.role_of(key)
                && is_planned
            {
                wanted.entry(role).or_default().add(key, count);
            }
        }
        let roles: Vec<_> = self.service.roles.keys().copied().collect();
        for role in roles {
            let Wanted { count, named } = wanted.remove(&role).unwrap_or_default();
            self.service.set_wanted(role, count, now);
            let before = self.service.set_named(role, named);
            if let Some(named) = before.and_then(|before| self.asks.named(before)) {
                named.withdraw();
            }
        }
    }

    /// Prefers the nodes of the history in opportunistic asks. A host is given up for a wait that
    /// is estimated to be longer than the role would wait for it in vain.
    fn preferences(&self) -> HostPreferences {
        let mut preferences = HostPreferences::new(self.service.placement_timeout_ms());
        for (key, ask) in self.asks.iter() {
            if !key.is_guaranteed()
                && ask.wanted > 0
                && self.is_planned(key, ask)
                && let Some(role) = self.service.known_role(RoleKey::of(key))
            {
                let hosts = self.service.preferred(role, ask.wanted);
                preferences.set(Priority(key.priority), key.request_id, hosts);
            }
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
        request.notes.put(self.preferences());
        let releases = self.to_release.iter().map(|id| received::encode_id(*id));
        request
            .message
            .extend(allocate_request::RELEASE, releases.collect::<Vec<_>>());
    }

    /// Names nodes in the guaranteed asks of a request, whose lines state this.
    fn name_nodes(&mut self, message: &mut RawMessage, stated: &Stated, now: Now) {
        let changes = self.service.plan_changes(now.mono);
        self.is_naming_due |= stated.is_taken || changes.is_some();
        if !self.is_naming_due {
            return;
        }
        for change in changes.into_iter().flatten() {
            if let Some(named) = self.asks.named(change.ask) {
                for (host, count) in change.touched {
                    let rack = rack_of(&self.racks, &host);
                    named.want(host, count, rack);
                }
                named.set_strict(change.is_strict);
            }
        }
        let is_changed = self.asks.name_nodes(message, stated);
        self.is_unpersisted |= is_changed;
        self.are_places_unpersisted |= is_changed;
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
        for (host, rack) in answer.racks(&mut self.offered) {
            if self.racks.contains_key(&host) || self.racks.len() < RACKS_MAX {
                let before = rack_of(&self.racks, &host);
                if before != rack {
                    self.asks.move_host(&host, &before, &rack);
                    self.is_naming_due = true;
                }
                self.racks.insert(host, rack);
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
                ran: Ran::SinceStart,
            });
        }
        self.service.complete(ended, now);
        self.set_wanted(now);
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
    type Effect = Effect;
    type Event = HistoryNews;

    const PARTS: &'static [Part] = &[ASKS, PLACES];

    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Actions<'_, Effect>,
    ) -> Result<Pass, RemoteException> {
        match request.method {
            AmMethod::Register => {
                self.calls = Calls::default();
                self.asks.clear();
                self.is_naming_due = true;
                self.set_wanted(context.now);
            }
            AmMethod::Allocate => self.allocate(request, context.now, actions.chain),
            AmMethod::Finish => {}
        }
        Ok(Pass::default())
    }

    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Actions<'_, Effect>,
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
                    observe(actions.chain, HistoryEvent::Placed { on_history }, 1);
                }
                self.persist(context.now.mono, actions.chain);
            }
            AmMethod::Finish => {}
        }
        self.save(context.now, method == AmMethod::Finish, actions.own);
        self.publish(context.now, actions.own);
    }

    fn on_reregistered(
        &mut self,
        _grant: Option<&Response>,
        _request: &mut Request,
        context: &Context<'_>,
        _actions: &mut Actions<'_, Effect>,
    ) {
        // A new ResourceManager does not repeat an answer of the one before.
        if self.calls.is_repeat {
            self.calls.is_repeat = false;
            self.take_back(context.now);
        }
        self.is_retry = true;
    }

    fn on_event(
        &mut self,
        news: HistoryNews,
        context: &Context<'_>,
        actions: &mut Actions<'_, Effect>,
    ) {
        let (attempt, service) = (context.attempt, &self.opt_in.service);
        match news {
            HistoryNews::Loaded { history, skipped } => {
                let skipped = u64::try_from(skipped).unwrap_or(u64::MAX);
                observe(actions.chain, HistoryEvent::FileSkipped, skipped);
                self.source = HistorySource::New;
                if let Some(saved) = history {
                    let report = self.service.load(&saved, context.now);
                    self.source = HistorySource::File {
                        saved: saved.saved,
                        entries: report.loaded,
                    };
                }
            }
            HistoryNews::Unavailable => self.source = HistorySource::Unavailable,
            HistoryNews::Saved(snapshot) => {
                self.saved(&snapshot);
                observe(actions.chain, HistoryEvent::Saved, 1);
            }
            HistoryNews::SaveFailed => {
                self.is_saving = false;
                self.save_failures = self.save_failures.saturating_add(1);
                observe(actions.chain, HistoryEvent::SaveFailed, 1);
            }
            HistoryNews::Late => {
                tracing::warn!(%attempt, service, "the role history is not loaded yet; the ApplicationMaster goes on with an empty one");
            }
        }
        self.viewed_at = None;
    }

    fn restore(
        &mut self,
        attempt: ApplicationAttemptId,
        part: Part,
        value: &[u8],
        now: Now,
        _own: &mut Vec<Effect>,
    ) {
        let restored = match part {
            ASKS => persisted::restore(&mut self.asks, value),
            PLACES => persisted::restore_places(&mut self.asks, value),
            _ => None,
        };
        if restored.is_none() {
            tracing::warn!(%attempt, "a stored record of the role history cannot be read");
        }
        self.is_naming_due = true;
        self.set_wanted(now);
    }
}

#[cfg(test)]
mod tests;
