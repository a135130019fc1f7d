//! Decides which containers run on this node, and when (Hadoop: `ContainerScheduler`, and the state
//! machine of `ContainerImpl`).
//!
//! Each event first changes the container or setting that it names. Then `settle` schedules: it
//! starts the containers that fit and evicts those that must make room, until nothing more can be
//! done. So every change is considered, whatever caused it, and nothing waits for an event that
//! already happened.
//!
//! - `lifecycle`: events of one container, from acceptance to clean-up
//! - `killing`: kills, from request to SIGKILL
//! - `recovery`: containers of an earlier run
//! - `retrying`: further starts of a container whose process failed
//! - `draining`: the end of containers of a node that is drained
//! - `ordering`: places in the opportunistic queue
//! - `backfill`: starts behind a container that does not fit
//! - `room`: starts, evictions, sheds
//! - `waits`: estimates of queue waits
//! - `snapshot`: the state as a value
//! - `invariants`: conditions that hold between events

mod backfill;
mod draining;
mod invariants;
mod killing;
mod lifecycle;
mod ordering;
mod recovery;
mod retrying;
mod room;
mod snapshot;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::BTreeMap;

use records::{
    ContainerExitStatus, ContainerId, ContainerName, ExecutionType, MonoMillis, Now, Resource,
};

use crate::action::{Action, ContainerQueuingLimit, DrainExtent, Note, PauseEnd, Refusal};
use crate::config::{ContainerSchedulerConfig, RuntimeSettings};
use crate::container::Container;
use crate::container_state::{ContainerState, Step};
use crate::diagnostics::Stamp;
use crate::event::Event;
use crate::index::Index;
use crate::look::Sight;
use crate::run_profile::ProfiledRuns;
use crate::run_times::RunTimes;
use crate::status;
use crate::timers::{Timer, Timers};
use crate::utilization::Amount;
use crate::view::{
    ContainerSummary, ContainerView, OpportunisticContainersStatus, QueuedContainer,
};

pub use self::recovery::{RecoveredContainer, RecoveredStage};
use self::room::Change;
pub use self::snapshot::{SchedulerSnapshot, SnapshotError};
use self::waits::TYPICAL_ASK_AT_FIRST;

/// Decides which containers run. The crate's documentation shows how to drive it.
///
/// Holds at most [`crate::CONTAINERS_MAX`] containers and one timer for each. An event costs a few
/// look-ups in ordered maps, however many containers wait. Only ending an application, shedding and
/// evicting cost more, in proportion to the containers that they end, and starting, in proportion
/// to the frozen containers that do not fit.
#[derive(Clone, Debug)]
pub struct ContainerScheduler {
    config: ContainerSchedulerConfig,
    node: Resource,
    containers: BTreeMap<ContainerId, Container>,
    /// Room of processes of an earlier run that belong to no container, until they are gone.
    withheld: BTreeMap<ContainerName, Resource>,
    index: Index,
    timers: Timers,
    queuing_limit: Option<ContainerQueuingLimit>,
    /// How far the node is drained; `None`: not.
    drain: Option<DrainExtent>,
    run_times: RunTimes,
    profiled_runs: ProfiledRuns,
    /// Expected size of the next opportunistic container.
    typical_ask: Resource,
    /// Wait of another opportunistic container, in milliseconds, as of the last estimate.
    estimated_wait_ms: Option<u64>,
    utc_offset_s: i32,
    /// Last number given out for an arrival in a queue or a place in the order of starts.
    last_number: u64,
    /// Events handled so far. Debug builds use it to sample costly checks.
    events: u64,
}

/// Context of the event being handled: its time and the list that receives its actions.
struct Turn<'a> {
    now: Now,
    actions: &'a mut Vec<Action>,
}

impl Turn<'_> {
    fn order(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn note(&mut self, note: Note) {
        self.actions.push(Action::Note(note));
    }
}

