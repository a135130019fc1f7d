//! Changes of running containers: more resources, another launch context, a restart, and the way
//! back (Hadoop: `localize`, `reInitializeContainer`, `restartContainer`,
//! `rollbackLastReInitialization`, `commitLastReInitialization`).
//!
//! `setups` has the states that lie between a call and its launch. A launch that is not
//! committed keeps the setup before: the scheduler rolls a failure back, a commit drops it. The
//! process goes on while resources are localized. A restarted container waits in the queue of its
//! type, as in Hadoop, and is launched in the folders of its first launch.

use std::fmt;

use launch_context::LaunchContext;
use localize::LocalizedResource;
use records::{ContainerExitStatus, ContainerId, ExecutionType, Now};
use sched::{ContainerState, Event};
use wire::exception::RemoteException;

use super::admit::{refusal_to_exception, yarn_exception};
use super::effect::{Effect, LocalizeFor, Observed, ReinitStage};
use super::order::LinkOrder;
use super::setup_state::Setup;
use super::{Asker, Core, Followups};
use crate::recovery::ContextRecord;
use crate::setups::{Begun, Resources};

/// A re-initialization, as an ApplicationMaster asks for it.
#[derive(Debug)]
pub struct ReinitRequest {
    /// Launch context to use next.
    pub context: LaunchContext,
    /// Whether the present setup is dropped at once.
    pub auto_commit: bool,
    /// Record of the launch context; `None` if no records are kept.
    pub record: Option<Box<ContextRecord>>,
}

/// Operation on a running container, by the name in Hadoop's refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Localize,
    ReInit,
    Rollback,
    Commit,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Localize => "LOCALIZE",
            Self::ReInit => "RE_INIT",
            Self::Rollback => "ROLLBACK",
            Self::Commit => "COMMIT",
        })
    }
}

impl Core {
    /// `localize`: localizes more resources for a running container, which get links in its work
    /// folder. A failure shows in the diagnostics only.
    ///
    /// # Errors
    /// `YarnException` with Hadoop's texts when the container cannot be changed now, or names more
    /// resources than a launch context may.
    pub fn localize_more(
        &mut self,
        asker: Asker,
        id: ContainerId,
        resources: Resources,
    ) -> Result<(), RemoteException> {
        self.check_operation(asker, Operation::Localize, id)?;
        let max = self.config.contexts.resources_max;
        let Some(container) = self.containers.get_mut(&id) else {
            return Err(does_not_exist(id));
        };
        if let Err(asked) = container.setups.add(resources.len(), max) {
            return Err(yarn_exception(format!(
                "container {id} would localize {asked} more resources, at most {max} are allowed \
                 (yarn.nodemanager.agent.launch-context.max-resources)"
            )));
        }
        let (user, set) = (container.user.clone(), container.setups.set());
        if !resources.is_empty() {
            self.effects.push(Effect::Localize {
                id,
                user,
                resources,
                set,
                purpose: LocalizeFor::Running,
            });
        }
        Ok(())
    }

    /// `reInitializeContainer`: launches a running container again with another launch context,
    /// once the resources of that context are localized. Without
    /// [`auto_commit`](ReinitRequest::auto_commit) the present one is kept for a rollback.
    ///
    /// # Errors
    /// `YarnException` with Hadoop's texts when the container cannot be changed now, and the
    /// refusals of a launch context that is too large.
    pub fn reinitialize(
        &mut self,
        asker: Asker,
        id: ContainerId,
        request: ReinitRequest,
        now: Now,
    ) -> Result<(), RemoteException> {
        self.check_operation(asker, Operation::ReInit, id)?;
        let ReinitRequest {
            context,
            auto_commit,
            record: to_store,
        } = request;
        let Some(container) = self.containers.get_mut(&id) else {
            return Err(does_not_exist(id));
        };
        let max = self.config.contexts.resources_max;
        let links = container.setups.links_with(&context.resources);
        if links > max {
            return Err(yarn_exception(format!(
                "container {id} would have {links} resources of its launch contexts, at most {max} \
                 are allowed (yarn.nodemanager.agent.launch-context.max-resources)"
            )));
        }
        let held = self.contexts.hold(&container.user, context)?;
        let tokens = held.context.file_system_tokens.clone();
        let (set, resources) = container.setups.reinitialize(held, auto_commit);
        let user = container.user.clone();
        if self.pass_tokens(id.application_id(), &tokens) {
            self.remember_application(id.application_id(), now);
        }
        self.recorder
            .reinitialized(id, set.0, to_store, &mut self.effects);
        self.begin_reinit(id, "Container will be Re-initialized.", now);
        if resources.is_empty() {
            self.reinit_localized(id, Vec::new(), now);
        } else {
            self.effects.push(Effect::Localize {
                id,
                user,
                resources,
                set,
                purpose: LocalizeFor::Reinit,
            });
        }
        Ok(())
    }

