//! Which containers run on this node, and when (Hadoop: `ContainerScheduler`, and the state machine of
//! `ContainerImpl`).
//!
//! Each event changes what it is about, then `settle` brings the node to rest: who can
//! start starts, who must go goes. So every change is looked at, whatever caused it, and nothing waits for an event
//! that already happened.
//!
//! - `lifecycle`: what happens to one container, from its start to its end
//! - `killing`: the ways to end one
//! - `room`: starts, evictions, sheds
//! - `waits`: how long those that wait will wait
//! - `invariants`: what must hold between events

mod invariants;
mod killing;
mod lifecycle;
mod room;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::BTreeMap;

use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis, Now, Resource};

use crate::action::{
    Action, ContainerQueuingLimit, ContainerSummary, ContainerView, Event, Note,
    OpportunisticContainersStatus, PauseEnd, QueuedContainer, Refusal,
};
use crate::config::ContainerSchedulerConfig;
use crate::container::Container;
use crate::container_state::{ContainerState, Step};
use crate::diagnostics::Stamp;
use crate::index::Index;
use crate::run_times::RunTimes;
use crate::status;
use crate::timers::{Timer, Timers};
use crate::utilization::Amount;

use self::room::Change;
use self::waits::TYPICAL_ASK_AT_FIRST;

/// Decides which containers run. See the crate's documentation for how to drive it.
///
/// It holds at most [`crate::CONTAINERS_MAX`] containers and one timer for each. An event costs a few look-ups in
/// ordered maps, whatever waits; only ending an application, shedding and evicting cost more, by as many containers as
/// they end.
#[derive(Clone, Debug)]
pub struct ContainerScheduler {
    config: ContainerSchedulerConfig,
    node: Resource,
    containers: BTreeMap<ContainerId, Container>,
    index: Index,
    timers: Timers,
    queuing_limit: Option<ContainerQueuingLimit>,
    run_times: RunTimes,
    /// What the next opportunistic container is expected to ask for.
    typical_ask: Resource,
    /// Milliseconds that one more would wait, as of the last estimate.
    estimated_wait_ms: Option<u64>,
    utc_offset_s: i32,
    /// The next place in a queue or in the order of starts.
    next_place: u64,
    /// Events taken so far, to sample the costly checks of debug builds.
    events: u64,
}

/// One event being handled: its time, and where its actions go.
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
    /// A scheduler that knows no container, for a node that offers `node`.
    #[must_use]
    pub fn new(config: ContainerSchedulerConfig, node: Resource) -> Self {
        let mut scheduler = Self {
            config,
            node,
            containers: BTreeMap::new(),
            index: Index::new(config.vmem_check),
            timers: Timers::default(),
            queuing_limit: None,
            run_times: RunTimes::default(),
            typical_ask: TYPICAL_ASK_AT_FIRST,
            estimated_wait_ms: None,
            utc_offset_s: config.utc_offset_s,
            next_place: 0,
            events: 0,
        };
        scheduler.estimate_waits(MonoMillis(0));
        scheduler
    }

    /// Takes an event and appends what must be done, in the order in which it must be done.
    ///
    /// # Errors
    /// A [`Refusal`] when the event does not fit what is known. Then nothing has changed and nothing is appended.
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
            Event::Kill { id, reason } => self.kill_one(id, reason, turn),
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
            }
        }
    }
}

