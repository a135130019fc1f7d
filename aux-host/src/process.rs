//! The process of one life of a host: started clean, ended for sure.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use cgroup::{Child, Command};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::config::HostConfig;
use crate::error::HostFault;

/// Main class of the host.
const MAIN: &str = "nmagent.auxhost.AuxHost";

/// Time after SIGKILL within which a process ends, unless a disk holds it.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

/// Process of a host. Dropping it ends the process and all that it has started.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// How it has ended, once that is known.
    ended: Option<String>,
}

impl Process {
    /// Starts a host, with one end of a socket pair as its input and a pipe as its outputs, and no
    /// other descriptor. Returns the other ends.
    pub(crate) fn spawn(
        config: &HostConfig,
    ) -> Result<(Self, UnixStream, io::PipeReader), HostFault> {
        let (socket, other) = UnixStream::pair().map_err(HostFault::Prepare)?;
        let (output, log) = io::pipe().map_err(HostFault::Prepare)?;
        let directory = File::open("/").map_err(HostFault::Prepare)?;
        let mut arguments = vec![config.java.clone().into_os_string()];
        arguments.extend(config.options.iter().cloned());
        let class_path = [
            OsString::from("-cp"),
            config.class_path.clone(),
            MAIN.into(),
        ];
        arguments.extend(class_path);
        let arguments = arguments.into_iter().map(c_string);
        let arguments: Vec<CString> = arguments.collect::<Result<_, _>>()?;
        let environment = config.environment.iter();
        let environment =
            environment.map(|(name, value)| c_string(format!("{name}={value}").into()));
        let environment: Vec<CString> = environment.collect::<Result<_, _>>()?;
        let borrowed: Vec<_> = arguments.iter().map(CString::as_c_str).collect();
        let log: BorrowedFd<'_> = log.as_fd();
        let command = Command {
            program: borrowed[0],
            arguments: &borrowed,
            environment: &environment,
            pid_entry: None,
            directory: directory.as_fd(),
            stdio: [Some(other.as_fd()), Some(log), Some(log)],
            open_files: None,
            note: None,
            before_exec: None,
        };
        let spawned = cgroup::spawn(&command, config.group.as_ref());
        let child = spawned.map_err(|source| HostFault::Spawn {
            java: config.java.display().to_string(),
            source,
        })?;
        let ended = None;
        Ok((Self { child, ended }, socket, output))
    }

    /// Waits for the end of the process, which is reaped. Returns how it has ended, if it has.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<&str> {
        if self.ended.is_none() && self.has_ended(limit) {
            let wait = WaitId::PidFd(self.child.handle.as_fd());
            let status = waitid(wait, WaitIdOptions::EXITED);
            let how = status.ok().flatten().map(|status| {
                let exit = status
                    .exit_status()
                    .map(|code| format!("exit status {code}"));
                let signal = status.terminating_signal();
                exit.or_else(|| signal.map(|number| format!("signal {number}")))
            });
            self.ended = Some(how.flatten().unwrap_or_else(|| "unknown status".to_owned()));
        }
        self.ended.as_deref()
    }

    fn has_ended(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            let mut polled = [PollFd::new(&self.child.handle, PollFlags::IN)];
            match poll(&mut polled, timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return false,
                Ok(_) => return true,
            }
        }
    }

    /// Sends a signal to the process and to those of its children that are in its group.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            // It is not reaped, so the number is still its own.
            let _gone = killpg(Pid::from_raw(self.child.pid), signal);
        }
    }

    /// Ends the process at once. Returns how it ended.
    pub(crate) fn kill(&mut self) -> String {
        self.signal(Signal::SIGKILL);
        let how = self.wait(KILL_PATIENCE);
        how.unwrap_or("held by the kernel after SIGKILL").to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn c_string(text: OsString) -> Result<CString, HostFault> {
    let shown = String::from_utf8_lossy(text.as_os_str().as_bytes()).into_owned();
    CString::new(text.into_vec()).map_err(|_| {
        let error = format!("an argument with a null byte: {shown}");
        HostFault::Prepare(io::Error::new(io::ErrorKind::InvalidInput, error))
    })
}
