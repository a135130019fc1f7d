//! Facts that a file system keeps about a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use nix::sys::stat::{FileStat, SFlag};

/// Bits of a file's mode that are permissions.
pub(crate) const MODE_BITS: u32 = 0o7777;

/// Kind of file behind a name; a link itself rather than its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Link,
    /// Device, pipe or socket.
    Special,
}

/// Facts that the file system keeps about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// Kind of the file.
    pub kind: FileKind,
    /// Number of the inode on its file system.
    pub inode: u64,
    /// Disk space of the file, in units of 512 bytes.
    pub blocks: u64,
    /// Permission bits, without the kind.
    pub mode_bits: u32,
    /// Number of names of the file.
    pub links: u64,
    /// User id of the owner.
    pub owner: u32,
    /// Group id of the file.
    pub group: u32,
    /// Length of the file, in bytes.
    pub length: u64,
    /// Time of the last modification, in seconds since the epoch.
    pub modified_s: i64,
    /// Time of the last change of the file or of these facts, in nanoseconds since the epoch. The
    /// kernel sets it, and nobody else can.
    pub changed_ns: i64,
}

/// Returns a time in nanoseconds; that of the far past or future is cut.
fn nanoseconds(seconds: i64, beyond: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(beyond)
}

fn kind_of(mode: u32) -> FileKind {
    match SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => FileKind::File,
        SFlag::S_IFDIR => FileKind::Directory,
        SFlag::S_IFLNK => FileKind::Link,
        _ => FileKind::Special,
    }
}

impl From<&FileStat> for FileStatus {
    fn from(stat: &FileStat) -> Self {
        Self {
            kind: kind_of(stat.st_mode),
            inode: stat.st_ino,
            blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
            mode_bits: stat.st_mode & MODE_BITS,
            links: stat.st_nlink,
            owner: stat.st_uid,
            group: stat.st_gid,
            length: u64::try_from(stat.st_size).unwrap_or(0),
            modified_s: stat.st_mtime,
            changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

impl From<&Metadata> for FileStatus {
    fn from(metadata: &Metadata) -> Self {
        Self {
            kind: kind_of(metadata.mode()),
            inode: metadata.ino(),
            blocks: metadata.blocks(),
            mode_bits: metadata.mode() & MODE_BITS,
            links: metadata.nlink(),
            owner: metadata.uid(),
            group: metadata.gid(),
            length: metadata.size(),
            modified_s: metadata.mtime(),
            changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
