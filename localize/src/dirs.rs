//! The node's local and log directories, with the folders of containers below them.
//!
//! New files go to the good directories. What lies on full ones is found and removed as well, and
//! failed ones are left alone: `disk_health` decides which are which, and `disk_checks` keeps the
//! result up to date.
//!
//! Blocking file operations throughout: for a thread, not for a task.

mod folder;
mod found;
mod usable;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rand::Rng;
use records::{ApplicationId, ContainerId, EpochMillis};
use users::{Account, Users};

use crate::config::{DirsConfig, DiskHealthConfig};

use super::deletion::Deletion;
use super::disk::{Disk, choose, make_on_all, pick_weighted, pick_with_room, rooms};
use super::disk_checks::{Checks, DiskPlaces, PATIENCE, Round};
use super::disk_health::{Condition, DirKind, DiskHealth, DisksReport};
use super::error::DirsError;
use super::folder_lock::distinct;
use super::kept::KeptResource;
use super::layout::{self, Modes, Scope, Step};
use super::needed::Needed;
use super::own_logs::{self, UnnamedLogs};
use super::user_name::UserName;
use dir_handle::{DirHandle, Owner};

pub use folder::ContainerFolder;

/// Lowest number of a resource (Hadoop: `LocalResourcesTrackerImpl` counts up from 9 before use).
const FIRST_RESOURCE: u64 = 10;

/// The local and log directories. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NodeDirs {
    inner: Arc<Inner>,
    /// Accounts that containers run as; `None`: all as the agent's own user.
    users: Option<Arc<Users>>,
}

#[derive(Debug)]
struct Inner {
    /// Replaced as a whole, so that a reader sees the directories of one moment. Held only to copy
    /// or to set the pointer.
    view: RwLock<Arc<View>>,
    log_dir_permissions: u32,
    /// Lowest number of a resource in the caches.
    first_resource: u64,
    /// Logs of an earlier run that no record names.
    unnamed_logs: Arc<UnnamedLogs>,
}

/// The directories at one moment.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) health: DiskHealth,
    pub(super) places: DiskPlaces,
}

/// Result of [`NodeDirs::start`].
#[derive(Debug)]
pub struct StartedDirs {
    /// The directories.
    pub dirs: NodeDirs,
    /// Checks that follow the first, for [`DiskChecker`](super::DiskChecker).
    pub checks: DiskChecks,
    /// Renamed folders of an earlier run, for the deletion service.
    pub leftovers: Vec<Deletion>,
    /// Resources of an earlier run that are in the caches as they were recorded.
    pub cached: Vec<KeptResource>,
}

/// State that the checks of the directories keep from one to the next.
#[derive(Debug)]
pub struct DiskChecks(pub(super) Checks);

/// Folder of an application on one local directory.
#[derive(Clone, Debug)]
pub struct ApplicationFolder {
    /// Handle of the local directory.
    pub root: Arc<DirHandle>,
    /// Path of the folder below it.
    pub below: PathBuf,
    /// Absolute path, as containers know it.
    pub path: PathBuf,
}

/// Folders of one container, created and ready.
#[derive(Clone, Debug)]
pub struct ContainerDirs {
    /// Working directory of the container's process, `<local>/usercache/USER/appcache/APP/CID`.
    pub work_dir: ContainerFolder,
    /// Folder of the container's output, `<log>/APP/CID` (`<LOG_DIR>`).
    pub log_dir: ContainerFolder,
    /// Folders of the application, one on every good local directory (`LOCAL_DIRS`); not empty.
    pub local_dirs: Vec<PathBuf>,
    /// Folders of the user, one on every good local directory (`LOCAL_USER_DIRS`); not empty.
    pub local_user_dirs: Vec<PathBuf>,
    /// Folders of the container, one on every good log directory (`LOG_DIRS`); not empty.
    pub log_dirs: Vec<PathBuf>,
}

impl View {
    /// Returns the directories that get new files, with their indexes.
    fn good(&self, kind: DirKind) -> Vec<(usize, Arc<Disk>)> {
        self.open(kind, |condition| *condition == Condition::Good)
    }

    /// Returns the directories whose files are read and removed.
    fn readable(&self, kind: DirKind) -> Vec<Arc<Disk>> {
        let readable = self.open(kind, |condition| match condition {
            Condition::Good | Condition::Full(_) => true,
            Condition::Failed(_) => false,
        });
        readable.into_iter().map(|(_, disk)| disk).collect()
    }

