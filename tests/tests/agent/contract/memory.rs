//! Containers above their memory on a node that polls, as with
//! `yarn.nodemanager.resource.memory.enforced` set to false.

use std::fs;

use records::ContainerId;
use tests::conf::Properties;
use tests::scripted_cluster::ScriptedCluster;

use crate::contract::cluster_with;

/// Command that keeps about 96 MiB in bash itself until it is ended.
const HOLDS_96_MIB: &str = "x=$(head -c 100000000 /dev/zero | tr '\\0' x)\nsleep 600\n";

fn polled(site: &mut Properties) -> &mut Properties {
    site.set("yarn.nodemanager.resource.memory.enforced", false)
        .set("yarn.nodemanager.container-monitor.interval-ms", 100)
        .set("yarn.nodemanager.pmem-check-enabled", true)
}

/// Starts a container of 64 MiB that holds more.
fn start_greedy(cluster: &ScriptedCluster) -> ContainerId {
    let script = cluster.node.folder().join("greedy.sh");
    fs::write(&script, HOLDS_96_MIB).expect("the node's folder takes files");
    let allocation = cluster.am.allocate().memory_mb(64);
    let command = format!("bash '{}'", script.display());
    cluster.am.start(&allocation, &command)
}

#[test]
fn a_container_with_too_much_physical_memory_ends_alone_with_hadoops_status_and_text() {
    let cluster = cluster_with(|site| {
        polled(site);
    });
    let gate = cluster.gate("gate");
    let modest = cluster.am.run(&gate.then("true"));
    let greedy = start_greedy(&cluster);
    let completed = cluster.rm.wait_completed(greedy);
    assert_eq!(completed.exit_status, -104, "{completed:?}");
    let text = &completed.diagnostics;
    for part in [
        format!("containerID={greedy}] is running "),
        "B beyond the 'PHYSICAL' memory limit. Current usage: ".to_owned(),
        "B of 64 MB physical memory used; ".to_owned(),
        " virtual memory used. Killing container.".to_owned(),
        format!("Dump of the process-tree for {greedy} :"),
        "|- PID PPID PGRPID SESSID CMD_NAME USER_MODE_TIME(MILLIS)".to_owned(),
        "(bash)".to_owned(),
        "greedy.sh".to_owned(),
    ] {
        assert!(text.contains(&part), "no {part:?} in {text}");
    }
    gate.open();
    assert_eq!(cluster.rm.wait_completed(modest).exit_status, 0);
}

#[test]
fn a_container_with_too_much_virtual_memory_ends_with_hadoops_status() {
    let cluster = cluster_with(|site| {
        polled(site)
            .set("yarn.nodemanager.vmem-check-enabled", true)
            .set("yarn.nodemanager.vmem-pmem-ratio", 1.0);
    });
    let completed = cluster.rm.wait_completed(start_greedy(&cluster));
    assert_eq!(completed.exit_status, -103, "{completed:?}");
    let text = &completed.diagnostics;
    assert!(text.contains("beyond the 'VIRTUAL' memory limit"), "{text}");
}
