//! Links: stored wherever they point, followed by nobody.

use std::os::unix::fs::symlink;

use super::*;

#[test]
fn links_are_stored_wherever_they_point() {
    let place = Place::new();
    let outside = place.base.path().join("outside");
    let outside = outside.to_str().unwrap();
    let entries = [
        ("bin/python3", "/usr/bin/python3"),
        ("up", "../../precious"),
        ("bin/far", "x/../../../../precious"),
        ("missing", "nothing"),
        ("itself", "itself"),
        ("folder", outside),
    ];
    let tar = tar_of(&entries.map(|(name, target)| (LINK, name, target)));
    place.unpack(Packing::Tar, tar).unwrap();
    for (name, target) in entries {
        let found = fs::read_link(place.path(name)).unwrap();
        assert_eq!(found.to_str(), Some(target), "{name}");
    }
}

#[test]
fn an_entry_below_a_link_goes_where_the_link_points() {
    let place = Place::new();
    let tar = tar_of(&[
        (FOLDER, "lib/", ""),
        (LINK, "lib64", "lib"),
        (FILE, "lib64/m.py", "1"),
        // A chain, with `..` and with a folder that does not exist yet.
        (LINK, "a/b/l", "../../lib64/../new/deep"),
        (LINK, "l", "./a/b/l/."),
        (FILE, "l/n.py", "2"),
        (LINK, "top", "."),
        (FILE, "top/top/o.py", "3"),
        (FOLDER, "lib64/folder/", ""),
        (HARD, "lib64/hard", "top/lib64/m.py"),
    ]);
    place.unpack(Packing::Tar, tar).unwrap();
    assert_eq!(place.read("lib/m.py"), "1");
    assert_eq!(place.read("new/deep/n.py"), "2");
    assert_eq!(place.read("o.py"), "3");
    assert_eq!(place.read("lib/hard"), "1");
    assert!(place.path("lib/folder").is_dir());
    assert!(place.path("lib64").is_symlink() && place.path("l").is_symlink());
}

#[test]
fn an_entry_below_a_link_that_leaves_the_folder_is_refused() {
    let place = Place::new();
    let base = place.base.path().to_str().unwrap().to_owned();
    let [outside, root] = ["outside", "cache/x.tar"].map(|name| format!("{base}/{name}"));
    for (target, name) in [
        (outside.as_str(), "l/x"),
        // Inside by its text, but nobody knows where the folder ends up.
        (root.as_str(), "l/x"),
        ("../../outside", "l/x"),
        ("..", "l/x"),
        ("..", "l/x.tar/x"),
        ("d/../../../outside", "l/x"),
        ("l", "l/x"),
        ("again", "l/x"),
    ] {
        for kind in [FILE, FOLDER, LINK, HARD] {
            let other = if kind == FILE { "evil" } else { "d/f" };
            let other = if kind == FOLDER { "" } else { other };
            let place = Place::new();
            let tar = tar_of(&[
                (FILE, "d/f", "1"),
                (LINK, "again", "l"),
                (LINK, "l", target),
                (kind, name, other),
            ]);
            let refused = place.unpack(Packing::Tar, tar);
            assert_refused(refused, Refused::ThroughLink, name);
        }
    }
}

#[test]
fn a_link_that_is_replaced_leads_nowhere_any_more() {
    let place = Place::new();
    let tar = tar_of(&[
        (LINK, "l", "a"),
        (FILE, "l/x", "1"),
        (LINK, "l", "b"),
        (FILE, "l/x", "2"),
    ]);
    place.unpack(Packing::Tar, tar).unwrap();
    assert_eq!(
        (place.read("a/x"), place.read("b/x")),
        ("1".into(), "2".into())
    );
}

#[test]
fn entries_replace_links_files_and_empty_folders_and_never_a_target() {
    let place = Place::new();
    let tar = tar_of(&[
        (FILE, "a", "1"),
        (LINK, "l", "a"),
        (FILE, "l", "2"),
        (LINK, "precious", "../../precious"),
        (FILE, "precious", "3"),
        (FOLDER, "d/", ""),
        (LINK, "m", "d"),
        (FOLDER, "m/", ""),
        (FILE, "m/x", "4"),
        (FILE, "f", "5"),
        (FOLDER, "f/", ""),
        (FOLDER, "e/", ""),
        (FILE, "e", "6"),
        (FOLDER, "n/", ""),
        (LINK, "n", "a"),
    ]);
    place.unpack(Packing::Tar, tar).unwrap();
    assert_eq!((place.read("a"), place.read("l")), ("1".into(), "2".into()));
    assert_eq!(place.read("precious"), "3");
    assert!(place.path("m/x").is_file() && !place.path("d/x").exists());
    assert!(place.path("f").is_dir());
    assert_eq!((place.read("e"), place.read("n")), ("6".into(), "1".into()));
}

