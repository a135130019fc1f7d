//! Freezing and thawing a cgroup, and waiting for changes that the kernel makes to a cgroup.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::CgroupError;
use crate::files::{ControlDir, Kind};
use crate::group::Cgroup;
use crate::layout::Controller;
use crate::text::value;

/// Shortest interval between polls of a state that the kernel does not notify of, or notifies of
/// late.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);
/// Longest interval between such polls.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Returns the time until the next poll. Quick changes are seen at once; slow ones are not polled a
/// thousand times a second, and are seen late by at most an eighth of their time.
fn pause_after(waited: Duration) -> Duration {
    (waited / 8).clamp(PAUSE, PAUSE_MAX)
}

impl Cgroup {
    /// Freezes the cgroup, and returns when all processes have stopped.
    ///
    /// # Errors
    /// [`CgroupError::Unsupported`] if no hierarchy can freeze; [`CgroupError::Timeout`] if not all
    /// have stopped within `timeout` (a process in uninterruptible sleep cannot), and then the
    /// cgroup is thawed again.
    pub fn freeze(&self, timeout: Duration) -> Result<(), CgroupError> {
        self.set_frozen(true)?;
        let frozen = self.wait_frozen(true, timeout);
        if frozen.is_err() {
            self.set_frozen(false)?;
        }
        frozen
    }

    /// Thaws the cgroup, and returns when its processes run. Does nothing if they do.
    ///
    /// # Errors
    /// As for [`Cgroup::freeze`].
    pub fn thaw(&self, timeout: Duration) -> Result<(), CgroupError> {
        self.set_frozen(false)?;
        self.wait_frozen(false, timeout)
    }

    /// Returns whether all processes are stopped.
    ///
    /// # Errors
    /// As for [`Cgroup::freeze`].
    pub fn is_frozen(&self) -> Result<bool, CgroupError> {
        let folder = self.freezer()?;
        match folder.kind {
            Kind::V2 => Ok(value(&folder.read("cgroup.events")?, "frozen") == Some(1)),
            Kind::V1 => Ok(folder.read("freezer.state")?.trim() == "FROZEN"),
        }
    }

    pub(crate) fn freezer(&self) -> Result<ControlDir<'_>, CgroupError> {
        let unified = self.files().unified();
        unified
            .or_else(|| self.files().controller(Controller::Freezer))
            .ok_or(CgroupError::Unsupported {
                operation: "freeze",
            })
    }

    /// Requests a freeze or a thaw and does not wait for it.
    ///
    /// # Errors
    /// [`CgroupError::Unsupported`] if no hierarchy can freeze; otherwise what the kernel refuses.
    pub fn set_frozen(&self, frozen: bool) -> Result<(), CgroupError> {
        let folder = self.freezer()?;
        match (folder.kind, frozen) {
            (Kind::V2, true) => folder.write("cgroup.freeze", "1"),
            (Kind::V2, false) => folder.write("cgroup.freeze", "0"),
            (Kind::V1, true) => folder.write("freezer.state", "FROZEN"),
            (Kind::V1, false) => folder.write("freezer.state", "THAWED"),
        }
    }

    fn wait_frozen(&self, frozen: bool, timeout: Duration) -> Result<(), CgroupError> {
        let operation = if frozen { "freeze" } else { "thaw" };
        let folder = self.freezer()?;
        match folder.kind {
            Kind::V2 => {
                let wanted = Some(u64::from(frozen));
                self.wait_event(folder, operation, timeout, |events| {
                    value(events, "frozen") == wanted
                })
            }
            Kind::V1 => {
                let wanted = if frozen { "FROZEN" } else { "THAWED" };
                // Reading the file makes the kernel update the state.
                self.wait(operation, timeout, || {
                    Ok(folder.read("freezer.state")?.trim() == wanted)
                })
            }
        }
    }

    /// Waits until the content of `cgroup.events` satisfies `holds`. The kernel notifies of
    /// changes, but may delay a second notification by 10 ms.
    pub(crate) fn wait_event(
        &self,
        folder: ControlDir<'_>,
        operation: &'static str,
        timeout: Duration,
        holds: impl Fn(&str) -> bool,
    ) -> Result<(), CgroupError> {
        const EVENTS: &str = "cgroup.events";
        let file = folder.open(EVENTS)?;
        let mut buffer = [0; 256];
        let begin = Instant::now();
        loop {
            let length = file
                .read_at(&mut buffer, 0)
                .map_err(|source| CgroupError::Io {
                    operation: "read",
                    path: folder.path(EVENTS),
                    source,
                })?;
            if holds(&String::from_utf8_lossy(&buffer[..length])) {
                return Ok(());
            }
            let waited = begin.elapsed();
            if waited >= timeout {
                return Err(self.timed_out(operation, timeout));
            }
            wait_for_message(file.as_fd(), pause_after(waited).min(timeout - waited));
        }
    }

    pub(crate) fn wait(
        &self,
        operation: &'static str,
        timeout: Duration,
        holds: impl Fn() -> Result<bool, CgroupError>,
    ) -> Result<(), CgroupError> {
        let begin = Instant::now();
        loop {
            if holds()? {
                return Ok(());
            }
            let waited = begin.elapsed();
            if waited >= timeout {
                return Err(self.timed_out(operation, timeout));
            }
            thread::sleep(pause_after(waited).min(timeout - waited));
        }
    }

    pub(crate) fn timed_out(&self, operation: &'static str, waited: Duration) -> CgroupError {
        CgroupError::Timeout {
            operation,
            name: self.name.clone(),
            waited,
        }
    }
}

/// Waits until the kernel notifies of a change to the file, at most `moment`.
fn wait_for_message(file: BorrowedFd<'_>, moment: Duration) {
    let mut files = [PollFd::new(file, PollFlags::POLLPRI)];
    // Rounded to whole milliseconds, at least one: 0 would not wait at all.
    let timeout = PollTimeout::try_from(moment.max(PAUSE)).unwrap_or(PollTimeout::ZERO);
    // Notified, timed out or interrupted: the caller polls again.
    let _ = poll(&mut files, timeout);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_looked_at_rarely_and_a_short_one_at_once() {
        let mut waited = Duration::ZERO;
        let mut looks = 0;
        while waited < Duration::from_secs(1) {
            let pause = pause_after(waited);
            assert!(pause <= PAUSE.max(waited / 8), "{pause:?} after {waited:?}");
            waited += pause;
            looks += 1;
        }
        assert!(looks < 100, "{looks}");
    }
}
