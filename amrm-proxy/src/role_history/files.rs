//! Files of all services' histories: one thread that loads and saves, off the AMs' path.
//!
//! ```text
//!  DIRECTORY/USER/SERVICE/rolehistory-….json     users and services as directories' names
//! ```
//!
//! An attempt opens its service when it is admitted, before its AM runs, so that the history is
//! usually loaded when the AM registers. Names come from tenants: every byte of them that is no
//! letter, digit, `_` or `-` is written as `%` and two digits, so that no name leaves the
//! directory. A user's services and their bytes are bounded.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use records::{ApplicationAttemptId, error_chain};
use role_history::avro::ReadLimits;
use role_history::opt_in::SERVICE_BYTES_MAX;
use role_history::{SavedHistory, Snapshot};
use role_history_store::{HistoryDirectory, Loaded, StoreConfig, StoreError};
use thiserror::Error;
use threads::ThreadOwner;
use tokio::sync::mpsc as channel;
use tokio::time::timeout;

/// Maximum of services of one user with files.
const SERVICES_MAX: usize = 100;

/// Files that a service keeps: the newest, and one to fall back to. More would leave less of the
/// user's bytes for each.
const FILES_KEPT: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// Files that a service has during a save: those that it keeps, and the new one.
const FILES_AT_A_SAVE: u64 = 3;

/// Bytes of an entry in a file, about: its names are most of it.
const ENTRY_BYTES: u64 = 130;

/// Bytes of a file's other records.
const OTHER_BYTES: u64 = 1_024;

/// Longest wait of an AM's registration for its history. Afterwards the AM goes on with an empty
/// one, which the files join when they are loaded.
const LOAD_WAIT: Duration = Duration::from_millis(100);

/// News about the files of an attempt's service.
#[derive(Debug)]
pub enum HistoryNews {
    /// The newest readable file, or `None` if there is none.
    Loaded {
        /// Content of the file.
        history: Option<SavedHistory>,
        /// Files that were skipped because they cannot be read.
        skipped: usize,
    },
    /// The files cannot be used: nothing is loaded or saved.
    Unavailable,
    /// The snapshot was saved.
    Saved(Snapshot),
    /// The snapshot was not saved. The history stays as it was.
    SaveFailed,
    /// The AM has registered before the files were loaded.
    Late,
}

/// Directory and bounds of all histories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesConfig {
    /// Directory of all histories, shared by all nodes.
    pub directory: PathBuf,
    /// Maximum of bytes that one user's files have, and of bytes that their histories take.
    pub user_bytes_max: u64,
}

impl FilesConfig {
    /// Returns the maximum of entries in one history.
    pub(crate) fn entries_max(&self) -> usize {
        usize::try_from(self.user_bytes_max / ENTRY_BYTES).unwrap_or(usize::MAX)
    }

    fn store(&self) -> StoreConfig {
        StoreConfig {
            keep: FILES_KEPT,
            file_bytes_max: self.user_bytes_max,
            read_limits: ReadLimits {
                entries_max: self.entries_max(),
                ..ReadLimits::default()
            },
        }
    }
}

