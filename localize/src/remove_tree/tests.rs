//! Folders as their owners may leave them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use nix::sys::stat::Mode;
use test_support::mounts::{bind, with_own_mounts};

use super::*;

fn remove(base: &Path, name: &str) -> Result<(), Incomplete> {
    let parent = DirHandle::open_ambient(base).unwrap();
    remove_tree(&parent, OsStr::new(name), &|| false)
}

fn nest(folder: DirHandle, depth: usize) {
    let mut folder = folder;
    for level in 0..depth {
        folder.create_file("file", 0o400).unwrap();
        folder = folder.ensure(format!("level{level}"), 0o700).unwrap();
    }
}

#[test]
fn what_links_point_to_stays() {
    let base = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "x").unwrap();
    let work = base.path().join("work");
    fs::create_dir_all(work.join("deeper")).unwrap();
    symlink(outside.path(), work.join("folder")).unwrap();
    symlink(outside.path().join("precious"), work.join("deeper/file")).unwrap();
    symlink("/", work.join("deeper/root")).unwrap();
    symlink("nowhere", work.join("broken")).unwrap();
    remove(base.path(), "work").unwrap();
    assert!(!work.exists());
    assert!(outside.path().join("precious").exists());
}

#[test]
fn a_link_in_place_of_the_folder_goes_and_its_target_stays() {
    let base = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "x").unwrap();
    symlink(outside.path(), base.path().join("work")).unwrap();
    remove(base.path(), "work").unwrap();
    assert!(fs::symlink_metadata(base.path().join("work")).is_err());
    assert!(outside.path().join("precious").exists());
}

#[test]
fn trees_thousands_of_levels_deep_are_removed() {
    let base = tempfile::tempdir().unwrap();
    let parent = DirHandle::open_ambient(base.path()).unwrap();
    let work = parent.ensure("work", 0o700).unwrap();
    for (branch, depth) in [("a", 2000), ("b", 40), ("c", 17)] {
        nest(work.ensure(branch, 0o700).unwrap(), depth);
    }
    remove(base.path(), "work").unwrap();
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
}

#[test]
fn folders_without_permissions_are_removed() {
    let base = tempfile::tempdir().unwrap();
    let work = base.path().join("work");
    for (name, bits) in [("none", 0o000), ("read", 0o500), ("write", 0o200)] {
        fs::create_dir_all(work.join(name).join("inner")).unwrap();
        fs::write(work.join(name).join("file"), "x").unwrap();
        fs::set_permissions(work.join(name), PermissionsExt::from_mode(bits)).unwrap();
    }
    fs::set_permissions(&work, PermissionsExt::from_mode(0o500)).unwrap();
    remove(base.path(), "work").unwrap();
    assert!(!work.exists());
}

#[test]
fn pipes_are_removed_without_opening_them() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir(base.path().join("work")).unwrap();
    nix::unistd::mkfifo(&base.path().join("work/pipe"), Mode::S_IRWXU).unwrap();
    remove(base.path(), "work").unwrap();
    assert!(!base.path().join("work").exists());
}

#[test]
fn nothing_there_is_no_error() {
    let base = tempfile::tempdir().unwrap();
    remove(base.path(), "work").unwrap();
}

#[test]
fn a_wide_folder_is_emptied() {
    let base = tempfile::tempdir().unwrap();
    let work = base.path().join("work");
    fs::create_dir(&work).unwrap();
    for n in 0..3000 {
        fs::write(work.join(n.to_string()), "").unwrap();
    }
    remove(base.path(), "work").unwrap();
    assert!(!work.exists());
}

#[test]
fn removal_ends_when_told_to_stop() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir_all(base.path().join("work/inner")).unwrap();
    let parent = DirHandle::open_ambient(base.path()).unwrap();
    let error = remove_tree(&parent, OsStr::new("work"), &|| true).unwrap_err();
    assert_eq!(error.error.kind(), io::ErrorKind::Interrupted);
    assert!(base.path().join("work/inner").exists());
}

#[test]
fn what_is_mounted_inside_stays_and_the_rest_goes() {
    with_own_mounts("what_is_mounted_inside_stays_and_the_rest_goes", || {
        let base = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(outside.path().join("inner")).unwrap();
        fs::write(outside.path().join("inner/precious"), "x").unwrap();
        // Below the deepest recursion, so that the mount is moved up with its folder.
        let deep = (0..DEPTH_MAX + 3).fold(String::from("work"), |path, _| path + "/d");
        let deep = base.path().join(deep);
        let mounts = [base.path().join("work/a/mount"), deep.join("mount")];
        for mount in &mounts {
            fs::create_dir_all(mount).unwrap();
            bind(outside.path(), mount);
            fs::write(mount.with_file_name("file"), "x").unwrap();
        }
        let file = base.path().join("work/file");
        fs::write(&file, "").unwrap();
        bind(&outside.path().join("inner/precious"), &file);

        let incomplete = remove(base.path(), "work").unwrap_err();

        let precious = fs::read_to_string(outside.path().join("inner/precious"));
        assert_eq!(precious.unwrap(), "x");
        let named: Vec<_> = incomplete
            .mounts
            .iter()
            .map(|m| m.to_str().unwrap())
            .collect();
        assert_eq!(named.len(), 3, "{named:?}");
        assert!(named.contains(&"work/a/mount"), "{named:?}");
        assert!(named.contains(&"work/file"), "{named:?}");
        for mount in named {
            assert!(base.path().join(mount).exists(), "{mount}");
        }
        assert!(!base.path().join("work/a/file").exists());
        assert!(!base.path().join("work/d").exists());
    });
}

#[test]
fn a_mount_in_place_of_the_folder_stays() {
    with_own_mounts("a_mount_in_place_of_the_folder_stays", || {
        let base = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), "x").unwrap();
        fs::create_dir(base.path().join("work")).unwrap();
        bind(outside.path(), &base.path().join("work"));
        let incomplete = remove(base.path(), "work").unwrap_err();
        assert_eq!(incomplete.mounts, [Path::new("work")]);
        assert!(outside.path().join("precious").exists());
    });
}