    /// `restartContainer`: launches a running container again with its present launch context. A
    /// rollback that was possible stays possible.
    ///
    /// # Errors
    /// `YarnException` with Hadoop's texts when the container cannot be restarted now.
    pub fn restart_container(
        &mut self,
        asker: Asker,
        id: ContainerId,
        now: Now,
    ) -> Result<(), RemoteException> {
        self.check_operation(asker, Operation::ReInit, id)?;
        let Some(container) = self.containers.get(&id) else {
            return Err(does_not_exist(id));
        };
        let next = container.setups.in_force().ok_or_else(|| {
            yarn_exception(format!(
                "container {id} was launched as OPPORTUNISTIC: its launch context is not kept"
            ))
        })?;
        let previous = container.setups.previous();
        self.begin_reinit(id, "Container will be Restarted.", now);
        self.restart_with(id, next, previous, now)
    }

    /// `rollbackLastReInitialization`: launches a container again with its launch context before
    /// the last re-initialization.
    ///
    /// # Errors
    /// `YarnException` with Hadoop's texts when the container cannot be restarted now, or no
    /// launch context is kept.
    pub fn roll_back_reinit(
        &mut self,
        asker: Asker,
        id: ContainerId,
        now: Now,
    ) -> Result<(), RemoteException> {
        self.check_operation(asker, Operation::Rollback, id)?;
        let container = self.containers.get(&id);
        let previous = container.and_then(|container| container.setups.previous());
        let previous =
            previous.ok_or_else(|| yarn_exception("Nothing to rollback to !!".to_owned()))?;
        self.begin_reinit(id, "Container upgrade will be Rolled-back.", now);
        self.restart_with(id, previous, None, now)
    }

    /// `commitLastReInitialization`: drops the launch context before the last re-initialization.
    ///
    /// # Errors
    /// `YarnException` with Hadoop's texts when the container does not run, or no launch context is
    /// kept.
    pub fn commit_reinit(
        &mut self,
        asker: Asker,
        id: ContainerId,
        now: Now,
    ) -> Result<(), RemoteException> {
        self.check_operation(asker, Operation::Commit, id)?;
        let container = self.containers.get_mut(&id);
        if !container.is_some_and(|container| container.setups.commit()) {
            return Err(yarn_exception("Nothing to Commit !!".to_owned()));
        }
        self.use_sets(id);
        let can_roll_back = false;
        self.must_feed(Event::CanRollBack { id, can_roll_back }, now);
        Ok(())
    }

    /// Checks in Hadoop's order that a container of the caller's application runs, is guaranteed
    /// and is not being changed already.
    fn check_operation(
        &self,
        asker: Asker,
        operation: Operation,
        id: ContainerId,
    ) -> Result<(), RemoteException> {
        if asker.attempt.application_id != id.application_id() {
            return Err(yarn_exception(format!(
                "ApplicationMaster not authorized to perform [{operation}] on Container [{id}]!!"
            )));
        }
        let summary = self.scheduler.summary(&id);
        let (Some(summary), Some(container)) = (summary, self.containers.get(&id)) else {
            return Err(does_not_exist(id));
        };
        let runs = matches!(summary.state, ContainerState::Running { .. });
        let execution_type = summary.spec.execution_type;
        let is_changing = container.setups.is_changing();
        if runs && !is_changing && execution_type == ExecutionType::Guaranteed {
            return Ok(());
        }
        let state = if runs && container.setups.is_localizing() {
            "REINITIALIZING"
        } else {
            summary.state.rest_state()
        };
        Err(yarn_exception(format!(
            "Cannot perform {operation} on [{id}]. Current state is [{state}, \
             isReInitializing={is_changing}]. Container Execution Type is [{execution_type}]."
        )))
    }

    /// Handles resources that were localized for a container that runs.
    pub(super) fn localized_more(
        &mut self,
        id: ContainerId,
        resources: Vec<LocalizedResource>,
        now: Now,
    ) {
        // The resources of one that has ended meanwhile are released already.
        let summary = self.scheduler.summary(&id);
        let container = self.containers.get_mut(&id);
        let is_over = summary.is_none_or(|summary| {
            let state = summary.state;
            matches!(
                state,
                ContainerState::Completing(_) | ContainerState::Done(_)
            )
        });
        let Some(container) = container.filter(|_| !is_over) else {
            return;
        };
        let resources = container.setups.added(&resources);
        if let Some(dirs) = container.dirs.get().cloned() {
            self.effects.push(Effect::Link(Box::new(LinkOrder {
                id,
                user: container.user.clone(),
                dirs,
                resources,
            })));
        }
        self.remember([id], now);
    }

