//! Deletion of folders in the background (Hadoop: `DeletionService`).
//!
//! A few threads take what is due from one queue ordered by time: a channel cannot hold a deletion
//! back for the debug delay or the three hours for which logs are kept. Of what is due, users take
//! turns, and one thread is left to others however much one user has left behind: a tree of a
//! million files takes minutes. When the agent stops, due
//! deletions are still performed, within bounds; the next start finds the rest again.

use std::cmp;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use records::ApplicationId;
use threads::{Pool, PoolConfig, Work};

use crate::config::DeletionConfig;

use super::disk::Disk;
use super::layout::{self, DELETION_MARK};
use super::own_logs::{UnnamedLogs, remove_mark};
use super::remove_tree::{Incomplete, OWNER_ALL, open_for_removal, remove_tree};
use super::sweep::{Keep, sweep};
use super::turns::Turns;
use super::user_name::UserName;
use dir_handle::DirHandle;

/// Limit on queued deletions. One is about 400 bytes, so a full queue is 100 MB; only a long debug
/// delay fills it, at hundreds of containers a second. Folders beyond the limit stay on the disk
/// until the next start of the agent.
const QUEUED_MAX: usize = 1 << 18;

/// A folder or file below one of the node's directories, to be deleted with its contents.
#[derive(Clone)]
pub struct Deletion {
    disk: Arc<Disk>,
    /// Names from the directory downwards, one per level, never empty.
    names: Vec<String>,
    what: What,
}

/// Part of a folder that is deleted.
#[derive(Clone)]
enum What {
    /// The whole folder.
    All,
    /// Everything in a cache of an earlier run but what stays there.
    CacheBut(Arc<Keep>),
    /// Logs of an application, and with them their mark.
    Logs(ApplicationId),
    /// The same of an earlier run, after a time, unless the application has a container again.
    UnnamedLogs(ApplicationId, Arc<UnnamedLogs>, Duration),
}

/// Queued deletions below which the queue keeps its memory.
const CAPACITY_KEPT: usize = 256;

/// Handle of the deletion threads. Cheap to clone.
#[derive(Clone)]
pub struct DeletionService {
    pool: Pool<Queue>,
    /// Checked between two files of a tree, so that a stop does not wait for a large tree.
    is_stopping: Arc<AtomicBool>,
    /// Delay added to each deletion; `None`: nothing is ever deleted.
    debug_delay: Option<Duration>,
}

#[derive(Default)]
struct Queue {
    heap: BinaryHeap<Queued>,
    /// Deletions that are due, by their numbers, and the turns at them.
    due: BTreeMap<u64, Deletion>,
    turns: Turns<u64>,
    /// Limit on the deletions in progress for one user.
    each_user_max: usize,
    /// Number of deletions in progress.
    active: usize,
    next_sequence: u64,
}

struct Queued {
    due: Instant,
    sequence: u64,
    deletion: Deletion,
}

impl Deletion {
    pub(super) fn new(disk: Arc<Disk>, names: Vec<String>) -> Self {
        let what = What::All;
        Self { disk, names, what }
    }

    /// Deletes the logs of an application.
    pub(super) fn of_logs(disk: &Arc<Disk>, application: ApplicationId) -> Self {
        Self {
            disk: Arc::clone(disk),
            names: vec![application.to_string()],
            what: What::Logs(application),
        }
    }

    /// Deletes the logs of an application that no record names, after this time.
    pub(super) fn of_unnamed(
        disk: &Arc<Disk>,
        application: ApplicationId,
        unnamed: &Arc<UnnamedLogs>,
        after: Duration,
    ) -> Self {
        Self {
            what: What::UnnamedLogs(application, Arc::clone(unnamed), after),
            ..Self::of_logs(disk, application)
        }
    }

    /// Deletes what an earlier run has left in the cache at the end of these names.
    pub(super) fn in_cache(disk: Arc<Disk>, names: Vec<String>, keep: Arc<Keep>) -> Self {
        let what = What::CacheBut(keep);
        Self { disk, names, what }
    }

    /// Returns the time that passes before the deletion beside all other delays.
    pub(super) fn delay(&self) -> Duration {
        match &self.what {
            What::UnnamedLogs(_, _, after) => *after,
            What::All | What::CacheBut(_) | What::Logs(_) => Duration::ZERO,
        }
    }

