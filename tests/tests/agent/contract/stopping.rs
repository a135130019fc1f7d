//! The end of a node, and of containers by signal.

use std::time::Duration;

use nix::sys::signal::Signal;
use tests::wait;
use wire::proto::hadoop_yarn::ContainerSubStateProto::{CssRunning, CssScheduled};
use wire::proto::hadoop_yarn::SignalContainerCommandProto;

use crate::contract::cluster;

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn a_terminated_node_leaves_nothing_running_and_says_goodbye() {
    let mut cluster = cluster();
    let ids = [
        cluster.am.run("exec sleep 600"),
        cluster
            .am
            .run("trap '' TERM; while true; do sleep 0.05; done"),
    ];
    for id in ids {
        cluster.rm.wait_sub_state(id, CssRunning);
    }
    let large = cluster.am.allocate().opportunistic().memory_mb(1024);
    let waiting = cluster.am.start(&large, "true");
    cluster.rm.wait_sub_state(waiting, CssScheduled);
    cluster.node.process.signal(Signal::SIGTERM);
    let exit = cluster.node.process.wait_exit(DEADLINE);
    assert_eq!(cluster.node.container_processes().len(), 0);
    // A JVM that ends on SIGTERM has the status 143.
    assert!([Some(0), Some(143)].contains(&exit.code()), "{exit}");
    assert_eq!(cluster.rm.with(|tracker| tracker.unregistrations), 1);
}

#[test]
fn a_signal_of_the_application_master_reaches_the_container() {
    let cluster = cluster();
    let id = cluster.am.run(
        "trap 'echo got it > <LOG_DIR>/got; exit 9' TERM; touch <LOG_DIR>/ready; while true; do sleep 0.05; done",
    );
    wait::until("the trap", DEADLINE, || {
        let folder = cluster.node.log_dir().join(id.application_id().to_string());
        wait::check(folder.join(id.to_string()).join("ready").exists(), "unset")
    });
    let graceful = SignalContainerCommandProto::GracefulShutdown;
    cluster.am.signal(id, graceful).unwrap();
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 9);
    assert_eq!(cluster.log(id, "got").trim(), "got it");
}

#[test]
fn a_signal_for_a_container_that_is_not_there_is_no_error() {
    let cluster = cluster();
    let id = cluster.am.allocate().id;
    let forceful = SignalContainerCommandProto::ForcefulShutdown;
    cluster.am.signal(id, forceful).unwrap();
    cluster.assert_serves();
}

#[test]
fn stopping_an_unknown_container_is_refused() {
    let cluster = cluster();
    let refusal = cluster.am.stop(cluster.am.allocate().id).unwrap_err();
    let message = &refusal.exception().message;
    assert!(
        message.contains("is not handled by this NodeManager"),
        "{message}"
    );
}
