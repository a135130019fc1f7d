//! Blocks of a file, each compressed by itself, and the indexes that find them (Hadoop: `BCFile`).

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::{Compress, FlushCompress, Status};

use super::API_VERSION;
use super::numbers::{write_length, write_number, write_text};

/// First and last bytes of each file (Hadoop: `BCFile.Magic`).
pub(super) const MAGIC: [u8; 16] = [
    0xd1, 0x11, 0xd3, 0x68, 0x91, 0xb5, 0xd7, 0xb6, 0x39, 0xdf, 0x41, 0x40, 0x92, 0xba, 0xe1, 0x50,
];

/// Prefix of the names in the meta index.
const NAME_PREFIX: &str = "data:";

/// Largest size of a block before compression that Hadoop writes down: its counter stops there.
/// Nothing that reads logs uses the number.
const RAW_BYTES_MAX: u64 = i32::MAX as u64;

/// Bytes that a compressor writes at once.
const COMPRESSED_PART_BYTES: usize = 16 * 1024;

/// Compression of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Plain bytes.
    None,
    /// A zlib stream for each block. Hadoop calls it `gz`, although no block has a gzip header.
    Gz,
}

impl Compression {
    /// Returns the name in the files and in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gz => "gz",
        }
    }
}

/// Place of a block: offset, bytes in the file, bytes before compression.
#[derive(Clone, Copy, Debug)]
struct Region {
    offset: u64,
    compressed: u64,
    raw: u64,
}

impl Region {
    fn write(self, out: &mut impl Write) -> io::Result<()> {
        for number in [self.offset, self.compressed, self.raw] {
            write_number(out, i64::try_from(number).unwrap_or(i64::MAX))?;
        }
        Ok(())
    }
}

/// The block that is being written.
#[derive(Debug)]
struct OpenBlock {
    offset: u64,
    raw: u64,
    /// `None` for plain bytes.
    compress: Option<Compress>,
}

/// A file of blocks. Bytes written to it belong to the open block.
#[derive(Debug)]
pub(super) struct BlockFile<W> {
    out: W,
    /// Bytes written to `out`.
    position: u64,
    compression: Compression,
    open: Option<OpenBlock>,
    data: Vec<Region>,
    meta: BTreeMap<&'static str, (Compression, Region)>,
}

impl<W: Write> BlockFile<W> {
    pub(super) fn new(out: W, compression: Compression) -> io::Result<Self> {
        let mut file = Self {
            out,
            position: 0,
            compression,
            open: None,
            data: Vec::new(),
            meta: BTreeMap::new(),
        };
        file.put(&MAGIC)?;
        Ok(file)
    }

    /// Returns the compression of data blocks.
    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    /// Begins a data block.
    pub(super) fn begin_block(&mut self) {
        self.begin(self.compression);
    }

    /// Returns the bytes of the open block in the file so far.
    pub(super) fn block_bytes(&self) -> u64 {
        let open = self.open.as_ref();
        open.map_or(0, |block| self.position - block.offset)
    }

    /// Ends the data block.
    pub(super) fn end_block(&mut self) -> io::Result<()> {
        if let Some(region) = self.end()? {
            self.data.push(region);
        }
        Ok(())
    }

    /// Writes a block that is found by its name.
    pub(super) fn meta_block(
        &mut self,
        name: &'static str,
        compression: Compression,
        content: &[u8],
    ) -> io::Result<()> {
        self.begin(compression);
        self.write_all(content)?;
        if let Some(region) = self.end()? {
            self.meta.insert(name, (compression, region));
        }
        Ok(())
    }

    /// Writes the indexes and the trailer, and returns the flushed output.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let mut index = Vec::new();
        write_text(&mut index, self.compression.as_str())?;
        write_length(&mut index, self.data.len())?;
        for region in &self.data {
            region.write(&mut index)?;
        }
        self.meta_block("BCFile.index", self.compression, &index)?;

        let mut tail = Vec::new();
        write_length(&mut tail, self.meta.len())?;
        for (name, (compression, region)) in &self.meta {
            write_text(&mut tail, &format!("{NAME_PREFIX}{name}"))?;
            write_text(&mut tail, compression.as_str())?;
            region.write(&mut tail)?;
        }
        tail.extend_from_slice(&self.position.to_be_bytes());
        tail.extend_from_slice(&API_VERSION);
        tail.extend_from_slice(&MAGIC);
        self.put(&tail)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, compression: Compression) {
        let compress = match compression {
            Compression::None => None,
            Compression::Gz => Some(Compress::new(flate2::Compression::default(), true)),
        };
        self.open = Some(OpenBlock {
            offset: self.position,
            raw: 0,
            compress,
        });
    }

    fn end(&mut self) -> io::Result<Option<Region>> {
        let Some(mut block) = self.open.take() else {
            return Ok(None);
        };
        if let Some(compress) = &mut block.compress {
            self.compress(compress, &[], FlushCompress::Finish)?;
        }
        Ok(Some(Region {
            offset: block.offset,
            compressed: self.position - block.offset,
            raw: block.raw.min(RAW_BYTES_MAX),
        }))
    }

    /// Compresses `bytes` into the file. With [`FlushCompress::Finish`] ends the stream.
    fn compress(
        &mut self,
        compress: &mut Compress,
        mut bytes: &[u8],
        flush: FlushCompress,
    ) -> io::Result<()> {
        let mut part = Vec::with_capacity(COMPRESSED_PART_BYTES);
        loop {
            let before = compress.total_in();
            let status = compress.compress_vec(bytes, &mut part, flush)?;
            let taken = usize::try_from(compress.total_in() - before).unwrap_or(usize::MAX);
            bytes = bytes.get(taken..).unwrap_or_default();
            let is_full = part.len() == part.capacity();
            self.put(&part)?;
            part.clear();
            let is_done = if flush == FlushCompress::Finish {
                status == Status::StreamEnd
            } else {
                bytes.is_empty() && !is_full
            };
            if is_done {
                return Ok(());
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

impl<W: Write> Write for BlockFile<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(mut block) = self.open.take() else {
            return Err(io::Error::other("no block is open"));
        };
        let written = match &mut block.compress {
            None => self.put(bytes),
            Some(compress) => self.compress(compress, bytes, FlushCompress::None),
        };
        block.raw += bytes.len() as u64;
        self.open = Some(block);
        written.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
