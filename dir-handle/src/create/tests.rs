//! Claims about what others see of a directory or file while it is made.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Barrier;
use std::thread;

use super::*;
use crate::tests::{STRANGER, may_give, temporary};

const OWNER: Owner = Owner {
    user: STRANGER,
    group: STRANGER - 1,
};

#[test]
fn threads_that_want_the_same_directory_all_get_one_that_is_its_owners() {
    let test = "threads_that_want_the_same_directory_all_get_one_that_is_its_owners";
    if !may_give(test) {
        return;
    }
    const THREADS: usize = 8;
    let (_dir, directory) = temporary();
    let directory = directory.owned_by(Some(OWNER));
    for round in 0..200 {
        let name = format!("user-{round}");
        let at_once = Barrier::new(THREADS);
        let seen: Vec<_> = thread::scope(|scope| {
            let look = || {
                at_once.wait();
                let folder = directory.ensure(&name, 0o2750).unwrap();
                (folder.user().unwrap(), folder.mode_bits().unwrap())
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(look)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(seen, [(STRANGER, 0o2750); THREADS], "round {round}");
    }
    let private = |name: &OsString| name.as_bytes().starts_with(PRIVATE.as_bytes());
    let names: BTreeSet<_> = directory.names().unwrap().map(Result::unwrap).collect();
    assert!(!names.iter().any(private), "{names:?}");
}

#[test]
fn a_file_is_its_owners_whenever_a_reader_finds_it() {
    if !may_give("a_file_is_its_owners_whenever_a_reader_finds_it") {
        return;
    }
    let (_dir, directory) = temporary();
    let users = directory.owned_by(Some(OWNER));
    let users = users.create("users", 0o750).unwrap();
    for round in 0..200 {
        let name = format!("log-{round}");
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                loop {
                    match users.open_regular(&name) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        opened => break opened.map(|file| file.metadata().unwrap().uid()),
                    }
                }
            });
            users.create_file(&name, 0o640).unwrap();
            assert_eq!(reader.join().unwrap().ok(), Some(STRANGER), "round {round}");
        });
    }
}

#[test]
fn nothing_is_replaced_and_no_private_name_stays_behind() {
    let (dir, directory) = temporary();
    let first = directory.create("a", 0o700).unwrap();
    let refused = directory.create("a", 0o755).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    let again = directory.create_or_open("a", 0o755).unwrap();
    assert_eq!(first.identity().unwrap(), again.identity().unwrap());
    std::fs::write(dir.path().join("file"), "x").unwrap();
    assert!(directory.create("file", 0o700).is_err());
    let names: BTreeSet<_> = directory.names().unwrap().map(Result::unwrap).collect();
    assert_eq!(names, ["a".into(), "file".into()].into());
}

#[test]
fn without_the_kernels_help_nothing_is_replaced_either() {
    let (_dir, directory) = temporary();
    directory.create("new", 0o700).unwrap();
    directory.create("taken", 0o700).unwrap();
    let rename = |name: &str, to: &str| directory.look_and_rename(name.as_ref(), to.as_ref());
    let refused = rename("new", "taken").unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    rename("new", "free").unwrap();
    assert!(directory.open("free").is_ok() && directory.open("new").is_err());
}

#[test]
fn only_private_names_of_other_processes_are_abandoned() {
    let own = private_name();
    assert!(is_being_made(&own) && !is_abandoned(&own));
    let other = format!("{PRIVATE}{}", "0123456789abcdef".repeat(3));
    assert!(is_abandoned(&other) && !is_being_made(&other));
    let cut = &other[..other.len() - 1];
    for name in [cut, ".new~", "usercache", &other.replace('a', "g")] {
        assert!(!is_abandoned(name), "{name}");
    }
}

#[test]
fn a_directory_that_was_left_half_made_is_given_to_its_owner() {
    if !may_give("a_directory_that_was_left_half_made_is_given_to_its_owner") {
        return;
    }
    let (dir, directory) = temporary();
    for name in ["empty", "used", "others"] {
        directory.create(name, 0o700).unwrap();
    }
    std::fs::write(dir.path().join("used/file"), "x").unwrap();
    std::os::unix::fs::chown(dir.path().join("others"), Some(STRANGER - 7), None).unwrap();
    let complete = |directory: &DirHandle, name: &str| {
        let folder = directory.open(name).unwrap();
        let is_complete = folder.complete_half_made(0o2750).unwrap();
        let metadata = std::fs::metadata(dir.path().join(name)).unwrap();
        (is_complete, metadata.uid(), metadata.gid())
    };
    assert!(!complete(&directory, "empty").0, "nobody owns it");
    let owned = directory.owned_by(Some(OWNER));
    assert_eq!(complete(&owned, "empty"), (true, OWNER.user, OWNER.group));
    assert_eq!(owned.open("empty").unwrap().mode_bits().unwrap(), 0o2750);
    assert!(!complete(&owned, "used").0);
    assert_eq!(complete(&owned, "used").1, geteuid().as_raw());
    assert_eq!(complete(&owned, "others").1, STRANGER - 7);
}

#[test]
fn a_directory_has_its_mode_whatever_the_umask_and_the_directory_above() {
    let (_dir, directory) = temporary();
    let shared = directory.create("shared", 0o2775).unwrap();
    for above in [&directory, &shared] {
        for bits in [0o700, 0o710, 0o755, 0o775, 0o777, 0o2750, 0o1777] {
            let made = above.create(format!("{bits:o}"), bits).unwrap();
            assert_eq!(made.mode_bits().unwrap(), bits, "{bits:o}");
        }
    }
}

#[test]
fn a_directory_has_its_mode_whenever_a_reader_finds_it() {
    let (_dir, directory) = temporary();
    for (round, bits) in [0o755, 0o777].into_iter().cycle().take(200).enumerate() {
        let name = format!("folder-{round}");
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                loop {
                    match directory.open(&name) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        opened => break opened.and_then(|folder| folder.mode_bits()),
                    }
                }
            });
            directory.create(&name, bits).unwrap();
            assert_eq!(reader.join().unwrap().ok(), Some(bits), "round {round}");
        });
    }
}
