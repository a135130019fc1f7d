//! Launch contexts that ask for a runtime that the node does not have. The node of this module runs
//! containers as its own user; with users of their own they are in [`crate::users`].

use std::time::Duration;

use records::ContainerId;
use test_support::LaunchContext;
use tests::scripted_cluster::ScriptedCluster;
use tests::wait;

use crate::bad_input::cluster;

/// Deadline for a line of the log, on a machine that is busy building.
const DEADLINE: Duration = Duration::from_secs(60);

fn run(cluster: &ScriptedCluster, runtime: &str) -> ContainerId {
    let context = LaunchContext::command("true").env("YARN_CONTAINER_RUNTIME_TYPE", runtime);
    let started = cluster.am.try_start(&cluster.am.allocate(), context);
    let id = started.unwrap();
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, 0, "{completed:?}");
    id
}

#[test]
fn a_runtime_that_is_ignored_is_told_once_for_an_application() {
    let cluster = cluster();
    run(&cluster, "default");
    let id = run(&cluster, "docker");
    run(&cluster, "runc");
    let application = id.application_id().to_string();
    let lines = || {
        let log = cluster.node.process.log();
        let lines = log.lines().filter(|line| {
            line.contains("YARN_CONTAINER_RUNTIME_TYPE is ") && line.contains(&application)
        });
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    wait::until("a warning", DEADLINE, || match lines().as_slice() {
        [] => Err("none"),
        _ => Ok(()),
    });
    let lines = lines();
    assert!(lines.len() == 1 && lines[0].contains("docker"), "{lines:?}");
}
