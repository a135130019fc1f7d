//! Opportunistic containers: which of them wait, start first and are preempted. The node has 1024
//! MiB.

use std::fs;

use records::{ContainerId, ExecutionType};
use test_support::Allocation;
use tests::gate::Gate;
use tests::scripted_cluster::ScriptedCluster;
use wire::proto::hadoop_yarn::ContainerQueuingLimitProto;
use wire::proto::hadoop_yarn::ContainerSubStateProto::{CssRunning, CssScheduled};

use crate::contract::{cluster, cluster_with};

/// Memory of the node, in MiB.
const NODE_MB: u64 = 1024;

/// Exit status of a preempted container (Hadoop:
/// `ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER`).
const KILLED_BY_CONTAINER_SCHEDULER: i32 = -108;

/// Starts a container that runs until the gate is open, and waits until it runs.
fn running(cluster: &ScriptedCluster, allocation: &Allocation, gate: &Gate) -> ContainerId {
    let id = cluster.am.start(allocation, &gate.then("true"));
    cluster.rm.wait_sub_state(id, CssRunning);
    id
}

/// Starts a container that does not fit, and waits until it is queued.
fn queued(cluster: &ScriptedCluster, allocation: &Allocation, command: &str) -> ContainerId {
    let id = cluster.am.start(allocation, command);
    cluster.rm.wait_sub_state(id, CssScheduled);
    id
}

fn opportunistic(cluster: &ScriptedCluster, memory_mb: u64) -> Allocation {
    cluster.am.allocate().opportunistic().memory_mb(memory_mb)
}

fn guaranteed(cluster: &ScriptedCluster, memory_mb: u64) -> Allocation {
    cluster.am.allocate().memory_mb(memory_mb)
}

#[track_caller]
fn killed_by_scheduler(cluster: &ScriptedCluster, id: ContainerId, why: &str) {
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(
        completed.exit_status, KILLED_BY_CONTAINER_SCHEDULER,
        "{completed:?}"
    );
    assert!(completed.diagnostics.contains(why), "{completed:?}");
}

#[track_caller]
fn succeeds(cluster: &ScriptedCluster, id: ContainerId) {
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, 0, "{completed:?}");
}

#[test]
fn opportunistic_containers_wait_for_room_and_start_in_their_order() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let order = cluster.node.folder().join("order");
    let first = running(&cluster, &guaranteed(&cluster, NODE_MB), &gate);
    let waiting: Vec<ContainerId> = (1..=4)
        .map(|number| {
            let command = format!("echo {number} >> '{}'", order.display());
            queued(&cluster, &opportunistic(&cluster, NODE_MB), &command)
        })
        .collect();
    gate.open();
    succeeds(&cluster, first);
    for id in waiting {
        succeeds(&cluster, id);
    }
    assert_eq!(fs::read_to_string(order).unwrap(), "1\n2\n3\n4\n");
}

#[test]
fn a_guaranteed_container_takes_the_place_of_the_newest_opportunistic_ones() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let ids: Vec<ContainerId> = (0..4)
        .map(|_| running(&cluster, &opportunistic(&cluster, NODE_MB / 4), &gate))
        .collect();
    let in_between = cluster.am.start(&guaranteed(&cluster, NODE_MB / 2), "true");
    for id in &ids[2..] {
        killed_by_scheduler(&cluster, *id, "make room for Guaranteed Container");
    }
    succeeds(&cluster, in_between);
    gate.open();
    for id in &ids[..2] {
        succeeds(&cluster, *id);
    }
}

#[test]
fn a_promoted_container_is_no_longer_evicted() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let older = running(&cluster, &opportunistic(&cluster, NODE_MB / 2), &gate);
    let mut newer = opportunistic(&cluster, NODE_MB / 2);
    let promoted = running(&cluster, &newer, &gate);
    newer.version = 1;
    newer.execution_type = ExecutionType::Guaranteed;
    cluster.am.update(&newer).unwrap();
    let in_between = cluster.am.start(&guaranteed(&cluster, NODE_MB / 2), "true");
    killed_by_scheduler(&cluster, older, "make room for Guaranteed Container");
    succeeds(&cluster, in_between);
    gate.open();
    succeeds(&cluster, promoted);
}

#[test]
fn a_container_promoted_in_the_queue_starts_before_older_opportunistic_ones() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let order = cluster.node.folder().join("order");
    let blocking = running(&cluster, &guaranteed(&cluster, NODE_MB), &gate);
    let write = |word: &str| format!("echo {word} >> '{}'", order.display());
    let older = queued(&cluster, &opportunistic(&cluster, NODE_MB), &write("older"));
    let mut promoted = opportunistic(&cluster, NODE_MB);
    let newer = queued(&cluster, &promoted, &write("newer"));
    promoted.version = 1;
    promoted.execution_type = ExecutionType::Guaranteed;
    cluster.am.update(&promoted).unwrap();
    gate.open();
    for id in [blocking, older, newer] {
        succeeds(&cluster, id);
    }
    assert_eq!(fs::read_to_string(order).unwrap(), "newer\nolder\n");
}

