//! Checks of the directories, one after the other in time and all at once: each on a thread of its
//! own, because a disk may hang.
//!
//! A check that has not ended in time fails its directory and keeps its thread. The directory is
//! not checked again before that thread has ended, so a disk that hangs costs one thread.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, never, select, unbounded};
use dir_handle::DiskSpace;
use records::EpochMillis;
use threads::ThreadOwner;

use super::deletion::DeletionService;
use super::dirs::{DiskChecks, NodeDirs, View};
use super::disk::Disk;
use super::disk_health::{DirKind, DisksReport};
use super::disk_place::{DiskPlace, Probed, Unusable};
use super::earlier::Earlier;
use super::error::DirsError;
use super::folder_lock::{FolderLocks, InUse};
use super::needed::Needed;
use super::own_logs::UnnamedLogs;
use super::start;
use crate::config::DirsConfig;

/// How long the checks of a round may take. They write nothing, so only a disk that hangs or is
/// about to fail takes longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The directories, as far as they are open.
#[derive(Clone, Debug)]
pub(super) struct DiskPlaces {
    local: Vec<DiskPlace>,
    log: Vec<DiskPlace>,
}

impl DiskPlaces {
    /// Returns the configured directories before they are opened.
    pub(super) fn new(
        config: &DirsConfig,
        needed: Option<Arc<Needed>>,
        first_resource: u64,
        unnamed_logs: &Arc<UnnamedLogs>,
    ) -> Self {
        let locks = FolderLocks::default();
        let closed = |paths: &[PathBuf]| {
            let closed = |path: &PathBuf| DiskPlace {
                path: path.clone(),
                disk: None,
                was_open: false,
                needed: needed.clone(),
                first_resource,
                locks: locks.clone(),
                unnamed_logs: Arc::clone(unnamed_logs),
            };
            paths.iter().map(closed).collect()
        };
        Self {
            local: closed(&config.local_dirs),
            log: closed(&config.log_dirs),
        }
    }

    /// Returns the directories of this kind in the configured order.
    pub(super) fn of(&self, kind: DirKind) -> &[DiskPlace] {
        match kind {
            DirKind::Local => &self.local,
            DirKind::Log => &self.log,
        }
    }

    fn give_up_cached(&mut self) {
        let first = self.local.first().and_then(|place| place.needed.as_ref());
        let Some(needed) = first.filter(|needed| !needed.cached.is_empty()) else {
            return;
        };
        let mut without = Needed::clone(needed);
        without.cached = Vec::new();
        let without = Arc::new(without);
        for place in self.local.iter_mut().chain(&mut self.log) {
            place.needed = Some(Arc::clone(&without));
        }
    }

    /// Returns the path of a directory.
    fn path_of(&self, (kind, index): Id) -> PathBuf {
        let place = self.of(kind).get(index);
        place.map(|place| place.path.clone()).unwrap_or_default()
    }

    fn of_mut(&mut self, kind: DirKind) -> &mut [DiskPlace] {
        match kind {
            DirKind::Local => &mut self.local,
            DirKind::Log => &mut self.log,
        }
    }
}

/// Kind and index of a directory.
type Id = (DirKind, usize);

type Answer = (Id, Probed);

/// Result of a round of checks.
#[derive(Default)]
pub(super) struct Round {
    /// Folders of an earlier run, on all directories.
    pub(super) earlier: Earlier,
    /// First directory that another agent uses.
    pub(super) in_use: Option<(PathBuf, InUse)>,
}

/// Function that checks one directory.
type Probe = fn(DirKind, &DiskPlace, EpochMillis) -> Probed;

/// Checks under way.
pub(super) struct Checks {
    answers: (Sender<Answer>, Receiver<Answer>),
    /// Directories whose check has not ended.
    running: BTreeSet<Id>,
    patience: Duration,
    probe: Probe,
    /// Disconnected when the agent stops.
    stopped: Receiver<Infallible>,
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

impl Default for Checks {
    fn default() -> Self {
        Self::new(start::probe, PATIENCE)
    }
}

impl Checks {
    fn new(probe: Probe, patience: Duration) -> Self {
        Self {
            answers: unbounded(),
            running: BTreeSet::new(),
            patience,
            probe,
            stopped: never(),
        }
    }

