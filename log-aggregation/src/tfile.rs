//! Hadoop's TFile, an unsorted file of keys and values: its writer, and a reader of what the writer
//! made. Pure over [`Write`] and `BufRead`.
//!
//! ```text
//! magic │ data block │ … │ TFile.meta │ TFile.index │ BCFile.index │ meta index │ trailer
//!         └─ key length, key, chunks of the value; the next key; …
//! ```
//!
//! A data block ends with the first value that fills it to 256 KiB, so a value is
//! never divided between blocks. Source: `org.apache.hadoop.io.file.tfile` of Hadoop 3.4, `TFile`
//! for the keys and `BCFile` for the blocks. `tests/tests/hadoop/aggregated_logs.rs` compares the
//! bytes with what Hadoop's own writer makes.

mod blocks;
mod chunks;
mod numbers;
mod reader;

use std::io::{self, Write};

use blocks::BlockFile;
pub use blocks::Compression;
use chunks::ChunkEncoder;
pub(crate) use numbers::read_byte;
use numbers::{write_length, write_number, write_text};
pub use reader::{Reader, Value};

/// Bytes on the disk from which a data block is complete (Hadoop: the block size that
/// `AggregatedLogFormat.LogWriter` chooses).
const BLOCK_BYTES_MIN: u64 = 256 * 1024;

/// Version of TFile and of BCFile: major and minor as 16 bits each.
const API_VERSION: [u8; 4] = [0, 1, 0, 0];

/// Last key of a data block, and the number of entries in the block.
#[derive(Debug)]
struct BlockEntry {
    last_key: Vec<u8>,
    entries: u64,
}

/// A TFile that grows by one entry at a time. Without [`Writer::finish`] the file has no index and
/// no reader accepts it.
#[derive(Debug)]
pub struct Writer<W> {
    file: BlockFile<W>,
    first_key: Option<Vec<u8>>,
    blocks: Vec<BlockEntry>,
    /// Entries of all blocks.
    entries: u64,
    /// Entries of the open block, and the last key of it.
    open: Option<BlockEntry>,
}

impl<W: Write> Writer<W> {
    /// Starts a file at the first byte of `out`.
    ///
    /// # Errors
    /// `out` takes no bytes.
    pub fn new(out: W, compression: Compression) -> io::Result<Self> {
        Ok(Self {
            file: BlockFile::new(out, compression)?,
            first_key: None,
            blocks: Vec::new(),
            entries: 0,
            open: None,
        })
    }

    /// Appends a key and the value that `write_value` writes, of any length.
    ///
    /// # Errors
    /// `out` takes no bytes, or `write_value` fails. Then the file is broken for good.
    pub fn append(
        &mut self,
        key: &[u8],
        write_value: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut block = match self.open.take() {
            Some(block) => block,
            None => {
                self.file.begin_block();
                BlockEntry {
                    last_key: Vec::new(),
                    entries: 0,
                }
            }
        };
        write_length(&mut self.file, key.len())?;
        self.file.write_all(key)?;
        let mut chunks = ChunkEncoder::new(&mut self.file);
        write_value(&mut chunks)?;
        chunks.finish()?;
        self.first_key.get_or_insert_with(|| key.to_owned());
        self.entries += 1;
        block.entries += 1;
        key.clone_into(&mut block.last_key);
        if self.file.block_bytes() >= BLOCK_BYTES_MIN {
            self.file.end_block()?;
            self.blocks.push(block);
        } else {
            self.open = Some(block);
        }
        Ok(())
    }

    /// Writes the indexes and the trailer, and returns what [`Writer::new`] was given, flushed.
    ///
    /// # Errors
    /// `out` takes no bytes.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(block) = self.open.take() {
            self.file.end_block()?;
            self.blocks.push(block);
        }
        let mut meta = API_VERSION.to_vec();
        write_number(&mut meta, signed(self.entries))?;
        // The name of the comparator: an unsorted file has none.
        write_text(&mut meta, "")?;
        self.file
            .meta_block("TFile.meta", Compression::None, &meta)?;
        let index = self.index()?;
        let compression = self.file.compression();
        self.file.meta_block("TFile.index", compression, &index)?;
        self.file.finish()
    }

    /// Returns the first key and, for each block, the last key and the number of entries. Each
    /// record has its own length before it.
    fn index(&self) -> io::Result<Vec<u8>> {
        let mut index = Vec::new();
        let Some(first_key) = &self.first_key else {
            write_length(&mut index, 0)?;
            return Ok(index);
        };
        let mut record = Vec::new();
        write_length(&mut record, first_key.len())?;
        record.extend_from_slice(first_key);
        write_length(&mut index, record.len())?;
        index.append(&mut record);
        for block in &self.blocks {
            write_length(&mut record, block.last_key.len())?;
            record.extend_from_slice(&block.last_key);
            write_number(&mut record, signed(block.entries))?;
            write_length(&mut index, record.len())?;
            index.append(&mut record);
        }
        Ok(index)
    }
}

/// Returns a count as Java's signed number.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
