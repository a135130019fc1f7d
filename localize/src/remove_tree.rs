//! Deletion of a folder that another user filled.
//!
//! The owner may have planted links, removed permissions, nested folders thousands deep, and may
//! still write to the folder. So: links are removed, never followed; folders get their permissions
//! back; and folders nested deeper than [`DEPTH_MAX`] are moved up to the top and emptied from
//! there, which bounds recursion and open handles whatever the depth.
//!
//! A container with the rights to do so may also have mounted something, such as `/home`, into its
//! folder. A mount stays as it is, with what is in it and the folders above it; everything else is
//! removed.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use dir_handle::{DirHandle, FileKind};

/// Deepest recursion; two handles are open per level. Real work directories are rarely deeper; a
/// deeper one costs one rename for every folder at this depth.
const DEPTH_MAX: usize = 16;

/// Limit on rounds over the top folder. Each takes [`DEPTH_MAX`] levels off the deepest tree, so
/// this reaches a million levels; it ends the race against a process that creates files as fast as
/// they are deleted.
const ROUNDS_MAX: usize = 1 << 16;

/// Limit on the mounts that one deletion names. A container may have made thousands.
const MOUNTS_NAMED_MAX: usize = 16;

/// Permission bits with which the owner can empty a folder.
pub(super) const OWNER_ALL: u32 = 0o700;

/// Reason for which a tree, or a part of it, is still there.
#[derive(Debug)]
pub(super) struct Incomplete {
    /// First error; of a mount `EXDEV` or `EBUSY`.
    pub(super) error: io::Error,
    /// The first [`MOUNTS_NAMED_MAX`] mounts found, relative to the parent of the tree.
    pub(super) mounts: Vec<PathBuf>,
}

impl From<io::Error> for Incomplete {
    fn from(error: io::Error) -> Self {
        let mounts = Vec::new();
        Self { error, mounts }
    }
}

/// Removes a folder with all contents, except mounts. A missing folder is no error.
///
/// # Errors
/// The first error that occurred; the rest is removed all the same. A mount below the folder gives
/// `EXDEV` or `EBUSY`.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = match DirHandle::open_ambient(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    remove_tree(&parent, name, &|| false).map_err(|incomplete| incomplete.error)
}

/// Removes `name` from `parent` with all contents, except mounts. A missing name is no error.
/// Continues after a failure and returns the first one. Returns early with
/// [`io::ErrorKind::Interrupted`] when `is_stopping` returns true.
pub(super) fn remove_tree(
    parent: &DirHandle,
    name: &OsStr,
    is_stopping: &dyn Fn() -> bool,
) -> Result<(), Incomplete> {
    let of_whole = |error: io::Error| Incomplete {
        mounts: is_mount(&error).then(|| name.into()).into_iter().collect(),
        error,
    };
    match parent.kind(name)? {
        None => return Ok(()),
        Some(FileKind::Directory) => {}
        Some(FileKind::File | FileKind::Link | FileKind::Special) => {
            return ignore_missing(parent.unlink(name)).map_err(of_whole);
        }
    }
    let top = open_for_removal(parent, name).map_err(of_whole)?;
    for _ in 0..ROUNDS_MAX {
        let mut round = Round {
            top: &top,
            is_stopping,
            path: name.into(),
            removed: 0,
            failure: None,
            mounts: Vec::new(),
        };
        round.empty(&top, 0);
        if is_stopping() {
            return Err(io::Error::from(io::ErrorKind::Interrupted).into());
        }
        match ignore_missing(parent.remove_dir(name)) {
            Ok(()) => return Ok(()),
            // The round made progress: the rest was moved up or is new.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && round.removed > 0 => {
            }
            Err(error) => {
                return Err(Incomplete {
                    error: round.failure.unwrap_or(error),
                    mounts: round.mounts,
                });
            }
        }
    }
    Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty).into())
}

/// Returns whether an error means that a name is a mount: `EXDEV` from opening one, `EBUSY` from
/// removing or moving one (a file, or a directory mounted on since it was opened).
fn is_mount(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::CrossesDevices | io::ErrorKind::ResourceBusy
    )
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
    is_stopping: &'a dyn Fn() -> bool,
    /// Path of the folder that is being emptied, for messages.
    path: PathBuf,
    /// Number of names that were removed or moved.
    removed: u64,
    failure: Option<io::Error>,
    mounts: Vec<PathBuf>,
}

impl Round<'_> {
    fn empty(&mut self, folder: &DirHandle, depth: usize) {
        // Each folder was opened for this round, or is the top, which only the round lists.
        let names = match folder.names_alone() {
            Ok(names) => names,
            Err(error) => return self.note(Err(error)),
        };
        for name in names {
            if (self.is_stopping)() {
                return;
            }
            match name {
                Ok(name) => {
                    let result = self.remove(folder, &name, depth);
                    let is_mount = result.as_ref().is_err_and(is_mount);
                    if is_mount && self.mounts.len() < MOUNTS_NAMED_MAX {
                        self.mounts.push(self.path.join(&name));
                    }
                    self.note(result);
                }
                // A listing that fails once fails for good.
                Err(error) => return self.note(Err(error)),
            }
        }
    }

    fn remove(&mut self, folder: &DirHandle, name: &OsStr, depth: usize) -> io::Result<()> {
        // Most names are files, and most folders of a container are empty: trying costs one system
        // call where looking first would cost one more for each name.
        match ignore_missing(folder.unlink(name)) {
            Ok(()) => {}
            // What Linux says of a folder, whatever the file system; POSIX has another error.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                self.remove_folder(folder, name, depth)?;
            }
            Err(error) => match folder.kind(name)? {
                None => {}
                Some(FileKind::File | FileKind::Link | FileKind::Special) => return Err(error),
                Some(FileKind::Directory) => self.remove_folder(folder, name, depth)?,
            },
        }
        self.removed += 1;
        Ok(())
    }

    fn remove_folder(&mut self, parent: &DirHandle, name: &OsStr, depth: usize) -> io::Result<()> {
        if ignore_missing(parent.remove_dir(name)).is_ok() {
            return Ok(());
        }
        let inner = open_for_removal(parent, name)?;
        if depth < DEPTH_MAX {
            self.path.push(name);
            self.empty(&inner, depth + 1);
            self.path.pop();
            return ignore_missing(parent.remove_dir(name));
        }
        // A move of a folder writes to it, since its `..` changes: opening has restored its
        // permissions. The name is random, so that the owner cannot have created it.
        let unguessed = format!(".deep-{:032x}", rand::random::<u128>());
        ignore_missing(parent.rename(name, self.top, unguessed))
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests;
