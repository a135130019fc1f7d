//! Unpacking without a source, a cache or threads: for the fuzz targets, which nothing else is.

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use dir_handle::DirHandle;

use super::budget::Budget;
use super::error::UnpackError;
use super::layout::Scope;
use super::progress::Progress;
use super::resource::ResourceKind;
use super::source::Content;
use super::unpack::{self, Packing};

/// Limit on the entries of an input.
const ENTRIES_MAX: u32 = 1_000;

/// Bytes that an input may write, give or take those between two checks of the free space.
const WRITTEN_MAX: u64 = 16 << 20;

/// Content of an archive in memory.
struct Bytes<'a>(Cursor<&'a [u8]>);

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for Bytes<'_> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.0.seek(position)
    }
}

impl Content for Bytes<'_> {
    fn modified_ms(&self) -> io::Result<i64> {
        Ok(0)
    }
}

/// Unpacks an archive into the new folder `name` of `target`, and returns the bytes written. The
/// end of the name tells the format, as for a resource.
///
/// # Errors
/// The archive is refused, or nothing can be written.
///
/// # Panics
/// The name is that of no archive.
pub fn unpack(name: &str, archive: &[u8], target: &DirHandle) -> Result<u64, UnpackError> {
    let packing = Packing::of(name, &ResourceKind::Archive).expect("the name of an archive");
    let progress = Progress::default();
    let mut budget = Budget::new(target, &progress);
    let free = target.free_bytes().unwrap_or(0);
    budget.restrict(free.saturating_sub(WRITTEN_MAX), ENTRIES_MAX);
    let content = &mut Bytes(Cursor::new(archive));
    let modes = Scope::Public.modes();
    unpack::unpack(
        packing,
        name,
        content,
        target,
        modes,
        &mut budget,
        &archives::read,
    )?;
    Ok(budget.written_bytes())
}
