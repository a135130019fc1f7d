//! Records for the next agent, with which it goes on.
//!
//! Owns the content of the records that were stored last, and what only records need. Told of what
//! changes, it orders the records that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use keeper::ProcessIdentity;
use launch_context::LaunchContext;
use localize::{ContainerDirs, UserName};
use records::{ApplicationId, ContainerId, EpochMillis, Now};
use sched::{ContainerState, ContainerView, GrantedRetries};
use wire::token::Token;

use crate::applications::{Application, ApplicationState};
use crate::container::Container;
use crate::effect::Effect;
use crate::order::StoreOrder;
use crate::recovery::{
    AclRecord, ApplicationRecord, ApplicationStage, ContextRecord, Ending, RecordClock,
    ServiceDataRecord, Stage, StartRecord, StateRecord,
};

/// Bytes of tokens for file systems that are kept of one application.
pub const TOKENS_BYTES_MAX: usize = 1 << 20;

/// Records of the node's containers and applications.
#[derive(Debug)]
pub(crate) struct Recorder {
    are_kept: bool,
    /// Number of the machine's boot; 0: unknown.
    boot: u64,
    /// Memories of known containers, if records are kept.
    containers: BTreeMap<ContainerId, Memory>,
    /// Records of known applications, if records are kept.
    applications: BTreeMap<ApplicationId, ApplicationRecord>,
    /// Number of the last container that was accepted, over all agents.
    arrivals: u64,
}

/// Content of a container's record, and facts that only a record needs.
#[derive(Debug, Default)]
struct Memory {
    /// State stored last.
    stored: Option<StateRecord>,
    /// Identifier of the token that updated it last.
    token: Option<Vec<u8>>,
    /// Numbers of the launch contexts that are stored.
    contexts: BTreeSet<u64>,
    /// Set when an earlier agent accepted the container.
    is_restored: bool,
    /// Process of the last launch.
    process: Option<ProcessIdentity>,
}

impl Recorder {
    /// Returns a recorder that has stored nothing. `are_kept`: whether there is to be a next agent.
    pub(crate) const fn new(are_kept: bool, boot: u64) -> Self {
        Self {
            are_kept,
            boot,
            containers: BTreeMap::new(),
            applications: BTreeMap::new(),
            arrivals: 0,
        }
    }

    /// Returns whether records are kept.
    pub(crate) const fn are_kept(&self) -> bool {
        self.are_kept
    }

    /// Returns the number of the machine's boot; 0: unknown.
    pub(crate) const fn boot(&self) -> u64 {
        self.boot
    }

    /// Goes on with the number of the last container that an earlier agent accepted.
    pub(crate) const fn continue_from(&mut self, arrivals: u64) {
        self.arrivals = arrivals;
    }

    /// Takes over the record of a container, the numbers of its launch contexts, and its process.
    pub(crate) fn restore(
        &mut self,
        id: ContainerId,
        record: &StateRecord,
        contexts: impl Iterator<Item = u64>,
        process: Option<ProcessIdentity>,
    ) {
        let memory = Memory {
            token: record.token.clone(),
            contexts: contexts.filter(|number| *number != 0).collect(),
            process,
            stored: (record.stage() != Stage::Accepted).then(|| record.clone()),
            is_restored: true,
        };
        self.containers.insert(id, memory);
    }

    /// Takes over the record of an application.
    pub(crate) fn restore_application(&mut self, id: ApplicationId, record: ApplicationRecord) {
        self.applications.insert(id, record);
    }

    /// Drops a container that was taken over and that the scheduler does not take.
    pub(crate) fn left_out(&mut self, id: &ContainerId) {
        self.containers.remove(id);
    }

    /// Returns whether an earlier agent accepted the container.
    pub(crate) fn is_restored(&self, id: &ContainerId) -> bool {
        self.containers
            .get(id)
            .is_some_and(|memory| memory.is_restored)
    }

    /// Returns the record of an application.
    pub(crate) fn application(&self, id: &ApplicationId) -> Option<&ApplicationRecord> {
        self.applications.get(id)
    }

