//! Time until the quick start shows something: from the spawn of `nm-agent quickstart` to the first
//! instruction of the first opportunistic container, compared with this machine's limit.
//!
//! `cargo bench -p tests --bench quickstart` prints both; `--quick` takes few samples. The limit is
//! what must be executed in sequence in any case: the program, the shell of the master's container
//! and the program again, the shell of the first container and its command. Nothing passes or
//! fails.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::bench::{self, Row, Table, Unit};
use tests::samples::Samples;
use tests::wait;

/// Path of the agent, built as it is released.
const AGENT: &str = env!("CARGO_BIN_EXE_agent-under-test");

/// Deadline for one run to show its first container, and to end.
const DEADLINE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let runs = match bench::start(&[]) {
        Ok(arguments) if arguments.quick => 5,
        Ok(_) => 100,
        Err(code) => return code,
    };
    let limit = Samples::take(runs, |_| processes_in_a_row());
    let found = Samples::take(runs, |_| first_instruction());
    let limit = limit.or_shorter(Samples::take(runs, |_| processes_in_a_row()));
    let mut table = Table::default();
    let what = "quick start: process start to the first opportunistic instruction";
    table.push(Row::new(what, Unit::Ms, &found).limit(&limit));
    print!("\n{}", table.render());
    ExitCode::SUCCESS
}

fn processes_in_a_row() -> Duration {
    let begin = Instant::now();
    let exec_agent = format!("exec '{AGENT}' --version");
    for (program, arguments) in [
        (AGENT, vec!["--version"]),
        ("/bin/bash", vec!["-c", exec_agent.as_str()]),
        ("/bin/bash", vec!["-c", "exec /bin/bash -c :"]),
    ] {
        let status = Command::new(program)
            .args(arguments)
            .stdout(Stdio::null())
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{program}");
    }
    begin.elapsed()
}

/// Runs the quick start until its first container has written its line, then ends it as Ctrl-C
/// does.
fn first_instruction() -> Duration {
    let base = tempfile::tempdir().expect("a temporary folder can be made");
    let begin = SystemTime::now();
    let mut child = Command::new(AGENT)
        .args(["quickstart", "--once"])
        .env("TMPDIR", base.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the agent starts");
    let first = wait::until("the first container", DEADLINE, || {
        first_line(base.path()).ok_or("nothing was written")
    });
    interrupt(&mut child);
    first
        .duration_since(begin)
        .expect("it was written after the start")
}

fn interrupt(child: &mut Child) {
    let pid = i32::try_from(child.id()).expect("a process id is a positive 32-bit number");
    kill(Pid::from_raw(pid), Signal::SIGINT).expect("the child is there");
    child.wait().expect("a child can be waited for");
}

/// Returns the time of the first line of a container that is not a master's.
fn first_line(base: &Path) -> Option<SystemTime> {
    let below = |folder: &Path| -> Vec<_> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let nodes = below(base).into_iter().flat_map(|own| below(&own));
    let applications = nodes.flat_map(|node| below(&node.join("logs")));
    let containers = applications.flat_map(|application| below(&application));
    let lines = containers.filter(|folder| !folder.to_string_lossy().ends_with("_000001"));
    lines
        .filter_map(|folder| fs::metadata(folder.join("stdout")).ok())
        .filter(|line| line.len() > 0)
        .filter_map(|line| line.modified().ok())
        .min()
}
