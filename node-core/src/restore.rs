//! The core of an agent that goes on where another has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use container_runtime::launch::Adoption;
use keeper::ProcessIdentity;
use launch_context::{ContextRefused, HeldContext, LaunchContext, ServiceData};
use localize::{ContainerDirs, ContainerFolder, UserName};
use records::{
    ApplicationId, ContainerId, ContainerName, EpochMillis, ExecutionType, Now, Resource,
};
use sched::{
    ContainerSpec, ContainerState, Event, GrantedRetries, RecoveredContainer, RecoveredStage,
};
use wire::proto::hadoop_yarn::ContainerLaunchContextProto;

use super::effect::{Effect, LocalizeFor};
use super::logs::acls_of;
use super::stories::Happening;
use super::{Core, Followups};
use crate::applications::ApplicationState;
use crate::container::Container;
use crate::recovery::{
    ApplicationRecord, ApplicationStage, DrainRecord, Judgement, LearntRunsRecord, Recovered,
    StateRecord, deadline, past,
};
use crate::setups::Setups;

/// State that an agent begins with.
#[derive(Debug, Default)]
pub struct RestoredState {
    /// Applications by their records.
    pub applications: Vec<(ApplicationId, ApplicationRecord)>,
    /// Containers, in the order of [`crate::recovery::Decided::containers`], each with the folders
    /// that its process has.
    pub containers: Vec<(Recovered, Option<ContainerDirs>)>,
    /// Containers whose tokens were used, and until when they could be used again.
    pub used_tokens: Vec<(ContainerName, EpochMillis)>,
    /// Number of the last container that was accepted.
    pub arrivals: u64,
    /// Containers whose processes belong to nobody and are being killed, with their sizes.
    /// [`container_runtime::launch::LaunchEvent::LeftoversGone`] follows for each.
    pub leftovers: Vec<(ContainerName, Resource)>,
    /// Containers of which no logs are uploaded, by their applications.
    pub settled_logs: BTreeMap<ApplicationId, BTreeSet<ContainerName>>,
    /// Drain of the node; `None`: it is in service.
    pub drain: Option<DrainRecord>,
    /// Run lengths of containers that were learnt; `None`: no record of them.
    pub learnt_runs: Option<LearntRunsRecord>,
    /// Works that do not go on at once.
    pub judgement: Judgement,
}

impl Core {
    /// Takes over what another agent has left, before anything else happens.
    pub fn restore(&mut self, state: RestoredState, now: Now) {
        let RestoredState {
            applications,
            containers,
            used_tokens,
            arrivals,
            leftovers,
            settled_logs,
            drain,
            learnt_runs,
            judgement,
        } = state;
        if let Some(record) = learnt_runs {
            self.restore_runs(&record);
        }
        self.recorder.continue_from(arrivals);
        self.logs.settle(settled_logs);
        for (name, size) in leftovers {
            self.scheduler.withhold(name, size, now);
        }
        for (name, until) in used_tokens {
            self.started.remember(name, until);
        }
        for (id, record) in applications {
            self.restore_application(id, record, now);
        }
        let mut recovered = Vec::with_capacity(containers.len());
        for (container, dirs) in containers {
            recovered.extend(self.restore_container(container, dirs, now));
        }
        let mut actions = Vec::new();
        if let Err(refusal) = self.scheduler.recover(recovered, now, &mut actions) {
            tracing::error!(%refusal, "containers of an earlier run are left out");
        }
        let ids: Vec<ContainerId> = self.containers.keys().copied().collect();
        for id in &ids {
            self.note_restored(*id, now);
        }
        self.tell_services_of_restored(&ids);
        self.perform(actions, now);
        self.remember(ids, now);
        let applications: Vec<ApplicationId> =
            self.applications.iter().map(|(id, _)| *id).collect();
        for id in applications {
            self.finish_application_if_ready(&id, now);
        }
        if let Some(record) = drain {
            self.restore_drain(record, now);
        }
        self.go_on_with(judgement, now);
    }

