//! Works of an earlier agent after a crash: they go on step by step. [`crate::recovery::judge`]
//! decides which; this module keeps the effects that wait, and drops those that never come.
//!
//! Effects of works that are held are kept back on their way out. An order that ends a container
//! lets its held effects go first, since the order's answer follows from theirs.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use container_runtime::launch::LaunchEvent;
use log_aggregation::Outcome;
use log_aggregation::upload::UploadError;
use records::{ApplicationId, ContainerExitStatus, ContainerId, ContainerName, MonoMillis, Now};
use sched::ContainerState;

use super::{Core, Effect, LogOrder, StoreOrder};
use crate::WorkerEvent;
use crate::applications::ApplicationState;
use crate::recovery::{Judgement, Suspects, Work};

/// Pause after a work has gone well, or begun to wait for others, in milliseconds. What a work
/// has broken shows within it, and its record is committed.
const LOOK_MS: u64 = 1_000;

/// Longest time for which others wait for one work, in milliseconds. A long download is no fault.
const TRIAL_MS_MAX: u64 = 10_000;

/// Works of an earlier agent, as long as not all have gone on.
#[derive(Debug, Default)]
pub(super) struct Careful {
    suspects: Suspects,
    /// Effects of the works that are held, in their order.
    held: BTreeMap<Work, Vec<Effect>>,
    /// Time at which the next works begin, whatever has become of those before.
    trial_ends: MonoMillis,
    next_look: Option<MonoMillis>,
}

impl Careful {
    /// Keeps back the effects of works that are held; returns the others, in their order.
    fn pass(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        if self.held.is_empty() {
            return effects;
        }
        let mut passed = Vec::with_capacity(effects.len());
        for effect in effects {
            match Role::of(&effect) {
                Role::Of(work) => {
                    if let Some(held) = self.held.get_mut(&work) {
                        held.push(effect);
                        continue;
                    }
                }
                Role::Behind(name) => {
                    let mut works = works_of(name).into_iter();
                    let work = works.find(|work| self.held.contains_key(work));
                    if let Some(held) = work.and_then(|work| self.held.get_mut(&work)) {
                        held.push(effect);
                        continue;
                    }
                }
                Role::After(id) => self.release(id, true, &mut passed),
                Role::Without(id) => self.release(id, false, &mut passed),
                Role::Free => {}
            }
            passed.push(effect);
        }
        passed
    }

    /// Holds a container's works no longer. Their effects go first or, if they are not wanted,
    /// never.
    fn release(&mut self, id: ContainerId, are_wanted: bool, passed: &mut Vec<Effect>) {
        for work in works_of(id.name()) {
            let Some(held) = self.held.remove(&work) else {
                continue;
            };
            if are_wanted {
                passed.extend(held);
                self.suspects.begun.insert(work);
            }
            self.suspects.held.remove(&work);
            passed.push(self.record());
        }
    }

    /// Begins the next works. Returns their effects.
    fn begin_next(&mut self, now: MonoMillis) -> Vec<Effect> {
        let next: Vec<Work> = if self.suspects.tried.is_some() {
            self.suspects.tried = self.suspects.held.pop_first();
            self.suspects.tried.into_iter().collect()
        } else {
            std::mem::take(&mut self.suspects.held)
                .into_iter()
                .collect()
        };
        self.trial_ends = now + TRIAL_MS_MAX;
        let effects = next.iter().filter_map(|work| self.held.remove(work));
        let effects: Vec<Effect> = effects.flatten().collect();
        self.suspects.begun.extend(next);
        effects
    }

    fn record(&self) -> Effect {
        let record = self.suspects.record();
        Effect::Store(StoreOrder::Suspects(record.map(Box::new)))
    }
}

impl Core {
    /// Takes the effects since the last call, in the order in which they must be performed.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        let effects = std::mem::take(&mut self.effects);
        let mut effects = self.careful.pass(effects);
        let entries = self.scheduler.take_entries();
        if !entries.is_empty() {
            effects.push(Effect::Record(entries));
        }
        effects
    }

    pub(super) const fn next_look_at_works(&self) -> Option<MonoMillis> {
        self.careful.next_look
    }

    /// Lets what an earlier agent has left go on as it was judged. All its effects are ordered.
    pub(super) fn go_on_with(&mut self, judgement: Judgement, now: Now) {
        let Judgement { failed, suspects } = judgement;
        let mut failure = None;
        let held = suspects.held.iter().map(|work| (*work, Vec::new()));
        self.careful.held = held.collect();
        self.effects.retain(|effect| {
            let fails = match Role::of(effect) {
                Role::Of(work) => failed == Some(work),
                Role::Behind(name) => failed.is_some_and(|failed| works_of(name).contains(&failed)),
                Role::After(_) | Role::Without(_) | Role::Free => false,
            };
            if fails && failure.is_none() {
                failure = failed.and_then(|work| failure_of(effect, &work));
            }
            !fails
        });
        let is_careful = suspects != Suspects::default();
        self.careful.next_look = is_careful.then_some(now.mono + LOOK_MS);
        self.careful.trial_ends = now.mono + TRIAL_MS_MAX;
        self.careful.suspects = suspects;
        if let Some(work) = failed {
            tracing::error!(%work, "was in progress at two crashes in a row, and fails");
            self.condition.recovery_notice().failed = Some(format!(
                "{work} failed, after two crashes in a row during it"
            ));
        }
        if let Some(event) = failure {
            self.handle(event, now, 0);
        }
        self.show_held();
    }

    /// Looks whether works have gone well, and begins those that waited for them.
    pub(super) fn look_at_works(&mut self, now: Now) {
        if self.careful.next_look.is_none_or(|at| at > now.mono) {
            return;
        }
        let before = self.careful.suspects.clone();
        let mut begun = std::mem::take(&mut self.careful.suspects.begun);
        begun.retain(|work| self.is_in_progress(work));
        let awaited = before
            .tried
            .map_or_else(|| !begun.is_empty(), |tried| self.is_in_progress(&tried));
        self.careful.suspects.begun = begun;
        if !awaited || self.careful.trial_ends <= now.mono {
            let effects = self.careful.begin_next(now.mono);
            self.effects.extend(effects);
        }
        let Suspects {
            begun, tried, held, ..
        } = &self.careful.suspects;
        let goes_on = !begun.is_empty() || tried.is_some() || !held.is_empty();
        self.careful.next_look = goes_on.then_some(now.mono + LOOK_MS);
        if self.careful.suspects != before {
            // Before the effects of the works that it names.
            self.effects.insert(0, self.careful.record());
            self.show_held();
        }
    }

    fn show_held(&mut self) {
        let held = self.careful.suspects.held.len();
        self.condition.recovery_notice().held = held;
    }

    /// Whether a work has begun and not ended. Adoptions have no end: they are over by the next
    /// look.
    fn is_in_progress(&self, work: &Work) -> bool {
        match work {
            Work::Adoption(_) => false,
            Work::Start(name) => name.ids().any(|id| self.is_starting(id)),
            Work::Upload(id) => self.applications.get(id).is_some_and(|application| {
                matches!(
                    application.state,
                    ApplicationState::Finished {
                        delete_logs_at: None
                    }
                )
            }),
        }
    }

    fn is_starting(&self, id: ContainerId) -> bool {
        let state = self.scheduler.summary(&id).map(|summary| summary.state);
        let container = self.containers.get(&id);
        match state {
            Some(ContainerState::Localizing | ContainerState::Launching { .. }) => true,
            Some(ContainerState::Queued { .. }) => {
                container.is_some_and(|own| own.setups.is_fetching())
            }
            _ => false,
        }
    }
}

