//! Changes of running containers: more resources, another launch context, a restart, and the way
//! back (Hadoop: `localize`, `reInitializeContainer`, `restartContainer`,
//! `rollbackLastReInitialization`, `commitLastReInitialization`).
//!
//! ```text
//!  reInitialize ─▶ Localizing ─▶ Restarting ─▶ launch with the next setup
//!                      │ failed      ▲              │ not committed: the setup before is kept
//!                      ▼             │              ▼
//!                  runs on      restart, rollback ◀─┤ failure: rolled back by the scheduler
//!                                                   └ commit: the setup before is dropped
//! ```
//! The process goes on while resources are localized. A restarted container waits in the queue of
//! its type, as in Hadoop, and is launched in the folders of its first launch.

mod moved;
mod stored;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use launch_context::{HeldContext, LaunchContext};
use localize::{LocalizedResource, ResourceSpec, SetNumber, UsedSets};
use records::{ContainerId, ExecutionType, Now};
use sched::{ContainerState, Event};
use wire::exception::RemoteException;

use super::admit::{refusal_to_exception, yarn_exception};
use super::effect::{Effect, LinkOrder, LocalizeFor, Record, ReinitStage};
use super::{Asker, ContainerRecord, Core, Followups};
use crate::recovery::ContextRecord;

/// Launch context and resources of a container: what a re-initialization replaces and a rollback
/// restores.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    context: Arc<HeldContext>,
    localized: Vec<LocalizedResource>,
    /// Last set that the resources are of.
    set: SetNumber,
}

