//! Handles on processes, so that a signal reaches the one that was seen and no later one with its number.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// A handle on whichever process has a pid now.
#[derive(Debug)]
pub(crate) struct Handle(OwnedFd);

impl Handle {
    /// `None`: there is none.
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
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        Ok(Some(Self(unsafe { OwnedFd::from_raw_fd(handle) })))
    }

    /// Whether the kernel did it.
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
