//! `nm-agent shell`: the agent's own client and ApplicationMaster.

use std::path::Path;

use shell::{Counts, Outcome};
use tests::client::ShellApplication;
use tests::cluster::{Cluster, JOB_DEADLINE, SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::native_shell::{self, NativeShell};
use tests::node::NodeKind;
use tests::rm::RmKind;
use tests::{proc, wait};

use crate::AGENT;
use crate::interop::start_cluster;

with_each_rm!(
    shell_runs_containers_of_both_types,
    shell_asks_again_for_containers_that_were_evicted,
    shell_has_containers_promoted_that_wait,
    shell_that_is_told_to_stop_kills_its_application,
    shell_runs_on_hadoops_own_node,
);

/// A node with capacity for the master, which takes half a slot, and two containers.
const SLOTS: u32 = 3;

pub(super) fn start(
    cluster: &Cluster,
    name: &str,
    arguments: &[&str],
    command: &str,
) -> NativeShell {
    let program = Path::new(AGENT);
    let memory = SLOT_MB.to_string();
    let command = ["--memory", &memory, "--", "sh", "-c", command];
    NativeShell::start(&cluster.lab, program, name, &[arguments, &command].concat())
}

/// Waits for the end of a job, expects success, and returns the summary of its containers.
#[track_caller]
pub(super) fn succeeds(cluster: &Cluster, shell: &mut NativeShell) -> Counts {
    let id = shell.application_id();
    let (status, log) = shell.outcome(JOB_DEADLINE);
    assert_eq!(status, Some(0), "{log}");
    let summary = native_shell::summary(&cluster.rm, &id);
    assert_eq!(summary.outcome, Outcome::Succeeded, "{summary:?}");
    assert_eq!(summary.counts.succeeded, summary.counts.tasks);
    let application = cluster.rm.application(&id).unwrap();
    assert_eq!(application["finalStatus"], "SUCCEEDED", "{application}");
    summary.counts
}

/// Waits until the RM shows this many opportunistic containers running and queued.
#[track_caller]
fn wait_opportunistic(cluster: &Cluster, running: u32, queued: u32) {
    let what = format!("{running} running and {queued} queued at the RM");
    wait::until(what, STATE_DEADLINE, || {
        let node = cluster.node.at_rm(&cluster.rm)?;
        wait::check(
            node["numRunningOpportContainers"] == running && node["numQueuedContainers"] == queued,
            node.to_string(),
        )
    });
}

fn shell_runs_containers_of_both_types(rm: &RmKind) {
    let cluster = start_cluster(rm, SLOTS, Options::default());
    let mut mix = start(&cluster, "mix", &["-n", "6", "--type", "mix"], "exit 0");
    assert_eq!(succeeds(&cluster, &mut mix).tasks, 6);
    let mut failing = start(&cluster, "failing", &["-n", "2"], "exit 7");
    let id = failing.application_id();
    let (status, log) = failing.outcome(JOB_DEADLINE);
    assert_eq!(status, Some(1), "{log}");
    let summary = native_shell::summary(&cluster.rm, &id);
    assert_eq!(summary.counts.failed, 2, "{summary:?}");
    assert_eq!(summary.failures[0].exit_status, Some(7), "{summary:?}");
}

fn shell_asks_again_for_containers_that_were_evicted(rm: &RmKind) {
    let cluster = start_cluster(rm, SLOTS, Options::default());
    let (opportunistic, guaranteed) = (cluster.gate("opportunistic"), cluster.gate("guaranteed"));
    let arguments = ["-n", "2", "--type", "opportunistic"];
    let command = opportunistic.wait_command();
    let mut shell = start(&cluster, "shell", &arguments, &command);
    wait_opportunistic(&cluster, 2, 0);
    let _ = ShellApplication {
        command: &guaranteed.wait_command(),
        memory_mb: 2 * SLOT_MB,
    }
    .submit(&cluster.lab);
    // Both were asked for again, and wait for the guaranteed one.
    wait_opportunistic(&cluster, 0, 2);
    guaranteed.open();
    wait_opportunistic(&cluster, 2, 0);
    opportunistic.open();
    let counts = succeeds(&cluster, &mut shell);
    assert_eq!(counts.evicted, 2, "{counts:?}");
}

fn shell_has_containers_promoted_that_wait(rm: &RmKind) {
    let cluster = start_cluster(rm, SLOTS, Options::default());
    let gate = cluster.gate("gate");
    let arguments = [
        "-n",
        "3",
        "--type",
        "opportunistic",
        "--promote-after",
        "300",
    ];
    let mut shell = start(&cluster, "shell", &arguments, &gate.wait_command());
    // The waiting one is promoted and preempts another, which waits and is promoted in its turn;
    // then no capacity is left to guarantee.
    wait::until("two promoted containers", STATE_DEADLINE, || {
        let node = cluster.node.at_rm(&cluster.rm)?;
        let promised = SLOT_MB / 2 + 2 * SLOT_MB;
        wait::check(node["usedMemoryMB"] == promised, node.to_string())
    });
    // The ResourceManager promises before the master hears of it, which then tells the node.
    wait::until(
        "the master and two promoted on the node",
        STATE_DEADLINE,
        || {
            let containers = cluster.node.containers()?;
            let types = containers
                .iter()
                .map(|container| &container["executionType"]);
            let guaranteed = types.filter(|kind| *kind == "GUARANTEED").count();
            wait::check(guaranteed == 3, format!("{containers:?}"))
        },
    );
    gate.open();
    let counts = succeeds(&cluster, &mut shell);
    assert!(counts.promoted >= 2, "{counts:?}");
    assert!(counts.evicted >= 1, "{counts:?}");
}

fn shell_that_is_told_to_stop_kills_its_application(rm: &RmKind) {
    let cluster = start_cluster(rm, SLOTS, Options::default());
    let mut shell = start(&cluster, "shell", &["-n", "2"], "sleep 600");
    let id = shell.application_id();
    wait::until("two containers that sleep", STATE_DEADLINE, || {
        let found = proc::containers(cluster.lab.folder());
        let sleeping = found
            .iter()
            .filter(|process| process.command.starts_with("sleep"));
        wait::check(sleeping.count() == 2, format!("{found:?}"))
    });
    shell.terminate();
    let (status, log) = shell.outcome(JOB_DEADLINE);
    assert_eq!(status, Some(143), "{log}");
    let _ = cluster.rm.wait_application(&id, "KILLED", STATE_DEADLINE);
    wait::until("the end of all containers", STATE_DEADLINE, || {
        let left = proc::containers(cluster.lab.folder());
        wait::check(left.is_empty(), format!("{left:?}"))
    });
}

fn shell_runs_on_hadoops_own_node(rm: &RmKind) {
    let cluster = Cluster::start(rm, &NodeKind::Java, SLOTS, Options::default());
    for kind in ["guaranteed", "opportunistic"] {
        let mut shell = start(&cluster, kind, &["-n", "3", "--type", kind], "exit 0");
        assert_eq!(succeeds(&cluster, &mut shell).tasks, 3);
    }
}
