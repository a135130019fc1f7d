//! The applications that have, or had, containers on this node. Pure.
//!
//! ```text
//!  first container       finish ordered         last container done       logs deleted
//!  ─────────────► Running ────────────► Finishing ────────────────► Finished ─────────► forgotten
//! ```
//!
//! The names are Hadoop's (`ApplicationState`): RUNNING, FINISHING_CONTAINERS_WAIT, FINISHED. A
//! finished application stays known until its logs are deleted, so that their pages go on working.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use launch_context::HeldList;
use localize::UserName;
use records::{ApplicationId, ContainerId, MonoMillis};

use crate::effect::Effect;
use crate::end::{End, Part};

/// Applications known at once. A finished one is kept for `yarn.nodemanager.log.retain-seconds` (3
/// hours by default) and takes about 200 bytes; a node that meets more than five new ones a second
/// for that long refuses further ones.
pub const APPLICATIONS_MAX: usize = 65_536;

/// State of an application in its life on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationState {
    /// Containers may be started.
    Running,
    /// Containers of the application are being killed.
    Finishing,
    /// Directories of the application are gone; its logs are kept until they are old enough.
    Finished {
        /// When the logs are to be deleted; `None` while they are being uploaded.
        delete_logs_at: Option<MonoMillis>,
    },
}

impl ApplicationState {
    /// Hadoop's name, as in REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Finishing => "FINISHING_CONTAINERS_WAIT",
            Self::Finished { .. } => "FINISHED",
        }
    }
}

/// An application that has, or had, containers on this node.
#[derive(Clone, Debug)]
pub struct Application {
    /// User who submitted the application; the names of its folders and the log pages use it.
    pub user: UserName,
    /// State in the application's life.
    pub state: ApplicationState,
    /// Containers of the application in the agent's memory, done or not.
    pub containers: BTreeSet<ContainerId>,
    /// Containers that are not done: a part of `containers`.
    pub live: BTreeSet<ContainerId>,
    /// Who may see what the containers write; `None`: the user and administrators only.
    pub view_list: Option<Arc<HeldList>>,
}

/// Table of the applications by id.
#[derive(Debug, Default)]
pub struct Applications {
    by_id: BTreeMap<ApplicationId, Application>,
    /// Finished applications, by the time at which their logs are deleted.
    log_deletions: BTreeSet<(MonoMillis, ApplicationId)>,
    /// Set once the agent is stopping: no container starts any more.
    is_stopping: bool,
    /// Whether a caller waits until no container lives. Set by a stop and by a resync that keeps no
    /// containers.
    is_end_awaited: bool,
}

/// Result of adding a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// Added to an application that is new here.
    ToNewApplication,
    /// Added to an application that is running.
    ToRunning,
    /// Added to an application that is ending: the container is accepted and then killed, as Hadoop
    /// does.
    ToEnding,
    /// Refused, because [`APPLICATIONS_MAX`] applications are known.
    Refused,
}

