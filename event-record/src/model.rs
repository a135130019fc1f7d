//! The starts and orders of a record, with other settings: what their scheduler would have done.
//!
//! What comes from outside (starts, kills, limits, heartbeats) comes when it came. What answers the
//! scheduler's orders is modelled: each container takes as long for each step as it took in the
//! record, or as others took where it did not come so far. Not modelled are retries and restarts,
//! which count as one run, and ApplicationMasters and a ResourceManager that would have asked for
//! other containers.

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerExitStatus, ContainerId, EpochMillis, MonoMillis, Now};
use sched::{
    Action, ContainerQueuingLimit, ContainerScheduler, ContainerState, Event, QueueOrder,
    RuntimeSettings, SnapshotError,
};

use crate::fates::Fates;
use crate::form::{Begin, Input, Step};
use crate::lives::{Known, Lives};

/// Settings in place of the recorded ones. `None`: as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtherSettings {
    /// Opportunistic containers that may wait on the node.
    pub queue_length_max: Option<usize>,
    /// Order of the waiting opportunistic containers.
    pub queue_order: Option<QueueOrder>,
    /// Whether victims are frozen instead of killed.
    pub freeze_victims: Option<bool>,
    /// Milliseconds that a container may stay frozen.
    pub pause_max_ms: Option<u64>,
    /// Queue length that the ResourceManager allows.
    pub limit_length: Option<usize>,
}

impl OtherSettings {
    fn runtime(&self, recorded: RuntimeSettings) -> RuntimeSettings {
        RuntimeSettings {
            queue_length_max: self.queue_length_max.unwrap_or(recorded.queue_length_max),
            queue_order: self.queue_order.unwrap_or(recorded.queue_order),
            pause_max_ms: self.pause_max_ms.unwrap_or(recorded.pause_max_ms),
            ..recorded
        }
    }

    fn limit(&self, recorded: ContainerQueuingLimit) -> ContainerQueuingLimit {
        ContainerQueuingLimit {
            max_queue_length: self.limit_length.or(recorded.max_queue_length),
            ..recorded
        }
    }
}

/// Key of an answer that is due: its time in milliseconds, and a number.
type Due = (u64, u64);

/// A process, as far as the model has it.
#[derive(Debug, Default)]
struct Process {
    exists: bool,
    is_being_ended: bool,
    /// Time from which it runs; `None`: it is frozen, being frozen, or does not exist.
    runs_since: Option<MonoMillis>,
    ran_ms: u64,
    /// Answers that are due, the process's end among them.
    due: Vec<Due>,
}

/// A scheduler under other settings.
#[derive(Debug)]
pub struct Model<'a> {
    scheduler: ContainerScheduler,
    settings: OtherSettings,
    lives: &'a Lives,
    processes: BTreeMap<ContainerId, Process>,
    due: BTreeMap<Due, (ContainerId, Event)>,
    /// Last number of a [`Due`].
    number: u64,
    /// Distance from the monotonic to the wall clock.
    wall_offset_ms: i64,
    fates: Fates,
    assumed: BTreeSet<ContainerId>,
}

impl<'a> Model<'a> {
    /// Begins with the state of a record's first file.
    ///
    /// # Errors
    /// [`SnapshotError`]: no scheduler has this state.
    pub fn new(
        begin: &Begin,
        lives: &'a Lives,
        settings: OtherSettings,
    ) -> Result<Self, SnapshotError> {
        let mut snapshot = begin.scheduler.clone();
        snapshot.forget_retries();
        if let Some(freeze) = settings.freeze_victims {
            snapshot.set_use_pause(freeze);
        }
        let runtime = settings.runtime(snapshot.config().runtime_settings());
        let scheduler = ContainerScheduler::from_snapshot(&snapshot)?;
        let mono = i64::try_from(begin.at.mono.0).unwrap_or(i64::MAX);
        let mut model = Self {
            scheduler,
            settings,
            lives,
            processes: BTreeMap::new(),
            due: BTreeMap::new(),
            number: 0,
            wall_offset_ms: begin.at.wall.0.saturating_sub(mono),
            fates: Fates::default(),
            assumed: BTreeSet::new(),
        };
        model.take_over(begin.at.mono);
        model.feed(Event::Settings(runtime), begin.at.mono);
        let recorded = model.scheduler.queuing_limit();
        let limit = settings.limit(recorded.unwrap_or(ContainerQueuingLimit {
            max_queue_length: None,
            max_queue_wait_time_ms: None,
        }));
        if recorded != Some(limit) && (recorded.is_some() || settings.limit_length.is_some()) {
            model.feed(Event::QueuingLimit(limit), begin.at.mono);
        }
        Ok(model)
    }

