//! Resources of the `file:` scheme: the node's own file system, or one that is mounted on every
//! node.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use super::fetch::{Content, Opened, Source};

/// Permission bits with which others can list a folder and pass through it.
const OTHERS_READ_EXECUTE: u32 = 0o005;
const OTHERS_READ: u32 = 0o004;
const OTHERS_EXECUTE: u32 = 0o001;

/// The local file system. Links are followed, as in Hadoop; a public resource is judged by the file
/// they lead to.
pub(super) struct LocalSource;

impl Source for LocalSource {
    fn open(&self, path: &Path, public: bool) -> io::Result<Opened> {
        // The submitter chose the path. Opening a device may have an effect; a pipe created after
        // this check must not block the open for ever, nor may a terminal become the agent's.
        let status = fs::metadata(path)?;
        if !status.is_file() && !status.is_dir() {
            return Ok(Opened::Special);
        }
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(flags.bits()).open(path)?;
        let status = file.metadata()?;
        let is_readable = status.is_file() || status.is_dir();
        if is_readable && public && !is_public(&file, &status)? {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if status.is_dir() {
            Ok(Opened::Folder {
                modified_ms: modified_ms(&status),
                names: Box::new(names(path)?),
            })
        } else if status.is_file() {
            Ok(Opened::File(Box::new(file)))
        } else {
            Ok(Opened::Special)
        }
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

fn names(path: &Path) -> io::Result<impl Iterator<Item = io::Result<OsString>> + use<>> {
    let entries = fs::read_dir(path)?;
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
