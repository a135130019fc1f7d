//! What acts for the core on processes and files: launcher, isolation, localizer, folders,
//! deletion. Nothing here waits; what takes time happens on the parts' own threads and comes back
//! as an [`Effect`].
//!
//! [`Hands`] is the seam: the agent has [`NodeHands`], tests of the core have hands that only write
//! down what was asked.

use std::sync::Arc;
use std::time::Duration;

use container_runtime::isolation::{Isolation, IsolationEvent};
use container_runtime::launch::{
    ContainerSignal, LaunchEvent, LaunchPlan, Launcher, Link, LocalizationCounters,
};
use container_runtime::monitor::{ContainerLimit, ContainerLimits, MemoryExceeded};
use localize::{
    DeletionService, LocalizationState, LocalizeRequest, LocalizedResource, Localizer, NodeDirs,
    ResourceSpec, UserName,
};
use records::{ApplicationId, ContainerId, Resource};
use sched::ContainerSpec;
use tokio::sync::mpsc;
use wire::proto::hadoop_yarn::{LocalizationStateProto, LocalizationStatusProto};

use crate::launch_context::LaunchContext;

/// What a thread answers.
#[derive(Debug)]
pub enum Effect {
    /// Everything a container needs is on the local disk.
    Localized {
        /// Which container.
        id: ContainerId,
        /// What its links point to.
        resources: Vec<LocalizedResource>,
    },
    /// Something it needs could not be had.
    LocalizationFailed {
        /// Which container.
        id: ContainerId,
        /// For the AM and people.
        diagnostics: String,
    },
    /// Of the launcher.
    Launch(LaunchEvent),
    /// Of control groups.
    Isolation(IsolationEvent),
    /// Of the monitor. At most once for each container.
    MemoryExceeded(MemoryExceeded),
}

/// What the core can have done. No method waits for a disk, a process or a peer.
pub trait Hands: Send {
    /// Brings resources to the local disk; answers with an effect.
    fn localize(
        &mut self,
        id: ContainerId,
        user: &Arc<str>,
        resources: Vec<(String, ResourceSpec)>,
    );

    /// Makes folders and starts the process on a launch thread; answers with effects.
    /// `localized_in` is how long its resources took; zero for a container without any.
    ///
    /// # Errors
    /// A text for the AM when the launch was not even queued. Then no effect follows.
    fn launch(
        &mut self,
        spec: &ContainerSpec,
        user: &Arc<str>,
        context: LaunchContext,
        localized: Vec<LocalizedResource>,
        localized_in: Duration,
    ) -> Result<(), String>;

    /// Freezes a container; answers with an effect if this says `true`. `false`: nothing here can
    /// freeze.
    fn pause(&mut self, id: ContainerId) -> bool;

    /// Thaws a container; answers with an effect if this says `true`.
    fn resume(&mut self, id: ContainerId) -> bool;

    /// Its size or type has changed.
    fn apply_limits(&mut self, spec: &ContainerSpec);

    /// What the node offers has changed.
    fn node_resource(&mut self, total: Resource);

    /// SIGTERM to all processes of a container.
    fn terminate(&mut self, id: ContainerId);

    /// SIGKILL to all processes of a container.
    fn force_kill(&mut self, id: ContainerId);

    /// Signals a container's process group. The text for its diagnostics; `None` when it has no
    /// process.
    fn signal(&mut self, id: ContainerId, user: &str, signal: ContainerSignal) -> Option<String>;

    /// Gives back what a container used: references now, folders in the background.
    fn clean_up(&mut self, id: ContainerId, user: &str);

    /// Gives back what an application used, but for its logs.
    fn finish_application(&mut self, id: ApplicationId, user: &str);

    /// Deletes the logs of an application.
    fn delete_application_logs(&mut self, id: ApplicationId);

    /// How far each resource of a container is.
    fn localization_statuses(&self, id: &ContainerId) -> Vec<LocalizationStatusProto>;
}

/// What resources that took so long cost their container.
fn counters_of(resources: &[LocalizedResource], took: Duration) -> LocalizationCounters {
    let mut counters = LocalizationCounters {
        total_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        ..LocalizationCounters::default()
    };
    for resource in resources {
        let (files, bytes) = if resource.was_cached {
            (&mut counters.files_cached, &mut counters.bytes_cached)
        } else {
            (&mut counters.files_missed, &mut counters.bytes_missed)
        };
        *files += 1;
        *bytes = bytes.saturating_add(resource.bytes);
    }
    counters
}

/// The node's own hands.
pub struct NodeHands {
    /// Freezes and limits; `None`: containers have no cgroups.
    pub isolation: Option<Isolation>,
    /// Processes.
    pub launcher: Arc<Launcher>,
    /// Resources.
    pub localizer: Localizer,
    /// Folders.
    pub dirs: NodeDirs,
    /// Removes folders in the background.
    pub deletion: DeletionService,
    /// What containers may use, for the monitor.
    pub limits: Arc<ContainerLimits>,
    /// Where effects go.
    pub effects: mpsc::UnboundedSender<Effect>,
}

