//! Learns that a container's session leader has ended, without a thread per container and without taking the exit
//! status of anybody else's child.

/// Signals a process group; whether the kernel did it. The caller knows that the group is still ours.
pub(super) fn signal_group(leader: i32, signal: i32) -> bool {
    nix::errno::Errno::result(kill_group(leader, signal)).is_ok()
}

#[expect(unsafe_code, reason = "real-time and null signals have no nix type")]
fn kill_group(leader: i32, signal: i32) -> i32 {
    // SAFETY: kill takes two integers and touches no memory of ours.
    unsafe { libc::kill(-leader, signal) }
}
