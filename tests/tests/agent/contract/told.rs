//! What an operator is told of a container and its application: their story, and what it prints.

use std::process::Command;

use tests::scripted_cluster::ScriptedCluster;
use tests::wait;

use crate::AGENT;
use crate::contract::{DEADLINE, cluster};

fn command(cluster: &ScriptedCluster, arguments: &[&str]) -> Command {
    let mut command = Command::new(AGENT);
    command.args(arguments);
    command.arg("--conf").arg(cluster.node.conf_dir());
    command
}

/// Runs a command of operators to its end; returns its exit status and its output.
fn run(cluster: &ScriptedCluster, arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(cluster, arguments)
        .output()
        .expect("the program can be started");
    let text = String::from_utf8(output.stdout).expect("the output is text");
    (output.status.code(), text)
}

#[test]
fn output_of_a_container_is_followed_to_its_end_and_steers_no_terminal() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let script = "printf '\\033[2Jfirst\\377\\n' > <LOG_DIR>/stdout; ";
    let last = "head -c 3000000 /dev/zero > <LOG_DIR>/stderr; echo last >> <LOG_DIR>/stdout";
    let id = cluster.am.run(&format!("{script}{}", gate.then(last)));
    let name = id.to_string();
    wait::until("the first line", DEADLINE, || {
        let (_, text) = run(&cluster, &["logs", &name]);
        let shown = "==> stdout <==\n␛[2Jfirst\u{fffd}\n";
        wait::check(text == shown, text)
    });
    let following = command(&cluster, &["logs", "--follow", "--tail", "100", &name])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program can be started");
    gate.open();
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
    let output = following
        .wait_with_output()
        .expect("it ends with the container");
    let text = String::from_utf8(output.stdout).expect("the output is text");
    assert!(output.status.success() && text.contains("last\n"), "{text}");
    // Three megabytes of NUL at once: shown is a tail of 100, or what half a second may bring.
    assert!(
        text.len() < 4 << 20 && !text.contains(['\0', '\u{1b}']),
        "{}",
        text.len()
    );
    assert_eq!(run(&cluster, &["logs", &name, "../stdout"]).0, Some(2));
    assert_eq!(run(&cluster, &["logs", &name, "nothing"]).0, Some(5));
}

#[test]
fn an_application_and_a_container_are_explained_and_followed_to_their_end() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let id = cluster.am.run(&gate.then("true"));
    let application = id.application_id().to_string();
    let (code, text) = run(&cluster, &["explain", &application]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("1 containers run, 0 wait, 1 are remembered"),
        "{text}"
    );
    assert!(text.contains(&format!("{id}  Started at once\n")), "{text}");
    let following = command(&cluster, &["explain", "--follow", &id.to_string()])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program can be started");
    gate.open();
    let output = following
        .wait_with_output()
        .expect("it ends with the container");
    let text = String::from_utf8(output.stdout).expect("the output is text");
    assert!(text.contains("Completed with exit status 0\n"), "{text}");
    assert_eq!(text.matches("Started at once").count(), 1, "{text}");
    assert_eq!(run(&cluster, &["explain", "application_1_0009"]).0, Some(5));
}
