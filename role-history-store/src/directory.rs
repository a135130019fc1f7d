//! Loading from and saving to the directory of one service.

use std::io::{self, BufReader, Read};
use std::num::NonZeroUsize;

use records::ApplicationAttemptId;
use role_history::SavedHistory;
use role_history::avro::{ReadHistory, ReadHistoryError, ReadLimits, read_history};
use thiserror::Error;

use crate::files::{BUFFER_BYTES, Files, StoreError, io_error};
use crate::local::LocalDirectory;
use crate::names::{self, HistoryFile};
use crate::place::Place;
use crate::remote::RemoteDirectory;

/// Bounds of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Number of histories to keep after a save, with the new one. Fewer than two would leave
    /// nothing to fall back to, so 1 counts as 2.
    pub keep: NonZeroUsize,
    /// Most bytes of a file that is loaded.
    pub file_bytes_max: u64,
    /// Bounds of what a file may contain.
    pub read_limits: ReadLimits,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            keep: NonZeroUsize::MIN.saturating_add(4),
            // An entry takes some 130 bytes. 20 roles on 100,000 nodes are 260 MB.
            file_bytes_max: 512 << 20,
            read_limits: ReadLimits::default(),
        }
    }
}

/// Reason for not loading a file.
#[derive(Debug, Error)]
pub enum LoadError {
    /// File that cannot be opened.
    #[error("cannot open the history")]
    Open(#[source] io::Error),
    /// File beyond the limit.
    #[error("the history has {bytes} bytes, more than {max}")]
    TooLarge {
        /// Size of the file.
        bytes: u64,
        /// Limit in bytes.
        max: u64,
    },
    /// File whose content is no complete history.
    #[error("the history is not readable")]
    Read(#[source] ReadHistoryError),
}

/// File that was not loaded.
#[derive(Debug)]
pub struct Skipped {
    /// Path or URI of the file.
    pub path: String,
    /// Reason for not loading it.
    pub error: LoadError,
}

/// History that was found.
#[derive(Debug)]
pub struct Found {
    /// Path or URI of the file.
    pub path: String,
    /// Content of the file, with its oddities.
    pub read: ReadHistory,
}

/// Outcome of a load. Without a history the service begins with an empty one.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Newest readable history.
    pub found: Option<Found>,
    /// Newer files, the newest first. They stay where they are.
    pub skipped: Vec<Skipped>,
}

/// Outcome of a save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Path or URI of the new file.
    pub path: String,
    /// Number of older files that were deleted.
    pub purged: usize,
    /// Number of older files that could not be deleted. They are tried again after the next save.
    pub purge_failures: usize,
}

/// Kind of a directory, opened by one attempt.
#[derive(Debug)]
enum Kind {
    Local(LocalDirectory),
    Remote(RemoteDirectory),
}

/// Directory with the histories of one service, opened by one attempt.
#[derive(Debug)]
pub struct HistoryDirectory {
    kind: Kind,
    config: StoreConfig,
}

impl HistoryDirectory {
    /// Opens a directory, which is created if it does not exist, and makes the attempt its owner.
    /// Removes what interrupted saves left behind.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if a later attempt of the same application owns the directory; an
    /// error of the system, such as a file in the place of the directory.
    pub fn open(
        place: &Place,
        attempt: ApplicationAttemptId,
        config: StoreConfig,
    ) -> Result<Self, StoreError> {
        let kind = match place {
            Place::Local(path) => Kind::Local(LocalDirectory::open(path, attempt)?),
            Place::Remote(remote) => Kind::Remote(RemoteDirectory::open(remote.clone(), attempt)?),
        };
        Ok(Self { kind, config })
    }

    /// Loads the newest history that can be read. Deletes nothing: until the next save the files
    /// are all there is.
    ///
    /// # Errors
    /// A directory that cannot be listed, or a file system that does not answer. A file that cannot
    /// be read is no error but is skipped.
    pub fn load(&self) -> Result<Loaded, StoreError> {
        let files = self.files()?;
        let mut loaded = Loaded::default();
        for file in newest_first(&*files)? {
            let path = files.location(&file.name);
            match self.read(&*files, &file) {
                Ok(read) => {
                    loaded.found = Some(Found { path, read });
                    break;
                }
                Err(
                    LoadError::Open(source)
                    | LoadError::Read(ReadHistoryError::Read { source, .. }),
                ) if files.may_heal(&source) => return Err(io_error("read", path, source)),
                Err(error) => loaded.skipped.push(Skipped { path, error }),
            }
        }
        Ok(loaded)
    }

    /// Saves a history: writes and synchronizes it under another name, checks that the attempt
    /// still owns the directory, and renames it. Then deletes older histories, except those to
    /// keep. A history of the same time is replaced.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if another attempt owns the directory; an error of the system. The
    /// files are then as before.
    pub fn save(&self, history: &SavedHistory) -> Result<Saved, StoreError> {
        let files = self.files()?;
        let name = names::of(history.saved);
        files.save(&name, history)?;
        let (purged, purge_failures) = self.purge(&*files, &name);
        Ok(Saved {
            path: files.location(&name),
            purged,
            purge_failures,
        })
    }

    fn files(&self) -> Result<Box<dyn Files + '_>, StoreError> {
        Ok(match &self.kind {
            Kind::Local(local) => Box::new(local),
            Kind::Remote(remote) => Box::new(remote.connect()?),
        })
    }

    fn read(&self, files: &dyn Files, file: &HistoryFile) -> Result<ReadHistory, LoadError> {
        let (bytes, max) = (file.bytes, self.config.file_bytes_max);
        if bytes > max {
            return Err(LoadError::TooLarge { bytes, max });
        }
        let opened = files.open(&file.name).map_err(LoadError::Open)?;
        // The file may have grown since it was listed.
        let input = BufReader::with_capacity(BUFFER_BYTES, opened.take(max));
        read_history(input, self.config.read_limits).map_err(LoadError::Read)
    }

    /// Deletes files that are older than the new one, except the newest of them. Newer ones, which
    /// could not be read or were written by a clock that is ahead, stay. Returns how many were
    /// deleted, and how many could not be.
    fn purge(&self, files: &dyn Files, newest: &str) -> (usize, usize) {
        let keep = self.config.keep.get().max(2) - 1;
        let histories = newest_first(files).unwrap_or_default();
        let older = histories.iter().skip_while(|file| file.name != newest);
        let outcomes = older.skip(1 + keep).map(|file| files.remove(&file.name));
        let (purged, failed): (Vec<_>, Vec<_>) = outcomes.partition(Result::is_ok);
        (purged.len(), failed.len())
    }
}

/// Returns the histories of a directory, the newest name first.
fn newest_first(files: &dyn Files) -> Result<Vec<HistoryFile>, StoreError> {
    let mut histories = files.histories()?;
    histories.sort_unstable_by(|a, b| b.cmp(a));
    Ok(histories)
}

#[cfg(test)]
mod tests;
