//! Jobs run to their end.

use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::{require, wait};

use crate::{Cluster, JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};

#[test]
fn ten_guaranteed_containers_succeed() {
    require!(java, hadoop);
    let cluster = Cluster::start(8, Options::default());
    let mut shell = cluster.submit("guaranteed", "sleep 1", 10, ContainerType::Guaranteed);
    let id = shell.application_id();
    let outcome = shell.outcome(JOB_DEADLINE);
    assert!(outcome.succeeded, "{}", outcome.log);
    let statuses = cluster.node.logs(&id).exit_statuses_of_used();
    assert_eq!(statuses.len(), 10, "{statuses:?}");
    assert!(
        statuses.iter().all(|(_, status)| *status == 0),
        "{statuses:?}"
    );
}

#[test]
fn the_rm_counts_running_and_queued_opportunistic_containers_and_all_of_them_succeed() {
    require!(java, hadoop);
    // One slot for the ApplicationMaster, four containers at once, six wait.
    let cluster = Cluster::start(5, Options::default());
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
    let outcome = shell.outcome(JOB_DEADLINE);
    assert!(outcome.succeeded, "{}", outcome.log);
    let statuses = cluster.node.logs(&id).exit_statuses_of_used();
    assert_eq!(statuses.len(), 10, "{statuses:?}");
    assert!(
        statuses.iter().all(|(_, status)| *status == 0),
        "{statuses:?}"
    );
    wait::until(
        "no opportunistic container left at the RM",
        STATE_DEADLINE,
        || {
            let node = cluster.node.at_rm(&cluster.rm)?;
            let counts = (
                &node["numRunningOpportContainers"],
                &node["numQueuedContainers"],
            );
            wait::check(counts.0 == 0 && counts.1 == 0, node.to_string())
        },
    );
}
