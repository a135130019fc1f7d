//! `nm-agent shell` on `nm-agent rm` and agents: its containers, its output, and what it leaves.

pub(crate) mod cluster;
mod epochs;
mod looks;
mod reservations;
mod role_history;
mod traces;

use nix::sys::signal::Signal;
use tests::process::Process;
use tests::wait;

use crate::shell::cluster::{Cluster, DEADLINE, SLOT_MB, ended, row};

/// Arguments for containers of one slot.
const SLOT: [&str; 2] = ["--memory", "512"];

#[test]
fn guaranteed_containers_run_the_words_as_given() {
    assert_eq!(SLOT[1], SLOT_MB.to_string());
    let cluster = Cluster::start(1);
    let nasty = "$HOME 'a' \"b\" `id` {{USER}} <LOG_DIR> \\";
    let arguments = [
        "-n",
        "3",
        "--env",
        "V=$V'\"",
        "--",
        "/bin/sh",
        "-c",
        "echo \"$1|$V\"",
        "sh",
        nasty,
    ];
    let (status, log) = cluster.shell_to_end(&arguments);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(row(&log, "succeeded"), 3, "{log}");
    assert_eq!(cluster.outputs(), vec![format!("{nasty}|$V'\"\n"); 3]);
    assert_eq!(cluster.application_states(), ["FINISHED"]);
    cluster.assert_nothing_is_left();
}

#[test]
fn more_opportunistic_containers_than_fit_queue_and_all_run() {
    let cluster = Cluster::start(2);
    let command = [
        "--type",
        "opportunistic",
        "-n",
        "9",
        "--",
        "sh",
        "-c",
        "echo $YARN_SHELL_ID",
    ];
    let (status, log) = cluster.shell_to_end(&[&SLOT[..], &command].concat());
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(row(&log, "succeeded"), 9, "{log}");
    let mut outputs = cluster.outputs();
    outputs.sort();
    let numbers: Vec<String> = (1..=9).map(|number| format!("{number}\n")).collect();
    assert_eq!(outputs, numbers);
    cluster.assert_nothing_is_left();
}

#[test]
fn a_job_runs_when_calls_are_signed_and_when_they_are_encrypted() {
    for levels in ["integrity", "privacy,integrity"] {
        let cluster = Cluster::start_with(1, |site| {
            site.set("hadoop.rpc.protection", levels);
        });
        let arguments = ["--type", "mix", "-n", "4", "--memory", "128", "--", "true"];
        let (status, log) = cluster.shell_to_end(&arguments);
        assert_eq!(status, Some(0), "{levels}: {log}");
        assert_eq!(row(&log, "succeeded"), 4, "{levels}: {log}");
        cluster.assert_nothing_is_left();
    }
}

#[test]
fn a_mix_has_as_many_of_each_type_as_asked_for() {
    let cluster = Cluster::start(1);
    let command = cluster.waiting_command("gate");
    let arguments = [
        "--type",
        "mix",
        "-n",
        "4",
        "--guaranteed",
        "1",
        "--memory",
        "128",
        "--",
        "sh",
        "-c",
        &command,
    ];
    let shell = cluster.shell("shell", &arguments);
    cluster.wait_waiting("gate", 4);
    wait::until(
        "one guaranteed container beside the master",
        DEADLINE,
        || {
            let types = cluster.execution_types()?;
            let expected = [
                "GUARANTEED",
                "GUARANTEED",
                "OPPORTUNISTIC",
                "OPPORTUNISTIC",
                "OPPORTUNISTIC",
            ];
            wait::check(types == expected, format!("{types:?}"))
        },
    );
    cluster.open("gate");
    let (status, log) = ended(shell);
    assert_eq!(status, Some(0), "{log}");
    cluster.assert_nothing_is_left();
}

