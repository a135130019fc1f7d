//! Logs that no record of the agent names: those of another NodeManager, and those of an agent
//! whose records were lost.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use test_support::scripted::ScriptedAm;
use tests::scripted_cluster::ScriptedCluster;
use tests::{files, wait};

use super::{DEADLINE, restart, start, wait_stored};
use crate::AGENT;

const RETAIN: &str = "yarn.nodemanager.log.retain-seconds";

/// An hour, and so longer than any test.
const LONG: &str = "3600";

/// Logs as a Java NodeManager leaves them, of an application that the agent never meets.
const OF_JAVA: &str =
    "application_1700000000000_0007/container_1700000000000_0007_01_000001/stdout";

/// Orders an orderly stop, in which deletions that are due are performed, and waits for the end.
fn stop(cluster: &mut ScriptedCluster) {
    cluster.node.process.signal(Signal::SIGTERM);
    let exit = cluster.node.process.wait_exit(DEADLINE);
    assert_eq!(exit.code(), Some(0), "{exit}");
}

/// Runs a node with logs of a Java NodeManager, which stay whatever becomes of its own.
fn keeps_logs_of_java(with_recovery: bool) {
    let mut log = PathBuf::new();
    let mut cluster = start(|site| {
        site.set("yarn.nodemanager.recovery.enabled", with_recovery)
            .set(RETAIN, 0);
        let logs = site.get("yarn.nodemanager.log-dirs").map(PathBuf::from);
        log = logs.expect("the configuration has a folder").join(OF_JAVA);
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        fs::write(&log, "of a Java node").unwrap();
    });
    for _ in 0..2 {
        let id = cluster.am.run("echo mine > <LOG_DIR>/own");
        assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
        stop(&mut cluster);
        assert!(log.exists(), "deleted by a start, a run or a stop");
        let registrations = cluster.rm.with(|tracker| tracker.registrations.len());
        cluster.node.start_agent_again(Path::new(AGENT));
        cluster.rm.wait_registrations(registrations + 1);
        let own = cluster.node.log_dir().join(id.application_id().to_string());
        if !with_recovery {
            wait::until("the deletion of the agent's own", DEADLINE, || {
                wait::check(!own.exists(), own.display().to_string())
            });
        }
        wait_stored(&cluster);
        let (rm, am) = (&cluster.rm, &mut cluster.am);
        wait::until("a connection", DEADLINE, || {
            am.reconnect(rm).map_err(|error| error.to_string())
        });
    }
    stop(&mut cluster);
    assert_eq!(fs::read_to_string(log).unwrap(), "of a Java node");
}

#[test]
fn logs_of_a_java_node_stay_without_recovery() {
    keeps_logs_of_java(false);
}

#[test]
fn logs_of_a_java_node_stay_with_recovery() {
    keeps_logs_of_java(true);
}

/// Loses the records of a node by `lose`, and expects that the logs of an application that does not
/// return stay for the time of the configuration.
fn keeps_logs_for_a_while(lose: impl Fn(&Path)) {
    let mut cluster = start(|site| {
        site.set(RETAIN, LONG);
    });
    let away = ScriptedAm::connect(&cluster.rm, 2);
    let line = "echo kept > <LOG_DIR>/line";
    let id = away.run(line);
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
    let application = cluster.node.log_dir().join(id.application_id().to_string());
    let log = application.join(id.to_string()).join("line");
    let assert_there = |when: &str| {
        assert!(log.exists(), "{} is gone {when}", log.display());
    };
    wait_stored(&cluster);
    let lose_records = |cluster: &ScriptedCluster| {
        let found = files::below(cluster.node.folder());
        let is_store = |path: &&PathBuf| path.ends_with("state.redb");
        lose(found.iter().find(is_store).expect("a store"));
    };
    restart(&mut cluster, lose_records);
    assert_there("after the start");
    cluster.assert_serves();
    // What is due is deleted before the agent ends.
    stop(&mut cluster);
    assert_there("after the stop");
    restart(&mut cluster, |cluster| {
        lose_records(cluster);
        let site = cluster.node.folder().join("conf/yarn-site.xml");
        let text = fs::read_to_string(&site).unwrap();
        assert_eq!(text.matches(LONG).count(), 1, "{text}");
        fs::write(&site, text.replace(LONG, "1")).unwrap();
    });
    wait::until("the deletion", DEADLINE, || {
        wait::check(!application.exists(), application.display().to_string())
    });
}

#[test]
fn logs_stay_for_the_retain_time_after_the_state_is_damaged() {
    keeps_logs_for_a_while(|store| fs::write(store, "no store").unwrap());
}

#[test]
fn logs_stay_for_the_retain_time_after_the_state_is_removed() {
    keeps_logs_for_a_while(|store| fs::remove_file(store).unwrap());
}