/// Reason for which a service's files cannot be used.
#[derive(Debug, Error)]
enum FilesError {
    #[error("the name of a service or user has 1 to {SERVICE_BYTES_MAX} bytes, {0:?} has not")]
    Name(String),
    #[error("the user has {SERVICES_MAX} services with histories; remove some in {0}")]
    TooManyServices(PathBuf),
    #[error("the histories of the user have more than {max} bytes with this one of {bytes} bytes")]
    TooLarge { bytes: u64, max: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot list {0}")]
    List(PathBuf, #[source] std::io::Error),
}

enum Job {
    Open {
        id: u64,
        attempt: ApplicationAttemptId,
        user: String,
        service: String,
        news: channel::UnboundedSender<HistoryNews>,
    },
    Save {
        id: u64,
        snapshot: Snapshot,
    },
    Close(u64),
}

/// Handle to the thread. The thread ends after the last handle and the jobs before it.
#[derive(Debug)]
pub(crate) struct HistoryFiles {
    _thread: ThreadOwner,
    jobs: mpsc::Sender<Job>,
    /// Number of the next opening. An attempt may be opened again before its first opening has been
    /// closed.
    next: AtomicU64,
}

impl HistoryFiles {
    /// Starts the thread.
    pub(crate) fn start(config: FilesConfig) -> Self {
        let (sender, jobs) = mpsc::channel();
        let run = move || Files::new(config).run(&jobs);
        let thread = ThreadOwner::default();
        if let Err(error) = thread.start("role-history", run) {
            tracing::error!(%error, "the thread for role histories cannot be started");
        }
        Self::new(thread, sender)
    }

    const fn new(thread: ThreadOwner, jobs: mpsc::Sender<Job>) -> Self {
        Self {
            _thread: thread,
            jobs,
            next: AtomicU64::new(0),
        }
    }

    /// Opens the files of a service and begins to load the newest one.
    pub(crate) fn open(
        &self,
        attempt: ApplicationAttemptId,
        user: &str,
        service: &str,
    ) -> HistoryFile {
        let (news, received) = channel::unbounded_channel();
        let (user, service) = (user.to_owned(), service.to_owned());
        let jobs = self.jobs.clone();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        // Without its thread, dropping the job closes the channel.
        let _ = jobs.send(Job::Open {
            id,
            attempt,
            user,
            service,
            news,
        });
        HistoryFile {
            id,
            jobs,
            news: received,
            is_loading: true,
        }
    }
}

/// Files of one attempt's service. Dropping it closes them.
#[derive(Debug)]
pub(crate) struct HistoryFile {
    id: u64,
    jobs: mpsc::Sender<Job>,
    news: channel::UnboundedReceiver<HistoryNews>,
    is_loading: bool,
}

impl HistoryFile {
    /// Returns the news since the last call. Before a registration, waits for the load for at most
    /// 100 ms.
    pub(crate) async fn news(&mut self, is_registration: bool) -> Vec<HistoryNews> {
        let mut news = Vec::new();
        if is_registration && self.is_loading {
            match timeout(LOAD_WAIT, self.news.recv()).await {
                Ok(Some(loaded)) => news.push(loaded),
                Ok(None) => news.push(HistoryNews::Unavailable),
                Err(_) => news.push(HistoryNews::Late),
            }
        }
        while let Ok(next) = self.news.try_recv() {
            news.push(next);
        }
        let is_late = |news: &HistoryNews| matches!(news, HistoryNews::Late);
        self.is_loading &= news.iter().all(is_late);
        news
    }

    /// Saves a snapshot; the news tell the outcome.
    pub(crate) fn save(&self, snapshot: Snapshot) {
        let id = self.id;
        let _ = self.jobs.send(Job::Save { id, snapshot });
    }
}

impl Drop for HistoryFile {
    fn drop(&mut self) {
        let _ = self.jobs.send(Job::Close(self.id));
    }
}

/// Files of an open service.
struct Open {
    attempt: ApplicationAttemptId,
    directory: HistoryDirectory,
    path: PathBuf,
    user: String,
    /// Memory of the history, counted as bytes of its file.
    bytes: u64,
    news: channel::UnboundedSender<HistoryNews>,
}

struct Files {
    config: FilesConfig,
    open: BTreeMap<u64, Open>,
}

impl Files {
    const fn new(config: FilesConfig) -> Self {
        Self {
            config,
            open: BTreeMap::new(),
        }
    }

    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Open {
                    id,
                    attempt,
                    user,
                    service,
                    news,
                } => {
                    let first = self.open(id, attempt, (&user, &service), &news);
                    let first = first.unwrap_or_else(|error| {
                        let error = error_chain(&error);
                        tracing::warn!(%attempt, user, service, error, "the role history is neither loaded nor saved");
                        HistoryNews::Unavailable
                    });
                    // The attempt may have ended meanwhile.
                    let _ = news.send(first);
                }
                Job::Save { id, snapshot } => self.save(id, snapshot),
                Job::Close(id) => {
                    self.open.remove(&id);
                }
            }
        }
    }

    fn open(
        &mut self,
        id: u64,
        attempt: ApplicationAttemptId,
        (user, service): (&str, &str),
        news: &channel::UnboundedSender<HistoryNews>,
    ) -> Result<HistoryNews, FilesError> {
        let of_user = self.config.directory.join(directory_name(user)?);
        let path = of_user.join(directory_name(service)?);
        if !path.is_dir() && services(&of_user)?.len() >= SERVICES_MAX {
            return Err(FilesError::TooManyServices(of_user));
        }
        let directory = HistoryDirectory::open(&path, attempt, self.config.store())?;
        let Loaded { found, skipped } = directory.load()?;
        for file in &skipped {
            let error = error_chain(&file.error);
            tracing::warn!(%attempt, service, file = %file.path.display(), error, "a role history is skipped; the next older one is tried");
        }
        let history = found.map(|found| {
            for warning in &found.read.warnings {
                tracing::warn!(%attempt, service, file = %found.path.display(), %warning, "a role history is odd");
            }
            tracing::info!(%attempt, service, file = %found.path.display(), entries = found.read.history.len(), "the role history is loaded");
            found.read.history
        });
        let bytes = history.as_ref().map_or(0, file_bytes);
        let of_others = self.open.values().filter(|open| open.user == user);
        let used: u64 = of_others.map(|open| open.bytes).sum();
        let max = self.config.user_bytes_max;
        if used.saturating_add(bytes) > max {
            return Err(FilesError::TooLarge { bytes, max });
        }
        self.open.insert(
            id,
            Open {
                attempt,
                directory,
                path,
                user: user.to_owned(),
                bytes,
                news: news.clone(),
            },
        );
        Ok(HistoryNews::Loaded {
            history,
            skipped: skipped.len(),
        })
    }

    /// Saves a snapshot of an open service. One that could not be opened is never saved.
    fn save(&mut self, id: u64, snapshot: Snapshot) {
        let Some(saved) = self
            .open
            .get(&id)
            .map(|open| self.try_save(open, &snapshot))
        else {
            return;
        };
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        let outcome = match saved {
            Ok(()) => {
                open.bytes = file_bytes(&snapshot.history);
                HistoryNews::Saved(snapshot)
            }
            Err(error) => {
                let (attempt, error) = (open.attempt, error_chain(&error));
                tracing::warn!(%attempt, error, "the role history is not saved");
                HistoryNews::SaveFailed
            }
        };
        let _ = open.news.send(outcome);
    }

    fn try_save(&self, open: &Open, snapshot: &Snapshot) -> Result<(), FilesError> {
        let of_user = self.config.directory.join(directory_name(&open.user)?);
        let bytes = file_bytes(&snapshot.history).saturating_mul(FILES_AT_A_SAVE);
        let max = self.config.user_bytes_max;
        if bytes_of_others(&of_user, &open.path)?.saturating_add(bytes) > max {
            return Err(FilesError::TooLarge { bytes, max });
        }
        open.directory.save(&snapshot.history)?;
        Ok(())
    }
}

