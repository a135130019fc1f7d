use std::fs;
use std::path::{Path, PathBuf};

use test_support::ids::container;

use super::super::deletion::Deletion;
use super::*;
use crate::config::{DeletionConfig, DirsConfig};
use crate::{DeletionService, NodeDirs, StartedDirs};

const NOW: EpochMillis = EpochMillis(1_700_000_000_123);

const HOUR: Duration = Duration::from_secs(3600);

/// Starts a node whose records name nothing.
fn start_at(base: &Path, retain: Duration, now: EpochMillis) -> StartedDirs {
    let config = DirsConfig {
        local_dirs: vec![base.join("local")],
        log_dirs: vec![base.join("g0"), base.join("g1")],
        log_dir_permissions: 0o710,
        log_retain_sec: retain.as_secs(),
    };
    NodeDirs::start_again(&config, None, now, Needed::default()).unwrap()
}

fn later(ms: i64) -> EpochMillis {
    EpochMillis(NOW.0 + ms)
}

/// Makes the folders of a container.
fn run(started: &StartedDirs) {
    let user = "joe".parse().unwrap();
    let made = started.dirs.create_container_dirs(&container(1), &user);
    made.unwrap();
}

/// Has an earlier run, of which no record is left, make the logs of an application.
fn leave_logs(base: &Path) {
    run(&start_at(base, HOUR, NOW));
}

/// Performs deletions that are due, to their end.
fn delete(started: &mut StartedDirs) {
    let config = DeletionConfig {
        thread_count: 2,
        debug_delay_sec: Some(0),
    };
    let service = DeletionService::start(&config).unwrap();
    service.delete(std::mem::take(&mut started.leftovers));
    service.stop(Duration::from_secs(60));
}

fn delays(started: &StartedDirs) -> Vec<Duration> {
    let logs = started.leftovers.iter();
    let logs = logs.filter(|deletion| !deletion.path().starts_with("local"));
    logs.map(Deletion::delay)
        .filter(|it| !it.is_zero())
        .collect()
}

fn name() -> String {
    container(1).application_id().to_string()
}

fn logs(base: &Path) -> [PathBuf; 2] {
    ["g0", "g1"].map(|disk| base.join(disk).join(name()))
}

fn marks(base: &Path) -> [PathBuf; 2] {
    ["g0", "g1"].map(|disk| base.join(disk).join(MARKS).join(name()))
}

#[track_caller]
fn assert_exist(paths: &[PathBuf], expected: bool) {
    for path in paths {
        assert_eq!(path.exists(), expected, "{}", path.display());
    }
}

#[test]
fn logs_that_this_agent_did_not_make_stay() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    for log in logs(base) {
        fs::create_dir_all(&log).unwrap();
    }
    for start in 0..3 {
        let mut started = start_at(base, Duration::ZERO, later(start));
        delete(&mut started);
        assert_exist(&logs(base), true);
    }
}

#[test]
fn logs_that_no_record_names_stay_as_long_after_they_were_found_over_further_starts() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    leave_logs(base);
    assert_exist(&marks(base), true);
    let mut found = start_at(base, HOUR, later(10));
    assert_eq!(delays(&found), [HOUR; 2]);
    delete(&mut found);
    assert_exist(&logs(base), true);
    drop(found);
    let again = start_at(base, HOUR, later(60_010));
    assert_eq!(delays(&again), [HOUR - Duration::from_secs(60); 2]);
    drop(again);
    let set_back = start_at(base, HOUR, EpochMillis(5));
    assert_eq!(delays(&set_back), [HOUR; 2]);
    drop(set_back);
    let mut late = start_at(base, HOUR, later(3_600_010));
    delete(&mut late);
    assert_exist(&logs(base), false);
    assert_exist(&marks(base), false);
}

#[test]
fn an_application_that_has_a_container_again_keeps_its_logs() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    leave_logs(base);
    drop(start_at(base, HOUR, later(10)));
    let mut late = start_at(base, HOUR, later(3_600_010));
    run(&late);
    delete(&mut late);
    assert_exist(&logs(base), true);
    drop(late);
    // They count as found anew.
    let again = start_at(base, HOUR, later(7_200_000));
    assert_eq!(delays(&again), [HOUR; 2]);
}

#[test]
fn a_mark_goes_with_its_logs() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    leave_logs(base);
    let mut started = start_at(base, HOUR, NOW);
    let application = container(1).application_id();
    started.leftovers = started.dirs.log_deletions(application);
    delete(&mut started);
    assert_exist(&logs(base), false);
    assert_exist(&marks(base), false);
    drop(started);
    leave_logs(base);
    for log in logs(base) {
        fs::remove_dir_all(log).unwrap();
    }
    drop(start_at(base, HOUR, NOW));
    assert_exist(&marks(base), false);
}

#[test]
fn a_mark_that_tells_no_time_counts_as_found_now() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    for text in ["x", "17 ", "99999999999999999999999", "\u{ff}"] {
        leave_logs(base);
        for mark in marks(base) {
            fs::write(mark, text.as_bytes()).unwrap();
        }
        let started = start_at(base, HOUR, later(10));
        assert_eq!(delays(&started), [HOUR; 2], "{text}");
    }
    for mark in marks(base) {
        fs::write(mark, b"\xff\xfe").unwrap();
    }
    assert_eq!(delays(&start_at(base, HOUR, later(10))), [HOUR; 2]);
}

#[test]
fn only_the_agent_reaches_the_marks() {
    use std::os::unix::fs::PermissionsExt as _;
    let base = tempfile::tempdir().unwrap();
    leave_logs(base.path());
    let folder = base.path().join("g0").join(MARKS);
    let mode = fs::metadata(folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}
