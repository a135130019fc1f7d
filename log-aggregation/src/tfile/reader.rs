//! Reader of a TFile from its first byte on, entry by entry. Pure over [`BufRead`].
//!
//! Data blocks follow each other, so their entries are found without the indexes. What follows the
//! last entry is none: a reader that gets there meets an error or the end. Any bytes are taken, and
//! no length that they state is allocated beyond [`KEY_BYTES_MAX`].

use std::io::{self, BufRead, Read};

use flate2::bufread::ZlibDecoder;

use super::blocks::{Compression, MAGIC};
use super::numbers::read_number;

/// Longest key: a text of Java's with its length before it.
const KEY_BYTES_MAX: u64 = 2 + 65_535;

/// A TFile between two entries.
pub struct Reader<R> {
    blocks: Blocks<R>,
}

/// Value of an entry; its bytes are read once, or passed over.
pub struct Value<R> {
    blocks: Blocks<R>,
    /// Bytes of the chunk that are still to be read.
    left: u64,
    /// Whether no chunk follows.
    is_last: bool,
}

/// Bytes of all data blocks, without compression.
enum Blocks<R> {
    Plain(R),
    /// The stream of the current block; `None` behind the last.
    Zlib(Option<ZlibDecoder<R>>),
}

impl<R: BufRead> Reader<R> {
    /// Takes a file from its first byte.
    ///
    /// # Errors
    /// The file does not begin as a TFile, or cannot be read.
    pub fn new(mut input: R, compression: Compression) -> io::Result<Self> {
        let mut begin = [0; MAGIC.len()];
        input.read_exact(&mut begin)?;
        if begin != MAGIC {
            return Err(invalid("the file is no TFile"));
        }
        let blocks = match compression {
            Compression::None => Blocks::Plain(input),
            Compression::Gz => Blocks::Zlib(Some(ZlibDecoder::new(input))),
        };
        Ok(Self { blocks })
    }

    /// Returns the next key with its value; `None` at the end.
    ///
    /// # Errors
    /// What follows is no entry, or cannot be read.
    pub fn next_entry(mut self) -> io::Result<Option<(Vec<u8>, Value<R>)>> {
        let Some(length) = read_number(&mut self.blocks)? else {
            return Ok(None);
        };
        let length = u64::try_from(length).ok();
        let length = length.filter(|length| *length <= KEY_BYTES_MAX);
        let length = length.ok_or_else(|| invalid("no entry of a TFile has a key so long"))?;
        let mut key = Vec::new();
        (&mut self.blocks).take(length).read_to_end(&mut key)?;
        if key.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let value = Value {
            blocks: self.blocks,
            left: 0,
            is_last: false,
        };
        Ok(Some((key, value)))
    }
}

impl<R: BufRead> Value<R> {
    /// Passes over what is left of the value.
    ///
    /// # Errors
    /// The value ends early, or cannot be read.
    pub fn skip(mut self) -> io::Result<Reader<R>> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(Reader {
            blocks: self.blocks,
        })
    }
}

impl<R: BufRead> Read for Value<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            if self.is_last || out.is_empty() {
                return Ok(0);
            }
            let length = read_number(&mut self.blocks)?;
            let length = length.ok_or(io::ErrorKind::UnexpectedEof)?;
            self.left = length.unsigned_abs();
            self.is_last = length >= 0;
        }
        let count = usize::try_from(self.left).map_or(out.len(), |left| left.min(out.len()));
        let read = self.blocks.read(&mut out[..count])?;
        if read == 0 && count > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

impl<R: BufRead> Read for Blocks<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let stream = match self {
            Self::Plain(input) => return input.read(out),
            Self::Zlib(stream) => stream,
        };
        while let Some(mut current) = stream.take() {
            let read = current.read(out);
            if !matches!(read, Ok(0)) || out.is_empty() {
                *stream = Some(current);
                return read;
            }
            let mut input = current.into_inner();
            if !input.fill_buf()?.is_empty() {
                *stream = Some(ZlibDecoder::new(input));
            }
        }
        Ok(0)
    }
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
