//! Folders of an earlier run, of which recovered applications and containers still need some.
//!
//! Nothing is renamed here: running containers have paths. What no record names is returned for
//! deletion, by handle and without following links, like every deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dir_handle::{DirHandle, FileKind};
use records::{ApplicationId, ContainerId};

use super::deletion::Deletion;
use super::dirs::{ContainerDirs, ContainerFolder, NodeDirs};
use super::disk::Disk;
use super::disk_health::DirKind;
use super::kept::{KeptResource, Seal};
use super::layout::{self, APP_CACHE, FILE_CACHE, USER_CACHE};
use super::user_name::UserName;

/// Levels of numbered sub-directories in a cache: each has 36 times as many as the one before.
const SHARD_LEVELS_MAX: usize = 6;

/// Files of an earlier run that must stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// Applications whose folders and logs stay.
    pub applications: BTreeSet<ApplicationId>,
    /// Containers whose work folders stay.
    pub containers: BTreeSet<ContainerId>,
    /// Paths of localized resources that containers have links to.
    pub resources: BTreeSet<PathBuf>,
    /// Applications that have ended here, of which only the logs stay.
    pub logs: BTreeSet<ApplicationId>,
    /// Resources in the caches by their records, which stay if they are what was recorded.
    pub cached: Vec<KeptResource>,
    /// Containers have links to resources that no record names, so that all of them stay.
    pub has_unknown_resources: bool,
}

impl Needed {
    /// Returns whether an application's log folder stays.
    pub(super) fn has_logs_of(&self, name: &str) -> bool {
        name.parse()
            .is_ok_and(|id| self.applications.contains(&id) || self.logs.contains(&id))
    }

    fn has_resource_in(&self, folder: &Path) -> bool {
        let mut from = self.resources.range(folder.to_path_buf()..);
        from.next().is_some_and(|path| path.starts_with(folder))
    }
}

/// Folders of an earlier run.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Those that nobody needs.
    pub(super) leftovers: Vec<Deletion>,
    /// Resources that are in the caches as they were recorded.
    pub(super) cached: Vec<KeptResource>,
}

/// Looks at the folders below a local directory.
pub(super) fn look_at(disk: &Arc<Disk>, needed: &Needed) -> Earlier {
    let recorded = needed.cached.iter();
    let recorded = recorded.filter(|kept| kept.local_dir == disk.path);
    let recorded = recorded.filter_map(|kept| Some((kept.folder()?, kept)));
    let mut found = Search {
        disk,
        needed,
        recorded: recorded.collect(),
        found: Earlier::default(),
    };
    found.cache(vec![FILE_CACHE.to_owned()], 0);
    for user in found.names(&[USER_CACHE.to_owned()]) {
        let folder = vec![USER_CACHE.to_owned(), user];
        let below = |name: &str| [folder.as_slice(), &[name.to_owned()]].concat();
        found.cache(below(FILE_CACHE), 0);
        found.applications(&below(APP_CACHE));
    }
    found.found
}

struct Search<'a> {
    disk: &'a Arc<Disk>,
    needed: &'a Needed,
    /// Records of this disk, by the folder of the resource.
    recorded: BTreeMap<PathBuf, &'a KeptResource>,
    found: Earlier,
}

impl Search<'_> {
    /// Names in a folder; none if it cannot be listed, as when it does not exist.
    fn names(&self, folder: &[String]) -> Vec<String> {
        let opened = self.disk.root.open_all(folder);
        let names = opened.and_then(|folder| names_of(&folder));
        names.unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                let path = self.path(folder);
                tracing::warn!(path = %path.display(), %error, "folders of an earlier run cannot be listed");
            }
            Vec::new()
        })
    }

    fn path(&self, names: &[String]) -> PathBuf {
        let mut path = self.disk.path.clone();
        path.extend(names);
        path
    }

    fn delete(&mut self, names: Vec<String>) {
        let deletion = Deletion::new(self.disk.clone(), names);
        self.found.leftovers.push(deletion);
    }

    /// Returns whether a folder has a resource as it was recorded, and lists it.
    fn is_cached(&mut self, folder: &[String], path: &Path) -> bool {
        let Some(kept) = self.recorded.remove(path) else {
            return false;
        };
        let opened = self.disk.root.open_all(folder);
        let status = opened.and_then(|folder| folder.status(&kept.name));
        let is_whole = status.is_ok_and(|status| Seal::of(&status) == Some(kept.seal));
        if is_whole {
            self.found.cached.push(kept.clone());
        } else {
            let path = path.display();
            tracing::warn!(%path, "a cached resource is not what it was: it is fetched again");
        }
        is_whole
    }

    fn applications(&mut self, folder: &[String]) {
        for name in self.names(folder) {
            let application = [folder, std::slice::from_ref(&name)].concat();
            let id: Option<ApplicationId> = name.parse().ok();
            if !id.is_some_and(|id| self.needed.applications.contains(&id)) {
                self.delete(application);
                continue;
            }
            for name in self.names(&application) {
                let id: Result<ContainerId, _> = name.parse();
                let inside = [application.as_slice(), std::slice::from_ref(&name)].concat();
                if name == FILE_CACHE {
                    self.cache_of_application(&inside);
                } else if id.is_ok_and(|id| !self.needed.containers.contains(&id)) {
                    self.delete(inside);
                }
            }
        }
    }

    /// Looks at the resources of a cache. Its sub-directories have names of one character, its
    /// resources those of two or more.
    fn cache(&mut self, folder: Vec<String>, level: usize) {
        for name in self.names(&folder) {
            let is_shard = name.len() == 1;
            let inside = [folder.as_slice(), std::slice::from_ref(&name)].concat();
            if is_shard && level < SHARD_LEVELS_MAX {
                self.cache(inside, level + 1);
            } else {
                let path = self.path(&inside);
                let stays = self.is_cached(&inside, &path)
                    || self.needed.has_unknown_resources
                    || self.needed.has_resource_in(&path);
                if !stays {
                    self.delete(inside);
                }
            }
        }
    }

    /// Looks at the resources of an application that goes on. What no record names goes with it.
    fn cache_of_application(&mut self, folder: &[String]) {
        for name in self.names(folder) {
            let inside = [folder, &[name]].concat();
            let path = self.path(&inside);
            let was_recorded = self.recorded.contains_key(&path);
            if was_recorded
                && !self.is_cached(&inside, &path)
                && !self.needed.has_resource_in(&path)
            {
                self.delete(inside);
            }
        }
    }
}

