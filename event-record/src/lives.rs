//! How long each container took for each step of its life, as far as a record tells.

use std::collections::BTreeMap;

use records::{ApplicationId, ContainerExitStatus, ContainerId, MonoMillis};
use sched::{Action, ContainerScheduler, ContainerState, Event, SnapshotError};

use crate::form::{Begin, Input, Step};

/// Most containers of a record: each takes some 300 bytes here.
pub const CONTAINERS_MAX: usize = 1_000_000;

/// Run time of a container when the record has the end of none, in milliseconds: the scheduler's
/// own assumption.
const ASSUMED_RUN_MS: u64 = 60_000;

/// Ends of one application's containers from which its typical run time is taken.
const SAMPLES_MIN: usize = 3;

/// Life of a container. `None`: the record does not tell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    pub(crate) localize_ms: Option<u64>,
    pub(crate) localization_failed: bool,
    pub(crate) launch_ms: Option<u64>,
    pub(crate) launch_failed: Option<ContainerExitStatus>,
    /// Time with a process that was neither frozen nor being ended; for a container that did not
    /// end by itself it would have gone on.
    pub(crate) ran_ms: u64,
    /// Exit status of a container that ended by itself.
    pub(crate) ended: Option<ContainerExitStatus>,
    pub(crate) kill_ms: Option<u64>,
    pub(crate) pause_ms: Option<u64>,
    pub(crate) held_mb: Option<u64>,
    pub(crate) resume_ms: Option<u64>,
    /// Time of the last order that is not answered.
    ordered: Option<MonoMillis>,
    /// Time from which it runs.
    runs_since: Option<MonoMillis>,
    /// Time at which its end was ordered.
    killed: Option<MonoMillis>,
}

impl Life {
    fn answered(&mut self, at: MonoMillis) -> Option<u64> {
        self.ordered.take().map(|ordered| at.since(ordered))
    }

    fn stop(&mut self, at: MonoMillis) {
        if let Some(since) = self.runs_since.take() {
            self.ran_ms = self.ran_ms.saturating_add(at.since(since));
        }
    }
}

/// Lives of a record's containers.
#[derive(Debug, Default)]
pub struct Lives {
    of: BTreeMap<ContainerId, Life>,
    typical: Typical,
}

/// Medians, for what the record does not tell of a container.
#[derive(Debug, Default)]
struct Typical {
    localize_ms: u64,
    launch_ms: u64,
    kill_ms: u64,
    pause_ms: u64,
    resume_ms: u64,
    run_ms: Option<u64>,
    run_ms_of: BTreeMap<ApplicationId, u64>,
}

impl Lives {
    /// Takes the containers into account that are there at the begin of a file.
    ///
    /// # Errors
    /// [`SnapshotError`]: no scheduler has this state.
    pub fn begin(&mut self, begin: &Begin) -> Result<(), SnapshotError> {
        let at = begin.at.mono;
        for view in ContainerScheduler::from_snapshot(&begin.scheduler)?.containers() {
            let life = self.of.entry(view.spec.id).or_default();
            if matches!(view.state, ContainerState::Running { .. }) && life.runs_since.is_none() {
                life.ran_ms = view.ran_before_ms.saturating_add(at.since(view.since));
                life.runs_since = Some(at);
            }
        }
        Ok(())
    }

    /// Takes a step into account. Returns false if it has more containers than are read.
    #[must_use]
    pub fn step(&mut self, step: &Step) -> bool {
        if step.refused {
            return true;
        }
        let at = step.at.mono;
        if let Input::Event(event) = &step.input {
            self.answer(event, at);
        }
        for action in &step.actions {
            self.order(action, at);
        }
        self.of.len() <= CONTAINERS_MAX
    }

