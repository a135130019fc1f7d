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
//! Hadoop leaves 0755.

use std::path::{Path, PathBuf};

use records::{ApplicationId, ContainerId};

use super::user_name::UserName;

pub(super) const USER_CACHE: &str = "usercache";
pub(super) const FILE_CACHE: &str = "filecache";
pub(super) const APP_CACHE: &str = "appcache";
/// Hadoop's folder for scripts, tokens and pid files, which the agent leaves empty.
pub(super) const NM_PRIVATE: &str = "nmPrivate";

/// Mode of `usercache`, `filecache` and their public contents.
pub(super) const OPEN_MODE: u32 = 0o755;
/// Mode of a user's own folder.
pub(super) const USER_MODE: u32 = 0o750;
/// Mode of the folders inside it: others have no access, the group may pass through.
pub(super) const INNER_MODE: u32 = 0o710;
/// Mode of the agent's private folder.
pub(super) const SECRET_MODE: u32 = 0o700;

/// A name below a local or log directory, and the mode with which it is created.
pub(super) type Step = (String, u32);

/// Cache that a resource belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Public,
    Private(UserName),
    Application(UserName, ApplicationId),
}

impl Scope {
    /// Returns the folders from a local directory down to the cache's root.
    pub(super) fn steps(&self) -> Vec<Step> {
        match self {
            Self::Public => vec![(FILE_CACHE.to_owned(), OPEN_MODE)],
            Self::Private(user) => {
                let mut steps = user_steps(user);
                steps.push((FILE_CACHE.to_owned(), INNER_MODE));
                steps
            }
            Self::Application(user, application) => {
                let mut steps = application_steps(user, *application);
                steps.push((FILE_CACHE.to_owned(), INNER_MODE));
                steps
            }
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

fn user_steps(user: &UserName) -> Vec<Step> {
    vec![
        (USER_CACHE.to_owned(), OPEN_MODE),
        (user.as_str().to_owned(), USER_MODE),
    ]
}

/// Returns the folders from a local directory down to the application's own.
pub(super) fn application_steps(user: &UserName, application: ApplicationId) -> Vec<Step> {
    let mut steps = user_steps(user);
    steps.push((APP_CACHE.to_owned(), INNER_MODE));
    steps.push((application.to_string(), INNER_MODE));
    steps
}

/// Returns the folders from a local directory down to a container's work directory.
pub(super) fn work_steps(user: &UserName, container: &ContainerId) -> Vec<Step> {
    let mut steps = application_steps(user, container.application_id());
    steps.push((container.to_string(), INNER_MODE));
    steps
}

/// Returns the folders from a log directory down to a container's.
pub(super) fn log_steps(container: &ContainerId, log_dir_mode: u32) -> Vec<Step> {
    vec![
        (container.application_id().to_string(), log_dir_mode),
        (container.to_string(), log_dir_mode),
    ]
}

/// Returns only the names of the steps.
pub(super) fn names(steps: Vec<Step>) -> Vec<String> {
    steps.into_iter().map(|(name, _)| name).collect()
}

/// Returns the path at the end of the steps from `root`.
pub(super) fn path_of(root: &Path, steps: &[Step]) -> PathBuf {
    let mut path = root.to_owned();
    path.extend(steps.iter().map(|(name, _)| name));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_hadoops() {
        let user: UserName = "joe".parse().unwrap();
        let container: ContainerId = "container_1700000000000_0007_01_000002".parse().unwrap();
        let path = |steps: Vec<Step>| path_of(Path::new("/l"), &steps).display().to_string();
        assert_eq!(path(Scope::Public.steps()), "/l/filecache");
        assert_eq!(
            path(Scope::Private(user.clone()).steps()),
            "/l/usercache/joe/filecache"
        );
        assert_eq!(
            path(Scope::Application(user.clone(), container.application_id()).steps()),
            "/l/usercache/joe/appcache/application_1700000000000_0007/filecache"
        );
        assert_eq!(
            path(work_steps(&user, &container)),
            "/l/usercache/joe/appcache/application_1700000000000_0007/container_1700000000000_0007_01_000002"
        );
    }
}
