//! Directory of a service in a file system with a URI, which has no locks: HDFS.
//!
//! The NameNode performs one operation after the other, and each is whole or not at all. So an
//! attempt writes into a directory of its own, and a save ends with a rename out of it:
//!
//! ```text
//!  DIRECTORY/.owner-0000000000000002-appattempt_…/unfinished   a save that is not complete
//!            rolehistory-0000015216ced600.json
//! ```
//!
//! Whoever opens the directory makes an own directory with a higher number, and deletes those with
//! lower ones before it loads. From then on, a rename of an earlier owner finds nothing to rename:
//! no earlier attempt changes what the later one has loaded, whenever it was stopped or delayed.
//! When several open at once, each sees a higher number than its own or is seen by the one that has
//! it, so at most one is left that can save, and the one with the highest number always is.

use std::io::{self, BufWriter, Read, Write as _};

use hadoop_fs::{FileSystem, FsError, Kind};
use records::ApplicationAttemptId;
use role_history::SavedHistory;
use role_history::avro::write_history;

use crate::files::{BUFFER_BYTES, Files, StoreError, io_error};
use crate::names::{self, HistoryFile};
use crate::place::RemotePlace;

/// Mode of directories: others than the agents' group see no service.
const DIRECTORY_MODE: u32 = 0o750;

/// Mode of files.
const FILE_MODE: u32 = 0o640;

/// Name of a file that is being written.
const UNFINISHED: &str = "unfinished";

/// Maximum of entries in a directory. There are a few unless somebody else writes to it.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// Maximum of tries to become the owner, while others open the directory, too.
const TRIES_MAX: usize = 8;

/// Right to save: the directory of an attempt. The highest number has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    number: u64,
    attempt: ApplicationAttemptId,
}

impl Owner {
    const PREFIX: &str = ".owner-";

    fn name(self) -> String {
        format!("{}{:016x}-{}", Self::PREFIX, self.number, self.attempt)
    }

    fn from_name(name: &str) -> Option<Self> {
        let (number, attempt) = name.strip_prefix(Self::PREFIX)?.split_once('-')?;
        Some(Self {
            number: u64::from_str_radix(number, 16).ok()?,
            attempt: attempt.parse().ok()?,
        })
    }
}

/// Remote directory, opened by one attempt. Keeps no connection.
#[derive(Debug)]
pub(crate) struct RemoteDirectory {
    place: RemotePlace,
    owner: Owner,
}

impl RemoteDirectory {
    /// Opens a directory and makes the attempt its owner. Removes unfinished saves.
    pub(crate) fn open(
        place: RemotePlace,
        attempt: ApplicationAttemptId,
    ) -> Result<Self, StoreError> {
        let files = place.connect()?;
        files.make_dirs(place.path(), DIRECTORY_MODE)?;
        for _ in 0..TRIES_MAX {
            let last = owners(&*files, &place)?.into_iter().max();
            if let Some(Owner { attempt: owner, .. }) = last
                && owner.application_id == attempt.application_id
                && owner.attempt_id > attempt.attempt_id
            {
                return Err(StoreError::Fenced {
                    directory: place.to_string(),
                    owner: Some(owner),
                });
            }
            let number = last.map_or(0, |last| last.number).saturating_add(1);
            let owner = Owner { number, attempt };
            match files.make_dirs(&place.path_of(&owner.name()), DIRECTORY_MODE) {
                // A later owner has deleted it already.
                Err(FsError::NotFound { .. }) => continue,
                made => made?,
            }
            if take_over(&*files, &place, owner)? {
                return Ok(Self { place, owner });
            }
        }
        let directory = place.to_string();
        Err(StoreError::Contended { directory })
    }

    pub(crate) fn connect(&self) -> Result<RemoteFiles<'_>, StoreError> {
        Ok(RemoteFiles {
            files: self.place.connect()?,
            directory: self,
        })
    }
}