    /// Makes the answers due that the containers at the begin wait for.
    fn take_over(&mut self, at: MonoMillis) {
        let views: Vec<_> = self.scheduler.containers().collect();
        for view in views {
            let id = view.spec.id;
            let (known, _) = self.lives.of(id);
            let exists = !matches!(
                view.state,
                ContainerState::Localizing | ContainerState::Queued { .. }
            );
            let process = self.processes.entry(id).or_default();
            process.exists = exists;
            process.ran_ms = view.ran_before_ms;
            match view.state {
                ContainerState::Localizing => self.order(&Action::Localize(id), at),
                ContainerState::Launching { .. } => {
                    process.exists = false;
                    self.order(&Action::Launch(id), at);
                }
                ContainerState::Running { .. } => {
                    let so_far = at.since(view.since);
                    process.ran_ms = process.ran_ms.saturating_add(so_far);
                    self.run(id, &known, at);
                }
                ContainerState::Pausing => self.order(&Action::Pause(id), at),
                ContainerState::Resuming { .. } => self.order(&Action::Resume(id), at),
                ContainerState::Restarting
                | ContainerState::Killing { .. }
                | ContainerState::Gone { .. } => self.order(&Action::Terminate(id), at),
                ContainerState::Relaunching { .. } => process.exists = false,
                ContainerState::Completing(_) => self.order(&Action::CleanUp(id), at),
                ContainerState::Queued { .. }
                | ContainerState::Paused { .. }
                | ContainerState::Done(_) => {}
            }
        }
    }

    /// Plays what is due until a recorded step, and the step, if it comes from outside.
    pub fn step(&mut self, step: &Step) {
        self.advance(step.at.mono);
        match &step.input {
            Input::Event(event) if event.answering().is_some() => {}
            Input::Event(Event::Settings(recorded)) => {
                let runtime = self.settings.runtime(*recorded);
                self.feed(Event::Settings(runtime), step.at.mono);
            }
            Input::Event(Event::QueuingLimit(recorded)) => {
                let limit = self.settings.limit(*recorded);
                self.feed(Event::QueuingLimit(limit), step.at.mono);
            }
            Input::Event(
                Event::RetryPolicy { .. }
                | Event::CanRollBack { .. }
                | Event::Restart(_)
                | Event::Annotate { .. }
                | Event::Tick,
            ) => {}
            Input::Event(event) => self.feed(event.clone(), step.at.mono),
            Input::Withhold { .. } | Input::GiveBack(_) => {
                let actions = step.input.clone().play(&mut self.scheduler, step.at);
                self.perform(actions.unwrap_or_default(), step.at.mono);
            }
        }
    }

    /// Ends the play. Returns what became of the containers, and of how many the run time is
    /// assumed.
    #[must_use]
    pub fn end(self) -> (Fates, usize) {
        (self.fates, self.assumed.len())
    }

    fn advance(&mut self, until: MonoMillis) {
        loop {
            let answer = self.due.keys().next().copied();
            let answer = answer.filter(|(at, _)| *at <= until.0);
            let tick = self.scheduler.next_deadline().filter(|at| *at <= until);
            match (answer, tick) {
                (None, None) => return,
                (Some(key), tick) if tick.is_none_or(|tick| key.0 < tick.0) => {
                    let Some((id, event)) = self.due.remove(&key) else {
                        return;
                    };
                    self.answer(id, event, key);
                }
                (_, Some(tick)) => self.feed(Event::Tick, tick),
                (Some(_), None) => return,
            }
        }
    }

    /// Hands an answer to the scheduler.
    fn answer(&mut self, id: ContainerId, event: Event, key: Due) {
        let at = MonoMillis(key.0);
        let process = self.processes.entry(id).or_default();
        process.due.retain(|due| *due != key);
        if matches!(event, Event::Launched(_)) {
            process.exists = true;
        } else if matches!(event, Event::Exited { .. } | Event::LaunchFailed { .. }) {
            process.exists = false;
        }
        let runs =
            matches!(event, Event::Launched(_) | Event::Resumed(_)) && process.due.is_empty();
        self.feed(event, at);
        // The scheduler may have ordered its end or its pause with this very answer.
        let is_running = matches!(
            self.scheduler.summary(&id).map(|summary| summary.state),
            Some(ContainerState::Running { .. })
        );
        if runs && is_running {
            let (known, _) = self.lives.of(id);
            self.run(id, &known, at);
        }
    }