/// What others may see.
impl ContainerScheduler {
    /// When to call again with [`Event::Tick`]; `None`: only an event can change anything.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonoMillis> {
        self.timers.next()
    }

    /// One container, as long as it is not forgotten.
    #[must_use]
    pub fn container(&self, id: &ContainerId) -> Option<ContainerView> {
        self.containers.get(id).map(Container::view)
    }

    /// All known containers in the order of their ids, finished ones too.
    pub fn containers(&self) -> impl Iterator<Item = ContainerView> + '_ {
        self.containers.values().map(Container::view)
    }

    /// One container without its diagnostics, as long as it is not forgotten.
    #[must_use]
    pub fn summary(&self, id: &ContainerId) -> Option<ContainerSummary> {
        self.containers.get(id).map(Container::summary)
    }

    /// All that hold room, in the order of their ids: their launch is ordered, they run, or they are being ended or
    /// frozen. A walk over all known containers.
    pub fn holding_room(&self) -> impl Iterator<Item = ContainerSummary> + '_ {
        self.containers
            .values()
            .filter(|container| container.state.holds_room())
            .map(Container::summary)
    }

    /// How many containers of a type hold room, without a walk.
    #[must_use]
    pub fn holding_room_count(&self, execution_type: ExecutionType) -> usize {
        let utilization = self.index.utilization();
        match execution_type {
            ExecutionType::Guaranteed => utilization.guaranteed_count,
            ExecutionType::Opportunistic => utilization.opportunistic_count,
        }
    }

    /// How many containers are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.containers.len()
    }

    /// Whether no container is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// All that wait, in the order in which they would start: guaranteed ones first; of each type frozen ones first, then
    /// first come first served.
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

    /// How many containers of a type wait, frozen ones included.
    #[must_use]
    pub fn queue_length(&self, execution_type: ExecutionType) -> usize {
        self.index.queue(execution_type).len()
    }

    /// How many containers are frozen.
    #[must_use]
    pub fn paused_count(&self) -> usize {
        self.index.guaranteed().paused_len() + self.index.opportunistic().paused_len()
    }

    /// Mebibytes that frozen containers hold.
    #[must_use]
    pub fn frozen_memory_mb(&self) -> u64 {
        u64::try_from(self.index.frozen_mb()).unwrap_or(u64::MAX)
    }

    /// What the ResourceManager is told about opportunistic containers. Its estimate of a wait is as old as the last
    /// [`Event::EstimateWaits`].
    #[must_use]
    pub fn opportunistic_status(&self) -> OpportunisticContainersStatus {
        status::opportunistic_status(&self.config, &self.index, self.estimated_wait_ms)
    }

    /// What the containers that hold room were given. More than the node offers when guaranteed containers are forced
    /// on it, when the node shrank, or when a running container grew.
    #[must_use]
    pub fn allocated(&self) -> Resource {
        self.index.allocated().to_resource()
    }

    /// What the node offers.
    #[must_use]
    pub fn node_resource(&self) -> Resource {
        self.node
    }

    /// The limit that the ResourceManager published last.
    #[must_use]
    pub fn queuing_limit(&self) -> Option<ContainerQueuingLimit> {
        self.queuing_limit
    }
}

/// What the parts of the implementation share.
impl ContainerScheduler {
    fn known(&self, id: ContainerId) -> Result<&Container, Refusal> {
        self.containers
            .get(&id)
            .ok_or(Refusal::UnknownContainer(id))
    }

    fn node_amount(&self) -> Amount {
        Amount::new(self.node, self.config.vmem_check)
    }

    fn take_place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place
    }

    /// Changes a container's type, size or state. The only way to do so: it keeps the index true.
    fn modify(&mut self, id: ContainerId, change: impl FnOnce(&mut Container)) {
        let container = self
            .containers
            .get_mut(&id)
            .expect("containers are looked up before they change");
        self.index.remove(&container.spec, container.state);
        change(container);
        self.index.insert(&container.spec, container.state);
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

    /// Adds a piece to what is said of a container.
    fn say(&mut self, id: ContainerId, piece: &str, now: Now) {
        let stamp = Stamp {
            wall: now.wall,
            utc_offset_s: self.utc_offset_s,
            max_chars: self.config.diagnostics_max_chars,
        };
        if let Some(container) = self.containers.get_mut(&id) {
            container.diagnostics.push(piece, stamp);
        }
    }

    /// Sets what is reported as exit status. Nothing in the index depends on it.
    fn set_exit_status(&mut self, id: ContainerId, exit_status: ContainerExitStatus) {
        if let Some(container) = self.containers.get_mut(&id) {
            container.exit_status = exit_status;
        }
    }

    fn state(&self, id: ContainerId) -> Option<ContainerState> {
        self.containers.get(&id).map(|container| container.state)
    }
}