/// Ends the rights of all earlier owners. Returns `false`, with the own right given up, if there is
/// a later one.
fn take_over(files: &dyn FileSystem, place: &RemotePlace, own: Owner) -> Result<bool, StoreError> {
    let mut others = owners(files, place)?;
    others.retain(|other| *other != own);
    let is_last = others.iter().all(|other| *other < own);
    let ended = if is_last { others } else { vec![own] };
    for owner in ended {
        match files.delete(&place.path_of(&owner.name())) {
            Ok(_) | Err(FsError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(is_last)
}

fn owners(files: &dyn FileSystem, place: &RemotePlace) -> Result<Vec<Owner>, StoreError> {
    let entries = files.list(place.path(), ENTRIES_MAX)?.into_iter();
    let folders = entries.filter(|entry| entry.kind == Kind::Folder);
    Ok(folders
        .filter_map(|entry| Owner::from_name(&entry.name))
        .collect())
}

/// Files of a remote directory during one load or save, with their connection.
pub(crate) struct RemoteFiles<'a> {
    files: Box<dyn FileSystem>,
    directory: &'a RemoteDirectory,
}

impl RemoteFiles<'_> {
    fn path_of(&self, name: &str) -> String {
        self.directory.place.path_of(name)
    }

    fn unfinished(&self) -> String {
        let own = self.directory.owner.name();
        self.path_of(&format!("{own}/{UNFINISHED}"))
    }

    /// Writes the unfinished file. One that a failed save left behind is replaced.
    fn write(&self, history: &SavedHistory) -> Result<(), StoreError> {
        let path = self.unfinished();
        let file = self.files.create(&path, FILE_MODE, true);
        let file = file.map_err(|error| self.fenced_or(error))?;
        let mut output = BufWriter::with_capacity(BUFFER_BYTES, file);
        let written = write_history(history, &mut output).and_then(|()| output.flush());
        let uri = || self.directory.place.join(&path).to_string();
        written.map_err(|source| io_error("write", uri(), source))?;
        let (file, _) = output.into_parts();
        file.close().map_err(|error| self.fenced_or(error))
    }

    /// Gives the finished file its name. The rename fails if a later owner has deleted the file.
    fn publish(&self, name: &str) -> Result<(), StoreError> {
        let renamed = self
            .files
            .rename(&self.unfinished(), &self.path_of(name), true);
        renamed.map_err(|error| self.fenced_or(error))
    }

    /// Returns the reason why the own directory is gone, or else the error.
    fn fenced_or(&self, error: FsError) -> StoreError {
        let RemoteDirectory { place, owner } = self.directory;
        match owners(&*self.files, place) {
            Ok(owners) if !owners.contains(owner) => StoreError::Fenced {
                directory: place.to_string(),
                owner: owners.into_iter().max().map(|owner| owner.attempt),
            },
            Ok(_) | Err(_) => error.into(),
        }
    }
}

impl Files for RemoteFiles<'_> {
    fn histories(&self) -> Result<Vec<HistoryFile>, StoreError> {
        let path = self.directory.place.path();
        let entries = self.files.list(path, ENTRIES_MAX)?.into_iter();
        let files = entries.filter(|entry| entry.kind == Kind::File);
        Ok(files
            .filter(|file| names::is_history(&file.name))
            .map(|file| HistoryFile {
                name: file.name,
                bytes: file.length,
            })
            .collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(self.files.open(&self.path_of(name))?))
    }

    fn save(&self, name: &str, history: &SavedHistory) -> Result<(), StoreError> {
        self.write(history)?;
        self.publish(name)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.files.delete(&self.path_of(name))?;
        Ok(())
    }

    fn location(&self, name: &str) -> String {
        self.directory.place.join(name).to_string()
    }

    /// A file that is missing or private stays so. Anything else is the matter of NameNode,
    /// DataNodes and network, which come back.
    fn may_heal(&self, error: &io::Error) -> bool {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        cause.is_some_and(|cause: &FsError| {
            !matches!(cause, FsError::NotFound { .. } | FsError::Denied { .. })
        })
    }
}

#[cfg(test)]
mod tests;
