//! Commands that fail, and processes that ignore signals.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::Duration;

use tests::wait;
use wire::proto::hadoop_yarn::ContainerSubStateProto;

use crate::bad_input::cluster;

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn a_command_that_does_not_exist_says_so_with_the_end_of_its_error_output() {
    let cluster = cluster();
    let id = cluster.am.run("no-such-program-of-ours 2><LOG_DIR>/stderr");
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, 127, "{completed:?}");
    let text = &completed.diagnostics;
    assert!(text.contains("Last 4096 bytes of stderr"), "{text}");
    assert!(text.contains("no-such-program-of-ours"), "{text}");
    cluster.assert_serves();
}

#[test]
fn a_command_that_is_no_shell_syntax_fails_alone() {
    let cluster = cluster();
    let id = cluster.am.run("echo \\\"unbalanced (");
    assert_ne!(cluster.rm.wait_completed(id).exit_status, 0);
    cluster.assert_serves();
}

#[test]
fn a_command_longer_than_the_kernel_takes_fails_alone() {
    let cluster = cluster();
    let long = format!("echo {}", "x".repeat(1 << 20));
    let id = cluster.am.run(&long);
    assert_ne!(cluster.rm.wait_completed(id).exit_status, 0);
    cluster.assert_serves();
}

#[test]
fn a_process_that_ignores_sigterm_is_gone_soon_and_reported_as_stopped() {
    let cluster = cluster();
    let id = cluster
        .am
        .run("trap '' TERM; touch <LOG_DIR>/ready; while true; do sleep 0.05; done");
    wait::until("the trap", DEADLINE, || {
        let folder = cluster.node.log_dir().join(id.application_id().to_string());
        let ready = folder.join(id.to_string()).join("ready");
        wait::check(ready.exists(), "not set")
    });
    cluster.am.stop(id).unwrap();
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, -105, "{completed:?}");
    let text = &completed.diagnostics;
    assert!(
        text.contains("Container killed by the ApplicationMaster."),
        "{text}"
    );
    assert!(text.contains("Exit code is 137"), "{text}");
    wait::until("the end of its processes", DEADLINE, || {
        let left = cluster.node.container_processes();
        wait::check(left.is_empty(), format!("{left:?}"))
    });
}

#[test]
fn what_a_command_left_in_the_background_goes_with_it() {
    let cluster = cluster();
    let id = cluster.am.run("sleep 600 & sleep 600 & true");
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
    wait::until("the end of its processes", DEADLINE, || {
        let left = cluster.node.container_processes();
        wait::check(left.is_empty(), format!("{left:?}"))
    });
}

#[test]
fn a_process_killed_by_somebody_else_is_reported_with_its_signal() {
    let cluster = cluster();
    let id = cluster.am.run("exec sleep 600");
    cluster
        .rm
        .wait_sub_state(id, ContainerSubStateProto::CssRunning);
    let sleeper = wait::until("the process", DEADLINE, || {
        let found = cluster.node.container_processes();
        let sleeper = found
            .iter()
            .find(|process| process.command.starts_with("sleep"));
        sleeper.map(|process| process.pid).ok_or("not there")
    });
    kill(Pid::from_raw(sleeper), Signal::SIGKILL).unwrap();
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, 137, "{completed:?}");
    assert!(
        completed.diagnostics.contains("Killed by external signal"),
        "{completed:?}"
    );
    cluster.assert_serves();
}
