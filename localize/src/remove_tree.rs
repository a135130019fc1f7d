//! Deletion of a folder that another user filled.
//!
//! The owner may have planted links, removed permissions, nested folders thousands deep, and may
//! still write to the folder. So: links are removed, never followed; folders get their permissions
//! back; and folders nested deeper than [`DEPTH_MAX`] are moved up to the top and emptied from
//! there, which bounds recursion and open handles whatever the depth.

use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use dir_handle::{DirHandle, FileKind};

/// Deepest recursion; two handles are open per level. Real work directories are rarely deeper; a
/// deeper one costs one rename for every folder at this depth.
const DEPTH_MAX: usize = 16;

/// Limit on rounds over the top folder. Each takes [`DEPTH_MAX`] levels off the deepest tree, so
/// this reaches a million levels; it ends the race against a process that creates files as fast as
/// they are deleted.
const ROUNDS_MAX: usize = 1 << 16;

/// Permission bits with which the owner can empty a folder.
const OWNER_ALL: u32 = 0o700;

/// Removes `name` from `parent` with all contents. A missing name is no error. Continues after a
/// failure and returns the first one. Returns early with [`io::ErrorKind::Interrupted`] when `stop`
/// is set.
pub(super) fn remove_tree(parent: &DirHandle, name: &OsStr, stop: &AtomicBool) -> io::Result<()> {
    match parent.kind(name)? {
        None => return Ok(()),
        Some(FileKind::Directory) => {}
        Some(FileKind::File | FileKind::Link | FileKind::Special) => {
            return ignore_missing(parent.unlink(name));
        }
    }
    let top = open_for_removal(parent, name)?;
    for _ in 0..ROUNDS_MAX {
        let mut round = Round {
            top: &top,
            stop,
            removed: 0,
            failure: None,
        };
        round.empty(&top, 0);
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match ignore_missing(parent.remove_dir(name)) {
            Ok(()) => return Ok(()),
            // The round made progress: the rest was moved up or is new.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && round.removed > 0 => {
            }
            Err(error) => return Err(round.failure.unwrap_or(error)),
        }
    }
    Err(io::ErrorKind::DirectoryNotEmpty.into())
}

/// Opens a folder so that it can be listed and emptied; restores its owner's permissions if they
/// are missing.
pub(super) fn open_for_removal(
    parent: &DirHandle,
    name: impl AsRef<OsStr>,
) -> io::Result<DirHandle> {
    let name = name.as_ref();
    let folder = match parent.open(name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            parent.set_mode_of(name, OWNER_ALL)?;
            parent.open(name)?
        }
        opened => opened?,
    };
    let bits = folder.mode_bits()?;
    if bits & OWNER_ALL != OWNER_ALL {
        folder.set_mode(bits | OWNER_ALL)?;
    }
    Ok(folder)
}

/// Turns the error of a missing name into success, since another process may have removed it first.
fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

struct Round<'a> {
    top: &'a DirHandle,
    stop: &'a AtomicBool,
    /// Number of names that were removed or moved.
    removed: u64,
    failure: Option<io::Error>,
}

