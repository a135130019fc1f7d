//! The agent is killed while many containers run and wait, and started again: what it took over,
//! and after which time it served again.
//!
//! `NM_AGENT_RESTART_CONTAINERS` is the number of containers, a fifth of which wait, and
//! `NM_AGENT_TEST_NODE` may name an agent as it is released. The times are printed, not judged:
//! `cargo test -p tests --test agent restart -- --nocapture`.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use records::ContainerId;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use test_support::{Allocation, LaunchContext};
use tests::node::NodeKind;
use tests::node_process::node_kind;
use tests::ports::Port;
use tests::samples::milliseconds;
use tests::scripted_cluster::ScriptedCluster;
use tests::{proc, wait};
use wire::proto::hadoop_yarn::ContainerStateProto::{CComplete, CRunning};
use wire::proto::hadoop_yarn::ContainerSubStateProto::{CssRunning, CssScheduled};
use wire::proto::hadoop_yarn::{
    ContainerStatusProto, ContainerSubStateProto, GetContainerStatusesRequestProto,
};
use wire::protocol::container_management::GetContainerStatuses;

use crate::AGENT;

/// Containers unless `NM_AGENT_RESTART_CONTAINERS` names a number.
const CONTAINERS: u64 = 50;

/// Number of containers of which one waits.
const WAITING_SHARE: u64 = 5;

/// Memory of each container, in MiB. The node has room for those that run.
const EACH_MB: u64 = 16;

/// Containers that are started in one call.
const BATCH: usize = 50;

/// Deadline for each step with all containers.
const DEADLINE: Duration = Duration::from_secs(120);

/// Pause between two attempts to reach the agent.
const CONNECT_POLL: Duration = Duration::from_millis(1);

#[test]
fn a_killed_agent_takes_over_all_containers_and_serves_again() {
    let count = std::env::var("NM_AGENT_RESTART_CONTAINERS").ok();
    let count = count.map_or(CONTAINERS, |text| text.parse().unwrap());
    let waiting_count = count / WAITING_SHARE;
    let running_count = count - waiting_count;
    let mut cluster = start_cluster(running_count, waiting_count);
    let gate = cluster.gate("gate");
    let order = cluster.node.folder().join("order");
    // The containers that wait take the room of the last one, one after the other.
    let mut running = start_all(&cluster.am, running_count - 1, false, |_| {
        "exec sleep 6000".to_owned()
    });
    running.extend(start_all(&cluster.am, 1, false, |_| gate.then("true")));
    wait_all(&cluster.rm, &running, CssRunning);
    let waiting = start_all(&cluster.am, waiting_count, true, |number| {
        format!("echo {number} >> '{}'", order.display())
    });
    wait_all(&cluster.rm, &waiting, CssScheduled);
    let before = processes(&cluster, &running);
    let all: Vec<ContainerId> = running.iter().chain(&waiting).copied().collect();

    let taken_over = restart(&mut cluster, &all);
    println!(
        "{running_count} containers ran and {waiting_count} waited: statuses of all answered {:.1} ms \
         after the start, registered with {} of them after {:.1} ms",
        milliseconds(taken_over.answered),
        taken_over.registered_count,
        milliseconds(taken_over.registered),
    );
    assert_eq!(taken_over.registered_count, all.len());
    assert_eq!(taken_over.statuses.len(), all.len());
    for status in &taken_over.statuses {
        assert_eq!(status.state(), CRunning, "{status:?}");
        let id = status.container_id.as_ref().unwrap();
        let id = ContainerId::try_from(id).unwrap();
        let is_waiting = status.container_sub_state() == CssScheduled;
        assert_eq!(is_waiting, waiting.contains(&id), "{status:?}");
    }
    assert_eq!(processes(&cluster, &running), before, "the same processes");

    gate.open();
    for id in &waiting {
        let completed = cluster.rm.wait_completed(*id);
        assert_eq!(completed.exit_status, 0, "{completed:?}");
    }
    let expected: String = (0..waiting_count)
        .map(|number| format!("{number}\n"))
        .collect();
    assert_eq!(fs::read_to_string(order).unwrap(), expected);
}

#[test]
fn cached_files_outlive_a_killed_agent_unless_somebody_has_changed_them() {
    let mut cluster = start_cluster(1, 0);
    let sources = ["kept", "changed"].map(|name| {
        let source = cluster.node.folder().join(name);
        fs::write(&source, format!("content of {name}")).unwrap();
        source
    });
    let [kept, changed] = localized(&cluster, &sources);

    cluster.node.process.kill();
    fs::write(&changed.path, "content of somebody").unwrap();
    cluster.node.start_agent_again(&program());
    cluster.rm.wait_registrations(2);
    // Before its first heartbeat the node may not have read the answer, and starts nothing.
    cluster.rm.wait_heartbeats(1);
    wait_connected(&cluster.rm, &mut cluster.am);

    let [still_kept, again] = localized(&cluster, &sources);
    assert_eq!(still_kept, kept, "not downloaded again");
    assert_eq!(kept.content, "content of kept");
    assert_ne!(again.path, changed.path);
    assert_eq!(again.content, "content of changed");
}

/// A localized file as a container sees it.
#[derive(Debug, PartialEq, Eq)]
struct Localized {
    path: PathBuf,
    /// Inode, and the time of the last change, which nobody can set.
    identity: String,
    content: String,
}

