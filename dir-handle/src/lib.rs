//! Handle of an open directory, with operations on single names inside it.
//!
//! Every operation takes one path component and follows no symbolic link, so the owner of a
//! directory cannot redirect the agent out of it. Whole paths are only the arguments of
//! [`DirHandle::open_ambient`] and [`DirHandle::open_no_follow`], which the agent chose, and of
//! [`DirHandle::open_beneath`], which the kernel keeps inside the directory.
//!
//! No directory is opened through a mount: a bind mount that a container left would otherwise lead
//! a deletion to files from anywhere. Such an open fails with [`io::ErrorKind::CrossesDevices`].
//!
//! What is made has its mode and its owner before it has its name (`create`): no other thread, no
//! other process and no crash finds anything half made under a name.
//!
//! A handle may have an [`Owner`]: then the directory is a user's, and so is everything that is
//! made below it. A regular file in a directory of another user than this process is read only if
//! it is that user's: the user may have linked a file there that only this process may read.
//!
//! Owns file descriptors and nothing else: no paths, no logging, no retries. Every error is the
//! kernel's, or `EINVAL` for a text that is not one path component; the caller adds operation and
//! path. May not know any other crate of the workspace.

mod create;
mod lock;
mod names;
mod status;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{
    AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat, renameat,
};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat, fstat, fstatat};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, geteuid, linkat, symlinkat, unlinkat};
use rustix::fs::{SeekFrom, seek};

pub use create::{is_abandoned, is_being_made};
pub use lock::{DirLock, LockError};
pub use names::Names;
use status::MODE_BITS;
pub use status::{FileKind, FileStatus};

/// Flags to open a directory for listing and as a base of operations; links are refused.
const DIRECTORY_FLAGS: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Limits of a walk from a handle: no link, no mount, nothing above the handle.
const STAYING_INSIDE: ResolveFlag = ResolveFlag::RESOLVE_BENEATH
    .union(ResolveFlag::RESOLVE_NO_SYMLINKS)
    .union(ResolveFlag::RESOLVE_NO_XDEV);

/// Handle of an open directory.
#[derive(Debug)]
pub struct DirHandle {
    fd: OwnedFd,
    /// User and group of what is made below; `None`: those of this process.
    owner: Option<Owner>,
}

/// User and group that files belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
}

/// Ways to use a directory, as its permissions allow them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Listing the names.
    Read,
    /// Adding and removing names.
    Write,
    /// Reaching what the names stand for.
    Execute,
}

/// Room on the disk of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes of the file system.
    pub total_bytes: u64,
    /// Bytes that this process may still write.
    pub free_bytes: u64,
}

/// Identity of an open directory: another directory of the same path has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    mount: u64,
}

impl Identity {
    /// Returns device and inode: the same for every path and every mount of the directory.
    #[must_use]
    pub const fn device_and_inode(self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// Returns permission bits without the file type.
pub const fn mode(bits: u32) -> Mode {
    Mode::from_bits_truncate(bits)
}

/// Refuses any text that is not exactly one component of a path.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    let bad = bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/');
    if bad {
        return Err(Errno::EINVAL.into());
    }
    Ok(name)
}

impl DirHandle {
    /// Opens a directory by its path. Follows links in the path: only for paths that an operator
    /// configured.
    pub fn open_ambient(path: &Path) -> io::Result<Self> {
        let flags = DIRECTORY_FLAGS.difference(OFlag::O_NOFOLLOW);
        let fd = openat(AT_FDCWD, path, flags, Mode::empty())?;
        Ok(Self { fd, owner: None })
    }

    /// Has everything that is made through this handle, and through handles opened from it, belong
    /// to this owner; `None`: to this process.
    #[must_use]
    pub fn owned_by(self, owner: Option<Owner>) -> Self {
        Self { owner, ..self }
    }

    /// Makes a handle of a directory that was reached from this one.
    fn below(&self, fd: OwnedFd) -> Self {
        let owner = self.owner;
        Self { fd, owner }
    }

    /// Opens a directory by its path; a link as the last component is an error.
    pub fn open_no_follow(path: &Path) -> io::Result<Self> {
        let fd = openat(AT_FDCWD, path, DIRECTORY_FLAGS, Mode::empty())?;
        Ok(Self { fd, owner: None })
    }

