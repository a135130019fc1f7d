//! How a program has ended, for the one that is started next: a file that its keeper writes.
//!
//! ```text
//! end 1 <boot id> <status> <out of memory: 0 or 1>
//! ```
//! Absent when the keeper died too, or the disk took nothing: then the end counts for nothing.

use std::fs;
use std::io;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::records::boot_id;

/// Exit status of a program that ended because a thread of it has panicked. Rust's own.
pub const PANICKED: u8 = 101;

/// Name of the file.
const FILE: &str = "last-end";
/// Name while it is written. The next keeper deletes what has this ending.
const UNFINISHED: &str = "last-end.new";
/// First words of the file, before the kernel's name of the boot.
const FORM: &str = "end 1 ";
/// Status of a process that a signal has ended, less the signal.
const SIGNALLED: i32 = 128;

/// End of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastEnd {
    /// Exit status, or 128 plus the signal that ended it.
    pub status: i32,
    /// Whether the kernel has ended a process of this machine for want of memory meanwhile. It may
    /// have been another one.
    pub out_of_memory: bool,
}

impl LastEnd {
    /// Reads the end of the program before; `None`: nobody knows it.
    #[must_use]
    pub fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(FILE)).ok()?;
        let mut words = text.strip_prefix(FORM)?.split_whitespace();
        let is_of_this_boot = words.next() == boot_id().ok().as_deref();
        let status = words.next()?.parse().ok()?;
        let out_of_memory = words.next()? == "1";
        is_of_this_boot.then_some(Self {
            status,
            out_of_memory,
        })
    }

    /// Removes the file, so that the end is told once.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn forget(folder: &Path) -> io::Result<()> {
        match fs::remove_file(folder.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    pub(crate) fn write(self, folder: &Path) -> io::Result<()> {
        let Self {
            status,
            out_of_memory,
        } = self;
        let unfinished = folder.join(UNFINISHED);
        let text = format!(
            "{FORM}{} {status} {}\n",
            boot_id()?,
            u8::from(out_of_memory)
        );
        fs::write(&unfinished, text)?;
        fs::rename(unfinished, folder.join(FILE))
    }

    /// Returns whether the program has crashed: by a panic, by a signal for a fault of its own, or
    /// for want of memory. SIGKILL alone is an order of somebody outside, like SIGTERM.
    #[must_use]
    pub fn is_crash(&self) -> bool {
        let signal = self.status.checked_sub(SIGNALLED);
        let signal = signal.and_then(|number| Signal::try_from(number).ok());
        match signal {
            None => self.status == i32::from(PANICKED),
            Some(Signal::SIGKILL) => self.out_of_memory,
            Some(Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT) => false,
            Some(_) => true,
        }
    }
}

/// Returns how many processes of this machine the kernel has ended for want of memory
/// (`oom_kill` of `/proc/vmstat`); 0: it does not say.
pub(crate) fn ended_for_memory() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("oom_kill "));
    count
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(status: i32, out_of_memory: bool) -> LastEnd {
        LastEnd {
            status,
            out_of_memory,
        }
    }

    #[test]
    fn an_end_is_told_once_and_one_of_another_boot_never() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(LastEnd::read(folder.path()), None);
        LastEnd::forget(folder.path()).unwrap();
        for end in [end(134, false), end(137, true)] {
            end.write(folder.path()).unwrap();
            assert_eq!(LastEnd::read(folder.path()), Some(end));
        }
        LastEnd::forget(folder.path()).unwrap();
        assert_eq!(LastEnd::read(folder.path()), None);
        for text in ["end 1 another-boot 134 0\n", "end 1", "", "end 2 x 134 0"] {
            fs::write(folder.path().join(FILE), text).unwrap();
            assert_eq!(LastEnd::read(folder.path()), None, "{text}");
        }
    }

    #[test]
    fn a_fault_is_a_crash_and_an_order_from_outside_is_none() {
        let signalled = |signal: Signal| 128 + signal as i32;
        for signal in [Signal::SIGABRT, Signal::SIGSEGV, Signal::SIGBUS] {
            assert!(end(signalled(signal), false).is_crash(), "{signal}");
        }
        assert!(end(PANICKED.into(), false).is_crash());
        assert!(end(signalled(Signal::SIGKILL), true).is_crash());
        for status in [
            0,
            1,
            2,
            signalled(Signal::SIGTERM),
            signalled(Signal::SIGKILL),
        ] {
            assert!(!end(status, false).is_crash(), "{status}");
        }
        assert!(!end(signalled(Signal::SIGTERM), true).is_crash());
    }
}