/// Runs a container to which these files are localized, and returns what it sees.
fn localized<const COUNT: usize>(
    cluster: &ScriptedCluster,
    sources: &[PathBuf; COUNT],
) -> [Localized; COUNT] {
    let links = || (0..).map(|number| format!("link-{number}")).zip(sources);
    let see = links().map(|(link, _)| {
        format!("readlink -f {link}; stat -L -c '%i %z' {link}; cat {link}; echo")
    });
    let see = see.collect::<Vec<_>>().join("; ");
    let context = LaunchContext::command(&format!("exec > <LOG_DIR>/seen; {see}"));
    let context = links().fold(context, |context, (link, source)| {
        context.file(&link, source)
    });
    let allocation = cluster.am.allocate().memory_mb(EACH_MB);
    let id = allocation.id;
    cluster.am.start_all(vec![(allocation, context)]).unwrap();
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, 0, "{completed:?}");
    let seen = cluster.log(id, "seen");
    let lines: Vec<&str> = seen.lines().collect();
    std::array::from_fn(|number| match &lines[number * 3..number * 3 + 3] {
        [path, identity, content] => Localized {
            path: PathBuf::from(path),
            identity: (*identity).to_owned(),
            content: (*content).to_owned(),
        },
        other => panic!("{other:?}"),
    })
}

fn start_cluster(running: u64, waiting: u64) -> ScriptedCluster {
    let port = Port::reserve().release();
    let cluster = ScriptedCluster::start_with(AGENT, |site| {
        let queue = "yarn.nodemanager.opportunistic-containers-max-queue-length";
        site.set("yarn.nodemanager.recovery.enabled", true)
            .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"))
            .set("yarn.nodemanager.resource.memory-mb", running * EACH_MB)
            .set("yarn.nodemanager.resource.cpu-vcores", running + waiting)
            .set(queue, waiting);
    });
    cluster.rm.with(|tracker| tracker.acknowledge_all = true);
    cluster
}

/// Starts containers in their order; `command` gets the number of each.
fn start_all(
    am: &ScriptedAm,
    count: u64,
    is_opportunistic: bool,
    command: impl Fn(u64) -> String,
) -> Vec<ContainerId> {
    let requests: Vec<(Allocation, LaunchContext)> = (0..count)
        .map(|number| {
            let allocation = am.allocate().memory_mb(EACH_MB);
            let allocation = if is_opportunistic {
                allocation.opportunistic()
            } else {
                allocation
            };
            (allocation, LaunchContext::command(&command(number)))
        })
        .collect();
    let ids = requests
        .iter()
        .map(|(allocation, _)| allocation.id)
        .collect();
    let mut requests = requests.into_iter().peekable();
    while requests.peek().is_some() {
        am.start_all(requests.by_ref().take(BATCH).collect())
            .unwrap();
    }
    ids
}

fn wait_all(rm: &ScriptedRm, ids: &[ContainerId], sub_state: ContainerSubStateProto) {
    wait::until(format!("all are {sub_state:?}"), DEADLINE, || {
        let others = rm.with(|tracker| {
            let is_there = |id: &&ContainerId| {
                let status = tracker.status(**id);
                status.is_some_and(|status| status.container_sub_state() == sub_state)
            };
            ids.len() - ids.iter().filter(is_there).count()
        });
        wait::check(others == 0, format!("{others} are not"))
    });
}

/// Returns the session leaders of these containers.
fn processes(cluster: &ScriptedCluster, ids: &[ContainerId]) -> BTreeMap<String, i32> {
    let found: BTreeMap<String, i32> = cluster
        .node
        .container_processes()
        .into_iter()
        .filter(|found| proc::stat(found.pid).is_some_and(|stat| stat.session == found.pid))
        .filter_map(|found| Some((found.container_id?, found.pid)))
        .collect();
    assert_eq!(found.len(), ids.len(), "a leader for each that runs");
    found
}

/// Knowledge of an agent that was started again, and since when it has it.
struct TakenOver {
    /// Time from the start of the process to the answer with all statuses.
    answered: Duration,
    statuses: Vec<ContainerStatusProto>,
    /// Time from the start of the process to the registration.
    registered: Duration,
    /// Containers that have not ended, according to the registration.
    registered_count: usize,
}

/// Kills the agent with SIGKILL, starts it again, and asks it for all containers as soon as it
/// answers.
fn restart(cluster: &mut ScriptedCluster, ids: &[ContainerId]) -> TakenOver {
    cluster.node.process.kill();
    cluster.node.start_agent_again(&program());
    let began = cluster.node.started_at;
    let (rm, am) = (&cluster.rm, &mut cluster.am);
    std::thread::scope(|scope| {
        let registering = scope.spawn(|| {
            let request = rm.wait_registrations(2);
            (Instant::now(), request)
        });
        wait_connected(rm, am);
        let request = GetContainerStatusesRequestProto {
            container_id: ids.iter().map(|id| (*id).into()).collect(),
        };
        let call = am.client().call::<GetContainerStatuses>(&request);
        let response = rm.runtime().block_on(call).unwrap();
        let answered = began.elapsed();
        assert!(response.failed_requests.is_empty(), "{response:?}");
        let (at, request) = registering.join().unwrap();
        let known = request.container_statuses.iter();
        TakenOver {
            answered,
            statuses: response.status,
            registered: at - began,
            registered_count: known
                .filter(|status| status.container_state() != CComplete)
                .count(),
        }
    })
}

fn wait_connected(rm: &ScriptedRm, am: &mut ScriptedAm) {
    let began = Instant::now();
    while let Err(error) = am.reconnect(rm) {
        assert!(began.elapsed() < DEADLINE, "{error}");
        std::thread::sleep(CONNECT_POLL);
    }
}

/// Returns the program that runs as the node.
fn program() -> PathBuf {
    match node_kind(AGENT) {
        NodeKind::Agent(program) => program,
        NodeKind::Java | NodeKind::MeasuredJava => Path::new(AGENT).to_owned(),
    }
}
