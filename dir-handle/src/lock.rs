//! Locks of whole directories between processes.
//!
//! The lock is the kernel's `flock` on the directory itself: it needs no file, is the same under
//! every path and every mount of the directory, and ends with the process that holds it, however
//! that ends. Children do not get it when they execute a program.

use std::fs::{self, File, TryLockError};
use std::io;

use nix::fcntl::openat;
use nix::sys::stat::{Mode, fstat, major, minor};

use super::{DIRECTORY_FLAGS, DirHandle};

/// The kernel's list of locks. Each line has the process that took the lock, and device and inode
/// of the file (kernel: `fs/locks.c`, `lock_get_status`).
const LOCKS: &str = "/proc/locks";

/// Lock of a directory, which ends when it is dropped.
#[derive(Debug)]
pub struct DirLock {
    _open: File,
}

/// Reason that a directory was not locked.
#[derive(Debug)]
pub enum LockError {
    /// Another process, or another part of this one, has the lock.
    Held {
        /// Id of the process that took the lock, if the kernel tells it.
        by: Option<i32>,
    },
    /// The file system has no such locks, or failed.
    Io(io::Error),
}

impl DirHandle {
    /// Locks the directory without waiting.
    ///
    /// # Errors
    /// [`LockError`]: it is not locked.
    pub fn try_lock(&self) -> Result<DirLock, LockError> {
        // A description of its own: a lock belongs to all handles of one description.
        let open = openat(&self.fd, ".", DIRECTORY_FLAGS, Mode::empty());
        let open = File::from(open.map_err(|error| LockError::Io(error.into()))?);
        match open.try_lock() {
            Ok(()) => Ok(DirLock { _open: open }),
            Err(TryLockError::WouldBlock) => {
                let by = fstat(&open).ok().and_then(|stat| {
                    let locks = fs::read_to_string(LOCKS).ok()?;
                    holder(&locks, stat.st_dev, stat.st_ino)
                });
                Err(LockError::Held { by })
            }
            Err(TryLockError::Error(error)) => Err(LockError::Io(error)),
        }
    }
}

/// Returns the process that holds the lock of a file, from the kernel's list.
fn holder(locks: &str, device: u64, inode: u64) -> Option<i32> {
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    locks.lines().find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, process, of, ..] = fields[..] else {
            return None;
        };
        // The kernel shows 0 or -1 for a process of another namespace.
        let process = process.parse().ok().filter(|process| *process > 0);
        process.filter(|_| of == file)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_directory_is_locked_once_under_all_its_names_until_the_lock_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("b")).unwrap();
        let open = |name: &str| DirHandle::open_ambient(&dir.path().join(name)).unwrap();
        let lock = open("a").try_lock().unwrap();
        for name in ["a", "b"] {
            let refused = open(name).try_lock().unwrap_err();
            let own = i32::try_from(std::process::id()).unwrap();
            // Some file systems show the kernel another device than programs.
            let LockError::Held { by } = refused else {
                panic!("{refused:?}");
            };
            assert!(by.is_none_or(|by| by == own), "{by:?}");
        }
        drop(lock);
        open("b").try_lock().unwrap();
        let parent = DirHandle::open_ambient(dir.path()).unwrap();
        let _lock = parent.try_lock().unwrap();
        open("a").try_lock().unwrap();
        assert!(DirHandle::open_ambient(Path::new("/proc")).is_ok());
    }

    #[test]
    fn the_holder_is_found_in_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:01:131 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 08:01:131 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 08:01:131 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE -1 fd:10:7 0 EOF\n\
                     nonsense\n";
        let device = nix::sys::stat::makedev;
        assert_eq!(holder(locks, device(8, 1), 131), Some(12));
        assert_eq!(holder(locks, device(8, 1), 132), None);
        assert_eq!(holder(locks, device(0xfd, 0x10), 7), None);
        assert_eq!(holder("", device(8, 1), 131), None);
    }
}
