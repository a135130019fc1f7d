//! Claims about the node's health.

use health_script::Verdict;
use localize::DisksReport;

use super::*;
use crate::HealthEvent;

fn disks(report: &str) -> HealthEvent {
    HealthEvent::Disks(DisksReport {
        is_healthy: report.is_empty(),
        report: report.to_owned(),
        local: localize::DirNumbers {
            bad: 1,
            good_utilization_percent: 50,
        },
        log: localize::DirNumbers::default(),
        readable_log_dirs: vec!["/log".into()],
    })
}

fn script(index: usize, report: &str) -> HealthEvent {
    let verdict = Verdict {
        is_healthy: report.is_empty(),
        report: report.to_owned(),
    };
    HealthEvent::Script { index, verdict }
}

/// Tells the core these and returns the health in the next heartbeat.
fn after(node: &mut Node, events: impl IntoIterator<Item = HealthEvent>) -> (bool, String) {
    let now = node.now;
    for event in events {
        node.core.handle(WorkerEvent::Health(event), now, 0);
    }
    let health = node.core.heartbeat_report(now).health;
    (health.healthy, health.report)
}

#[test]
fn the_report_is_that_of_all_parts_and_one_fault_is_enough() {
    let mut node = Node::new();
    let unhealthy = |report: &str| (false, report.to_owned());
    let healthy = (true, String::new());
    assert_eq!(after(&mut node, []), healthy);
    assert_eq!(after(&mut node, [disks(""), script(0, "")]), healthy);
    assert_eq!(
        after(&mut node, [script(1, "ERROR b\n"), script(0, "ERROR a")]),
        unhealthy("ERROR a;ERROR b\n")
    );
    assert_eq!(
        after(&mut node, [disks("disks"), script(0, "")]),
        unhealthy("disks;ERROR b\n")
    );
    assert_eq!(after(&mut node, [script(1, "")]), unhealthy("disks"));
    assert_eq!(after(&mut node, [disks("")]), healthy);
}

#[test]
fn pages_see_the_time_the_figures_and_the_log_directories_of_the_last_look() {
    let mut node = Node::new();
    let before = node.core.live_revision();
    after(&mut node, [disks("full")]);
    assert!(node.core.live_revision() > before);
    let about = node.core.snapshot().about;
    assert_eq!(about.health.updated_at, node.now.wall);
    assert_eq!(about.local_dirs.bad, 1);
    assert_eq!(about.local_dirs.good_utilization_percent, 50);
    assert_eq!(about.log_roots, [std::path::PathBuf::from("/log")]);
}

#[test]
fn a_node_that_starts_no_process_is_unhealthy_until_a_pause_is_over_or_one_starts() {
    let mut node = Node::new();
    let launch_fails = |node: &mut Node, number: i64, is_of_node: bool| {
        node.start(number);
        node.work();
        node.handle(LaunchEvent::LaunchFailed {
            id: container_id(number),
            status: ContainerExitStatus::LAUNCH_FAILED,
            diagnostics: "cannot create a process".to_owned(),
            is_of_node,
        });
    };
    for number in 1..=40 {
        launch_fails(&mut node, number, false);
    }
    let healthy = (true, String::new());
    assert_eq!(after(&mut node, []), healthy, "a container's own fault");
    for number in 41..=50 {
        assert_eq!(after(&mut node, []), healthy);
        launch_fails(&mut node, number, true);
    }
    let (is_healthy, report) = after(&mut node, []);
    assert!(
        !is_healthy && report.ends_with("cannot create a process"),
        "{report}"
    );
    // The pause passes, and the next launch decides.
    let ends = node.core.condition.next_deadline().unwrap();
    assert!(node.core.next_deadline().unwrap() <= ends);
    node.now.mono = ends;
    node.core.tick(node.now);
    assert_eq!(after(&mut node, []), healthy);
    launch_fails(&mut node, 51, true);
    assert!(!after(&mut node, []).0);
    node.run(52);
    assert_eq!(after(&mut node, []), healthy);
}
