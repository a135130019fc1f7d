//! One run of a script: its process, its output, its end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use crate::output::Output;
use crate::{HealthScript, Verdict};

/// Report on a run that took too long (Hadoop: `NODE_HEALTH_SCRIPT_TIMED_OUT_MSG`).
const TIMED_OUT: &str = "Node health script timed out";

/// Longest wait for output before the stop of the agent is looked for.
const LOOK_FOR_STOP: Duration = Duration::from_millis(100);

/// Pause between two looks at a process that has closed its output and goes on.
const LOOK_FOR_END: Duration = Duration::from_millis(10);

/// Bytes of output read at once.
const READ_BYTES: usize = 8192;

/// End of a run.
enum End {
    /// The process has ended with this exit status and all of its output is read.
    Exited {
        success: bool,
        output: Output,
    },
    TimedOut,
    /// The agent stops.
    Stopped,
}

/// Runs a script until its end or its deadline. `None`: the agent stops.
pub(crate) fn run(
    script: &HealthScript,
    environment: &BTreeMap<String, String>,
    stopped: &Receiver<Infallible>,
) -> Option<Verdict> {
    // A time beyond the clock's range never comes.
    let deadline = Instant::now().checked_add(Duration::from_millis(script.timeout_ms));
    let mut child = match spawn(script, environment) {
        Ok(child) => child,
        Err(error) => return Some(cannot_run(script, &error)),
    };
    let end = follow(&mut child, deadline, stopped);
    end_group(&child);
    match end {
        Ok(End::Exited { success, output }) => {
            // A script with a syntax error must not take all nodes out: in Hadoop, too, one that
            // fails says nothing about the machine.
            let report = output.report().filter(|_| success);
            Some(report.map_or_else(Verdict::healthy, Verdict::unhealthy))
        }
        Ok(End::TimedOut) => Some(Verdict::unhealthy(TIMED_OUT.to_owned())),
        Ok(End::Stopped) => None,
        Err(error) => Some(cannot_run(script, &error)),
    }
}

/// Returns the verdict of Hadoop, whose report begins with the same line and goes on with a stack.
fn cannot_run(script: &HealthScript, error: &io::Error) -> Verdict {
    let path = script.path.display();
    let reason = match error.raw_os_error() {
        Some(number) => format!("error={number}, {}", Errno::from_raw(number).desc()),
        None => error.to_string(),
    };
    Verdict::unhealthy(format!(
        "java.io.IOException: Cannot run program \"{path}\": {reason}"
    ))
}

fn spawn(script: &HealthScript, environment: &BTreeMap<String, String>) -> io::Result<Child> {
    let start = |mut command: Command| {
        command
            .args(&script.opts)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
    };
    match start(Command::new(&script.path)) {
        // A file without `#!` is a script for the shell, as in Java.
        Err(error) if error.raw_os_error() == Some(Errno::ENOEXEC as i32) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg(&script.path);
            start(shell)
        }
        started => started,
    }
}

/// Reads the output to its end and waits for the process. Whoever has the output open holds up the
/// end of the run, as in Hadoop.
fn follow(
    child: &mut Child,
    deadline: Option<Instant>,
    stopped: &Receiver<Infallible>,
) -> io::Result<End> {
    let mut output = Output::default();
    let mut pipe = child.stdout.take();
    loop {
        if stopped.try_recv() == Err(crossbeam_channel::TryRecvError::Disconnected) {
            return Ok(End::Stopped);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.unwrap_or(LOOK_FOR_STOP).min(LOOK_FOR_STOP);
        if left.is_zero() {
            return Ok(End::TimedOut);
        }
        if let Some(open) = &mut pipe {
            if !read_some(open, left, &mut output)? {
                pipe = None;
            }
        } else if let Some(status) = child.try_wait()? {
            let success = status.success();
            return Ok(End::Exited { success, output });
        } else if stopped.recv_timeout(left.min(LOOK_FOR_END)) != Err(RecvTimeoutError::Timeout) {
            return Ok(End::Stopped);
        }
    }
}

/// Waits for output at most this long and reads what is there. Returns `false` at its end.
fn read_some(pipe: &mut ChildStdout, wait: Duration, output: &mut Output) -> io::Result<bool> {
    // Rounded up: a wait of 0 ms would spin.
    let millis = u16::try_from(wait.as_millis().max(1)).unwrap_or(u16::MAX);
    let mut polled = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, PollTimeout::from(millis)) {
        Ok(0) | Err(Errno::EINTR) => return Ok(true),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut buffer = [0; READ_BYTES];
    let length = pipe.read(&mut buffer)?;
    output.take(buffer.get(..length).unwrap_or_default());
    Ok(length > 0)
}

/// Kills what is left of the script's group and reaps it. Processes that lost their parent are
/// children of an agent that adopts orphans.
fn end_group(child: &Child) {
    let Ok(leader) = i32::try_from(child.id()) else {
        return;
    };
    // Fails if nothing is left.
    let _nothing_left = killpg(Pid::from_raw(leader), Signal::SIGKILL);
    loop {
        match waitpid(Pid::from_raw(-leader), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}