    fn open(&self, kind: DirKind, is_wanted: fn(&Condition) -> bool) -> Vec<(usize, Arc<Disk>)> {
        let disks = self.places.of(kind).iter().enumerate();
        let wanted = disks.filter_map(|(index, place)| {
            let is_wanted = self.health.condition(kind, index).is_some_and(is_wanted);
            let disk = place.disk.as_ref().filter(|_| is_wanted)?;
            Some((index, Arc::clone(disk)))
        });
        wanted.collect()
    }
}

impl NodeDirs {
    /// Opens the configured directories and creates missing ones, for a node that recovers nothing:
    /// folders of an earlier run are renamed to `…_DEL_<milliseconds>` and returned for deletion,
    /// those of logs for a later one.
    /// With `health`, a directory that cannot be used is checked again later, and the node starts
    /// without any.
    ///
    /// # Errors
    /// [`DirsError::InUse`] if another agent uses one of the directories.
    /// [`DirsError::NoneUsable`] if directories are not checked and none of a kind can be used.
    /// [`DirsError::NoThread`] if the system starts no thread.
    pub fn start(
        config: &DirsConfig,
        health: Option<DiskHealthConfig>,
        now: EpochMillis,
    ) -> Result<StartedDirs, DirsError> {
        Self::open_each(config, health, now, None)
    }