    /// Restarts a container whose next launch context has all its resources, unless it ended
    /// meanwhile.
    pub(super) fn reinit_localized(
        &mut self,
        id: ContainerId,
        resources: Vec<LocalizedResource>,
        now: Now,
    ) {
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        if !container.setups.restart_with(resources) {
            return;
        }
        if let Err(error) = self.end_for_restart(id, now) {
            tracing::info!(container = %id, %error, "not re-initialized: it runs no more");
        }
    }

    /// Keeps a container running whose next launch context lacks a resource (Hadoop:
    /// `ResourceLocalizationFailedWhileReInitTransition`).
    pub(super) fn reinit_failed(&mut self, id: ContainerId, diagnostics: String, now: Now) {
        let container = self.containers.get_mut(&id);
        // Unless the container has ended meanwhile.
        if let Some(container) = container.filter(|container| container.setups.is_changing()) {
            container.setups.abandon();
        }
        self.use_sets(id);
        let reason = diagnostics.trim_end();
        let diagnostics = format!("Container aborting re-initialization.. {reason}");
        self.must_feed(Event::Annotate { id, diagnostics }, now);
    }

    /// Tells diagnostics and audit log that a container will be launched again, in the words of
    /// Hadoop (`ContainerImpl`: `ReInitializeContainerTransition`, `RollbackContainerTransition`).
    fn begin_reinit(&mut self, id: ContainerId, diagnostics: &str, now: Now) {
        self.observe_reinit(id, ReinitStage::Started);
        let diagnostics = diagnostics.to_owned();
        self.must_feed(Event::Annotate { id, diagnostics }, now);
    }

    fn observe_reinit(&mut self, id: ContainerId, stage: ReinitStage) {
        if let Some(container) = self.containers.get(&id) {
            let user = container.user.clone();
            self.observe(Observed::Reinit { id, user, stage });
        }
    }

    fn restart_with(
        &mut self,
        id: ContainerId,
        next: Setup,
        previous: Option<Setup>,
        now: Now,
    ) -> Result<(), RemoteException> {
        // First, because a launch may follow at once.
        if let Some(container) = self.containers.get_mut(&id) {
            container.setups.restart(next, previous);
        }
        self.end_for_restart(id, now)
    }

    /// Has the scheduler end the process of a container that is to be launched again.
    pub(super) fn end_for_restart(
        &mut self,
        id: ContainerId,
        now: Now,
    ) -> Result<(), RemoteException> {
        self.feed(Event::Restart(id), now).map_err(|refusal| {
            if let Some(container) = self.containers.get_mut(&id) {
                container.setups.abandon();
            }
            refusal_to_exception(&refusal)
        })
    }

    /// Begins a launch as far as the setup is concerned. Returns whether the launch goes on: not if
    /// it has to wait for resources, or has failed for want of one.
    pub(super) fn begin_launch(&mut self, id: ContainerId, followups: &mut Followups) -> bool {
        let Some(container) = self.containers.get_mut(&id) else {
            return false;
        };
        match container.setups.begin_launch() {
            Begun::InForce => true,
            Begun::Changed => {
                self.setup_changed(id, followups);
                self.observe_reinit(id, ReinitStage::Finished);
                true
            }
            Begun::Waits => false,
            Begun::Lacks(diagnostics) => {
                followups.push_back(Event::LaunchFailed {
                    id,
                    status: ContainerExitStatus::LAUNCH_FAILED,
                    diagnostics,
                });
                false
            }
        }
    }

    /// Returns to the setup before a re-initialization that failed.
    pub(super) fn roll_back(&mut self, id: ContainerId, followups: &mut Followups) {
        let container = self.containers.get_mut(&id);
        if container.is_some_and(|container| container.setups.roll_back()) {
            self.setup_changed(id, followups);
            // Hadoop tells no end of it.
            self.observe_reinit(id, ReinitStage::Started);
        }
    }

    /// Tells scheduler and localizer of the setup that is in force now.
    fn setup_changed(&mut self, id: ContainerId, followups: &mut Followups) {
        let Some(container) = self.containers.get(&id) else {
            return;
        };
        let policy = container.setups.policy().unwrap_or_default();
        let can_roll_back = container.setups.can_roll_back();
        followups.push_back(Event::RetryPolicy { id, policy });
        followups.push_back(Event::CanRollBack { id, can_roll_back });
        if let Some(profile) = self.run_profile(id) {
            followups.push_back(Event::RunProfile { id, profile });
        }
        self.use_sets(id);
    }

    /// Orders the release of resources that the container has replaced and cannot go back to.
    fn use_sets(&mut self, id: ContainerId) {
        let container = self.containers.get(&id);
        if let Some(sets) = container.and_then(|container| container.setups.used_sets()) {
            self.effects.push(Effect::UseSets { id, sets });
        }
    }
}

fn does_not_exist(id: ContainerId) -> RemoteException {
    yarn_exception(format!("Specified {id} does not exist!"))
}
