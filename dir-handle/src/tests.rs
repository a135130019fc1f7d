//! Effects of the operations on a handle, and their refusals.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

pub(crate) fn temporary() -> (tempfile::TempDir, DirHandle) {
    let dir = tempfile::tempdir().unwrap();
    let directory = DirHandle::open_ambient(dir.path()).unwrap();
    (dir, directory)
}

#[test]
fn only_single_names_are_taken() {
    let (_dir, directory) = temporary();
    for name in ["", ".", "..", "a/b", "/etc"] {
        assert!(directory.open(name).is_err(), "{name}");
        assert!(directory.ensure(name, 0o700).is_err(), "{name}");
        assert!(directory.create_file(name, 0o600).is_err(), "{name}");
        assert!(directory.unlink(name).is_err(), "{name}");
        assert!(directory.kind(name).is_err(), "{name}");
    }
}

#[test]
fn a_link_is_neither_opened_nor_written_through() {
    let (dir, directory) = temporary();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), dir.path().join("link")).unwrap();
    assert!(directory.open("link").is_err());
    assert!(directory.ensure("link", 0o700).is_err());
    assert!(directory.create_file("link", 0o600).is_err());
    assert_eq!(directory.kind("link").unwrap(), Some(FileKind::Link));
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    let (dir, directory) = temporary();
    directory.ensure("f", 0o777).unwrap();
    directory.create_file("x", 0o666).unwrap();
    let bits = |name: &str| {
        std::fs::metadata(dir.path().join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!((bits("f"), bits("x")), (0o777, 0o666));
}

#[test]
fn a_path_below_is_opened_unless_a_link_is_on_it() {
    let (dir, directory) = temporary();
    std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
    symlink("a", dir.path().join("link")).unwrap();
    assert!(directory.open_beneath(Path::new("a/b")).is_ok());
    assert!(directory.open_beneath(Path::new("link/b")).is_err());
    assert!(directory.open_beneath(Path::new("..")).is_err());
    assert!(DirHandle::open_no_follow(&dir.path().join("link")).is_err());
    assert!(DirHandle::open_ambient(&dir.path().join("link")).is_ok());
}

#[test]
fn another_directory_of_the_same_path_has_another_identity() {
    let (dir, directory) = temporary();
    directory.create("a", 0o700).unwrap();
    let first = directory.open("a").unwrap();
    let again = directory.open("a").unwrap().identity().unwrap();
    assert_eq!(first.identity().unwrap(), again);
    // The first still holds its inode, so the second gets another.
    std::fs::remove_dir(dir.path().join("a")).unwrap();
    directory.create("a", 0o700).unwrap();
    let second = directory.open("a").unwrap();
    assert_ne!(first.identity().unwrap(), second.identity().unwrap());
}

#[test]
fn a_folder_of_our_own_may_be_used_and_its_disk_has_room() {
    let (_dir, directory) = temporary();
    for access in [Access::Read, Access::Write, Access::Execute] {
        assert!(directory.may(access), "{access:?}");
    }
    let space = directory.space().unwrap();
    assert!(space.total_bytes >= space.free_bytes && space.free_bytes > 0);
}

#[test]
fn a_mount_is_not_opened_with_or_without_openat2() {
    let root = DirHandle::open_ambient(Path::new("/")).unwrap();
    let is_crossing = |opened: io::Result<DirHandle>| {
        opened.is_err_and(|error| error.kind() == io::ErrorKind::CrossesDevices)
    };
    assert!(is_crossing(root.open("proc")));
    assert!(is_crossing(root.open_by_mount_id(Path::new("proc"))));
    assert!(is_crossing(root.open_by_mount_id(Path::new("proc/self"))));
    assert!(DirHandle::open_ambient(Path::new("/proc")).is_ok());
}

#[test]
fn without_openat2_links_and_parents_are_refused_too() {
    let (dir, directory) = temporary();
    std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
    symlink("a", dir.path().join("link")).unwrap();
    let open = |path: &str| directory.open_by_mount_id(Path::new(path));
    assert!(open("./a/b").is_ok());
    for path in ["link/b", "..", "a/../a", "/"] {
        assert!(open(path).is_err(), "{path}");
    }
}

#[test]
fn only_regular_files_are_opened_for_reading() {
    let (dir, directory) = temporary();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    std::fs::create_dir(dir.path().join("directory")).unwrap();
    symlink("file", dir.path().join("link")).unwrap();
    nix::unistd::mkfifo(&dir.path().join("pipe"), mode(0o600)).unwrap();
    assert!(directory.open_regular("file").is_ok());
    for name in ["directory", "link", "pipe", "missing"] {
        assert!(directory.open_regular(name).is_err(), "{name}");
    }
    let status = directory.status("file").unwrap();
    assert_eq!((status.kind, status.length), (FileKind::File, 1));
}

/// Id of no user of the machine.
pub(crate) const STRANGER: u32 = 65_533;

/// Returns whether this process may give files away; prints why not otherwise.
pub(crate) fn may_give(test: &str) -> bool {
    let may = geteuid().is_root();
    if !may {
        test_support::skip::skip(test, &"only root may give files to another user");
    }
    may
}

#[test]
fn what_is_made_below_an_owned_handle_is_its_owners() {
    if !may_give("what_is_made_below_an_owned_handle_is_its_owners") {
        return;
    }
    let (dir, directory) = temporary();
    directory.create("agents", 0o700).unwrap();
    let owner = Owner {
        user: STRANGER,
        group: STRANGER - 1,
    };
    let owned = directory.owned_by(Some(owner));
    let folder = owned.create("folder", 0o2750).unwrap();
    folder.create_file("file", 0o640).unwrap();
    folder.ensure_with_umask("inner").unwrap();
    let again = owned.open_beneath(Path::new("folder/inner")).unwrap();
    again.ensure("deep", 0o700).unwrap();
    for path in ["folder", "folder/file", "folder/inner", "folder/inner/deep"] {
        let metadata = std::fs::metadata(dir.path().join(path)).unwrap();
        assert_eq!(
            (metadata.uid(), metadata.gid()),
            (STRANGER, STRANGER - 1),
            "{path}"
        );
    }
    let bits = folder.mode_bits().unwrap();
    assert_eq!(bits, 0o2750);
    owned.ensure("agents", 0o700).unwrap();
    let agents = std::fs::metadata(dir.path().join("agents")).unwrap();
    assert_eq!(
        agents.uid(),
        geteuid().as_raw(),
        "what exists is not given away"
    );
}

#[test]
fn a_file_that_is_not_its_directorys_users_is_not_read() {
    if !may_give("a_file_that_is_not_its_directorys_users_is_not_read") {
        return;
    }
    let (dir, directory) = temporary();
    std::fs::write(dir.path().join("secret"), "x").unwrap();
    let owner = Owner {
        user: STRANGER,
        group: STRANGER,
    };
    let users = directory
        .owned_by(Some(owner))
        .create("users", 0o755)
        .unwrap();
    users.create_file("own", 0o600).unwrap();
    std::fs::hard_link(dir.path().join("secret"), dir.path().join("users/linked")).unwrap();
    assert!(users.open_regular("own").is_ok());
    let refused = users.open_regular("linked").unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    // In a directory of this process, which runs everything as one user, it does not matter.
    let (dir, directory) = temporary();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    std::os::unix::fs::chown(dir.path().join("file"), Some(STRANGER), None).unwrap();
    assert!(directory.open_regular("file").is_ok());
}

#[test]
fn what_is_beneath_is_seen_without_following_links_with_or_without_openat2() {
    let (dir, directory) = temporary();
    std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
    std::fs::write(dir.path().join("a/b/file"), "").unwrap();
    symlink("nowhere", dir.path().join("a/dangling")).unwrap();
    symlink("a", dir.path().join("link")).unwrap();
    for has in [DirHandle::has_beneath, DirHandle::has_by_mount_id] {
        let has = |path: &str| has(&directory, Path::new(path));
        for path in ["a", "a/b/file", "a/dangling", "link"] {
            assert!(has(path).unwrap(), "{path}");
        }
        for path in ["c", "a/b/other", "c/file"] {
            assert!(!has(path).unwrap(), "{path}");
        }
        for path in ["link/b/file", "a/b/file/c", "../a", "/"] {
            assert!(has(path).is_err(), "{path}");
        }
    }
}