/// How an effect stands to the works that are held.
enum Role {
    /// Belongs to a work.
    Of(Work),
    /// Follows the work of a container, which is an adoption or a start.
    Behind(ContainerName),
    /// An order about a container whose answer follows from the container's earlier effects.
    After(ContainerId),
    /// The container's earlier effects are not wanted any more.
    Without(ContainerId),
    /// Neither.
    Free,
}

impl Role {
    fn of(effect: &Effect) -> Self {
        match effect {
            Effect::Localize { id, .. } => Self::Of(Work::Start(id.name())),
            Effect::Launch(order) => Self::Of(Work::Start(order.spec.id.name())),
            Effect::Adopt(order) => Self::Of(Work::Adoption(order.spec.id.name())),
            Effect::ApplyLimits(spec) => Self::Behind(spec.id.name()),
            Effect::Link(order) => Self::Behind(order.id.name()),
            Effect::Logs(order) => {
                application_of(order).map_or(Self::Free, |id| Self::Of(Work::Upload(id)))
            }
            Effect::Pause(id)
            | Effect::Resume(id)
            | Effect::Terminate(id)
            | Effect::ForceKill(id)
            | Effect::Signal { id, .. } => Self::After(*id),
            Effect::ReleaseResources(id) | Effect::CleanUp { id, .. } => Self::Without(*id),
            Effect::ContainerInitialized(_)
            | Effect::ContainerStopped(_)
            | Effect::InitializeApplication { .. }
            | Effect::Tokens { .. }
            | Effect::ForgetTokens(_)
            | Effect::UseSets { .. }
            | Effect::SetNodeResource(_)
            | Effect::SetRmIdentifier(_)
            | Effect::SetQueuingLimit(_)
            | Effect::ForgetResources(_)
            | Effect::FinishApplication { .. }
            | Effect::EndPipelines(_)
            | Effect::DeleteLogs(_)
            | Effect::Store(_)
            | Effect::Reap { .. }
            | Effect::Record(_)
            | Effect::AllEnded
            | Effect::HeartbeatNow
            | Effect::Offer(_)
            | Effect::Observe(_) => Self::Free,
        }
    }
}

/// Returns the works that a container can have.
const fn works_of(name: ContainerName) -> [Work; 2] {
    [Work::Adoption(name), Work::Start(name)]
}

/// Returns the application that an upload is of; `None`: the order is of a container that runs.
fn application_of(order: &LogOrder) -> Option<ApplicationId> {
    match order {
        LogOrder::Begin(application) => Some(application.id),
        LogOrder::Finish(id) => Some(*id),
        LogOrder::ContainerStarted(..) | LogOrder::ContainerEnded(_) => None,
    }
}

/// Returns the event that tells the failure of the work which an effect would have begun. Adoptions
/// have failed before: their processes are ended like leftovers.
fn failure_of(effect: &Effect, work: &Work) -> Option<WorkerEvent> {
    let diagnostics = work.failure();
    if let Effect::Localize { id, purpose, .. } = effect {
        Some(WorkerEvent::LocalizationFailed {
            id: *id,
            purpose: *purpose,
            took: Duration::ZERO,
            diagnostics,
        })
    } else if let Effect::Launch(order) = effect {
        Some(WorkerEvent::Launch(LaunchEvent::LaunchFailed {
            id: order.spec.id,
            status: ContainerExitStatus::LAUNCH_FAILED,
            diagnostics,
            is_of_node: false,
        }))
    } else if let Effect::Logs(order) = effect {
        Some(WorkerEvent::LogsUploaded(Outcome {
            application: application_of(order)?,
            result: Err(UploadError::not_begun(io::Error::other(diagnostics))),
            is_last: true,
        }))
    } else {
        None
    }
}
