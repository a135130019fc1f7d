//! The node is killed and started again while containers run and wait.

use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::rm::RmKind;
use tests::{proc, require, wait};

use crate::interop::processes::{leaders, note_start, started_once, wait_empty};
use crate::interop::{node_kind, start_cluster};

/// Both ApplicationMasters, two guaranteed containers and one opportunistic one.
const SLOTS: u32 = 5;

#[test]
fn containers_that_run_and_wait_live_through_a_killed_node() {
    require!(java, hadoop);
    let options = Options::default().with("yarn.nodemanager.recovery.enabled", true);
    let mut cluster = start_cluster(&RmKind::Hadoop, SLOTS, options);
    let (gate, ends_meanwhile) = (cluster.gate("gate"), cluster.gate("meanwhile"));
    let begun = cluster.lab.folder().join("begun");
    // A container that is started twice writes two lines.
    let note = note_start(&begun);
    let guaranteed = format!("({PRINT_BEGIN}; {note}; {})", gate.wait_command());
    let opportunistic = format!("({PRINT_BEGIN}; {note}; {})", ends_meanwhile.wait_command());
    let mut first = cluster.submit("guaranteed", &guaranteed, 2, ContainerType::Guaranteed);
    cluster.wait_begun(&first.application_id(), 2);
    let mut second = cluster.submit(
        "opportunistic",
        &opportunistic,
        3,
        ContainerType::Opportunistic,
    );
    let ids = [first.application_id(), second.application_id()];
    cluster.wait_begun(&ids[1], 1);
    wait_queued(&cluster, 2);
    let before: Vec<Vec<i32>> = ids.iter().map(|id| leaders(&cluster, id)).collect();
    assert_eq!(before.iter().map(Vec::len).sum::<usize>(), 5, "{before:?}");

    cluster.node.process.kill();
    // The one that runs ends while nobody is there to see it.
    ends_meanwhile.open();
    let running = *before[1].last().unwrap();
    wait::until("the end of a container", STATE_DEADLINE, || {
        let state = proc::stat(running);
        let has_ended = state.as_ref().is_none_or(|stat| stat.state == 'Z');
        wait::check(has_ended, format!("{state:?}"))
    });
    cluster.node.start_again(&node_kind());
    cluster
        .node
        .wait_state(&cluster.rm, "RUNNING", STATE_DEADLINE);
    // The other two wait no longer, and end at once.
    second.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&ids[1]).assert_succeeded(3);
    assert_eq!(leaders(&cluster, &ids[0]), before[0], "they run on");
    gate.open();
    first.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&ids[0]).assert_succeeded(2);
    assert_eq!(started_once(&begun), 5);
    wait_empty(&cluster);
}

#[test]
fn a_master_behind_the_proxy_goes_on_over_a_killed_node() {
    require!(java, hadoop);
    let options = Options::default()
        .with("yarn.nodemanager.recovery.enabled", true)
        .with("yarn.nodemanager.amrmproxy.enabled", true)
        .with("yarn.nodemanager.distributed-scheduling.enabled", true);
    let mut cluster = start_cluster(&RmKind::Hadoop, SLOTS, options);
    let gate = cluster.gate("gate");
    let command = format!("({PRINT_BEGIN}; {})", gate.wait_command());
    let mut shell = cluster.submit("proxied", &command, 6, ContainerType::Opportunistic);
    let id = shell.application_id();
    // As many as there are places beside the master; two wait.
    cluster.wait_begun(&id, 4);
    let master = leaders(&cluster, &id)[0];
    cluster.node.process.kill();
    cluster.node.start_again(&node_kind());
    cluster
        .node
        .wait_state(&cluster.rm, "RUNNING", STATE_DEADLINE);
    assert_eq!(leaders(&cluster, &id)[0], master, "the same master");
    wait::until("its calls", STATE_DEADLINE, || {
        let series = "nm_agent_amrmproxy_calls_total{method=\"allocate\",outcome=\"ok\"}";
        let calls = cluster.node.metric(series)?;
        wait::check(calls >= 2.0, calls.to_string())
    });
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&id).assert_succeeded(6);
    assert_eq!(cluster.rm.attempts(&id).unwrap().len(), 1);
}

/// Waits until this many opportunistic containers wait on the node.
#[track_caller]
fn wait_queued(cluster: &Cluster, queued: u32) {
    wait::until(format!("{queued} queued"), STATE_DEADLINE, || {
        let node = cluster.node.at_rm(&cluster.rm)?;
        wait::check(node["numQueuedContainers"] == queued, node.to_string())
    });
}
