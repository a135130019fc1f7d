//! Stopping a cgroup's processes and letting them go on, and waiting for what the kernel does to a cgroup.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::CgroupError;
use crate::group::Cgroup;
use crate::layout::Controller;
use crate::place::{Folder, Kind};
use crate::text::value;

/// Between two looks at what the kernel does not tell of by itself, or tells of late, at first.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);
/// The same after a while.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// The time until the next look: what is quick is seen at once, and what is slow is not looked at a thousand times a
/// second, nor seen late by more than an eighth of its time.
fn pause_after(waited: Duration) -> Duration {
    (waited / 8).clamp(PAUSE, PAUSE_MAX)
}

impl Cgroup {
    /// Stops all its processes, and returns when all have stopped.
    ///
    /// # Errors
    /// [`CgroupError::NotThere`] where nothing can freeze; [`CgroupError::Late`] when they have not stopped within
    /// `patience` (one that waits for a device cannot be), and then they run again.
    pub fn freeze(&self, patience: Duration) -> Result<(), CgroupError> {
        self.set_frozen(true)?;
        let frozen = self.wait_frozen(true, patience);
        if frozen.is_err() {
            self.set_frozen(false)?;
        }
        frozen
    }

    /// Lets its processes go on. Does nothing if they do.
    ///
    /// # Errors
    /// As for [`Cgroup::freeze`].
    pub fn thaw(&self, patience: Duration) -> Result<(), CgroupError> {
        self.set_frozen(false)?;
        self.wait_frozen(false, patience)
    }

    /// Whether its processes are stopped, all of them.
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

    pub(crate) fn freezer(&self) -> Result<Folder<'_>, CgroupError> {
        let unified = self.files().unified();
        unified
            .or_else(|| self.files().controller(Controller::Freezer))
            .ok_or(CgroupError::NotThere {
                operation: "freeze",
            })
    }

    /// Orders its processes to stop, or lets them go on, and does not wait for it.
    ///
    /// # Errors
    /// [`CgroupError::NotThere`] where nothing can freeze; else what the kernel refuses.
    pub fn set_frozen(&self, frozen: bool) -> Result<(), CgroupError> {
        let folder = self.freezer()?;
        match (folder.kind, frozen) {
            (Kind::V2, true) => folder.write("cgroup.freeze", "1"),
            (Kind::V2, false) => folder.write("cgroup.freeze", "0"),
            (Kind::V1, true) => folder.write("freezer.state", "FROZEN"),
            (Kind::V1, false) => folder.write("freezer.state", "THAWED"),
        }
    }

    fn wait_frozen(&self, frozen: bool, patience: Duration) -> Result<(), CgroupError> {
        let operation = if frozen { "freeze" } else { "thaw" };
        let folder = self.freezer()?;
        match folder.kind {
            Kind::V2 => {
                let wanted = Some(u64::from(frozen));
                self.wait_event(folder, operation, patience, |events| {
                    value(events, "frozen") == wanted
                })
            }
            Kind::V1 => {
                let wanted = if frozen { "FROZEN" } else { "THAWED" };
                // Reading is what makes the kernel look again.
                self.wait(operation, patience, || {
                    Ok(folder.read("freezer.state")?.trim() == wanted)
                })
            }
        }
    }

    /// Waits for what `cgroup.events` says. The kernel wakes us, but may hold a second message back for 10 ms.
    pub(crate) fn wait_event(
        &self,
        folder: Folder<'_>,
        operation: &'static str,
        patience: Duration,
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
            if waited >= patience {
                return Err(self.late(operation, patience));
            }
            wait_for_message(file.as_fd(), pause_after(waited).min(patience - waited));
        }
    }

    pub(crate) fn wait(
        &self,
        operation: &'static str,
        patience: Duration,
        holds: impl Fn() -> Result<bool, CgroupError>,
    ) -> Result<(), CgroupError> {
        let begin = Instant::now();
        loop {
            if holds()? {
                return Ok(());
            }
            let waited = begin.elapsed();
            if waited >= patience {
                return Err(self.late(operation, patience));
            }
            thread::sleep(pause_after(waited).min(patience - waited));
        }
    }

    pub(crate) fn late(&self, operation: &'static str, waited: Duration) -> CgroupError {
        CgroupError::Late {
            operation,
            name: self.name.clone(),
            waited,
        }
    }
}

/// Until the kernel has something to say of a file, or a moment has passed.
fn wait_for_message(file: BorrowedFd<'_>, moment: Duration) {
    let mut files = [PollFd::new(file, PollFlags::POLLPRI)];
    // Whole milliseconds, and never none: it would not wait at all.
    let timeout = PollTimeout::try_from(moment.max(PAUSE)).unwrap_or(PollTimeout::ZERO);
    // Whether it said something or was interrupted: the caller looks again.
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
