//! The record of a scheduler's events over a kill of the agent, and what a replay says of it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use records::{ApplicationId, ContainerId};
use test_support::LaunchContext;
use tests::node::NodeKind;
use tests::node_process::node_kind;
use tests::scripted_cluster::ScriptedCluster;
use wire::proto::hadoop_yarn::ContainerSubStateProto::{CssRunning, CssScheduled};

use super::{restart, start};
use crate::AGENT;

/// Memory of each container in MiB; the node has two places.
const EACH_MB: u64 = 16;

/// Exit status of a container that the scheduler rejected, shed or evicted.
const BY_SCHEDULER: i32 = -108;

fn begin(cluster: &ScriptedCluster, is_opportunistic: bool, command: &str) -> ContainerId {
    let allocation = cluster.am.allocate().memory_mb(EACH_MB);
    let allocation = if is_opportunistic {
        allocation.opportunistic()
    } else {
        allocation
    };
    let context = LaunchContext::command(command);
    cluster.am.try_start(&allocation, context).unwrap()
}

fn replay(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(AGENT);
    command.args(["simulate", "--replay"]).arg(dir);
    command.args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(all).unwrap()
}

#[test]
fn a_replay_of_kills_sheds_and_a_restart_gives_the_same_actions() {
    if !matches!(node_kind(AGENT), NodeKind::Agent(_)) {
        println!("SKIPPED: a Java NodeManager records no events");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("events");
    let mut cluster = start(|site| {
        let queue = "yarn.nodemanager.opportunistic-containers-max-queue-length";
        site.set(queue, 2)
            .set("yarn.nodemanager.resource.memory-mb", 2 * EACH_MB)
            .set("yarn.nodemanager.resource.cpu-vcores", 16)
            .set("yarn.nodemanager.agent.event-record.dir", dir.display());
    });
    let gate = cluster.gate("gate");
    let running = [(); 2].map(|()| begin(&cluster, true, &gate.then("true")));
    for id in running {
        cluster.rm.wait_sub_state(id, CssRunning);
    }
    let waiting = [(); 2].map(|()| begin(&cluster, true, "true"));
    for id in waiting {
        cluster.rm.wait_sub_state(id, CssScheduled);
    }
    let rejected = begin(&cluster, true, "true");
    let ended = |id| cluster.rm.wait_completed(id).exit_status;
    assert_eq!(ended(rejected), BY_SCHEDULER);
    cluster.rm.order_queuing_limit(1);
    assert_eq!(ended(waiting[1]), BY_SCHEDULER, "shed");
    let guaranteed = begin(&cluster, false, &gate.then("true"));
    assert_eq!(ended(running[1]), BY_SCHEDULER, "evicted");
    cluster.rm.wait_sub_state(guaranteed, CssRunning);
    restart(&mut cluster, |_| {});
    gate.open();
    for id in [running[0], waiting[0], guaranteed] {
        assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
    }
    cluster.rm.wait_heartbeats(2);
    cluster.node.process.kill();

    let unchanged = replay(&dir, &[]);
    let shown = text(&unchanged);
    assert!(unchanged.status.success(), "{shown}");
    assert!(
        shown.contains("in 2 runs give the recorded actions"),
        "{shown}"
    );
    let longer = replay(&dir, &["--queue-length", "5", "--limit-length", "5"]);
    let shown = text(&longer);
    assert!(longer.status.success(), "{shown}");
    for (id, words) in [(rejected, "rejected; then"), (waiting[1], "shed; then")] {
        let line = shown.lines().find(|line| line.starts_with(&id.to_string()));
        assert!(line.is_some_and(|line| line.contains(words)), "{shown}");
    }
    captured(folder.path(), cluster.am.attempt().application_id);
}

/// The record is that of a node in a folder of its own. Three containers have ended by themselves,
/// all after the restart.
fn captured(folder: &Path, application: ApplicationId) {
    let trace = folder.join("jobs.csv");
    let capture = |arguments: &[&str]| {
        let mut command = Command::new(AGENT);
        command
            .args(["simulate", "--capture"])
            .arg(folder)
            .arg("--write-trace")
            .arg(&trace);
        let output = command.args(arguments).output().unwrap();
        (output.status.code(), text(&output))
    };
    let (status, shown) = capture(&[]);
    assert_eq!(status, Some(0), "{shown}");
    let told = "1 jobs with 3 tasks";
    let left = "0 masters, and 3 containers that had not ended";
    assert!(shown.contains(told) && shown.contains(left), "{shown}");
    assert!(shown.contains("1 of the jobs arrive with"), "{shown}");
    let written = fs::read_to_string(&trace).unwrap();
    let lines: Vec<&str> = written.lines().skip(1).collect();
    assert_eq!(lines.len(), 3, "{written}");
    for (line, kind) in lines
        .iter()
        .zip(["opportunistic", "opportunistic", "guaranteed"])
    {
        assert!(line.starts_with("job_1,0,1,,1,"), "{written}");
        assert!(line.contains(&format!(",{EACH_MB},1,{kind},")), "{written}");
    }
    let mut simulate = Command::new(AGENT);
    let simulate = simulate.args(["simulate", "seconds-1", "--check", "--trace"]);
    let checked = simulate.arg(&trace).output().unwrap();
    assert!(checked.status.success(), "{}", text(&checked));

    let list = folder.join("apps.json");
    let apps = |text: &str| {
        fs::write(&list, text).unwrap();
        capture(&["--applications", list.to_str().unwrap()])
    };
    let id = application.to_string();
    let known = format!("{{\"apps\":{{\"app\":[{{\"id\":\"{id}\",\"startedTime\":17}}]}}}}");
    let (status, shown) = apps(&known);
    assert_eq!(status, Some(0), "{shown}");
    assert!(!shown.contains("arrive with the first"), "{shown}");
    for (text, words) in [
        ("{\"apps\":null}", "1 of the jobs arrive with"),
        ("{", "EOF while parsing"),
        (
            "{\"apps\":{\"app\":[{\"id\":\"x\",\"startedTime\":1}]}}",
            "is no application id",
        ),
    ] {
        let (status, shown) = apps(text);
        let expected = if text.contains("null") { 0 } else { 2 };
        assert_eq!(status, Some(expected), "{shown}");
        assert!(shown.contains(words), "{shown}");
    }
}
