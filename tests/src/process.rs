//! A child in a process group of its own, with its output in files; dropping its handle ends it.
//!
//! The group is killed on drop, also in a panic, and then the tail of the output is printed. If the
//! test process itself is killed (an interrupted `cargo test`), a small watchdog notices that its
//! pipe closed and kills the group.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::signal::unix::{SignalKind, signal};

use crate::wait;

/// Lines of each output file that a failed test prints: enough for a Java stack trace and what led
/// to it.
const TAIL_LINES: usize = 40;

/// Start of the line in which a Java process prints its whole class path.
const LINE_BYTES_MAX: usize = 1000;

/// A child, with every process that it starts without leaving its process group.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    watchdog: Child,
    exit: Option<ExitStatus>,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// Restores the default action of SIGHUP for processes started from now on, also when these tests
/// were started to ignore it, as by `nohup`: a signal that is handled here has its default action
/// there.
///
/// # Panics
/// When the signal cannot be handled.
pub fn let_children_hang_up() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let _within = runtime.enter();
    // The signal stays handled when nothing listens any more.
    let _listening = signal(SignalKind::hangup())
        .unwrap_or_else(|error| panic!("cannot listen for SIGHUP: {error}"));
}

impl Process {
    /// Starts `command` with its output in `<name>.stdout` and `<name>.stderr` in `folder`; a
    /// second start under the same name appends.
    ///
    /// # Panics
    /// When the command cannot be started.
    #[must_use]
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Self {
        use std::os::unix::process::CommandExt as _;
        let (stdout, stderr) = (
            folder.join(format!("{name}.stdout")),
            folder.join(format!("{name}.stderr")),
        );
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(append(&stdout))
            .stderr(append(&stderr))
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name} ({command:?}): {error}"));
        let watchdog = Command::new("sh")
            .args(["-c", "read -r _; kill -s KILL -- \"-$0\""])
            .arg(child.id().to_string())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start the watchdog of {name}: {error}"));
        Self {
            name: name.to_owned(),
            child,
            watchdog,
            exit: None,
            stdout,
            stderr,
        }
    }

    /// Returns the process id, which is also the group's.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns all output so far, standard output first.
    #[must_use]
    pub fn log(&self) -> String {
        read(&self.stdout) + &read(&self.stderr)
    }

    /// Returns the exit status, once the process has ended.
    pub fn exit(&mut self) -> Option<ExitStatus> {
        if self.exit.is_none() {
            self.exit = self
                .child
                .try_wait()
                .expect("a child that was not waited for can be waited for");
        }
        self.exit
    }

    /// Sends SIGTERM to the process, not to its group.
    pub fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Sends a signal to the process, not to its group.
    pub fn signal(&self, signal: Signal) {
        // The process may have ended by itself.
        let _ = kill(self.pid(), signal);
    }

    /// Kills the whole group at once and waits for the process.
    pub fn kill(&mut self) {
        let _ = killpg(self.pid(), Signal::SIGKILL);
        if self.exit.is_none() {
            self.exit = self.child.wait().ok();
        }
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// At the deadline.
    #[track_caller]
    pub fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        wait::until(what, deadline, || self.exit().ok_or("it runs"))
    }

    /// Waits until the output holds `text`.
    ///
    /// # Panics
    /// At the deadline, or when the process has ended without it.
    #[track_caller]
    pub fn wait_log(&mut self, text: &str, deadline: Duration) {
        let what = format!("{text:?} in the log of {}", self.name);
        wait::until(what, deadline, || {
            let exit = self.exit();
            if self.log().contains(text) {
                return Ok(());
            }
            assert!(
                exit.is_none(),
                "{} ended with {exit:?} and without writing {text:?}",
                self.name
            );
            Err("not written")
        });
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(
            i32::try_from(self.child.id()).expect("a process id is a positive 32-bit number"),
        )
    }

    fn print_tail(&self) {
        for file in [&self.stdout, &self.stderr] {
            let text = read(file);
            let lines: Vec<&str> = text.lines().collect();
            let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
            eprintln!(
                "---- end of {} ({} of {} lines)",
                file.display(),
                tail.len(),
                lines.len()
            );
            for line in tail {
                eprintln!("{}", line.get(..LINE_BYTES_MAX).unwrap_or(line));
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // First the watchdog: it must not see its pipe close and kill a group whose number is in
        // use again.
        drop(self.watchdog.kill());
        drop(self.watchdog.wait());
        self.kill();
        if std::thread::panicking() {
            self.print_tail();
        }
    }
}

fn append(path: &Path) -> File {
    let file = File::options().create(true).append(true).open(path);
    file.unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()))
}

/// Reads a file; a missing one is empty.
fn read(path: &Path) -> String {
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// Returns `outer` with the arguments, environment and folder of `command`. `outer` is a program
/// that executes the rest of its arguments, such as `nsenter`.
#[must_use]
pub fn run_within(mut outer: Command, command: &Command) -> Command {
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        outer.current_dir(folder);
    }
    outer
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    fn shell(script: &str, folder: &Path) -> Process {
        Process::start(
            "shell",
            Command::new("sh").arg("-c").arg(script).arg(folder),
            folder,
        )
    }

    #[test]
    fn both_outputs_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = shell("echo one; echo two >&2", folder.path());
        assert!(process.wait_exit(DEADLINE).success());
        assert_eq!(process.log(), "one\ntwo\n");
    }

    #[test]
    fn dropping_the_handle_kills_the_children_of_the_child() {
        let folder = tempfile::tempdir().unwrap();
        // The folder is in the grandchild's command line, so it can be found.
        let mut process = shell(
            "sh -c 'sleep 60; :' \"$0\" & echo started; wait",
            folder.path(),
        );
        process.wait_log("started", DEADLINE);
        assert!(!crate::proc::mentioning(folder.path()).is_empty());
        drop(process);
        wait::until("the end of all", DEADLINE, || {
            let found = crate::proc::mentioning(folder.path());
            wait::check(found.is_empty(), format!("{found:?}"))
        });
    }

    #[test]
    fn the_group_is_killed_when_the_pipe_to_the_watchdog_closes() {
        use std::os::unix::process::ExitStatusExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mut process = shell("echo started; sleep 60", folder.path());
        process.wait_log("started", DEADLINE);
        // As the kernel does when this process ends without dropping anything.
        drop(process.watchdog.stdin.take());
        assert_eq!(process.wait_exit(DEADLINE).signal(), Some(9));
    }

    #[test]
    fn a_terminated_process_says_so_in_its_exit_status() {
        use std::os::unix::process::ExitStatusExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mut process = shell("echo started; exec sleep 60", folder.path());
        process.wait_log("started", DEADLINE);
        process.terminate();
        assert_eq!(process.wait_exit(DEADLINE).signal(), Some(15));
    }
}