impl ContainerScheduler {
    /// Creates a scheduler without containers, for a node that offers `node`.
    #[must_use]
    pub fn new(config: ContainerSchedulerConfig, node: Resource) -> Self {
        let mut scheduler = Self {
            config,
            node,
            containers: BTreeMap::new(),
            withheld: BTreeMap::new(),
            index: Index::new(config.vmem_check),
            timers: Timers::default(),
            queuing_limit: None,
            drain: None,
            run_times: RunTimes::default(),
            profiled_runs: ProfiledRuns::default(),
            typical_ask: TYPICAL_ASK_AT_FIRST,
            estimated_wait_ms: None,
            utc_offset_s: config.utc_offset_s,
            last_number: 0,
            events: 0,
        };
        scheduler.estimate_waits(MonoMillis(0));
        scheduler
    }

    /// Handles an event and appends the resulting actions, in the order in which they must be
    /// performed.
    ///
    /// # Errors
    /// A [`Refusal`] when the event does not fit the state. Then nothing has changed and nothing is
    /// appended.
    pub fn handle(
        &mut self,
        event: Event,
        now: Now,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let mut turn = Turn { now, actions };
        let change = self.apply(event, &mut turn)?;
        self.settle(change, &mut turn);
        self.events += 1;
        if cfg!(debug_assertions) {
            self.check_after_event();
        }
        Ok(())
    }

    fn apply(&mut self, event: Event, turn: &mut Turn<'_>) -> Result<Change, Refusal> {
        match event {
            Event::Start(spec) => self.start(spec, turn),
            Event::RetryPolicy { id, policy } => self.set_retry_policy(id, policy),
            Event::RunProfile { id, profile } => self.set_profile(id, profile),
            Event::CanRollBack { id, can_roll_back } => self.set_can_roll_back(id, can_roll_back),
            Event::Restart(id) => self.restart(id, turn),
            Event::Localized(id) => self.localized(id, turn),
            Event::LocalizationFailed { id, diagnostics } => {
                self.localization_failed(id, &diagnostics, turn)
            }
            Event::Launched(id) => self.launched(id, turn),
            Event::LaunchFailed {
                id,
                status,
                diagnostics,
            } => self.launch_failed(id, status, &diagnostics, turn),
            Event::ProcessesGone(id) => self.processes_gone(id, turn),
            Event::Exited {
                id,
                status,
                diagnostics,
            } => self.exited(id, status, &diagnostics, turn),
            Event::Paused { id, held_mb } => self.paused(id, held_mb, turn),
            Event::FrozenMemory { id, held_mb } => self.frozen_memory(id, held_mb),
            Event::Resumed(id) => self.resumed(id, turn),
            Event::PauseFailed(id) => self.pause_failed(id, turn),
            Event::CleanedUp(id) => self.cleaned_up(id, turn),
            Event::Kill { id, reason } => self.kill_on_request(id, reason, turn),
            Event::KillApplication { id, reason } => {
                self.kill_application(id, reason, turn);
                Ok(Change::Other)
            }
            Event::Update(spec) => self.update(spec, turn),
            Event::NodeResource(node) => {
                self.node = node;
                Ok(Change::Other)
            }
            Event::QueuingLimit(limit) => {
                self.queuing_limit = Some(limit);
                self.shed(limit, turn);
                Ok(Change::Other)
            }
            Event::Drain(extent) => {
                self.drain = extent;
                self.end_drained(turn);
                Ok(Change::Other)
            }
            Event::Settings(settings) => {
                self.change_settings(settings, turn.now.mono);
                Ok(Change::Other)
            }
            Event::EstimateWaits => {
                self.estimate_waits(turn.now.mono);
                Ok(Change::Other)
            }
            Event::Forget(id) => self.forget(id),
            Event::Annotate { id, diagnostics } => self.annotate(id, &diagnostics, turn),
            Event::UtcOffset { seconds } => {
                self.utc_offset_s = seconds;
                Ok(Change::Other)
            }
            Event::Tick => {
                self.tick(turn);
                Ok(Change::Other)
            }
        }
    }

