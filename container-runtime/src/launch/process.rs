//! Thin wrappers around system calls on single processes and process groups that have no safe
//! binding: handles, signals, waiting.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use nix::errno::Errno;
use records::ContainerExitStatus;

/// A handle on a process, readable when it has ended. Refers to whichever process has the pid now.
#[expect(unsafe_code, reason = "no binding for pidfd_open")]
pub(super) fn open_process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let handle = c_int::try_from(handle).map_err(io::Error::other)?;
    if handle < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us, close-on-exec, and nobody else knows
    // it.
    Ok(unsafe { OwnedFd::from_raw_fd(handle) })
}

/// Signals the process behind a handle; whether the kernel did it.
#[expect(unsafe_code, reason = "no binding for pidfd_send_signal")]
pub(super) fn signal_process(process: BorrowedFd<'_>, signal: i32) -> bool {
    let (no_info, no_flags) = (ptr::null::<libc::siginfo_t>(), 0);
    // SAFETY: the descriptor is open; a null siginfo is allowed and means what kill(2) would send.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            no_info,
            no_flags,
        )
    };
    result == 0
}

/// Returns whether the child behind a handle has ended, without waiting; `options` are those of
/// waitid(2).
pub(super) fn wait(
    process: BorrowedFd<'_>,
    options: c_int,
) -> io::Result<Option<ContainerExitStatus>> {
    wait_id(libc::P_PIDFD, process.as_raw_fd(), options | libc::WNOHANG)
}

/// Waits for the child behind a handle and reaps it.
pub(super) fn wait_blocking(process: BorrowedFd<'_>) -> io::Result<Option<ContainerExitStatus>> {
    wait_id(libc::P_PIDFD, process.as_raw_fd(), 0)
}

/// Waits for (or, with `WNOHANG`, reaps if it has ended) one child by its pid.
pub(super) fn wait_for_pid(pid: i32, options: c_int) -> io::Result<Option<ContainerExitStatus>> {
    wait_id(libc::P_PID, pid, options)
}

fn wait_id(
    kind: libc::idtype_t,
    id: i32,
    options: c_int,
) -> io::Result<Option<ContainerExitStatus>> {
    let id = libc::id_t::try_from(id).map_err(io::Error::other)?;
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        #[expect(unsafe_code, reason = "nix refuses real-time signals in a status")]
        // SAFETY: info is writable and large enough; zeroes are a valid siginfo.
        let (result, info) = unsafe {
            let result = libc::waitid(kind, id, info.as_mut_ptr(), options | libc::WEXITED);
            (result, info.assume_init())
        };
        if result == 0 {
            return Ok(exit_status(&info));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The status as a shell would say it. `None`: nothing has ended.
fn exit_status(info: &libc::siginfo_t) -> Option<ContainerExitStatus> {
    #[expect(unsafe_code, reason = "the fields are a union")]
    // SAFETY: waitid has filled in the fields of SIGCHLD, or left the zeroes, which are integers as
    // well.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return None;
    }
    let signalled = info.si_code == libc::CLD_KILLED || info.si_code == libc::CLD_DUMPED;
    Some(ContainerExitStatus(if signalled {
        128 + status
    } else {
        status
    }))
}

/// Signals a process group; whether the kernel did it. The caller knows that the group is still
/// ours.
pub(super) fn signal_group(leader: i32, signal: i32) -> bool {
    Errno::result(kill_group(leader, signal)).is_ok()
}

#[expect(unsafe_code, reason = "nix has no type for any signal number")]
fn kill_group(leader: i32, signal: i32) -> i32 {
    // SAFETY: kill takes two integers and touches no memory of ours.
    unsafe { libc::kill(-leader, signal) }
}
