//! Files of blocks: their names, and where an executor puts them (Spark: `ExecutorDiskUtils`,
//! `ExternalShuffleBlockResolver`).
//!
//! Containers own these folders and may put anything into them, so a file is opened by single names
//! from an open directory: no link is followed, no mount is crossed, and a file of another user
//! than its folder's is refused.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use dir_handle::DirHandle;
use thiserror::Error;

use crate::blocks::{Block, numbers};
use crate::executors::Executor;

/// Folder of an application on one local directory.
#[derive(Clone, Debug)]
pub struct ApplicationFolder {
    /// Handle of the local directory.
    pub root: Arc<DirHandle>,
    /// Path of the application's folder below it.
    pub below: PathBuf,
    /// Absolute path of the folder, as containers know it.
    pub path: PathBuf,
}

/// Range of a file.
#[derive(Debug)]
pub(crate) struct FileRange {
    pub(crate) file: File,
    pub(crate) start: u64,
    pub(crate) length: u64,
}

/// Block that cannot be sent. The texts are Spark's, without the absolute paths.
#[derive(Debug, Error)]
pub(crate) enum NoBlock {
    #[error("java.lang.RuntimeException: Failed to open file: {name}")]
    File {
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("java.lang.IndexOutOfBoundsException: {name} has no partition {partition}")]
    Partition { name: String, partition: i32 },
    #[error("java.lang.IllegalArgumentException: count : {0} (expected: >= 0)")]
    Descending(i128),
    #[error("java.lang.RuntimeException: {name} ends before the partition")]
    Truncated { name: String },
    #[error("java.lang.IllegalStateException: Chunk was not found")]
    Rdd,
    #[error("java.lang.IllegalArgumentException: Too large frame: {0}")]
    TooLarge(u64),
}

/// Returns the index of a map's output.
pub(crate) fn index_name(shuffle: i32, map: i64) -> String {
    format!("shuffle_{shuffle}_{map}_0.index")
}

/// Returns the partitions of a map's output.
pub(crate) fn data_name(shuffle: i32, map: i64) -> String {
    format!("shuffle_{shuffle}_{map}_0.data")
}

/// Returns whether a file of this name is a block's, which executors may have removed.
pub(crate) fn is_removable(name: &str) -> bool {
    if let Some(rdd) = name.strip_prefix("rdd_") {
        return numbers::<2>(rdd).is_some();
    }
    let Some((block, kind)) = name.split_once('.') else {
        return false;
    };
    let kinds = [
        "index",
        "data",
        "checksum.ADLER32",
        "checksum.CRC32",
        "checksum.CRC32C",
    ];
    let block = block.strip_prefix("shuffle_").and_then(numbers::<3>);
    kinds.contains(&kind) && matches!(block, Some([_, _, 0]))
}

/// Java's `String.hashCode`, made positive as Spark does (`JavaUtils.nonNegativeHash`).
pub(crate) fn hash(name: &str) -> usize {
    let step = |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    let hash = name.encode_utf16().fold(0, step);
    hash.checked_abs()
        .map_or(0, |it| it.unsigned_abs() as usize)
}

/// Number of the directory and name of the sub-folder in which a file is.
pub(crate) fn place(name: &str, dirs: usize, sub_dirs: usize) -> (usize, String) {
    let hash = hash(name);
    let sub = (hash / dirs.max(1)) % sub_dirs.max(1);
    (hash % dirs.max(1), format!("{sub:02x}"))
}

/// Returns the path below an application's folder, at least one name; `None` for a path that does
/// not lead there.
pub(crate) fn below<'a>(folder: &Path, dir: &'a str) -> Option<&'a Path> {
    let rest = Path::new(dir).strip_prefix(folder).ok()?;
    let plain = |part| matches!(part, Component::Normal(_));
    let mut parts = rest.components().peekable();
    (parts.peek().is_some() && parts.all(plain)).then_some(rest)
}

/// Opens the folder that a file of an executor is in.
pub(crate) fn open_folder(
    folders: &[ApplicationFolder],
    executor: &Executor,
    name: &str,
) -> io::Result<DirHandle> {
    let (number, sub) = place(name, executor.dirs.len(), executor.sub_dirs);
    let dir = executor.dirs.get(number).ok_or(io::ErrorKind::NotFound)?;
    let mut found = folders
        .iter()
        .filter_map(|folder| Some((folder, below(&folder.path, dir)?)));
    let (folder, rest) = found.next().ok_or(io::ErrorKind::NotFound)?;
    folder.root.open_beneath(&folder.below.join(rest).join(sub))
}

/// Opens a file of an executor.
pub(crate) fn open(
    folders: &[ApplicationFolder],
    executor: &Executor,
    name: &str,
) -> io::Result<File> {
    open_folder(folders, executor, name)?.open_regular(name)
}

