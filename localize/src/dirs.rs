//! The node's local and log directories: opened once at start, and the folders of containers below
//! them.
//!
//! Blocking file operations throughout: for a thread, not for a task.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::{Rng, RngExt};
use records::{ApplicationId, ContainerId, EpochMillis};

use crate::config::DirsConfig;

use super::deletion::Deletion;
use super::error::{DirsError, UnusableDir};
use super::layout::{self, Step};
use super::start;
use super::user_name::UserName;
use dir_handle::DirHandle;

/// A local or log directory and its handle.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) path: PathBuf,
    pub(super) root: Arc<DirHandle>,
}

/// The usable local and log directories. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NodeDirs {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Local directories in the configured order, never empty.
    local: Vec<Arc<Disk>>,
    /// Log directories in the configured order, never empty.
    logs: Vec<Arc<Disk>>,
    log_dir_permissions: u32,
}

/// Result of [`NodeDirs::start`].
#[derive(Debug)]
pub struct StartedDirs {
    /// Usable directories.
    pub dirs: NodeDirs,
    /// Configured directories that cannot be used, for the node's health report.
    pub unusable: Vec<UnusableDir>,
    /// Renamed folders of an earlier run, for the deletion service.
    pub leftovers: Vec<Deletion>,
}

/// Folder of a container on one of the node's disks. Its path is for texts; whoever uses the folder
/// opens it from the disk's directory.
#[derive(Clone, Debug)]
pub struct ContainerFolder {
    root: Arc<DirHandle>,
    /// Path below `root`.
    below: PathBuf,
    path: PathBuf,
}

impl ContainerFolder {
    /// Names the folder `below` an open directory, which is at `root_path`.
    pub fn new(root: Arc<DirHandle>, root_path: &Path, below: PathBuf) -> Self {
        Self {
            root,
            path: root_path.join(&below),
            below,
        }
    }

    fn on(disk: &Disk, steps: &[Step]) -> Self {
        let below = layout::path_of(Path::new(""), steps);
        Self::new(Arc::clone(&disk.root), &disk.path, below)
    }

    /// Returns the absolute path. The container's user may have put a link anywhere on it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the folder without leaving the disk's directory.
    ///
    /// # Errors
    /// The folder is gone, or a link or a mount is on the way to it.
    pub fn open(&self) -> io::Result<DirHandle> {
        self.root.open_beneath(&self.below)
    }
}

/// Folders of one container, created and ready.
#[derive(Clone, Debug)]
pub struct ContainerDirs {
    /// Working directory of the container's process, `<local>/usercache/USER/appcache/APP/CID`.
    pub work_dir: ContainerFolder,
    /// Folder of the container's output, `<log>/APP/CID` (`<LOG_DIR>`).
    pub log_dir: ContainerFolder,
    /// Folders of the application, one on every usable local directory (`LOCAL_DIRS`); not empty.
    pub local_dirs: Vec<PathBuf>,
    /// Folders of the user, one on every usable local directory (`LOCAL_USER_DIRS`); not empty.
    pub local_user_dirs: Vec<PathBuf>,
    /// Folders of the container, one on every usable log directory (`LOG_DIRS`); not empty.
    pub log_dirs: Vec<PathBuf>,
}

impl NodeDirs {
    /// Opens the configured directories and creates missing ones, for a node that recovers nothing:
    /// folders of an earlier run are renamed to `…_DEL_<milliseconds>` and returned for deletion.
    ///
    /// # Errors
    /// [`DirsError::NoneUsable`] if no local or no log directory can be used; a single bad one is
    /// only reported.
    pub fn start(config: &DirsConfig, now: EpochMillis) -> Result<StartedDirs, DirsError> {
        let mut leftovers = Vec::new();
        let mut unusable = Vec::new();
        let mut open_each = |paths: &[PathBuf], kind, open: start::Open| {
            let mut disks = Vec::new();
            let mut causes = Vec::new();
            for path in paths {
                match open(path, now, &mut leftovers) {
                    Ok(disk) => disks.push(disk),
                    Err(error) => causes.push(UnusableDir {
                        path: path.clone(),
                        error,
                    }),
                }
            }
            if disks.is_empty() {
                return Err(DirsError::NoneUsable { kind, causes });
            }
            unusable.extend(causes);
            Ok(disks)
        };
        let local = open_each(&config.local_dirs, "local-dirs", start::open_local_dir)?;
        let logs = open_each(&config.log_dirs, "log-dirs", start::open_log_dir)?;
        let inner = Arc::new(Inner {
            local,
            logs,
            log_dir_permissions: config.log_dir_permissions,
        });
        Ok(StartedDirs {
            dirs: Self { inner },
            unusable,
            leftovers,
        })
    }

