use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use records::{ApplicationId, EpochMillis};
use role_history::SavedEntry;
use tempfile::TempDir;

use super::*;

const FIRST: ApplicationAttemptId = ApplicationId::new(1_700_000_000_000, 7).attempt(1);
const SECOND: ApplicationAttemptId = ApplicationId::new(1_700_000_000_000, 7).attempt(2);
const OTHER: ApplicationAttemptId = ApplicationId::new(1_600_000_000_000, 1).attempt(1);

fn open(dir: &TempDir, attempt: ApplicationAttemptId) -> Result<HistoryDirectory, StoreError> {
    let place = Place::Local(dir.path().join("history"));
    HistoryDirectory::open(&place, attempt, StoreConfig::default())
}

fn path(directory: &HistoryDirectory) -> &Path {
    match &directory.kind {
        Kind::Local(local) => &local.path,
        Kind::Remote(remote) => panic!("{remote:?} is opened by other tests"),
    }
}

fn history(saved: i64) -> SavedHistory {
    let mut history = SavedHistory::new(EpochMillis(saved), 1, None);
    let last_used = EpochMillis(saved - 1);
    let entry = SavedEntry {
        role: 1,
        active: true,
        last_used,
    };
    history.push("n1", entry);
    history
}

/// Returns the names of all files, sorted.
fn files(directory: &HistoryDirectory) -> Vec<String> {
    let entries = fs::read_dir(path(directory)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name != "fence").collect();
    names.sort();
    names
}

/// Returns the time of the history that is loaded, and the reasons for skipping others.
fn loaded(directory: &HistoryDirectory) -> (Option<i64>, Vec<String>) {
    let loaded = directory.load().unwrap();
    let reasons = loaded.skipped.iter().map(|skipped| match &skipped.error {
        LoadError::Read(error) => error.to_string(),
        error @ (LoadError::Open(_) | LoadError::TooLarge { .. }) => error.to_string(),
    });
    let reasons = reasons.collect();
    (
        loaded.found.map(|found| found.read.history.saved.0),
        reasons,
    )
}

fn put(directory: &HistoryDirectory, saved: i64, text: &[u8]) {
    fs::write(path(directory).join(names::of(EpochMillis(saved))), text).unwrap();
}

#[test]
fn an_empty_directory_has_no_history() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    assert_eq!(loaded(&directory), (None, vec![]));
}

#[test]
fn a_file_in_the_place_of_the_directory_is_an_error() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("history"), "").unwrap();
    assert!(matches!(open(&dir, FIRST), Err(StoreError::Io { .. })));
}

#[test]
fn what_is_saved_is_loaded() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    let saved = directory.save(&history(16)).unwrap();
    assert_eq!(files(&directory), ["rolehistory-0000000000000010.json"]);
    let found = directory.load().unwrap().found.unwrap();
    assert_eq!(found.path, saved.path);
    assert_eq!(found.read.history, history(16));
}

#[test]
fn a_save_of_the_same_time_replaces_the_file() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    directory.save(&history(5)).unwrap();
    directory.save(&history(5)).unwrap();
    assert_eq!(files(&directory).len(), 1);
}

#[test]
fn the_newest_file_is_loaded_and_other_names_are_no_files() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    for saved in [3, 9, 7] {
        directory.save(&history(saved)).unwrap();
    }
    fs::write(path(&directory).join("file.json"), "x").unwrap();
    fs::create_dir(path(&directory).join("rolehistory-ff.json")).unwrap();
    symlink("/dev/zero", path(&directory).join("rolehistory-fe.json")).unwrap();
    assert_eq!(loaded(&directory), (Some(9), vec![]));
}

#[test]
fn broken_newer_files_are_skipped_with_their_reasons() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    let good = directory.save(&history(1)).unwrap().path;
    let good = fs::read_to_string(good).unwrap();
    put(&directory, 2, &good.as_bytes()[..good.len() - 1]);
    put(&directory, 3, good.replace(":1,", ":2,").as_bytes());
    put(&directory, 4, b"not json");
    put(&directory, 5, b"");
    put(&directory, 6, b"\xff\xfe");
    let (found, reasons) = loaded(&directory);
    assert_eq!(found, Some(1));
    assert_eq!(
        reasons,
        [
            "line 1 has text that is not a JSON object",
            "the history is empty",
            "line 1 has text that is not a JSON object",
            "line 1: version 2 of the history is unknown",
            "the record at line 3 is cut off"
        ]
    );
}

#[test]
fn a_file_of_100_mb_without_history_costs_nothing() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    directory.save(&history(1)).unwrap();
    let huge = path(&directory).join(names::of(EpochMillis(2)));
    File::create(huge).unwrap().set_len(100 << 20).unwrap();
    let too_huge = path(&directory).join(names::of(EpochMillis(3)));
    File::create(too_huge).unwrap().set_len(1 << 40).unwrap();
    let (found, reasons) = loaded(&directory);
    assert_eq!(found, Some(1));
    assert_eq!(
        reasons,
        [
            "the history has 1099511627776 bytes, more than 536870912",
            "line 1 has text that is not a JSON object"
        ]
    );
}

