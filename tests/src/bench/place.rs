//! File system that a benchmark's files are on.
//!
//! A container's life makes a dozen files and removes most. On ext4 without a journal the kernel
//! scans the inodes that were deleted within the last minutes for each new file
//! (`fs/ext4/ialloc.c`, `recently_deleted`), so that launches slow down with the number of launches
//! before: such figures depend on their order and are refused.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Folder of a file system in memory on every Linux machine.
const IN_MEMORY: &str = "/dev/shm";

/// Text of `journal_task` in `/sys/fs/ext4/DEVICE` of a file system without a journal.
const NO_JOURNAL: &str = "<none>";

/// Whether a file system of ext4's driver (ext2, ext3, ext4) has a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Journal {
    /// There is one.
    There,
    /// There is none.
    Missing,
    /// The kernel does not tell, or the file system is another.
    Unknown,
}

/// A folder and its file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    folder: PathBuf,
    /// Type of the file system as `/proc/self/mountinfo` names it.
    r#type: String,
    journal: Journal,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let journal = match self.journal {
            Journal::There => " with a journal",
            Journal::Missing => " without a journal",
            Journal::Unknown => "",
        };
        write!(f, "{}{journal} ({})", self.r#type, self.folder.display())
    }
}

/// Chooses the folder of all temporary files of this process: `TMPDIR` when it is set, otherwise
/// memory, otherwise the system's folder.
///
/// # Errors
/// With the reason why figures of its file system would mislead.
pub(super) fn choose() -> Result<Place, String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo");
    let mounts = mounts.map_err(|error| format!("cannot read the mounts: {error}"))?;
    let system = std::env::temp_dir();
    let memory = Path::new(IN_MEMORY);
    let is_memory = |folder| mount_of(&mounts, folder).is_some_and(|(_, r#type)| r#type == "tmpfs");
    let is_chosen = std::env::var_os("TMPDIR").is_some();
    let folder = if !is_chosen && is_memory(memory) && tempfile::tempdir_in(memory).is_ok() {
        memory.to_path_buf()
    } else {
        system
    };
    let (device, r#type) = mount_of(&mounts, &folder)
        .ok_or_else(|| format!("{} is on no mounted file system", folder.display()))?;
    let place = Place {
        journal: journal(device),
        r#type: r#type.to_owned(),
        folder,
    };
    if place.journal == Journal::Missing {
        return Err(format!(
            "no figures from {place}: there each new file costs more the more files were deleted \
             before; set TMPDIR to a folder on tmpfs or on a file system with a journal"
        ));
    }
    // Fails only when it was chosen before, which nothing else in a benchmark does.
    let chosen = tempfile::env::override_temp_dir(&place.folder);
    chosen.map_err(|other| format!("temporary files are in {} already", other.display()))?;
    Ok(place)
}

/// Returns device (`major:minor`) and type of the file system that `path` is on.
fn mount_of<'a>(mountinfo: &'a str, path: &Path) -> Option<(&'a str, &'a str)> {
    mountinfo
        .lines()
        .filter_map(|line| {
            // See proc_pid_mountinfo(5): optional fields end at the hyphen.
            let (mount, file_system) = line.split_once(" - ")?;
            let mut mount = mount.split(' ').skip(2);
            let (device, point) = (mount.next()?, mount.nth(1)?);
            let r#type = file_system.split(' ').next()?;
            path.starts_with(point).then_some((point, device, r#type))
        })
        // The last of several at one point hides the others.
        .max_by_key(|(point, ..)| point.len())
        .map(|(_, device, r#type)| (device, r#type))
}

/// Returns whether ext4's driver has a journal on this device.
fn journal(device: &str) -> Journal {
    let link = fs::canonicalize(format!("/sys/dev/block/{device}"));
    let Some(name) = link.as_ref().ok().and_then(|link| link.file_name()) else {
        return Journal::Unknown;
    };
    let file = Path::new("/sys/fs/ext4").join(name).join("journal_task");
    match fs::read_to_string(file) {
        Ok(task) if task.trim() == NO_JOURNAL => Journal::Missing,
        Ok(_) => Journal::There,
        Err(_) => Journal::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 27 0:21 / /proc rw,relatime - proc proc rw
25 27 0:23 / /dev/shm rw shared:3 master:1 - ext2 /dev/ram0 rw
26 27 0:24 / /dev/shm rw - tmpfs tmpfs rw
28 27 0:25 / /dev/shmem rw - ramfs ramfs rw
";

    #[test]
    fn the_innermost_and_last_mount_holds_a_path() {
        let of = |path| mount_of(MOUNTS, Path::new(path));
        assert_eq!(of("/tmp"), Some(("254:0", "ext4")));
        assert_eq!(of("/dev/shm/x"), Some(("0:24", "tmpfs")));
        assert_eq!(of("/dev/shmem/x"), Some(("0:25", "ramfs")));
        assert_eq!(mount_of("", Path::new("/")), None);
    }

    #[test]
    fn a_file_system_without_a_device_has_no_known_journal() {
        assert_eq!(journal("0:21"), Journal::Unknown);
    }
}
