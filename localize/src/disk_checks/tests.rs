//! Rounds of checks, with disks that hang.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;
use crate::config::DiskHealthConfig;
use crate::{DeletionService, config::DeletionConfig};

const NOW: EpochMillis = EpochMillis(5);

const HEALTH: DiskHealthConfig = DiskHealthConfig {
    interval_ms: 1,
    min_healthy_disks: 0.5,
    max_utilization_percent: None,
    utilization_watermark_low_percent: 100.0,
    min_free_space_mb: None,
    free_space_watermark_high_mb: 0,
};

fn config(base: &Path) -> DirsConfig {
    DirsConfig {
        local_dirs: vec![base.join("l0"), base.join("l1")],
        log_dirs: vec![base.join("g")],
        log_dir_permissions: 0o710,
        log_retain_sec: 0,
    }
}

/// Held while checks of `l1` must hang. Static, since a probe is a plain function.
static HANGING: Mutex<()> = Mutex::new(());

/// Number of checks of `l1` that have begun.
static BEGUN: Mutex<u32> = Mutex::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hanging_probe(kind: DirKind, place: &DiskPlace, now: EpochMillis) -> Probed {
    if place.path.ends_with("l1") {
        *lock(&BEGUN) += 1;
        drop(lock(&HANGING));
    }
    start::probe(kind, place, now)
}

#[test]
fn a_disk_that_hangs_fails_and_keeps_one_thread_until_it_answers() {
    let base = tempfile::tempdir().unwrap();
    let started = NodeDirs::start(&config(base.path()), Some(HEALTH), NOW).unwrap();
    let dirs = started.dirs;
    let mut checks = Checks::new(hanging_probe, Duration::from_millis(50));
    let hang = lock(&HANGING);
    for _ in 0..3 {
        checks.round(&dirs, NOW).unwrap();
        let report = dirs.report();
        let reason = format!(
            "1/2 local-dirs have errors:  [ {} : the disk has not answered for 50ms ] ",
            base.path().join("l1").display()
        );
        assert_eq!((report.is_healthy, report.report), (true, reason));
        assert!(dirs.local(0).is_some() && dirs.local(1).is_none());
    }
    assert_eq!(*lock(&BEGUN), 1);
    drop(hang);
    // The answer about the disk that hung.
    let late = checks.answers.1.recv().unwrap();
    checks.answers.0.send(late).unwrap();
    checks.patience = PATIENCE;
    checks.round(&dirs, NOW).unwrap();
    assert_eq!(dirs.report().report, "");
    assert!(dirs.local(1).is_some());
}

#[test]
fn a_directory_serves_again_with_its_folders_once_it_can_be_used() {
    let base = tempfile::tempdir().unwrap();
    let in_the_way = base.path().join("l1");
    std::fs::write(&in_the_way, "").unwrap();
    let started = NodeDirs::start(&config(base.path()), Some(HEALTH), NOW).unwrap();
    let (dirs, mut checks) = (started.dirs, started.checks.0);
    assert!(
        dirs.report()
            .report
            .starts_with("1/2 local-dirs have errors:  [ ")
    );
    std::fs::remove_file(&in_the_way).unwrap();
    // What an earlier run left there.
    std::fs::create_dir_all(in_the_way.join("usercache/joe")).unwrap();
    let found = checks.round(&dirs, NOW).unwrap();
    assert_eq!(found.earlier.leftovers.len(), 1);
    assert_eq!(dirs.report().report, "");
    let made = dirs
        .create_container_dirs(
            &records::ApplicationId::new(1, 7).attempt(1).container(2),
            &"joe".parse().unwrap(),
        )
        .unwrap();
    assert_eq!(made.local_dirs.len(), 2);
    assert!(in_the_way.join("filecache").is_dir());
}

#[test]
fn a_node_without_any_usable_directory_starts_if_directories_are_checked() {
    let base = tempfile::tempdir().unwrap();
    for name in ["l0", "l1"] {
        std::fs::write(base.path().join(name), "").unwrap();
    }
    let config = config(base.path());
    let dirs = NodeDirs::start(&config, Some(HEALTH), NOW).unwrap().dirs;
    let error = dirs.require_enough().unwrap_err().to_string();
    assert!(
        error.starts_with("Most of the disks failed. 2/2 local-dirs have errors: "),
        "{error}"
    );
    drop(dirs);
    let refused = NodeDirs::start(&config, None, NOW).unwrap_err();
    assert!(matches!(refused, DirsError::NoneUsable { .. }));
}

#[test]
fn a_second_agent_on_one_of_the_directories_is_refused_and_changes_nothing_in_it() {
    let base = tempfile::tempdir().unwrap();
    let first = NodeDirs::start(&config(base.path()), Some(HEALTH), NOW).unwrap();
    let container = test_support::ids::container(2);
    let made = first
        .dirs
        .create_container_dirs(&container, &"joe".parse().unwrap());
    let made = made.unwrap();
    let second = DirsConfig {
        local_dirs: vec![base.path().join("own"), base.path().join("l1")],
        log_dirs: vec![base.path().join("own-logs")],
        log_dir_permissions: 0o710,
        log_retain_sec: 0,
    };
    let refused = NodeDirs::start(&second, Some(HEALTH), NOW).unwrap_err();
    let text = refused.to_string();
    let path = base.path().join("l1").display().to_string();
    assert!(
        text.starts_with(&format!("{path} cannot be used: another agent uses")),
        "{text}"
    );
    assert!(made.local_dirs.iter().all(|folder| folder.is_dir()));
    drop(first);
    NodeDirs::start(&second, Some(HEALTH), NOW).unwrap();
}

#[test]
fn one_folder_may_be_for_work_and_for_logs() {
    let base = tempfile::tempdir().unwrap();
    let config = DirsConfig {
        log_dirs: vec![base.path().join("l0")],
        ..config(base.path())
    };
    let started = NodeDirs::start(&config, Some(HEALTH), NOW).unwrap();
    assert_eq!(started.dirs.report().report, "");
}

#[test]
fn the_thread_reports_each_round_until_it_is_stopped() {
    let base = tempfile::tempdir().unwrap();
    let started = NodeDirs::start(&config(base.path()), Some(HEALTH), NOW).unwrap();
    let deletion = DeletionService::start(&DeletionConfig {
        thread_count: 1,
        debug_delay_sec: None,
    })
    .unwrap();
    let (reports, reported) = unbounded();
    let checker = DiskChecker::start(
        started.dirs,
        started.checks,
        Duration::from_millis(1),
        deletion.clone(),
        || NOW,
        move |report| drop(reports.send(report)),
    )
    .unwrap();
    for _ in 0..2 {
        assert!(reported.recv().unwrap().is_healthy);
    }
    checker.stop();
    deletion.stop(Duration::ZERO);
}