    /// Checks every directory and makes the result the view of `dirs`. Returns the folders of an
    /// earlier run that were found, and the first directory that another agent uses. From then on
    /// no records of the caches count: those of a directory that could not be used are given up.
    ///
    /// # Errors
    /// [`DirsError::NoThread`]: nothing has changed.
    pub(super) fn round(&mut self, dirs: &NodeDirs, now: EpochMillis) -> Result<Round, DirsError> {
        let (_, answers) = self.answers.clone();
        // Ends of checks that a round has given up.
        for (id, _) in answers.try_iter() {
            self.running.remove(&id);
        }
        let mut view = (*dirs.view()).clone();
        let mut waiting = self.ask_all(&view, now).map_err(DirsError::NoThread)?;
        let mut found = Round::default();
        let deadline = Instant::now() + self.patience;
        while !waiting.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let (id, mut probed) = select! {
                recv(answers) -> answer => match answer {
                    Ok(answer) => answer,
                    Err(_) => break,
                },
                recv(self.stopped) -> _ => return Ok(found),
                default(left) => break,
            };
            self.running.remove(&id);
            if waiting.remove(&id) {
                found.earlier.append(&mut probed.earlier);
                if let Err(Unusable::InUse(in_use)) = probed.result {
                    let path = view.places.path_of(id);
                    found.in_use.get_or_insert((path, in_use));
                }
                take(&mut view, id, probed.result.map_err(String::from));
            }
        }
        for id in &self.running {
            let reason = format!("the disk has not answered for {:?}", self.patience);
            take(&mut view, *id, Err(reason));
        }
        view.places.give_up_cached();
        dirs.set_view(view);
        Ok(found)
    }

    /// Starts a check of each directory that has none. Returns these directories.
    fn ask_all(&mut self, view: &View, now: EpochMillis) -> io::Result<BTreeSet<Id>> {
        let mut asked = BTreeSet::new();
        for kind in [DirKind::Local, DirKind::Log] {
            for (index, place) in view.places.of(kind).iter().enumerate() {
                let id = (kind, index);
                if self.running.contains(&id) {
                    continue;
                }
                let (answers, _) = self.answers.clone();
                let (place, probe) = (place.clone(), self.probe);
                let check = move || {
                    // Fails once the agent has stopped.
                    drop(answers.send((id, probe(kind, &place, now))));
                };
                let thread = thread::Builder::new().name("disk-check".to_owned());
                thread.spawn(check)?;
                self.running.insert(id);
                asked.insert(id);
            }
        }
        Ok(asked)
    }
}

/// Records the result of a directory's check.
fn take(view: &mut View, (kind, index): Id, result: Result<(Arc<Disk>, DiskSpace), String>) {
    let (disk, measured) = match result {
        Ok((disk, space)) => (Some(disk), Ok(space)),
        Err(reason) => (None, Err(reason)),
    };
    view.health.measured(kind, index, measured);
    if let Some(place) = view.places.of_mut(kind).get_mut(index) {
        place.was_open |= disk.is_some();
        place.disk = disk;
    }
}

/// The thread that checks the directories at intervals (Hadoop: `LocalDirsHandlerService`).
#[must_use]
pub struct DiskChecker {
    owner: ThreadOwner,
    stop: Sender<Infallible>,
    thread: JoinHandle<()>,
}

impl DiskChecker {
    /// Starts the thread `disk-health`, which goes on with `checks` every `interval` and reports to
    /// `listener`. `wall_clock` dates folders of an earlier run on a directory that could not be
    /// used before; they go to `deletion`.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn start(
        dirs: NodeDirs,
        DiskChecks(mut checks): DiskChecks,
        interval: Duration,
        deletion: DeletionService,
        wall_clock: fn() -> EpochMillis,
        mut listener: impl FnMut(DisksReport) + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = bounded(0);
        checks.stopped = stopped.clone();
        let owner = ThreadOwner::default();
        let thread = owner.start("disk-health", move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                match checks.round(&dirs, wall_clock()) {
                    Ok(found) => deletion.delete(found.earlier.leftovers),
                    Err(error) => {
                        let error = crate::error_chain(&error);
                        tracing::warn!(error, "the directories are checked later");
                    }
                }
                listener(dirs.report());
            }
        })?;
        Ok(Self {
            owner,
            stop,
            thread,
        })
    }

    /// Ends the thread and waits for it. A check that hangs is left.
    pub fn stop(self) {
        self.owner.end();
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the thread that checks the directories panicked");
        }
    }
}

#[cfg(test)]
mod tests;
