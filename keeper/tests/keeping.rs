//! Front, keeper and program, each this test binary in a role that its first argument names. The
//! children wait at a pipe of the test's folder, so nothing here depends on time.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use keeper::{ExitRecords, Kept, ProcessIdentity, die_with_parent, front, keep};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use test_support::mounts;

const VARIABLE: &str = "KEPT_NAME";
/// File whose text is added to the names of the children.
const PADDING: &str = "padding";
const DEADLINE: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let role = arguments.get(1).and_then(|role| role.to_str());
    let folder = || PathBuf::from(&arguments[2]);
    match role {
        Some("front") => {
            let arguments = [OsString::from("keep"), folder().into()];
            let status = front(
                "kept-test",
                arguments,
                &[(Signal::SIGTERM, Signal::SIGTERM)],
                None,
            )
            .unwrap();
            std::process::exit(status.into());
        }
        Some("keep") => {
            let folder = folder();
            let arguments = [OsString::from("program"), folder.clone().into()];
            keep(Kept {
                folder: &folder.join("records"),
                name: "kept-test",
                arguments: &arguments,
                variable: VARIABLE,
                handed_on: None,
                when_left: &mut || fs::write(folder.join("left"), "").unwrap(),
            })
            .unwrap();
        }
        Some("program") => program(&folder(), arguments[3].to_str().unwrap()),
        _ => {
            statuses_of_children_survive_a_program_that_is_killed();
            the_front_ends_as_the_program_ends();
            a_full_disk_delays_records_and_loses_none();
            println!("3 tests of front, keeper and program passed");
        }
    }
}

/// Starts two children that wait for the test, says so, and waits for its own end.
fn program(folder: &Path, keeper: &str) {
    die_with_parent(keeper.parse().unwrap()).unwrap();
    let padding = fs::read_to_string(folder.join(PADDING)).unwrap_or_default();
    let spawn = |name: &str, script: &str| -> Child {
        Command::new("sh")
            .args(["-c", script])
            .current_dir(folder)
            .env(VARIABLE, format!("{name}{padding}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let children = [
        spawn("seven", "read _ <gate; exit 7"),
        spawn("killed", "read _ <gate; kill -s KILL $$"),
    ];
    let mut text = std::process::id().to_string();
    for child in &children {
        // A process is told to have executed its program a moment before its environment is there.
        let environment = format!("/proc/{}/environ", child.id());
        until(|| (!fs::read(&environment).unwrap().is_empty()).then_some(()));
        text += &format!(" {}", child.id());
    }
    fs::write(folder.join("pids.new"), text).unwrap();
    fs::rename(folder.join("pids.new"), folder.join("pids")).unwrap();
    // Ends with 143 on SIGTERM, by the default action.
    let _end = fs::read(folder.join("never"));
}

/// A front with all that is below it.
struct Started {
    folder: tempfile::TempDir,
    front: Child,
    program: i32,
    children: Vec<ProcessIdentity>,
}

fn start() -> Started {
    start_in(tempfile::tempdir().unwrap())
}

fn start_in(folder: tempfile::TempDir) -> Started {
    for name in ["gate", "never"] {
        mkfifo(&folder.path().join(name), Mode::S_IRWXU).unwrap();
    }
    let front = Command::new(std::env::current_exe().unwrap())
        .arg("front")
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pids = until(|| fs::read_to_string(folder.path().join("pids")).ok());
    let mut pids = pids.split(' ').map(|pid| pid.parse().unwrap());
    let program = pids.next().unwrap();
    let children = pids.map(|pid| ProcessIdentity::of(pid).unwrap()).collect();
    Started {
        folder,
        front,
        program,
        children,
    }
}

fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "the deadline has passed");
        std::thread::yield_now();
    }
}