    fn restore_application(&mut self, id: ApplicationId, record: ApplicationRecord, now: Now) {
        let state = match record.stage() {
            ApplicationStage::Running => ApplicationState::Running,
            ApplicationStage::Finishing => ApplicationState::Finishing,
            ApplicationStage::Finished => {
                let at = record.delete_logs_at.map(EpochMillis);
                // Logs whose upload was under way are kept as long as without aggregation.
                let at = at.map_or(now.mono + self.config.log_retain_ms, |at| {
                    let limits = (self.recorder.boot(), self.config.log_retain_ms);
                    deadline(at, record.clock, limits, now)
                });
                let delete_logs_at = Some(at);
                ApplicationState::Finished { delete_logs_at }
            }
        };
        let Ok(user) = record.user.parse::<UserName>() else {
            tracing::error!(application = %id, "an application of an earlier run has no user");
            return;
        };
        self.applications.restore(id, user.clone(), state);
        let acls = acls_of(&record);
        self.keep_view_list(id, &user, &acls);
        let is_running = state == ApplicationState::Running;
        if is_running {
            self.restore_services(id, &user, &record);
        }
        if !matches!(state, ApplicationState::Finished { .. }) {
            self.pass_stored_tokens(id, &record);
        }
        self.recorder.restore_application(id, record);
        if is_running {
            self.resume_logs(id);
        }
    }

    fn restore_services(&mut self, id: ApplicationId, user: &UserName, record: &ApplicationRecord) {
        let data = record.service_data.iter();
        let data = data.map(|data| (data.service.clone(), ServiceData(data.data.clone())));
        let service_data: BTreeMap<_, _> = data.collect();
        if !service_data.is_empty() {
            self.effects.push(Effect::InitializeApplication {
                id,
                user: user.clone(),
                service_data,
            });
        }
    }

    /// Returns whether an earlier agent accepted a container that goes on. Its ApplicationMaster
    /// may not have got the answer, and repeats the call until it has one.
    pub(super) fn was_accepted_before(&self, id: &ContainerId) -> bool {
        let summary = self.scheduler.summary(id);
        self.recorder.is_restored(id)
            && summary.is_some_and(|s| !matches!(s.state, ContainerState::Done(_)))
    }

    /// Orders to take over a process, if the container has one.
    fn order_adoption(
        &mut self,
        spec: ContainerSpec,
        stage: RecoveredStage,
        user: UserName,
        found: Option<(ProcessIdentity, ContainerFolder)>,
    ) {
        let Some((process, log_dir)) = found else {
            return;
        };
        self.effects.push(Effect::Adopt(Box::new(Adoption {
            spec,
            user,
            process,
            log_dir,
            is_frozen: stage == RecoveredStage::Paused,
        })));
    }

    /// Takes over a container, and returns the scheduler's part of it. `None`: its user has
    /// no name that could be one.
    fn restore_container(
        &mut self,
        container: Recovered,
        dirs: Option<ContainerDirs>,
        now: Now,
    ) -> Option<RecoveredContainer> {
        let Recovered {
            spec,
            token,
            context,
            contexts,
            stage,
            process,
            since,
            record,
        } = container;
        let id = spec.id;
        let user = token.submitter.parse().ok()?;
        self.applications.add_container(id, &user);
        let user = self.applications.get(&id.application_id());
        let user = user?.user.clone();
        self.started.remember(id.name(), token.expiry);
        let log_dir = dirs.as_ref().map(|dirs| dirs.log_dir.clone());
        let had_process = process.is_some();
        self.recorder
            .restore(id, &record, contexts.keys().copied(), process);
        let dirs = Arc::new(dirs.map_or_else(OnceLock::new, OnceLock::from));
        let may_launch = may_launch(&spec, stage, &context);
        let context = may_launch
            .then(|| self.hold_again(&user, context))
            .flatten();
        let has_links = had_process || record.context != 0;
        let mut setups = Setups::restored(context, &record, has_links);
        if may_launch {
            let hold = |context| self.hold_again(&user, context);
            setups.restore(&record, &contexts, hold);
        }
        let is_unstarted = matches!(stage, RecoveredStage::Waiting | RecoveredStage::Starting);
        let needs_resources = is_unstarted && !has_links && !setups.is_changing();
        let mut own = Container::new(token.facts, user.clone(), setups);
        (own.dirs, own.had_process) = (dirs, had_process);
        self.containers.insert(id, own);
        self.stories.begin(id, Happening::TakenOver, now.wall);
        if needs_resources {
            self.localize_again(id);
        }
        self.order_adoption(spec, stage, user, process.zip(log_dir));
        Some(RecoveredContainer {
            spec,
            stage,
            exit_status: records::ContainerExitStatus(record.exit_status),
            diagnostics: record.diagnostics.clone(),
            since: past(since, record.clock, self.recorder.boot(), now),
            retries: retries_of(&record, self.recorder.boot(), now),
        })
    }