    fn tick(&mut self, turn: &mut Turn<'_>) {
        while let Some(timer) = self.timers.pop_due(turn.now.mono) {
            match timer {
                Timer::ForceKill(id) => turn.order(Action::ForceKill(id)),
                Timer::PauseEnd(id) => self.end_pause(id, PauseEnd::TooLong, turn),
                Timer::Retry(id) => self.relaunch(id, turn),
            }
        }
    }
}

/// Queries, none of which changes anything.
impl ContainerScheduler {
    /// Returns the time at which [`Event::Tick`] is due; `None`: only an event can change anything.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonoMillis> {
        self.timers.next()
    }

    /// Returns a container, unless it is unknown or forgotten.
    #[must_use]
    pub fn container(&self, id: &ContainerId) -> Option<ContainerView> {
        self.containers.get(id).map(Container::view)
    }

    /// Returns all known containers in the order of their ids, including finished ones.
    pub fn containers(&self) -> impl Iterator<Item = ContainerView> + '_ {
        self.containers.values().map(Container::view)
    }

    /// Returns a container without its diagnostics, unless it is unknown or forgotten.
    #[must_use]
    pub fn summary(&self, id: &ContainerId) -> Option<ContainerSummary> {
        self.containers.get(id).map(Container::summary)
    }

    /// Returns all known containers without their diagnostics, in the order of their ids.
    pub fn summaries(&self) -> impl Iterator<Item = ContainerSummary> + '_ {
        self.containers.values().map(Container::summary)
    }

    /// Returns all containers that hold an allocation, in the order of their ids: their launch is
    /// ordered, they run, or they are being killed or frozen. Walks over all known containers.
    pub fn holding_room(&self) -> impl Iterator<Item = ContainerSummary> + '_ {
        self.containers
            .values()
            .filter(|container| container.state.holds_room())
            .map(Container::summary)
    }

    /// Returns the number of containers of a type that hold an allocation, without a walk.
    #[must_use]
    pub fn holding_room_count(&self, execution_type: ExecutionType) -> usize {
        let utilization = self.index.utilization();
        match execution_type {
            ExecutionType::Guaranteed => utilization.guaranteed_count,
            ExecutionType::Opportunistic => utilization.opportunistic_count,
        }
    }

    /// Returns the number of known containers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.containers.len()
    }

    /// Returns whether no container is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// Returns all waiting containers in the order in which they would start: guaranteed ones
    /// first; within a type, frozen ones first, then in the order in force.
    pub fn queue(&self) -> impl Iterator<Item = QueuedContainer> + '_ {
        [ExecutionType::Guaranteed, ExecutionType::Opportunistic]
            .into_iter()
            .flat_map(|execution_type| {
                self.index
                    .queue(execution_type)
                    .iter()
                    .map(move |(waiting, paused)| QueuedContainer {
                        id: waiting.id,
                        execution_type,
                        paused,
                    })
            })
    }

    /// Returns the number of waiting containers of a type, including frozen ones.
    #[must_use]
    pub fn queue_length(&self, execution_type: ExecutionType) -> usize {
        self.index.queue(execution_type).len()
    }

    /// Returns the number of frozen containers.
    #[must_use]
    pub fn paused_count(&self) -> usize {
        self.index.guaranteed().paused_len() + self.index.opportunistic().paused_len()
    }

    /// Returns the memory that frozen containers hold, in mebibytes.
    #[must_use]
    pub fn frozen_memory_mb(&self) -> u64 {
        u64::try_from(self.index.frozen_mb()).unwrap_or(u64::MAX)
    }

    /// Returns the status of opportunistic containers for the ResourceManager. Its estimate of a
    /// wait is as old as the last [`Event::EstimateWaits`].
    #[must_use]
    pub fn opportunistic_status(&self) -> OpportunisticContainersStatus {
        let status =
            status::opportunistic_status(&self.config, &self.index, self.estimated_wait_ms);
        match self.drain {
            Some(_) => status::of_drained(status),
            None => status,
        }
    }

    /// Returns how far the node is drained; `None`: not.
    #[must_use]
    pub fn drain(&self) -> Option<DrainExtent> {
        self.drain
    }

    /// Returns the sum of all allocations held. Exceeds what the node offers when guaranteed
    /// containers are forced on it, when the node shrank, or when a running container grew.
    #[must_use]
    pub fn allocated(&self) -> Resource {
        self.index.allocated().to_resource()
    }

    /// Returns the resources that the node offers.
    #[must_use]
    pub fn node_resource(&self) -> Resource {
        self.node
    }

    /// Returns whether opportunistic containers are taken: the node is not drained, and
    /// `yarn.nodemanager.opportunistic-containers-max-queue-length` is not 0.
    #[must_use]
    pub fn takes_opportunistic(&self) -> bool {
        self.drain.is_none() && self.config.queue_capacity() > 0
    }

    /// Returns the load that a look from outside shows: containers of both types, those that wait
    /// apart, frozen ones among them.
    #[must_use]
    pub fn sight(&self, now: MonoMillis) -> Sight {
        let types = [ExecutionType::Guaranteed, ExecutionType::Opportunistic];
        let count =
            |counts: [usize; 2]| u32::try_from(counts.iter().sum::<usize>()).unwrap_or(u32::MAX);
        Sight {
            running: count(types.map(|it| self.holding_room_count(it))),
            queued: match self.takes_opportunistic() {
                true => count(types.map(|it| self.queue_length(it))),
                false => Sight::CLOSED,
            },
            free: self.node.saturating_sub(self.allocated()),
            seen_at: now,
        }
    }

    /// Returns the limit that the ResourceManager published last.
    #[must_use]
    pub fn queuing_limit(&self) -> Option<ContainerQueuingLimit> {
        self.queuing_limit
    }
}

