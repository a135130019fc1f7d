//! An orderly stop of the node.

use std::time::{Duration, Instant};

use tests::cluster::{PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::node::NodeKind;
use tests::rm::RmKind;
use tests::{proc, wait};

use crate::interop::{node_kind, start_cluster};

with_each_rm!(a_terminated_node_leaves_nothing_behind_and_is_shut_down_at_the_rm,);

/// Limit: the default delays before SIGKILL (250 ms) and for the end of a killed process (5 s), and
/// the second that Hadoop adds; and as much again for a busy machine.
const STOP_DEADLINE: Duration = Duration::from_millis(2 * (250 + 5000 + 1000));

/// Time that the Java NodeManager takes whatever the delays.
const JAVA_STOP_DEADLINE: Duration = Duration::from_secs(60);

fn a_terminated_node_leaves_nothing_behind_and_is_shut_down_at_the_rm(rm: &RmKind) {
    let mut cluster = start_cluster(rm, 8, Options::default());
    // The container ignores SIGTERM.
    let command = format!("(trap '' TERM; {PRINT_BEGIN}; sleep 300)");
    let mut guaranteed = cluster.submit("guaranteed", &command, 2, ContainerType::Guaranteed);
    let mut opportunistic =
        cluster.submit("opportunistic", &command, 2, ContainerType::Opportunistic);
    for id in [guaranteed.application_id(), opportunistic.application_id()] {
        cluster.wait_begun(&id, 2);
    }

    let begin = Instant::now();
    cluster.node.process.terminate();
    let deadline = if node_kind() == NodeKind::Java {
        JAVA_STOP_DEADLINE
    } else {
        STOP_DEADLINE
    };
    let status = cluster.node.process.wait_exit(deadline);
    if node_kind() != NodeKind::Java {
        assert!(status.success(), "{status} after {:?}", begin.elapsed());
    }
    wait::until(
        "the end of all that the node started",
        deadline.saturating_sub(begin.elapsed()),
        || {
            let left = proc::mentioning(&cluster.node.site.folder);
            wait::check(left.is_empty(), format!("{left:?}")).map(drop)
        },
    );
    cluster
        .node
        .wait_state(&cluster.rm, "SHUTDOWN", STATE_DEADLINE);
}
