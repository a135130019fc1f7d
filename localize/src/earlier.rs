//! Folders of an earlier run, of which recovered applications and containers still need some.
//!
//! Nothing is renamed here: running containers have paths. What no record names is returned for
//! deletion, by handle and without following links, like every deletion. Caches are swept
//! (`sweep`), and other folders listed within limits: users own the folders above them, so what
//! they put there must neither become memory of the agent nor delay its start.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dir_handle::{FileKind, is_abandoned};
use records::{ApplicationId, ContainerName};

use super::deletion::Deletion;
use super::disk::Disk;
use super::kept::{KeptResource, Seal};
use super::layout::{APP_CACHE, FILE_CACHE, USER_CACHE};
use super::needed::Needed;
use super::sweep::Keep;

/// Limit on the folders of one user on one directory that are listed for deletion. Users own the
/// folders above, and may have put millions there; others stay until the next start.
const LISTED_OF_USER_MAX: usize = 1 << 10;

/// Limit on the folders on one directory that are listed for deletion. One takes some 400 bytes.
const LISTED_MAX: usize = 1 << 13;

/// Folders of an earlier run.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Folders that nobody needs.
    pub(super) leftovers: Vec<Deletion>,
    /// Resources that are in the caches as they were recorded.
    pub(super) cached: Vec<KeptResource>,
}

impl Earlier {
    /// Takes over what was found on another directory.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.leftovers.append(&mut other.leftovers);
        self.cached.append(&mut other.cached);
    }
}

/// Looks at the folders below a local directory. Resources of this run will have numbers from
/// `first_resource` on.
pub(super) fn look_at(disk: &Arc<Disk>, needed: &Needed, first_resource: u64) -> Earlier {
    let mut search = Search {
        disk,
        needed,
        listed_of_user: 0,
        has_more: false,
        found: Earlier::default(),
    };
    let keep = Arc::new(search.keep(first_resource));
    search.sweep(vec![FILE_CACHE.to_owned()], &keep);
    search.users(&keep);
    if search.has_more {
        let path = disk.path.display();
        tracing::warn!(%path, "some folders of an earlier run stay until the next start");
    }
    search.found
}

struct Search<'a> {
    disk: &'a Arc<Disk>,
    needed: &'a Needed,
    /// Number of folders of the present user that are listed for deletion.
    listed_of_user: usize,
    /// Whether folders were found beyond the limits.
    has_more: bool,
    found: Earlier,
}

