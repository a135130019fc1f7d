//! Opening and checking of one local or log directory.
//!
//! The deletion of an earlier run's folders may take minutes, so they are only renamed here, when
//! the directory is opened for the first time. A name ending in `_DEL_<milliseconds>` marks a
//! folder for deletion (Hadoop: `ResourceLocalizationService.cleanUpLocalDirs`); folders that an
//! interrupted start left marked are found again.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use records::{ApplicationId, EpochMillis};

use super::deletion::Deletion;
use super::disk::Disk;
use super::disk_health::DirKind;
use super::disk_place::{DiskPlace, Probed, Unusable};
use super::earlier::{Earlier, look_at};
use super::layout::{DELETION_MARK, FILE_CACHE, NM_PRIVATE, OPEN_MODE, SECRET_MODE, USER_CACHE};
use dir_handle::{Access, DirHandle, DiskSpace, is_abandoned};

/// Folders of the agent in every local directory.
const FOLDERS: [(&str, u32); 3] = [
    (USER_CACHE, OPEN_MODE),
    (FILE_CACHE, OPEN_MODE),
    (NM_PRIVATE, SECRET_MODE),
];

/// Checks a directory (Hadoop: `DiskChecker.checkDir`, whose texts these are), opens it if it is
/// another one than before, and makes what is missing of it.
pub(super) fn probe(kind: DirKind, place: &DiskPlace, now: EpochMillis) -> Probed {
    let mut earlier = Earlier::default();
    let result = check(kind, place, now, &mut earlier);
    Probed { result, earlier }
}

fn check(
    kind: DirKind,
    place: &DiskPlace,
    now: EpochMillis,
    earlier: &mut Earlier,
) -> Result<(Arc<Disk>, DiskSpace), Unusable> {
    let path = &place.path;
    let failed = |action: &'static str| {
        move |error: io::Error| {
            Unusable::Failed(format!("cannot {action} {}: {error}", path.display()))
        }
    };
    let root = open(path).map_err(Unusable::Failed)?;
    for (access, word) in [
        (Access::Read, "readable"),
        (Access::Write, "writable"),
        (Access::Execute, "executable"),
    ] {
        if !root.may(access) {
            let reason = format!("Directory is not {word}: {}", path.display());
            return Err(Unusable::Failed(reason));
        }
    }
    let space = root.space().map_err(failed("measure the disk of"))?;
    let disk = match &place.disk {
        Some(disk) if is_same(&disk.root, &root).map_err(failed("look at"))? => disk.clone(),
        Some(_) | None => {
            let locked = place.locks.take(&root, path).map_err(failed("lock"))?;
            Arc::new(Disk {
                path: path.clone(),
                _lock: locked.map_err(Unusable::InUse)?,
                root: Arc::new(root),
            })
        }
    };
    if !place.was_open {
        let needed = place.needed.as_deref();
        let marked = &mut earlier.leftovers;
        let is_kept = needed.is_some();
        mark_for_deletion(&disk, (kind, is_kept), now, marked).map_err(failed("clean up"))?;
        match (kind, needed) {
            (DirKind::Local, Some(needed)) => {
                let mut found = look_at(&disk, needed, place.first_resource);
                earlier.leftovers.append(&mut found.leftovers);
                earlier.cached = found.cached;
            }
            (DirKind::Local, None) => {}
            (DirKind::Log, needed) => {
                let unnamed = &place.unnamed_logs;
                let found = unnamed.find(&disk, needed, now).into_iter();
                let deletion = |(id, after)| Deletion::of_unnamed(&disk, id, unnamed, after);
                earlier.leftovers.extend(found.map(deletion));
            }
        }
    }
    if kind == DirKind::Local {
        for (name, mode) in FOLDERS {
            match disk.root.ensure(name, mode) {
                // The disk is full, which is no failure: what it has can be read.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                made => drop(made.map_err(failed("make the folders of"))?),
            }
        }
    }
    Ok((disk, space))
}

fn is_same(before: &DirHandle, now: &DirHandle) -> io::Result<bool> {
    Ok(before.identity()? == now.identity()?)
}

/// Opens a directory and creates it if it is missing.
fn open(path: &Path) -> Result<DirHandle, String> {
    let not_created = |error: io::Error| {
        tracing::debug!(path = %path.display(), %error, "cannot create this directory");
        format!("Cannot create directory: {}", path.display())
    };
    if !path.exists() {
        create(path).map_err(not_created)?;
    }
    DirHandle::open_ambient(path).map_err(|error| {
        let path = path.display();
        let kind = error.kind();
        if kind == io::ErrorKind::NotADirectory {
            format!("Not a directory: {path}")
        } else if kind == io::ErrorKind::PermissionDenied {
            format!("Directory is not readable: {path}")
        } else {
            format!("cannot open {path}: {error}")
        }
    })
}

/// Creates a directory, and those above it with what the umask leaves. Other users need the bits
/// that an umask takes away, on their way to public resources.
fn create(path: &Path) -> io::Result<()> {
    let (parent, name) = path
        .parent()
        .zip(path.file_name())
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(OPEN_MODE);
    builder.create(parent)?;
    let parent = DirHandle::open_ambient(parent)?;
    parent.create_or_open(name, OPEN_MODE).map(drop)
}

/// Returns whether a name in a directory of this kind is one that the agent gives.
fn is_ours(kind: DirKind, name: &str) -> bool {
    match kind {
        DirKind::Local => FOLDERS.iter().any(|(folder, _)| *folder == name),
        DirKind::Log => name.parse::<ApplicationId>().is_ok(),
    }
}

