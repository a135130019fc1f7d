//! Deletion of folders in the background (Hadoop: `DeletionService`).
//!
//! A few threads take what is due from one queue ordered by time: a channel cannot hold a deletion
//! back for the debug delay or the three hours for which logs are kept. When the agent stops, due
//! deletions are still performed, within bounds; the next start finds the rest again.

use std::cmp;
use std::collections::BinaryHeap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use threads::{Pool, PoolConfig, Work};

use crate::config::DeletionConfig;

use super::disk::Disk;
use super::remove_tree::{Incomplete, OWNER_ALL, open_for_removal, remove_tree};
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
        Self { disk, names }
    }

    /// Returns the path to delete, for messages only: the deletion follows no link in it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let mut path = self.disk.path.clone();
        path.extend(&self.names);
        path
    }

    /// Descends by handles and removes the last name. A missing folder on the way means that
    /// nothing is left to do; a link or a mount on the way is an error.
    fn perform(&self, is_stopping: &dyn Fn() -> bool) -> Result<(), Incomplete> {
        let Some((last, parents)) = self.names.split_last() else {
            return Ok(());
        };
        let folder = match self.open_parent(parents) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        remove_tree(&folder, last.as_ref(), is_stopping)
    }

    /// Opens the folder at the end of `parents`; restores permissions that its owner has removed on
    /// the way.
    fn open_parent(&self, parents: &[String]) -> io::Result<DirHandle> {
        let root = &self.disk.root;
        let path = Path::new(".").join(parents.iter().collect::<PathBuf>());
        match root.open_beneath(&path) {
            Ok(folder) if folder.mode_bits()? & OWNER_ALL == OWNER_ALL => Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
            Ok(_) | Err(_) => parents.iter().try_fold(root.try_clone()?, |folder, name| {
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
            pool.change(|queue| (0, queue.active -= 1));
        };
        Ok(Self {
            pool: Pool::start(pool_config, Queue::default(), perform)?,
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
        // A delay beyond the clock's range never ends.
        let due = Instant::now().checked_add(delay.saturating_add(debug_delay));
        let Some(due) = due else {
            return;
        };
        let left_out = self.pool.change(|queue| {
            let mut left_out = 0_u64;
            let before = queue.heap.len();
            for deletion in deletions {
                if queue.heap.len() < QUEUED_MAX {
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
            let left = queue.heap.len() + queue.active;
            queue.heap.clear();
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
        let is_busy = |queue: &mut Queue| queue.active > 0 || !queue.heap.is_empty();
        self.pool.wait_while(Duration::MAX, is_busy);
    }
}

impl Queue {
    /// Returns whether a deletion is in progress or due.
    fn has_work(&self, now: Instant) -> bool {
        self.active > 0 || self.heap.peek().is_some_and(|first| first.due <= now)
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
        let due = self.heap.peek().map(|first| first.due);
        if due.is_none_or(|due| due > now) {
            self.heap.shrink_to(CAPACITY_KEPT);
            return Err(due);
        }
        let next = self.heap.pop().ok_or(None)?;
        self.active += 1;
        Ok(next.deletion)
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
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn service(debug_delay_sec: Option<u64>) -> DeletionService {
        let config = DeletionConfig {
            thread_count: 2,
            debug_delay_sec,
        };
        DeletionService::start(&config).unwrap()
    }

    fn deletion(base: &Path, names: &[&str]) -> Deletion {
        let disk = Disk {
            path: base.to_owned(),
            root: Arc::new(DirHandle::open_ambient(base).unwrap()),
        };
        Deletion::new(
            Arc::new(disk),
            names.iter().map(|&name| name.to_owned()).collect(),
        )
    }

    const NOW: Option<u64> = Some(0);
    /// Deadline far above a deletion's duration, so that a test that waits for it hangs visibly.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn folders_go_and_missing_ones_are_no_error() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("a/b/c")).unwrap();
        let service = service(NOW);
        service.delete([
            deletion(base.path(), &["a", "b"]),
            deletion(base.path(), &["x", "y"]),
        ]);
        service.wait_until_idle();
        assert!(base.path().join("a").exists());
        assert!(!base.path().join("a/b").exists());
        service.stop(LONG);
    }

    #[test]
    fn a_link_planted_on_the_way_is_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(outside.path().join("b")).unwrap();
        symlink(outside.path(), base.path().join("a")).unwrap();
        let service = service(NOW);
        service.delete([deletion(base.path(), &["a", "b"])]);
        service.wait_until_idle();
        assert!(outside.path().join("b").exists());
        service.stop(LONG);
    }

    #[test]
    fn what_is_delayed_stays_and_does_not_hold_up_the_rest() {
        let base = tempfile::tempdir().unwrap();
        for name in ["later", "now"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let service = service(NOW);
        let hour = Duration::from_secs(3600);
        service.delete_after([deletion(base.path(), &["later"])], hour);
        let now = deletion(base.path(), &["now"]);
        service.delete([now.clone()]);
        let is_due = |queue: &mut Queue| queue.active > 0 || queue.heap.len() > 1;
        service.pool.wait_while(LONG, is_due);
        assert!(!now.path().exists());
        assert!(base.path().join("later").exists());
        service.stop(LONG);
        assert!(base.path().join("later").exists());
    }

    #[test]
    fn memory_of_many_deletions_is_given_back() {
        let base = tempfile::tempdir().unwrap();
        let mut queue = Queue::default();
        let now = Instant::now();
        for _ in 0..10_000 {
            queue.push(now, deletion(base.path(), &["a"]));
        }
        while queue.next(now).is_ok() {}
        assert!(queue.heap.capacity() <= CAPACITY_KEPT);
    }

    #[test]
    fn without_a_debug_delay_everything_is_kept() {
        let service = service(None);
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("a")).unwrap();
        service.delete([deletion(base.path(), &["a"])]);
        service.wait_until_idle();
        assert!(base.path().join("a").exists());
        service.stop(LONG);
    }

    #[test]
    fn an_endless_delay_is_not_an_overflow() {
        let service = service(Some(u64::MAX));
        let base = tempfile::tempdir().unwrap();
        service.delete_after([deletion(base.path(), &["a"])], Duration::MAX);
        service.stop(LONG);
    }

    #[test]
    fn a_stop_finishes_what_is_due() {
        let base = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..50).map(|index| format!("folder-{index}")).collect();
        for name in &names {
            fs::create_dir_all(base.path().join(name).join("a/b")).unwrap();
        }
        let service = service(NOW);
        service.delete(names.iter().map(|name| deletion(base.path(), &[name])));
        service.stop(LONG);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }
}
