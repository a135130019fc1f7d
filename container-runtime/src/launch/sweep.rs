//! The end of processes that a leader left behind: the signals to send, and the time of the next
//! scan.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tokio::time::Instant;

use super::leader::WatchedLeader;
use super::process::{open_process, signal_process};
use super::process_tree::Process;

/// Maximum number of left-over processes waited for at once; each takes a descriptor. The next
/// scan finds the others.
pub(super) const WAITED_FOR_MAX: usize = 64;
/// Time from SIGKILL to the next scan: a process may have forked meanwhile.
const RESCAN: Duration = Duration::from_millis(100);
/// Maximum time that a process that survives SIGKILL (it waits for a device) delays the end of its
/// container.
pub(super) const GIVE_UP: Duration = Duration::from_secs(10);
/// Number of looks in a row that must find nothing: after something was found, and where orphans
/// ended before it was known whose they were.
const QUIET_LOOKS: usize = 2;
const UNCLEAR_LOOKS: usize = 10;

/// Progress of ending left-over processes.
pub(super) struct Sweep {
    delay: Duration,
    terminated: Option<Instant>,
    killed: Option<Instant>,
    force: bool,
    asked: BTreeSet<Process>,
    /// Number of looks in a row that have found nothing.
    quiet: usize,
    give_up: Duration,
}

impl Sweep {
    /// Begins with nothing found. `delay`: time from SIGTERM to SIGKILL; `give_up`: time from
    /// SIGKILL after which what is left is left.
    pub(super) fn new(delay: Duration, give_up: Duration) -> Self {
        Self {
            delay,
            terminated: None,
            killed: None,
            force: delay.is_zero(),
            asked: BTreeSet::new(),
            quiet: 0,
            give_up,
        }
    }

    /// Returns whether nothing is left, after a look that found nothing.
    pub(super) fn is_over(&mut self, is_certain: bool) -> bool {
        self.quiet += 1;
        let needed = match (is_certain, self.terminated.or(self.killed)) {
            (false, _) => UNCLEAR_LOOKS,
            (true, Some(_)) => QUIET_LOOKS,
            (true, None) => 1,
        };
        self.quiet >= needed
    }

    pub(super) fn kill_now(&mut self) {
        self.force = true;
    }

    /// Returns whether what is found now is killed.
    pub(super) fn kills(&self, now: Instant) -> bool {
        self.force || self.terminated.is_some_and(|at| now >= at + self.delay)
    }

    pub(super) fn gives_up(&self, now: Instant) -> bool {
        self.killed.is_some_and(|at| now >= at + self.give_up)
    }

    pub(super) fn look_again(&self, now: Instant) -> Instant {
        match (self.killed, self.terminated) {
            (None, Some(at)) => at + self.delay,
            (Some(_), _) | (None, None) => now + RESCAN,
        }
    }

    /// SIGTERM for each once, or SIGKILL for all. Handles on some of them to wait for.
    pub(super) fn signal(
        &mut self,
        leader: &WatchedLeader,
        members: &[Process],
        now: Instant,
    ) -> Vec<OwnedFd> {
        self.quiet = 0;
        let signal = if self.kills(now) {
            self.killed.get_or_insert(now);
            // Also hits what a member has forked since the scan.
            leader.signal_group(libc::SIGKILL);
            libc::SIGKILL
        } else {
            self.terminated.get_or_insert(now);
            libc::SIGTERM
        };
        let mut handles = Vec::new();
        for member in members {
            let is_new = self.asked.insert(*member);
            let signal = if is_new || signal == libc::SIGKILL {
                signal
            } else {
                0
            };
            if let Some(handle) = signal_member(member, signal)
                && handles.len() < WAITED_FOR_MAX
            {
                handles.push(handle);
            }
        }
        handles
    }
}

/// Signals exactly the process that was seen. `None`: it has gone, or may not be signalled.
pub(super) fn signal_member(member: &Process, signal: i32) -> Option<OwnedFd> {
    let handle = open_process(member.pid).ok()?;
    // The handle may be on a later process with the same pid; the start time tells.
    let now = Process::read(member.pid)?;
    if now.start_time != member.start_time || !signal_process(handle.as_fd(), signal) {
        return None;
    }
    Some(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_overs_are_terminated_first_and_killed_after_the_delay() {
        let start = Instant::now();
        let mut sweep = Sweep::new(Duration::from_millis(250), GIVE_UP);
        assert!(!sweep.kills(start));
        sweep.terminated = Some(start);
        assert!(!sweep.kills(start + Duration::from_millis(249)));
        assert!(sweep.kills(start + Duration::from_millis(250)));
        assert_eq!(sweep.look_again(start), start + Duration::from_millis(250));
    }

    #[test]
    fn a_force_kill_or_no_delay_kills_at_once() {
        assert!(Sweep::new(Duration::ZERO, GIVE_UP).kills(Instant::now()));
        let mut sweep = Sweep::new(Duration::from_secs(9), GIVE_UP);
        sweep.kill_now();
        assert!(sweep.kills(Instant::now()));
    }

    #[test]
    fn what_survives_sigkill_does_not_hold_its_container_back_for_ever() {
        let start = Instant::now();
        let mut sweep = Sweep::new(Duration::ZERO, GIVE_UP);
        assert!(!sweep.gives_up(start + GIVE_UP));
        sweep.killed = Some(start);
        assert!(!sweep.gives_up(start));
        assert!(sweep.gives_up(start + GIVE_UP));
    }

    #[test]
    fn the_end_is_believed_after_a_look_or_several() {
        let looks = |sweep: &mut Sweep, is_certain| {
            let before = sweep.quiet;
            while !sweep.is_over(is_certain) {}
            std::mem::replace(&mut sweep.quiet, 0) - before
        };
        let mut sweep = Sweep::new(Duration::ZERO, GIVE_UP);
        assert_eq!(looks(&mut sweep, true), 1);
        assert_eq!(looks(&mut sweep, false), UNCLEAR_LOOKS);
        sweep.killed = Some(Instant::now());
        assert_eq!(looks(&mut sweep, true), QUIET_LOOKS);
        assert!(!sweep.is_over(false) && sweep.is_over(true));
    }

    #[test]
    fn a_pid_that_changed_hands_is_not_signalled() {
        let own_pid = i32::try_from(std::process::id()).unwrap();
        let mut own = Process::read(own_pid).unwrap();
        assert!(signal_member(&own, 0).is_some());
        own.start_time += 1;
        assert!(signal_member(&own, libc::SIGKILL).is_none());
    }
}
