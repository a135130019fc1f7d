//! Children of this process: which there are, and how they ended.

use std::fs::{self, File};
use std::io::{self, Read as _};

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use procfs::process::{Process, all_processes};

use crate::liveness::running_thread;
use crate::records::{LeftProcess, ProcessIdentity};

/// Bytes read of an environment; more than the kernel takes by default (a quarter of an 8 MiB
/// stack).
const ENVIRONMENT_READ_MAX: u64 = 4 << 20;

/// Returns the pids of the children of this process, which must have one thread.
pub(crate) fn children() -> io::Result<Vec<i32>> {
    let own = std::process::id();
    match fs::read_to_string(format!("/proc/{own}/task/{own}/children")) {
        Ok(list) => Ok(list
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()),
        // A kernel without such lists.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let own = i32::try_from(own).map_err(io::Error::other)?;
            let all = all_processes().map_err(io::Error::other)?;
            let children = all.filter_map(|process| process.ok()?.stat().ok());
            let children = children.filter(|stat| stat.ppid == own);
            Ok(children.map(|stat| stat.pid).collect())
        }
        Err(error) => Err(error),
    }
}

/// Describes a child, with the value of an environment variable.
pub(crate) fn describe(pid: i32, variable: &str) -> Option<LeftProcess> {
    Some(LeftProcess {
        process: ProcessIdentity::of(pid)?,
        variable: variable_of(pid, variable),
    })
}

/// Returns a variable of a process's environment. `None` also when the process has ended, or its
/// environment may not be read, or the value does not fit into a line.
fn variable_of(pid: i32, name: &str) -> Option<String> {
    let of_first = environment_of(pid).filter(|read| !read.is_empty());
    // A first thread that has ended shows none.
    let environment = of_first.or_else(|| environment_of(running_thread(pid)?))?;
    let value = environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?;
        value.strip_prefix(b"=")
    })?;
    let value = std::str::from_utf8(value).ok()?;
    let is_word = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic());
    is_word.then(|| value.to_owned())
}

fn environment_of(thread: i32) -> Option<Vec<u8>> {
    let file = File::open(format!("/proc/{thread}/environ")).ok()?;
    let mut environment = Vec::new();
    let mut bounded = file.take(ENVIRONMENT_READ_MAX);
    bounded.read_to_end(&mut environment).ok()?;
    Some(environment)
}

/// Returns the status of a child that has ended, without reaping it: its exit code, or 128 plus
/// the signal that ended it. `None`: it runs, or has a tracer that has not seen its end yet. The
/// kernel signals the end of a child (SIGCHLD) once more when the tracer lets go of it.
pub(crate) fn peek(pid: i32) -> Result<Option<i32>, Errno> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(Id::Pid(Pid::from_raw(pid)), flags) {
        // The binding knows no real-time signals.
        Err(Errno::EINVAL) => Ok(status_of_zombie(pid)),
        status => Ok(status_of(status?)),
    }
}

fn status_of(status: WaitStatus) -> Option<i32> {
    match status {
        WaitStatus::Exited(_, code) => Some(code),
        WaitStatus::Signaled(_, signal, _) => Some(128 + signal as i32),
        WaitStatus::StillAlive
        | WaitStatus::Stopped(..)
        | WaitStatus::PtraceEvent(..)
        | WaitStatus::PtraceSyscall(_)
        | WaitStatus::Continued(_) => None,
    }
}

/// Returns the status as `/proc/PID/stat` has it: what wait(2) returns.
fn status_of_zombie(pid: i32) -> Option<i32> {
    let stat = Process::new(pid).and_then(|process| process.stat()).ok()?;
    let status = stat.exit_code.filter(|_| stat.state == 'Z')?;
    let signal = status & 0x7f;
    Some(if signal == 0 {
        (status >> 8) & 0xff
    } else {
        128 + signal
    })
}

/// Reaps a child if it has ended; whether it had, or was no child.
pub(crate) fn reap(pid: i32) -> bool {
    let waited = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    waited != Ok(WaitStatus::StillAlive)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use test_support::hostile::{self, Role};

    use super::*;
    use crate::liveness::{has_ended, running_thread};

    #[test]
    fn a_child_whose_first_thread_has_ended_is_described_and_has_not_ended() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let (program, (name, value)) = hostile::command(&Role::HalfDead {
            ready: ready.clone(),
        });
        let mut command = Command::new(program);
        let mut child = command.env(name, value).env("KEPT", "x").spawn().unwrap();
        while !ready.exists() {
            std::thread::yield_now();
        }
        let pid = i32::try_from(child.id()).unwrap();
        let stat = Process::new(pid).and_then(|process| process.stat());
        let stat = stat.unwrap();
        assert_eq!(stat.state, 'Z');
        assert!(!has_ended(&stat));
        assert_ne!(running_thread(pid).unwrap(), pid);
        assert_eq!(
            describe(pid, "KEPT").unwrap().variable.as_deref(),
            Some("x")
        );
        assert_eq!(peek(pid), Ok(None));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