    /// Stores how a container was accepted.
    pub(crate) fn accepted(
        &mut self,
        id: ContainerId,
        start: Option<Box<StartRecord>>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut start) = start.filter(|_| self.are_kept) else {
            return;
        };
        self.arrivals += 1;
        start.arrival = self.arrivals;
        let clock = RecordClock::of_record(None, self.boot, now);
        start.accepted_at = clock.wall_of(now.mono);
        start.clock = Some(clock);
        effects.push(Effect::Store(StoreOrder::Start(id, start)));
    }

    /// Stores the state of a container, if it differs from what is stored.
    pub(crate) fn container(
        &mut self,
        view: ContainerView,
        retries: GrantedRetries,
        container: &Container,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let id = view.spec.id;
        let memory = self.containers.entry(id).or_default();
        let state = state_record(view, retries, memory, container, (self.boot, now));
        let is_new = match &memory.stored {
            Some(stored) => *stored != state,
            None => state.stage() != Stage::Accepted,
        };
        if !is_new {
            return;
        }
        let unused = unused_contexts(memory, &state);
        memory.stored = Some(state.clone());
        let ended = state.ended();
        effects.push(Effect::Store(StoreOrder::State(id, Box::new(state))));
        if let Some(ended) = ended {
            let pid = ended.pid();
            effects.push(Effect::Reap { id, pid });
        }
        // After the record that no longer names them.
        for number in unused {
            effects.push(Effect::Store(StoreOrder::Context(id, number, None)));
        }
    }

    /// Takes the process of a container's launch.
    pub(crate) fn launched(&mut self, id: ContainerId, process: ProcessIdentity) {
        if let Some(memory) = self.containers.get_mut(&id) {
            memory.process = Some(process);
        }
    }

    /// Takes the identifier of the token that updated a container.
    pub(crate) fn updated(&mut self, id: ContainerId, identifier: Vec<u8>) {
        if let Some(memory) = self.containers.get_mut(&id) {
            memory.token = Some(identifier);
        }
    }

    /// Stores the launch context of a re-initialization.
    pub(crate) fn reinitialized(
        &mut self,
        id: ContainerId,
        number: u64,
        context: Option<Box<ContextRecord>>,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(context) = context
            && let Some(memory) = self.containers.get_mut(&id)
        {
            memory.contexts.insert(number);
            let order = StoreOrder::Context(id, number, Some(context));
            effects.push(Effect::Store(order));
        }
    }

    /// Forgets a container that left the memory. Its token must not start another one.
    pub(crate) fn forget(
        &mut self,
        id: ContainerId,
        used_until: Option<EpochMillis>,
        effects: &mut Vec<Effect>,
    ) {
        self.containers.remove(&id);
        if self.are_kept {
            effects.push(Effect::Store(StoreOrder::Forget(id, used_until)));
        }
    }

    /// Takes what a container brings that outlives it: the wishes for the application's logs, its
    /// rights, and data for auxiliary services. Returns whether any is new.
    pub(crate) fn context_came(
        &mut self,
        id: ApplicationId,
        user: &UserName,
        log_context: Option<Vec<u8>>,
        context: &LaunchContext,
    ) -> bool {
        if !self.are_kept {
            return false;
        }
        let mut is_new = !self.applications.contains_key(&id);
        let record = self.applications.entry(id).or_insert_with(|| {
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
            is_new |= keep(&mut record.service_data, service, data.0.clone());
        }
        is_new
    }

    /// Takes the tokens that a container brings for file systems. Returns whether any is new.
    pub(crate) fn tokens_came(&mut self, id: &ApplicationId, tokens: &[Token]) -> bool {
        let Some(record) = self.applications.get_mut(id) else {
            return false;
        };
        let mut is_new = false;
        for token in tokens {
            let mut data = Vec::new();
            token.put_writable(&mut data);
            let held = record.tokens.iter().map(|held| held.data.len());
            if held.sum::<usize>() + data.len() <= TOKENS_BYTES_MAX {
                is_new |= keep(&mut record.tokens, &token.service, data);
            }
        }
        is_new
    }

    /// Drops the tokens of an application.
    pub(crate) fn forget_tokens(&mut self, id: &ApplicationId) {
        if let Some(record) = self.applications.get_mut(id) {
            record.tokens.clear();
        }
    }

    /// Stores the state of an application; `None`: that it is forgotten.
    pub(crate) fn application_changed(
        &mut self,
        id: ApplicationId,
        application: Option<&Application>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        if !self.are_kept {
            return;
        }
        let Some(application) = application else {
            self.applications.remove(&id);
            effects.push(Effect::Store(StoreOrder::Application(id, None)));
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
        let record = self.applications.entry(id).or_default();
        record.user = application.user.to_string();
        record.set_stage(stage);
        let clock = RecordClock::of_record(record.clock, self.boot, now);
        record.delete_logs_at = delete_logs_at.map(|at| clock.wall_of(at));
        record.clock = Some(clock);
        let record = Box::new(record.clone());
        effects.push(Effect::Store(StoreOrder::Application(id, Some(record))));
    }
}

/// Keeps data under its name, in place of what was there. Returns whether it is new.
fn keep(kept: &mut Vec<ServiceDataRecord>, service: &str, data: Vec<u8>) -> bool {
    let data = ServiceDataRecord {
        service: service.to_owned(),
        data,
    };
    if kept.contains(&data) {
        return false;
    }
    kept.retain(|old| old.service != service);
    kept.push(data);
    true
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
    memory: &Memory,
    container: &Container,
    (boot, now): (u64, Now),
) -> StateRecord {
    let Memory {
        stored,
        token,
        process,
        ..
    } = memory;
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
        container.setups.store(&mut state);
    }
    // The process of a launch may exist before it is known. Another launch context does not name
    // all resources of the container.
    if has_process || stage == Stage::Launching || state.context != 0 {
        container
            .setups
            .store_resources(&mut state, stored.as_ref());
    }
    if has_process {
        set_folders(&mut state, &container.dirs);
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