    /// Returns the path to delete, for messages only: the deletion follows no link in it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let mut path = self.disk.path.clone();
        path.extend(&self.names);
        path
    }

    /// Returns whose turn a deletion takes: that of the user whose cache it is in, or else of the
    /// folder at the top, as that of an application among the logs.
    fn turn(&self) -> UserName {
        let first = self.names.first().map_or("", String::as_str);
        let second = self.names.get(1).filter(|_| first == layout::USER_CACHE);
        let name = second.map_or(first, String::as_str).parse();
        // Names that no user has share a turn.
        name.unwrap_or_else(|_| "other".parse().expect("letters are a safe name"))
    }

    /// Descends by handles and removes the last name, or what does not stay in it. A missing folder
    /// on the way means that nothing is left to do; a link or a mount on the way is an error.
    fn perform(&self, is_stopping: &dyn Fn() -> bool) -> Result<(), Incomplete> {
        let Some((last, parents)) = self.names.split_last() else {
            return Ok(());
        };
        let is_in_it = matches!(self.what, What::CacheBut(_));
        let way = if is_in_it { &self.names } else { parents };
        let folder = match self.open_folder(way) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        match &self.what {
            What::All => remove_tree(&folder, last.as_ref(), is_stopping),
            What::CacheBut(keep) => {
                let below: PathBuf = self.names.iter().collect();
                sweep(&folder, &below, keep, is_stopping)
            }
            What::Logs(application) => {
                remove_tree(&folder, last.as_ref(), is_stopping)?;
                Ok(remove_mark(&folder, *application)?)
            }
            What::UnnamedLogs(application, unnamed, _) => {
                let aside = format!("{last}{DELETION_MARK}{}", rand::random::<u32>());
                if !unnamed.set_aside(*application, &folder, &aside)? {
                    return Ok(());
                }
                remove_mark(&folder, *application)?;
                remove_tree(&folder, aside.as_ref(), is_stopping)
            }
        }
    }

    /// Opens the folder at the end of `names`; restores permissions that its owner has removed on
    /// the way.
    fn open_folder(&self, names: &[String]) -> io::Result<DirHandle> {
        let root = &self.disk.root;
        let path = Path::new(".").join(names.iter().collect::<PathBuf>());
        match root.open_beneath(&path) {
            Ok(folder) if folder.mode_bits()? & OWNER_ALL == OWNER_ALL => Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
            Ok(_) | Err(_) => names.iter().try_fold(root.try_clone()?, |folder, name| {
                open_for_removal(&folder, name)
            }),
        }
    }
}

impl fmt::Debug for Deletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Deletion").field(&self.path()).finish()
    }
}

