//! What the core has stored, so that the next agent can go on: after each event, the records of the
//! containers that it concerned are compared with those stored last, and written if they differ.
//! So no transition of the scheduler needs to know of records.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use keeper::ProcessIdentity;
use launch_context::LaunchContext;
use localize::{ContainerDirs, UserName};
use records::{ApplicationId, ContainerId, Now};
use sched::{Action, ContainerState, ContainerView, Event, GrantedRetries, KillReason};

use super::{ContainerRecord, Core, Effect};
use crate::applications::ApplicationState;
use crate::order::StoreOrder;
use crate::recovery::{
    AclRecord, ApplicationRecord, ApplicationStage, ContextRecord, Ending, RecordClock,
    ServiceDataRecord, Stage, StartRecord, StateRecord,
};

/// Content of a container's record, and facts that only a record needs.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// State stored last.
    pub(super) stored: Option<StateRecord>,
    /// Identifier of the token that updated it last.
    pub(super) token: Option<Vec<u8>>,
    /// Numbers of the launch contexts that are stored.
    pub(super) contexts: BTreeSet<u64>,
    /// Set when an earlier agent accepted the container.
    pub(super) is_restored: bool,
    /// Process of the last launch.
    pub(super) process: Option<ProcessIdentity>,
}

/// Returns the container that an event concerns.
pub(super) fn subject_of_event(event: &Event) -> Option<ContainerId> {
    match event {
        Event::Start(spec) | Event::Update(spec) => Some(spec.id),
        Event::RetryPolicy { id, .. }
        | Event::CanRollBack { id, .. }
        | Event::Restart(id)
        | Event::Localized(id)
        | Event::LocalizationFailed { id, .. }
        | Event::Launched(id)
        | Event::LaunchFailed { id, .. }
        | Event::ProcessesGone(id)
        | Event::Exited { id, .. }
        | Event::Paused { id, .. }
        | Event::FrozenMemory { id, .. }
        | Event::Resumed(id)
        | Event::PauseFailed(id)
        | Event::CleanedUp(id)
        | Event::Kill { id, .. }
        | Event::Annotate { id, .. } => Some(*id),
        Event::KillApplication { .. }
        | Event::NodeResource(_)
        | Event::QueuingLimit(_)
        | Event::Drain(_)
        | Event::Settings(_)
        | Event::EstimateWaits
        | Event::Forget(_)
        | Event::UtcOffset { .. }
        | Event::Tick => None,
    }
}

/// Returns the container that an action concerns. Each change of a container's state that its
/// event does not name comes with one of these.
pub(super) fn subject_of_action(action: &Action) -> Option<ContainerId> {
    match action {
        Action::Localize(id)
        | Action::Launch(id)
        | Action::RollBack(id)
        | Action::Pause(id)
        | Action::Resume(id)
        | Action::Terminate(id)
        | Action::ForceKill(id)
        | Action::CleanUp(id) => Some(*id),
        Action::ApplyLimits(spec) => Some(spec.id),
        Action::Completed(completion) => Some(completion.id),
        Action::Note(_) => None,
    }
}

impl Core {
    fn store(&mut self, order: StoreOrder) {
        self.effects.push(Effect::Store(order));
    }

    /// Stores how a container was accepted.
    pub(super) fn remember_start(
        &mut self,
        id: ContainerId,
        start: Option<Box<StartRecord>>,
        now: Now,
    ) {
        let Some(mut start) = start.filter(|_| self.config.remembers) else {
            return;
        };
        self.arrivals += 1;
        start.arrival = self.arrivals;
        let clock = RecordClock::of_record(None, self.config.boot, now);
        start.accepted_at = clock.wall_of(now.mono);
        start.clock = Some(clock);
        self.store(StoreOrder::Start(id, start));
    }

    /// Stores the states of containers that differ from what is stored.
    pub(super) fn remember(&mut self, ids: impl IntoIterator<Item = ContainerId>, now: Now) {
        if !self.config.remembers {
            return;
        }
        for id in ids {
            let Some(view) = self.scheduler.container(&id) else {
                continue;
            };
            let Some(record) = self.containers.get_mut(&id) else {
                continue;
            };
            let retries = self.scheduler.granted_retries(&id).unwrap_or_default();
            let state = state_record(view, retries, record, (self.config.boot, now));
            let memory = &mut record.memory;
            let is_new = match &memory.stored {
                Some(stored) => *stored != state,
                None => state.stage() != Stage::Accepted,
            };
            if is_new {
                let unused = unused_contexts(memory, &state);
                memory.stored = Some(state.clone());
                let ended = state.ended();
                self.store(StoreOrder::State(id, Box::new(state)));
                if let Some(ended) = ended {
                    let pid = ended.pid();
                    self.effects.push(Effect::Reap { id, pid });
                }
                // After the record that no longer names them.
                for number in unused {
                    self.store(StoreOrder::Context(id, number, None));
                }
            }
        }
    }