    /// Holds a launch context of a container that may be launched.
    pub(super) fn hold_again(
        &self,
        user: &UserName,
        context: ContainerLaunchContextProto,
    ) -> Option<Arc<HeldContext>> {
        let context = LaunchContext::read(context).ok()?;
        let held = self.contexts.hold(user, context);
        let refused = |error: &ContextRefused| {
            tracing::warn!(%user, %error, "a launch context of an earlier run is not kept");
        };
        held.inspect_err(refused).ok().map(Arc::new)
    }

    /// Orders the resources of a container that has its place in the queue. Its launch waits for
    /// them; its turn does not.
    fn localize_again(&mut self, id: ContainerId) {
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        let resources = container.setups.fetch_again();
        if !resources.is_empty() {
            self.effects.push(Effect::Localize {
                id,
                user: container.user.clone(),
                resources,
                set: container.setups.set(),
                purpose: LocalizeFor::Start,
            });
        }
    }

    /// Records what other parts know of a restored container.
    fn note_restored(&mut self, id: ContainerId, now: Now) {
        let Some(summary) = self.scheduler.summary(&id) else {
            self.containers.remove(&id);
            self.recorder.left_out(&id);
            self.applications.container_forgotten(&id);
            return;
        };
        let container = self.containers.get(&id);
        if let Some(policy) = container.and_then(|container| container.setups.policy()) {
            self.follow_policy(id, policy, now);
        }
        self.tell_run_profile(id, now);
        self.go_on_with_reinit(id, now);
        if matches!(summary.state, ContainerState::Done(_)) {
            self.applications.container_done(&id);
            if let Some(status) = self.last_status(id) {
                self.ledger.completed(id, status, now.mono);
            }
        } else if self.containers.get(&id).is_some_and(|own| own.had_process) {
            self.logs_of_started(id);
        }
    }

    /// Hands over the resources of a container that waits in the queue, and launches it if its turn
    /// has come meanwhile. Returns whether there was such a container.
    pub(super) fn localized_again(
        &mut self,
        id: ContainerId,
        result: Result<Vec<localize::LocalizedResource>, String>,
        now: Now,
    ) -> bool {
        let container = self.containers.get_mut(&id);
        let Some(container) = container.filter(|container| container.setups.is_fetching()) else {
            return false;
        };
        let is_due = container.setups.fetched(result);
        if is_due {
            let mut followups = Followups::new();
            self.launch(id, &mut followups);
            for event in followups {
                self.must_feed(event, now);
            }
        }
        true
    }

    /// Goes on where an earlier agent was with the re-initialization of a container.
    fn go_on_with_reinit(&mut self, id: ContainerId, now: Now) {
        let summary = self.scheduler.summary(&id);
        let runs = summary.is_some_and(|it| matches!(it.state, ContainerState::Running { .. }));
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        let can_roll_back = container.setups.can_roll_back();
        if let Some((set, resources)) = container.setups.localize_next_again() {
            self.effects.push(Effect::Localize {
                id,
                user: container.user.clone(),
                resources,
                set,
                purpose: LocalizeFor::Reinit,
            });
        } else if runs
            && container.setups.is_restarting()
            && let Err(error) = self.end_for_restart(id, now)
        {
            tracing::warn!(container = %id, %error, "not re-initialized");
        }
        if can_roll_back {
            self.must_feed(Event::CanRollBack { id, can_roll_back }, now);
        }
    }
}

/// Returns whether a container with this launch context may be launched, or launched again.
fn may_launch(
    spec: &ContainerSpec,
    stage: RecoveredStage,
    context: &ContainerLaunchContextProto,
) -> bool {
    match stage {
        RecoveredStage::Accepted | RecoveredStage::Waiting | RecoveredStage::Starting => true,
        RecoveredStage::Running | RecoveredStage::Paused | RecoveredStage::Killing => {
            let retry = |context: LaunchContext| context.retry.can_retry();
            spec.execution_type == ExecutionType::Guaranteed
                || LaunchContext::read(context.clone()).is_ok_and(retry)
        }
        RecoveredStage::Done(_) => false,
    }
}

/// Returns the retries that a container was granted.
fn retries_of(record: &StateRecord, boot: u64, now: Now) -> GrantedRetries {
    let times = record.retried_at.iter();
    let moment = |at: &i64| past(EpochMillis(*at), record.clock, boot, now);
    GrantedRetries {
        count: record.retries,
        recent: times.map(moment).collect(),
    }
}
