//! Limits on one download, and copying within them.
//!
//! An archive of a few kilobytes can unpack to terabytes, or to millions of empty files. Free disk
//! space and a fixed number of entries limit it, not the sizes that the archive states.

use std::fs::File;
use std::io::{self, Read, Write};

use dir_handle::DirHandle;

use super::progress::Progress;
use super::room::room_bytes;

/// Part of the room that a download leaves, as its inverse. A disk that one download could leave
/// without room would count as full, and a node without another disk as unhealthy, until the
/// unfinished download is removed.
const LEFT_OF_ROOM: u64 = 8;

/// Limit on files, folders and links of one resource. Python environments have 100,000 to 300,000.
const ENTRIES_MAX: u32 = 1 << 20;

/// Bytes written between two checks of the free space.
const CHECK_EVERY_BYTES: u64 = 16 << 20;

const COPY_BUFFER_BYTES: usize = 128 << 10;

/// Limit for which a download is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exhausted {
    Disk,
    Entries,
    /// No container waits for the download any more.
    GivenUp,
}

/// Cause of an aborted copy.
#[derive(Debug)]
pub(super) enum CopyError {
    Read(io::Error),
    Write(io::Error),
    Exhausted(Exhausted),
}

/// Bytes and entries that one download may still write.
pub(super) struct Budget<'a> {
    /// Any folder on the disk that the download is written to.
    disk: &'a DirHandle,
    progress: &'a Progress,
    entries_left: u32,
    bytes_until_check: u64,
    written_bytes: u64,
    /// Bytes to leave free; `None`: those of a disk of this size.
    free_reserve_bytes: Option<u64>,
    /// Bytes of the room to leave for others; `None` before the first look.
    left_bytes: Option<u64>,
    buffer: Vec<u8>,
}

impl<'a> Budget<'a> {
    pub(super) fn new(disk: &'a DirHandle, progress: &'a Progress) -> Self {
        Self {
            disk,
            progress,
            entries_left: ENTRIES_MAX,
            bytes_until_check: 0,
            written_bytes: 0,
            free_reserve_bytes: None,
            left_bytes: None,
            buffer: vec![0; COPY_BUFFER_BYTES],
        }
    }

    /// Returns the number of bytes written so far.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Counts one more file, folder or link.
    pub(super) fn spend_entry(&mut self) -> Result<(), Exhausted> {
        self.step()?;
        let left = self.entries_left.checked_sub(1);
        self.entries_left = left.ok_or(Exhausted::Entries)?;
        Ok(())
    }

    /// Counts a step, unless the download is to abort.
    fn step(&self) -> Result<(), Exhausted> {
        if self.progress.is_given_up() {
            return Err(Exhausted::GivenUp);
        }
        self.progress.count_step();
        Ok(())
    }

    fn spend_bytes(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.step()?;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if self.bytes_until_check < bytes {
            // If the file system does not answer, the write will return the error.
            let room = self.disk.space().map_or(u64::MAX, |space| {
                let reserve = self.free_reserve_bytes;
                reserve.map_or_else(
                    || room_bytes(space),
                    |reserve| space.free_bytes.saturating_sub(reserve),
                )
            });
            let left = *self.left_bytes.get_or_insert(room / LEFT_OF_ROOM);
            let room = room.saturating_sub(left);
            if room < bytes {
                return Err(Exhausted::Disk);
            }
            self.bytes_until_check = CHECK_EVERY_BYTES.min(room);
        }
        self.bytes_until_check = self.bytes_until_check.saturating_sub(bytes);
        Ok(())
    }

    /// Copies to the end of the source.
    pub(super) fn copy(
        &mut self,
        from: &mut (impl Read + ?Sized),
        to: &mut File,
    ) -> Result<(), CopyError> {
        loop {
            let length = self.read(from)?;
            if length == 0 {
                return Ok(());
            }
            let written = u64::try_from(length).unwrap_or(u64::MAX);
            self.written_bytes = self.written_bytes.saturating_add(written);
            let bytes = self.buffer.get(..length).unwrap_or_default();
            to.write_all(bytes).map_err(CopyError::Write)?;
        }
    }

    /// Reads to the end and discards the content. Charges it like a copy, since unpacking it takes
    /// time, too.
    pub(super) fn skip(&mut self, from: &mut (impl Read + ?Sized)) -> Result<(), CopyError> {
        while self.read(from)? > 0 {}
        Ok(())
    }

    fn read(&mut self, from: &mut (impl Read + ?Sized)) -> Result<usize, CopyError> {
        let length = loop {
            match from.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(CopyError::Read)?,
            }
        };
        self.spend_bytes(length).map_err(CopyError::Exhausted)?;
        Ok(length)
    }

    /// Leaves this many bytes of the disk free, and only this many entries: for tests and fuzz
    /// targets.
    pub(super) fn restrict(&mut self, free_reserve_bytes: u64, entries_left: u32) {
        self.free_reserve_bytes = Some(free_reserve_bytes);
        self.entries_left = entries_left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, DirHandle) {
        let dir = tempfile::tempdir().unwrap();
        let folder = DirHandle::open_ambient(dir.path()).unwrap();
        (dir, folder)
    }

    #[test]
    fn an_endless_source_is_given_up_when_nobody_waits() {
        /// Source that is given up at its third read.
        struct Endless<'a>(&'a Progress);
        impl Read for Endless<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if self.0.steps() == 2 {
                    self.0.give_up();
                }
                Ok(buffer.len())
            }
        }
        let (_dir, folder) = folder();
        let progress = Progress::default();
        let mut budget = Budget::new(&folder, &progress);
        let mut file = folder.create_file("x", 0o600).unwrap();
        let error = budget.copy(&mut Endless(&progress), &mut file).unwrap_err();
        assert!(matches!(error, CopyError::Exhausted(Exhausted::GivenUp)));
        let copied = u64::try_from(2 * COPY_BUFFER_BYTES).unwrap();
        assert_eq!((budget.written_bytes(), progress.steps()), (copied, 2));
    }

    #[test]
    fn a_full_disk_ends_the_copy_before_it_is_quite_full() {
        let (_dir, folder) = folder();
        let progress = Progress::default();
        let mut budget = Budget::new(&folder, &progress);
        budget.restrict(u64::MAX, 1);
        let mut file = folder.create_file("x", 0o600).unwrap();
        let error = budget.copy(&mut io::repeat(0), &mut file).unwrap_err();
        assert!(matches!(error, CopyError::Exhausted(Exhausted::Disk)));
        assert_eq!(budget.written_bytes(), 0);
    }

    #[test]
    fn entries_run_out() {
        let (_dir, folder) = folder();
        let progress = Progress::default();
        let mut budget = Budget::new(&folder, &progress);
        budget.restrict(0, 1);
        assert_eq!(budget.spend_entry(), Ok(()));
        assert_eq!(budget.spend_entry(), Err(Exhausted::Entries));
    }
}