impl Applications {
    /// Adds a live container to its application, made if it is new.
    pub fn add_container(&mut self, id: ContainerId, user: &UserName) -> Added {
        let application_id = id.application_id();
        let known = self.by_id.len();
        let mut added = Added::ToRunning;
        let application = match self.by_id.entry(application_id) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(_) if known >= APPLICATIONS_MAX => {
                return Added::Refused;
            }
            std::collections::btree_map::Entry::Vacant(entry) => {
                added = Added::ToNewApplication;
                entry.insert(Application {
                    user: user.clone(),
                    state: ApplicationState::Running,
                    containers: BTreeSet::new(),
                    live: BTreeSet::new(),
                    view_list: None,
                })
            }
        };
        match application.state {
            ApplicationState::Running => {}
            ApplicationState::Finishing => added = Added::ToEnding,
            ApplicationState::Finished { delete_logs_at } => {
                // It finishes anew once this container has been killed.
                if let Some(at) = delete_logs_at {
                    self.log_deletions.remove(&(at, application_id));
                }
                application.state = ApplicationState::Finishing;
                added = Added::ToEnding;
            }
        }
        application.containers.insert(id);
        application.live.insert(id);
        added
    }

    /// Sets who may see what the containers of an application write, if it is known.
    pub fn set_view_list(&mut self, id: &ApplicationId, list: HeldList) {
        if let Some(application) = self.by_id.get_mut(id) {
            application.view_list = Some(Arc::new(list));
        }
    }

    /// Adds an application of an earlier agent.
    pub fn restore(&mut self, id: ApplicationId, user: UserName, state: ApplicationState) {
        if let ApplicationState::Finished {
            delete_logs_at: Some(at),
        } = state
        {
            self.log_deletions.insert((at, id));
        }
        self.by_id.insert(
            id,
            Application {
                user,
                state,
                view_list: None,
                containers: BTreeSet::new(),
                live: BTreeSet::new(),
            },
        );
    }

    /// The application, if known.
    #[must_use]
    pub fn get(&self, id: &ApplicationId) -> Option<&Application> {
        self.by_id.get(id)
    }

    /// Iterates over the applications in id order.
    pub fn iter(&self) -> impl Iterator<Item = (&ApplicationId, &Application)> {
        self.by_id.iter()
    }

    /// The applications that are not finished: what a registration calls running.
    pub fn unfinished(&self) -> impl Iterator<Item = ApplicationId> {
        self.by_id
            .iter()
            .filter_map(|(id, application)| match application.state {
                ApplicationState::Running | ApplicationState::Finishing => Some(*id),
                ApplicationState::Finished { .. } => None,
            })
    }

    /// Whether containers of it may run.
    #[must_use]
    pub fn is_running(&self, id: &ApplicationId) -> bool {
        self.by_id
            .get(id)
            .is_some_and(|application| application.state == ApplicationState::Running)
    }

    /// Orders the end of an application. Returns whether it is known and was running.
    pub fn finish(&mut self, id: &ApplicationId) -> bool {
        match self.by_id.get_mut(id) {
            Some(application) if application.state == ApplicationState::Running => {
                application.state = ApplicationState::Finishing;
                true
            }
            Some(_) | None => false,
        }
    }

    /// A container is done. Its application may now be ready for [`Self::finished`].
    pub fn container_done(&mut self, id: &ContainerId) {
        if let Some(application) = self.by_id.get_mut(&id.application_id()) {
            application.live.remove(id);
        }
    }

    /// A container has left the agent's memory.
    pub fn container_forgotten(&mut self, id: &ContainerId) {
        if let Some(application) = self.by_id.get_mut(&id.application_id()) {
            application.live.remove(id);
            application.containers.remove(id);
        }
    }

    /// Whether its end was ordered and no container of it lives any more.
    #[must_use]
    pub fn is_ready_to_finish(&self, id: &ApplicationId) -> bool {
        self.by_id.get(id).is_some_and(|application| {
            application.state == ApplicationState::Finishing && application.live.is_empty()
        })
    }

    /// Marks an application as finished, whose directories are being deleted and whose logs follow
    /// at `delete_logs_at`, or when [`Self::logs_done`] says. Returns the application's user.
    pub fn finished(
        &mut self,
        id: &ApplicationId,
        delete_logs_at: Option<MonoMillis>,
    ) -> Option<UserName> {
        let application = self.by_id.get_mut(id)?;
        application.state = ApplicationState::Finished { delete_logs_at };
        if let Some(at) = delete_logs_at {
            self.log_deletions.insert((at, *id));
        }
        Some(application.user.clone())
    }

    /// Sets when the logs of a finished application are deleted, which were being uploaded. One
    /// that finishes anew will be uploaded anew.
    pub fn logs_done(&mut self, id: &ApplicationId, delete_logs_at: MonoMillis) {
        if let Some(application) = self.by_id.get_mut(id)
            && let ApplicationState::Finished {
                delete_logs_at: at @ None,
            } = &mut application.state
        {
            *at = Some(delete_logs_at);
            self.log_deletions.insert((delete_logs_at, *id));
        }
    }

    /// Begins the end of the agent: its callers wait until no container lives.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        self.is_end_awaited = true;
    }

    /// Returns whether the agent is stopping, so that no container starts any more.
    #[must_use]
    pub const fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Notes that a caller waits until no container lives.
    pub fn await_end(&mut self) {
        self.is_end_awaited = true;
    }

    /// Returns whether a caller waits until no container lives.
    #[must_use]
    pub const fn is_end_awaited(&self) -> bool {
        self.is_end_awaited
    }

    /// Returns whether a caller waited for the end of all containers, which has come.
    pub fn take_all_ended(&mut self) -> bool {
        let is_over = self.is_end_awaited && self.live_containers() == 0;
        self.is_end_awaited &= !is_over;
        is_over
    }

    /// Returns the number of containers that are not done.
    #[must_use]
    pub fn live_containers(&self) -> usize {
        let applications = self.by_id.values();
        applications.map(|application| application.live.len()).sum()
    }

    /// When the next logs are due for deletion.
    #[must_use]
    pub fn next_log_deletion(&self) -> Option<MonoMillis> {
        self.log_deletions.first().map(|(at, _)| *at)
    }

    /// Forgets and returns an application whose logs are due for deletion; `None` when none is.
    pub fn take_log_deletion(&mut self, now: MonoMillis) -> Option<ApplicationId> {
        let &(at, id) = self.log_deletions.first()?;
        if at > now {
            return None;
        }
        self.log_deletions.pop_first();
        self.by_id.remove(&id);
        Some(id)
    }
}

