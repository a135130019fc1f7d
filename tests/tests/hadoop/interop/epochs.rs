//! Containers that a node's own allocator gave out, under a ResourceManager in its first epoch and,
//! started again over its state, in the next one. The allocator counts down from where the epoch
//! begins, so ids are negative in epoch 0, which their text does not show, and in epoch 1 they are
//! those whose text is the same. Whatever names them by text finds them, and their logs are
//! uploaded once.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::{Options, StateStore};
use tests::distributed_shell::ContainerType;
use tests::rm::RmKind;
use tests::wait;
use tests::yarn_logs::{contents, wait_aggregated, yarn_logs};

use crate::AGENT;
use crate::interop::start_cluster;

/// Containers of a job: two run beside their ApplicationMaster, and one waits.
const SLOTS: u32 = 3;

/// Number from which a node's allocator counts down, as texts have it.
const NUMBERS: i64 = 1 << 40;

/// Runs a command of operators for the node to its successful end; returns what it prints.
fn operate(cluster: &Cluster, subcommand: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(AGENT);
    let conf = cluster.node.site.conf();
    command.arg(subcommand).arg("--conf").arg(conf);
    let output = command.args(arguments).output().unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Returns whether the node's allocator gave out the container of this name.
fn is_of_node(name: &str) -> bool {
    let number = name.rsplit('_').next();
    let number = number.and_then(|number| number.parse::<i64>().ok());
    number.is_some_and(|number| (NUMBERS - 100..NUMBERS).contains(&number))
}

/// Returns the names of containers of the node's allocator among these words.
fn names_among<'a>(words: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let names = words.filter(|word| word.starts_with("container_") && is_of_node(word));
    names.map(str::to_owned).collect()
}

/// Returns the names of a job's containers as `top` and `queue` print them, once two run and one
/// waits.
#[track_caller]
fn printed_names(cluster: &Cluster) -> (BTreeSet<String>, String) {
    wait::until("two that run and one that waits", STATE_DEADLINE, || {
        let queue = operate(cluster, "queue", &["--json"])?;
        let places: Value = serde_json::from_str(&queue).map_err(|error| error.to_string())?;
        let places = places["containers"].as_array().cloned().unwrap_or_default();
        let waits = names_among(places.iter().filter_map(|it| it["container"].as_str()));
        let top = operate(cluster, "top", &[])?;
        let runs = &names_among(top.split_whitespace()) - &waits;
        match waits.first() {
            Some(waits) if runs.len() == 2 && places.len() == 1 => Ok((runs, waits.clone())),
            _ => Err(format!("{queue}\n{top}")),
        }
    })
}

/// Asserts that commands, pages and REST know the container of this name in this state.
#[track_caller]
fn assert_known(cluster: &Cluster, name: &str, state: &str) {
    let explained = operate(cluster, "explain", &[name]).unwrap();
    assert!(explained.contains(name), "{explained}");
    let answer = cluster.node.get(&format!("/ws/v1/node/containers/{name}"));
    let answer: Value = serde_json::from_str(&answer.unwrap().body).unwrap();
    assert_eq!(answer["container"]["id"], name, "{answer}");
    assert_eq!(answer["container"]["state"], state, "{answer}");
    let page = cluster.node.get(&format!("/node/container/{name}"));
    let page = page.unwrap().body;
    assert!(page.contains("OPPORTUNISTIC"), "{page}");
}

/// Runs a job whose containers are all of the node's allocator; `epoch` is how names begin that the
/// ResourceManager gives.
#[track_caller]
fn containers_are_found_by_their_names(cluster: &Cluster, job: &str, epoch: &str) {
    let gate = cluster.gate(job);
    let wait = gate.wait_command();
    let command = format!("({PRINT_BEGIN}; echo line-$CONTAINER_ID; {wait})");
    let mut shell = cluster.submit(job, &command, SLOTS, ContainerType::Opportunistic);
    let id = shell.application_id();
    cluster.wait_begun(&id, 2);
    let (running, waiting) = printed_names(cluster);
    let names: BTreeSet<String> = running.iter().chain([&waiting]).cloned().collect();
    let (_, number) = id.split_once('_').unwrap();
    let attempts = cluster.rm.attempts(&id).unwrap();
    let master = format!("container_{epoch}{number}_01_000001");
    assert_eq!(attempts[0]["containerId"], master, "the epoch");
    let beginning = format!("container_{number}_01_");
    for name in &names {
        assert!(name.starts_with(&beginning), "{name}: not {beginning}…");
    }
    for name in &running {
        assert_known(cluster, name, "RUNNING");
        let log = format!("/ws/v1/node/containers/{name}/logs/stdout");
        let log = cluster.node.get(&log).unwrap().body;
        assert!(log.contains(&format!("\nline-{name}\n")), "{log}");
    }
    assert_known(cluster, &waiting, "SCHEDULED");

    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    wait_aggregated(&cluster.rm, &id);
    let printed = yarn_logs(&cluster.lab, &["-applicationId", &id]);
    let lines = contents(&printed, "stdout").into_iter();
    let lines = lines.filter_map(|text| text.trim_end().rsplit_once("\nline-"));
    let mut of_logs: Vec<&str> = lines.map(|(_, name)| name).collect();
    of_logs.sort_unstable();
    assert!(of_logs.iter().copied().eq(names.iter()), "{printed}");
}

#[test]
fn containers_of_a_nodes_allocator_are_found_by_their_names_in_each_epoch() {
    tests::require!(java, hadoop);
    let options = Options {
        state_store: StateStore::FileSystem,
        ..Options::default()
    };
    let options = options
        .with("yarn.nodemanager.amrmproxy.enabled", true)
        .with("yarn.nodemanager.distributed-scheduling.enabled", true)
        .with("yarn.log-aggregation-enable", true)
        .with(
            "yarn.nodemanager.remote-app-log-dir",
            "${hadoop.tmp.dir}/remote-logs",
        );
    let mut cluster = start_cluster(&RmKind::Hadoop, SLOTS, options);
    containers_are_found_by_their_names(&cluster, "first", "");
    cluster.rm.kill();
    cluster.rm.start_again(&cluster.lab);
    cluster
        .node
        .wait_state(&cluster.rm, "RUNNING", STATE_DEADLINE);
    containers_are_found_by_their_names(&cluster, "second", "e01_");
}
