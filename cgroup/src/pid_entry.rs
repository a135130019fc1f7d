//! An environment entry whose value is the pid of the process that gets it.
//!
//! Only the child knows its pid before the program is executed, and it may not allocate. So the
//! parent makes the entry with room for the digits, and the child fills them in.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::iter;

/// Digits of the largest `pid_t`, 2,147,483,647, and the NUL that ends the entry.
const ROOM: usize = 11;

/// An entry `NAME=`, a pid's digits and a NUL.
pub(crate) struct PidEntry {
    bytes: Vec<Cell<u8>>,
    name_length: usize,
}

impl PidEntry {
    /// Makes an entry without digits from one that ends in `=`.
    pub(crate) fn new(entry: &CStr) -> Self {
        let name = entry.to_bytes();
        let bytes = name.iter().copied().chain(iter::repeat_n(0, ROOM));
        Self {
            bytes: bytes.map(Cell::new).collect(),
            name_length: name.len(),
        }
    }

    /// Returns the address of the entry, a string ended by NUL, as `execve` takes it.
    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    /// Writes the digits, once. Allocates nothing and cannot panic.
    pub(crate) fn fill(&self, pid: u32) {
        let next = |rest: &u32| Some(rest / 10).filter(|rest| *rest > 0);
        let digits_backwards = iter::successors(Some(pid), next)
            .map(|rest| b'0' + u8::try_from(rest % 10).unwrap_or_default());
        let length = digits_backwards.clone().count();
        let room = self.bytes.iter().skip(self.name_length).take(length);
        for (byte, digit) in room.rev().zip(digits_backwards) {
            byte.set(digit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_follow_the_name_and_a_nul_ends_the_entry() {
        for (pid, expected) in [
            (7, c"X=7"),
            (10, c"X=10"),
            (4_194_304, c"X=4194304"),
            (i32::MAX.unsigned_abs(), c"X=2147483647"),
        ] {
            let entry = PidEntry::new(c"X=");
            entry.fill(pid);
            let bytes: Vec<_> = entry.bytes.iter().map(Cell::get).collect();
            assert_eq!(CStr::from_bytes_until_nul(&bytes).unwrap(), expected);
        }
    }
}