/// Progress of a re-initialization, restart or rollback.
#[derive(Debug)]
pub(super) enum Reinit {
    /// The process runs while resources of the next launch context are localized.
    Localizing {
        /// Launch context to use next, without its resources.
        context: Arc<HeldContext>,
        /// Whether the present setup is dropped at once.
        auto_commit: bool,
        /// Set of the resources that are being localized.
        set: SetNumber,
    },
    /// The process is being ended, or the container waits for its launch.
    Restarting {
        /// Setup of the next launch.
        next: Setup,
        /// Setup to which a rollback returns.
        previous: Option<Setup>,
    },
}

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
        resources: Vec<(String, ResourceSpec)>,
    ) -> Result<(), RemoteException> {
        self.check_operation(asker, Operation::Localize, id)?;
        let max = self.config.contexts.resources_max;
        let Some(record) = self.containers.get_mut(&id) else {
            return Err(does_not_exist(id));
        };
        let asked = record.resources_added.saturating_add(resources.len());
        if asked > max {
            return Err(yarn_exception(format!(
                "container {id} would localize {asked} more resources, at most {max} are allowed \
                 (yarn.nodemanager.agent.launch-context.max-resources)"
            )));
        }
        record.resources_added = asked;
        record.has_resources |= !resources.is_empty();
        let (user, set) = (Arc::clone(&record.user), record.set);
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
        let Some(record) = self.containers.get_mut(&id) else {
            return Err(does_not_exist(id));
        };
        let max = self.config.contexts.resources_max;
        let links = record.links_with(&context.resources);
        if links > max {
            return Err(yarn_exception(format!(
                "container {id} would have {links} resources of its launch contexts, at most {max} \
                 are allowed (yarn.nodemanager.agent.launch-context.max-resources)"
            )));
        }
        let mut held = self.contexts.hold(&record.user, context)?;
        let resources = std::mem::take(&mut held.context.resources);
        let context = Arc::new(held);
        record.has_resources |= !resources.is_empty();
        record.last_set.0 += 1;
        let set = record.last_set;
        record.reinit = Some(Reinit::Localizing {
            context,
            auto_commit,
            set,
        });
        let user = Arc::clone(&record.user);
        self.remember_reinit(id, set.0, to_store);
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
        let Some(record) = self.containers.get(&id) else {
            return Err(does_not_exist(id));
        };
        let next = record.setup().ok_or_else(|| {
            yarn_exception(format!(
                "container {id} was launched as OPPORTUNISTIC: its launch context is not kept"
            ))
        })?;
        let previous = record.previous.clone();
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
        let record = self.containers.get(&id);
        let previous = record.and_then(|record| record.previous.clone());
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
        let record = self.containers.get_mut(&id);
        if record.and_then(|record| record.previous.take()).is_none() {
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
        let (Some(summary), Some(record)) = (summary, self.containers.get(&id)) else {
            return Err(does_not_exist(id));
        };
        let runs = matches!(summary.state, ContainerState::Running { .. });
        let execution_type = summary.spec.execution_type;
        let is_changing = record.reinit.is_some();
        if runs && !is_changing && execution_type == ExecutionType::Guaranteed {
            return Ok(());
        }
        let state = if runs && matches!(record.reinit, Some(Reinit::Localizing { .. })) {
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
        let Some(record) = self.containers.get_mut(&id) else {
            return;
        };
        record.localized.extend(resources.iter().cloned());
        self.effects.push(Effect::Link(LinkOrder {
            id,
            user: Arc::clone(&record.user),
            dirs: Arc::clone(&record.dirs),
            resources,
        }));
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
        let Some(record) = self.containers.get_mut(&id) else {
            return;
        };
        let Some(Reinit::Localizing {
            context,
            auto_commit,
            set,
        }) = record.reinit.take()
        else {
            return;
        };
        let present = record.setup();
        // Links of the new context replace those of the same name.
        let is_replaced =
            |old: &LocalizedResource| resources.iter().any(|new| new.link == old.link);
        let kept = record.localized.iter().filter(|old| !is_replaced(old));
        let localized = kept.chain(&resources).cloned().collect();
        let next = Setup {
            context,
            localized,
            set,
        };
        let previous = present.filter(|_| !auto_commit);
        if let Err(error) = self.restart_with(id, next, previous, now) {
            tracing::info!(container = %id, %error, "not re-initialized: it runs no more");
        }
    }

    /// Keeps a container running whose next launch context lacks a resource (Hadoop:
    /// `ResourceLocalizationFailedWhileReInitTransition`).
    pub(super) fn reinit_failed(&mut self, id: ContainerId, diagnostics: String, now: Now) {
        if let Some(record) = self.containers.get_mut(&id) {
            record.reinit = None;
        }
        self.use_sets(id);
        let reason = diagnostics.trim_end();
        let diagnostics = format!("Container aborting re-initialization.. {reason}");
        self.must_feed(Event::Annotate { id, diagnostics }, now);
    }

    /// Tells diagnostics and audit log that a container will be launched again, in the words of
    /// Hadoop (`ContainerImpl`: `ReInitializeContainerTransition`, `RollbackContainerTransition`).
    fn begin_reinit(&mut self, id: ContainerId, diagnostics: &str, now: Now) {
        self.record_reinit(id, ReinitStage::Started);
        let diagnostics = diagnostics.to_owned();
        self.must_feed(Event::Annotate { id, diagnostics }, now);
    }

    fn record_reinit(&mut self, id: ContainerId, stage: ReinitStage) {
        if let Some(record) = self.containers.get(&id) {
            let user = Arc::clone(&record.user);
            self.record(Record::Reinit { id, user, stage });
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
        if let Some(record) = self.containers.get_mut(&id) {
            record.reinit = Some(Reinit::Restarting { next, previous });
        }
        self.feed(Event::Restart(id), now).map_err(|refusal| {
            if let Some(record) = self.containers.get_mut(&id) {
                record.reinit = None;
            }
            refusal_to_exception(&refusal)
        })
    }

    /// Puts the setup of a restart in force, before the launch.
    pub(super) fn take_next_setup(&mut self, id: ContainerId, followups: &mut Followups) {
        let Some(record) = self.containers.get_mut(&id) else {
            return;
        };
        match record.reinit.take() {
            Some(Reinit::Restarting { next, previous }) => {
                record.previous = previous;
                self.put_in_force(id, next, followups);
                self.record_reinit(id, ReinitStage::Finished);
            }
            // A retry: the re-initialization goes on.
            other @ (Some(Reinit::Localizing { .. }) | None) => record.reinit = other,
        }
    }

    /// Returns to the setup before a re-initialization that failed.
    pub(super) fn roll_back(&mut self, id: ContainerId, followups: &mut Followups) {
        let record = self.containers.get_mut(&id);
        if let Some(previous) = record.and_then(|record| record.previous.take()) {
            self.put_in_force(id, previous, followups);
            // Hadoop tells no end of it.
            self.record_reinit(id, ReinitStage::Started);
        }
    }

    fn put_in_force(&mut self, id: ContainerId, setup: Setup, followups: &mut Followups) {
        let Some(record) = self.containers.get_mut(&id) else {
            return;
        };
        let policy = setup.context.context.retry.clone();
        record.context = Some(setup.context);
        record.localized = setup.localized;
        record.set = setup.set;
        let can_roll_back = record.previous.is_some();
        followups.push_back(Event::RetryPolicy { id, policy });
        followups.push_back(Event::CanRollBack { id, can_roll_back });
        self.use_sets(id);
    }

    /// Orders the release of resources that the container has replaced and cannot go back to.
    fn use_sets(&mut self, id: ContainerId) {
        let Some(record) = self.containers.get(&id) else {
            return;
        };
        if record.has_resources {
            let sets = UsedSets {
                last: record.set,
                back_to: record.previous.as_ref().map(|previous| previous.set),
            };
            self.effects.push(Effect::UseSets { id, sets });
        }
    }
}

impl ContainerRecord {
    /// Returns the launch context in force with its resources, if the context is kept.
    fn setup(&self) -> Option<Setup> {
        Some(Setup {
            context: Arc::clone(self.context.as_ref()?),
            localized: self.localized.clone(),
            set: self.set,
        })
    }

    /// Returns the number of links that the container would have with further resources.
    fn links_with(&self, resources: &[(String, ResourceSpec)]) -> usize {
        let present = self.localized.iter().map(|resource| &resource.link);
        let links: BTreeSet<_> = present
            .chain(resources.iter().map(|(link, _)| link))
            .collect();
        links.len()
    }
}

fn does_not_exist(id: ContainerId) -> RemoteException {
    yarn_exception(format!("Specified {id} does not exist!"))
}