impl Search<'_> {
    /// Finds out what stays in the caches, by the records alone: the folders are their users', who
    /// may have put anything else there.
    fn keep(&mut self, first_resource: u64) -> Keep {
        let mut folders = BTreeSet::new();
        let used = self.needed.resources.iter();
        for below in used.filter_map(|path| path.strip_prefix(&self.disk.path).ok()) {
            folders.extend(below.ancestors().map(Path::to_path_buf));
        }
        for kept in &self.needed.cached {
            let is_here = kept.local_dir == self.disk.path;
            let goes_on = kept
                .application
                .is_none_or(|id| self.needed.applications.contains(&id));
            let folder = kept.folder().filter(|_| is_here && goes_on);
            let below = folder
                .as_deref()
                .and_then(|folder| folder.strip_prefix(&self.disk.path).ok());
            let Some(below) = below else {
                continue;
            };
            if self.is_whole(kept, below) {
                folders.insert(below.to_owned());
                self.found.cached.push(kept.clone());
            } else if kept.application.is_some() && !folders.contains(below) {
                // What no record names goes with its application, and this has one.
                self.list(names_of(below));
            }
        }
        Keep {
            folders,
            first_resource,
        }
    }

    /// Returns whether a folder has a resource as it was recorded.
    fn is_whole(&self, kept: &KeptResource, below: &Path) -> bool {
        let opened = self.disk.root.open_beneath(below);
        let status = opened.and_then(|folder| folder.status(&kept.name));
        let is_whole = status.is_ok_and(|status| Seal::of(&status) == Some(kept.seal));
        if !is_whole {
            let path = self.disk.path.join(below);
            let path = path.display();
            tracing::warn!(%path, "a cached resource is not what it was: it is fetched again");
        }
        is_whole
    }

    /// Has what does not stay in a cache be deleted.
    fn sweep(&mut self, cache: Vec<String>, keep: &Arc<Keep>) {
        // Containers have links to resources that nobody names: all stay.
        if !self.needed.has_unknown_resources {
            let sweep = Deletion::in_cache(self.disk.clone(), cache, keep.clone());
            self.found.leftovers.push(sweep);
        }
    }

    fn users(&mut self, keep: &Arc<Keep>) {
        let root = [USER_CACHE.to_owned()];
        for user in self.folders(&root) {
            self.listed_of_user = 0;
            let folder = [root.as_slice(), std::slice::from_ref(&user)].concat();
            if is_abandoned(&user) {
                self.list(folder);
                continue;
            }
            let below = |name: &str| [folder.as_slice(), &[name.to_owned()]].concat();
            self.sweep(below(FILE_CACHE), keep);
            self.applications(&below(APP_CACHE));
        }
    }

    fn applications(&mut self, folder: &[String]) {
        for name in self.folders(folder) {
            let application = [folder, std::slice::from_ref(&name)].concat();
            let id: Option<ApplicationId> = name.parse().ok();
            let goes_on = id.is_some_and(|id| self.needed.applications.contains(&id));
            let is_listed = goes_on || self.list(application.clone());
            if !is_listed {
                return;
            }
            if goes_on {
                self.containers(&application);
            }
        }
    }

    /// Lists the folders of containers that do not go on. Other folders of an application go with
    /// it.
    fn containers(&mut self, application: &[String]) {
        for name in self.folders(application) {
            let name_of_container = name.parse::<ContainerName>();
            let is_container = name_of_container.is_ok();
            let is_needed =
                name_of_container.is_ok_and(|name| self.needed.containers.contains(&name));
            let folder = [application, &[name]].concat();
            if is_container && !is_needed && !self.list(folder) {
                return;
            }
        }
    }

    /// Lists a folder for deletion. Returns whether there was room in the list.
    fn list(&mut self, names: Vec<String>) -> bool {
        let is_full =
            self.listed_of_user >= LISTED_OF_USER_MAX || self.found.leftovers.len() >= LISTED_MAX;
        if is_full {
            self.has_more = true;
            return false;
        }
        self.listed_of_user += 1;
        let deletion = Deletion::new(self.disk.clone(), names);
        self.found.leftovers.push(deletion);
        true
    }

    /// Returns the names of the folders in a folder, as they are read; none if it cannot be listed,
    /// as when it does not exist.
    fn folders(&self, names: &[String]) -> impl Iterator<Item = String> + use<> {
        let path = self.disk.path.join(names.iter().collect::<PathBuf>());
        let opened = self.disk.root.open_all(names);
        let listed = opened.and_then(|folder| Ok((folder.names()?, folder)));
        let listed = listed.map_err(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                let path = path.display();
                tracing::warn!(%path, %error, "folders of an earlier run cannot be listed");
            }
        });
        listed.into_iter().flat_map(|(names, folder)| {
            names.map_while(Result::ok).filter_map(move |name| {
                // Nothing of ours has another name.
                let name = name.into_string().ok()?;
                let is_folder = folder.kind(&name).ok()? == Some(FileKind::Directory);
                is_folder.then_some(name)
            })
        })
    }
}

