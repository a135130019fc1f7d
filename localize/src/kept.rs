//! Resources that stay in the caches over a restart of the agent, as the next agent needs to know
//! them, and how it knows that a file still is the one that was downloaded.
//!
//! A download is recorded once it is complete and in its place, so no record promises a file that
//! is not whole. A user owns the folders of the own caches and may put anything there while no
//! agent looks: another file, a link, or a pipe. So a record has a [`Seal`], which only the file
//! itself fits.

use std::fmt;
use std::path::{Path, PathBuf};

use dir_handle::{FileKind, FileStatus};
use records::ApplicationId;

use super::cache::{CacheKey, Place};
use super::layout::{self, Modes, Scope};
use super::resource::{ResourceKind, ResourceUrl, Visibility};
use super::user_name::UserName;

/// Highest number of a sub-directory of a cache that a record may name: each number up to it costs
/// memory, and 2<sup>20</sup> sub-directories hold more files than a disk.
const SHARD_MAX: u64 = 1 << 20;

/// Facts that tell a file or folder from any other, and from itself after a change: the kernel
/// dates each change, and nobody can set that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Whether it is a folder, of an archive.
    pub is_folder: bool,
    /// Number of the inode on its file system.
    pub inode: u64,
    /// Length in bytes.
    pub length: u64,
    /// Time of the last change, in nanoseconds since the epoch.
    pub changed_ns: i64,
}

impl Seal {
    /// Returns the seal of a file or folder; `None`: it is neither.
    pub(super) fn of(status: &FileStatus) -> Option<Self> {
        let is_folder = match status.kind {
            FileKind::File => false,
            FileKind::Directory => true,
            FileKind::Link | FileKind::Special => return None,
        };
        Some(Self {
            is_folder,
            inode: status.inode,
            length: status.length,
            changed_ns: status.changed_ns,
        })
    }
}

/// A resource in a cache. Its URL may hold a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptResource {
    /// Containers that share it.
    pub visibility: Visibility,
    /// User whose containers share it; `None`: it is public.
    pub user: Option<UserName>,
    /// Application whose containers share it, if only they do.
    pub application: Option<ApplicationId>,
    /// Location of the source.
    pub url: ResourceUrl,
    /// Modification time of the source, in milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// Treatment after the download.
    pub kind: ResourceKind,
    /// Local directory on which it is.
    pub local_dir: PathBuf,
    /// Number of the cache's sub-directory; `None`: the cache has none.
    pub shard: Option<u64>,
    /// Number of the resource, the name of its own folder.
    pub id: u64,
    /// Name of the file or folder in that.
    pub name: String,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Facts by which it is known again.
    pub seal: Seal,
}

/// Keeper of the resources' records. No method waits for a disk.
pub trait KeptRecords: fmt::Debug + Send + Sync {
    /// Stores the record of a resource under a key.
    fn keep(&self, key: &str, resource: &KeptResource);
    /// Removes the record of this key.
    fn forget(&self, key: &str);
    /// Removes the records of all keys with this prefix.
    fn forget_all(&self, prefix: &str);
}

impl KeptResource {
    /// Returns the key of the record, which no other resource gets.
    #[must_use]
    pub fn key(&self) -> Option<String> {
        let (scope, place) = (self.scope()?, self.place(0)?);
        key_of(&scope, &self.local_dir, &place)
    }

    /// Returns the path of the file or folder; `None`: the record names none.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        Some(self.folder()?.join(&self.name))
    }

    /// Returns the path of the resource's own folder.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        let (scope, place) = (self.scope()?, self.place(0)?);
        Some(folder_of(&scope, &self.local_dir, &place))
    }

    pub(super) fn scope(&self) -> Option<Scope> {
        match (self.visibility, &self.user, self.application) {
            (Visibility::Public, None, None) => Some(Scope::Public),
            (Visibility::Private, Some(user), None) => Some(Scope::Private(user.clone())),
            (Visibility::Application, Some(user), Some(application)) => {
                Some(Scope::Application(user.clone(), application))
            }
            (Visibility::Public | Visibility::Private | Visibility::Application, ..) => None,
        }
    }

    /// Returns the place on the local directory with this index. `None` if a file name is none.
    pub(super) fn place(&self, disk: usize) -> Option<Place> {
        let is_name = self.url.name() == Some(self.name.as_str());
        let shard = match self.shard.filter(|shard| *shard <= SHARD_MAX) {
            Some(shard) => Some(usize::try_from(shard).ok()?),
            None => None,
        };
        let has_shard = !matches!(self.visibility, Visibility::Application);
        (is_name && shard.is_some() == has_shard).then(|| Place {
            disk,
            shard,
            id: self.id,
            name: self.name.clone(),
        })
    }

    pub(super) fn cache_key(&self) -> CacheKey {
        CacheKey {
            url: self.url.clone(),
            timestamp_ms: self.timestamp_ms,
            kind: self.kind.clone(),
        }
    }
}

