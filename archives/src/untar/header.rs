//! A header of a tar: one block, in the forms of Unix v7, POSIX and GNU.

use std::io;

use super::blocks::{Block, malformed};
use super::number;

/// Magic and version of GNU's own form.
const GNU: &[u8] = b"ustar  \0";
/// Magic of POSIX, which has a prefix of the name.
const POSIX: &[u8] = b"ustar\0";

/// Place of the checksum, which counts as blanks when it is computed.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// A header with a checksum that fits.
pub(super) struct Header<'a>(&'a Block);

impl<'a> Header<'a> {
    /// Checks the checksum; `None` if it does not fit.
    pub(super) fn of(block: &'a Block) -> Option<Self> {
        let stated = number::octal(block.get(CHECKSUM)?).ok()?;
        let bytes = || {
            block.iter().enumerate().map(
                |(at, byte)| {
                    if CHECKSUM.contains(&at) { b' ' } else { *byte }
                },
            )
        };
        let sum: u64 = bytes().map(u64::from).sum();
        // Some old programs summed up signed bytes.
        let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
        let fits = sum == stated || u64::try_from(signed) == Ok(stated);
        fits.then_some(Self(block))
    }

    fn field(&self, start: usize, length: usize) -> &'a [u8] {
        self.0.get(start..start + length).unwrap_or_default()
    }

    /// Returns a field up to its first NUL.
    fn text(&self, start: usize, length: usize) -> &'a [u8] {
        up_to_nul(self.field(start, length))
    }

    /// Returns the name, with the prefix that POSIX has for long ones.
    pub(super) fn name(&self) -> Vec<u8> {
        let name = self.text(0, 100);
        if self.field(257, 6) == POSIX {
            let prefix = self.text(345, 155);
            if !prefix.is_empty() {
                return [prefix, name].join(&b'/');
            }
        }
        name.to_vec()
    }

    pub(super) fn size(&self) -> io::Result<u64> {
        number::length(self.field(124, 12))
    }

    /// Returns the time of modification in seconds since the epoch; `None` if it is none.
    pub(super) fn modified_s(&self) -> Option<i64> {
        let seconds = number::length(self.field(136, 12)).ok()?;
        i64::try_from(seconds).ok()
    }

    pub(super) fn kind(&self) -> u8 {
        self.0[156]
    }

    pub(super) fn link(&self) -> Vec<u8> {
        self.text(157, 100).to_vec()
    }

    /// Returns the parts of the header that describe a sparse file: the places for regions, whether
    /// blocks with more of them follow, and the length of the file.
    pub(super) fn sparse(&self) -> io::Result<(&'a [u8], bool, u64)> {
        if self.field(257, 8) != GNU {
            return Err(malformed("a sparse file is not in GNU's form"));
        }
        let has_more = self.0[482] != 0;
        Ok((
            self.field(386, 96),
            has_more,
            number::length(self.field(483, 12))?,
        ))
    }
}

pub(super) fn up_to_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes)
}