#[test]
fn a_command_that_fails_fails_the_job_and_is_named_with_its_log() {
    let cluster = Cluster::start(1);
    let command = "[ $YARN_SHELL_ID != 2 ] || { echo why >&2; exit 7; }";
    let (status, log) = cluster.shell_to_end(&["-n", "3", "--", "sh", "-c", command]);
    assert_eq!(status, Some(1), "{log}");
    assert_eq!(
        (row(&log, "succeeded"), row(&log, "failed")),
        (2, 1),
        "{log}"
    );
    assert!(log.contains("container 2: exit status 7: why"), "{log}");
    let url = log
        .split_whitespace()
        .find(|word| word.starts_with("http://"));
    let url = url.unwrap_or_else(|| panic!("no link in\n{log}"));
    let page = tests::http::get(&format!("{url}stderr?start=0")).unwrap();
    assert!(page.body.contains("why"), "{}", page.body);
    cluster.assert_nothing_is_left();
}

#[test]
fn a_program_that_is_not_there_fails_the_job() {
    let cluster = Cluster::start(1);
    let (status, log) = cluster.shell_to_end(&["--", "/nowhere/program"]);
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("exit status 127"), "{log}");
}

/// Starts a job of two opportunistic containers, which run and wait for the gate.
#[track_caller]
fn two_that_wait(cluster: &Cluster) -> Process {
    let command = cluster.waiting_command("gate");
    let opportunistic = [
        "--type",
        "opportunistic",
        "-n",
        "2",
        "--",
        "sh",
        "-c",
        &command,
    ];
    let first = cluster.shell("first", &[&SLOT[..], &opportunistic].concat());
    cluster.wait_waiting("gate", 2);
    first
}

#[test]
fn containers_that_make_way_are_asked_for_again() {
    let cluster = Cluster::start(1);
    let first = two_that_wait(&cluster);
    let (status, log) = cluster.shell_to_end(&[&SLOT[..], &["--", "true"]].concat());
    assert_eq!(status, Some(0), "{log}");
    cluster.open("gate");
    let (status, log) = ended(first);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(row(&log, "succeeded"), 2, "{log}");
    assert_eq!(row(&log, "evictions"), 1, "{log}");
    cluster.assert_nothing_is_left();
}

#[test]
fn a_container_that_waits_too_long_is_promoted() {
    let cluster = Cluster::start(1);
    let first = two_that_wait(&cluster);
    let promoted = [
        "--type",
        "opportunistic",
        "--promote-after",
        "100",
        "--",
        "true",
    ];
    let (status, log) = cluster.shell_to_end(&[&SLOT[..], &promoted].concat());
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(row(&log, "promotions"), 1, "{log}");
    cluster.open("gate");
    let (status, log) = ended(first);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(row(&log, "evictions"), 1, "{log}");
}

#[test]
fn more_than_the_largest_container_is_refused_before_anything_is_submitted() {
    let cluster = Cluster::start(1);
    let (status, log) = cluster.shell_to_end(&["--memory", "1000000", "--", "true"]);
    assert_eq!(status, Some(1), "{log}");
    assert!(
        log.contains("memory:1000000") && log.contains("at most"),
        "{log}"
    );
    assert!(cluster.application_states().is_empty());
}

#[test]
fn ctrl_c_kills_the_job_and_leaves_nothing() {
    let cluster = Cluster::start(1);
    let command = cluster.waiting_command("gate");
    let shell = cluster.shell("shell", &["-n", "2", "--", "sh", "-c", &command]);
    cluster.wait_waiting("gate", 2);
    shell.signal(Signal::SIGINT);
    let (status, log) = ended(shell);
    assert_eq!(status, Some(130), "{log}");
    cluster.assert_nothing_is_left();
    assert_eq!(cluster.application_states(), ["KILLED"]);
}

#[test]
fn without_a_resource_manager_patience_ends_as_configured_and_nothing_is_left() {
    let mut cluster = Cluster::start_with(1, |site| {
        site.set("yarn.resourcemanager.connect.max-wait.ms", 1500);
    });
    let command = cluster.waiting_command("gate");
    let shell = cluster.shell("shell", &["-n", "2", "--", "sh", "-c", &command]);
    cluster.wait_waiting("gate", 2);
    cluster.kill_rm();
    let (status, log) = ended(shell);
    assert_eq!(status, Some(1), "{log}");
    assert!(
        log.contains("no ResourceManager has answered for 1 s"),
        "{log}"
    );
    assert!(log.contains("lost sight of application_"), "{log}");
    cluster.assert_no_process_is_left();
    let (status, log) = cluster.shell_to_end(&["--", "true"]);
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("asking for an application id"), "{log}");
}

