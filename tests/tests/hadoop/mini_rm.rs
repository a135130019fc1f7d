//! `nm-agent rm` with Hadoop's own NodeManager and clients.

use std::time::Duration;

use tests::cluster::{Cluster, JOB_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::node::NodeKind;
use tests::rm::RmKind;
use tests::{require, wait};

use crate::AGENT;

/// Runs five containers on a node with capacity for three beside the master.
#[track_caller]
fn assert_runs_five(cluster: &Cluster, name: &str, container_type: ContainerType) {
    let mut shell = cluster.submit(name, "true", 5, container_type);
    let id = shell.application_id();
    shell.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&id).assert_succeeded(5);
    let application = cluster
        .rm
        .application(&id)
        .expect("the application is known");
    assert_eq!(application["state"], "FINISHED", "{application}");
    assert_eq!(application["finalStatus"], "SUCCEEDED", "{application}");
}

/// Waits until nothing is left of any application.
#[track_caller]
fn assert_becomes_idle(cluster: &Cluster) {
    wait::until("a node without containers", JOB_DEADLINE, || {
        let at_rm = cluster.node.at_rm(&cluster.rm)?;
        let at_node = cluster.node.containers()?;
        wait::check(
            at_rm["numContainers"] == 0 && at_rm["usedMemoryMB"] == 0 && at_node.is_empty(),
            format!("{at_rm}, {at_node:?}"),
        )
    });
}

#[test]
fn a_java_node_runs_an_application_and_a_killed_one_leaves_nothing_on_it() {
    require!(java, hadoop);
    let rm = RmKind::Mini(AGENT.into());
    let cluster = Cluster::start(&rm, &NodeKind::Java, 4, Options::default());
    assert_runs_five(&cluster, "guaranteed", ContainerType::Guaranteed);
    let mut shell = cluster.submit("killed", "sleep 1000", 5, ContainerType::Guaranteed);
    let id = shell.application_id();
    cluster
        .rm
        .wait_application(&id, "RUNNING", Duration::from_secs(60));
    cluster.rm.kill_application(&cluster.lab, &id);
    let outcome = shell.outcome(JOB_DEADLINE);
    assert!(!outcome.succeeded, "{}", outcome.log);
    assert_becomes_idle(&cluster);
}
