//! Real scripts and their processes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crossbeam_channel::unbounded;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use test_support::{replace_file, write_program};

use super::*;

/// Longer than any of these scripts takes on a busy machine.
const LONG_MS: u64 = 600_000;

struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, text: &str) -> HealthScript {
        let path = self.path("script");
        write_program(&path, text);
        HealthScript {
            name: "script".to_owned(),
            path,
            opts: vec!["one".to_owned(), "two words".to_owned()],
            timeout_ms: LONG_MS,
            interval_ms: LONG_MS,
        }
    }
}

fn environment() -> BTreeMap<String, String> {
    let path = std::env::var("PATH").unwrap();
    BTreeMap::from([
        ("PATH".to_owned(), path),
        ("OF".to_owned(), "us".to_owned()),
    ])
}

fn run_once(script: &HealthScript) -> Verdict {
    let (_running, stopped) = bounded(0);
    run::run(script, &environment(), &stopped).unwrap()
}

fn verdict_of(text: &str) -> Verdict {
    run_once(&Lab::new().script(text))
}

fn is_alive(pid: &Path) -> bool {
    let pid = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH)
}

#[test]
fn a_fault_counts_only_on_the_output_of_a_script_that_succeeds() {
    let fault = verdict_of("#!/bin/sh\necho checking; echo ERROR \"$1 $2\" of $OF; echo end\n");
    assert_eq!(
        fault,
        Verdict::unhealthy("checking\nERROR one two words of us\nend\n".to_owned())
    );
    for healthy in [
        "#!/bin/sh\necho fine\n",
        "#!/bin/sh\necho ERROR >&2\n",
        "#!/bin/sh\necho ERROR; exit 1\n",
        "#!/bin/sh\necho ERROR; kill -9 $$\n",
    ] {
        assert_eq!(verdict_of(healthy), Verdict::healthy(), "{healthy}");
    }
}

#[test]
fn a_script_without_an_interpreter_is_one_for_the_shell_and_others_cannot_run() {
    assert_eq!(verdict_of("echo ERROR $2\n").report, "ERROR two words\n");
    let verdict = verdict_of("#!/no/such/interpreter\n");
    assert!(!verdict.is_healthy);
    assert!(
        verdict
            .report
            .starts_with("java.io.IOException: Cannot run program \"/")
            && verdict
                .report
                .ends_with("\": error=2, No such file or directory"),
        "{}",
        verdict.report
    );
}

#[test]
fn a_script_that_takes_too_long_is_ended_with_all_that_it_started() {
    let lab = Lab::new();
    let (leader, other) = (lab.path("leader"), lab.path("other"));
    let text = format!(
        "#!/bin/bash\nsleep 600 & echo $! > {}\necho $$ > {}\ntrap '' TERM\nwait\nsleep 600\n",
        other.display(),
        leader.display()
    );
    let mut script = lab.script(&text);
    // It writes both files long before; if it does not, the test fails rather than passing.
    script.timeout_ms = 5_000;
    let verdict = run_once(&script);
    assert_eq!(
        verdict,
        Verdict::unhealthy("Node health script timed out".to_owned())
    );
    assert!(!is_alive(&leader), "the leader was not reaped");
}

#[test]
fn an_output_that_stays_open_is_waited_for_as_hadoop_does() {
    let mut script = Lab::new().script("#!/bin/sh\nsleep 600 &\necho fine\n");
    script.timeout_ms = 500;
    let lab = Lab::new();
    script.path = lab.script("#!/bin/sh\nsleep 600 &\necho fine\n").path;
    assert_eq!(run_once(&script).report, "Node health script timed out");
    // One that closes its output and lives on is waited for, too.
    let text = "#!/bin/sh\nexec >&-\nexec sleep 600\n";
    script.path = lab.script(text).path;
    assert_eq!(run_once(&script).report, "Node health script timed out");
}

#[test]
fn endless_output_does_not_fill_the_memory_and_ends_with_the_deadline() {
    let lab = Lab::new();
    let mut script = lab.script("#!/bin/sh\nexec yes ERROR\n");
    script.timeout_ms = 300;
    assert_eq!(run_once(&script).report, "Node health script timed out");
}

#[test]
fn a_missing_or_unexecutable_script_is_not_run() {
    let lab = Lab::new();
    let mut script = lab.script("");
    assert!(script.can_run());
    fs::set_permissions(&script.path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(!script.can_run());
    script.path = lab.path("absent");
    assert!(!script.can_run());
}

#[test]
fn scripts_run_again_and_again_and_a_stop_ends_what_hangs() {
    let (lab, hanging) = (Lab::new(), Lab::new());
    let state = lab.path("state");
    let mut quick = lab.script(&format!("#!/bin/sh\ncat {}\n", state.display()));
    quick.interval_ms = 1;
    fs::write(&state, "ERROR one\n").unwrap();
    let pid = hanging.path("pid");
    let hung = hanging.script(&format!(
        "#!/bin/sh\necho $$ > {}\nsleep 600\n",
        pid.display()
    ));
    let (verdicts, told) = unbounded();
    let scripts = Scripts::start(vec![quick, hung], environment(), move |index, verdict| {
        drop(verdicts.send((index, verdict)));
    })
    .unwrap();
    assert_eq!(
        told.recv().unwrap(),
        (0, Verdict::unhealthy("ERROR one\n".to_owned()))
    );
    replace_file(&state, "fine\n");
    while told.recv().unwrap() != (0, Verdict::healthy()) {}
    while !pid.exists() || fs::read_to_string(&pid).unwrap().is_empty() {
        told.recv().unwrap();
    }
    scripts.stop();
    assert!(!is_alive(&pid));
    assert!(told.iter().all(|(index, _)| index == 0));
}
