//! Resources of the `file:` scheme: the node's own file system, or one that is mounted on every node.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use super::fetch::{Content, Opened, Source};

/// What others need to list a folder and go through it.
const OTHERS_READ_EXECUTE: u32 = 0o005;
const OTHERS_READ: u32 = 0o004;
const OTHERS_EXECUTE: u32 = 0o001;

/// The local file system. Links are followed, as Hadoop does; a public resource is judged by the file they lead to.
pub(super) struct LocalSource;

impl Source for LocalSource {
    fn open(&self, path: &Path, public: bool) -> io::Result<Opened> {
        // The path is the submitter's. To open a device may do something to it; a pipe put there after this look must
        // not block the open for ever, nor a terminal become ours.
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

/// Whether others may read the opened file and pass every folder above it. Asked of the file that was opened, not of
/// the path, since links on the way may change between two looks.
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
