//! What the agent knows, and what it does about each thing that happens. No async, no socket, no
//! waiting.
//!
//! [`Core`] joins the pure parts — the container scheduler, the applications, the ledger of
//! completions — with the hands that act: launcher, localizer, directories. `core_task` feeds it
//! one command or effect at a time; it decides nothing that the parts decide, it only carries their
//! answers.
//!
//! - `admit`: the checks of `startContainers` and what a start sets going
//! - `calls`: stop, status, update, signal
//! - `duties`: registration, heartbeat, what the ResourceManager orders
//! - `effects`: what threads answer
//! - `live`: what is remembered for people who watch the node
//! - `report`: a container as heartbeats, registrations, AMs and people see it
//! - `perform`: the scheduler's actions, each to its effect

mod admit;
mod calls;
mod diagnostics_budget;
mod duties;
mod effects;
mod live;
mod perform;
mod report;
#[cfg(test)]
pub(crate) mod tests;

pub use admit::{Asker, StartOutcome, StartRequest};
pub use duties::{Delivery, HeartbeatDuties, HeartbeatReport, RegistrationReport};

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use amrm_proxy::AmrmProxy;
use localize::LocalizedResource;
use node_web::metrics::Metrics;
use node_web::view::NodeSnapshot;
use records::{ContainerId, MonoMillis, Now};
use sched::{ContainerScheduler, Event, Refusal};
use tokio::sync::{Notify, oneshot};
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerStatusProto, ContainerTokenIdentifierProto,
};

use crate::applications::Applications;
use crate::hands::Hands;
use crate::launch_context::LaunchContext;
use crate::secrets::NodeSecrets;
use crate::started_tokens::StartedTokens;
use crate::status_ledger::StatusLedger;

/// What the core needs to know of the configuration.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// What pages say of the node and what does not change: its id, ports, versions, log folders.
    pub about: NodeSnapshot,
    /// This node's address as container statuses show it.
    pub node_address: String,
    /// `yarn.nodemanager.log.retain-seconds`, in milliseconds.
    pub log_retain_ms: u64,
    /// `yarn.nodemanager.duration-to-track-stopped-containers`, milliseconds.
    pub track_stopped_ms: u64,
}

/// One container beside what the scheduler knows of it.
#[derive(Debug)]
struct ContainerRecord {
    token: Arc<ContainerTokenIdentifierProto>,
    user: Arc<str>,
    /// Gone once the container is done: it may hold kilobytes.
    context: Option<Box<LaunchContext>>,
    localized: Vec<LocalizedResource>,
    /// What that took; zero for a container that needs nothing.
    localized_in: Duration,
    /// When `startContainers` accepted it, for the launch histogram.
    accepted_us: u64,
    /// Its process exists, or existed: then it has an address to report.
    had_process: bool,
    /// Its completion is in the ledger.
    completion_noted: bool,
    /// The RM has acknowledged a completion that has not happened here yet: it took the container
    /// for lost or expired. It is forgotten when it is done, and reported like any other until
    /// then.
    acknowledged_early: bool,
}

/// The state of the agent. One task owns it.
pub struct Core {
    config: CoreConfig,
    scheduler: ContainerScheduler,
    containers: BTreeMap<ContainerId, ContainerRecord>,
    applications: Applications,
    ledger: StatusLedger<ContainerStatusProto>,
    started: StartedTokens,
    /// Resource increases that no answered heartbeat has carried yet. At most one per known
    /// container.
    increased: BTreeMap<ContainerId, ContainerProto>,
    /// That of the current registration; `None` before the first and during a resync, when nothing
    /// may start.
    rm_identifier: Option<i64>,
    /// Set once the agent is stopping: nothing starts any more.
    stopping: bool,
    /// Answered when no container lives. Filled by a stop and by a resync that keeps no containers,
    /// one at a time.
    waiting_for_the_end: Vec<oneshot::Sender<()>>,
    hands: Box<dyn Hands>,
    secrets: Arc<NodeSecrets>,
    metrics: Arc<Metrics>,
    heartbeat_now: Arc<Notify>,
    journal: live::Journal,
    proxy: Option<Arc<AmrmProxy>>,
}

/// The parts that a [`Core`] joins.
pub struct CoreParts {
    /// Its slice of the configuration.
    pub config: CoreConfig,
    /// Decides which container runs.
    pub scheduler: ContainerScheduler,
    /// What acts on processes and files.
    pub hands: Box<dyn Hands>,
    /// The keys shared with the RPC connections.
    pub secrets: Arc<NodeSecrets>,
    /// Where notes are counted.
    pub metrics: Arc<Metrics>,
    /// Wakes the status updater for an out-of-band heartbeat.
    pub heartbeat_now: Arc<Notify>,
    /// Is told when an application has ended.
    pub proxy: Option<Arc<AmrmProxy>>,
}

impl Core {
    /// A core that knows no container and is not registered.
    #[must_use]
    pub fn new(parts: CoreParts) -> Self {
        let track_stopped_ms = parts.config.track_stopped_ms;
        Self {
            config: parts.config,
            scheduler: parts.scheduler,
            containers: BTreeMap::new(),
            applications: Applications::default(),
            ledger: StatusLedger::new(track_stopped_ms),
            started: StartedTokens::default(),
            increased: BTreeMap::new(),
            rm_identifier: None,
            stopping: false,
            waiting_for_the_end: Vec::new(),
            hands: parts.hands,
            secrets: parts.secrets,
            metrics: parts.metrics,
            heartbeat_now: parts.heartbeat_now,
            journal: live::Journal::default(),
            proxy: parts.proxy,
        }
    }

    /// When to call [`Self::tick`] next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonoMillis> {
        let logs = self.applications.next_log_deletion();
        [self.scheduler.next_deadline(), logs]
            .into_iter()
            .flatten()
            .min()
    }

    /// A deadline has come.
    pub fn tick(&mut self, now: Now) {
        self.must_feed(Event::Tick, now);
        while let Some(id) = self.applications.take_log_deletion(now.mono) {
            self.hands.delete_application_logs(id);
        }
    }

    /// Feeds an event whose refusal nobody waits for: it goes to the log.
    fn must_feed(&mut self, event: Event, now: Now) {
        if let Err(refusal) = self.feed(event, now) {
            log_refusal(&refusal);
        }
    }

    /// Feeds one event and performs what follows, to the end.
    fn feed(&mut self, event: Event, now: Now) -> Result<(), Refusal> {
        let mut actions = Vec::new();
        self.scheduler.handle(event, now, &mut actions)?;
        let mut followups = VecDeque::new();
        loop {
            for action in actions.drain(..) {
                self.perform(action, now, &mut followups);
            }
            let Some(followup) = followups.pop_front() else {
                break;
            };
            if let Err(refusal) = self.scheduler.handle(followup, now, &mut actions) {
                log_refusal(&refusal);
            }
        }
        self.scheduler_changed(now);
        Ok(())
    }
}

/// A refusal that is answered to nobody. That the container is gone already is the way of things;
/// an answer that no order explains is a fault of the agent.
fn log_refusal(refusal: &Refusal) {
    match refusal {
        Refusal::UnexpectedAnswer { .. } => {
            tracing::warn!(%refusal, "an answer that fits no order")
        }
        Refusal::UnknownContainer(_)
        | Refusal::AlreadyKnown(_)
        | Refusal::TooManyContainers(_)
        | Refusal::VersionNotGreater { .. } => tracing::debug!(%refusal, "the event came too late"),
    }
}

/// What an action's performance answers at once, without waiting for a thread.
type Followups = VecDeque<Event>;
