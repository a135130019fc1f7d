//! Maps of sparse files: the regions that a tar has of a file, between which the file is empty.

use std::io::{self, Read};

use super::blocks::{BLOCK_BYTES, Block, Headers, malformed};
use super::header::Header;
use super::number::{decimal, length};
use crate::{Region, Regions};

/// Bytes of the numbers of a region in a header: offset and length.
const REGION_BYTES: usize = 24;

/// Longest line of a map in data: more digits than any length has.
const LINE_BYTES_MAX: usize = 24;

/// Regions in ascending order, without overlaps, within the file's length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SparseMap {
    regions: Vec<Region>,
    size: u64,
}

impl SparseMap {
    /// Checks the regions of a file of `size` bytes.
    ///
    /// # Errors
    /// The regions are not in order, overlap, or do not fit. So is a region that ends within a
    /// block and is not the last: some programs fill up its block, and others do not.
    pub(super) fn new(mut regions: Vec<Region>, size: u64) -> io::Result<Self> {
        let mut end = 0;
        regions.retain(|region| region.length > 0 || region.offset > size);
        let last = regions.len().saturating_sub(1);
        for (index, region) in regions.iter().enumerate() {
            let is_whole = region.length.is_multiple_of(BLOCK_BYTES as u64);
            if region.offset < end || !(is_whole || index == last) {
                return Err(malformed(
                    "the regions of a sparse file overlap or have gaps",
                ));
            }
            let region_end = region.offset.checked_add(region.length);
            end = region_end
                .filter(|end| *end <= size)
                .ok_or_else(|| malformed("the regions of a sparse file are beyond its length"))?;
        }
        Ok(Self { regions, size })
    }

    /// Regions and length of the whole file.
    pub(super) fn regions(&self) -> Regions<'_> {
        Regions {
            parts: &self.regions,
            size: self.size,
        }
    }

    /// Bytes that the archive has of the file.
    pub(super) fn stored(&self) -> u64 {
        self.regions.iter().map(|region| region.length).sum()
    }

    /// Reads the map of GNU's old form: in the header, and in blocks behind it.
    pub(super) fn of_header(
        header: &Header<'_>,
        headers: &mut Headers<impl Read>,
    ) -> io::Result<Self> {
        let (places, mut has_more, size) = header.sparse()?;
        let mut regions = Vec::new();
        add_regions(places, &mut regions)?;
        while has_more {
            let mut block: Block = [0; BLOCK_BYTES];
            headers.read_exact(&mut block)?;
            let (places, rest) = block.split_at(BLOCK_BYTES / REGION_BYTES * REGION_BYTES);
            add_regions(places, &mut regions)?;
            has_more = rest.first().is_some_and(|byte| *byte != 0);
        }
        Self::new(regions, size)
    }

    /// Reads the map of GNU's form 1.0: lines at the begin of the data, up to the end of a block.
    /// Returns it with the bytes that it took.
    pub(super) fn of_data(headers: &mut Headers<impl Read>, size: u64) -> io::Result<(Self, u64)> {
        let mut lines = Lines {
            headers,
            block: [0; BLOCK_BYTES],
            at: BLOCK_BYTES,
            blocks: 0,
        };
        let count = lines.number()?;
        let mut regions = Vec::new();
        for _ in 0..count {
            let (offset, length) = (lines.number()?, lines.number()?);
            regions.push(Region { offset, length });
        }
        let bytes = lines.blocks * BLOCK_BYTES as u64;
        Ok((Self::new(regions, size)?, bytes))
    }
}

/// Adds the regions of a header, up to the first empty place.
fn add_regions(places: &[u8], regions: &mut Vec<Region>) -> io::Result<()> {
    for place in places.chunks_exact(REGION_BYTES) {
        let (offset, bytes) = place.split_at(REGION_BYTES / 2);
        if bytes.first().is_none_or(|byte| *byte == 0) {
            break;
        }
        regions.push(Region {
            offset: length(offset)?,
            length: length(bytes)?,
        });
    }
    Ok(())
}

/// Lines of numbers in blocks.
struct Lines<'a, R> {
    headers: &'a mut Headers<R>,
    block: Block,
    /// Next byte of the block.
    at: usize,
    /// Number of blocks read.
    blocks: u64,
}

impl<R: Read> Lines<'_, R> {
    fn number(&mut self) -> io::Result<u64> {
        let mut line = Vec::new();
        loop {
            if self.at == BLOCK_BYTES {
                self.headers.read_exact(&mut self.block)?;
                self.blocks += 1;
                self.at = 0;
            }
            let byte = self.block.get(self.at).copied().unwrap_or_default();
            self.at += 1;
            if byte == b'\n' {
                return decimal(&line);
            }
            line.push(byte);
            if line.len() > LINE_BYTES_MAX {
                return Err(malformed("a sparse file's map is no list of numbers"));
            }
        }
    }
}
