//! A defective ResourceManager: answers with more wrong orders than anybody has containers.

use std::time::Duration;

use tests::wait;
use wire::proto::hadoop_yarn::ContainerSubStateProto::CssRunning;
use wire::proto::hadoop_yarn::{
    ApplicationIdProto, ContainerIdProto, ContainerProto, SignalContainerCommandProto,
    SignalContainerRequestProto,
};

use super::cluster;

/// Deadline for what takes a second on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Wrong orders in one list of one answer.
const WRONG: usize = 1_000_000;

/// Longest text that the answer may leave in the log, in bytes: some lines for each list.
const LOG_MAX: usize = 64 * 1024;

#[test]
fn a_million_wrong_orders_in_one_answer_are_some_lines_of_the_log() {
    let cluster = cluster();
    let id = cluster.am.run("exec sleep 600");
    cluster.rm.wait_sub_state(id, CssRunning);
    let before = cluster.node.process.log().len();
    cluster.rm.order(|answer| {
        answer.containers_to_cleanup = vec![ContainerIdProto::default(); WRONG];
        answer.containers_to_be_removed_from_nm = vec![ContainerIdProto::default(); WRONG];
        answer.applications_to_cleanup = vec![ApplicationIdProto::default(); WRONG];
        answer.containers_to_update = vec![ContainerProto::default(); WRONG];
        let signal = SignalContainerRequestProto {
            container_id: id.into(),
            command: SignalContainerCommandProto::GracefulShutdown.into(),
        };
        answer.containers_to_signal = vec![signal; WRONG / 10];
    });
    // The right order among them is carried out.
    let completed = cluster.rm.wait_completed(id);
    assert_ne!(completed.exit_status, 0, "{completed:?}");
    cluster.rm.wait_heartbeats(2);
    let log = wait::until("the end of the lines", DEADLINE, || {
        let log = cluster.node.process.log();
        let is_told = log.contains("applications_to_cleanup");
        is_told.then_some(log).ok_or("the lists are not told yet")
    });
    let written = log.len() - before;
    assert!(written < LOG_MAX, "{written} bytes in the log");
    assert!(log.contains("and 999997 more"), "{}", &log[before..]);
    cluster.assert_serves();
}
