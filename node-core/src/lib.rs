//! State of a NodeManager and all code that changes it. No async, no socket, no clock, no waiting:
//! calls, events of workers and the time come in, answers go out, and [`Effect`]s describe the work
//! to do outside. `clippy.toml` beside the manifest bans the ways out.
//!
//! [`Core`] composes the pure parts: the container scheduler, the applications, the ledger of
//! completions. They decide; the core turns their decisions into effects. One task owns it and
//! performs them. May not know that task, a worker's threads, a face of the node, or the
//! configuration's files.
//!
//! | module | subject |
//! |---|---|
//! | `admit` | `startContainers`: its checks and the acceptance of a container |
//! | `calls` | other calls of AMs: stop, status, update, signal |
//! | `reinit` | other launch contexts and more resources for running containers |
//! | `resource_manager` | registration, heartbeat, orders of the ResourceManager |
//! | `worker_events` | results of localizer, launcher, isolation and monitor |
//! | `actions` | actions of the scheduler, turned into effects |
//! | `container` | a container, beside the scheduler's state of it |
//! | `setups` | launch contexts and resources of a container |
//! | `setup_state` | which of them the next launch takes |
//! | `end` | the end of a container, which all parts are told |
//! | `call`, `effect`, `order` | the vocabulary of calls, effects, and the orders in them |
//! | `report` | read-only views of containers for heartbeats, AMs and web pages |
//! | `condition` | the node's health, from its disks, health scripts and launches, and its drain |
//! | `logs` | aggregation of logs: orders and outcomes |
//! | `recorder` | records for the next agent |
//! | `remember` | when they change |
//! | `restore` | containers and applications of an earlier agent |
//! | `recovery` | records for the next agent, and what they mean |
//! | `careful` | works of an earlier agent after a crash: which go on, which wait |
//! | `drain` | the drain of the node: modes, time limit, and what is told about it |
//! | `draining` | orders to drain the node |
//! | `operator` | what operators ask and order through the admin socket |
//! | `run_lengths` | how long containers run: what launch contexts tell, and its record |
//! | `reservations` | room for attempts that bind their tasks late |
//! | `runtimes` | the runtime that a container asks for |
//! | `services` | what auxiliary services learn of containers |
//! | `token`, `messages` | container tokens as they come in, messages as they go out |
//! | `stories` | what has happened to each container, for operators |
//! | `applications`, `registration` | parts with state of their own |
//! | `status_ledger`, `increases`, `started_tokens` | the same, which learn of each end |
//! | `aggregated`, `log_reports` | what became of uploaded logs |
//! | `journal` | decisions and counts over time, for the live page |
//!
//! One table is shared: [`Attempts`] belong to the keys with which RPC connections verify tokens.
//! Its look-ups are part of the checks of a start.

mod actions;
mod admit;
mod aggregated;
pub mod applications;
mod call;
mod calls;
mod careful;
mod condition;
mod config;
mod container;
mod diagnostics_budget;
mod drain;
mod draining;
mod effect;
mod end;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
mod increases;
mod journal;
mod keep_alive;
mod launch_health;
mod log_reports;
mod logs;
mod messages;
mod operator;
mod order;
mod recorder;
pub mod recovery;
mod registration;
mod reinit;
mod remember;
mod report;
mod reservations;
mod resource_manager;
mod restore;
mod run_lengths;
mod runtimes;
mod services;
mod settings;
mod setup_state;
mod setups;
pub mod started_tokens;
pub mod status_ledger;
mod stories;
#[cfg(test)]
mod tests;
mod token;
mod tokens;
mod worker_event;
mod worker_events;

