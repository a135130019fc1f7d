//! Handles on processes (pidfd), so that a signal reaches the process that was seen and never a
//! later one with the same pid.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// A handle on one process.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    /// Opens a handle on the process that has the pid now; `None` if there is none.
    #[expect(unsafe_code, reason = "no binding for pidfd_open")]
    pub(crate) fn open(pid: i32) -> io::Result<Option<Self>> {
        // SAFETY: takes two integers.
        let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let handle = i32::try_from(handle).map_err(io::Error::other)?;
        if handle < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ESRCH) => Ok(None),
                Some(_) | None => Err(error),
            };
        }
        // SAFETY: the kernel has just created this descriptor, and no other code knows it.
        Ok(Some(Self(unsafe { OwnedFd::from_raw_fd(handle) })))
    }

    /// Sends a signal. Returns whether the kernel delivered it.
    #[expect(unsafe_code, reason = "no binding for pidfd_send_signal")]
    pub(crate) fn signal(&self, signal: i32) -> bool {
        let (no_info, no_flags) = (ptr::null::<libc::siginfo_t>(), 0);
        // SAFETY: the descriptor is open; a null siginfo means what kill(2) would send.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                no_info,
                no_flags,
            )
        };
        result == 0
    }
}