/// Waits for both statuses; the children are let go when they are known to be the keeper's.
fn statuses(started: &Started) -> Vec<Option<i32>> {
    let records = started.folder.path().join("records");
    let mut records = ExitRecords::read(&records).unwrap();
    let mut names: Vec<_> = records
        .left()
        .iter()
        .map(|left| left.variable.clone().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["killed", "seven"]);
    assert_eq!(records.keepers().len(), 1);
    // Kept open for the second child, which may be late; each reads a line.
    let mut gate = OpenOptions::new();
    let gate = gate.read(true).write(true);
    let mut gate = gate.open(started.folder.path().join("gate")).unwrap();
    gate.write_all(b"\n\n").unwrap();
    let status = |records: &mut ExitRecords, child: &ProcessIdentity| {
        until(|| {
            records.refresh().unwrap();
            records.status(child)
        })
    };
    let statuses = started.children.iter();
    let statuses = statuses.map(|child| Some(status(&mut records, child)));
    let statuses = statuses.collect();
    until(|| records.keepers().is_empty().then_some(()));
    records.delete_finished(&std::collections::BTreeSet::new());
    let left = ExitRecords::read(&started.folder.path().join("records")).unwrap();
    assert!(left.left().is_empty());
    statuses
}

fn statuses_of_children_survive_a_program_that_is_killed() {
    // Killed itself; and by the death of its front.
    for kill_front in [false, true] {
        let mut started = start();
        if kill_front {
            started.front.kill().unwrap();
        } else {
            kill(Pid::from_raw(started.program), Signal::SIGKILL).unwrap();
        }
        // Its output ends although the keeper lives: nobody who reads a log waits for that.
        let mut output = started.front.stdout.take().unwrap();
        output.read_to_end(&mut Vec::new()).unwrap();
        let status = started.front.wait().unwrap();
        if !kill_front {
            assert_eq!(status.code(), Some(137));
        }
        until(|| {
            let records = ExitRecords::read(&started.folder.path().join("records"));
            (!records.unwrap().left().is_empty()).then_some(())
        });
        until(|| started.folder.path().join("left").exists().then_some(()));
        assert_eq!(statuses(&started), [Some(7), Some(137)]);
    }
}

fn the_front_ends_as_the_program_ends() {
    let mut started = start();
    let front = i32::try_from(started.front.id()).unwrap();
    kill(Pid::from_raw(front), Signal::SIGTERM).unwrap();
    assert_eq!(started.front.wait().unwrap().code(), Some(143));
    assert!(started.folder.path().join("left").exists(), "told before");
    assert_eq!(statuses(&started), [Some(7), Some(137)]);
}

fn a_full_disk_delays_records_and_loses_none() {
    const DISK_BYTES: u64 = 64 << 10;
    let name = "a_full_disk_delays_records_and_loses_none";
    mounts::with_own_mounts(name, || {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("records");
        fs::create_dir(&records).unwrap();
        // Smaller than what a keeper reserves, so that nothing is.
        mounts::small_disk(&records, DISK_BYTES);
        // The page that the header is in has room for a few bytes.
        fs::write(folder.path().join(PADDING), "x".repeat(4_000)).unwrap();
        let mut started = start_in(folder);
        let ballast = records.join("ballast");
        let mut rest = fs::File::create(&ballast).unwrap();
        while rest.write(&[0; 64]).is_ok() {}
        kill(Pid::from_raw(started.program), Signal::SIGKILL).unwrap();
        started.front.wait().unwrap();
        let keeper = keeper_of(&started.children[0]);
        for child in &started.children {
            kill(Pid::from_raw(child.pid), Signal::SIGUSR1).unwrap();
        }
        // Both have ended, and are not reaped before that is written.
        for child in &started.children {
            until(|| (!child.lives()).then_some(()));
        }
        let after_a_try = Instant::now() + Duration::from_millis(2_500);
        until(|| (Instant::now() > after_a_try).then_some(()));
        assert!(keeper.lives(), "the keeper gave up");
        fs::remove_file(ballast).unwrap();
        drop(rest);
        let expected = 128 + Signal::SIGUSR1 as i32;
        for child in &started.children {
            let status = until(|| {
                let read = ExitRecords::read(&records).unwrap();
                read.status(child)
            });
            assert_eq!(status, expected);
        }
    });
}

/// Returns the parent of a process.
fn keeper_of(child: &ProcessIdentity) -> ProcessIdentity {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let parent = after_name.split_ascii_whitespace().nth(1).unwrap();
    ProcessIdentity::of(parent.parse().unwrap()).unwrap()
}