pub use admit::is_unauthorized;
pub use call::{Asker, StartOutcome, StartRequest, UpdateRequest};
pub use condition::HealthEvent;
pub use config::{CoreConfig, LogAggregation, Machine, ServiceMetadata};
pub use drain::{DRAIN_REASON_CHARS_MAX, DrainOrder};
pub use effect::{Effect, LocalizeFor, Observed, ReinitStage, ServedContainer};
pub use messages::Increase;
pub use order::{LaunchOrder, LinkOrder, LogOrder, StoreOrder};
pub use recorder::TOKENS_BYTES_MAX;
pub use reinit::ReinitRequest;
pub use reservations::ReservationRefusal;
pub use resource_manager::{Delivery, HeartbeatOrders, HeartbeatReport, RegistrationReport, Wait};
pub use restore::RestoredState;
pub use runtimes::{PLAIN, Runtimes};
pub use settings::CoreSettings;
pub use token::{ContainerToken, TokenFacts, read_spec};
pub use worker_event::WorkerEvent;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use event_record::RecordedScheduler;
use launch_context::ContextBudget;
use node_view::snapshot::About;
use records::{ApplicationAttemptId, ApplicationId, ContainerId, MonoMillis, NodeId, Now};
use sched::{Action, ContainerScheduler, Event, Refusal, ReservationTable};
use wire::exception::RemoteException;
use wire::token::Token;

use crate::applications::Applications;
use crate::condition::Condition;
use crate::container::Container;
use crate::increases::Increases;
use crate::messages::Status;
use crate::recorder::Recorder;
use crate::registration::Registration;
use crate::runtimes::RuntimeChecks;
use crate::started_tokens::StartedTokens;
use crate::status_ledger::StatusLedger;

/// State of the NodeManager. One task owns it.
pub struct Core {
    config: CoreConfig,
    scheduler: RecordedScheduler,
    /// Reservations of the proxies on other nodes and on this one.
    reservations: ReservationTable<NodeId>,
    containers: BTreeMap<ContainerId, Container>,
    applications: Applications,
    runtimes: RuntimeChecks,
    ledger: StatusLedger<Status>,
    started: StartedTokens,
    increases: Increases,
    registration: Registration,
    attempts: Arc<dyn Attempts>,
    /// Budget of the launch contexts that wait here and in the launcher's queue.
    contexts: Arc<ContextBudget>,
    journal: journal::Journal,
    stories: stories::Stories,
    condition: Condition,
    logs: logs::Logs,
    /// Records for the next agent.
    recorder: Recorder,
    /// Record of how long containers run, as stored last.
    stored_runs: run_lengths::StoredRuns,
    /// Works of an earlier agent that go on step by step.
    careful: careful::Careful,
    /// Tokens that the ResourceManager has got anew, of applications here and elsewhere.
    system_tokens: BTreeMap<ApplicationId, Vec<Token>>,
    /// Ended applications whose tokens are still needed.
    keep_alive: keep_alive::KeepAlive,
    /// Effects that the task has not taken yet, in order.
    effects: Vec<Effect>,
}

/// Attempts of ApplicationMasters whose NMTokens this node takes. The keys of the tokens are the
/// caller's, who also verifies the tokens.
pub trait Attempts: Send + Sync {
    /// Records that an attempt starts containers with an NMToken signed with key `key_id`.
    ///
    /// # Errors
    /// `InvalidToken` when that key is neither current nor previous: an older token may still stop
    /// and query, not start.
    fn remember(&self, attempt: ApplicationAttemptId, key_id: i32) -> Result<(), RemoteException>;

    /// Forgets the attempts of an application that has ended.
    fn forget_application(&self, id: ApplicationId);
}

/// Parts of a [`Core`].
pub struct CoreParts {
    /// Configuration of the core.
    pub config: CoreConfig,
    /// Facts about the node that pages show. All but its condition and its log directories do not
    /// change.
    pub about: Arc<About>,
    /// Scheduler that decides which containers run.
    pub scheduler: ContainerScheduler,
    /// Attempts whose NMTokens are good, shared with the RPC connections.
    pub attempts: Arc<dyn Attempts>,
}

