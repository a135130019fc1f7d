//! Checks at a file system that another process could serve: here the node's own, by `hadoop-fs`.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use hadoop_fs::{Caller, FileSystems, FsConfig};

use super::*;

/// A folder that others may reach, with `a/b/file` in it.
struct Tree {
    base: tempfile::TempDir,
    source: RemoteSource,
}

impl Tree {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let file_systems = FileSystems::new(FsConfig::default());
        let uri = "file:/".parse().unwrap();
        let source = RemoteSource::new(file_systems.open(&uri, Caller::user("joe", "")).unwrap());
        let tree = Self { base, source };
        fs::create_dir_all(tree.at("a/b")).unwrap();
        fs::write(tree.at("a/b/file"), "content").unwrap();
        for folder in ["", "a", "a/b"] {
            tree.set_mode(folder, 0o755);
        }
        tree.set_mode("a/b/file", 0o644);
        tree
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base.path().join(path)
    }

    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), Permissions::from_mode(mode)).unwrap();
    }

    fn is_refused(&self, path: &str) -> bool {
        let opened = self.source.open(&self.at(path), true);
        opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }
}

#[test]
fn files_are_read_and_folders_listed() {
    let tree = Tree::new();
    let Opened::File(mut file) = tree.source.open(&tree.at("a/b/file"), true).unwrap() else {
        panic!("no file");
    };
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "content");
    let Opened::Folder { names, .. } = tree.source.open(&tree.at("a/b"), true).unwrap() else {
        panic!("no folder");
    };
    assert_eq!(names.map(Result::unwrap).collect::<Vec<_>>(), ["file"]);
}

#[test]
fn a_public_resource_is_open_to_others_up_to_the_root() {
    for (path, mode) in [("a/b/file", 0o640), ("a/b", 0o754), ("a", 0o754)] {
        let tree = Tree::new();
        tree.set_mode(path, mode);
        assert!(tree.is_refused("a/b/file"), "{path}");
        assert!(tree.source.open(&tree.at("a/b/file"), false).is_ok());
    }
    let tree = Tree::new();
    assert!(!tree.is_refused("a/b/file"));
    tree.set_mode("a/b", 0o751);
    assert!(tree.is_refused("a/b"));
}

#[test]
fn the_names_of_folders_in_folders_are_bounded_together() {
    let tree = Tree::new();
    let open = |path: &str| tree.source.open(&tree.at(path), false);
    tree.source.names_bytes_left.set(size_of::<OsString>() + 2);
    let outer = open("a").unwrap();
    assert_eq!(tree.source.names_bytes_left.get(), 1);
    let refused = open("a/b").err().unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
    drop(outer);
    tree.source.names_bytes_left.set(size_of::<OsString>() + 4);
    assert!(open("a/b").is_ok(), "the outer folder is done");
    assert_eq!(
        tree.source.names_bytes_left.get(),
        size_of::<OsString>() + 4
    );
}