    fn answer(&mut self, event: &Event, at: MonoMillis) {
        let Some(id) = event.answering() else {
            return;
        };
        let life = self.of.entry(id).or_default();
        match event {
            Event::Localized(_) => life.localize_ms = life.answered(at),
            Event::LocalizationFailed { .. } => {
                life.localize_ms = life.answered(at);
                life.localization_failed = true;
            }
            Event::Launched(_) => {
                life.launch_ms = life.answered(at);
                life.runs_since = Some(at);
            }
            Event::LaunchFailed { status, .. } if life.killed.is_none() => {
                life.launch_ms = life.answered(at);
                life.launch_failed = Some(*status);
            }
            Event::ProcessesGone(_) | Event::Exited { .. } => {
                life.stop(at);
                if let Some(killed) = life.killed {
                    life.kill_ms.get_or_insert(at.since(killed));
                } else if let Event::Exited { status, .. } = event {
                    life.ended = Some(*status);
                }
            }
            Event::Paused { held_mb, .. } => {
                life.pause_ms = life.answered(at);
                life.held_mb = *held_mb;
            }
            Event::Resumed(_) => {
                life.resume_ms = life.answered(at);
                life.runs_since = Some(at);
            }
            // A failed launch of one that is being killed says nothing, nor does the rest: it
            // follows at once, or comes from outside.
            Event::LaunchFailed { .. }
            | Event::FrozenMemory { .. }
            | Event::PauseFailed(_)
            | Event::CleanedUp(_)
            | Event::Start(_)
            | Event::RetryPolicy { .. }
            | Event::RunProfile { .. }
            | Event::CanRollBack { .. }
            | Event::Restart(_)
            | Event::Kill { .. }
            | Event::KillApplication { .. }
            | Event::Update(_)
            | Event::NodeResource(_)
            | Event::QueuingLimit(_)
            | Event::Drain(_)
            | Event::Settings(_)
            | Event::EstimateWaits
            | Event::Forget(_)
            | Event::Annotate { .. }
            | Event::UtcOffset { .. }
            | Event::Tick => {}
        }
    }

    fn order(&mut self, action: &Action, at: MonoMillis) {
        match action {
            Action::Localize(id) | Action::Launch(id) | Action::Resume(id) => {
                self.of.entry(*id).or_default().ordered = Some(at);
            }
            Action::Pause(id) => {
                let life = self.of.entry(*id).or_default();
                life.stop(at);
                life.ordered = Some(at);
            }
            Action::Terminate(id) | Action::ForceKill(id) => {
                let life = self.of.entry(*id).or_default();
                life.stop(at);
                life.killed.get_or_insert(at);
            }
            Action::RollBack(_)
            | Action::ApplyLimits(_)
            | Action::CleanUp(_)
            | Action::Completed(_)
            | Action::Note(_) => {}
        }
    }

    /// Ends the record at its last time: what is typical is known now.
    pub fn end(&mut self, at: MonoMillis) {
        for life in self.of.values_mut() {
            life.stop(at);
        }
        let median_of = |value: fn(&Life) -> Option<u64>| {
            median(self.of.values().filter_map(value).collect()).unwrap_or(0)
        };
        let mut by_application: BTreeMap<ApplicationId, Vec<u64>> = BTreeMap::new();
        let ended = self.of.iter().filter(|(_, life)| life.ended.is_some());
        for (id, life) in ended {
            by_application
                .entry(id.application_id())
                .or_default()
                .push(life.ran_ms);
        }
        let all = by_application.values().flatten().copied().collect();
        let enough = by_application
            .into_iter()
            .filter(|(_, ran)| ran.len() >= SAMPLES_MIN);
        let typical = Typical {
            localize_ms: median_of(|life| life.localize_ms),
            launch_ms: median_of(|life| life.launch_ms),
            kill_ms: median_of(|life| life.kill_ms),
            pause_ms: median_of(|life| life.pause_ms),
            resume_ms: median_of(|life| life.resume_ms),
            run_ms: median(all),
            run_ms_of: enough
                .filter_map(|(id, ran)| Some((id, median(ran)?)))
                .collect(),
        };
        self.typical = typical;
    }

    /// Returns the life of a container with what is typical where the record does not tell, and
    /// whether its run time is such.
    pub(crate) fn of(&self, id: ContainerId) -> (Known, bool) {
        let life = self.of.get(&id).copied().unwrap_or_default();
        let typical = &self.typical;
        let of_application = typical.run_ms_of.get(&id.application_id()).copied();
        let assumed = of_application.or(typical.run_ms).unwrap_or(ASSUMED_RUN_MS);
        let is_assumed = life.ended.is_none();
        let work_ms = if is_assumed {
            assumed.max(life.ran_ms)
        } else {
            life.ran_ms
        };
        let known = Known {
            life,
            localize_ms: life.localize_ms.unwrap_or(typical.localize_ms),
            launch_ms: life.launch_ms.unwrap_or(typical.launch_ms),
            kill_ms: life.kill_ms.unwrap_or(typical.kill_ms),
            pause_ms: life.pause_ms.unwrap_or(typical.pause_ms),
            resume_ms: life.resume_ms.unwrap_or(typical.resume_ms),
            work_ms,
        };
        (known, is_assumed)
    }
}

/// Life of a container as a model lives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) life: Life,
    pub(crate) localize_ms: u64,
    pub(crate) launch_ms: u64,
    pub(crate) kill_ms: u64,
    pub(crate) pause_ms: u64,
    pub(crate) resume_ms: u64,
    /// Time that its process takes.
    pub(crate) work_ms: u64,
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied()
}