#[test]
fn loading_deletes_nothing() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    directory.save(&history(1)).unwrap();
    directory.save(&history(2)).unwrap();
    put(&directory, 3, b"");
    directory.load().unwrap();
    assert_eq!(files(&directory).len(), 3);
}

#[test]
fn a_save_keeps_the_newest_files_and_those_that_are_newer_than_itself() {
    let dir = TempDir::new().unwrap();
    let mut directory = open(&dir, FIRST).unwrap();
    directory.config.keep = NonZeroUsize::new(3).unwrap();
    for saved in 1..=4 {
        put(&directory, saved, b"");
    }
    put(&directory, 9, b"from a clock that is ahead");
    let saved = directory.save(&history(5)).unwrap();
    assert_eq!((saved.purged, saved.purge_failures), (2, 0));
    let kept = [3, 4, 5, 9].map(|saved| names::of(EpochMillis(saved)));
    assert_eq!(files(&directory), kept);
}

#[test]
fn at_least_one_file_is_kept_to_fall_back_to() {
    let dir = TempDir::new().unwrap();
    let mut directory = open(&dir, FIRST).unwrap();
    directory.config.keep = NonZeroUsize::MIN;
    for saved in 1..=3 {
        directory.save(&history(saved)).unwrap();
    }
    assert_eq!(files(&directory).len(), 2);
}

#[test]
fn an_attempt_that_was_replaced_can_load_but_not_save() {
    let dir = TempDir::new().unwrap();
    let first = open(&dir, FIRST).unwrap();
    first.save(&history(1)).unwrap();
    let second = open(&dir, SECOND).unwrap();
    let refused = first.save(&history(9)).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Fenced { owner, .. } if *owner == Some(SECOND)),
        "{refused}"
    );
    assert_eq!(loaded(&first), (Some(1), vec![]));
    second.save(&history(2)).unwrap();
    assert_eq!(loaded(&second), (Some(2), vec![]));
    assert_eq!(files(&second).len(), 2, "a refused save leaves nothing");
}

#[test]
fn an_earlier_attempt_of_the_application_cannot_open_the_directory() {
    let dir = TempDir::new().unwrap();
    open(&dir, SECOND).unwrap();
    assert!(matches!(
        open(&dir, FIRST),
        Err(StoreError::Fenced {
            owner: Some(SECOND),
            ..
        })
    ));
    open(&dir, SECOND).expect("an agent that restarts opens it again");
}

#[test]
fn another_application_of_the_service_takes_the_directory_over_whatever_its_id() {
    let dir = TempDir::new().unwrap();
    let before = open(&dir, SECOND).unwrap();
    let next = open(&dir, OTHER).unwrap();
    assert!(before.save(&history(1)).is_err());
    next.save(&history(2)).unwrap();
}

#[test]
fn after_a_crash_that_cut_the_fence_nobody_saves_until_the_next_open() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    fs::write(path(&directory).join("fence"), "appattempt_17").unwrap();
    assert!(matches!(
        directory.save(&history(1)),
        Err(StoreError::Fenced { owner: None, .. })
    ));
    open(&dir, FIRST).unwrap().save(&history(1)).unwrap();
}

#[test]
fn an_interrupted_save_is_invisible_and_removed_by_the_next_attempt() {
    let dir = TempDir::new().unwrap();
    let first = open(&dir, FIRST).unwrap();
    first.save(&history(1)).unwrap();
    let half = names::temporary(&names::of(EpochMillis(2)), FIRST);
    fs::write(path(&first).join(&half), "{\"entry\":").unwrap();
    assert_eq!(loaded(&first), (Some(1), vec![]));
    let second = open(&dir, SECOND).unwrap();
    assert_eq!(files(&second), [names::of(EpochMillis(1))]);
}

#[test]
fn a_save_does_not_write_through_a_link() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    let target = dir.path().join("target");
    fs::write(&target, "precious").unwrap();
    let temporary = names::temporary(&names::of(EpochMillis(1)), FIRST);
    symlink(&target, path(&directory).join(temporary)).unwrap();
    directory.save(&history(1)).unwrap();
    assert_eq!(fs::read_to_string(target).unwrap(), "precious");
}

#[test]
fn a_save_that_fails_leaves_the_older_history() {
    let dir = TempDir::new().unwrap();
    let directory = open(&dir, FIRST).unwrap();
    directory.save(&history(1)).unwrap();
    // A directory in the place of the new file makes the rename fail.
    fs::create_dir(path(&directory).join(names::of(EpochMillis(2)))).unwrap();
    assert!(directory.save(&history(2)).is_err());
    assert_eq!(loaded(&directory), (Some(1), vec![]));
    assert_eq!(files(&directory).len(), 2);
}