fn names_of(folder: &DirHandle) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for name in folder.names()? {
        let name = name?;
        // Nothing of ours has another name.
        let Some(name) = OsStr::to_str(&name) else {
            continue;
        };
        if folder.kind(name)? == Some(FileKind::Directory) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

impl NodeDirs {
    /// Finds the folders that an earlier run made for a container, by the paths of its work folder
    /// and its log folder. `None` if either is on a directory that is not used any more.
    #[must_use]
    pub fn find_container_dirs(
        &self,
        container: &ContainerId,
        user: &UserName,
        (work_dir, log_dir): (&Path, &Path),
    ) -> Option<ContainerDirs> {
        let work = layout::names(layout::work_steps(self.modes(), user, container));
        let logs = layout::names(layout::log_steps(container, 0));
        let folder = |disks: &[Arc<Disk>], names: &[String], path: &Path| {
            let below: PathBuf = names.iter().collect();
            let disk = disks.iter().find(|disk| disk.path.join(&below) == path)?;
            let folder = ContainerFolder::new(Arc::clone(&disk.root), &disk.path, below);
            // The account may have changed since, or not be found now; the folder says whose it is.
            let user = folder.open().and_then(|opened| opened.user()).ok();
            let owner = user.and_then(|user| self.owner(user));
            Some(folder.owned_by(owner))
        };
        let on_all = |disks: &[Arc<Disk>], names: &[String]| {
            let below: PathBuf = names.iter().collect();
            disks.iter().map(|disk| disk.path.join(&below)).collect()
        };
        let local_disks = self.readable(DirKind::Local);
        let log_disks = self.readable(DirKind::Log);
        Some(ContainerDirs {
            work_dir: folder(&local_disks, &work, work_dir)?,
            log_dir: folder(&log_disks, &logs, log_dir)?,
            local_dirs: on_all(&local_disks, &work[..work.len() - 1]),
            local_user_dirs: on_all(&local_disks, &work[..work.len() - 3]),
            log_dirs: on_all(&log_disks, &logs),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use records::EpochMillis;
    use test_support::ids::container;

    use super::*;
    use crate::config::DirsConfig;

    fn config(root: &Path) -> DirsConfig {
        DirsConfig {
            local_dirs: vec![root.join("local")],
            log_dirs: vec![root.join("logs")],
            log_dir_permissions: 0o710,
        }
    }

    fn deleted(deletions: &[Deletion], root: &Path) -> Vec<String> {
        let mut names: Vec<_> = deletions
            .iter()
            .map(|deletion| {
                let path = deletion.path();
                let path = path.strip_prefix(root).unwrap();
                path.to_str().unwrap().to_owned()
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_recovered_container_needs_stays_and_the_rest_goes() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let user: UserName = "joe".parse().unwrap();
        let started = NodeDirs::start(&config(root), None, EpochMillis(1)).unwrap();
        let (kept, gone) = (container(1), container(2));
        let dirs = started.dirs.create_container_dirs(&kept, &user).unwrap();
        started.dirs.create_container_dirs(&gone, &user).unwrap();
        let app = kept.application_id();
        let appcache = format!("local/usercache/joe/appcache/{app}");
        for folder in [
            "local/filecache/10",
            "local/filecache/0/11",
            "local/filecache/0/12_tmp",
            "local/usercache/joe/filecache/10",
            "local/usercache/joe/appcache/application_9_0009/x",
            &format!("{appcache}/filecache/10"),
            "logs/application_9_0009",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let needed = Needed {
            applications: [app].into(),
            containers: [kept].into(),
            resources: [root.join("local/filecache/0/11/job.jar")].into(),
            ..Needed::default()
        };
        let again = NodeDirs::start_again(&config(root), None, EpochMillis(7), needed).unwrap();
        assert_eq!(
            deleted(&again.leftovers, root),
            [
                "local/filecache/0/12_tmp",
                "local/filecache/10",
                "local/nmPrivate_DEL_7",
                &format!("{appcache}/{gone}"),
                "local/usercache/joe/appcache/application_9_0009",
                "local/usercache/joe/filecache/10",
                "logs/application_9_0009_DEL_7",
            ]
        );
        let (work, log) = (dirs.work_dir.path(), dirs.log_dir.path());
        let found = again.dirs.find_container_dirs(&kept, &user, (work, log));
        let found = found.unwrap();
        assert!(found.work_dir.open().is_ok() && found.log_dir.open().is_ok());
        assert_eq!(found.local_dirs, dirs.local_dirs);
        assert_eq!(found.local_user_dirs, dirs.local_user_dirs);
        assert_eq!(found.log_dirs, dirs.log_dirs);
        let elsewhere = again
            .dirs
            .find_container_dirs(&kept, &user, (Path::new("/tmp"), log));
        assert!(elsewhere.is_none());
    }
}