/// Finds a block, and opens its file: what cannot be sent whole is an error before the first byte.
pub(crate) fn locate(
    folders: &[ApplicationFolder],
    executor: &Executor,
    block: Block,
) -> Result<FileRange, NoBlock> {
    match block {
        Block::Shuffle {
            shuffle,
            map,
            start,
            end,
        } => {
            let index = index_name(shuffle, map);
            let (from, to) = offsets(folders, executor, &index, start..end)?;
            let name = data_name(shuffle, map);
            let file = open(folders, executor, &name);
            let file = file.map_err(failed_to_open(&name))?;
            let length = file.metadata().map_err(failed_to_open(&name))?.len();
            if to > length {
                return Err(NoBlock::Truncated { name });
            }
            Ok(FileRange {
                file,
                start: from,
                length: to - from,
            })
        }
        Block::Rdd { rdd, partition } => {
            let file = open(folders, executor, &format!("rdd_{rdd}_{partition}"));
            let file = file.map_err(|_| NoBlock::Rdd)?;
            let length = file.metadata().map_err(|_| NoBlock::Rdd)?.len();
            Ok(FileRange {
                file,
                start: 0,
                length,
            })
        }
    }
}

/// Reads the offsets at which partitions begin and end. The index is read anew for each block: two
/// integers out of the page cache cost less than a cache that must be bounded and kept true.
fn offsets(
    folders: &[ApplicationFolder],
    executor: &Executor,
    name: &str,
    partitions: std::ops::Range<i32>,
) -> Result<(u64, u64), NoBlock> {
    let file = open(folders, executor, name).map_err(failed_to_open(name))?;
    let offset = |partition: i32| {
        let none = || NoBlock::Partition {
            name: name.to_owned(),
            partition,
        };
        let place = u64::try_from(partition).map_err(|_| none())? * 8;
        let mut bytes = [0; 8];
        match file.read_exact_at(&mut bytes, place) {
            Ok(()) => Ok(i64::from_be_bytes(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(none()),
            Err(error) => Err(failed_to_open(name)(error)),
        }
    };
    let (start, end) = (offset(partitions.start)?, offset(partitions.end)?);
    let descending = || NoBlock::Descending(i128::from(end) - i128::from(start));
    let (from, to) = (u64::try_from(start), u64::try_from(end));
    match (from, to) {
        (Ok(from), Ok(to)) if from <= to => Ok((from, to)),
        _negative => Err(descending()),
    }
}

fn failed_to_open(name: &str) -> impl Fn(io::Error) -> NoBlock {
    move |source| NoBlock::File {
        name: name.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from Spark 3.5.5.
    #[test]
    fn files_are_where_spark_puts_them() {
        for (name, expected, dir, sub) in [
            ("shuffle_3_5_0.index", 681_942_472, 0, "24"),
            ("shuffle_3_5_0.data", 116_388_228, 0, "02"),
            ("shuffle_3_6_0.index", 1_805_570_361, 1, "1c"),
            ("shuffle_3_6_0.data", 1_859_198_563, 1, "31"),
            ("shuffle_3_5_0.checksum.ADLER32", 327_658_500, 0, "02"),
            ("rdd_4_0", 1_054_354_840, 0, "0c"),
        ] {
            assert_eq!(hash(name), expected, "{name}");
            assert_eq!(place(name, 2, 64), (dir, sub.to_owned()), "{name}");
        }
        // The hash of this text is the least integer, which has no absolute value.
        assert_eq!(hash("polygenelubricants"), 0);
    }

    #[test]
    fn only_names_of_blocks_may_be_removed() {
        for name in ["rdd_4_0", "shuffle_3_5_0.index", "shuffle_3_5_0.data"] {
            assert!(is_removable(name), "{name}");
        }
        assert!(is_removable("shuffle_3_5_0.checksum.CRC32C"));
        for name in [
            "",
            "..",
            "../../victim/f",
            "/etc/passwd",
            "rdd_4_0/x",
            "rdd_4_../0",
            "rdd_-4_0",
            "shuffle_3_5_1.data",
            "shuffle_3_5_0.data.x",
            "shuffle_3_5_0",
            "shuffle_3_5_0.checksum.MD5",
            "stderr",
            "rdd_4_0\0",
        ] {
            assert!(!is_removable(name), "{name}");
        }
    }

    #[test]
    fn directories_lie_below_the_applications_folder() {
        let folder = Path::new("/l/usercache/joe/appcache/app");
        let rest = below(folder, "/l/usercache/joe/appcache/app/blockmgr-1");
        assert_eq!(rest, Some(Path::new("blockmgr-1")));
        for dir in [
            "/l/usercache/joe/appcache/app",
            "/l/usercache/joe/appcache/app/",
            "/l/usercache/joe/appcache/app/../other/b",
            "/l/usercache/joe/appcache/app/b/../../../x",
            "/l/usercache/joe/appcache/application/b",
            "usercache/joe/appcache/app/b",
            "/etc",
            "",
        ] {
            assert_eq!(below(folder, dir), None, "{dir}");
        }
    }
}