    /// Stores the launch context of a re-initialization.
    pub(super) fn remember_reinit(
        &mut self,
        id: ContainerId,
        number: u64,
        context: Option<Box<ContextRecord>>,
    ) {
        if let Some(context) = context.filter(|_| self.config.remembers)
            && let Some(record) = self.containers.get_mut(&id)
        {
            record.memory.contexts.insert(number);
            self.store(StoreOrder::Context(id, number, Some(context)));
        }
    }

    /// Ends containers that a restart would not find.
    pub fn take_back(&mut self, ids: &[ContainerId], now: Now) {
        for id in ids {
            let reason = KillReason::ResourceManager;
            self.must_feed(Event::Kill { id: *id, reason }, now);
        }
    }

    /// Forgets a container that left the memory. Its token must not start another one.
    pub(super) fn forget_record(&mut self, id: ContainerId) {
        if self.config.remembers {
            let used_until = self.started.expiry(&id);
            self.store(StoreOrder::Forget(id, used_until));
        }
    }

    /// Forgets that tokens were used which have expired.
    pub(super) fn forget_uses(&mut self, now: Now) {
        if self.config.remembers {
            let expired = self.started.take_expired(now.wall);
            if !expired.is_empty() {
                self.store(StoreOrder::ForgetUses(expired));
            }
        }
    }

    /// Takes what an application's containers bring that outlives them.
    pub(super) fn remember_context(
        &mut self,
        id: ApplicationId,
        user: &UserName,
        log_context: Option<Vec<u8>>,
        context: &LaunchContext,
        now: Now,
    ) {
        if !self.config.remembers {
            return;
        }
        let mut is_new = !self.application_records.contains_key(&id);
        let record = self.application_records.entry(id).or_insert_with(|| {
            let acls = context.acls.iter().map(|(access, list)| AclRecord {
                modify: *access == log_aggregation::aggregated_log::AccessType::ModifyApp,
                list: list.clone(),
            });
            ApplicationRecord {
                user: user.to_string(),
                acls: acls.collect(),
                log_context,
                ..ApplicationRecord::default()
            }
        });
        for (service, data) in &context.service_data {
            let data = ServiceDataRecord {
                service: service.clone(),
                data: data.0.clone(),
            };
            if !record.service_data.contains(&data) {
                record.service_data.retain(|old| old.service != *service);
                record.service_data.push(data);
                is_new = true;
            }
        }
        if is_new {
            self.remember_application(id, now);
        }
    }

    /// Stores the state of an application, or that it is forgotten.
    pub(super) fn remember_application(&mut self, id: ApplicationId, now: Now) {
        if !self.config.remembers {
            return;
        }
        let Some(application) = self.applications.get(&id) else {
            self.application_records.remove(&id);
            self.store(StoreOrder::Application(id, None));
            return;
        };
        let (stage, delete_logs_at) = match application.state {
            ApplicationState::Running => (ApplicationStage::Running, None),
            // Also while its logs are uploaded: the next agent uploads them.
            ApplicationState::Finishing
            | ApplicationState::Finished {
                delete_logs_at: None,
            } => (ApplicationStage::Finishing, None),
            ApplicationState::Finished { delete_logs_at } => {
                (ApplicationStage::Finished, delete_logs_at)
            }
        };
        let record = self.application_records.entry(id).or_default();
        record.user = application.user.to_string();
        record.set_stage(stage);
        let clock = RecordClock::of_record(record.clock, self.config.boot, now);
        record.delete_logs_at = delete_logs_at.map(|at| clock.wall_of(at));
        record.clock = Some(clock);
        let record = Box::new(record.clone());
        self.store(StoreOrder::Application(id, Some(record)));
    }

    /// Keeps the token of an update, for the record of the container.
    pub(super) fn remember_update(&mut self, id: ContainerId, token: Vec<u8>, now: Now) {
        if self.config.remembers
            && let Some(record) = self.containers.get_mut(&id)
        {
            record.memory.token = Some(token);
            self.remember([id], now);
        }
    }
}

/// Takes the stored launch contexts that a state does not name.
fn unused_contexts(memory: &mut Memory, state: &StateRecord) -> Vec<u64> {
    if memory.contexts.is_empty() {
        return Vec::new();
    }
    let named = state.contexts();
    let unused = memory
        .contexts
        .extract_if(.., |number| !named.contains(number));
    unused.collect()
}