    /// Opens the directories like [`Self::start`], for a node that recovers containers: what they
    /// need stays where it is, and everything else of an earlier run is returned for deletion.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn start_again(
        config: &DirsConfig,
        health: Option<DiskHealthConfig>,
        now: EpochMillis,
        needed: Needed,
    ) -> Result<StartedDirs, DirsError> {
        Self::open_each(config, health, now, Some(Arc::new(needed)))
    }

    fn open_each(
        config: &DirsConfig,
        health: Option<DiskHealthConfig>,
        now: EpochMillis,
        needed: Option<Arc<Needed>>,
    ) -> Result<StartedDirs, DirsError> {
        let first_resource = match &needed {
            None => FIRST_RESOURCE,
            // Beyond those of every earlier run, whose folders may stay.
            Some(_) => u64::try_from(now.0).unwrap_or(0).max(FIRST_RESOURCE),
        };
        let distinct = |paths: &[PathBuf]| distinct(paths, PATIENCE).map_err(DirsError::NoThread);
        let config = DirsConfig {
            local_dirs: distinct(&config.local_dirs)?,
            log_dirs: distinct(&config.log_dirs)?,
            ..*config
        };
        let retain = Duration::from_secs(config.log_retain_sec);
        let unnamed_logs = Arc::new(UnnamedLogs::new(retain));
        let view = View {
            health: DiskHealth::new(health, &config.local_dirs, &config.log_dirs),
            places: DiskPlaces::new(&config, needed, first_resource, &unnamed_logs),
        };
        let inner = Arc::new(Inner {
            view: RwLock::new(Arc::new(view)),
            log_dir_permissions: config.log_dir_permissions,
            first_resource,
            unnamed_logs,
        });
        let dirs = Self { inner, users: None };
        let mut checks = Checks::default();
        let Round { earlier, in_use } = checks.round(&dirs, now)?;
        if let Some((path, holder)) = in_use {
            let holder = holder.to_string();
            return Err(DirsError::InUse { path, holder });
        }
        let view = dirs.view();
        for kind in [DirKind::Local, DirKind::Log] {
            if health.is_none() && view.good(kind).is_empty() {
                let causes = view.health.causes(kind);
                let kind = kind.as_str();
                return Err(DirsError::NoneUsable { kind, causes });
            }
        }
        Ok(StartedDirs {
            dirs,
            checks: DiskChecks(checks),
            leftovers: earlier.leftovers,
            cached: earlier.cached,
        })
    }

    /// Has folders of users belong to the accounts that their containers run as.
    #[must_use]
    pub fn for_users(self, users: Option<Arc<Users>>) -> Self {
        Self { users, ..self }
    }

    /// Returns the account that a user's containers run as; `None`: the agent's own. May wait for a
    /// directory server.
    ///
    /// # Errors
    /// [`DirsError::User`] if the user may not run containers.
    pub fn account_of(&self, user: &UserName) -> Result<Option<Arc<Account>>, DirsError> {
        let users = self.users.as_ref();
        let account = users.map(|users| users.run_as(user.as_str())).transpose();
        account.map_err(DirsError::User)
    }

    /// Returns the account whose rights suffice for resources of this cache; `None`: the agent's.
    pub(super) fn reader_of(&self, scope: &Scope) -> Result<Option<Arc<Account>>, DirsError> {
        match scope.user() {
            Some(user) => self.account_of(user),
            None => Ok(self.users.as_ref().map(|_| Arc::new(Account::anybody()))),
        }
    }

    /// Returns the owner of the folders of a user.
    pub(super) fn owner_of(&self, user: &UserName) -> Result<Option<Owner>, DirsError> {
        let account = self.account_of(user)?;
        Ok(account.and_then(|account| self.owner(account.uid())))
    }

    /// Returns the owner of the folders of an account; `None`: all are the agent's.
    pub(super) fn owner(&self, user: u32) -> Option<Owner> {
        let group = self.users.as_ref()?.file_group();
        Some(Owner { user, group })
    }

    /// Returns the modes of the folders of users.
    pub(super) fn modes(&self) -> Modes {
        match self.users {
            None => Modes::OF_AGENT,
            Some(_) => Modes::OF_USERS,
        }
    }

    pub(super) fn view(&self) -> Arc<View> {
        let view = self.inner.view.read();
        Arc::clone(&view.unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_view(&self, new: View) {
        let view = self.inner.view.write();
        *view.unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
    }

    /// Returns the outcome of the last check of all directories.
    #[must_use]
    pub fn report(&self) -> DisksReport {
        self.view().health.report()
    }

    /// Makes sure that enough directories are good for containers to start.
    ///
    /// # Errors
    /// [`DirsError::DisksFailed`] otherwise.
    pub fn require_enough(&self) -> Result<(), DirsError> {
        match self.view().health.failure() {
            None => Ok(()),
            Some(report) => Err(DirsError::DisksFailed { report }),
        }
    }

    /// Creates the work folder of a container on every good local directory and its log folder on
    /// every good log directory, and chooses one of each for it, at random weighted by free space.
    /// Applications spread over all of them.
    ///
    /// # Errors
    /// [`DirsError`] if the chosen directories are full, a folder cannot be created or the user may
    /// not run containers; other disks that fail are left out of the lists.
    pub fn create_container_dirs(
        &self,
        container: &ContainerId,
        user: &UserName,
    ) -> Result<ContainerDirs, DirsError> {
        let owner = self.owner_of(user)?;
        let work = layout::work_steps(self.modes(), user, container);
        let log_mode = owner.map_or(self.inner.log_dir_permissions, |_| Modes::LOGS_OF_USERS);
        let logs = layout::log_steps(container, log_mode);
        let view = self.view();
        let good = |kind| -> Vec<_> { view.good(kind).into_iter().map(|(_, disk)| disk).collect() };
        let (local, log) = (good(DirKind::Local), good(DirKind::Log));
        let work_disk = choose(&local, &mut rand::rng())?;
        let log_disk = choose(&log, &mut rand::rng())?;
        let application = container.application_id();
        let log_disks = view.readable(DirKind::Log);
        self.inner.unnamed_logs.keep(application, &log_disks);
        log.iter()
            .for_each(|disk| own_logs::mark(disk, application));
        let (local_made, work_made) = make_on_all(&local, work_disk, &work, owner)?;
        let (logs_made, log_made) = make_on_all(&log, log_disk, &logs, owner)?;

        // The steps to a work directory end in …/USER/appcache/APP/CID.
        let application = &work[..work.len() - 1];
        let user_folder = &work[..work.len() - 3];
        let on_all = |disks: &[&Arc<Disk>], steps: &[Step]| {
            let paths = disks.iter().map(|disk| layout::path_of(&disk.path, steps));
            paths.collect()
        };
        Ok(ContainerDirs {
            work_dir: ContainerFolder::on(work_disk, &work, work_made).owned_by(owner),
            log_dir: ContainerFolder::on(log_disk, &logs, log_made).owned_by(owner),
            local_dirs: on_all(&local_made, application),
            local_user_dirs: on_all(&local_made, user_folder),
            log_dirs: on_all(&logs_made, &logs),
        })
    }

    /// Returns the folders to delete when a container has ended: its work folders.
    #[must_use]
    pub fn container_deletions(&self, container: &ContainerId, user: &UserName) -> Vec<Deletion> {
        let work = layout::names(layout::work_steps(self.modes(), user, container));
        on_each(&self.view().readable(DirKind::Local), &work)
    }

    /// Returns the folders to delete when an application has ended. Not before: they hold map
    /// outputs that other nodes fetch.
    #[must_use]
    pub fn application_deletions(
        &self,
        application: ApplicationId,
        user: &UserName,
    ) -> Vec<Deletion> {
        let work = layout::names(layout::application_steps(self.modes(), user, application));
        on_each(&self.view().readable(DirKind::Local), &work)
    }

    /// Returns the application's folder on each local directory. The application may have put a
    /// link anywhere on the path.
    #[must_use]
    pub fn application_folders(
        &self,
        application: ApplicationId,
        user: &UserName,
    ) -> Vec<ApplicationFolder> {
        let steps = layout::application_steps(self.modes(), user, application);
        let below = layout::path_of(Path::new(""), &steps);
        let on = |disk: &Arc<Disk>| ApplicationFolder {
            root: Arc::clone(&disk.root),
            path: disk.path.join(&below),
            below: below.clone(),
        };
        self.view()
            .readable(DirKind::Local)
            .iter()
            .map(on)
            .collect()
    }

    /// Returns the log folders of an application, to delete `yarn.nodemanager.log.retain-seconds`
    /// after its end.
    #[must_use]
    pub fn log_deletions(&self, application: ApplicationId) -> Vec<Deletion> {
        let disks = self.view().readable(DirKind::Log);
        let on_disk = |disk: &Arc<Disk>| Deletion::of_logs(disk, application);
        disks.iter().map(on_disk).collect()
    }

    /// Opens the log folders of an application, those that exist, sorted by their paths.
    #[must_use]
    pub fn open_log_folders(&self, application: ApplicationId) -> Vec<DirHandle> {
        let name = application.to_string();
        let mut disks = self.view().readable(DirKind::Log);
        disks.sort_by(|one, other| one.path.cmp(&other.path));
        let opened = disks.iter().map(|disk| disk.root.open(&name));
        opened.filter_map(Result::ok).collect()
    }

    /// Returns the local directories, in the configured order.
    #[must_use]
    pub fn local_dirs(&self) -> Vec<PathBuf> {
        let view = self.view();
        let paths = view.health.paths(DirKind::Local);
        paths.map(Path::to_path_buf).collect()
    }

    /// Returns the directories of a kind whose files are read and removed.
    pub(super) fn readable(&self, kind: DirKind) -> Vec<Arc<Disk>> {
        self.view().readable(kind)
    }

    /// Returns the lowest number that a resource may have in a cache.
    pub(super) fn first_resource(&self) -> u64 {
        self.inner.first_resource
    }

    /// Returns a local directory by its index, as long as its files can be read.
    pub(super) fn local(&self, index: usize) -> Option<Arc<Disk>> {
        let view = self.view();
        match view.health.condition(DirKind::Local, index)? {
            Condition::Good | Condition::Full(_) => {
                view.places.of(DirKind::Local).get(index)?.disk.clone()
            }
            Condition::Failed(_) => None,
        }
    }

    /// Chooses the good local directory for a download and returns its index. With a known size the
    /// next one from a random start that has room for more; otherwise at random weighted by room
    /// (Hadoop: `LocalDirAllocator.getLocalPathForWrite`).
    pub(super) fn choose_for(&self, bytes: u64, rng: &mut impl Rng) -> Result<usize, DirsError> {
        let (indexes, disks): (Vec<_>, Vec<_>) =
            self.view().good(DirKind::Local).into_iter().unzip();
        let rooms = rooms(&disks);
        let chosen = if bytes == 0 {
            pick_weighted(&rooms, rng)
        } else {
            pick_with_room(&rooms, bytes, rng)
        };
        let index = chosen.and_then(|chosen| indexes.get(chosen).copied());
        index.ok_or(DirsError::NoRoom { bytes })
    }
}

fn on_each(disks: &[Arc<Disk>], folder: &[String]) -> Vec<Deletion> {
    let on_disk = |disk: &Arc<Disk>| Deletion::new(disk.clone(), folder.to_owned());
    disks.iter().map(on_disk).collect()
}

#[cfg(test)]
mod tests;
