//! Loading from and saving to the directory of one service.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use records::ApplicationAttemptId;
use role_history::SavedHistory;
use role_history::avro::{ReadHistory, ReadHistoryError, ReadLimits, read_history, write_history};
use thiserror::Error;

use crate::fence::Fence;
use crate::names;

/// Bytes that are read and written at a time.
const BUFFER_BYTES: usize = 256 * 1_024;

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

/// Error of an operation on the directory.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Failed operation on a file.
    #[error("cannot {operation} {path}")]
    Io {
        /// Operation that failed: `create`, `read`, …
        operation: &'static str,
        /// File or directory.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// Directory that another attempt has opened since. This attempt is not the current one and has
    /// nothing more to save.
    #[error("{directory} belongs to {}", owner.map_or_else(
        || "no attempt".to_owned(),
        |owner| owner.to_string(),
    ))]
    Fenced {
        /// Directory of the histories.
        directory: PathBuf,
        /// Attempt that may save; `None` after a crash, until an attempt opens the directory.
        owner: Option<ApplicationAttemptId>,
    },
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
    /// Path of the file.
    pub path: PathBuf,
    /// Reason for not loading it.
    pub error: LoadError,
}

/// History that was found.
#[derive(Debug)]
pub struct Found {
    /// Path of the file.
    pub path: PathBuf,
    /// Content of the file, with its oddities.
    pub read: ReadHistory,
}

/// Outcome of a load. Without a history the service begins with an empty one.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Newest readable history.
    pub found: Option<Found>,
    /// Newer files, the newest first. They stay where they are. Empty files are no files at all.
    pub skipped: Vec<Skipped>,
}

/// Outcome of a save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Path of the new file.
    pub path: PathBuf,
    /// Number of older files that were deleted.
    pub purged: usize,
    /// Number of older files that could not be deleted. They are tried again after the next save.
    pub purge_failures: usize,
}

/// Directory with the histories of one service, opened by one attempt.
#[derive(Debug)]
pub struct HistoryDirectory {
    path: PathBuf,
    attempt: ApplicationAttemptId,
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
        path: impl Into<PathBuf>,
        attempt: ApplicationAttemptId,
        config: StoreConfig,
    ) -> Result<Self, StoreError> {
        let path = path.into();
        fs::create_dir_all(&path).map_err(|source| io_error("create", &path, source))?;
        let mut fence = Fence::lock(&path).map_err(|source| io_error("lock", &path, source))?;
        let acquired = fence.acquire(attempt);
        let acquired = acquired.map_err(|source| io_error("fence", &path, source))?;
        if let Err(owner) = acquired {
            return Err(StoreError::Fenced {
                directory: path,
                owner: Some(owner),
            });
        }
        let left = names::left_behind(&path).map_err(|source| io_error("list", &path, source))?;
        for file in left {
            let removed = fs::remove_file(&file.path);
            removed.map_err(|source| io_error("remove", &file.path, source))?;
        }
        Ok(Self {
            path,
            attempt,
            config,
        })
    }

    /// Loads the newest history that can be read. Deletes nothing: until the next save the files
    /// are all there is.
    ///
    /// # Errors
    /// A directory that cannot be listed. A file that cannot be read is no error but is skipped.
    pub fn load(&self) -> Result<Loaded, StoreError> {
        let mut loaded = Loaded::default();
        let files = names::newest_first(&self.path);
        let files = files.map_err(|source| io_error("list", &self.path, source))?;
        for file in files.into_iter().filter(|file| file.bytes > 0) {
            match self.read(&file.path, file.bytes) {
                Ok(read) => {
                    let path = file.path;
                    loaded.found = Some(Found { path, read });
                    break;
                }
                Err(error) => loaded.skipped.push(Skipped {
                    path: file.path,
                    error,
                }),
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
        let name = names::of(history.saved);
        let temporary = self.path.join(names::temporary(&name, self.attempt));
        let path = self.path.join(&name);
        let saved = write_file(&temporary, history)
            .map_err(|source| io_error("write", &temporary, source))
            .and_then(|()| self.publish(&temporary, &path));
        if saved.is_err() {
            // May be gone already: the next owner removes what it finds.
            let _ = fs::remove_file(&temporary);
        }
        let (purged, purge_failures) = saved?;
        Ok(Saved {
            path,
            purged,
            purge_failures,
        })
    }

    fn read(&self, path: &Path, bytes: u64) -> Result<ReadHistory, LoadError> {
        let max = self.config.file_bytes_max;
        if bytes > max {
            return Err(LoadError::TooLarge { bytes, max });
        }
        let file = File::open(path).map_err(LoadError::Open)?;
        // The file may have grown since it was listed.
        let input = BufReader::with_capacity(BUFFER_BYTES, file.take(max));
        read_history(input, self.config.read_limits).map_err(LoadError::Read)
    }

    /// Gives a complete file its name, if the attempt still owns the directory.
    fn publish(&self, temporary: &Path, path: &Path) -> Result<(usize, usize), StoreError> {
        let directory = &self.path;
        let fence = Fence::lock(directory).map_err(|source| io_error("lock", directory, source))?;
        if fence.owner() != Some(self.attempt) {
            return Err(StoreError::Fenced {
                directory: directory.clone(),
                owner: fence.owner(),
            });
        }
        fs::rename(temporary, path).map_err(|source| io_error("rename to", path, source))?;
        let synchronized = File::open(directory).and_then(|directory| directory.sync_all());
        synchronized.map_err(|source| io_error("synchronize", directory, source))?;
        Ok(self.purge(path))
    }

    /// Deletes files that are older than the new one, except the newest of them. Newer ones, which
    /// could not be read or were written by a clock that is ahead, stay. Returns how many were
    /// deleted, and how many could not be.
    fn purge(&self, newest: &Path) -> (usize, usize) {
        let keep = self.config.keep.get().max(2) - 1;
        let files = names::newest_first(&self.path).unwrap_or_default();
        let older = files.iter().skip_while(|file| file.path != newest).skip(1);
        let outcomes = older.skip(keep).map(|file| fs::remove_file(&file.path));
        let (purged, failed): (Vec<_>, Vec<_>) = outcomes.partition(Result::is_ok);
        (purged.len(), failed.len())
    }
}

/// Writes a new file. One that an interrupted save of the same attempt left behind is replaced, and
/// a link in its place is not followed.
fn write_file(path: &Path, history: &SavedHistory) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, file);
    write_history(history, &mut output)?;
    output.flush()?;
    output.get_ref().sync_all()
}

fn io_error(operation: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
