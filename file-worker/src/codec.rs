//! Numbers, texts and bytes in a message. The reader is total: any bytes give a value or
//! [`Malformed`], and nothing is allocated that the bytes do not hold.

use std::io;

use thiserror::Error;

/// Bytes of a path or a URI at most. HDFS has 8,000 characters.
pub(crate) const PATH_MAX: usize = 24 * 1024;

/// Message that the other side should not have sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

impl From<Malformed> for io::Error {
    fn from(error: Malformed) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

const CUT: Malformed = Malformed("the message ends too early");

/// Message that is being written.
#[derive(Debug, Default)]
pub(crate) struct Out(Vec<u8>);

impl Out {
    /// Begins a message of this kind.
    pub(crate) fn of_kind(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub(crate) fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn bool(self, value: bool) -> Self {
        self.u8(u8::from(value))
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn i64(self, value: i64) -> Self {
        self.u64(value.cast_unsigned())
    }

    pub(crate) fn bytes(self, value: &[u8]) -> Self {
        // A message has far less than 4 GiB: its frame could not be sent.
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        let mut out = self.u32(length);
        out.0.extend_from_slice(value);
        out
    }

    pub(crate) fn text(self, value: &str) -> Self {
        self.bytes(value.as_bytes())
    }

    /// Writes a text, of which the reader takes at most this many bytes: the rest is left out.
    pub(crate) fn text_cut(self, value: &str, bytes_max: usize) -> Self {
        let end = value.floor_char_boundary(bytes_max);
        self.text(value.get(..end).unwrap_or_default())
    }

    pub(crate) fn length(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn append(mut self, other: &Self) -> Self {
        self.0.extend_from_slice(&other.0);
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Rest of a message that is being read.
#[derive(Debug)]
pub(crate) struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CUT)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a truth value is neither 0 nor 1")),
        }
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.u64().map(u64::cast_signed)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.u32()?).map_err(|_| CUT)?;
        self.take(length)
    }

    /// Reads a text of at most this many bytes.
    pub(crate) fn text(&mut self, bytes_max: usize) -> Result<&'a str, Malformed> {
        let bytes = self.bytes()?;
        if bytes.len() > bytes_max {
            return Err(Malformed("a text is too long"));
        }
        std::str::from_utf8(bytes).map_err(|_| Malformed("a text is not UTF-8"))
    }

    /// Returns the number of bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    /// Returns whether anything is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends the reading of a message.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(Malformed("the message goes on behind its end"))
        }
    }
}
