//! Logs of applications whose agent was killed are uploaded by the next one, before they are
//! deleted.

use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use records::{ApplicationId, ContainerId};
use tempfile::TempDir;
use tests::conf::Properties;
use tests::scripted_cluster::ScriptedCluster;
use tests::{files, wait};
use wire::proto::hadoop_yarn::LogAggregationStatusProto::{
    self, LogRunningWithFailure, LogSucceeded,
};
use wire::proto::hadoop_yarn::{LogAggregationContextProto, NodeActionProto};

use super::{DEADLINE, restart, script, start, wait_stored};

/// A cluster that uploads logs below `remote/logs`.
struct Lab {
    cluster: ScriptedCluster,
    remote: TempDir,
}

impl Lab {
    fn start(change: impl FnOnce(&mut Properties)) -> Self {
        let remote = tempfile::tempdir().unwrap();
        let root = format!("file://{}/logs", remote.path().display());
        let cluster = start(|site| {
            site.set("yarn.log-aggregation-enable", true)
                .set("yarn.nodemanager.remote-app-log-dir", root);
            change(site);
        });
        Self { cluster, remote }
    }

    fn root(&self) -> PathBuf {
        self.remote.path().join("logs")
    }

    fn application(&self) -> ApplicationId {
        self.cluster.am.attempt().application_id
    }

    /// Returns a command that writes a line into a log of its own.
    fn log(line: &str) -> String {
        format!("echo '{line}' > <LOG_DIR>/{line}")
    }

    /// Has the application end, as the ResourceManager orders it.
    fn order_end(&self) {
        let id = self.application().into();
        let rm = &self.cluster.rm;
        rm.order(|orders| orders.applications_to_cleanup.push(id));
    }

    /// Waits for a report of this state about the application.
    #[track_caller]
    fn wait_report(&self, state: LogAggregationStatusProto) {
        self.cluster
            .rm
            .wait(format!("a report of {state:?}"), |tracker| {
                let report = (self.application(), state);
                tracker.log_reports.contains(&report).then_some(())
            });
    }

    /// Returns the bytes of all remote files, as text.
    fn uploaded(&self) -> String {
        let found = files::aggregated_below(&self.root());
        let contents = found.iter().map(|file| fs::read(file).unwrap());
        String::from_utf8_lossy(&contents.collect::<Vec<_>>().concat()).into_owned()
    }

    /// Expects that the application has so many remote files, which together have each of these
    /// lines once, and waits until nothing is left of its logs here.
    #[track_caller]
    fn assert_uploaded(&self, files_count: RangeInclusive<usize>, lines: &[&str]) {
        let found = files::aggregated_below(&self.root());
        assert!(files_count.contains(&found.len()), "{found:?}");
        let text = self.uploaded();
        for line in lines {
            let line = format!("{line}\n");
            assert_eq!(text.matches(&line).count(), 1, "{line} in {text}");
        }
        let folder = self.cluster.node.log_dir();
        let folder = folder.join(self.application().to_string());
        wait::until("the deletion of the logs", DEADLINE, || {
            wait::check(!folder.exists(), folder.display().to_string())
        });
    }
}

fn succeeded(lab: &Lab, id: ContainerId) {
    let completed = lab.cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, 0, "{completed:?}");
}

