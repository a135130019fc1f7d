//! A container above its limits harms only itself.

use tests::wait;
use wire::proto::hadoop_yarn::ContainerSubStateProto::CssRunning;

use crate::stories::{DEADLINE, isolated};

const KILLED_EXCEEDED_PMEM: i32 = -104;

#[test]
fn a_container_that_eats_memory_is_killed_alone_and_reported_with_its_peak() {
    let test = "a_container_that_eats_memory_is_killed_alone_and_reported_with_its_peak";
    let Some(node) = isolated(test, |_| {}) else {
        return;
    };
    let am = &node.cluster.am;
    let gate = node.cluster.gate("go");
    let neighbours = [
        am.start(&am.allocate(), &gate.then("exit 3")),
        am.start(&am.allocate().opportunistic(), &gate.then("exit 4")),
    ];
    for id in neighbours {
        node.cluster.rm.wait_sub_state(id, CssRunning);
    }
    let eater = am.start(
        &am.allocate().opportunistic().memory_mb(64),
        "tail /dev/zero",
    );
    let ended = node.cluster.rm.wait_completed(eater);
    assert_eq!(ended.exit_status, KILLED_EXCEEDED_PMEM, "{ended:?}");
    for part in [
        &format!("containerID={eater}] is running 0B beyond the 'PHYSICAL' memory limit"),
        "Current usage: 64 MB of 64 MB physical memory used",
        "limit of 67108864 bytes; the most that it used was 67108864 bytes",
    ] {
        assert!(ended.diagnostics.contains(part), "{}", ended.diagnostics);
    }
    gate.open();
    for (id, status) in neighbours.into_iter().zip([3, 4]) {
        assert_eq!(node.cluster.rm.wait_completed(id).exit_status, status);
    }
}

#[test]
fn a_fork_bomb_stays_within_its_tasks_and_ends_with_its_container() {
    let test = "a_fork_bomb_stays_within_its_tasks_and_ends_with_its_container";
    let Some(node) = isolated(test, |site| {
        site.set("yarn.nodemanager.agent.cgroups.pids-max", 24);
    }) else {
        return;
    };
    let am = &node.cluster.am;
    // Each child leaves the session, so that neither a process group nor a session would find it.
    let bomb = "echo go > <LOG_DIR>/go; while :; do setsid sleep 1000 & done 2> /dev/null";
    let id = am.start(&am.allocate().opportunistic(), bomb);
    node.line(id, "go");
    wait::until("the bomb to fill its room", DEADLINE, || {
        let count = node.processes().len();
        assert!(count <= 24, "{count} processes");
        wait::check(count >= 20, format!("{count} processes"))
    });
    // Other containers still start.
    node.cluster.assert_serves();
    am.stop(id).unwrap();
    assert_eq!(node.cluster.rm.wait_completed(id).exit_status, -105);
    assert_eq!(node.processes().len(), 0);
}