fn names_of(below: &Path) -> Vec<String> {
    let names = below.iter();
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use records::EpochMillis;
    use test_support::ids::container;

    use super::*;
    use crate::config::{DeletionConfig, DirsConfig};
    use crate::{DeletionService, NodeDirs, UserName};

    fn config(root: &Path) -> DirsConfig {
        DirsConfig {
            local_dirs: vec![root.join("local")],
            log_dirs: vec![root.join("logs")],
            log_dir_permissions: 0o710,
            log_retain_sec: 0,
        }
    }

    /// Performs deletions to their end.
    fn delete(deletions: Vec<Deletion>) {
        let config = DeletionConfig {
            thread_count: 2,
            debug_delay_sec: Some(0),
        };
        let service = DeletionService::start(&config).unwrap();
        service.delete(deletions);
        service.stop(Duration::from_secs(60));
    }

    fn make(root: &Path, folders: &[&str]) {
        for folder in folders {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
    }

    #[track_caller]
    fn assert_exist(root: &Path, folders: &[&str], expected: bool) {
        for folder in folders {
            assert_eq!(root.join(folder).exists(), expected, "{folder}");
        }
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
        drop(started);
        let goes = [
            "local/filecache/10",
            "local/filecache/0/12_tmp",
            "local/usercache/joe/filecache/10",
            "local/usercache/joe/filecache/5/0/x y",
            "local/usercache/joe/appcache/application_9_0009",
            &format!("{appcache}/{gone}"),
            "local/usercache/.new~0123456789abcdef0123456789abcdef0123456789abcdef",
            "local/.new~0123456789abcdef0123456789abcdef0123456789abcdef",
            "local/nmPrivate_DEL_7",
            "logs/application_9_0009_DEL_7",
        ];
        let stays = [
            "local/filecache/0/11",
            "local/filecache/900",
            "local/usercache/joe/filecache/0/901_tmp",
            "local/usercache/joe/own",
            &format!("{appcache}/{kept}"),
            &format!("{appcache}/own"),
            &format!("{appcache}/filecache/10"),
            "logs/application_9_0009",
        ];
        make(root, &goes);
        make(root, &stays);
        fs::write(root.join("local/usercache/joe/filecache/file"), "").unwrap();
        let needed = Needed {
            applications: [app].into(),
            containers: [kept.name()].into(),
            resources: [root.join("local/filecache/0/11/job.jar")].into(),
            ..Needed::default()
        };
        let again = NodeDirs::start_again(&config(root), None, EpochMillis(900), needed).unwrap();
        delete(again.leftovers);
        assert_exist(root, &goes, false);
        assert_exist(root, &stays, true);
        assert_exist(root, &["local/usercache/joe/filecache/file"], true);
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

    #[test]
    fn what_a_user_puts_into_folders_of_the_node_is_not_listed_one_by_one() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let (app, honest) = (container(1).application_id(), "application_9_0009");
        make(root, &[&format!("local/usercache/paul/appcache/{honest}")]);
        let own = format!("local/usercache/joe/appcache/{app}");
        for number in 0..LISTED_OF_USER_MAX + 500 {
            make(
                root,
                &[
                    &format!("local/usercache/joe/filecache/junk-{number}"),
                    &format!("local/usercache/joe/appcache/junk-{number}"),
                    &format!("{own}/container_1_0007_01_{number:06}"),
                ],
            );
        }
        let needed = Needed {
            applications: [app].into(),
            ..Needed::default()
        };
        let started = NodeDirs::start_again(&config(root), None, EpochMillis(7), needed).unwrap();
        // Three caches, a private folder, and another user's application besides.
        assert!(started.leftovers.len() <= LISTED_OF_USER_MAX + 5);
        delete(started.leftovers);
        let left = fs::read_dir(root.join("local/usercache/joe/filecache")).unwrap();
        assert_eq!(left.count(), 0);
        assert_exist(
            root,
            &[&format!("local/usercache/paul/appcache/{honest}")],
            false,
        );
    }

    #[test]
    fn links_to_resources_that_no_record_names_keep_all_of_a_cache() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let caches = ["local/filecache/10", "local/usercache/joe/filecache/10"];
        make(root, &caches);
        let needed = Needed {
            has_unknown_resources: true,
            ..Needed::default()
        };
        let started = NodeDirs::start_again(&config(root), None, EpochMillis(7), needed).unwrap();
        delete(started.leftovers);
        assert_exist(root, &caches, true);
    }
}
