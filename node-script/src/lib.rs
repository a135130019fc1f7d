//! Programs of an operator that tell an agent about its node: run with a time limit, and with a
//! limit on what they print.
//!
//! Owns the process of one run at a time, for the thread that waits for it. In: a [`Script`], an
//! environment, and whether the agent stops. Out: the exit status with the output, or why there is
//! none. May not know what the output means, nor any other crate of the workspace.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{AccessFlags, Pid, access};
use thiserror::Error;

/// Limit on what [`Printed`] keeps of an output, in bytes. A script prints some lines; what it
/// prints beyond is read and dropped, so that it does not wait.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Longest wait for output before the stop of the agent is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Pause between two looks at a process that has closed its outputs and goes on.
const END_INTERVAL: Duration = Duration::from_millis(10);

/// Receiver of an output, in bounded memory.
pub trait Sink {
    /// Takes the next bytes, some kilobytes at most.
    fn take(&mut self, bytes: &[u8]);
}

/// A program with its arguments and the time that it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Path of the program, which is run without a shell.
    pub path: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Time after which a run is ended.
    pub timeout: Duration,
}

/// Output of a script that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output<S> {
    /// Exit status, or the signal that ended the script.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: S,
    /// Standard error.
    pub stderr: Printed,
}

/// The beginning of an output, at most [`OUTPUT_BYTES_MAX`] bytes of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Printed {
    /// Returns what was kept; what is not UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Returns whether more was printed.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl Sink for Printed {
    fn take(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(OUTPUT_BYTES_MAX - self.bytes.len());
        self.bytes.extend(bytes.iter().take(kept));
        self.is_cut |= kept < bytes.len();
    }
}

/// Why a script gave no output.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// The program cannot be started.
    #[error("cannot start {}", path.display())]
    Start {
        /// Path of the program.
        path: PathBuf,
        /// Reason of the system.
        #[source]
        source: io::Error,
    },
    /// The script took too long and was ended with the processes of its group.
    #[error("{} did not end within {} ms", path.display(), timeout.as_millis())]
    TimedOut {
        /// Path of the program.
        path: PathBuf,
        /// Time that it had.
        timeout: Duration,
    },
    /// The agent stops; the script was ended with the processes of its group.
    #[error("{} was ended, since the agent stops", .0.display())]
    Stopped(PathBuf),
    /// The outputs or the end of the script cannot be read.
    #[error("cannot follow {}", path.display())]
    Follow {
        /// Path of the program.
        path: PathBuf,
        /// Reason of the system.
        #[source]
        source: io::Error,
    },
}

impl Script {
    /// Checks that the program is a file that this process may execute.
    ///
    /// # Errors
    /// With the system's reason when it is not.
    pub fn check(&self) -> Result<(), ScriptError> {
        let executable = self.path.metadata().and_then(|metadata| {
            if metadata.is_file() {
                Ok(access(&self.path, AccessFlags::X_OK)?)
            } else {
                Err(Errno::EACCES.into())
            }
        });
        executable.map_err(|source| self.start_error(source))
    }

    /// Runs the program in a process group of its own, with exactly this environment and an empty
    /// standard input. Waits for its end and that of its outputs, for its time limit, or for
    /// `is_stopping`, which is asked many times a second. What is left of the group is then killed.
    /// Whoever else has an output open holds up the end of the run, as in Hadoop.
    ///
    /// # Errors
    /// [`ScriptError`]. An exit status other than 0 is none.
    pub fn run<S: Sink>(
        &self,
        environment: &BTreeMap<String, String>,
        stdout: S,
        is_stopping: impl Fn() -> bool,
    ) -> Result<Output<S>, ScriptError> {
        // A time beyond the clock's range never comes.
        let deadline = Instant::now().checked_add(self.timeout);
        let child = self.spawn(environment);
        let child = child.map_err(|source| self.start_error(source))?;
        let mut run = Run {
            child,
            is_reaped: false,
        };
        let follow_error = |source| ScriptError::Follow {
            path: self.path.clone(),
            source,
        };
        let (mut stdout, mut stderr) = (stdout, Printed::default());
        while !run.follow(&mut stdout, &mut stderr).map_err(follow_error)? {
            if is_stopping() {
                return Err(ScriptError::Stopped(self.path.clone()));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(ScriptError::TimedOut {
                    path: self.path.clone(),
                    timeout: self.timeout,
                });
            }
        }
        Ok(Output {
            status: run.end_group().map_err(follow_error)?,
            stdout,
            stderr,
        })
    }

