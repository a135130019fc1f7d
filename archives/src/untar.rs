//! Tars as GNU tar unpacks them, which is what a Java NodeManager runs (`FileUtil.unTarUsingTar`):
//! the forms of Unix v7, POSIX and GNU, with long names, extended headers and sparse files.
//!
//! ```text
//! [blocks] ── within an allowance for headers; [header] [pax] [number]: what they mean
//!    │
//! Archive ── entries: names and sizes from all headers of an entry; [sparse]: its regions
//!    │
//! untar   ── each entry to the disk
//! ```
//! An archive ends at its first block of zeros, or where its bytes end behind an entry.

mod blocks;
mod header;
mod number;
mod pax;
mod sparse;

use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use self::blocks::{BLOCK_BYTES, Headers, malformed};
use self::header::{Header, up_to_nul};
use self::pax::{Pax, SparseFile};
use self::sparse::SparseMap;
use crate::exact::Exact;
use crate::{Entries, ReadError, Unsupported};

/// Limit on the bytes of all headers of one entry, with its long names, attributes and regions. GNU
/// tar writes at most a few paths' worth, and 24 bytes for each region of a sparse file.
const HEADERS_BYTES_MAX: u64 = 1 << 20;

/// Bytes behind the end that are read, so that a checksum behind them is checked: a tar is filled
/// up to a multiple of 10 KiB, and not much beyond where it was written for another medium.
const BEHIND_END_BYTES_MAX: u64 = 1 << 20;

/// Unpacks all entries.
pub(crate) fn untar(content: impl Read, entries: &mut dyn Entries) -> Result<(), ReadError> {
    let mut archive = Archive {
        headers: Headers {
            content,
            left: HEADERS_BYTES_MAX,
        },
        global: Pax::default(),
        is_begin: true,
    };
    while let Some(entry) = archive.next_entry()? {
        archive.unpack(entry, entries)?;
    }
    let behind = &mut archive.headers.content.take(BEHIND_END_BYTES_MAX);
    Ok(entries.skip(b"", behind)?)
}

/// An entry before its data.
struct Entry {
    name: Vec<u8>,
    kind: u8,
    link: Vec<u8>,
    /// Bytes of the data, which fill up their last block.
    stored: u64,
    modified_s: Option<i64>,
    sparse: Option<SparseFile>,
}

struct Archive<R> {
    headers: Headers<R>,
    /// The last global header, which holds for all entries up to the next one.
    global: Pax,
    is_begin: bool,
}

impl<R: Read> Archive<R> {
    /// Reads the headers up to the next entry's data; `None` at the end.
    fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        self.headers.left = HEADERS_BYTES_MAX;
        let (mut long_name, mut long_link, mut pax) = (None, None, None);
        let mut is_within_entry = false;
        loop {
            let Some(block) = self.headers.block()? else {
                if self.is_begin || is_within_entry {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                return Ok(None);
            };
            if block.iter().all(|byte| *byte == 0) && !is_within_entry {
                return Ok(None);
            }
            let header = Header::of(&block);
            let header = header.ok_or_else(|| malformed("a block is no header of a tar"))?;
            self.is_begin = false;
            is_within_entry = true;
            match header.kind() {
                b'L' => long_name = Some(self.long_text(&header)?),
                b'K' => long_link = Some(self.long_text(&header)?),
                // `X`: Solaris, before POSIX.
                b'x' | b'X' => pax = Some(Pax::parse(&self.headers.data(header.size()?)?)?),
                b'g' => {
                    self.global = Pax::parse(&self.headers.data(header.size()?)?)?;
                    is_within_entry = false;
                }
                _ => {
                    let pax = pax.unwrap_or_default().over(&self.global);
                    return self.entry(&header, long_name, long_link, pax).map(Some);
                }
            }
        }
    }

    fn long_text(&mut self, header: &Header<'_>) -> io::Result<Vec<u8>> {
        let text = self.headers.data(header.size()?)?;
        Ok(up_to_nul(&text).to_vec())
    }

    fn entry(
        &mut self,
        header: &Header<'_>,
        long_name: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
        mut pax: Pax,
    ) -> io::Result<Entry> {
        let name = pax.take_name().or(long_name);
        let name = name.unwrap_or_else(|| header.name());
        let kind = match header.kind() {
            // Before folders had a kind, a slash marked them.
            b'0' | 0 | b'7' if name.ends_with(b"/") => b'5',
            0 | b'7' => b'0',
            kind => kind,
        };
        let stored = match kind {
            // These have no data, whatever size they state.
            b'1'..=b'6' => 0,
            _ => pax.size.map_or_else(|| header.size(), Ok)?,
        };
        let link = pax.link.take().or(long_link);
        let modified_s = pax.modified_s.or_else(|| header.modified_s());
        let sparse = match kind {
            b'S' => Some(SparseFile::Mapped(SparseMap::of_header(
                header,
                &mut self.headers,
            )?)),
            b'0' => pax.into_sparse()?,
            _ => None,
        };
        Ok(Entry {
            name,
            kind,
            link: link.unwrap_or_else(|| header.link()),
            stored,
            modified_s,
            sparse,
        })
    }

    fn unpack(&mut self, entry: Entry, entries: &mut dyn Entries) -> Result<(), ReadError> {
        let name = &entry.name;
        let sparse = match entry.sparse {
            Some(SparseFile::Mapped(map)) => Some((map, entry.stored)),
            Some(SparseFile::MapInData(size)) => {
                let (map, map_bytes) = SparseMap::of_data(&mut self.headers, size)?;
                let stored = entry.stored.checked_sub(map_bytes);
                let stored = stored.ok_or_else(|| malformed("a sparse file's map is too long"))?;
                Some((map, stored))
            }
            Some(SparseFile::Unknown) => {
                return Err(entries.refuse(name, Unsupported::SparseForm).into());
            }
            None => None,
        };
        let stored = sparse.as_ref().map_or(entry.stored, |(_, stored)| *stored);
        if sparse
            .as_ref()
            .is_some_and(|(map, stored)| map.stored() != *stored)
        {
            return Err(malformed("a sparse file's data is not as long as its regions").into());
        }
        let data = &mut Exact::new(&mut self.headers.content, stored);
        let modified = entry.modified_s.and_then(system_time);
        match (entry.kind, sparse) {
            (b'0' | b'S', Some((map, _))) => {
                entries.sparse_file(name, map.regions(), data, modified)?;
            }
            (b'0', None) => entries.file(name, data, modified)?,
            (b'1', _) => entries.hard_link(name, &entry.link)?,
            (b'2', _) => entries.symbolic_link(name, &entry.link)?,
            // `D`: a folder with the list of its names, which an incremental backup has.
            (b'5' | b'D', _) => entries.folder(name)?,
            // The label of the archive.
            (b'V', _) => {}
            (kind, _) => return Err(entries.refuse(name, refusal(kind)).into()),
        }
        // The rest, if any, and what fills up the last block: the next header starts behind it.
        entries.skip(name, data)?;
        let filling = stored.next_multiple_of(BLOCK_BYTES as u64) - stored;
        let filling = &mut Exact::new(&mut self.headers.content, filling);
        Ok(entries.skip(name, filling)?)
    }
}

/// Returns why an entry of this kind is refused.
fn refusal(kind: u8) -> Unsupported {
    match kind {
        b'3' | b'4' | b'6' => Unsupported::SpecialFile,
        b'M' => Unsupported::Continued,
        kind => Unsupported::UnknownKind(kind),
    }
}

/// Returns a time in seconds since the epoch, before it if negative.
fn system_time(seconds: i64) -> Option<SystemTime> {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    }
}
