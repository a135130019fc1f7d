//! Files of all services' histories: one thread that loads and saves, off the AMs' path.
//!
//! ```text
//!  DIRECTORY/USER/SERVICE/rolehistory-….json     users and services as directories' names
//! ```
//!
//! An attempt opens its service when it is admitted, before its AM runs, so that the history is
//! usually loaded when the AM registers. Files that cannot be used, as those of a NameNode that is
//! down, are tried again and again: the history joins the service whenever it is loaded. A user's
//! services and their bytes are bounded.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use hadoop_fs::Uri;
use records::{ApplicationAttemptId, error_chain};
use role_history::avro::ReadLimits;
use role_history::{SavedHistory, Snapshot};
use role_history_store::{
    FileAccess, HistoryDirectory, HistoryRoot, Loaded, NameError, Place, ServiceName, StoreConfig,
    StoreError, Usage,
};
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
const LOAD_WAIT: Duration = Duration::from_secs(1);

/// Pause before files are opened again that could not be used.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// Age at which the usage of a user's other services is read again: a list for each of them, which
/// a save each second would cost a shared file system too much.
const USAGE_AGE_MAX: Duration = Duration::from_secs(30);

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
    /// The files cannot be used: nothing is loaded or saved, unless they are loaded later.
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
    /// Directory of all histories, shared by all nodes: of a mounted file system, or of HDFS.
    pub directory: Uri,
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
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("the user has {SERVICES_MAX} services with histories; remove some in {0}")]
    TooManyServices(Uri),
    #[error("the histories of the user have more than {max} bytes with this one of {bytes} bytes")]
    TooLarge { bytes: u64, max: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FilesError {
    fn may_heal(&self) -> bool {
        match self {
            Self::Name(_) | Self::TooManyServices(_) | Self::TooLarge { .. } => false,
            Self::Store(error) => error.may_heal(),
        }
    }
}

/// Service to open for an attempt, and where its news go.
struct Opening {
    id: u64,
    attempt: ApplicationAttemptId,
    user: String,
    service: String,
    news: channel::UnboundedSender<HistoryNews>,
}

enum Job {
    Open(Opening),
    Save { id: u64, snapshot: Snapshot },
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
    pub(crate) fn start(config: FilesConfig, access: FileAccess) -> Self {
        Self::start_with(config, access, RETRY_PAUSE)
    }

    fn start_with(config: FilesConfig, access: FileAccess, retry_pause: Duration) -> Self {
        let (sender, jobs) = mpsc::channel();
        let run = move || Files::new(config, access, retry_pause).run(&jobs);
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
        let jobs = self.jobs.clone();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        // Without its thread, dropping the job closes the channel.
        let _ = jobs.send(Job::Open(Opening {
            id,
            attempt,
            user: user.to_owned(),
            service: service.to_owned(),
            news,
        }));
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
    /// Returns whether [`news`](Self::news) may return some.
    pub(crate) fn may_have_news(&self, is_registration: bool) -> bool {
        (is_registration && self.is_loading) || !self.news.is_empty()
    }

    /// Returns the news since the last call. Before a registration, waits for the load for at most
    /// a second.
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
    name: ServiceName,
    user: String,
    /// Memory of the history, counted as bytes of its file.
    bytes: u64,
    /// What the user's other services had at this time.
    others: (Usage, Instant),
    news: channel::UnboundedSender<HistoryNews>,
}

struct Files {
    config: FilesConfig,
    root: HistoryRoot,
    retry_pause: Duration,
    open: BTreeMap<u64, Open>,
    /// Services that could not be opened, with the time of the next try.
    waiting: BTreeMap<u64, (Opening, Instant)>,
}

impl Files {
    fn new(config: FilesConfig, access: FileAccess, retry_pause: Duration) -> Self {
        Self {
            root: HistoryRoot::new(Place::of_uri(config.directory.clone(), access)),
            config,
            retry_pause,
            open: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        loop {
            let next_try = self.waiting.values().map(|(_, at)| *at).min();
            let job = match next_try {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => jobs.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match job {
                Ok(job) => self.perform(job),
                Err(RecvTimeoutError::Timeout) => self.open_again(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn perform(&mut self, job: Job) {
        match job {
            Job::Open(opening) => self.open(opening),
            Job::Save { id, snapshot } => self.save(id, snapshot),
            Job::Close(id) => {
                self.open.remove(&id);
                self.waiting.remove(&id);
            }
        }
    }

    fn open(&mut self, opening: Opening) {
        let error = match self.try_open(&opening) {
            // The attempt may have ended meanwhile.
            Ok(loaded) => return drop(opening.news.send(loaded)),
            Err(error) => error,
        };
        let Opening {
            attempt,
            user,
            service,
            news,
            ..
        } = &opening;
        let (text, may_heal) = (error_chain(&error), error.may_heal());
        tracing::warn!(%attempt, user, service, error = text, tried_again = may_heal, "the role history is neither loaded nor saved");
        let _ = news.send(HistoryNews::Unavailable);
        if may_heal {
            self.wait(opening);
        }
    }

    fn wait(&mut self, opening: Opening) {
        let at = Instant::now() + self.retry_pause;
        self.waiting.insert(opening.id, (opening, at));
    }

    /// Opens the service whose turn has come.
    fn open_again(&mut self) {
        let now = Instant::now();
        let due = self.waiting.iter().find(|(_, (_, at))| *at <= now);
        let Some((opening, _)) = due
            .map(|(id, _)| *id)
            .and_then(|id| self.waiting.remove(&id))
        else {
            return;
        };
        match self.try_open(&opening) {
            Ok(loaded) => drop(opening.news.send(loaded)),
            Err(error) => {
                let (attempt, text) = (opening.attempt, error_chain(&error));
                tracing::debug!(%attempt, error = text, "the role history cannot be used yet");
                if error.may_heal() {
                    self.wait(opening);
                }
            }
        }
    }

    fn try_open(&mut self, opening: &Opening) -> Result<HistoryNews, FilesError> {
        let Opening {
            id,
            attempt,
            user,
            service,
            news,
        } = opening;
        let name = ServiceName::new(user, service)?;
        let others = self.root.usage_of_others(&name)?;
        if others.services >= SERVICES_MAX {
            let directory = self.config.directory.clone();
            return Err(FilesError::TooManyServices(directory));
        }
        let directory = self.root.open(&name, *attempt, self.config.store())?;
        let Loaded { found, skipped } = directory.load()?;
        for file in &skipped {
            let error = error_chain(&file.error);
            tracing::warn!(%attempt, service, file = file.path, error, "a role history is skipped; the next older one is tried");
        }
        let history = found.map(|found| {
            for warning in &found.read.warnings {
                tracing::warn!(%attempt, service, file = found.path, %warning, "a role history is odd");
            }
            tracing::info!(%attempt, service, file = found.path, entries = found.read.history.len(), "the role history is loaded");
            found.read.history
        });
        let bytes = history.as_ref().map_or(0, file_bytes);
        let of_others = self.open.values().filter(|open| open.user == *user);
        let used: u64 = of_others.map(|open| open.bytes).sum();
        let max = self.config.user_bytes_max;
        if used.saturating_add(bytes) > max {
            return Err(FilesError::TooLarge { bytes, max });
        }
        let open = Open {
            attempt: *attempt,
            directory,
            name,
            user: user.clone(),
            bytes,
            others: (others, Instant::now()),
            news: news.clone(),
        };
        self.open.insert(*id, open);
        Ok(HistoryNews::Loaded {
            history,
            skipped: skipped.len(),
        })
    }

    /// Saves a snapshot of an open service. One that could not be opened is never saved.
    fn save(&mut self, id: u64, snapshot: Snapshot) {
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        let max = self.config.user_bytes_max;
        let outcome = match open.try_save(&self.root, &snapshot, max) {
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
}

impl Open {
    fn try_save(
        &mut self,
        root: &HistoryRoot,
        snapshot: &Snapshot,
        max: u64,
    ) -> Result<(), FilesError> {
        if self.others.1.elapsed() >= USAGE_AGE_MAX {
            self.others = (root.usage_of_others(&self.name)?, Instant::now());
        }
        let bytes = file_bytes(&snapshot.history).saturating_mul(FILES_AT_A_SAVE);
        if self.others.0.bytes.saturating_add(bytes) > max {
            return Err(FilesError::TooLarge { bytes, max });
        }
        self.directory.save(&snapshot.history)?;
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

#[cfg(test)]
mod tests;