/// Returns whether a folder of an earlier run stays for now. Of the caches it does if anybody needs
/// something in them; `own_logs` decides about logs.
fn stays(kind: DirKind, is_kept: bool, name: &str) -> bool {
    match kind {
        DirKind::Local => is_kept && name != NM_PRIVATE,
        DirKind::Log => true,
    }
}

/// Renames the folders that an earlier run made and lists them, and those that an earlier start
/// renamed, for deletion. `is_kept`: somebody may need files in the caches.
fn mark_for_deletion(
    disk: &Arc<Disk>,
    (kind, is_kept): (DirKind, bool),
    now: EpochMillis,
    leftovers: &mut Vec<Deletion>,
) -> io::Result<()> {
    let names: Vec<_> = disk.root.names()?.collect::<Result<_, _>>()?;
    for name in names {
        let Some(name) = OsStr::to_str(&name) else {
            continue;
        };
        let marked = if is_ours(kind, name) && !stays(kind, is_kept, name) {
            let marked = format!("{name}{DELETION_MARK}{}", now.0);
            disk.root.rename(name, &disk.root, &marked)?;
            marked
        } else if is_marked(kind, name) || is_abandoned(name) {
            name.to_owned()
        } else {
            continue;
        };
        leftovers.push(Deletion::new(disk.clone(), vec![marked]));
    }
    Ok(())
}

fn is_marked(kind: DirKind, name: &str) -> bool {
    name.rsplit_once(DELETION_MARK)
        .is_some_and(|(original, millis)| {
            is_ours(kind, original)
                && !millis.is_empty()
                && millis.bytes().all(|b| b.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;
    use crate::folder_lock::FolderLocks;
    use crate::own_logs::UnnamedLogs;

    const NOW: EpochMillis = EpochMillis(1_700_000_000_123);

    /// Checks a directory for the first time.
    fn opened(kind: DirKind, path: &Path) -> (Arc<Disk>, Vec<Deletion>) {
        let probed = probe(kind, &place(path), NOW);
        (probed.result.unwrap().0, probed.earlier.leftovers)
    }

    fn place(path: &Path) -> DiskPlace {
        DiskPlace {
            path: path.to_owned(),
            disk: None,
            was_open: false,
            needed: None,
            first_resource: 0,
            locks: FolderLocks::default(),
            unnamed_logs: Arc::new(UnnamedLogs::new(Duration::ZERO)),
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

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
        let (_, leftovers) = opened(DirKind::Local, dir.path());
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
    fn only_logs_that_were_renamed_are_returned_beside_those_with_a_mark() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "application_1_0001",
            "application_1_0002_DEL_9",
            "other",
            "other_DEL_9",
        ] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let (_, leftovers) = opened(DirKind::Log, dir.path());
        assert_eq!(leftovers.len(), 1);
        assert_eq!(
            listed(dir.path()),
            [
                "application_1_0001",
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
        opened(DirKind::Local, &local);
        assert_eq!(mode(&local), 0o755);
        assert_eq!(mode(&local.join("usercache")), 0o755);
        assert_eq!(mode(&local.join("filecache")), 0o755);
        assert_eq!(mode(&local.join("nmPrivate")), 0o700);
    }

    #[test]
    fn a_directory_that_was_lost_is_made_anew_and_nothing_of_this_run_is_deleted() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("l");
        let (disk, _) = opened(DirKind::Local, &path);
        let known = DiskPlace {
            disk: Some(disk.clone()),
            was_open: true,
            needed: None,
            ..place(&path)
        };
        fs::create_dir(path.join("usercache/joe")).unwrap();
        let same = probe(DirKind::Local, &known, NOW);
        assert!(Arc::ptr_eq(&same.result.unwrap().0, &disk));
        assert!(path.join("usercache/joe").is_dir() && same.earlier.leftovers.is_empty());

        fs::remove_dir_all(&path).unwrap();
        let anew = probe(DirKind::Local, &known, NOW);
        assert!(!Arc::ptr_eq(&anew.result.unwrap().0, &disk));
        assert_eq!(listed(&path), ["filecache", "nmPrivate", "usercache"]);
        assert_eq!(mode(&path.join("nmPrivate")), 0o700);
    }

    #[test]
    fn what_cannot_be_a_directory_has_hadoops_reason() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        let below = file.join("l");
        let reason = |path: &Path| {
            let probed = probe(DirKind::Local, &place(path), NOW);
            String::from(probed.result.unwrap_err())
        };
        assert_eq!(
            reason(&file),
            format!("Not a directory: {}", file.display())
        );
        let below_text = format!("Cannot create directory: {}", below.display());
        assert_eq!(reason(&below), below_text);
    }

    #[test]
    fn a_disk_that_turned_read_only_is_not_writable_until_it_is_again() {
        let name = "a_disk_that_turned_read_only_is_not_writable_until_it_is_again";
        test_support::mounts::with_own_mounts(name, || {
            let base = tempfile::tempdir().unwrap();
            test_support::mounts::small_disk(base.path(), 1 << 20);
            let reason = || {
                let probed = probe(DirKind::Local, &place(base.path()), NOW);
                probed.result.err().map(String::from)
            };
            assert_eq!(reason(), None);
            test_support::mounts::set_writable(base.path(), false);
            let text = format!("Directory is not writable: {}", base.path().display());
            assert_eq!(reason(), Some(text));
            test_support::mounts::set_writable(base.path(), true);
            assert_eq!(reason(), None);
        });
    }
}