impl Round<'_> {
    fn empty(&mut self, folder: &DirHandle, depth: usize) {
        let names = match folder.names() {
            Ok(names) => names,
            Err(error) => return self.note(Err(error)),
        };
        for name in names {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            match name {
                Ok(name) => {
                    let result = self.remove(folder, &name, depth);
                    self.note(result);
                }
                // A listing that fails once fails for good.
                Err(error) => return self.note(Err(error)),
            }
        }
    }

    fn remove(&mut self, folder: &DirHandle, name: &OsStr, depth: usize) -> io::Result<()> {
        match folder.kind(name)? {
            None => return Ok(()),
            Some(FileKind::File | FileKind::Link | FileKind::Special) => {
                ignore_missing(folder.unlink(name))?
            }
            Some(FileKind::Directory) if depth < DEPTH_MAX => {
                let inner = open_for_removal(folder, name)?;
                self.empty(&inner, depth + 1);
                ignore_missing(folder.remove_dir(name))?;
            }
            Some(FileKind::Directory) => {
                // A move of a folder writes to it, since its `..` changes.
                open_for_removal(folder, name)?;
                // Random, so that the owner cannot have created that name.
                let unguessed = format!(".deep-{:032x}", rand::random::<u128>());
                ignore_missing(folder.rename(name, self.top, unguessed))?;
            }
        }
        self.removed += 1;
        Ok(())
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use nix::sys::stat::Mode;

    use super::*;

    fn remove(base: &Path, name: &str) -> io::Result<()> {
        let parent = DirHandle::open_ambient(base).unwrap();
        remove_tree(&parent, OsStr::new(name), &AtomicBool::new(false))
    }

    fn nest(folder: DirHandle, depth: usize) {
        let mut folder = folder;
        for level in 0..depth {
            folder.create_file("file", 0o400).unwrap();
            folder = folder.ensure(format!("level{level}"), 0o700).unwrap();
        }
    }

    #[test]
    fn what_links_point_to_stays() {
        let base = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), "x").unwrap();
        let work = base.path().join("work");
        fs::create_dir_all(work.join("deeper")).unwrap();
        symlink(outside.path(), work.join("folder")).unwrap();
        symlink(outside.path().join("precious"), work.join("deeper/file")).unwrap();
        symlink("/", work.join("deeper/root")).unwrap();
        symlink("nowhere", work.join("broken")).unwrap();
        remove(base.path(), "work").unwrap();
        assert!(!work.exists());
        assert!(outside.path().join("precious").exists());
    }

    #[test]
    fn a_link_in_place_of_the_folder_goes_and_its_target_stays() {
        let base = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), "x").unwrap();
        symlink(outside.path(), base.path().join("work")).unwrap();
        remove(base.path(), "work").unwrap();
        assert!(fs::symlink_metadata(base.path().join("work")).is_err());
        assert!(outside.path().join("precious").exists());
    }

    #[test]
    fn trees_thousands_of_levels_deep_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let parent = DirHandle::open_ambient(base.path()).unwrap();
        let work = parent.ensure("work", 0o700).unwrap();
        for (branch, depth) in [("a", 2000), ("b", 40), ("c", 17)] {
            nest(work.ensure(branch, 0o700).unwrap(), depth);
        }
        remove(base.path(), "work").unwrap();
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn folders_without_permissions_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let work = base.path().join("work");
        for (name, bits) in [("none", 0o000), ("read", 0o500), ("write", 0o200)] {
            fs::create_dir_all(work.join(name).join("inner")).unwrap();
            fs::write(work.join(name).join("file"), "x").unwrap();
            fs::set_permissions(work.join(name), PermissionsExt::from_mode(bits)).unwrap();
        }
        fs::set_permissions(&work, PermissionsExt::from_mode(0o500)).unwrap();
        remove(base.path(), "work").unwrap();
        assert!(!work.exists());
    }

    #[test]
    fn pipes_are_removed_without_opening_them() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("work")).unwrap();
        nix::unistd::mkfifo(&base.path().join("work/pipe"), Mode::S_IRWXU).unwrap();
        remove(base.path(), "work").unwrap();
        assert!(!base.path().join("work").exists());
    }

    #[test]
    fn nothing_there_is_no_error() {
        let base = tempfile::tempdir().unwrap();
        remove(base.path(), "work").unwrap();
    }

    #[test]
    fn a_wide_folder_is_emptied() {
        let base = tempfile::tempdir().unwrap();
        let work = base.path().join("work");
        fs::create_dir(&work).unwrap();
        for n in 0..3000 {
            fs::write(work.join(n.to_string()), "").unwrap();
        }
        remove(base.path(), "work").unwrap();
        assert!(!work.exists());
    }

    #[test]
    fn removal_ends_when_told_to_stop() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("work/inner")).unwrap();
        let parent = DirHandle::open_ambient(base.path()).unwrap();
        let error = remove_tree(&parent, OsStr::new("work"), &AtomicBool::new(true)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert!(base.path().join("work/inner").exists());
    }
}