#[test]
fn ctrl_c_without_a_resource_manager_stops_the_job_by_its_master() {
    let mut cluster = Cluster::start_with(1, |site| {
        site.set("yarn.resourcemanager.connect.max-wait.ms", -1);
    });
    let command = cluster.waiting_command("gate");
    let mut shell = cluster.shell("shell", &["--", "sh", "-c", &command]);
    cluster.wait_waiting("gate", 1);
    // The client has an answer from the master, so it knows the master's address.
    shell.wait_log("1 running", DEADLINE);
    cluster.kill_rm();
    shell.signal(Signal::SIGINT);
    let (status, log) = ended(shell);
    assert_eq!(status, Some(130), "{log}");
    assert!(log.contains("was killed"), "{log}");
    cluster.assert_no_process_is_left();
}

#[test]
fn a_resource_manager_that_has_forgotten_the_job_ends_it() {
    let mut cluster = Cluster::start(1);
    let command = cluster.waiting_command("gate");
    let shell = cluster.shell("shell", &["-n", "2", "--", "sh", "-c", &command]);
    cluster.wait_waiting("gate", 2);
    cluster.kill_rm();
    cluster.start_rm();
    let (status, log) = ended(shell);
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("does not know application_"), "{log}");
    cluster.assert_no_process_is_left();
}

#[test]
fn a_lost_node_costs_time_and_not_the_job() {
    let mut cluster = Cluster::start_with(2, |site| {
        site.set("yarn.nm.liveness-monitor.expiry-interval-ms", 1500);
    });
    let command = cluster.waiting_command("gate");
    let arguments = ["-n", "3", "--", "sh", "-c", &command];
    let shell = cluster.shell("shell", &[&SLOT[..], &arguments].concat());
    cluster.wait_waiting("gate", 3);
    cluster.kill_last_node();
    cluster.wait_nodes(1);
    cluster.open("gate");
    let (status, log) = ended(shell);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(row(&log, "succeeded"), 3, "{log}");
    cluster.assert_nothing_is_left();
}

#[test]
fn a_long_command_arrives_whole() {
    let cluster = Cluster::start(1);
    let word = "x".repeat(60_000);
    let (status, log) = cluster.shell_to_end(&["--", "printf", "%s", &word]);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(cluster.outputs(), [word]);
    let word = "x".repeat(70_000);
    let (status, log) = cluster.shell_to_end(&["--", "printf", "%s", &word]);
    assert_eq!(status, Some(2), "{log}");
    assert!(log.contains("limit 65536"), "{log}");
}

#[test]
fn bad_arguments_are_told_before_anything_is_done() {
    let cluster = Cluster::start(0);
    for (arguments, expected) in [
        (&["-n", "2"][..], "required arguments"),
        (&["-n", "2", "--"], "required arguments"),
        (&["-n", "0", "--", "true"], "no container is asked for"),
        (&["-n", "1000000", "--", "true"], "more than 10000"),
        (&["--type", "lucky", "--", "true"], "possible values"),
        (&["--guaranteed", "1", "--", "true"], "--type mix"),
        (&["--env", "A B=1", "--", "true"], "A B"),
        (&["--env", "A", "--", "true"], "NAME=VALUE"),
        (&["--memory", "0", "--", "true"], "cannot run anything"),
    ] {
        let (status, log) = cluster.shell_to_end(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {log}");
        assert!(log.contains(expected), "{arguments:?}: {log}");
    }
    assert!(cluster.application_states().is_empty());
}

#[test]
fn a_hundred_containers_on_three_nodes_all_end_well() {
    let cluster = Cluster::start(3);
    let arguments = [
        "--type", "mix", "-n", "100", "--memory", "128", "--", "sleep", "0.05",
    ];
    let (status, log) = cluster.shell_to_end(&arguments);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(row(&log, "succeeded"), 100, "{log}");
    cluster.assert_nothing_is_left();
}

#[test]
fn a_master_outside_a_container_says_what_it_is_for() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_agent-under-test"))
        .arg("shell-master")
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nm-agent shell asks for"), "{said}");
}
