//! A second agent that is given the folders of another one.

use std::os::unix::fs::symlink;
use std::time::Duration;

use tests::node_process::{NodeProcess, node_kind};
use tests::scripted_cluster::ScriptedCluster;
use tests::{proc, wait};

use crate::AGENT;

/// Deadline for what takes an instant on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn an_agent_on_the_folders_of_another_one_is_refused_by_name_and_touches_nothing() {
    let cluster = ScriptedCluster::start(AGENT);
    let gate = cluster.gate("go");
    let id = cluster
        .am
        .run(&format!("echo here > note; {}", gate.then("cat note")));
    wait::until("the container's process", DEADLINE, || {
        let found = cluster.node.container_processes();
        found.first().map(|_| ()).ok_or("none")
    });
    // Another name of the same folder, and other ports.
    let other_name = cluster.node.folder().join("other-name");
    symlink(cluster.node.local_dir(), &other_name).unwrap();
    let rm_port = cluster.rm.address().port();
    let mut second = NodeProcess::start_toward(&node_kind(AGENT), rm_port, |site| {
        site.set("yarn.nodemanager.local-dirs", other_name.display());
    });
    let status = second.process.wait_exit(DEADLINE);
    let log = second.process.log();
    assert_eq!(status.code(), Some(1), "{log}");
    let refusal = format!(
        "{} cannot be used: another agent uses",
        other_name.display()
    );
    assert!(log.contains(&refusal), "{log}");
    gate.open();
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, 0, "{completed:?}");
    assert_eq!(proc::containers(second.folder()).len(), 0);
}

#[test]
fn an_agent_that_is_killed_leaves_its_folders_to_the_next_one() {
    let mut cluster = ScriptedCluster::start(AGENT);
    for registrations in 2..4 {
        cluster.node.process.kill();
        cluster.node.start_agent_again(AGENT.as_ref());
        cluster.rm.wait_registrations(registrations);
    }
}