    fn spawn(&self, environment: &BTreeMap<String, String>) -> io::Result<Child> {
        use std::os::unix::process::CommandExt as _;
        let start = |command: &mut Command| {
            command
                .args(&self.arguments)
                .env_clear()
                .envs(environment)
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
        };
        match start(&mut Command::new(&self.path)) {
            // A file without `#!` is a script for the shell, as in Java.
            Err(error) if error.raw_os_error() == Some(Errno::ENOEXEC as i32) => {
                start(Command::new("/bin/sh").arg(&self.path))
            }
            started => started,
        }
    }

    fn start_error(&self, source: io::Error) -> ScriptError {
        ScriptError::Start {
            path: self.path.clone(),
            source,
        }
    }
}

/// A process that is followed. Dropping it kills its group and reaps it.
struct Run {
    child: Child,
    /// Whether the number of the process may be somebody else's.
    is_reaped: bool,
}

impl Run {
    /// Reads what is there, or waits for more for a moment. Returns whether the process has ended
    /// and all of its output is read.
    fn follow(&mut self, stdout: &mut impl Sink, stderr: &mut impl Sink) -> io::Result<bool> {
        let Child {
            stdout: out_pipe,
            stderr: err_pipe,
            ..
        } = &mut self.child;
        if out_pipe.is_some() || err_pipe.is_some() {
            let [out_is_ready, err_is_ready] = wait_readable(out_pipe.as_ref(), err_pipe.as_ref())?;
            if out_is_ready {
                read_some(out_pipe, stdout)?;
            }
            if err_is_ready {
                read_some(err_pipe, stderr)?;
            }
            return Ok(false);
        }
        // The process stays a zombie, so that nobody else gets the number of its group.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let has_ended = waitid(Id::Pid(self.group()), flags)? != WaitStatus::StillAlive;
        if !has_ended {
            std::thread::sleep(END_INTERVAL);
        }
        Ok(has_ended)
    }

    fn group(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }

    /// Kills what is left of the group and reaps it. Processes that lost their parent are children
    /// of this process if it adopts orphans.
    fn end_group(&mut self) -> io::Result<ExitStatus> {
        // Only processes that have already ended may be left.
        let _ = killpg(self.group(), Signal::SIGKILL);
        self.is_reaped = true;
        let status = self.child.wait()?;
        let orphans = Pid::from_raw(-self.group().as_raw());
        while matches!(waitpid(orphans, None), Ok(_) | Err(Errno::EINTR)) {}
        Ok(status)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ended = self.end_group();
        }
    }
}

/// Waits for a moment until a pipe can be read without waiting. Returns which one can.
fn wait_readable(
    stdout: Option<&ChildStdout>,
    stderr: Option<&ChildStderr>,
) -> io::Result<[bool; 2]> {
    let stdout = stdout.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
    let stderr = stderr.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
    let has_stdout = stdout.is_some();
    let mut fds: Vec<_> = stdout.into_iter().chain(stderr).collect();
    let timeout = PollTimeout::try_from(LOOK_INTERVAL).unwrap_or(PollTimeout::ZERO);
    match poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut ready = fds.iter().map(|fd| fd.any().unwrap_or(false));
    let stdout_is_ready = has_stdout && ready.next().unwrap_or(false);
    Ok([stdout_is_ready, ready.next().unwrap_or(false)])
}

/// Reads once from a pipe that is readable, and drops it at its end.
fn read_some(pipe: &mut Option<impl Read>, sink: &mut impl Sink) -> io::Result<()> {
    let Some(reader) = pipe else {
        return Ok(());
    };
    let mut chunk = [0; 8192];
    match reader.read(&mut chunk) {
        Ok(0) => *pipe = None,
        Ok(length) => sink.take(chunk.get(..length).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
