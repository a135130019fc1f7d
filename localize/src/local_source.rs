//! Resources of the `file:` scheme: the node's own file system, or one that is mounted on every
//! node.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::Mode;

use super::source::{Content, Opened, Reader, Source};

/// Permission bits with which others can list a folder and pass through it.
const OTHERS_READ_EXECUTE: u32 = 0o005;
const OTHERS_READ: u32 = 0o004;
const OTHERS_EXECUTE: u32 = 0o001;

/// The local file system. Links are followed, as in Hadoop; a public resource is judged by the file
/// they lead to. Where containers run as other users, a private resource must be readable by its
/// user and a public one by anybody: the agent may be allowed to read what they may not.
pub(super) struct LocalSource {
    /// Account that must be allowed to read, where it is not the agent's.
    pub(super) reader: Reader,
}

impl Source for LocalSource {
    fn open(&self, path: &Path, public: bool) -> io::Result<Opened> {
        match &self.reader {
            None => open_source(path, public),
            Some(reader) => reader.act(|| open_source(path, public))?,
        }
    }
}

fn open_source(path: &Path, public: bool) -> io::Result<Opened> {
    // The submitter chose the path. Opening a device may have an effect; a pipe created after
    // this check must not block the open for ever, nor may a terminal become the agent's.
    let status = fs::metadata(path)?;
    if !status.is_file() && !status.is_dir() {
        return Ok(Opened::Special);
    }
    let file = open_path(path)?;
    let status = file.metadata()?;
    let is_readable = status.is_file() || status.is_dir();
    if is_readable && public && !is_public(&file, &status)? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    if status.is_dir() {
        Ok(Opened::Folder {
            modified_ms: modified_ms(&status),
            names: Box::new(names(&file)?),
        })
    } else if status.is_file() {
        Ok(Opened::File(Box::new(file)))
    } else {
        Ok(Opened::Special)
    }
}

/// Opens what a path names. Links are followed, except those of `/proc` to open files: they would
/// lead to files that this process has open.
fn open_path(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let how = OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match openat2(AT_FDCWD, path, how) {
        Ok(file) => Ok(file.into()),
        // `ENOSYS`: Linux before 5.6. `EPERM`: a seccomp filter that does not know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => {
            Ok(openat(AT_FDCWD, path, flags, Mode::empty())?.into())
        }
        Err(error) => Err(error.into()),
    }
}

impl Content for File {
    fn modified_ms(&self) -> io::Result<i64> {
        Ok(modified_ms(&self.metadata()?))
    }
}

fn modified_ms(status: &Metadata) -> i64 {
    let milliseconds = status.mtime_nsec() / 1_000_000;
    status
        .mtime()
        .saturating_mul(1000)
        .saturating_add(milliseconds)
}

fn names(folder: &File) -> io::Result<impl Iterator<Item = io::Result<OsString>> + use<>> {
    // The opened folder: the path may name another one by now.
    let entries = fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
    Ok(entries.map(|entry| Ok(entry?.file_name())))
}

/// Returns whether others may read the opened file and pass through every folder above it. Checks
/// the opened file, not the path, whose links may change between two checks.
fn is_public(file: &File, status: &Metadata) -> io::Result<bool> {
    let needed = if status.is_dir() {
        OTHERS_READ_EXECUTE
    } else {
        OTHERS_READ
    };
    if status.mode() & needed != needed {
        return Ok(false);
    }
    let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    for folder in real.ancestors().skip(1) {
        if fs::symlink_metadata(folder)?.mode() & OTHERS_EXECUTE == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