impl Core {
    /// Returns a core without containers that is not registered.
    #[must_use]
    pub fn new(parts: CoreParts) -> Self {
        let track_stopped_ms = parts.config.track_stopped_ms;
        let contexts = ContextBudget::new(parts.config.contexts);
        let runtimes = RuntimeChecks::new(parts.config.runtimes);
        let recorder = Recorder::new(parts.config.remembers, parts.config.boot);
        let condition = Condition::new(parts.about);
        let reservations = ReservationTable::new(parts.scheduler.queue_bound_factor());
        let scheduler = RecordedScheduler::new(parts.scheduler, parts.config.records_events);
        Self {
            config: parts.config,
            scheduler,
            reservations,
            containers: BTreeMap::new(),
            applications: Applications::default(),
            runtimes,
            ledger: StatusLedger::new(track_stopped_ms),
            started: StartedTokens::default(),
            increases: Increases::default(),
            registration: Registration::default(),
            attempts: parts.attempts,
            contexts,
            journal: journal::Journal::default(),
            stories: stories::Stories::default(),
            condition,
            logs: logs::Logs::default(),
            recorder,
            stored_runs: run_lengths::StoredRuns::default(),
            careful: careful::Careful::default(),
            system_tokens: BTreeMap::new(),
            keep_alive: keep_alive::KeepAlive::default(),
            effects: Vec::new(),
        }
    }

    /// Returns the time of the next call of [`Self::tick`]; `None`: only an event can change
    /// anything.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonoMillis> {
        let logs = self.applications.next_log_deletion();
        let drain = self.condition.drain().and_then(drain::Drain::deadline);
        let launches = self.condition.next_deadline();
        let works = self.next_look_at_works();
        let held = self.reservations.next_deadline();
        let scheduler = self.scheduler.next_deadline();
        let all = [scheduler, logs, drain, launches, works, held];
        all.into_iter().flatten().min()
    }

    /// Handles the deadlines that have passed: those of the scheduler and of log deletions.
    pub fn tick(&mut self, now: Now) {
        self.must_feed(Event::Tick, now);
        self.expire_reservations(now.mono);
        self.end_drain_in_time(now);
        let shown = self.condition.probe_launches(now);
        self.show(shown);
        self.look_at_works(now);
        while let Some(id) = self.applications.take_log_deletion(now.mono) {
            self.logs.forget(&id);
            self.effects.push(Effect::DeleteLogs(id));
            self.remember_application(id, now);
        }
        self.forget_uses(now);
    }

    fn observe(&mut self, observed: Observed) {
        self.effects.push(Effect::Observe(observed));
    }

    /// Feeds an event to the scheduler and logs its refusal, which no caller waits for.
    fn must_feed(&mut self, event: Event, now: Now) {
        if let Err(refusal) = self.feed(event, now) {
            log_refusal(&refusal);
        }
    }

    /// Feeds one event to the scheduler and turns all resulting actions into effects.
    fn feed(&mut self, event: Event, now: Now) -> Result<(), Refusal> {
        let mut actions = Vec::new();
        let subject = event.subject();
        self.scheduler.handle(event, now, &mut actions)?;
        self.perform(actions, now);
        self.remember(subject, now);
        Ok(())
    }

    /// Turns actions into effects, and those that follow from them.
    fn perform(&mut self, mut actions: Vec<Action>, now: Now) {
        let mut followups = VecDeque::new();
        let mut subjects = Vec::new();
        loop {
            for action in actions.drain(..) {
                if self.recorder.are_kept() {
                    subjects.extend(remember::subject_of_action(&action));
                }
                self.act(action, now, &mut followups);
            }
            let Some(followup) = followups.pop_front() else {
                break;
            };
            if let Err(refusal) = self.scheduler.handle(followup, now, &mut actions) {
                log_refusal(&refusal);
            }
        }
        self.remember(subjects, now);
        self.offer_room(now.mono);
        self.scheduler_changed(now);
    }
}

/// Logs a refusal that no caller waits for. That a container is gone already is normal; an answer
/// that fits no order is a fault of the agent.
fn log_refusal(refusal: &Refusal) {
    match refusal {
        Refusal::UnexpectedAnswer { .. } => {
            tracing::warn!(%refusal, "an answer that fits no order")
        }
        Refusal::UnknownContainer(_)
        | Refusal::AlreadyKnown(_)
        | Refusal::NotRunning { .. }
        | Refusal::TooManyContainers(_)
        | Refusal::VersionNotGreater { .. } => tracing::debug!(%refusal, "the event came too late"),
    }
}

/// Events that the core itself causes while it turns actions into effects.
type Followups = VecDeque<Event>;