    /// Creates the work folder of a container on every local directory and its log folder on every
    /// log directory, and chooses one of each for it, at random weighted by free space.
    /// Applications spread over all directories.
    ///
    /// # Errors
    /// [`DirsError`] if the chosen directories are full or a folder cannot be created; other disks
    /// that fail are left out of the lists.
    pub fn create_container_dirs(
        &self,
        container: &ContainerId,
        user: &UserName,
    ) -> Result<ContainerDirs, DirsError> {
        let work = layout::work_steps(user, container);
        let logs = layout::log_steps(container, self.inner.log_dir_permissions);
        let work_disk = choose(&self.inner.local, &mut rand::rng())?;
        let log_disk = choose(&self.inner.logs, &mut rand::rng())?;
        let local_made = make_on_all(&self.inner.local, work_disk, &work)?;
        let logs_made = make_on_all(&self.inner.logs, log_disk, &logs)?;

        // The steps to a work directory end in …/USER/appcache/APP/CID.
        let application = &work[..work.len() - 1];
        let user_folder = &work[..work.len() - 3];
        let on_all = |disks: &[&Arc<Disk>], steps: &[Step]| {
            let paths = disks.iter().map(|disk| layout::path_of(&disk.path, steps));
            paths.collect()
        };
        Ok(ContainerDirs {
            work_dir: ContainerFolder::on(work_disk, &work),
            log_dir: ContainerFolder::on(log_disk, &logs),
            local_dirs: on_all(&local_made, application),
            local_user_dirs: on_all(&local_made, user_folder),
            log_dirs: on_all(&logs_made, &logs),
        })
    }

    /// Returns the folders to delete when a container has ended: its work folders.
    #[must_use]
    pub fn container_deletions(&self, container: &ContainerId, user: &UserName) -> Vec<Deletion> {
        let work = layout::names(layout::work_steps(user, container));
        on_each(&self.inner.local, &work)
    }

    /// Returns the folders to delete when an application has ended. Not before: they hold map
    /// outputs that other nodes fetch.
    #[must_use]
    pub fn application_deletions(
        &self,
        application: ApplicationId,
        user: &UserName,
    ) -> Vec<Deletion> {
        let work = layout::names(layout::application_steps(user, application));
        on_each(&self.inner.local, &work)
    }

    /// Returns the application's folder on each local directory: the directory's handle and the
    /// path below it. The application may have put a link anywhere on the path.
    #[must_use]
    pub fn application_folders(
        &self,
        application: ApplicationId,
        user: &UserName,
    ) -> Vec<(Arc<DirHandle>, PathBuf)> {
        let steps = layout::application_steps(user, application);
        let below = layout::path_of(Path::new(""), &steps);
        let on = |disk: &Arc<Disk>| (Arc::clone(&disk.root), below.clone());
        self.inner.local.iter().map(on).collect()
    }

    /// Returns the log folders of an application, to delete `yarn.nodemanager.log.retain-seconds`
    /// after its end.
    #[must_use]
    pub fn log_deletions(&self, application: ApplicationId) -> Vec<Deletion> {
        on_each(&self.inner.logs, &[application.to_string()])
    }

    /// Opens the log folders of an application, those that exist, sorted by their paths.
    #[must_use]
    pub fn open_log_folders(&self, application: ApplicationId) -> Vec<DirHandle> {
        let name = application.to_string();
        let mut disks: Vec<_> = self.inner.logs.iter().collect();
        disks.sort_by_key(|disk| &disk.path);
        let opened = disks.into_iter().map(|disk| disk.root.open(&name));
        opened.filter_map(Result::ok).collect()
    }

    /// Returns the usable log directories, in the configured order.
    pub fn log_dirs(&self) -> impl Iterator<Item = &Path> {
        self.inner.logs.iter().map(|disk| disk.path.as_path())
    }

    /// Returns the usable local directories, in the configured order.
    pub fn local_dirs(&self) -> impl Iterator<Item = &Path> {
        self.inner.local.iter().map(|disk| disk.path.as_path())
    }

    /// Returns a local directory by its index.
    pub(super) fn local(&self, index: usize) -> Option<&Arc<Disk>> {
        self.inner.local.get(index)
    }

    /// Chooses the local directory for a download and returns its index. With a known size the next
    /// one from a random start that has more than this free; otherwise at random weighted by free
    /// space (Hadoop: `LocalDirAllocator.getLocalPathForWrite`).
    pub(super) fn choose_for(&self, bytes: u64, rng: &mut impl Rng) -> Result<usize, DirsError> {
        let free = free_bytes(&self.inner.local);
        let chosen = if bytes == 0 {
            pick_weighted(&free, rng)
        } else {
            pick_with_room(&free, bytes, rng)
        };
        chosen.ok_or(DirsError::NoRoom { bytes })
    }
}