/// Returns the record of a resource that is complete in its place.
pub(super) fn kept(
    (scope, key): (&Scope, CacheKey),
    local_dir: PathBuf,
    (place, bytes): (&Place, u64),
    seal: Seal,
) -> KeptResource {
    let (visibility, application) = match scope {
        Scope::Public => (Visibility::Public, None),
        Scope::Private(_) => (Visibility::Private, None),
        Scope::Application(_, application) => (Visibility::Application, Some(*application)),
    };
    KeptResource {
        visibility,
        user: scope.user().cloned(),
        application,
        url: key.url,
        timestamp_ms: key.timestamp_ms,
        kind: key.kind,
        local_dir,
        shard: place.shard.and_then(|shard| u64::try_from(shard).ok()),
        id: place.id,
        name: place.name.clone(),
        bytes,
        seal,
    }
}

/// Returns the key of the record of a place; `None` if its path is no text.
pub(super) fn key_of(scope: &Scope, local_dir: &Path, place: &Place) -> Option<String> {
    let folder = folder_of(scope, local_dir, place);
    let folder = folder.to_str()?;
    Some(match scope {
        Scope::Public => format!("public{folder}"),
        Scope::Private(_) => format!("private{folder}"),
        Scope::Application(_, application) => format!("{application}{folder}"),
    })
}

/// Returns the prefix of the keys of an application's resources. Paths begin with a slash.
pub(super) fn prefix_of(application: ApplicationId) -> String {
    format!("{application}/")
}

fn folder_of(scope: &Scope, local_dir: &Path, place: &Place) -> PathBuf {
    let mut path = local_dir.to_owned();
    path.extend(names_to(scope, place));
    path.push(place.id.to_string());
    path
}

/// Returns the path of a resource below the local directory that it is on.
pub(super) fn path_below(scope: &Scope, place: &Place) -> PathBuf {
    folder_of(scope, Path::new(""), place).join(&place.name)
}

/// Returns the names from a local directory to the folder that holds the resource's own.
pub(super) fn names_to(scope: &Scope, place: &Place) -> Vec<String> {
    let mut names = layout::names(scope.steps(Modes::OF_AGENT));
    names.extend(place.shard_names());
    names
}

#[cfg(test)]
mod tests {
    use test_support::ids;

    use super::*;

    fn resource(visibility: Visibility) -> KeptResource {
        let is_public = visibility == Visibility::Public;
        let is_of_one = visibility == Visibility::Application;
        KeptResource {
            visibility,
            user: (!is_public).then(|| "joe".parse().unwrap()),
            application: is_of_one.then(|| ids::application(7)),
            url: ResourceUrl {
                scheme: Some("file".to_owned()),
                user_info: None,
                host: None,
                port: None,
                path: "/source/job.jar".to_owned(),
            },
            timestamp_ms: 5,
            kind: ResourceKind::File,
            local_dir: PathBuf::from("/l0"),
            shard: (!is_of_one).then_some(1),
            id: 10,
            name: "job.jar".to_owned(),
            bytes: 3,
            seal: Seal {
                is_folder: false,
                inode: 1,
                length: 3,
                changed_ns: 9,
            },
        }
    }

    #[test]
    fn a_record_is_of_the_place_that_its_cache_has() {
        for (visibility, path) in [
            (Visibility::Public, "/l0/filecache/0/10/job.jar"),
            (
                Visibility::Private,
                "/l0/usercache/joe/filecache/0/10/job.jar",
            ),
        ] {
            let resource = resource(visibility);
            assert_eq!(resource.path().unwrap(), Path::new(path));
            let scope = resource.scope().unwrap();
            let again = kept(
                (&scope, resource.cache_key()),
                resource.local_dir.clone(),
                (&resource.place(3).unwrap(), resource.bytes),
                resource.seal,
            );
            assert_eq!(again, resource);
        }
        let own = resource(Visibility::Application);
        let prefix = prefix_of(ids::application(7));
        assert!(own.key().unwrap().starts_with(&prefix), "{:?}", own.key());
    }

    #[test]
    fn a_record_that_names_no_place_of_a_cache_has_none() {
        let good = resource(Visibility::Private);
        let elsewhere = KeptResource {
            name: "..".to_owned(),
            ..good.clone()
        };
        let of_nobody = KeptResource {
            user: None,
            ..good.clone()
        };
        let far = KeptResource {
            shard: Some(u64::MAX),
            ..good.clone()
        };
        let without = KeptResource {
            shard: None,
            ..good
        };
        for bad in [elsewhere, of_nobody, far, without] {
            assert_eq!((bad.path(), bad.key()), (None, None), "{bad:?}");
        }
    }
}
