//! Conditions and texts, from measurements alone.

use super::*;

const MB: u64 = 1 << 20;

const CONFIG: DiskHealthConfig = DiskHealthConfig {
    interval_ms: 1,
    min_healthy_disks: 0.5,
    max_utilization_percent: Some(90.0),
    utilization_watermark_low_percent: 80.0,
    min_free_space_mb: Some(10),
    free_space_watermark_high_mb: 20,
};

/// A disk of 1000 MiB with so many free.
fn free(mb: u64) -> Measured {
    Ok(DiskSpace {
        total_bytes: 1000 * MB,
        free_bytes: mb * MB,
    })
}

fn broken() -> Measured {
    Err("Not a directory: x".to_owned())
}

fn health(config: DiskHealthConfig, local: usize, log: usize) -> DiskHealth {
    let paths = |kind: &str, count: usize| -> Vec<PathBuf> {
        (0..count).map(|n| format!("/{kind}{n}").into()).collect()
    };
    DiskHealth::new(Some(config), &paths("l", local), &paths("g", log))
}

/// Feeds these to the first log directory, which only Hadoop's limits concern, and returns whether
/// it was good after each.
fn goods(config: DiskHealthConfig, free_mb: &[u64]) -> Vec<bool> {
    goods_of(DirKind::Log, config, free_mb)
}

fn goods_of(kind: DirKind, config: DiskHealthConfig, free_mb: &[u64]) -> Vec<bool> {
    let mut health = health(config, 1, 1);
    let good = |mb: &u64| {
        health.measured(kind, 0, free(*mb));
        health.condition(kind, 0) == Some(&Condition::Good)
    };
    free_mb.iter().map(good).collect()
}

#[test]
fn a_full_disk_is_good_again_only_within_the_low_mark() {
    let percent_only = DiskHealthConfig {
        min_free_space_mb: None,
        ..CONFIG
    };
    assert_eq!(
        goods(percent_only, &[100, 99, 150, 199, 200, 150]),
        [true, false, false, false, true, true]
    );
    let space_only = DiskHealthConfig {
        max_utilization_percent: None,
        ..CONFIG
    };
    assert_eq!(
        goods(space_only, &[10, 9, 15, 19, 20, 15]),
        [true, false, false, false, true, true]
    );
    let neither = DiskHealthConfig {
        max_utilization_percent: None,
        min_free_space_mb: None,
        ..CONFIG
    };
    assert_eq!(goods(neither, &[0]), [true]);
}

#[test]
fn a_local_disk_to_which_nothing_can_be_downloaded_is_full_whatever_the_limits() {
    let neither = DiskHealthConfig {
        max_utilization_percent: None,
        min_free_space_mb: None,
        ..CONFIG
    };
    // A sixteenth of 1000 MiB stays free.
    assert_eq!(
        goods_of(DirKind::Local, neither, &[63, 62, 125, 126, 63]),
        [true, false, false, true, true]
    );
    let mut health = health(neither, 1, 1);
    health.measured(DirKind::Local, 0, free(30));
    let report = health.report();
    assert!(!report.is_healthy);
    let reason = "free space not above the 63MB that downloads leave to containers";
    assert!(report.report.contains(reason), "{}", report.report);
}

#[test]
fn a_disk_without_any_room_is_full_even_if_all_of_it_may_be_used() {
    let all = DiskHealthConfig {
        max_utilization_percent: Some(100.0),
        utilization_watermark_low_percent: 100.0,
        min_free_space_mb: Some(0),
        free_space_watermark_high_mb: 0,
        ..CONFIG
    };
    assert_eq!(goods(all, &[1, 0, 1]), [true, false, true]);
}

#[test]
fn a_file_system_that_reports_no_size_is_not_full() {
    let nothing = DiskSpace {
        total_bytes: 0,
        free_bytes: 0,
    };
    let percent_only = DiskHealthConfig {
        min_free_space_mb: None,
        ..CONFIG
    };
    assert_eq!(
        judge(&percent_only, DirKind::Log, true, nothing),
        Condition::Good
    );
}

#[test]
fn the_report_is_hadoops_to_the_space() {
    let mut health = health(CONFIG, 3, 2);
    health.measured(DirKind::Local, 0, free(500));
    assert_eq!(health.report().report, "");
    health.measured(DirKind::Local, 1, broken());
    health.measured(DirKind::Local, 2, free(0));
    health.measured(DirKind::Log, 0, free(5));
    health.measured(DirKind::Log, 1, broken());
    assert_eq!(
        health.report().report,
        "1/3 local-dirs have errors:  [ /l1 : Not a directory: x ] \
         1/3 local-dirs usable space is below configured utilization percentage/no more usable \
         space [ /l2 : used space above threshold of 90.0% ] ; \
         1/2 log-dirs have errors:  [ /g1 : Not a directory: x ] \
         1/2 log-dirs usable space is below configured utilization percentage/no more usable \
         space [ /g0 : used space above threshold of 90.0% ] "
    );
    health.measured(DirKind::Local, 1, free(19));
    health.measured(DirKind::Log, 1, free(500));
    health.measured(DirKind::Log, 0, free(500));
    assert_eq!(
        health.report().report,
        "2/3 local-dirs usable space is below configured utilization percentage/no more usable \
         space [ /l1 : used space above threshold of 80.0% , \
         /l2 : used space above threshold of 90.0% ] ; "
    );
}

#[test]
fn the_node_is_unhealthy_with_fewer_good_directories_of_either_kind() {
    let mut health = health(CONFIG, 2, 2);
    assert!(health.report().is_healthy);
    health.measured(DirKind::Local, 0, broken());
    assert!(health.report().is_healthy);
    health.measured(DirKind::Local, 1, free(0));
    assert!(!health.report().is_healthy);
    assert_eq!(health.failure(), Some(health.report().report));
    health.measured(DirKind::Local, 1, free(500));
    assert_eq!(health.failure(), None);
    health.measured(DirKind::Log, 0, broken());
    health.measured(DirKind::Log, 1, broken());
    assert!(!health.report().is_healthy);
}

#[test]
fn unchecked_directories_never_make_a_node_unhealthy() {
    let paths = [PathBuf::from("/l")];
    let mut health = DiskHealth::new(None, &paths, &paths);
    health.measured(DirKind::Local, 0, broken());
    health.measured(DirKind::Log, 0, free(0));
    let report = health.report();
    assert_eq!((report.is_healthy, report.report.as_str()), (true, ""));
    assert_eq!((report.local.bad, report.log.bad), (1, 0));
}

#[test]
fn figures_are_of_the_good_ones_and_logs_on_full_ones_are_read() {
    let mut health = health(CONFIG, 3, 3);
    health.measured(DirKind::Local, 0, free(900));
    health.measured(DirKind::Local, 1, free(401));
    health.measured(DirKind::Local, 2, free(0));
    health.measured(DirKind::Log, 0, broken());
    health.measured(DirKind::Log, 1, free(0));
    health.measured(DirKind::Log, 2, broken());
    let report = health.report();
    let local = DirNumbers {
        bad: 1,
        good_utilization_percent: 34,
    };
    let log = DirNumbers {
        bad: 3,
        good_utilization_percent: 0,
    };
    assert_eq!((report.local, report.log), (local, log));
    assert_eq!(report.readable_log_dirs, [PathBuf::from("/g1")]);
}
