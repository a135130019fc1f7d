//! Handles on processes (pidfd), so that a signal reaches the process that was seen and never a
//! later one with the same pid.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A handle on one process.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    /// Opens a handle on the process that has the pid now; `None` if there is none.
    pub(crate) fn open(pid: i32) -> io::Result<Option<Self>> {
        let pid = (pid > 0).then(|| Pid::from_raw(pid)).flatten();
        // What the kernel says of such a number, which it lists for a process that this one's
        // namespace does not have.
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Ok(Some(Self(handle))),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal. Returns whether the kernel delivered it.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        pidfd_send_signal(&self.0, signal).is_ok()
    }
}
