//! Single processes and process groups: handles, signals, waiting.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr;

use records::ContainerExitStatus;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, pidfd_open,
    waitid,
};

/// Returns the kernel's type of a pid; that of no process is `ESRCH`.
fn pid_of(pid: i32) -> io::Result<Pid> {
    let pid = (pid > 0).then(|| Pid::from_raw(pid)).flatten();
    pid.ok_or_else(|| Errno::SRCH.into())
}

/// A handle on a process, readable when it has ended. Refers to whichever process has the pid now.
pub(super) fn open_process(pid: i32) -> io::Result<OwnedFd> {
    Ok(pidfd_open(pid_of(pid)?, PidfdFlags::empty())?)
}

/// Signals the process behind a handle; whether the kernel did it. Signal 0 asks whether it could.
#[expect(unsafe_code, reason = "the safe binding has no signal 0")]
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

/// Returns the status of the child behind a handle if it has ended, without waiting and without
/// reaping it. `None` also for a child that has ended and has a tracer: its end is shown to the
/// tracer first, although the handle is readable.
pub(super) fn peek(process: BorrowedFd<'_>) -> io::Result<Option<ContainerExitStatus>> {
    let options = WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    wait_id(WaitId::PidFd(process), options)
}

/// Reaps the child behind a handle if it has ended and no tracer has it.
pub(super) fn reap(process: BorrowedFd<'_>) -> io::Result<Option<ContainerExitStatus>> {
    wait_id(WaitId::PidFd(process), WaitIdOptions::NOHANG)
}

/// Reaps one child by its pid if it has ended.
pub(super) fn reap_pid(pid: i32) -> io::Result<Option<ContainerExitStatus>> {
    wait_id(WaitId::Pid(pid_of(pid)?), WaitIdOptions::NOHANG)
}

fn wait_id(child: WaitId<'_>, options: WaitIdOptions) -> io::Result<Option<ContainerExitStatus>> {
    loop {
        match waitid(child.clone(), options | WaitIdOptions::EXITED) {
            Ok(ended) => return Ok(ended.as_ref().and_then(exit_status)),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The status as a shell would say it.
fn exit_status(ended: &WaitIdStatus) -> Option<ContainerExitStatus> {
    let signal = ended.terminating_signal().map(|signal| 128 + signal);
    signal.or(ended.exit_status()).map(ContainerExitStatus)
}

/// Sends one of the POSIX signals to a process group; whether the kernel did it. The caller knows
/// that the group is still ours.
pub(super) fn signal_group(leader: i32, signal: i32) -> bool {
    let (Ok(leader), Some(signal)) = (pid_of(leader), Signal::from_named_raw(signal)) else {
        return false;
    };
    kill_process_group(leader, signal).is_ok()
}