/// Returns a container's record as of now.
fn state_record(
    view: ContainerView,
    retries: GrantedRetries,
    record: &ContainerRecord,
    (boot, now): (u64, Now),
) -> StateRecord {
    let Memory {
        stored,
        token,
        process,
        ..
    } = &record.memory;
    let stage = match (view.state, stored) {
        // Taken over and not known to be frozen yet: its record stays as it is.
        (ContainerState::Pausing, Some(stored)) if stored.stage() == Stage::Paused => Stage::Paused,
        (state, _) => stage_of(state),
    };
    let same = stored.as_ref().filter(|stored| stored.stage() == stage);
    let (place, held_mb) = place_of(view.state, same);
    let stored_clock = stored.as_ref().and_then(|stored| stored.clock);
    let clock = RecordClock::of_record(stored_clock, boot, now);
    let has_process = matches!(stage, Stage::Running | Stage::Paused | Stage::Killing);
    // While it is launched again, the process of the launch before, which is over.
    let process = process.filter(|_| stage != Stage::Done);
    let mut state = StateRecord {
        stage: stage.into(),
        place,
        since: clock.wall_of(view.since),
        clock: Some(clock),
        token: token.clone(),
        pid: process.map_or(0, |process| process.pid),
        start_time: process.map_or(0, |process| process.start_time),
        exit_status: view.exit_status.0,
        diagnostics: view.diagnostics,
        held_mb,
        ..StateRecord::default()
    };
    if let ContainerState::Completing(ending) | ContainerState::Done(ending) = view.state {
        state.set_ending(ending_of(ending));
    }
    if stage != Stage::Done {
        set_retries(&mut state, retries, clock);
    }
    if stage != Stage::Done {
        record.set_setups(&mut state);
    }
    // The process of a launch may exist before it is known. Another launch context does not name
    // all resources of the container.
    if has_process || stage == Stage::Launching || state.context != 0 {
        set_resources(&mut state, record, stored.as_ref());
    }
    if has_process {
        set_folders(&mut state, &record.dirs);
    }
    state
}

/// Returns the place in the order of queue or starts and the mebibytes held while frozen. A state
/// without a place keeps that of the record of the same stage.
fn place_of(state: ContainerState, same: Option<&StateRecord>) -> (u64, u64) {
    let same_place = same.map_or(0, |stored| stored.place);
    match state {
        ContainerState::Queued { place } => (place.arrival(), 0),
        ContainerState::Paused { place, held_mb } => (place.arrival(), held_mb),
        ContainerState::Launching { order }
        | ContainerState::Running { order }
        | ContainerState::Resuming { order }
        | ContainerState::Relaunching { order } => (order, 0),
        ContainerState::Pausing => (same_place, same.map_or(0, |stored| stored.held_mb)),
        ContainerState::Localizing
        | ContainerState::Restarting
        | ContainerState::Killing { .. }
        | ContainerState::Gone { .. }
        | ContainerState::Completing(_)
        | ContainerState::Done(_) => (same_place, 0),
    }
}

fn set_retries(state: &mut StateRecord, retries: GrantedRetries, clock: RecordClock) {
    state.retries = retries.count;
    let times = retries.recent.into_iter();
    state.retried_at = times.map(|at| clock.wall_of(at)).collect();
}

fn set_resources(state: &mut StateRecord, record: &ContainerRecord, stored: Option<&StateRecord>) {
    for resource in &record.localized {
        if let Some(path) = resource.path.to_str() {
            state.resources.push(path.to_owned());
            state.links.push(resource.link.clone());
        }
    }
    // The list is dropped with the launch context, and older records did not name the links.
    let is_lost = |stored: &&StateRecord| {
        record.context.is_none() || stored.links.len() < stored.resources.len()
    };
    if let (true, Some(stored)) = (state.resources.is_empty(), stored.filter(is_lost)) {
        state.resources.clone_from(&stored.resources);
        state.links.clone_from(&stored.links);
    }
}

fn set_folders(state: &mut StateRecord, dirs: &Arc<OnceLock<ContainerDirs>>) {
    let text = |path: &std::path::Path| path.to_str().unwrap_or_default().to_owned();
    if let Some(dirs) = dirs.get() {
        state.work_dir = text(dirs.work_dir.path());
        state.log_dir = text(dirs.log_dir.path());
    }
}

/// Returns the stage that a record has for a state. A process that has ended is still to be
/// reported until its exit status is known.
fn stage_of(state: ContainerState) -> Stage {
    match state {
        ContainerState::Localizing => Stage::Accepted,
        ContainerState::Queued { .. } => Stage::Waiting,
        ContainerState::Launching { .. } | ContainerState::Relaunching { .. } => Stage::Launching,
        ContainerState::Running { .. }
        | ContainerState::Pausing
        | ContainerState::Resuming { .. }
        | ContainerState::Restarting
        | ContainerState::Gone { killed: false } => Stage::Running,
        ContainerState::Paused { .. } => Stage::Paused,
        ContainerState::Killing { .. } | ContainerState::Gone { killed: true } => Stage::Killing,
        ContainerState::Completing(_) | ContainerState::Done(_) => Stage::Done,
    }
}

fn ending_of(ending: sched::Ending) -> Ending {
    match ending {
        sched::Ending::Succeeded => Ending::Succeeded,
        sched::Ending::Failed => Ending::Failed,
        sched::Ending::Killed => Ending::Killed,
        sched::Ending::LocalizationFailed => Ending::LocalizationFailed,
    }
}
