//! Blocks of a tar, within an allowance for the headers of each entry.

use std::io::{self, Read};

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 512;

/// A block.
pub(super) type Block = [u8; BLOCK_BYTES];

/// Returns the error for a content that is no tar.
pub(super) fn malformed(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Content of a tar, of which the headers are bounded for each entry.
pub(super) struct Headers<R> {
    pub(super) content: R,
    /// Bytes of headers that the entry may still have.
    pub(super) left: u64,
}

impl<R: Read> Headers<R> {
    pub(super) fn spend(&mut self, bytes: u64) -> io::Result<()> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| malformed("more headers than any archive needs"))?;
        Ok(())
    }

    pub(super) fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.spend(buffer.len() as u64)?;
        self.content.read_exact(buffer)
    }

    /// Reads a block; `None` if the content ends before it is whole.
    pub(super) fn block(&mut self) -> io::Result<Option<Block>> {
        self.spend(BLOCK_BYTES as u64)?;
        let mut block = [0; BLOCK_BYTES];
        match self.content.read_exact(&mut block) {
            Ok(()) => Ok(Some(block)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the data of a header that belongs to the next entry.
    pub(super) fn data(&mut self, size: u64) -> io::Result<Vec<u8>> {
        let padded = size.checked_next_multiple_of(BLOCK_BYTES as u64);
        self.spend(padded.unwrap_or(u64::MAX))?;
        // Bounded by the allowance.
        let length = |bytes| usize::try_from(bytes).unwrap_or_default();
        let mut data = vec![0; length(padded.unwrap_or_default())];
        self.content.read_exact(&mut data)?;
        data.truncate(length(size));
        Ok(data)
    }
}