impl Disk {
    /// Opens the folder at the end of the steps, and creates missing ones.
    pub(super) fn ensure(&self, steps: &[Step]) -> Result<DirHandle, DirsError> {
        let fail = |source| DirsError::Io {
            action: "create",
            path: layout::path_of(&self.path, steps),
            source,
        };
        let Some(((name, mode), parents)) = steps.split_last() else {
            return self.root.try_clone().map_err(fail);
        };
        // The folders above a container's mostly exist, and its own does not.
        let above = layout::path_of(Path::new("."), parents);
        let mut folder = match self.root.open_beneath(&above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.root.try_clone().map_err(fail)?
            }
            opened => {
                return opened
                    .and_then(|above| above.create_or_open(name, *mode))
                    .map_err(fail);
            }
        };
        for (name, mode) in steps {
            folder = folder.ensure(name, *mode).map_err(fail)?;
        }
        Ok(folder)
    }
}

/// Creates the folder on the chosen disk, and on the others where possible. Returns the disks that
/// have it.
fn make_on_all<'a>(
    disks: &'a [Arc<Disk>],
    chosen: &Arc<Disk>,
    steps: &[Step],
) -> Result<Vec<&'a Arc<Disk>>, DirsError> {
    let mut made = Vec::with_capacity(disks.len());
    for disk in disks {
        match disk.ensure(steps) {
            Ok(_) => made.push(disk),
            Err(error) if Arc::ptr_eq(disk, chosen) => return Err(error),
            Err(error) => tracing::warn!(
                error = crate::error_chain(&error),
                "directory left out for this container"
            ),
        }
    }
    Ok(made)
}

fn on_each(disks: &[Arc<Disk>], folder: &[String]) -> Vec<Deletion> {
    let on_disk = |disk: &Arc<Disk>| Deletion::new(disk.clone(), folder.to_owned());
    disks.iter().map(on_disk).collect()
}

fn choose<'a>(disks: &'a [Arc<Disk>], rng: &mut impl Rng) -> Result<&'a Arc<Disk>, DirsError> {
    if let [only] = disks {
        return Ok(only);
    }
    let index = pick_weighted(&free_bytes(disks), rng);
    let disk = index.and_then(|index| disks.get(index));
    disk.ok_or(DirsError::NoRoom { bytes: 1 })
}

/// Returns the free bytes of each disk; 0 for one that does not answer, so that it is not chosen.
fn free_bytes(disks: &[Arc<Disk>]) -> Vec<u64> {
    let free = |disk: &Arc<Disk>| disk.root.free_bytes().unwrap_or(0);
    disks.iter().map(free).collect()
}

fn pick_weighted(weights: &[u64], rng: &mut impl Rng) -> Option<usize> {
    let total: u128 = weights.iter().copied().map(u128::from).sum();
    if total == 0 {
        return None;
    }
    let mut left = rng.random_range(0..total);
    for (index, weight) in weights.iter().enumerate() {
        let weight = u128::from(*weight);
        if left < weight {
            return Some(index);
        }
        left -= weight;
    }
    None
}

