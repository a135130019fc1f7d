//! Limit on the directory of a zip, which its reader keeps in memory as a whole.
//!
//! Each entry of a directory costs far more in memory than in the file: an archive of some
//! megabytes could take gigabytes. So not only the bytes count that are read for the directory, but
//! also the entries among them.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

/// Limit on the memory of one directory, in bytes: some 150,000 entries with names of usual length,
/// twice as many as large jars have. Four downloads at once, the default, stay below half a
/// gigabyte.
const DIRECTORY_BYTES_MAX: u64 = 128 << 20;

/// Memory of an entry beside its name, in bytes: the reader's structure of some 400 bytes, its
/// place in a hash table, and the allocator's overhead for four texts.
const ENTRY_BYTES: u64 = 640;

/// Copies of a name and other variable parts that the reader keeps: as read, as text, and as key.
const COPIES: u64 = 3;

/// First bytes of an entry in a zip's directory (APPNOTE 4.3.12).
const ENTRY_SIGNATURE: u32 = u32::from_be_bytes(*b"PK\x01\x02");

/// Reader of a zip that fails with [`io::ErrorKind::InvalidData`] when the directory is too large.
pub(super) struct DirectoryMeter<R> {
    inner: R,
    /// Memory that the directory may still take; `None` once it has been read.
    left: Rc<Cell<Option<u64>>>,
    /// The last four bytes.
    window: u32,
}

/// Switch of a [`DirectoryMeter`].
pub(super) struct Directory(Rc<Cell<Option<u64>>>);

impl Directory {
    /// Ends the metering: what is read from now on is content.
    pub(super) fn end(self) {
        self.0.set(None);
    }
}

impl<R> DirectoryMeter<R> {
    /// Returns a reader that meters what it reads, and its switch.
    pub(super) fn new(inner: R) -> (Self, Directory) {
        let left = Rc::new(Cell::new(Some(DIRECTORY_BYTES_MAX)));
        let meter = Self {
            inner,
            left: Rc::clone(&left),
            window: 0,
        };
        (meter, Directory(left))
    }

    /// Returns the memory that the reader may need for these bytes.
    fn cost(&mut self, bytes: &[u8]) -> u64 {
        let mut entries = 0;
        for byte in bytes {
            self.window = self.window << 8 | u32::from(*byte);
            entries += u64::from(self.window == ENTRY_SIGNATURE);
        }
        entries * ENTRY_BYTES + bytes.len() as u64 * COPIES
    }
}

impl<R: Read> Read for DirectoryMeter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        if let Some(left) = self.left.get() {
            let cost = self.cost(buffer.get(..length).unwrap_or_default());
            let Some(left) = left.checked_sub(cost) else {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the directory has too many entries, or too long ones",
                ));
            };
            self.left.set(Some(left));
        }
        Ok(length)
    }
}

impl<R: Seek> Seek for DirectoryMeter<R> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.window = 0;
        self.inner.seek(position)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Returns a zip of this many empty files: their directory, and its end.
    fn zip_of(entries: u32) -> Vec<u8> {
        let mut zip = Vec::new();
        for entry in 0..entries {
            let mut header = [0_u8; 46];
            header[..4].copy_from_slice(b"PK\x01\x02");
            header[28] = 4;
            zip.extend_from_slice(&header);
            zip.extend_from_slice(format!("{entry:04x}").get(..4).unwrap().as_bytes());
        }
        let size = u32::try_from(zip.len()).unwrap();
        let count = u16::try_from(entries.min(0xfffe)).unwrap();
        zip.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        zip.extend_from_slice(&count.to_le_bytes());
        zip.extend_from_slice(&count.to_le_bytes());
        zip.extend_from_slice(&size.to_le_bytes());
        zip.extend_from_slice(&[0; 6]);
        zip
    }

    #[test]
    fn a_directory_of_usual_size_is_read() {
        let (meter, directory) = DirectoryMeter::new(Cursor::new(zip_of(1_000)));
        let archive = zip::ZipArchive::new(meter).unwrap();
        assert_eq!(archive.len(), 1_000);
        directory.end();
        let mut meter = archive.into_inner();
        meter.window = 0;
        meter.rewind().unwrap();
        let whole = io::copy(&mut meter, &mut io::sink()).unwrap();
        assert_eq!(whole, 1_000 * 50 + 22);
    }

    #[test]
    fn entries_count_by_the_memory_that_they_take_and_not_by_their_bytes() {
        let zip = zip_of(180_000);
        assert!((zip.len() as u64) < DIRECTORY_BYTES_MAX / 10);
        let (mut meter, _directory) = DirectoryMeter::new(Cursor::new(zip));
        let error = io::copy(&mut meter, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn an_entry_counts_however_its_bytes_arrive() {
        let (mut meter, _directory) = DirectoryMeter::new(io::empty());
        let parts: [&[u8]; 3] = [b"xPK", b"\x01", b"\x02y"];
        let cost: u64 = parts.iter().map(|part| meter.cost(part)).sum();
        assert_eq!(cost, ENTRY_BYTES + 6 * COPIES);
    }
}
