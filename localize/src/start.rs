//! Opening of a local or log directory when the agent starts and recovers nothing.
//!
//! The deletion of an earlier run's folders may take minutes, so they are only renamed here. A name
//! ending in `_DEL_<milliseconds>` marks a folder for deletion (Hadoop:
//! `ResourceLocalizationService.cleanUpLocalDirs`); folders that an interrupted start left marked
//! are found again.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use records::{ApplicationId, EpochMillis};

use super::deletion::Deletion;
use super::dirs::Disk;
use super::error::DirsError;
use super::layout::{FILE_CACHE, NM_PRIVATE, OPEN_MODE, SECRET_MODE, USER_CACHE};
use dir_handle::DirHandle;

/// Function that opens one kind of directory and adds the folders to delete to the list.
pub(super) type Open = fn(&Path, EpochMillis, &mut Vec<Deletion>) -> Result<Arc<Disk>, DirsError>;

const DELETION_MARK: &str = "_DEL_";

/// Opens a local directory with new, empty `usercache`, `filecache` and `nmPrivate`.
pub(super) fn open_local_dir(
    path: &Path,
    now: EpochMillis,
    leftovers: &mut Vec<Deletion>,
) -> Result<Arc<Disk>, DirsError> {
    const FOLDERS: [(&str, u32); 3] = [
        (USER_CACHE, OPEN_MODE),
        (FILE_CACHE, OPEN_MODE),
        (NM_PRIVATE, SECRET_MODE),
    ];
    let is_ours = |name: &str| FOLDERS.iter().any(|(folder, _)| *folder == name);
    let disk = open(path)?;
    mark_for_deletion(&disk, now, is_ours, leftovers).map_err(fail("clean up", path))?;
    for (name, mode) in FOLDERS {
        disk.root
            .create(name, mode)
            .map_err(fail("create", &path.join(name)))?;
    }
    Ok(disk)
}

/// Opens a log directory without the logs of earlier applications.
pub(super) fn open_log_dir(
    path: &Path,
    now: EpochMillis,
    leftovers: &mut Vec<Deletion>,
) -> Result<Arc<Disk>, DirsError> {
    let is_ours = |name: &str| name.parse::<ApplicationId>().is_ok();
    let disk = open(path)?;
    mark_for_deletion(&disk, now, is_ours, leftovers).map_err(fail("clean up", path))?;
    Ok(disk)
}

fn fail(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DirsError {
    let path = path.to_owned();
    move |source| DirsError::Io {
        action,
        path,
        source,
    }
}

fn open(path: &Path) -> Result<Arc<Disk>, DirsError> {
    let existed = path.is_dir();
    if !existed {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(OPEN_MODE);
        builder.create(path).map_err(fail("create", path))?;
    }
    let root = DirHandle::open_ambient(path).map_err(fail("open", path))?;
    if !existed {
        // The umask cleared bits that other users need on the way to public resources.
        root.set_mode(OPEN_MODE)
            .map_err(fail("set the mode of", path))?;
    }
    Ok(Arc::new(Disk {
        path: path.to_owned(),
        root: Arc::new(root),
    }))
}

/// Renames the folders that `is_ours` selects and lists them, and those that an earlier start
/// renamed, for deletion.
fn mark_for_deletion(
    disk: &Arc<Disk>,
    now: EpochMillis,
    is_ours: impl Fn(&str) -> bool,
    leftovers: &mut Vec<Deletion>,
) -> io::Result<()> {
    let names: Vec<_> = disk.root.names()?.collect::<Result<_, _>>()?;
    for name in names {
        let Some(name) = OsStr::to_str(&name) else {
            continue;
        };
        let marked = if is_ours(name) {
            let marked = format!("{name}{DELETION_MARK}{}", now.0);
            disk.root.rename(name, &disk.root, &marked)?;
            marked
        } else if is_marked(name, &is_ours) {
            name.to_owned()
        } else {
            continue;
        };
        leftovers.push(Deletion::new(disk.clone(), vec![marked]));
    }
    Ok(())
}

fn is_marked(name: &str, is_ours: impl Fn(&str) -> bool) -> bool {
    name.rsplit_once(DELETION_MARK)
        .is_some_and(|(original, millis)| {
            is_ours(original) && !millis.is_empty() && millis.bytes().all(|b| b.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: EpochMillis = EpochMillis(1_700_000_000_123);

    fn listed(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_an_earlier_life_left_is_renamed_and_returned() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usercache/joe/appcache")).unwrap();
        fs::create_dir_all(dir.path().join("nmPrivate_DEL_17")).unwrap();
        fs::create_dir_all(dir.path().join("precious")).unwrap();
        let mut leftovers = Vec::new();
        open_local_dir(dir.path(), NOW, &mut leftovers).unwrap();
        assert_eq!(leftovers.len(), 2);
        assert_eq!(
            listed(dir.path()),
            [
                "filecache",
                "nmPrivate",
                "nmPrivate_DEL_17",
                "precious",
                "usercache",
                "usercache_DEL_1700000000123"
            ]
        );
        assert_eq!(listed(&dir.path().join("usercache")), [""; 0]);
    }

    #[test]
    fn only_application_logs_are_renamed() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "application_1_0001",
            "application_1_0002_DEL_9",
            "other",
            "other_DEL_9",
        ] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let mut leftovers = Vec::new();
        open_log_dir(dir.path(), NOW, &mut leftovers).unwrap();
        assert_eq!(leftovers.len(), 2);
        assert_eq!(
            listed(dir.path()),
            [
                "application_1_0001_DEL_1700000000123",
                "application_1_0002_DEL_9",
                "other",
                "other_DEL_9"
            ]
        );
    }

    #[test]
    fn folders_have_hadoops_modes() {
        let dir = tempfile::tempdir().unwrap();
        let local = dir.path().join("a/b");
        open_local_dir(&local, NOW, &mut Vec::new()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&local), 0o755);
        assert_eq!(mode(&local.join("usercache")), 0o755);
        assert_eq!(mode(&local.join("filecache")), 0o755);
        assert_eq!(mode(&local.join("nmPrivate")), 0o700);
    }
}
