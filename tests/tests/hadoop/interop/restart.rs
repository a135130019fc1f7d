//! The ResourceManager is killed and restarted while containers run.

use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::{Options, StateStore};
use tests::distributed_shell::ContainerType;
use tests::rm::RmKind;
use tests::{proc, require};

use crate::interop::{is_of_application, start_cluster};

#[test]
fn containers_of_both_types_live_through_a_restart_of_the_rm() {
    require!(java, hadoop);
    let mut cluster = start_cluster(
        &RmKind::Hadoop,
        8,
        Options {
            state_store: StateStore::FileSystem,
            ..Options::default()
        },
    );
    let gate = cluster.gate("gate");
    let command = format!("({PRINT_BEGIN}; {})", gate.wait_command());
    let mut guaranteed = cluster.submit("guaranteed", &command, 3, ContainerType::Guaranteed);
    let mut opportunistic =
        cluster.submit("opportunistic", &command, 3, ContainerType::Opportunistic);
    let ids = [guaranteed.application_id(), opportunistic.application_id()];
    for id in &ids {
        cluster.wait_begun(id, 3);
        let _ = cluster.rm.wait_application(id, "RUNNING", STATE_DEADLINE);
    }
    let before: Vec<Vec<i32>> = ids.iter().map(|id| leaders(&cluster, id)).collect();

    cluster.rm.kill();
    cluster.rm.start_again(&cluster.lab);
    cluster
        .node
        .wait_state(&cluster.rm, "RUNNING", STATE_DEADLINE);
    for id in &ids {
        let _ = cluster.rm.wait_application(id, "RUNNING", STATE_DEADLINE);
    }
    let after: Vec<Vec<i32>> = ids.iter().map(|id| leaders(&cluster, id)).collect();
    assert_eq!(after, before, "containers were started again or ended");

    gate.open();
    for (id, shell) in ids.iter().zip([&mut guaranteed, &mut opportunistic]) {
        shell.assert_succeeds(JOB_DEADLINE);
        cluster.node.logs(id).assert_succeeded(3);
    }
}

/// Returns the process ids of an application's session leaders in ascending order: one per
/// container and as long-lived. Children of the waiting loop come and go.
fn leaders(cluster: &Cluster, application_id: &str) -> Vec<i32> {
    let containers = proc::containers(cluster.lab.folder()).into_iter();
    let mut pids: Vec<i32> = containers
        .filter(|process| {
            let id = process.container_id.as_ref();
            id.is_some_and(|id| is_of_application(id, application_id))
        })
        .map(|process| process.pid)
        .filter(|pid| proc::stat(*pid).is_some_and(|stat| stat.session == *pid))
        .collect();
    pids.sort_unstable();
    pids
}
