//! The protocol of remote directories, on local files without locks: each operation is as atomic
//! there as a NameNode's.

use std::sync::Barrier;
use std::{fs, thread};

use records::{ApplicationId, EpochMillis};
use role_history::SavedEntry;
use tempfile::TempDir;

use super::*;
use crate::directory::{HistoryDirectory, LoadError, StoreConfig};
use crate::place::{FileAccess, Place};

const FIRST: ApplicationAttemptId = ApplicationId::new(1_700_000_000_000, 7).attempt(1);
const SECOND: ApplicationAttemptId = ApplicationId::new(1_700_000_000_000, 7).attempt(2);
const OTHER: ApplicationAttemptId = ApplicationId::new(1_600_000_000_000, 1).attempt(1);

fn place(dir: &TempDir) -> RemotePlace {
    RemotePlace {
        access: FileAccess::default(),
        uri: format!("file:{}/alice/store", dir.path().display())
            .parse()
            .unwrap(),
    }
}

fn open(dir: &TempDir, attempt: ApplicationAttemptId) -> Result<HistoryDirectory, StoreError> {
    HistoryDirectory::open(&Place::Remote(place(dir)), attempt, StoreConfig::default())
}

fn history(saved: i64) -> SavedHistory {
    let mut history = SavedHistory::new(EpochMillis(saved), 1, None);
    let entry = SavedEntry {
        role: 1,
        active: true,
        last_used: EpochMillis(saved - 1),
    };
    history.push("n1", entry);
    history
}

/// Returns the names of everything in the directory, sorted.
fn entries(dir: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path().join("alice/store")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn loaded(directory: &HistoryDirectory) -> Option<i64> {
    let found = directory.load().unwrap().found;
    found.map(|found| found.read.history.saved.0)
}

#[track_caller]
fn assert_fenced(saved: Result<crate::Saved, StoreError>, by: ApplicationAttemptId) {
    let refused = saved.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Fenced { owner, .. } if *owner == Some(by)),
        "{refused}"
    );
}

#[test]
fn what_is_saved_is_loaded_under_the_same_names_as_locally() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    assert_eq!(loaded(&directory), None);
    let saved = directory.save(&history(16)).unwrap();
    assert!(saved.path.starts_with("file:/"), "{}", saved.path);
    let owner = format!(".owner-0000000000000001-{FIRST}");
    assert_eq!(entries(&dir), [&owner, "rolehistory-0000000000000010.json"]);
    assert_eq!(loaded(&directory), Some(16));
    // Locally the same file is read.
    let local = Place::Local(dir.path().join("alice/store"));
    let local = HistoryDirectory::open(&local, SECOND, StoreConfig::default()).unwrap();
    assert_eq!(loaded(&local), Some(16));
}

#[test]
fn a_broken_newer_file_is_skipped_and_older_files_are_purged_after_a_save() {
    let dir = TempDir::new().unwrap();
    let config = StoreConfig {
        keep: std::num::NonZeroUsize::new(2).unwrap(),
        ..StoreConfig::default()
    };
    let directory = HistoryDirectory::open(&Place::Remote(place(&dir)), FIRST, config).unwrap();
    directory.save(&history(1)).unwrap();
    directory.save(&history(2)).unwrap();
    let broken = dir
        .path()
        .join("alice/store")
        .join(names::of(EpochMillis(3)));
    fs::write(broken, "{\"entry\":").unwrap();
    let read = directory.load().unwrap();
    assert_eq!(read.found.unwrap().read.history, history(2));
    assert!(matches!(&read.skipped[..], [one] if matches!(one.error, LoadError::Read(_))));
    assert_eq!(directory.save(&history(4)).unwrap().purged, 2);
    let kept = [3, 4].map(|saved| names::of(EpochMillis(saved)));
    assert_eq!(entries(&dir)[1..], kept);
}

