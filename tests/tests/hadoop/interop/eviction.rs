//! Guaranteed containers preempt opportunistic ones, the newest first, and no promoted ones.

use std::collections::BTreeSet;
use std::time::Duration;

use tests::client::ShellApplication;
use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::rm::RmKind;
use tests::wait;

use crate::interop::{is_of_application, start_cluster};

with_each_rm!(
    a_guaranteed_container_evicts_the_newest_opportunistic_ones_and_starts_within_a_second,
    promoted_containers_survive_an_eviction,
);

/// Exit status of a preempted container (Hadoop:
/// `ContainerExitStatus.KILLED_BY_CONTAINER_SCHEDULER`).
const KILLED_BY_CONTAINER_SCHEDULER: i32 = -108;

/// Limit of the time from the RM's record of the ordered start of a guaranteed container to the
/// first instruction of its command.
const START_DEADLINE_MS: i64 = 1000;

/// Submits an application of one guaranteed container of two slots and waits for its first
/// instruction. Returns its id and the time since the order, in milliseconds; negative when the RM
/// recorded the order later.
fn start_guaranteed(cluster: &Cluster, command: &str) -> (String, i64) {
    let application = ShellApplication {
        command,
        memory_mb: 2 * SLOT_MB,
    };
    let id = application.submit(&cluster.lab);
    cluster.wait_begun(&id, 1);
    let begun_ns = cluster
        .node
        .logs(&id)
        .first_lines()
        .into_values()
        .next()
        .expect("one has begun");
    let launched_ms = wait::until("the RM's launch time", STATE_DEADLINE, || {
        let application = cluster.rm.application(&id)?;
        application["launchTime"]
            .as_i64()
            .filter(|time| *time > 0)
            .ok_or_else(|| application.to_string())
    });
    (
        id,
        i64::try_from(begun_ns / 1_000_000).expect("a time in milliseconds is small") - launched_ms,
    )
}

/// Returns the containers that an application's ApplicationMaster saw killed by the container
/// scheduler.
fn evicted(cluster: &Cluster, application_id: &str) -> BTreeSet<String> {
    let statuses = cluster.node.logs(application_id).exit_statuses();
    let evicted = statuses
        .into_iter()
        .filter(|(_, status)| *status == KILLED_BY_CONTAINER_SCHEDULER);
    evicted.map(|(id, _)| id).collect()
}

#[track_caller]
fn wait_evicted(cluster: &Cluster, application_id: &str, count: usize) -> BTreeSet<String> {
    wait::until(
        format!("{count} evicted containers"),
        STATE_DEADLINE,
        || {
            let evicted = evicted(cluster, application_id);
            if evicted.len() >= count {
                Ok(evicted)
            } else {
                Err(format!("{evicted:?}"))
            }
        },
    )
}

fn a_guaranteed_container_evicts_the_newest_opportunistic_ones_and_starts_within_a_second(
    rm: &RmKind,
) {
    // One slot for the ApplicationMaster and five for opportunistic containers.
    let cluster = start_cluster(rm, 6, Options::default());
    let (first, last) = (cluster.gate("first"), cluster.gate("last"));
    // Two of the five that start first end when the first gate opens; the two queued ones start in
    // their place and are then the newest.
    let leaver = cluster.lab.folder().join("leaver");
    let command = format!(
        "({PRINT_BEGIN}; if mkdir {leaver}1 || mkdir {leaver}2; then {}; else {}; fi)",
        first.wait_command(),
        last.wait_command(),
        leaver = leaver.display(),
    );
    let mut shell = cluster.submit("opportunistic", &command, 7, ContainerType::Opportunistic);
    let opportunistic = shell.application_id();
    cluster.wait_begun(&opportunistic, 5);
    let old: BTreeSet<String> = cluster
        .node
        .logs(&opportunistic)
        .first_lines()
        .into_keys()
        .collect();
    first.open();
    cluster.wait_begun(&opportunistic, 7);
    let all: BTreeSet<String> = cluster
        .node
        .logs(&opportunistic)
        .first_lines()
        .into_keys()
        .collect();

    let command = format!("({PRINT_BEGIN}; {})", last.wait_command());
    let (_, start_ms) = start_guaranteed(&cluster, &command);
    let evicted = wait_evicted(&cluster, &opportunistic, 2);
    assert_eq!(evicted, &all - &old, "not the two newest");
    assert!(start_ms < START_DEADLINE_MS, "started after {start_ms} ms");

    // The others succeed.
    last.open();
    let _ = shell.outcome(JOB_DEADLINE);
    let statuses = cluster.node.logs(&opportunistic).exit_statuses();
    let well: BTreeSet<String> = statuses
        .into_iter()
        .filter(|(_, status)| *status == 0)
        .map(|(id, _)| id)
        .collect();
    assert_eq!(well, old);
}

fn promoted_containers_survive_an_eviction(rm: &RmKind) {
    // Two ApplicationMasters, two promoted containers and three opportunistic ones fill the node.
    let cluster = start_cluster(rm, 7, Options::default());
    let gate = cluster.gate("gate");
    let command = format!("({PRINT_BEGIN}; {})", gate.wait_command());
    let mut promoted = cluster.submit(
        "promoted",
        &command,
        2,
        ContainerType::OpportunisticThenPromoted,
    );
    let promoted_id = promoted.application_id();
    cluster.wait_begun(&promoted_id, 2);
    wait::until(
        "two promoted containers at the node",
        STATE_DEADLINE,
        || {
            let containers = cluster.node.containers()?;
            let mine = containers.iter().filter(|container| {
                let id = container["id"].as_str();
                id.is_some_and(|id| is_of_application(id, &promoted_id))
            });
            let guaranteed = mine
                .filter(|container| container["executionType"] == "GUARANTEED")
                .count();
            let at_rm = cluster.node.at_rm(&cluster.rm)?;
            // The ApplicationMaster is the third.
            wait::check(
                guaranteed == 3 && at_rm["usedMemoryMB"] == 3 * SLOT_MB,
                format!("{at_rm}, {containers:?}"),
            )
        },
    );

    let mut opportunistic =
        cluster.submit("opportunistic", &command, 3, ContainerType::Opportunistic);
    let opportunistic_id = opportunistic.application_id();
    cluster.wait_begun(&opportunistic_id, 3);
    let _ = start_guaranteed(&cluster, &command);
    let evicted = wait_evicted(&cluster, &opportunistic_id, 2);
    assert_eq!(evicted.len(), 2, "{evicted:?}");

    gate.open();
    promoted.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&promoted_id).assert_succeeded(2);
    let _ = opportunistic.outcome(Duration::from_secs(60));
}