/// Returns the size that a history has as a file, about.
fn file_bytes(history: &SavedHistory) -> u64 {
    let entries = u64::try_from(history.len()).unwrap_or(u64::MAX);
    entries
        .saturating_mul(ENTRY_BYTES)
        .saturating_add(OTHER_BYTES)
}

/// Returns the directories of a user's services; none for a user without any.
fn services(of_user: &Path) -> Result<Vec<PathBuf>, FilesError> {
    let listed = match fs::read_dir(of_user) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(|error| FilesError::List(of_user.to_owned(), error))?,
    };
    Ok(listed.flatten().map(|entry| entry.path()).collect())
}

/// Returns the bytes of the files of a user's other services. What is in a service's own directory
/// is purged by its saves.
fn bytes_of_others(of_user: &Path, own: &Path) -> Result<u64, FilesError> {
    let mut bytes = 0;
    for service in services(of_user)?.iter().filter(|path| *path != own) {
        // A directory that is gone meanwhile has no bytes.
        let files = fs::read_dir(service).into_iter().flatten().flatten();
        let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
        bytes += sizes.sum::<u64>();
    }
    Ok(bytes)
}

/// Returns the name of the directory for a user or service.
fn directory_name(name: &str) -> Result<String, FilesError> {
    if name.is_empty() || name.len() > SERVICE_BYTES_MAX {
        let shown = name.chars().take(SERVICE_BYTES_MAX).collect();
        return Err(FilesError::Name(shown));
    }
    let mut written = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            written.push(char::from(byte));
        } else {
            // A text takes whatever is written to it.
            let _ = write!(written, "%{byte:02x}");
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests;