impl Hands for NodeHands {
    fn localize(
        &mut self,
        id: ContainerId,
        user: &Arc<str>,
        resources: Vec<(String, ResourceSpec)>,
    ) {
        let effects = self.effects.clone();
        let request = LocalizeRequest {
            container: id,
            user: user.to_string(),
            resources,
        };
        self.localizer.localize(request, move |result| {
            let effect = match result {
                Ok(resources) => Effect::Localized { id, resources },
                Err(error) => Effect::LocalizationFailed {
                    id,
                    diagnostics: error.diagnostics(),
                },
            };
            // The core is gone only when the agent has stopped.
            let _stopped = effects.send(effect);
        });
    }

    fn launch(
        &mut self,
        spec: &ContainerSpec,
        user: &Arc<str>,
        context: LaunchContext,
        localized: Vec<LocalizedResource>,
        localized_in: Duration,
    ) -> Result<(), String> {
        let (id, spec) = (spec.id, *spec);
        let user_name: UserName = user
            .parse()
            .map_err(|error| format!("container {id}: {error}"))?;
        let dirs = self.dirs.clone();
        let user = user.to_string();
        let link = |resource: LocalizedResource| Link {
            link: resource.link,
            target: resource.path,
        };
        let make_plan = move || {
            let places = dirs.create_container_dirs(&id, &user_name);
            let places = places.map_err(|error| crate::error_chain(&error))?;
            let localization_counters = counters_of(&localized, localized_in);
            Ok(LaunchPlan {
                commands: context.commands,
                environment: context.environment,
                credentials: context.credentials,
                links: localized.into_iter().map(link).collect(),
                localization_counters,
                spec: Some(spec),
                ..LaunchPlan::new(id, user, places)
            })
        };
        self.limits.set(id, ContainerLimit::of(&spec));
        if let Some(isolation) = &self.isolation {
            isolation.announce(spec);
        }
        let launched = self
            .launcher
            .launch_with(id, spec.execution_type, Box::new(make_plan));
        launched.map_err(|refused| {
            // Known twice cannot be; of the other reasons nothing has been made yet.
            if let Some(isolation) = &self.isolation {
                isolation.withdraw(id);
            }
            refused.to_string()
        })
    }

    fn pause(&mut self, id: ContainerId) -> bool {
        let isolation = self.isolation.as_ref();
        isolation.map(|isolation| isolation.pause(id)).is_some()
    }

    fn resume(&mut self, id: ContainerId) -> bool {
        let isolation = self.isolation.as_ref();
        isolation.map(|isolation| isolation.resume(id)).is_some()
    }

    fn apply_limits(&mut self, spec: &ContainerSpec) {
        self.limits.set(spec.id, ContainerLimit::of(spec));
        if let Some(isolation) = &self.isolation {
            isolation.apply(*spec);
        }
    }

    fn node_resource(&mut self, total: Resource) {
        if let Some(isolation) = &self.isolation {
            isolation.node_resource(total);
        }
    }

    fn terminate(&mut self, id: ContainerId) {
        self.launcher.terminate(id);
    }

    fn force_kill(&mut self, id: ContainerId) {
        self.launcher.force_kill(id);
    }

    fn signal(&mut self, id: ContainerId, user: &str, signal: ContainerSignal) -> Option<String> {
        self.launcher.signal(id, user, signal)
    }

    fn clean_up(&mut self, id: ContainerId, user: &str) {
        self.limits.remove(&id);
        self.localizer.release(id);
        if let Ok(user) = user.parse::<UserName>() {
            self.deletion
                .delete(self.dirs.container_deletions(&id, &user));
        }
    }

    fn finish_application(&mut self, id: ApplicationId, user: &str) {
        if let Ok(user) = user.parse::<UserName>() {
            self.localizer.application_finished(id, &user);
            self.deletion
                .delete(self.dirs.application_deletions(id, &user));
        }
    }

    fn delete_application_logs(&mut self, id: ApplicationId) {
        self.deletion.delete(self.dirs.log_deletions(id));
    }

    fn localization_statuses(&self, id: &ContainerId) -> Vec<LocalizationStatusProto> {
        let statuses = self.localizer.status(*id).into_iter();
        statuses
            .map(|status| {
                let state = match status.state {
                    LocalizationState::Pending => LocalizationStateProto::LPending,
                    LocalizationState::Completed => LocalizationStateProto::LCompleted,
                    LocalizationState::Failed => LocalizationStateProto::LFailed,
                };
                LocalizationStatusProto {
                    resource_key: Some(status.link),
                    localization_state: Some(state.into()),
                    diagnostics: Some(status.diagnostics),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_told_what_was_fetched_for_it_and_what_was_there() {
        let resource = |bytes, was_cached| LocalizedResource {
            link: String::new(),
            path: "/r".into(),
            bytes,
            was_cached,
        };
        let resources = [resource(5, false), resource(7, true), resource(1, true)];
        let counters = counters_of(&resources, Duration::from_millis(40));
        assert_eq!(counters.to_string(), "5,8,1,2,40");
    }
}
