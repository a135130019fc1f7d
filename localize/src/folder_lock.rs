//! Exclusive use of the local and log directories by one agent.
//!
//! A second agent on the same folders would take the first one's files for those of an earlier run
//! and delete them under its running containers. So each directory is locked for as long as it is
//! open. An agent that ends, however it ends, leaves no lock behind.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use dir_handle::{DirHandle, DirLock, LockError};

/// Time that the start of an agent waits for a lock. A child that an agent was starting when it
/// was killed keeps the lock until it executes its program.
const PATIENCE: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_millis(20);

/// Locks of one agent. Two of its directories may be the same folder, such as one for work and one
/// for logs: they share a lock.
#[derive(Clone, Debug, Default)]
pub(super) struct FolderLocks(Arc<Mutex<Held>>);

/// Locks by device and inode of the folder.
type Held = BTreeMap<(u64, u64), Weak<DirLock>>;

/// A directory that another agent uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InUse {
    /// Id of the process that holds the lock, if the kernel tells it.
    pub(super) by: Option<i32>,
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another agent uses this directory")?;
        match self.by {
            Some(process) => write!(f, " (process {process})"),
            None => Ok(()),
        }
    }
}

impl FolderLocks {
    /// Locks a directory, or joins the agent's own lock of the same folder. Waits a little for
    /// another process to give the lock up. `None`: the file system has no locks.
    pub(super) fn take(
        &self,
        folder: &DirHandle,
        path: &Path,
    ) -> io::Result<Result<Option<Arc<DirLock>>, InUse>> {
        self.take_within(folder, path, PATIENCE)
    }

    fn take_within(
        &self,
        folder: &DirHandle,
        path: &Path,
        patience: Duration,
    ) -> io::Result<Result<Option<Arc<DirLock>>, InUse>> {
        let id = folder.identity()?.device_and_inode();
        let deadline = Instant::now() + patience;
        loop {
            match self.join_or_lock(id, folder) {
                Ok(lock) => return Ok(Ok(Some(lock))),
                Err(LockError::Held { by }) if Instant::now() >= deadline => {
                    return Ok(Err(InUse { by }));
                }
                Err(LockError::Held { .. }) => thread::sleep(PAUSE),
                Err(LockError::Io(error)) => {
                    let path = path.display();
                    tracing::warn!(%path, %error,
                        "this directory cannot be locked: see that no other agent uses it");
                    return Ok(Ok(None));
                }
            }
        }
    }

    fn join_or_lock(&self, id: (u64, u64), folder: &DirHandle) -> Result<Arc<DirLock>, LockError> {
        if let Some(lock) = self.held().get(&id).and_then(Weak::upgrade) {
            return Ok(lock);
        }
        // Without the others' mutex, since the disk may hang.
        let lock = Arc::new(folder.try_lock()?);
        let mut held = self.held();
        held.retain(|_, lock| lock.strong_count() > 0);
        held.insert(id, Arc::downgrade(&lock));
        Ok(lock)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Identity of a folder: device and inode of the deepest folder on its path that exists, and the
/// path from there.
type Name = (u64, u64, PathBuf);

/// Returns the directories without further names of the same folder, such as links and bind mounts,
/// of which it warns. A disk that does not answer in time counts as one of its own.
pub(super) fn distinct(paths: &[PathBuf], patience: Duration) -> io::Result<Vec<PathBuf>> {
    if paths.len() < 2 {
        return Ok(paths.to_vec());
    }
    let (send, receive) = bounded(paths.len());
    for (index, path) in paths.iter().cloned().enumerate() {
        let send = send.clone();
        let look = thread::Builder::new().name("disk-look".to_owned());
        // The receiver may have given up.
        look.spawn(move || drop(send.send((index, name_of(&path)))))?;
    }
    drop(send);
    let deadline = Instant::now() + patience;
    let mut names: BTreeMap<usize, Name> = BTreeMap::new();
    while let Ok((index, name)) = receive.recv_deadline(deadline) {
        names.extend(name.map(|name| (index, name)));
    }
    let mut distinct: Vec<(Option<Name>, &PathBuf)> = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        let name = names.remove(&index);
        let is_same = |(other, other_path): &&(Option<Name>, &PathBuf)| {
            *other_path == path || (name.is_some() && *other == name)
        };
        match distinct.iter().find(is_same) {
            Some((_, first)) => tracing::warn!(
                path = %path.display(),
                same_as = %first.display(),
                "this directory is configured twice and counts once"
            ),
            None => distinct.push((name, path)),
        }
    }
    Ok(distinct.into_iter().map(|(_, path)| path.clone()).collect())
}

fn name_of(path: &Path) -> Option<Name> {
    path.ancestors().find_map(|above| {
        let found = above.metadata().ok()?;
        let rest = path.strip_prefix(above).ok()?;
        Some((found.dev(), found.ino(), rest.to_path_buf()))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_with_several_names_counts_once_whether_it_exists_or_not() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        for name in ["a", "b"] {
            fs::create_dir(at(name)).unwrap();
        }
        symlink("a", at("link")).unwrap();
        let names = ["a", "b", "link", "a", "link/new", "a/new", "b/new", "b/new"];
        let distinct = distinct(&names.map(at), PATIENCE).unwrap();
        assert_eq!(distinct, ["a", "b", "link/new", "b/new"].map(at));
    }

    #[test]
    fn an_agent_shares_its_lock_and_another_is_refused_until_it_ends() {
        let base = tempfile::tempdir().unwrap();
        let folder = DirHandle::open_ambient(base.path()).unwrap();
        let take = |locks: &FolderLocks| {
            let taken = locks.take_within(&folder, base.path(), Duration::ZERO);
            taken.unwrap()
        };
        let (one, other) = (FolderLocks::default(), FolderLocks::default());
        let local = take(&one).unwrap();
        let log = take(&one).unwrap();
        assert!(take(&other).is_err());
        drop(local);
        assert!(take(&other).is_err());
        drop(log);
        assert!(take(&other).is_ok());
    }

    #[test]
    fn a_lock_that_is_given_up_meanwhile_is_taken() {
        let base = tempfile::tempdir().unwrap();
        let folder = DirHandle::open_ambient(base.path()).unwrap();
        let (one, other) = (FolderLocks::default(), FolderLocks::default());
        let before = one.take(&folder, base.path()).unwrap().unwrap();
        thread::scope(|scope| {
            let next = scope.spawn(|| other.take(&folder, base.path()).unwrap().is_ok());
            drop(before);
            assert!(next.join().unwrap());
        });
    }
}