    fn run(&mut self, id: ContainerId, known: &Known, at: MonoMillis) {
        let process = self.processes.entry(id).or_default();
        process.runs_since = Some(at);
        let left_ms = known.work_ms.saturating_sub(process.ran_ms);
        let status = known.life.ended.unwrap_or(ContainerExitStatus::SUCCESS);
        self.later(id, at + left_ms, exited(id, status));
    }

    fn feed(&mut self, event: Event, at: MonoMillis) {
        let mut actions = Vec::new();
        // What came too late for the containers that are there is refused, and changes nothing.
        let _refused = self.scheduler.handle(event, self.now(at), &mut actions);
        self.perform(actions, at);
    }

    fn now(&self, at: MonoMillis) -> Now {
        let mono = i64::try_from(at.0).unwrap_or(i64::MAX);
        let wall = EpochMillis(mono.saturating_add(self.wall_offset_ms));
        Now { mono: at, wall }
    }

    fn perform(&mut self, actions: Vec<Action>, at: MonoMillis) {
        for action in actions {
            self.fates.observe(&action);
            self.order(&action, at);
        }
    }

    fn order(&mut self, action: &Action, at: MonoMillis) {
        match action {
            Action::Localize(id) => {
                let (known, _) = self.lives.of(*id);
                let (id, diagnostics) = (*id, String::new());
                let event = if known.life.localization_failed {
                    Event::LocalizationFailed { id, diagnostics }
                } else {
                    Event::Localized(id)
                };
                self.later(id, at + known.localize_ms, event);
            }
            Action::Launch(id) => self.launch(*id, at),
            Action::Pause(id) => {
                let (known, _) = self.lives.of(*id);
                self.stop(*id, at);
                let (id, held_mb) = (*id, known.life.held_mb);
                self.later(id, at + known.pause_ms, Event::Paused { id, held_mb });
            }
            Action::Resume(id) => {
                let (known, _) = self.lives.of(*id);
                self.later(*id, at + known.resume_ms, Event::Resumed(*id));
            }
            Action::Terminate(id) | Action::ForceKill(id) => self.end_process(*id, at),
            Action::CleanUp(id) => {
                self.cancel(*id);
                self.later(*id, at, Event::CleanedUp(*id));
            }
            Action::RollBack(_)
            | Action::ApplyLimits(_)
            | Action::Completed(_)
            | Action::Note(_) => {}
        }
    }

    fn launch(&mut self, id: ContainerId, at: MonoMillis) {
        let (known, is_assumed) = self.lives.of(id);
        let process = self.processes.entry(id).or_default();
        process.is_being_ended = false;
        let event = match known.life.launch_failed {
            Some(status) => Event::LaunchFailed {
                id,
                status,
                diagnostics: String::new(),
            },
            None => Event::Launched(id),
        };
        if is_assumed {
            self.assumed.insert(id);
        }
        self.later(id, at + known.launch_ms, event);
    }

    fn end_process(&mut self, id: ContainerId, at: MonoMillis) {
        let (known, _) = self.lives.of(id);
        self.stop(id, at);
        let process = self.processes.entry(id).or_default();
        if std::mem::replace(&mut process.is_being_ended, true) {
            return;
        }
        let exists = process.exists;
        self.cancel(id);
        let status = ContainerExitStatus::TERMINATED;
        let event = if exists {
            exited(id, status)
        } else {
            Event::LaunchFailed {
                id,
                status,
                diagnostics: String::new(),
            }
        };
        self.later(id, at + known.kill_ms, event);
    }

    /// Stops the clock of a process that runs, whose end is no longer due.
    fn stop(&mut self, id: ContainerId, at: MonoMillis) {
        let process = self.processes.entry(id).or_default();
        if let Some(since) = process.runs_since.take() {
            process.ran_ms = process.ran_ms.saturating_add(at.since(since));
            self.cancel(id);
        }
    }

    fn cancel(&mut self, id: ContainerId) {
        let process = self.processes.entry(id).or_default();
        for key in process.due.drain(..) {
            self.due.remove(&key);
        }
    }

    /// Makes an answer due, after all that are due for the container: answers come in the order of
    /// the orders.
    fn later(&mut self, id: ContainerId, at: MonoMillis, event: Event) {
        let process = self.processes.entry(id).or_default();
        let last = process.due.iter().map(|(at, _)| *at).max();
        self.number += 1;
        let key = (at.0.max(last.unwrap_or(0)), self.number);
        process.due.push(key);
        self.due.insert(key, (id, event));
    }
}

fn exited(id: ContainerId, status: ContainerExitStatus) -> Event {
    Event::Exited {
        id,
        status,
        diagnostics: String::new(),
    }
}