impl Part for Applications {
    fn ended(&mut self, end: &End<'_>, _: &mut Vec<Effect>) {
        self.container_done(&end.id());
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::container;

    use super::*;

    fn user() -> UserName {
        "alice".parse().unwrap()
    }

    #[test]
    fn an_application_is_ready_to_finish_only_when_its_end_was_ordered_and_nothing_lives() {
        let mut applications = Applications::default();
        let id = container(1).application_id();
        assert_eq!(
            applications.add_container(container(1), &user()),
            Added::ToNewApplication
        );
        assert_eq!(
            applications.add_container(container(2), &user()),
            Added::ToRunning
        );
        applications.container_done(&container(1));
        applications.container_done(&container(2));
        assert!(
            !applications.is_ready_to_finish(&id),
            "the next container may come any time"
        );
        assert!(applications.finish(&id));
        assert!(!applications.finish(&id), "only once");
        assert!(applications.is_ready_to_finish(&id));
        applications.finished(&id, Some(MonoMillis(10)));
        assert_eq!(applications.unfinished().count(), 0);
        assert_eq!(applications.take_log_deletion(MonoMillis(9)), None);
        assert_eq!(applications.take_log_deletion(MonoMillis(10)), Some(id));
        assert!(applications.get(&id).is_none());
    }

    #[test]
    fn a_container_for_a_finished_application_makes_it_finish_anew() {
        let mut applications = Applications::default();
        let id = container(1).application_id();
        applications.add_container(container(1), &user());
        applications.finish(&id);
        applications.container_done(&container(1));
        applications.finished(&id, Some(MonoMillis(10)));
        assert_eq!(
            applications.add_container(container(2), &user()),
            Added::ToEnding
        );
        assert_eq!(applications.next_log_deletion(), None);
        applications.container_done(&container(2));
        assert!(applications.is_ready_to_finish(&id));
    }

    #[test]
    fn the_number_of_applications_is_bounded() {
        let mut applications = Applications::default();
        for n in 0..i32::try_from(APPLICATIONS_MAX).unwrap() {
            let id = ApplicationId::new(1, n).attempt(1).container(1);
            applications.add_container(id, &user());
        }
        let one_more = ApplicationId::new(2, 1).attempt(1).container(1);
        assert_eq!(
            applications.add_container(one_more, &user()),
            Added::Refused
        );
    }
}