#[test]
fn logs_of_containers_before_a_kill_over_it_and_after_it_are_in_one_upload() {
    let mut lab = Lab::start(|_| {});
    let before = lab.cluster.am.run(&Lab::log("before"));
    succeeded(&lab, before);
    let gate = lab.cluster.gate("gate");
    let over = lab.cluster.am.run(&gate.then(&Lab::log("over")));
    let away = lab.cluster.gate("away");
    let ended = lab.cluster.node.folder().join("ended");
    let meanwhile = away.then(&format!(
        "{}; touch '{}'",
        Lab::log("meanwhile"),
        ended.display()
    ));
    let meanwhile = lab.cluster.am.run(&meanwhile);
    wait::until("both run", DEADLINE, || {
        let count = lab.cluster.node.container_processes().len();
        wait::check(count >= 2, count)
    });
    // Nothing of the first container is known to the agent any more.
    wait_stored(&lab.cluster);
    restart(&mut lab.cluster, |_| {
        away.open();
        wait::until("the end without an agent", DEADLINE, || {
            wait::check(ended.exists(), "it runs")
        });
    });
    succeeded(&lab, meanwhile);
    let after = lab.cluster.am.run(&Lab::log("after"));
    succeeded(&lab, after);
    gate.open();
    succeeded(&lab, over);
    lab.order_end();
    lab.wait_report(LogSucceeded);
    lab.assert_uploaded(1..=1, &["before", "meanwhile", "over", "after"]);
}

#[test]
fn logs_whose_upload_failed_before_a_kill_are_uploaded_by_the_next_agent() {
    let mut lab = Lab::start(|_| {});
    // The root cannot be made, as on a file system that is away.
    fs::write(lab.root(), "").unwrap();
    let id = lab.cluster.am.run(&Lab::log("kept"));
    succeeded(&lab, id);
    lab.order_end();
    lab.wait_report(LogRunningWithFailure);
    wait_stored(&lab.cluster);
    let root = lab.root();
    restart(&mut lab.cluster, |_| fs::remove_file(&root).unwrap());
    lab.wait_report(LogSucceeded);
    lab.assert_uploaded(1..=1, &["kept"]);
}

#[test]
fn logs_of_an_application_that_was_ending_at_the_kill_are_uploaded() {
    let mut lab = Lab::start(|site| {
        // Longer than the test: the container ends by itself.
        let delay = "yarn.nodemanager.sleep-delay-before-sigkill.ms";
        site.set(delay, 3_600_000);
    });
    let (gate, told) = (lab.cluster.gate("gate"), lab.cluster.gate("told"));
    let text = format!(
        "trap 'touch {}' TERM; {}",
        told.path().display(),
        gate.wait_command()
    );
    let stubborn = script(&lab.cluster, "stubborn.sh", &text);
    let id = lab
        .cluster
        .am
        .run(&format!("{}; {stubborn}", Lab::log("ending")));
    let log = lab.cluster.node.log_dir();
    let log = log
        .join(lab.application().to_string())
        .join(id.to_string())
        .join("ending");
    wait::until("the log", DEADLINE, || {
        wait::check(log.exists(), log.display().to_string())
    });
    wait_stored(&lab.cluster);
    lab.order_end();
    wait::until("SIGTERM", DEADLINE, || {
        wait::check(told.path().exists(), "it was not told")
    });
    wait_stored(&lab.cluster);
    restart(&mut lab.cluster, |_| {});
    gate.open();
    lab.wait_report(LogSucceeded);
    lab.assert_uploaded(1..=1, &["ending"]);
}

#[test]
fn rolled_logs_that_were_uploaded_before_a_kill_do_not_come_twice() {
    let mut lab = Lab::start(|site| {
        let aggregation = "yarn.nodemanager.log-aggregation";
        site.set(format!("{aggregation}.roll-monitoring-interval-seconds"), 1)
            .set(format!("{aggregation}.debug-enabled"), true);
    });
    let gate = lab.cluster.gate("gate");
    let allocation = lab.cluster.am.allocate().rolled_logs("^rolled");
    let id = lab.cluster.am.start(
        &allocation,
        &format!(
            "{}; {}",
            Lab::log("rolled-before"),
            gate.then(&Lab::log("rolled-after"))
        ),
    );
    let folder = lab.cluster.node.log_dir();
    let folder = folder.join(lab.application().to_string());
    let rolled = folder.join(id.to_string()).join("rolled-before");
    wait::until("the upload", DEADLINE, || {
        let is_uploaded = !files::aggregated_below(&lab.root()).is_empty() && !rolled.exists();
        wait::check(is_uploaded, rolled.display().to_string())
    });
    restart(&mut lab.cluster, |_| gate.open());
    succeeded(&lab, id);
    lab.order_end();
    lab.wait_report(LogSucceeded);
    // The last file also comes while the application runs, or at its end with the others.
    lab.assert_uploaded(2..=3, &["rolled-before", "rolled-after"]);
}