#[test]
fn hard_links_name_files_and_links_of_the_archive() {
    let place = Place::new();
    let tar = tar_of(&[
        (FILE, "d/f", "1"),
        (LINK, "l", "d"),
        (LINK, "out", "/etc/passwd"),
        (HARD, "hard", "/d/f"),
        (HARD, "through", "l/f"),
        (HARD, "d/out", "out"),
        // Names of the file already.
        (HARD, "hard", "d/f"),
        (HARD, "./d/f", "d/f"),
    ]);
    place.unpack(Packing::Tar, tar).unwrap();
    assert_eq!(place.read("hard"), "1");
    let inode = |name| fs::metadata(place.path(name)).unwrap().ino();
    assert_eq!(
        (inode("hard"), inode("through")),
        (inode("d/f"), inode("d/f"))
    );
    for name in ["out", "d/out"] {
        let target = fs::read_link(place.path(name)).unwrap();
        assert_eq!(target, Path::new("/etc/passwd"), "{name}");
    }
}

#[test]
fn hard_links_to_anything_else_are_refused() {
    for target in [
        "../../precious",
        "/etc/passwd",
        "missing",
        "d",
        "up/precious",
        "d/f/x",
        "",
    ] {
        let tar = tar_of(&[
            (FILE, "d/f", ""),
            (LINK, "up", "../.."),
            (HARD, "hard", target),
        ]);
        let refused = Place::new().unpack(Packing::Tar, tar);
        assert_refused(refused, Refused::LinkToNoFile, "hard");
    }
}

#[test]
fn a_link_without_a_target_is_refused() {
    let tar = tar_of(&[(LINK, "l", "")]);
    let refused = Place::new().unpack(Packing::Tar, tar);
    assert_refused(refused, Refused::BadTarget, "l");
}

#[test]
fn a_name_below_a_file_is_refused() {
    let tar = tar_of(&[(FILE, "f", "1"), (LINK, "l", "f"), (FILE, "l/x", "2")]);
    let refused = Place::new().unpack(Packing::Tar, tar);
    assert_refused(refused, Refused::ThroughFile, "l/x");
}

/// The folder of a private resource belongs to a user whose containers may change it meanwhile.
#[test]
fn a_folder_that_becomes_a_link_while_an_archive_is_unpacked_leads_nowhere() {
    /// Archive in which the user replaces a folder before an entry is read.
    struct Racing<'a> {
        archive: &'a [u8],
        folder: PathBuf,
        outside: PathBuf,
    }
    impl Read for Racing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.folder.is_dir() && !self.folder.is_symlink() {
                fs::rename(&self.folder, self.folder.with_extension("away")).unwrap();
                symlink(&self.outside, &self.folder).unwrap();
            }
            let length = buffer.len().min(512);
            self.archive.read(buffer.get_mut(..length).unwrap())
        }
    }
    let place = Place::new();
    let root = place.cache.create("x.tar", 0o755).unwrap();
    let tar = tar_of(&[
        (FILE, "d/a", "1"),
        (FILE, "other", "2"),
        (FILE, "d/precious", "3"),
    ]);
    let progress = Progress::default();
    let mut budget = Budget::new(&place.cache, &progress);
    let mut extract = Extract::new("x.tar", root, Scope::Public.modes(), &mut budget);
    let mut racing = Racing {
        archive: &tar,
        folder: place.path("d"),
        outside: place.base.path().join("outside"),
    };
    let unpacked = archives::read(Form::Tar, &mut racing, &mut extract);
    let Err(ReadError::Stopped) = unpacked else {
        panic!("an entry went through the user's link");
    };
    let error = extract.take_failure().unwrap();
    assert_refused(Err(error), Refused::ThroughLink, "d/precious");
    place.assert_nothing_left_the_folder();
}
