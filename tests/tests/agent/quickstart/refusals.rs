//! Environments that the command cannot work in: each message names the next step, the exit status
//! is right, and nothing is left.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use tests::wait;

use crate::AGENT;
use crate::quickstart::run::{DEADLINE, Run, lines, program_for_all};

/// Id of the user and group `nobody`, which own nothing.
const NOBODY: &str = "65534";

#[track_caller]
fn refused(mut run: Run, status: i32, output: &[&str]) {
    assert_eq!(run.end().code(), Some(status), "{}", run.output());
    let log = run.output();
    for part in output {
        assert!(log.contains(part), "{part}: {log}");
    }
    run.assert_nothing_is_left();
}

/// Returns the lowest of this many neighbouring free ports.
fn neighbours(count: u16) -> u16 {
    wait::until("free neighbouring ports", DEADLINE, || {
        let first = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
        let begin = first
            .local_addr()
            .map_err(|error| error.to_string())?
            .port();
        let rest = (1..count).map(|offset| {
            let port = begin.checked_add(offset).ok_or("no port is higher")?;
            TcpListener::bind(("127.0.0.1", port)).map_err(|error| error.to_string())
        });
        rest.collect::<Result<Vec<_>, String>>().map(|_| begin)
    })
}

#[test]
fn a_port_that_is_taken_is_told_with_who_has_it_and_what_to_change() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let own = format!("process {}", std::process::id());
    let run = Run::start(&["--once", "--port", &port]);
    refused(run, 1, &[&port, &own, "--port", "ResourceManager"]);
}

#[test]
fn a_nodes_port_that_is_taken_ends_what_was_started_before() {
    let begin = neighbours(4);
    let second = begin + 2;
    let _taken = TcpListener::bind(("127.0.0.1", second)).unwrap();
    let run = Run::start(&["--once", "--port", &begin.to_string()]);
    refused(run, 1, &["starting node 2", &second.to_string(), "--port"]);
}

#[test]
fn pages_are_on_the_ports_that_were_asked_for() {
    let begin = neighbours(4);
    let mut run = Run::start(&["--port", &begin.to_string()]);
    let pages = run.pages();
    assert_eq!(pages.rm, format!("http://127.0.0.1:{begin}"));
    let last = begin + 3;
    assert_eq!(pages.nodes[2], format!("http://127.0.0.1:{last}"));
    run.process.terminate();
    assert_eq!(run.end().code(), Some(143), "{}", run.output());
    run.assert_nothing_is_left();
}

#[test]
fn a_temporary_folder_that_cannot_be_written_is_named_with_its_variable() {
    for path in ["/proc/1", "/nowhere/at/all", "/dev/null"] {
        let run = Run::start_with(&["--once"], |command| {
            command.env("TMPDIR", path);
        });
        refused(run, 1, &[path, "TMPDIR"]);
    }
}

#[test]
fn too_few_files_are_told_with_how_to_raise_the_limit() {
    let run = Run::start_with(&["--once"], |command| {
        let program = command.get_program().to_owned();
        let tmp = command.get_envs().find(|(name, _)| *name == "TMPDIR");
        let tmp = tmp.and_then(|(_, value)| value).unwrap().to_owned();
        *command = Command::new("bash");
        command
            .args(["-c", "ulimit -n 64 && exec \"$0\" quickstart --once"])
            .arg(program)
            .env("TMPDIR", tmp);
    });
    refused(run, 1, &["64", "ulimit -n"]);
}

#[test]
fn bad_arguments_are_refused_with_their_reason() {
    for (arguments, output) in [
        (["--nodes", "2"], "nothing would be shed"),
        (["--nodes", "17"], "at most 16"),
        (["--nodes", "x"], "whole number"),
        (["--port", "0"], "--port"),
        (["--port", "65534"], "65532"),
    ] {
        let run = Run::start(&arguments);
        refused(run, 2, &[output]);
    }
}

#[test]
fn help_names_every_option_and_exit_status() {
    let output = Command::new(AGENT)
        .args(["quickstart", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for part in [
        "--nodes",
        "--once",
        "--port",
        "TMPDIR",
        "NO_COLOR",
        "NM_AGENT_LOG",
        "130",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_and_leaves_nothing() {
    let base = tempfile::tempdir().unwrap();
    let mut child = Command::new(AGENT)
        .arg("quickstart")
        .env("TMPDIR", base.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let status = wait::until("its end", DEADLINE, || {
        child.try_wait().ok().flatten().ok_or("it runs")
    });
    assert_eq!(status.code(), Some(1));
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    assert!(tests::proc::mentioning(base.path()).is_empty());
}

/// Runs as another user, which needs root; an ordinary user runs all other tests of this file as
/// such.
#[test]
fn an_ordinary_user_is_enough() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let program = program_for_all(base.path());
    let tmp = base.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    fs::set_permissions(&tmp, fs::Permissions::from_mode(0o1777)).unwrap();
    let mut child = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .arg(program)
        .args(["quickstart", "--once"])
        .env("TMPDIR", &tmp)
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = lines(child.stdout.take().unwrap());
    let status = child.wait().unwrap();
    assert!(status.success(), "{output:#?}");
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
    assert!(tests::proc::mentioning(&tmp).is_empty());
}