fn pick_with_room(free: &[u64], bytes: u64, rng: &mut impl Rng) -> Option<usize> {
    if free.is_empty() {
        return None;
    }
    let start = rng.random_range(0..free.len());
    let mut order = (start..free.len()).chain(0..start);
    order.find(|index| free.get(*index).is_some_and(|free| *free > bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    const CONTAINER: &str = "container_1700000000000_0007_01_000002";

    fn started(base: &Path) -> StartedDirs {
        let config = DirsConfig {
            local_dirs: vec![base.join("l0"), base.join("l1")],
            log_dirs: vec![base.join("g0"), base.join("g1")],
            log_dir_permissions: 0o710,
        };
        NodeDirs::start(&config, EpochMillis(5)).unwrap()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path)
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    }

    #[test]
    fn container_gets_folders_on_every_disk_with_closed_modes() {
        let base = tempfile::tempdir().unwrap();
        let dirs = started(base.path()).dirs;
        let (id, user) = (CONTAINER.parse().unwrap(), "joe".parse().unwrap());
        let made = dirs.create_container_dirs(&id, &user).unwrap();
        let app = "usercache/joe/appcache/application_1700000000000_0007";
        for local in ["l0", "l1"] {
            let local = base.path().join(local);
            assert_eq!(mode(&local.join("usercache/joe")), 0o750);
            assert_eq!(mode(&local.join("usercache/joe/appcache")), 0o710);
            assert_eq!(mode(&local.join(app)), 0o710);
            assert_eq!(mode(&local.join(app).join(CONTAINER)), 0o710);
        }
        assert_eq!(mode(made.log_dir.path()), 0o710);
        let work_dir = made.work_dir.path();
        assert!(work_dir.ends_with(format!("{app}/{CONTAINER}")));
        let b = base.path();
        assert_eq!(
            made.local_dirs,
            [b.join("l0").join(app), b.join("l1").join(app)]
        );
        let user = "usercache/joe";
        assert_eq!(
            made.local_user_dirs,
            [b.join("l0").join(user), b.join("l1").join(user)]
        );
        let log = format!("application_1700000000000_0007/{CONTAINER}");
        assert_eq!(
            made.log_dirs,
            [b.join("g0").join(&log), b.join("g1").join(&log)]
        );
    }

    #[test]
    fn a_link_planted_in_place_of_an_application_folder_is_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let dirs = started(base.path()).dirs;
        let outside = base.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        for local in ["l0", "l1"] {
            let user = base.path().join(local).join("usercache/joe");
            std::fs::create_dir(&user).unwrap();
            symlink(&outside, user.join("appcache")).unwrap();
        }
        let (id, user) = (CONTAINER.parse().unwrap(), "joe".parse().unwrap());
        assert!(dirs.create_container_dirs(&id, &user).is_err());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_is_not_opened_through_a_link_that_took_the_place_of_one_above_it() {
        let base = tempfile::tempdir().unwrap();
        let dirs = started(base.path()).dirs;
        let (id, user) = (CONTAINER.parse().unwrap(), "joe".parse().unwrap());
        let made = dirs.create_container_dirs(&id, &user).unwrap();
        for folder in [&made.work_dir, &made.log_dir] {
            folder.open().unwrap();
            let application = folder.path().parent().unwrap();
            let moved = application.with_extension("moved");
            std::fs::rename(application, &moved).unwrap();
            symlink(&moved, application).unwrap();
            assert!(folder.path().is_dir());
            assert!(folder.open().is_err(), "{folder:?}");
        }
    }

    #[test]
    fn a_disk_that_fails_is_left_out_of_the_lists() {
        let base = tempfile::tempdir().unwrap();
        let dirs = started(base.path()).dirs;
        let made: Vec<_> = {
            std::fs::remove_dir(base.path().join("l1/usercache")).unwrap();
            std::fs::write(base.path().join("l1/usercache"), "in the way").unwrap();
            let steps = layout::application_steps(
                &"joe".parse().unwrap(),
                ContainerId::application_id(&CONTAINER.parse().unwrap()),
            );
            make_on_all(&dirs.inner.local, &dirs.inner.local[0], &steps).unwrap()
        };
        assert_eq!(made.len(), 1);
        assert_eq!(made[0].path, base.path().join("l0"));
    }

    #[test]
    fn a_configured_directory_that_cannot_be_made_is_reported_and_the_others_serve() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("file"), "").unwrap();
        let mut config = DirsConfig {
            local_dirs: vec![base.path().join("file/l"), base.path().join("l")],
            log_dirs: vec![base.path().join("g")],
            log_dir_permissions: 0o710,
        };
        let started = NodeDirs::start(&config, EpochMillis(5)).unwrap();
        assert_eq!(started.unusable.len(), 1);
        assert_eq!(started.dirs.local_dirs().count(), 1);
        config.local_dirs.pop();
        let error = NodeDirs::start(&config, EpochMillis(5)).unwrap_err();
        assert!(matches!(error, DirsError::NoneUsable { causes, .. } if causes.len() == 1));
    }

    #[test]
    fn full_disks_are_never_chosen() {
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..200 {
            assert_eq!(pick_weighted(&[0, 9, 0], &mut rng), Some(1));
            assert_eq!(pick_with_room(&[10, 11, 3], 10, &mut rng), Some(1));
        }
        assert_eq!(pick_weighted(&[0, 0], &mut rng), None);
        assert_eq!(pick_with_room(&[10, 10], 10, &mut rng), None);
    }

    #[test]
    fn more_free_space_is_chosen_more_often() {
        let mut rng = StdRng::seed_from_u64(7);
        let picks = (0..4000).map(|_| pick_weighted(&[u64::MAX / 4, u64::MAX / 4 * 3], &mut rng));
        let second = picks.filter(|index| *index == Some(1)).count();
        assert!((2800..3200).contains(&second), "{second}");
    }
}
