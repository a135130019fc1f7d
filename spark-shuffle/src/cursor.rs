//! Fields of Spark's messages: big-endian integers, strings, and lists with a count before them.
//!
//! Lengths and counts are compared with the bytes that are left, and lists stay where they were
//! received, so what a peer declares allocates nothing.

use thiserror::Error;

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Malformed {
    /// The bytes end inside a field, or a length or count exceeds them.
    #[error("the message ends inside a field")]
    Short,
    /// A string that is no UTF-8.
    #[error("a string is no UTF-8")]
    Text,
    /// A string or list is longer than this service takes.
    #[error("a field is longer than allowed")]
    Long,
}

/// Reader over bytes that a peer sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns what was not read.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| Malformed::Short)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a length or count, which must be that of fields of `each` bytes at least.
    fn count(&mut self, each: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.i32()?).map_err(|_| Malformed::Short)?;
        let bytes = count.checked_mul(each).ok_or(Malformed::Short)?;
        if bytes > self.rest.len() {
            return Err(Malformed::Short);
        }
        Ok(count)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.count(1)?;
        self.take(length)
    }

    /// Reads a string of at most `bytes_max` bytes.
    pub(crate) fn text(&mut self, bytes_max: usize) -> Result<&'a str, Malformed> {
        let bytes = self.bytes()?;
        if bytes.len() > bytes_max {
            return Err(Malformed::Long);
        }
        std::str::from_utf8(bytes).map_err(|_| Malformed::Text)
    }

    /// Reads a list of strings, each of at most `bytes_max` bytes.
    pub(crate) fn texts(&mut self, bytes_max: usize) -> Result<Texts<'a>, Malformed> {
        let count = self.count(4)?;
        let start = *self;
        for _ in 0..count {
            self.text(bytes_max)?;
        }
        Ok(Texts {
            count,
            rest: start,
            bytes_max,
        })
    }

    /// Reads a list of 64-bit integers.
    pub(crate) fn i64s(&mut self) -> Result<Vec<i64>, Malformed> {
        let count = self.count(8)?;
        let bytes = self.take(count * 8)?;
        let (chunks, _none) = bytes.as_chunks::<8>();
        Ok(chunks.iter().map(|it| i64::from_be_bytes(*it)).collect())
    }

    /// Reads a list of lists of 32-bit integers: all of them joined, and where each list ends.
    pub(crate) fn i32_lists(&mut self) -> Result<(Vec<i32>, Vec<u32>), Malformed> {
        let count = self.count(4)?;
        let (mut all, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let length = self.count(4)?;
            let (chunks, _none) = self.take(length * 4)?.as_chunks::<4>();
            all.extend(chunks.iter().map(|it| i32::from_be_bytes(*it)));
            ends.push(u32::try_from(all.len()).map_err(|_| Malformed::Long)?);
        }
        Ok((all, ends))
    }
}

/// List of strings that were checked, decoded one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Texts<'a> {
    count: usize,
    rest: Cursor<'a>,
    bytes_max: usize,
}

impl Texts<'_> {
    pub(crate) const fn len(&self) -> usize {
        self.count
    }
}

impl<'a> Iterator for Texts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.count = self.count.checked_sub(1)?;
        self.rest.text(self.bytes_max).ok()
    }
}

/// Appends a string or other bytes with their length before them. Lengths beyond Java's cannot
/// occur: answers are bounded far below.
pub(crate) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_count(to, bytes.len());
    to.extend_from_slice(bytes);
}

/// Appends a length or count.
pub(crate) fn put_count(to: &mut Vec<u8>, count: usize) {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    to.extend_from_slice(&count.to_be_bytes());
}
