//! Names and modes of the folders below a local directory: plain text, no I/O.
//!
//! ```text
//! <local>/filecache/[<a>/[<b>/…]]<id>/<name>                     public resources
//! <local>/usercache/USER/filecache/[<a>/…]<id>/<name>            private resources
//! <local>/usercache/USER/appcache/APP/filecache/<id>/<name>      resources of an application
//! <local>/usercache/USER/appcache/APP/CID/                       work directory of a container
//! <log>/APP/CID/                                                 logs of a container
//! ```
//! Source: `ResourceLocalizationService` and `ContainerLocalizer` of Hadoop 3.4, whose clean-up
//! scripts, monitoring and shuffle handlers use these names. Application folders are 0710 where
//! Hadoop leaves 0755. Modes of folders that belong to users are those of `container-executor.c`.

use std::path::{Path, PathBuf};

use records::{ApplicationId, ContainerId};

use super::user_name::UserName;

pub(super) const USER_CACHE: &str = "usercache";
pub(super) const FILE_CACHE: &str = "filecache";
pub(super) const APP_CACHE: &str = "appcache";
/// Between the name of a folder and a time or a random number: the folder is to be deleted.
pub(super) const DELETION_MARK: &str = "_DEL_";

/// Hadoop's folder for scripts, tokens and pid files, which the agent leaves empty.
pub(super) const NM_PRIVATE: &str = "nmPrivate";

/// Mode of `usercache`, `filecache` and their public contents.
pub(super) const OPEN_MODE: u32 = 0o755;
/// Mode of the agent's private folder.
pub(super) const SECRET_MODE: u32 = 0o700;

/// A folder below a local or log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) name: String,
    /// Mode with which the folder is created.
    pub(super) mode: u32,
    /// Whether the folder belongs to the account that runs the containers in it, where that is not
    /// the agent's.
    pub(super) of_user: bool,
}

/// Modes of the folders of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modes {
    /// A user's own folder.
    user: u32,
    /// Caches in it, and their inner folders.
    pub(super) cache: u32,
    /// Folders of applications and work directories.
    application: u32,
}

impl Modes {
    /// Containers run as the agent's user, who owns all folders: others have no access, the group
    /// may pass through.
    pub(super) const OF_AGENT: Self = Self {
        user: 0o750,
        cache: 0o710,
        application: 0o710,
    };
    /// Containers run as other users. Files in the folders get the group of the folders, which is
    /// the agent's, so that the group may read logs and map outputs.
    pub(super) const OF_USERS: Self = Self {
        user: 0o2750,
        cache: 0o2710,
        application: 0o2750,
    };
    /// Log folders of containers that run as other users.
    pub(super) const LOGS_OF_USERS: u32 = 0o2750;
}

fn own(name: &str, mode: u32) -> Step {
    Step {
        name: name.to_owned(),
        mode,
        of_user: false,
    }
}

fn of_user(name: impl ToString, mode: u32) -> Step {
    Step {
        name: name.to_string(),
        mode,
        of_user: true,
    }
}

/// Cache that a resource belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Public,
    Private(UserName),
    Application(UserName, ApplicationId),
}

impl Scope {
    /// Returns the folders from a local directory down to the cache's root.
    pub(super) fn steps(&self, modes: Modes) -> Vec<Step> {
        let mut steps = match self {
            Self::Public => return vec![own(FILE_CACHE, OPEN_MODE)],
            Self::Private(user) => user_steps(modes, user),
            Self::Application(user, application) => application_steps(modes, user, *application),
        };
        steps.push(of_user(FILE_CACHE, modes.cache));
        steps
    }

    /// Returns the folder of this name between the cache's root and its resources.
    pub(super) fn shard(&self, name: String, modes: Modes) -> Step {
        match self {
            Self::Public => own(&name, OPEN_MODE),
            Self::Private(_) | Self::Application(..) => of_user(name, modes.cache),
        }
    }

    /// Returns the user whose containers share the cache; `None` for the public one.
    pub(super) fn user(&self) -> Option<&UserName> {
        match self {
            Self::Public => None,
            Self::Private(user) | Self::Application(user, _) => Some(user),
        }
    }

    /// Returns whether every user of the node may read the cache.
    pub(super) fn is_public(&self) -> bool {
        matches!(self, Self::Public)
    }

    /// Returns the modes of files and folders in the cache: read and execute only, so that no
    /// container changes shared files.
    pub(super) fn modes(&self) -> CacheModes {
        if self.is_public() {
            CacheModes {
                file: 0o555,
                folder: 0o755,
            }
        } else {
            CacheModes {
                file: 0o500,
                folder: 0o700,
            }
        }
    }
}

/// Modes of files and folders in a cache (Hadoop: `FSDownload.PUBLIC_FILE_PERMS` and its
/// neighbours).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheModes {
    pub(super) file: u32,
    pub(super) folder: u32,
}

fn user_steps(modes: Modes, user: &UserName) -> Vec<Step> {
    vec![own(USER_CACHE, OPEN_MODE), of_user(user, modes.user)]
}

/// Returns the folders from a local directory down to the application's own.
pub(super) fn application_steps(
    modes: Modes,
    user: &UserName,
    application: ApplicationId,
) -> Vec<Step> {
    let mut steps = user_steps(modes, user);
    steps.push(of_user(APP_CACHE, modes.cache));
    steps.push(of_user(application, modes.application));
    steps
}

/// Returns the folders from a local directory down to a container's work directory.
pub(super) fn work_steps(modes: Modes, user: &UserName, container: &ContainerId) -> Vec<Step> {
    let mut steps = application_steps(modes, user, container.application_id());
    steps.push(of_user(container, modes.application));
    steps
}

/// Returns the folders from a log directory down to a container's.
pub(super) fn log_steps(container: &ContainerId, mode: u32) -> Vec<Step> {
    vec![
        of_user(container.application_id(), mode),
        of_user(container, mode),
    ]
}

/// Returns only the names of the steps.
pub(super) fn names(steps: Vec<Step>) -> Vec<String> {
    steps.into_iter().map(|step| step.name).collect()
}

/// Returns the path at the end of the steps from `root`.
pub(super) fn path_of(root: &Path, steps: &[Step]) -> PathBuf {
    let mut path = root.to_owned();
    path.extend(steps.iter().map(|step| &step.name));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_hadoops() {
        let user: UserName = "joe".parse().unwrap();
        let container = ApplicationId::new(1_700_000_000_000, 7)
            .attempt(1)
            .container(2);
        let path = |steps: Vec<Step>| path_of(Path::new("/l"), &steps).display().to_string();
        assert_eq!(path(Scope::Public.steps(Modes::OF_AGENT)), "/l/filecache");
        assert_eq!(
            path(Scope::Private(user.clone()).steps(Modes::OF_AGENT)),
            "/l/usercache/joe/filecache"
        );
        assert_eq!(
            path(
                Scope::Application(user.clone(), container.application_id()).steps(Modes::OF_AGENT)
            ),
            "/l/usercache/joe/appcache/application_1700000000000_0007/filecache"
        );
        assert_eq!(
            path(work_steps(Modes::OF_AGENT, &user, &container)),
            "/l/usercache/joe/appcache/application_1700000000000_0007/container_1700000000000_0007_01_000002"
        );
    }
}