#[test]
fn an_attempt_that_was_replaced_can_load_but_not_save() {
    let dir = TempDir::new().unwrap();
    let first = open(&dir, FIRST).unwrap();
    first.save(&history(1)).unwrap();
    let second = open(&dir, SECOND).unwrap();
    assert_fenced(first.save(&history(9)), SECOND);
    assert_eq!(loaded(&first), Some(1));
    second.save(&history(2)).unwrap();
    assert_eq!(loaded(&first), Some(2));
    // Applications have no order: the last one to open owns the directory.
    let other = open(&dir, OTHER).unwrap();
    assert_fenced(second.save(&history(9)), OTHER);
    other.save(&history(3)).unwrap();
    assert_eq!(entries(&dir).len(), 4, "one owner and three histories");
}

#[test]
fn an_earlier_attempt_of_the_application_cannot_open_the_directory() {
    let dir = TempDir::new().unwrap();
    let second = open(&dir, SECOND).unwrap();
    assert!(matches!(
        open(&dir, FIRST),
        Err(StoreError::Fenced {
            owner: Some(SECOND),
            ..
        })
    ));
    second.save(&history(1)).unwrap();
    open(&dir, SECOND).expect("an agent that restarts opens it again");
}

#[test]
fn a_save_that_is_overtaken_before_its_rename_changes_nothing() {
    let dir = TempDir::new().unwrap();
    let first = RemoteDirectory::open(place(&dir), FIRST).unwrap();
    let files = first.connect().unwrap();
    files.write(&history(9)).unwrap();
    let second = open(&dir, SECOND).unwrap();
    assert_eq!(loaded(&second), None);
    let late = files.publish(&names::of(EpochMillis(9)));
    assert!(
        matches!(
            late,
            Err(StoreError::Fenced {
                owner: Some(SECOND),
                ..
            })
        ),
        "{late:?}"
    );
    assert_eq!(loaded(&second), None);
    assert_eq!(entries(&dir), [format!(".owner-0000000000000002-{SECOND}")]);
}

#[test]
fn a_save_that_fails_leaves_the_older_history_and_the_next_one_succeeds() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    directory.save(&history(1)).unwrap();
    // A directory in the place of the new file makes the rename fail.
    let in_the_way = dir
        .path()
        .join("alice/store")
        .join(names::of(EpochMillis(2)));
    fs::create_dir(in_the_way).unwrap();
    let failed = directory.save(&history(2)).unwrap_err();
    assert!(matches!(failed, StoreError::FileSystem(_)), "{failed}");
    assert_eq!(loaded(&directory), Some(1));
    directory.save(&history(3)).unwrap();
    assert_eq!(loaded(&directory), Some(3));
}

#[test]
fn of_attempts_that_open_at_once_exactly_one_can_save() {
    const ATTEMPTS: i32 = 4;
    for round in 0..20 {
        let dir = TempDir::new().unwrap();
        let barrier = Barrier::new(usize::try_from(ATTEMPTS).unwrap());
        let opened: Vec<_> = thread::scope(|scope| {
            let open = |number: i32| {
                let (dir, barrier) = (&dir, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    open(dir, ApplicationId::new(1, number).attempt(1))
                })
            };
            let threads: Vec<_> = (0..ATTEMPTS).map(open).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let mut owners = 0;
        for (saved, opened) in (1..).zip(&opened) {
            let outcome = match opened {
                Ok(directory) => directory.save(&history(saved)),
                Err(error) => panic!("round {round}: {error}"),
            };
            match outcome {
                Ok(_) => owners += 1,
                Err(StoreError::Fenced { .. }) => {}
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        assert_eq!(owners, 1, "round {round}");
    }
}

#[test]
fn names_of_owners_are_read_as_they_are_written() {
    let owner = Owner {
        number: u64::MAX,
        attempt: SECOND,
    };
    assert_eq!(Owner::from_name(&owner.name()), Some(owner));
    for name in [
        ".owner-",
        ".owner-1",
        ".owner-x-appattempt_1_0001_000001",
        "fence",
    ] {
        assert_eq!(Owner::from_name(name), None, "{name}");
    }
}