#[test]
fn logs_that_the_application_leaves_out_are_left_out_by_the_next_agent() {
    let mut lab = Lab::start(|_| {});
    let mut first = lab.cluster.am.allocate();
    let package = "org.apache.hadoop.yarn.server.nodemanager.containermanager.logaggregation";
    first.log_aggregation = Some(LogAggregationContextProto {
        exclude_pattern: Some("^secret".to_owned()),
        log_aggregation_policy_class_name: Some(format!(
            "{package}.FailedContainerLogAggregationPolicy"
        )),
        ..LogAggregationContextProto::default()
    });
    let fails = format!("{}; {}; exit 3", Lab::log("failed"), Lab::log("secret-1"));
    let failed = lab.cluster.am.start(&first, &fails);
    assert_eq!(lab.cluster.rm.wait_completed(failed).exit_status, 3);
    let left_out = lab.cluster.am.run(&Lab::log("left-out"));
    succeeded(&lab, left_out);
    // Nothing of these containers is known to the agent any more.
    wait_stored(&lab.cluster);
    restart(&mut lab.cluster, |_| {});
    let fails = format!("{}; {}; exit 3", Lab::log("again"), Lab::log("secret-2"));
    let again = lab.cluster.am.run(&fails);
    assert_eq!(lab.cluster.rm.wait_completed(again).exit_status, 3);
    lab.order_end();
    lab.wait_report(LogSucceeded);
    lab.assert_uploaded(1..=1, &["failed", "again"]);
    let text = lab.uploaded();
    // Copies of launch scripts have the lines' texts too, but not at an end of a line.
    for line in ["left-out\n", "secret-1\n", "secret-2\n"] {
        assert!(!text.contains(line), "{line} in {text}");
    }
}

/// Ends a node without recovery by `order`, while one container has ended and another runs, and
/// expects that the logs of both are uploaded, and gone from the node's disk.
fn uploads_and_deletes_at_the_end(order: impl Fn(&ScriptedCluster)) {
    let mut lab = Lab::start(|site| {
        site.set("yarn.nodemanager.recovery.enabled", false);
    });
    let ended = lab.cluster.am.run(&Lab::log("ended"));
    succeeded(&lab, ended);
    let runs = lab
        .cluster
        .am
        .run(&format!("{}; exec sleep 600", Lab::log("running")));
    let folder = lab
        .cluster
        .node
        .log_dir()
        .join(lab.application().to_string());
    let line = folder.join(runs.to_string()).join("running");
    wait::until("the last log", DEADLINE, || {
        let has_line = fs::read(&line).is_ok_and(|line| line.ends_with(b"\n"));
        wait::check(has_line, line.display().to_string())
    });
    order(&lab.cluster);
    let exit = lab.cluster.node.process.wait_exit(DEADLINE);
    assert_eq!(exit.code(), Some(0), "{exit}");
    let text = lab.uploaded();
    for line in ["ended", "running"] {
        assert_eq!(
            text.matches(&format!("{line}\n")).count(),
            1,
            "{line} in {text}"
        );
    }
    assert!(!folder.exists(), "{} is left", folder.display());
}

#[test]
fn logs_are_uploaded_and_deleted_when_the_agent_is_told_to_stop() {
    uploads_and_deletes_at_the_end(|cluster| cluster.node.process.terminate());
}

#[test]
fn logs_are_uploaded_and_deleted_when_the_resource_manager_orders_the_end() {
    uploads_and_deletes_at_the_end(|cluster| {
        let shutdown = NodeActionProto::Shutdown;
        cluster.rm.order_action(shutdown, "decommissioned");
    });
}