#[test]
fn the_newest_waiting_containers_are_shed_to_the_resource_managers_limit() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let blocking = running(&cluster, &guaranteed(&cluster, NODE_MB), &gate);
    let waiting: Vec<ContainerId> = (0..4)
        .map(|_| queued(&cluster, &opportunistic(&cluster, NODE_MB), "true"))
        .collect();
    cluster.rm.order_queuing_limit(2);
    for id in &waiting[2..] {
        killed_by_scheduler(&cluster, *id, "De-queued to meet NM queuing limits");
    }
    gate.open();
    succeeds(&cluster, blocking);
    for id in &waiting[..2] {
        succeeds(&cluster, *id);
    }
}

#[test]
fn an_opportunistic_container_beyond_the_queues_length_is_turned_away() {
    let cluster = cluster_with(|site| {
        let length = "yarn.nodemanager.opportunistic-containers-max-queue-length";
        site.set(length, 1);
    });
    let gate = cluster.gate("gate");
    let blocking = running(&cluster, &guaranteed(&cluster, NODE_MB), &gate);
    let waiting = queued(&cluster, &opportunistic(&cluster, 128), "true");
    let late = cluster.am.start(&opportunistic(&cluster, 128), "true");
    killed_by_scheduler(&cluster, late, "Opportunistic container queue is full.");
    gate.open();
    for id in [blocking, waiting] {
        succeeds(&cluster, id);
    }
}

#[test]
fn a_waiting_container_that_is_stopped_never_runs() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let ran = cluster.node.folder().join("ran");
    let blocking = running(&cluster, &guaranteed(&cluster, NODE_MB), &gate);
    let command = format!("touch '{}'", ran.display());
    let waiting = queued(&cluster, &opportunistic(&cluster, NODE_MB), &command);
    cluster.am.stop(waiting).unwrap();
    assert_eq!(cluster.rm.wait_completed(waiting).exit_status, -105);
    gate.open();
    succeeds(&cluster, blocking);
    cluster.assert_serves();
    assert!(!ran.exists());
}

#[test]
fn the_numbers_of_opportunistic_containers_follow_the_heartbeats() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let ids = [
        running(&cluster, &opportunistic(&cluster, NODE_MB / 2), &gate),
        running(&cluster, &opportunistic(&cluster, NODE_MB / 2), &gate),
        queued(&cluster, &opportunistic(&cluster, NODE_MB), "true"),
    ];
    let numbers = |running: i32, queued: i32, memory_gb: i64| {
        cluster.rm.wait(format!("{running} running"), |tracker| {
            let last = tracker.heartbeats.back()?;
            let status = last.opportunistic_containers_status.as_ref()?;
            let found = (
                status.running_opport_containers(),
                status.queued_opport_containers(),
                status.opport_memory_used(),
            );
            (found == (running, queued, memory_gb)).then_some(())
        });
    };
    numbers(2, 1, 1);
    gate.open();
    for id in ids {
        succeeds(&cluster, id);
    }
    numbers(0, 0, 0);
}

#[test]
fn heartbeats_tell_the_wait_and_a_limit_of_it_sheds_nothing() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let wait_for = |what: &str, is_right: fn(i32) -> bool| {
        cluster.rm.wait(what.to_owned(), |tracker| {
            let last = tracker.heartbeats.back()?;
            let status = last.opportunistic_containers_status.as_ref()?;
            is_right(status.estimated_queue_wait_time()).then_some(())
        });
    };
    wait_for("an estimate of no wait", |wait_ms| wait_ms == 0);
    let blocking = running(&cluster, &guaranteed(&cluster, NODE_MB), &gate);
    let waiting: Vec<ContainerId> = (0..3)
        .map(|_| queued(&cluster, &opportunistic(&cluster, NODE_MB), "true"))
        .collect();
    // A node that has seen no container end estimates a minute for each.
    wait_for("an estimate of minutes", |wait_ms| wait_ms > 180_000);
    cluster.rm.order(|response| {
        response.container_queuing_limit = Some(ContainerQueuingLimitProto {
            max_queue_length: Some(2),
            max_queue_wait_time_in_ms: Some(90_000),
        });
    });
    // For the length of the queue; the second would wait for two minutes.
    killed_by_scheduler(&cluster, waiting[2], "De-queued to meet NM queuing limits");
    gate.open();
    succeeds(&cluster, blocking);
    for id in &waiting[..2] {
        succeeds(&cluster, *id);
    }
}