/// Helpers that the submodules share.
impl ContainerScheduler {
    fn known(&self, id: ContainerId) -> Result<&Container, Refusal> {
        self.containers
            .get(&id)
            .ok_or(Refusal::UnknownContainer(id))
    }

    fn node_amount(&self) -> Amount {
        Amount::new(self.node, self.config.vmem_check)
    }

    fn allocate_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn change_settings(&mut self, settings: RuntimeSettings, now: MonoMillis) {
        let before = self.config.runtime_settings();
        self.config.change(settings);
        let is_other_order = before.queue_order != settings.queue_order
            || before.queue_bound_factor != settings.queue_bound_factor;
        if is_other_order {
            self.sort_queue(now);
        }
    }

    /// Changes a container's type, size or state. The only way to do so, because it keeps the index
    /// consistent.
    fn modify(&mut self, id: ContainerId, change: impl FnOnce(&mut Container)) {
        let container = self
            .containers
            .get_mut(&id)
            .expect("callers look the container up first");
        let counted = Self::counts_for_attempt(&container.spec, container.state);
        self.index.remove(&container.spec, container.state);
        change(container);
        self.index.insert(&container.spec, container.state);
        if counted != Self::counts_for_attempt(&container.spec, container.state) {
            self.place_attempt_again(id.attempt);
        }
    }

    /// Moves a container to its next state.
    fn step(&mut self, id: ContainerId, step: Step, now: Now) {
        self.modify(id, |container| {
            let state = container
                .state
                .after(step)
                .unwrap_or_else(|illegal| panic!("container {id}: {illegal}"));
            container.enter(state, now.mono);
        });
    }

    /// Appends a piece to a container's diagnostics.
    fn add_diagnostics(&mut self, id: ContainerId, piece: &str, now: Now) {
        let stamp = Stamp {
            wall: now.wall,
            utc_offset_s: self.utc_offset_s,
            max_chars: self.config.diagnostics_max_chars,
        };
        if let Some(container) = self.containers.get_mut(&id) {
            container.diagnostics.push(piece, stamp);
        }
    }

    /// Sets the exit status to report. The index does not depend on it.
    fn set_exit_status(&mut self, id: ContainerId, exit_status: ContainerExitStatus) {
        if let Some(container) = self.containers.get_mut(&id) {
            container.exit_status = exit_status;
        }
    }

    fn state(&self, id: ContainerId) -> Option<ContainerState> {
        self.containers.get(&id).map(|container| container.state)
    }
}
