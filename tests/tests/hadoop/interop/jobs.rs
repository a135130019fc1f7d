//! Jobs that run to their end.

use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::rm::RmKind;
use tests::wait;

use crate::interop::start_cluster;

with_each_rm!(
    ten_guaranteed_containers_succeed,
    the_rm_counts_running_and_queued_opportunistic_containers_and_all_of_them_succeed,
);

fn ten_guaranteed_containers_succeed(rm: &RmKind) {
    let cluster = start_cluster(rm, 8, Options::default());
    let mut shell = cluster.submit("guaranteed", "sleep 1", 10, ContainerType::Guaranteed);
    let id = shell.application_id();
    shell.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&id).assert_succeeded(10);
    let application = cluster.rm.application(&id).unwrap();
    assert_eq!(application["state"], "FINISHED", "{application}");
    assert_eq!(application["finalStatus"], "SUCCEEDED", "{application}");
    assert_becomes_idle(&cluster);
}

fn the_rm_counts_running_and_queued_opportunistic_containers_and_all_of_them_succeed(rm: &RmKind) {
    // One slot for the ApplicationMaster, four containers at once, six wait.
    let cluster = start_cluster(rm, 5, Options::default());
    let gate = cluster.gate("gate");
    let command = format!("({PRINT_BEGIN}; {})", gate.wait_command());
    let mut shell = cluster.submit("opportunistic", &command, 10, ContainerType::Opportunistic);
    let id = shell.application_id();
    wait::until(
        "four running and six queued containers at the RM",
        STATE_DEADLINE,
        || {
            let node = cluster.node.at_rm(&cluster.rm)?;
            let counts = (
                &node["numRunningOpportContainers"],
                &node["numQueuedContainers"],
            );
            wait::check(counts.0 == 4 && counts.1 == 6, node.to_string())
        },
    );
    cluster.wait_begun(&id, 4);
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&id).assert_succeeded(10);
    assert_becomes_idle(&cluster);
}

/// Waits until nothing is left of any application, at the RM and at the node.
#[track_caller]
fn assert_becomes_idle(cluster: &Cluster) {
    wait::until("a node without containers", STATE_DEADLINE, || {
        let at_rm = cluster.node.at_rm(&cluster.rm)?;
        let at_node = cluster.node.containers()?;
        let counts = [
            "numContainers",
            "usedMemoryMB",
            "numRunningOpportContainers",
            "numQueuedContainers",
        ];
        wait::check(
            counts.iter().all(|count| at_rm[count] == 0) && at_node.is_empty(),
            format!("{at_rm}, {at_node:?}"),
        )
    });
}
