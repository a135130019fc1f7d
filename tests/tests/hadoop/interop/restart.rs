//! The ResourceManager is killed and restarted while containers run.

use tests::cluster::{JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::{Options, StateStore};
use tests::distributed_shell::ContainerType;
use tests::require;
use tests::rm::RmKind;

use crate::interop::processes::leaders;
use crate::interop::start_cluster;

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