impl DeletionService {
    /// Starts the first thread; others follow while deletions wait.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn start(config: &DeletionConfig) -> io::Result<Self> {
        let is_stopping = Arc::<AtomicBool>::default();
        let stops = Arc::clone(&is_stopping);
        let pool_config = PoolConfig {
            thread_name: "delete",
            threads_max: usize::try_from(config.thread_count).unwrap_or(usize::MAX),
        };
        let perform = move |pool: &Pool<Queue>, deletion: Deletion| {
            let is_stopping = || stops.load(Ordering::Relaxed);
            if let Err(incomplete) = deletion.perform(&is_stopping)
                && !is_stopping()
            {
                warn_of(&deletion, &incomplete);
            }
            pool.change(|queue| {
                queue.active -= 1;
                queue.turns.ended(&deletion.turn());
                // One that waited for this turn.
                (usize::from(!queue.due.is_empty()), ())
            });
        };
        let queue = Queue {
            each_user_max: pool_config.threads_max.saturating_sub(1).max(1),
            ..Queue::default()
        };
        Ok(Self {
            pool: Pool::start(pool_config, queue, perform)?,
            is_stopping,
            debug_delay: config.debug_delay_sec.map(Duration::from_secs),
        })
    }

    /// Deletes these after the debug delay. Never blocks.
    pub fn delete(&self, deletions: impl IntoIterator<Item = Deletion>) {
        self.delete_after(deletions, Duration::ZERO);
    }

    /// Deletes these after `delay` and the debug delay. Never blocks.
    pub fn delete_after(&self, deletions: impl IntoIterator<Item = Deletion>, delay: Duration) {
        let Some(debug_delay) = self.debug_delay else {
            return;
        };
        let now = Instant::now();
        let delay = delay.saturating_add(debug_delay);
        let left_out = self.pool.change(|queue| {
            let mut left_out = 0_u64;
            let before = queue.heap.len();
            for deletion in deletions {
                // A delay beyond the clock's range never ends.
                let Some(due) = now.checked_add(delay.saturating_add(deletion.delay())) else {
                    continue;
                };
                if queue.heap.len() + queue.due.len() < QUEUED_MAX {
                    queue.push(due, deletion);
                } else {
                    left_out += 1;
                }
            }
            (queue.heap.len() - before, left_out)
        });
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "deletion queue is full; left until the next start"
            );
        }
    }

    /// Ends the threads and waits for them: until all due deletions are done or, after `patience`,
    /// until each thread has removed its current file. Deletions that are not due stay on the disk.
    pub fn stop(&self, patience: Duration) {
        let has_work = |queue: &mut Queue| queue.has_work(Instant::now());
        let is_late = self.pool.wait_while(patience, has_work);
        self.is_stopping.store(true, Ordering::Relaxed);
        let left = self.pool.change(|queue| {
            let left = queue.heap.len() + queue.due.len() + queue.active;
            queue.heap.clear();
            queue.due.clear();
            queue.turns = Turns::default();
            (0, left)
        });
        if is_late {
            tracing::warn!(left, "stopping with deletions left for the next start");
        }
        self.pool.close();
        self.pool.wait_ended(Duration::MAX);
    }

    /// Waits until every queued deletion is done.
    #[cfg(test)]
    pub(super) fn wait_until_idle(&self) {
        let is_busy =
            |queue: &mut Queue| queue.active > 0 || !queue.heap.is_empty() || !queue.due.is_empty();
        self.pool.wait_while(Duration::MAX, is_busy);
    }
}

impl Queue {
    /// Returns whether a deletion is in progress or due.
    fn has_work(&self, now: Instant) -> bool {
        let is_due = |first: &Queued| first.due <= now;
        self.active > 0 || !self.due.is_empty() || self.heap.peek().is_some_and(is_due)
    }

    /// Gives turns to the deletions that have become due.
    fn queue_due(&mut self, now: Instant) {
        while self.heap.peek().is_some_and(|first| first.due <= now)
            && let Some(Queued {
                sequence, deletion, ..
            }) = self.heap.pop()
        {
            self.turns.queue(&deletion.turn(), sequence);
            self.due.insert(sequence, deletion);
        }
    }

    fn push(&mut self, due: Instant, deletion: Deletion) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.heap.push(Queued {
            due,
            sequence,
            deletion,
        });
    }
}

impl Work for Queue {
    type Job = Deletion;

    fn next(&mut self, now: Instant) -> Result<Deletion, Option<Instant>> {
        self.queue_due(now);
        let each_user_max = self.each_user_max.max(1);
        let next = self.turns.next(|under_way| under_way < each_user_max);
        let next = next.and_then(|(_, number)| self.due.remove(&number));
        if let Some(deletion) = next {
            self.active += 1;
            return Ok(deletion);
        }
        self.heap.shrink_to(CAPACITY_KEPT);
        Err(self.heap.peek().map(|first| first.due))
    }
}

/// Warns of what a deletion has left, and of each mount by its path, since only an administrator
/// can unmount it.
fn warn_of(deletion: &Deletion, incomplete: &Incomplete) {
    let Incomplete { error, mounts } = incomplete;
    let path = deletion.path();
    for mount in mounts {
        let mount = path.parent().unwrap_or(&path).join(mount);
        tracing::warn!(mount = %mount.display(), "a mount in a folder to delete is left");
    }
    let path = path.display();
    if mounts.is_empty() {
        tracing::warn!(%path, %error, "cannot delete");
    } else {
        tracing::warn!(%path, %error, "deletion is incomplete: mounts are left");
    }
}

impl Ord for Queued {
    /// Orders the next deletion as the greatest: the earliest due, and of those the first queued.
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        (other.due, other.sequence).cmp(&(self.due, self.sequence))
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == cmp::Ordering::Equal
    }
}

impl Eq for Queued {}

#[cfg(test)]
mod tests;
