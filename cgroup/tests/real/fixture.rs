//! A separate root for each test, and small programs to put into cgroups.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cgroup::{
    Cgroup, Child, Command, Controller, Delegation, Layout, Parent, Root, RootConfig, Unusable,
    spawn,
};
use test_support::skip::{print_skipped_by_kernel, skip, skip_by_kernel};

/// Timeout of steps that should take milliseconds, on a machine that is busy building.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Hierarchies that a test uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Every hierarchy of the machine, as the agent does.
    All,
    /// Hierarchies of version 1 only.
    Legacy,
}

impl Use {
    /// Reports a skipped test. What is not mounted is the kernel's matter, and a machine without
    /// legacy hierarchies never fails one; other reasons, such as missing rights, can be mended.
    fn skip(self, test: &str, why: &Unusable) {
        match (why, self) {
            (Unusable::NotMounted, Self::All) => skip_by_kernel(test, why),
            (Unusable::NotMounted, Self::Legacy) => print_skipped_by_kernel(test, why),
            (
                Unusable::NotDelegated
                | Unusable::NoRights(_)
                | Unusable::Busy(_)
                | Unusable::InUse { .. }
                | Unusable::Broken(_),
                _,
            ) => skip(test, why),
        }
    }
}

/// The root of one test, with one class in it. Removed on drop.
pub(crate) struct TestRoot {
    pub(crate) parent: Parent,
    root: Option<Root>,
    name: String,
}

impl TestRoot {
    /// Creates the root. Returns `None` and reports the test as skipped if a controller is not
    /// usable.
    pub(crate) fn new(test: &str, what: Use, wanted: &[Controller]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nm-agent-test-{}-{number}", std::process::id());
        let layout = Layout::of_this_process();
        let layout = match what {
            Use::All => layout,
            Use::Legacy => layout.without_unified(),
        };
        let config = RootConfig {
            hierarchy: Some(&name),
            wanted,
            delegation: Delegation::None,
            own_leaf: "agent",
            delegated_root: "all",
        };
        let root = match Root::open(&layout, &config) {
            Ok(root) => root,
            Err(error) => {
                what.skip(test, &error);
                return None;
            }
        };
        let test_root = Self {
            parent: root.parent("class").unwrap(),
            root: Some(root),
            name,
        };
        let root = test_root.root.as_ref().unwrap();
        if let Some(controller) = wanted.iter().find(|wanted| !root.controls(**wanted)) {
            let mut missing = root.missing().iter();
            let missing = missing.find(|missing| missing.controllers.contains(controller));
            let why = missing.map_or(&Unusable::NotMounted, |missing| &missing.reason);
            what.skip(&format!("{test}: {controller}"), why);
            return None;
        }
        Some(test_root)
    }

    pub(crate) fn root(&self) -> &Root {
        self.root.as_ref().unwrap()
    }

    pub(crate) fn group(&self, name: &str) -> Cgroup {
        self.parent.create(name).unwrap()
    }
}

impl Drop for TestRoot {
    /// Removes all cgroups, also when a test fails.
    fn drop(&mut self) {
        for group in self.parent.children().unwrap_or_default() {
            drop(group.destroy(TIMEOUT));
        }
        let Some(root) = self.root.take() else {
            return;
        };
        for path in root.paths() {
            assert!(path.ends_with(&self.name), "{}", path.display());
            drop(std::fs::remove_dir(path.join("class")));
            drop(std::fs::remove_dir(&path));
        }
    }
}

/// A bash script that runs in a cgroup, with a pipe as its output. Killed and reaped when dropped.
pub(crate) struct Script {
    pub(crate) child: Child,
    output: File,
}

impl Script {
    pub(crate) fn start(text: &str, group: Option<&Cgroup>) -> Self {
        let (read, write) = nix::unistd::pipe().unwrap();
        let script = CString::new(text).unwrap();
        let child = run(&[c"bash", c"-c", &script], group, &write).unwrap();
        Self {
            child,
            output: File::from(read),
        }
    }

    /// Waits for a line of the output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.output.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// Waits for the exit; returns the exit code, or 128 and the signal.
    pub(crate) fn wait(&mut self) -> i32 {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        let id = Id::PIDFd(self.child.handle.as_fd());
        let status = waitid(id, WaitPidFlag::WEXITED).unwrap();
        if let WaitStatus::Signaled(_, signal, _) = status {
            return 128 + signal as i32;
        }
        let WaitStatus::Exited(_, code) = status else {
            panic!("{status:?}");
        };
        code
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        use nix::sys::signal::{Signal, killpg};
        use nix::unistd::Pid;
        let _ = killpg(Pid::from_raw(self.child.pid), Signal::SIGKILL);
    }
}

pub(crate) fn run(
    arguments: &[&CStr],
    group: Option<&Cgroup>,
    output: &OwnedFd,
) -> Result<Child, cgroup::SpawnError> {
    let directory = File::open("/").unwrap();
    let environment = [c"PATH=/usr/bin:/bin", c"OWN_PID=", c"LC_ALL=C"].map(CStr::to_owned);
    let command = Command {
        environment: &environment,
        pid_entry: Some(1),
        stdio: [None, Some(output.as_fd()), None],
        ..plain(c"/bin/bash", arguments, &directory)
    };
    spawn(&command, group)
}

/// Returns a command with nothing but what it needs: no environment, output, note or last step.
pub(crate) fn plain<'a>(
    program: &'a CStr,
    arguments: &'a [&'a CStr],
    directory: &'a File,
) -> Command<'a> {
    Command {
        program,
        arguments,
        environment: &[],
        pid_entry: None,
        directory: directory.as_fd(),
        stdio: [None; 3],
        open_files: None,
        note: None,
        before_exec: None,
    }
}

/// Polls until a condition holds; fails after [`TIMEOUT`]. Each pause is twice the one before, up
/// to 64 ms: a condition that reads a pressure file resets what it waits for when it looks more
/// often than once in a jiffy, which takes up to 10 ms (see `cgroup/src/pressure.rs`).
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    let mut pause = Duration::from_millis(2);
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(64));
    }
}

/// Reads a control file of a cgroup in the first hierarchy that has it, trimmed.
pub(crate) fn read_control_file(paths: &[std::path::PathBuf], file: &str) -> Option<String> {
    let text = |path: &Path| std::fs::read_to_string(path.join(file)).ok();
    paths
        .iter()
        .find_map(|path| text(path))
        .map(|text| text.trim().to_owned())
}
