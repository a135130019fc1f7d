//! Chunks of a value whose length is not known when it begins.

use std::io::{self, Write};

use super::numbers::write_number;

/// Bytes gathered before a chunk is written. Hadoop's `tfile.io.chunk.size` is 1 MiB; readers take
/// any size, and a node with many uploads at once should not hold a mebibyte for each.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// Encoder of one value. Each chunk has its length before it, negated for all but the last
/// (Hadoop: `Chunk.ChunkEncoder`).
pub(super) struct ChunkEncoder<'a, W> {
    out: &'a mut W,
    gathered: Vec<u8>,
}

impl<'a, W: Write> ChunkEncoder<'a, W> {
    pub(super) fn new(out: &'a mut W) -> Self {
        Self {
            out,
            gathered: Vec::new(),
        }
    }

    /// Writes the last chunk, which may be empty.
    pub(super) fn finish(self) -> io::Result<()> {
        write_number(self.out, signed(self.gathered.len()))?;
        self.out.write_all(&self.gathered)
    }
}

impl<W: Write> Write for ChunkEncoder<'_, W> {
    /// Takes all bytes: gathers them, or makes a chunk of them and of those gathered before.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.gathered.len() + bytes.len();
        if length < CHUNK_BYTES {
            self.gathered.extend_from_slice(bytes);
        } else {
            write_number(self.out, -signed(length))?;
            self.out.write_all(&self.gathered)?;
            self.out.write_all(bytes)?;
            self.gathered.clear();
        }
        Ok(bytes.len())
    }

    /// Does nothing: a flush would end a compressed block.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