    /// Opens a directory below this one by a relative path; a link or a mount anywhere on it is an
    /// error.
    pub fn open_beneath(&self, path: &Path) -> io::Result<Self> {
        let how = OpenHow::new()
            .flags(DIRECTORY_FLAGS)
            .resolve(STAYING_INSIDE);
        match openat2(&self.fd, path, how) {
            Ok(fd) => Ok(self.below(fd)),
            // `ENOSYS`: Linux before 5.6. `EPERM`: a seccomp filter that does not know the call.
            Err(Errno::ENOSYS | Errno::EPERM) => self.open_by_mount_id(path),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether there is anything at a relative path below this directory: a link at its end
    /// is something, whatever it points to. A link or a mount on the way is an error.
    pub fn has_beneath(&self, path: &Path) -> io::Result<bool> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let how = OpenHow::new().flags(flags).resolve(STAYING_INSIDE);
        match openat2(&self.fd, path, how) {
            Ok(_found) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(Errno::ENOSYS | Errno::EPERM) => self.has_by_mount_id(path),
            Err(error) => Err(error.into()),
        }
    }

    /// Does what [`Self::has_beneath`] does without `openat2`.
    fn has_by_mount_id(&self, path: &Path) -> io::Result<bool> {
        let name = path.file_name().unwrap_or_default();
        match self.open_by_mount_id(path.parent().unwrap_or(Path::new(""))) {
            Ok(parent) => Ok(parent.kind(name)?.is_some()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the directory `name`; a link or a mount there is an error.
    pub fn open(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        self.open_beneath(Path::new(single(name.as_ref())?))
    }

    /// Opens a directory below this one without `openat2`: one component after the other, each of
    /// the mount of the one before.
    fn open_by_mount_id(&self, path: &Path) -> io::Result<Self> {
        let mount_id = self.mount_id()?;
        let mut directory = self.try_clone()?;
        for component in path.components() {
            let name = match component {
                Component::CurDir => continue,
                Component::Normal(name) => name,
                Component::Prefix(_) | Component::RootDir | Component::ParentDir => {
                    return Err(Errno::EXDEV.into());
                }
            };
            let fd = openat(&directory.fd, name, DIRECTORY_FLAGS, Mode::empty())?;
            directory = self.below(fd);
            if directory.mount_id()? != mount_id {
                return Err(Errno::EXDEV.into());
            }
        }
        Ok(directory)
    }

    /// Returns the kernel's id of the mount that the directory was opened on. A comparison of
    /// `st_dev` would miss a bind mount of the same file system; `statx` tells the id only since
    /// Linux 5.8, later than `openat2`, and `/proc` since 3.15 (kernel: filesystems/proc.rst).
    fn mount_id(&self) -> io::Result<u64> {
        let info = format!("/proc/self/fdinfo/{}", self.fd.as_raw_fd());
        let info = std::fs::read_to_string(info)?;
        let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"));
        let id = id.and_then(|id| id.trim().parse().ok());
        id.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Opens the directory reached through `names` one by one.
    pub fn open_all<N: AsRef<OsStr>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> io::Result<Self> {
        let mut directory = self.try_clone()?;
        for name in names {
            directory = directory.open(name)?;
        }
        Ok(directory)
    }

    /// Opens the regular file `name` for reading. A link, pipe or device of that name is refused
    /// without waiting for it, and so is a file of another user than the directory's
    /// ([`io::ErrorKind::PermissionDenied`]) unless the directory is this process's own user's
    /// (Hadoop: `SecureIOUtils.openForRead`).
    pub fn open_regular(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let name = single(name.as_ref())?;
        // Without O_NONBLOCK, opening a pipe waits for a writer.
        let flags = OFlag::O_RDONLY
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY
            | OFlag::O_CLOEXEC;
        let file = File::from(openat(&self.fd, name, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let user = fstat(&self.fd)?.st_uid;
        if metadata.uid() != user && user != geteuid().as_raw() {
            let why = "the file is another user's than its directory";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(file)
    }

    /// Creates a symbolic link, which belongs to this process; does not check its target.
    pub fn symlink(&self, target: &OsStr, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(symlinkat(target, &self.fd, single(name.as_ref())?)?)
    }

    /// Creates `name` as another name of `old_name` in `old`; a symbolic link there is linked
    /// itself, not followed.
    pub fn hard_link(
        &self,
        old: &Self,
        old_name: &OsStr,
        name: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (old_name, name) = (single(old_name)?, single(name.as_ref())?);
        Ok(linkat(&old.fd, old_name, &self.fd, name, AtFlags::empty())?)
    }

    /// Returns the kind of `name`; `None` if it does not exist.
    pub fn kind(&self, name: impl AsRef<OsStr>) -> io::Result<Option<FileKind>> {
        match self.status(name) {
            Ok(status) => Ok(Some(status.kind)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the facts about `name`; a link itself rather than its target.
    pub fn status(&self, name: impl AsRef<OsStr>) -> io::Result<FileStatus> {
        let name = single(name.as_ref())?;
        let stat = fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        Ok(FileStatus::from(&stat))
    }

    /// Returns the target of the symbolic link `name`.
    pub fn read_link(&self, name: impl AsRef<OsStr>) -> io::Result<OsString> {
        Ok(readlinkat(&self.fd, single(name.as_ref())?)?)
    }

    /// Moves `name` to `new_name` in `new`, replacing a file or an empty directory there.
    pub fn rename(
        &self,
        name: impl AsRef<OsStr>,
        new: &Self,
        new_name: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (name, new_name) = (single(name.as_ref())?, single(new_name.as_ref())?);
        Ok(renameat(&self.fd, name, &new.fd, new_name)?)
    }

    /// Removes a name that is not a directory.
    pub fn unlink(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = single(name.as_ref())?;
        Ok(unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = single(name.as_ref())?;
        Ok(unlinkat(&self.fd, name, UnlinkatFlags::RemoveDir)?)
    }

    /// Returns the names in the directory, read some at a time as the iterator advances.
    pub fn names(&self) -> io::Result<Names> {
        // A second description: this handle's position does not change, so the directory can be
        // listed again.
        let fd = openat(&self.fd, ".", DIRECTORY_FLAGS, Mode::empty())?;
        Ok(Names::of(fd))
    }

    /// Does the same as [`DirHandle::names`] with this handle's own position, which costs one open
    /// less. Whoever else lists by this handle meanwhile, or by a clone of it, misses names.
    pub fn names_alone(&self) -> io::Result<Names<BorrowedFd<'_>>> {
        seek(&self.fd, SeekFrom::Start(0))?;
        Ok(Names::of(self.fd.as_fd()))
    }

    /// Returns the user id of the directory itself.
    pub fn user(&self) -> io::Result<u32> {
        Ok(fstat(&self.fd)?.st_uid)
    }

    /// Returns the permission bits of the directory itself.
    pub fn mode_bits(&self) -> io::Result<u32> {
        Ok(fstat(&self.fd)?.st_mode & MODE_BITS)
    }

    /// Sets the permission bits of `name`; a link there is an error.
    pub fn set_mode_of(&self, name: impl AsRef<OsStr>, bits: u32) -> io::Result<()> {
        let name = single(name.as_ref())?;
        Ok(fchmodat(
            &self.fd,
            name,
            mode(bits),
            FchmodatFlags::NoFollowSymlink,
        )?)
    }

    /// Sets the permission bits of the directory itself.
    pub fn set_mode(&self, bits: u32) -> io::Result<()> {
        Ok(fchmod(&self.fd, mode(bits))?)
    }

    /// Returns the bytes that this process may still write to the directory's disk.
    pub fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.space()?.free_bytes)
    }

    /// Returns the room on the directory's disk.
    pub fn space(&self) -> io::Result<DiskSpace> {
        let space = fstatvfs(&self.fd)?;
        let bytes = |blocks: u64| blocks.saturating_mul(space.fragment_size());
        Ok(DiskSpace {
            total_bytes: bytes(space.blocks()),
            free_bytes: bytes(space.blocks_available()),
        })
    }

    /// Returns whether this process may list the directory, change names in it, and reach what they
    /// name. A file system that is mounted for reading only allows no change, not even to root.
    pub fn may(&self, access: Access) -> bool {
        let flag = match access {
            Access::Read => AccessFlags::R_OK,
            Access::Write => AccessFlags::W_OK,
            Access::Execute => AccessFlags::X_OK,
        };
        faccessat(&self.fd, ".", flag, AtFlags::empty()).is_ok()
    }

    /// Returns the identity of the directory, which includes the mount that it was opened on.
    pub fn identity(&self) -> io::Result<Identity> {
        let stat = fstat(&self.fd)?;
        Ok(Identity {
            device: stat.st_dev,
            inode: stat.st_ino,
            mount: self.mount_id()?,
        })
    }

    /// Returns another handle of the same directory.
    pub fn try_clone(&self) -> io::Result<Self> {
        let fd = self.fd.try_clone()?;
        Ok(self.below(fd))
    }
}

impl AsFd for DirHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests;
