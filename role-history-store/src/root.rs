//! Directory of all users' services.

use std::path::Path;
use std::{fs, io};

use hadoop_fs::{FsError, Kind};
use records::ApplicationAttemptId;

use crate::directory::{HistoryDirectory, StoreConfig};
use crate::files::{StoreError, io_error};
use crate::names::ServiceName;
use crate::place::{Place, RemotePlace};
use crate::remote::ENTRIES_MAX;

/// Directory of all users' services: `ROOT/USER/SERVICE`.
#[derive(Clone, Debug)]
pub struct HistoryRoot(Place);

/// Services of a user and their files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of services.
    pub services: usize,
    /// Bytes of all their files.
    pub bytes: u64,
}

impl HistoryRoot {
    /// Makes the root of a directory, which need not exist.
    #[must_use]
    pub const fn new(place: Place) -> Self {
        Self(place)
    }

    /// Opens the directory of a service; see [`HistoryDirectory::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(
        &self,
        name: &ServiceName,
        attempt: ApplicationAttemptId,
        config: StoreConfig,
    ) -> Result<HistoryDirectory, StoreError> {
        let place = self.0.join(name.user()).join(name.service());
        HistoryDirectory::open(&place, attempt, config)
    }

    /// Returns what a user's other services have. What is in a service's own directory is purged by
    /// its saves. Costs a list for each of them.
    ///
    /// # Errors
    /// The directory of the user cannot be listed. A user without one has nothing.
    pub fn usage_of_others(&self, name: &ServiceName) -> Result<Usage, StoreError> {
        match self.0.join(name.user()) {
            Place::Local(of_user) => local_usage(&of_user, name.service())
                .map_err(|source| io_error("list", of_user.display().to_string(), source)),
            Place::Remote(of_user) => Ok(remote_usage(&of_user, name.service())?),
        }
    }
}

fn local_usage(of_user: &Path, own: &str) -> io::Result<Usage> {
    let mut usage = Usage::default();
    let listed = match fs::read_dir(of_user) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(usage),
        listed => listed?,
    };
    for service in listed.flatten().filter(|entry| entry.file_name() != own) {
        usage.services += 1;
        // A directory that is gone meanwhile has no bytes.
        let files = fs::read_dir(service.path()).into_iter().flatten().flatten();
        let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
        usage.bytes += sizes.sum::<u64>();
    }
    Ok(usage)
}

fn remote_usage(of_user: &RemotePlace, own: &str) -> Result<Usage, FsError> {
    let mut usage = Usage::default();
    let files = of_user.connect()?;
    let listed = match files.list(of_user.path(), ENTRIES_MAX) {
        Err(FsError::NotFound { .. }) => return Ok(usage),
        listed => listed?,
    };
    for service in listed.iter().filter(|entry| entry.name != own) {
        usage.services += 1;
        let listed = match files.list(&of_user.path_of(&service.name), ENTRIES_MAX) {
            Err(FsError::NotFound { .. }) => Vec::new(),
            listed => listed?,
        };
        let sizes = listed.iter().filter(|entry| entry.kind == Kind::File);
        usage.bytes += sizes.map(|file| file.length).sum::<u64>();
    }
    Ok(usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::FileAccess;

    #[test]
    fn a_user_has_the_services_and_bytes_of_all_but_one() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        for (name, bytes) in [
            ("alice/a/1", "123"),
            ("alice/b/1", "45"),
            ("alice/b/2", "6"),
        ] {
            write(name, bytes);
        }
        write("bob/c/1", "7890");
        let uri = format!("file:{}", dir.path().display()).parse().unwrap();
        let remote = Place::Remote(RemotePlace {
            access: FileAccess::default(),
            uri,
        });
        for place in [Place::Local(dir.path().to_owned()), remote] {
            let root = HistoryRoot::new(place);
            let of = |user: &str, service: &str| {
                let name = ServiceName::new(user, service).unwrap();
                let usage = root.usage_of_others(&name).unwrap();
                (usage.services, usage.bytes)
            };
            assert_eq!(of("alice", "a"), (1, 3));
            assert_eq!(of("alice", "new"), (2, 6));
            assert_eq!(of("carol", "a"), (0, 0));
        }
    }
}
