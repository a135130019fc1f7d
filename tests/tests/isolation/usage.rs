//! What containers use is what their cgroups account for, and comes to what their class holds.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tests::{http, wait};

use crate::classes::{Place, known};
use crate::stories::{DEADLINE, isolated};

/// Command whose processes hold 90 MiB beside their programs: `tail` keeps what it has read.
const HOLDS_90_MIB: &str =
    "(head -c 94371840 /dev/zero; sleep 600) | tail -c 94371840 > /dev/null\n";

/// Returns a cgroup's memory without page cache that was not used lately, in bytes.
fn working_set(folder: &Path) -> u64 {
    let read = |file: &str| fs::read_to_string(folder.join(file));
    let current = read("memory.current").or_else(|_| read("memory.usage_in_bytes"));
    let current: u64 = current.unwrap().trim().parse().unwrap();
    let stat = read("memory.stat").unwrap();
    let value = |key: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines
            .find(|(found, _)| *found == key)?
            .1
            .parse::<u64>()
            .ok()
    };
    let inactive = value("total_inactive_file").or_else(|| value("inactive_file"));
    current - inactive.unwrap()
}

#[test]
fn use_of_containers_comes_to_what_their_class_holds() {
    let test = "use_of_containers_comes_to_what_their_class_holds";
    let Some(node) = isolated(test, |site| {
        site.set("yarn.nodemanager.container-monitor.interval-ms", 500);
    }) else {
        return;
    };
    let (am, rm) = (&node.cluster.am, &node.cluster.rm);
    let script = node.cluster.node.folder().join("holder.sh");
    fs::write(&script, HOLDS_90_MIB).unwrap();
    let command = known(&format!("exec bash '{}'", script.display()));
    let ids: Vec<_> = (0..2)
        .map(|_| am.start(&am.allocate().opportunistic().memory_mb(512), &command))
        .collect();
    let class = Place::of(&node.line(ids[0], "pid")).class("opportunistic");
    let url = format!(
        "http://127.0.0.1:{}/ws/v1/node/agent/usage",
        rm.wait_registrations(1).http_port()
    );
    let listed = |usage: &Value, field: &str| -> Vec<u64> {
        let containers = usage["container"].as_array().into_iter().flatten();
        containers.filter_map(|each| each[field].as_u64()).collect()
    };
    wait::until("the sum to be what the class holds", DEADLINE, || {
        let usage = http::get_json(&url)?["usage"].take();
        let used = listed(&usage, "memoryUsedMB");
        let all = used.len() == 2 && used.iter().all(|used| *used >= 90);
        let (sum, class) = (used.iter().sum::<u64>(), working_set(&class) >> 20);
        let agree = sum.abs_diff(class) * 100 <= class * 5;
        wait::check(all && agree, format!("{class} MiB in the class, {usage}"))
    });
    let usage = http::get_json(&url).unwrap()["usage"].take();
    // The kernel counts its own and page cache, too.
    let peaks = listed(&usage, "memoryChargedPeakMB");
    assert!(peaks.iter().all(|peak| *peak >= 90), "{usage}");
    let cpu = listed(&usage, "cpuTimeMillis");
    assert!(cpu.iter().all(|millis| *millis > 0), "{usage}");
}
