//! A part of a stream that must be complete.

use std::io::{self, BufRead, Read};

/// Reader of exactly this many bytes: where fewer come, it fails.
pub(crate) struct Exact<R> {
    inner: R,
    left: u64,
}

impl<R> Exact<R> {
    pub(crate) fn new(inner: R, bytes: u64) -> Self {
        Self { inner, left: bytes }
    }

    /// Counts bytes that were read; none before the end is an error.
    fn spend(&mut self, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(bytes as u64);
        Ok(())
    }

    /// Limits a length to the bytes that are left.
    fn within(&self, length: usize) -> usize {
        usize::try_from(self.left).map_or(length, |left| left.min(length))
    }
}

impl<R: Read> Read for Exact<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let within = self.within(buffer.len());
        let buffer = buffer.get_mut(..within).unwrap_or_default();
        if buffer.is_empty() {
            return Ok(0);
        }
        let length = self.inner.read(buffer)?;
        self.spend(length)?;
        Ok(length)
    }
}

impl<R: BufRead> BufRead for Exact<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            return Ok(&[]);
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let buffer = self.inner.fill_buf()?;
        if buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(buffer.get(..left).unwrap_or(buffer))
    }

    fn consume(&mut self, bytes: usize) {
        let bytes = self.within(bytes);
        self.left = self.left.saturating_sub(bytes as u64);
        self.inner.consume(bytes);
    }
}
