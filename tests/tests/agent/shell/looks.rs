//! Opportunistic containers that a node places after looks at nodes, which come and fill up.

use std::process::Command;

use tests::conf::{self, Properties};
use tests::ports::Port;
use tests::process::Process;
use tests::{http, wait};

use crate::AGENT;
use crate::shell::cluster::{Cluster, DEADLINE, ended, row};

/// Containers that may wait on a node, by the ResourceManager's limit.
const QUEUE: u32 = 1;

/// Returns a series of the first node's metrics; 0 if it is not there.
pub(super) fn series(cluster: &Cluster, name: &str) -> Result<f64, String> {
    let text = http::get(&cluster.node_url(0, "metrics"))?.body;
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let value = lines.filter_map(|value| value.trim().parse().ok()).next();
    Ok(value.unwrap_or(0.0))
}

pub(super) const PLACEMENT: &str = "yarn.nodemanager.agent.amrmproxy.placement";

/// Starts a node with this choice of nodes, and a job of nine opportunistic containers there, which
/// wait for the gate. Beside their master two of them run and one may wait.
pub(super) fn start(placement: &str) -> (Cluster, Process) {
    let proxy = format!("localhost:{}", Port::reserve().release());
    let mut client = Properties::default();
    let queuing = "yarn.resourcemanager.nm-container-queuing";
    let cluster = Cluster::start_with(1, |site| {
        site.set(format!("{queuing}.min-queue-length"), QUEUE)
            .set(format!("{queuing}.max-queue-length"), QUEUE);
        client = site.clone();
        client.set("yarn.resourcemanager.scheduler.address", &proxy);
        site.set("yarn.nodemanager.distributed-scheduling.enabled", true)
            .set("yarn.nodemanager.amrmproxy.address", &proxy)
            .set(PLACEMENT, placement)
            // On a machine that is busy building.
            .set("yarn.nodemanager.agent.amrmproxy.look-wait-ms", 30_000);
    });
    let core_site = conf::core_site(cluster.folder(), "nobody");
    conf::write(&cluster.folder().join("client"), &core_site, &client);
    let command = cluster.waiting_command("gate");
    let mut shell = Command::new(AGENT);
    shell
        .args(["shell", "--conf", "client", "--type", "opportunistic"])
        .args(["-n", "9", "--memory", "512", "--", "sh", "-c", &command])
        .current_dir(cluster.folder());
    let shell = Process::start("shell", &mut shell, cluster.folder());
    (cluster, shell)
}

#[test]
fn containers_that_no_node_has_room_for_wait_for_new_nodes_and_none_is_shed() {
    let (mut cluster, shell) = start("look");
    // The others are not sent to the node.
    wait::until("a node that is full", DEADLINE, || {
        let held_back = series(&cluster, "nm_agent_amrmproxy_held_back_containers_total ")?;
        let types = cluster.execution_types()?;
        let is_full = types == ["GUARANTEED", "OPPORTUNISTIC", "OPPORTUNISTIC"];
        wait::check(
            is_full && held_back >= 6.0,
            format!("{types:?} {held_back}"),
        )
    });
    for _ in 0..2 {
        // Masters here would need a proxy of their own.
        let without = |site: &mut Properties| {
            site.set("yarn.nodemanager.distributed-scheduling.enabled", false);
        };
        cluster.add_node(without, &[]);
    }
    wait::until("containers on all nodes", DEADLINE, || {
        let outstanding = series(&cluster, "nm_agent_amrmproxy_outstanding_containers ")?;
        let running = cluster.execution_types()?.len();
        let is_placed = (running, outstanding) == (7, 0.0);
        wait::check(is_placed, format!("{running} {outstanding}"))
    });
    cluster.open("gate");
    let (status, log) = ended(shell);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(row(&log, "succeeded"), 9, "{log}");
    for (name, expected) in [
        (
            "nm_agent_amrmproxy_allocated_containers_total{locality=\"off_switch\"} ",
            9.0,
        ),
        ("nm_agent_amrmproxy_unseen_containers_total ", 0.0),
    ] {
        assert_eq!(series(&cluster, name), Ok(expected), "{name}");
    }
    let looks = series(&cluster, "nm_agent_amrmproxy_looks_total{outcome=\"ok\"} ");
    assert!(looks.is_ok_and(|looks| looks > 0.0));
    cluster.assert_nothing_is_left();
}

#[test]
fn another_choice_of_nodes_by_reload_is_that_of_a_running_job() {
    let (mut cluster, shell) = start("list-order");
    wait::until("a node that is full", DEADLINE, || {
        let types = cluster.execution_types()?;
        let is_full = types == ["GUARANTEED", "OPPORTUNISTIC", "OPPORTUNISTIC"];
        wait::check(is_full, format!("{types:?}"))
    });
    let looks = series(&cluster, "nm_agent_amrmproxy_looks_total{outcome=\"ok\"} ");
    assert_eq!(looks, Ok(0.0));
    cluster.change_site(0, |site| {
        site.set(PLACEMENT, "look");
    });
    let changed = cluster.operate(0, "reload", &[]);
    let expected = format!("in effect  {PLACEMENT}, from list-order to look\n");
    assert_eq!(String::from_utf8_lossy(&changed.stdout), expected);
    wait::until("containers held back by looks", DEADLINE, || {
        let held_back = series(&cluster, "nm_agent_amrmproxy_held_back_containers_total ")?;
        let looks = series(&cluster, "nm_agent_amrmproxy_looks_total{outcome=\"ok\"} ")?;
        let is_held_back = held_back >= 1.0 && looks >= 1.0;
        wait::check(is_held_back, format!("{held_back} {looks}"))
    });
    cluster.open("gate");
    let (status, log) = ended(shell);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(row(&log, "succeeded"), 9, "{log}");
    cluster.assert_nothing_is_left();
}
