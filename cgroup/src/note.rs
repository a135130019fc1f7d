//! A child's note that it exists, written by itself: however this process ends, whoever reads the
//! file knows which children were made and for what.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use nix::time::{ClockId, clock_gettime};

/// Length of a [`Note`].
pub const NOTE_BYTES: usize = 16;

/// Place in a file for [`NOTE_BYTES`] bytes, which must be allocated: the child's pid and the time
/// at which it ran first, in nanoseconds of `CLOCK_BOOTTIME`, each a `u64` in the machine's order.
///
/// The child has the file open until it executes its program, which comes after the note. So a lock
/// of the open file (flock(2)) is held until every child that may still write a note has done so.
#[derive(Clone, Copy, Debug)]
pub struct Note<'a> {
    /// File, open for writing.
    pub file: BorrowedFd<'a>,
    /// Offset of the place, in bytes.
    pub offset: u64,
}

/// Writes the note of the calling process; whether all of it was written. Allocates nothing, takes
/// no lock and cannot panic.
#[expect(unsafe_code, reason = "a direct system call")]
pub(crate) fn write(file: BorrowedFd<'_>, offset: libc::off_t, pid: u32) -> bool {
    let Ok(now) = clock_gettime(ClockId::CLOCK_BOOTTIME) else {
        return false;
    };
    let seconds = now.tv_sec().unsigned_abs().wrapping_mul(1_000_000_000);
    let note = [
        u64::from(pid),
        seconds.wrapping_add(now.tv_nsec().unsigned_abs()),
    ];
    let file = file.as_raw_fd();
    // SAFETY: the array has that many bytes, and the descriptor is open.
    let written = unsafe { libc::pwrite(file, note.as_ptr().cast(), NOTE_BYTES, offset) };
    usize::try_from(written) == Ok(NOTE_BYTES)
}
