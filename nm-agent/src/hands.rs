//! What acts for the core on processes and files: launcher, localizer, folders, deletion. Nothing here waits; what takes time
//! happens on the parts' own threads and comes back as an [`Effect`].

use std::collections::BTreeMap;
use std::sync::Arc;

use records::{ApplicationId, ContainerId};
use tokio::sync::mpsc;
use wire::proto::hadoop_yarn::{LocalizationStateProto, LocalizationStatusProto};

use crate::launch::{
    ContainerSignal, LaunchEvent, LaunchPlan, Launcher, Link, LocalizationCounters,
};
use crate::launch_context::LaunchContext;
use crate::localize::{
    DeletionService, LocalizationState, LocalizeRequest, LocalizedResource, Localizer, NodeDirs,
    ResourceSpec, UserName,
};

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
}

/// The parts that act.
pub struct Hands {
    /// Processes.
    pub launcher: Arc<Launcher>,
    /// Resources.
    pub localizer: Localizer,
    /// Folders.
    pub dirs: NodeDirs,
    /// Removes folders in the background.
    pub deletion: DeletionService,
    /// Where effects go.
    pub effects: mpsc::UnboundedSender<Effect>,
}

impl Hands {
    /// Brings resources to the local disk; answers with an effect.
    pub fn localize(
        &self,
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

    /// Makes folders and starts the process on a launch thread; answers with effects.
    ///
    /// # Errors
    /// A text for the AM when the launch was not even queued.
    pub fn launch(
        &self,
        id: ContainerId,
        user: &Arc<str>,
        context: LaunchContext,
        localized: Vec<LocalizedResource>,
    ) -> Result<(), String> {
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
            Ok(LaunchPlan {
                container_id: id,
                user,
                commands: context.commands,
                environment: context.environment,
                credentials: context.credentials,
                links: localized.into_iter().map(link).collect(),
                work_dir: places.work_dir,
                log_dir: places.log_dir,
                nm_private_dir: places.nm_private_dir,
                local_dirs: places.local_dirs,
                local_user_dirs: places.local_user_dirs,
                log_dirs: places.log_dirs,
                service_metadata: BTreeMap::new(),
                localization_counters: LocalizationCounters::default(),
            })
        };
        self.launcher
            .launch_with(id, Box::new(make_plan))
            .map_err(|refused| refused.to_string())
    }

    /// SIGTERM to all processes of a container.
    pub fn terminate(&self, id: ContainerId) {
        self.launcher.terminate(id);
    }

    /// SIGKILL to all processes of a container.
    pub fn force_kill(&self, id: ContainerId) {
        self.launcher.force_kill(id);
    }

    /// Signals a container's process group. The text for its diagnostics; `None` when it has no process.
    pub fn signal(&self, id: ContainerId, user: &str, signal: ContainerSignal) -> Option<String> {
        self.launcher.signal(id, user, signal)
    }

    /// Gives back what a container used: references now, folders in the background.
    pub fn clean_up(&self, id: ContainerId, user: &str) {
        self.localizer.release(id);
        if let Ok(user) = user.parse::<UserName>() {
            self.deletion
                .delete(self.dirs.container_deletions(&id, &user));
        }
    }

    /// Gives back what an application used, but for its logs.
    pub fn finish_application(&self, id: ApplicationId, user: &str) {
        if let Ok(user) = user.parse::<UserName>() {
            self.localizer.application_finished(id, &user);
            self.deletion
                .delete(self.dirs.application_deletions(id, &user));
        }
    }

    /// Deletes the logs of an application.
    pub fn delete_application_logs(&self, id: ApplicationId) {
        self.deletion.delete(self.dirs.log_deletions(id));
    }

    /// How far each resource of a container is.
    #[must_use]
    pub fn localization_statuses(&self, id: &ContainerId) -> Vec<LocalizationStatusProto> {
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
