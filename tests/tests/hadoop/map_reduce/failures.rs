//! Jobs whose tasks fail or are evicted, as their history shows them.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use tests::client::ShellApplication;
use tests::cluster::{SLOT_MB, STATE_DEADLINE};
use tests::gate::Gate;
use tests::map_reduce::{JOB_DEADLINE, job_id};
use tests::wait;

use super::cluster::{Cluster, SLOTS};
use crate::like_hadoop::mask::Masks;

/// Slots of each map of the job that is evicted.
const MAP_SLOTS: u32 = 2;

/// Maps of that job: with its ApplicationMaster, which takes two slots, they fill the node.
const MAPS: u32 = (SLOTS - 2) / MAP_SLOTS;

/// Maps that a guaranteed container takes the place of.
const EVICTED: u32 = 2;

/// What the history shows of a job, without what differs from run to run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// Final state.
    state: String,
    /// Diagnostics of the job.
    diagnostics: String,
    /// Numbers of attempts, as `NAME=VALUE`.
    numbers: Vec<String>,
    /// States and diagnostics of the attempts of all tasks, sorted.
    attempts: Vec<String>,
}

/// Histories of the jobs on one node.
#[derive(Debug)]
pub(super) struct Histories {
    recovered: Ended,
    failed: Ended,
    evicted: Ended,
}

/// Runs the jobs on the cluster's node. `node` is a part of file names.
pub(super) fn run(cluster: &Cluster, node: &str) -> Histories {
    let start = |name: &str, failures: u32| {
        let failures = format!("ordered.failures={failures}");
        let properties = [failures.as_str(), "mapreduce.map.maxattempts=2"];
        cluster
            .ordered
            .start(&cluster.lab, &format!("{name}-{node}"), &properties)
    };
    let (mut recovered, mut failed) = (start("recovered", 1), start("failed", 2));
    let ids = [&mut recovered, &mut failed].map(|job| job.application_id());
    recovered.assert_succeeds(JOB_DEADLINE);
    let outcome = failed.outcome(JOB_DEADLINE);
    assert!(!outcome.succeeded, "{}", outcome.log);
    let [recovered, failed] = ids.map(|id| of_history(cluster, &id));
    assert_eq!(recovered.state, "SUCCEEDED", "{recovered:?}");
    assert_eq!(failed.state, "FAILED", "{failed:?}");
    Histories {
        recovered,
        failed,
        evicted: run_evicted(cluster, node),
    }
}

/// Fills the node with opportunistic maps and then starts a guaranteed container that needs the
/// room of some.
fn run_evicted(cluster: &Cluster, node: &str) -> Ended {
    let folder = cluster.lab.folder().join(format!("gates-{node}"));
    std::fs::create_dir(&folder).unwrap();
    let gate = Gate::at(folder.join("gate"));
    let properties = [
        format!("ordered.maps={MAPS}"),
        format!("ordered.gate={}", gate.path().display()),
        format!("mapreduce.map.memory.mb={}", MAP_SLOTS * SLOT_MB),
        "mapreduce.job.num-opportunistic-maps-percent=100".to_owned(),
    ];
    let properties = properties.each_ref().map(String::as_str);
    let name = format!("evicted-{node}");
    let mut job = cluster.ordered.start(&cluster.lab, &name, &properties);
    let id = job.application_id();
    wait_begun(&folder, MAPS);
    let guaranteed = ShellApplication {
        command: &gate.wait_command(),
        memory_mb: EVICTED * MAP_SLOTS * SLOT_MB,
    };
    let guaranteed = guaranteed.submit(&cluster.lab);
    // Only when maps have ended does the node start it.
    wait::until("the guaranteed container's start", STATE_DEADLINE, || {
        let application = cluster.rm.application(&guaranteed)?;
        let launched = application["launchTime"].as_i64().unwrap_or_default();
        wait::check(launched > 0, application.to_string())
    });
    wait::until("maps that are asked for again", STATE_DEADLINE, || {
        let killed = killed_maps(cluster, &id)?;
        wait::check(killed == i64::from(EVICTED), killed)
            .map_err(|killed| format!("{killed} killed"))
    });
    gate.open();
    job.assert_succeeds(JOB_DEADLINE);
    of_history(cluster, &id)
}

/// Returns how many attempts the ApplicationMaster of a running job counts as killed.
fn killed_maps(cluster: &Cluster, application_id: &str) -> Result<i64, String> {
    let path = format!("ws/v1/mapreduce/jobs/{}", job_id(application_id));
    let job = cluster.rm.proxied(application_id, &path)?;
    let killed = &job["job"]["killedMapAttempts"];
    killed.as_i64().ok_or_else(|| job.to_string())
}

/// Waits until this many maps have made their files beside the gate.
#[track_caller]
fn wait_begun(folder: &Path, maps: u32) {
    wait::until(format!("{maps} maps"), STATE_DEADLINE, || {
        let begun = std::fs::read_dir(folder).unwrap().count();
        wait::check(u32::try_from(begun) == Ok(maps), begun)
    });
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Reads a job's history.
#[track_caller]
fn of_history(cluster: &Cluster, application_id: &str) -> Ended {
    let job_id = job_id(application_id);
    let job = cluster.history.job(&job_id);
    let numbers = application_id.trim_start_matches("application_");
    let mut masks = Masks::default();
    masks.text(numbers, "<job>");
    let ports = cluster.node.site.ports;
    let port = ports.container_management.to_string();
    masks.text(&port, "<port>");
    masks.text(&cluster.node.site.folder.display().to_string(), "<node>");
    let attempts = cluster.history.attempts(&job_id);
    let mut attempts: Vec<_> = attempts.iter().map(|it| attempt_text(it, &masks)).collect();
    attempts.sort();
    Ended {
        state: text(&job["state"]),
        diagnostics: masks.apply(&text(&job["diagnostics"])),
        numbers: numbers_of_attempts(&job),
        attempts,
    }
}

fn attempt_text(attempt: &Value, masks: &Masks) -> String {
    let mut line = text(&attempt["type"]);
    let container = text(&attempt["assignedContainerId"]);
    let diagnostics = crate::like_hadoop::once(&text(&attempt["diagnostics"]));
    let diagnostics = masks.apply(&diagnostics.replace(&container, "<container>"));
    let diagnostics = diagnostics.trim_end();
    write!(line, " {}: {diagnostics}", text(&attempt["state"])).unwrap();
    line
}

/// Returns how the attempts of maps and reduces ended, as `NAME=VALUE`.
fn numbers_of_attempts(job: &Value) -> Vec<String> {
    let ends = ["successful", "failed", "killed"].into_iter();
    let names = ends.flat_map(|end| ["Map", "Reduce"].map(|it| format!("{end}{it}Attempts")));
    names.map(|name| format!("{name}={}", job[&name])).collect()
}

/// Asserts what the jobs' histories show, and that it is the same on both nodes.
pub(super) fn compare(ours: &Histories, java: &Histories) {
    let states = |ended: &Ended, state: &str| {
        let states = ended.attempts.iter();
        states.filter(|it| it.contains(state)).count()
    };
    assert_eq!(states(&ours.evicted, " KILLED: "), EVICTED as usize);
    assert_eq!(states(&ours.evicted, " FAILED: "), 0, "{:?}", ours.evicted);
    assert_eq!(ours.recovered, java.recovered);
    assert_eq!(ours.failed, java.failed);
    assert_eq!(ours.evicted, java.evicted);
}
