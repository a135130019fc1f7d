//! Claims about runs of scripts, with `/bin/sh` as the program.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use test_support::write_program;

use super::*;

/// Time limit that no script of a test reaches unless it hangs.
const LONG: Duration = Duration::from_secs(60);

fn shell(text: &str) -> Script {
    Script {
        path: "/bin/sh".into(),
        arguments: vec!["-c".to_owned(), text.to_owned()],
        timeout: LONG,
    }
}

fn environment() -> BTreeMap<String, String> {
    BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())])
}

fn run_script(script: &Script) -> Result<Output<Printed>, ScriptError> {
    script.run(&environment(), Printed::default(), || false)
}

fn run(text: &str) -> Output<Printed> {
    run_script(&shell(text)).unwrap()
}

#[test]
fn both_outputs_and_the_exit_status_are_returned() {
    let output = run("echo out; echo err >&2; exit 3");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout.text(), "out\n");
    assert_eq!(output.stderr.text(), "err\n");
    assert!(!output.stdout.is_cut());
}

#[test]
fn the_arguments_reach_the_program_and_its_input_is_empty() {
    let script = Script {
        arguments: ["-c", "cat; echo $0", "a b"].map(str::to_owned).into(),
        ..shell("")
    };
    assert_eq!(run_script(&script).unwrap().stdout.text(), "a b\n");
}

#[test]
fn an_endless_output_is_read_and_its_beginning_kept() {
    let output = run("yes 0123456 | head -c 10000000; yes | head -c 3000000 >&2; echo last");
    assert_eq!(output.status.code(), Some(0));
    for printed in [output.stdout, output.stderr] {
        assert_eq!(
            (printed.text().len(), printed.is_cut()),
            (OUTPUT_BYTES_MAX, true)
        );
    }
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    assert_eq!(run("printf 'a\\377b'").stdout.text(), "a\u{fffd}b");
}

#[test]
fn a_script_that_takes_too_long_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let script = Script {
        timeout: Duration::from_millis(300),
        ..shell(&format!(
            "trap '' TERM; sleep 600 & echo $$ $! > {}; echo partial; wait; sleep 600",
            pids.display()
        ))
    };
    let error = run_script(&script).unwrap_err();
    assert!(matches!(error, ScriptError::TimedOut { .. }), "{error}");
    assert_eq!(error.to_string(), "/bin/sh did not end within 300 ms");
    assert_gone(&pids);
}

/// Asserts that the processes in this file have ended, if the script came as far as to write it.
#[track_caller]
fn assert_gone(pids: &Path) {
    for pid in fs::read_to_string(pids)
        .unwrap_or_default()
        .split_whitespace()
    {
        // A killed child may be a zombie until its new parent has reaped it.
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let is_gone = status.is_empty() || status.contains("State:\tZ");
        assert!(is_gone || has_ended_soon(pid), "{pid} is alive: {status}");
    }
}

fn has_ended_soon(pid: &str) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < LONG {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        if status.is_empty() || status.contains("State:\tZ") {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[test]
fn the_stop_of_the_agent_ends_a_script() {
    let looks = Cell::new(0);
    let is_stopping = || looks.replace(looks.get() + 1) == 2;
    let error = shell("sleep 600").run(&environment(), Printed::default(), is_stopping);
    assert!(matches!(error, Err(ScriptError::Stopped(_))), "{error:?}");
}

#[test]
fn a_process_that_is_left_behind_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let output = run(&format!(
        "sleep 600 >&- 2>&- & echo $! > {}; echo done",
        pids.display()
    ));
    assert_eq!(output.stdout.text(), "done\n");
    assert!(pids.exists());
    assert_gone(&pids);
}

#[test]
fn an_output_that_stays_open_is_waited_for() {
    let output = run("(sleep 0.2; echo late) & echo early");
    assert_eq!(output.stdout.text(), "early\nlate\n");
}

#[test]
fn the_environment_is_the_given_one() {
    assert_eq!(run("echo \"[$HOME]\"").stdout.text(), "[]\n");
}

#[test]
fn a_script_that_closes_its_outputs_is_waited_for() {
    let output = run("exec >&- 2>&-; sleep 0.2; exit 5");
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn a_file_without_an_interpreter_is_a_script_for_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    write_program(&path, "echo $1\n");
    let script = Script {
        path,
        arguments: vec!["argument".to_owned()],
        timeout: LONG,
    };
    assert_eq!(run_script(&script).unwrap().stdout.text(), "argument\n");
}

#[test]
fn only_an_executable_file_can_be_started() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "#!/bin/sh\n").unwrap();
    for path in [folder.path().join("missing"), plain, folder.path().into()] {
        let script = Script {
            path: path.clone(),
            ..shell("")
        };
        let checked = script.check().unwrap_err();
        assert!(matches!(checked, ScriptError::Start { .. }), "{checked}");
        let run = run_script(&script).unwrap_err();
        assert!(matches!(run, ScriptError::Start { .. }), "{run}");
        assert!(
            run.to_string().contains(&path.display().to_string()),
            "{run}"
        );
    }
    shell("").check().unwrap();
}
