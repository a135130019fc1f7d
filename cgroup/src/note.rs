//! A child's note that it exists, written by itself: however this process ends, whoever reads the
//! file knows which children were made and for what.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

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
#[expect(unsafe_code, reason = "direct system calls")]
pub(crate) fn write(file: c_int, offset: libc::off_t, pid: u32) -> bool {
    let mut now = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the time is writable, and zeroes are a valid one.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_BOOTTIME, now.as_mut_ptr());
        now.assume_init()
    };
    let seconds = now.tv_sec.unsigned_abs().wrapping_mul(1_000_000_000);
    let note = [
        u64::from(pid),
        seconds.wrapping_add(now.tv_nsec.unsigned_abs()),
    ];
    // SAFETY: the array is as long.
    let written = unsafe { libc::pwrite(file, note.as_ptr().cast(), NOTE_BYTES, offset) };
    usize::try_from(written) == Ok(NOTE_BYTES)
}
