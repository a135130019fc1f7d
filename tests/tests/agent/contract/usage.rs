//! What a container uses is seen wherever a node is looked at: 90 MiB of the 512 that it was asked.

use std::fs;
use std::process::Command;

use records::ContainerId;
use serde_json::Value;
use tests::scripted_cluster::ScriptedCluster;
use tests::{http, wait};

use crate::AGENT;
use crate::contract::{DEADLINE, cluster_with};

/// Mebibytes that the container was asked.
const ASKED_MB: u64 = 512;

/// Command whose processes hold 90 MiB beside their programs: `tail` keeps what it has read.
const HOLDS_90_MIB: &str =
    "(head -c 94371840 /dev/zero; sleep 600) | tail -c 94371840 > /dev/null\n";

/// Mebibytes that the processes may be seen to hold: bash, `tail` and two that sleep have some of
/// their own.
const HELD_MB: std::ops::RangeInclusive<u64> = 90..=120;

/// Starts the container and waits until it holds its memory.
fn start_holder(cluster: &ScriptedCluster) -> ContainerId {
    let script = cluster.node.folder().join("holder.sh");
    fs::write(&script, HOLDS_90_MIB).expect("the node's folder takes files");
    let allocation = cluster.am.allocate().memory_mb(ASKED_MB);
    let id = cluster
        .am
        .start(&allocation, &format!("bash '{}'", script.display()));
    wait::until("a process that holds 90 MiB", DEADLINE, || {
        let processes = cluster.node.container_processes();
        let held: Vec<_> = processes
            .iter()
            .map(|found| resident_kib(found.pid))
            .collect();
        wait::check(
            held.iter().any(|kib| *kib >= 90 * 1024),
            format!("{held:?}"),
        )
    });
    id
}

fn resident_kib(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

struct Faces {
    cluster: ScriptedCluster,
    port: i32,
}

impl Faces {
    fn get(&self, path: &str) -> String {
        let answer = http::get(&format!("http://127.0.0.1:{}{path}", self.port));
        answer.expect("the node answers").body
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).expect("the answer is JSON")
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(AGENT);
        command.args(arguments);
        command.arg("--conf").arg(self.cluster.node.conf_dir());
        let output = command.output().expect("the program can be started");
        String::from_utf8(output.stdout).expect("the output is text")
    }

    /// Looks of the monitor so far.
    fn looks(&self) -> u64 {
        self.metric("nm_agent_monitor_look_seconds_count")
    }

    fn metric(&self, series: &str) -> u64 {
        let text = self.get("/metrics");
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
        value.unwrap_or(0)
    }

    fn wait_two_looks(&self) {
        let before = self.looks();
        wait::until("two looks of the monitor", DEADLINE, || {
            let looks = self.looks() - before;
            wait::check(looks >= 2, format!("{looks} looks"))
        });
    }
}

#[track_caller]
fn assert_held(number: &Value, whole: &Value) {
    let held = number.as_u64().unwrap_or(0);
    assert!(HELD_MB.contains(&held), "{number} in {whole}");
}

/// Returns the number before a unit that follows `before` in a text.
#[track_caller]
fn number_after(text: &str, before: &str) -> u64 {
    let (_, rest) = text
        .split_once(before)
        .unwrap_or_else(|| panic!("{before} is not in {text}"));
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

impl Faces {
    /// Asserts what commands of operators tell of a container and its application.
    #[track_caller]
    fn assert_commands(&self, id: ContainerId) {
        let status: Value =
            serde_json::from_str(&self.run(&["status", "--json"])).expect("the status is JSON");
        let usage = &status["usage"];
        let application = id.application_id().to_string();
        for (kind, name) in [
            ("containers", id.to_string()),
            ("applications", application),
        ] {
            let used = &usage[kind][0];
            assert_eq!(used["id"], name, "{usage}");
            assert_eq!(used["memory_asked_mb"], ASKED_MB, "{usage}");
            assert_held(&used["memory_mb"], usage);
        }
        let used = &usage["containers"][0];
        assert_held(&used["memory_peak_mb"], usage);
        assert!(used["cpu_time_ms"].as_u64() > Some(0), "{usage}");
        let top = self.run(&["top"]);
        let row = top.lines().find(|line| line.starts_with(&id.to_string()));
        let cells = row.unwrap_or_else(|| panic!("{top}")).split_whitespace();
        let cells: Vec<_> = cells.collect();
        assert_eq!(cells[3], ASKED_MB.to_string(), "{top}");
        assert!(
            HELD_MB.contains(&cells[4].parse().expect("the cell has a number")),
            "{top}"
        );
        let story = self.run(&["explain", &id.to_string()]);
        assert!(story.contains(" of 512 MiB asked"), "{story}");
    }

    /// Asserts what documents tell.
    #[track_caller]
    fn assert_documents(&self, id: ContainerId) {
        for path in [
            format!("containers/{id}"),
            format!("apps/{}", id.application_id()),
        ] {
            let document = self.json(&format!("/ws/v1/node/agent/{path}"));
            assert_eq!(document["used"]["memoryAskedMB"], ASKED_MB, "{document}");
            assert_held(&document["used"]["memoryUsedMB"], &document);
        }
        let document = self.json("/ws/v1/node/agent/usage");
        for kind in ["container", "application"] {
            assert_held(&document["usage"][kind][0]["memoryUsedMB"], &document);
        }
        let live = self.json("/live.json");
        assert_held(&live["resources"]["memory_used_mb"], &live);
        let container = &live["running"]["containers"][0];
        assert_held(&container["used"]["memory_mb"], &live);
    }

    /// Asserts what pages tell.
    #[track_caller]
    fn assert_pages(&self, id: ContainerId) {
        for path in [
            format!("container/{id}"),
            format!("application/{}", id.application_id()),
        ] {
            let page = self.get(&format!("/node/{path}"));
            let held = number_after(&page, "<dt>Memory in use</dt><dd class=\"figure\">");
            assert!(HELD_MB.contains(&held), "{held} on {page}");
            assert!(page.contains("of 512 MiB asked"), "{page}");
        }
    }

    /// Asserts what the metrics of guaranteed containers tell.
    #[track_caller]
    fn assert_metrics(&self) {
        let of_guaranteed = |name: &str, more: &str| {
            let labels = format!("{{execution_type=\"guaranteed\"{more}}}");
            self.metric(&format!("nm_agent_containers_{name}{labels}"))
        };
        let used = of_guaranteed("working_set_bytes", "");
        assert!(HELD_MB.contains(&(used >> 20)), "{used}");
        assert_eq!(of_guaranteed("asked_memory_bytes", "") >> 20, ASKED_MB);
        assert_eq!(of_guaranteed("by_memory_use", ",used=\"first_quarter\""), 1);
    }
}

#[test]
fn a_container_that_uses_90_of_512_mib_is_seen_as_that_everywhere_within_two_looks() {
    let cluster = cluster_with(|site| {
        site.set("yarn.nodemanager.container-monitor.interval-ms", 500)
            .set("yarn.nodemanager.resource-monitor.interval-ms", 500);
    });
    let port = cluster.rm.wait_registrations(1).http_port();
    let faces = Faces { cluster, port };
    let id = start_holder(&faces.cluster);
    faces.wait_two_looks();
    faces.assert_commands(id);
    faces.assert_documents(id);
    faces.assert_pages(id);
    faces.assert_metrics();
}
