//! Writes the entries of an archive inside one folder and nowhere else.
//!
//! The archive's author may want to overwrite or read our files, and may own the folder: then its
//! containers may change it meanwhile. The rules, which are GNU tar's where it refuses nothing that
//! is safe:
//! - a name is relative, whatever slashes it begins with, and has no `..`. Every part but the last
//!   is a folder, created on the way if missing;
//! - a part may be a symbolic link. It is not followed by the kernel: its target is read, and
//!   walked like the name itself from the folder that it is in, up to the archive's folder and no
//!   further. An absolute target, or one that leaves the folder, is refused there;
//! - a symbolic link is stored with any target. Whoever reads it later does so with rights of its
//!   own;
//! - a later entry replaces an earlier file, link or empty folder of its name, and a folder
//!   replaces a file or a link;
//! - a hard link names a file or a link of the archive. Of a link it makes another link;
//! - devices and pipes are refused. Owners, extended attributes and set-id bits are ignored.

mod walk;

use std::ffi::OsStr;
use std::fs::{File, FileTimes};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use self::walk::{Missing, walk};

use archives::{Entries, NAME_BYTES_MAX, Regions, Stopped, Unsupported};

use super::budget::{Budget, CopyError, Exhausted};
use super::error::{RefusedEntry, UnpackError};
use super::layout::CacheModes;
use dir_handle::{DirHandle, FileKind, FileStatus};

/// Longest part of a name, in bytes (`NAME_MAX`).
const PART_BYTES_MAX: usize = 255;
/// Limit on the parts of a name.
const PARTS_MAX: usize = 128;

/// Writer of one archive's entries.
pub(super) struct Extract<'a, 'b> {
    archive: &'a str,
    root: DirHandle,
    modes: CacheModes,
    budget: &'a mut Budget<'b>,
    /// Folder of the last entry, with its names: most entries follow a neighbour.
    last: Option<(Vec<Vec<u8>>, DirHandle)>,
    /// Why it takes nothing more.
    failure: Option<UnpackError>,
}

/// Failure to write an entry, before the entry's name is added.
enum EntryFailure {
    Refused(RefusedEntry),
    Io(io::Error),
    Read(io::Error),
    GivenUp,
}

impl From<RefusedEntry> for EntryFailure {
    fn from(reason: RefusedEntry) -> Self {
        Self::Refused(reason)
    }
}

impl From<Exhausted> for EntryFailure {
    fn from(exhausted: Exhausted) -> Self {
        match exhausted {
            Exhausted::Disk => Self::Refused(RefusedEntry::DiskFull),
            Exhausted::Entries => Self::Refused(RefusedEntry::TooManyEntries),
            Exhausted::GivenUp => Self::GivenUp,
        }
    }
}

impl From<CopyError> for EntryFailure {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Read(error) => Self::Read(error),
            CopyError::Write(error) => Self::from(error),
            CopyError::Exhausted(exhausted) => Self::from(exhausted),
        }
    }
}

impl From<io::Error> for EntryFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<'a, 'b> Extract<'a, 'b> {
    /// Returns a writer of entries below `root`, an empty folder.
    pub(super) fn new(
        archive: &'a str,
        root: DirHandle,
        modes: CacheModes,
        budget: &'a mut Budget<'b>,
    ) -> Self {
        Self {
            archive,
            root,
            modes,
            budget,
            last: None,
            failure: None,
        }
    }

    /// Takes the reason why this writer has stopped.
    pub(super) fn take_failure(&mut self) -> Option<UnpackError> {
        self.failure.take()
    }

    fn stop(&mut self, name: &[u8], failure: EntryFailure) -> Stopped {
        let error = self.error(name, failure);
        self.failure.get_or_insert(error);
        Stopped
    }

    fn make_folder(&mut self, name: &[u8]) -> Result<(), EntryFailure> {
        let parts = parts(name)?;
        self.spend()?;
        let Some((last, parents)) = parts.split_last() else {
            return Ok(());
        };
        let parent = self.enter(parents)?;
        if parent.kind(last)? != Some(FileKind::Directory) {
            self.clear(&parent, last)?;
            parent.create(last, self.modes.folder)?;
        }
        Ok(())
    }

    fn make_file(
        &mut self,
        name: &[u8],
        modified: Option<SystemTime>,
        write: impl FnOnce(&mut Self, &mut File) -> Result<(), EntryFailure>,
    ) -> Result<(), EntryFailure> {
        let (parent, last) = self.place_for(name)?;
        let mut file = parent.create_file(last, self.modes.file)?;
        write(self, &mut file)?;
        if let Some(modified) = modified {
            // Python compiles a module again whose time is not that of the compiled one. A time
            // that the file system cannot keep harms nobody.
            let _ = file.set_times(FileTimes::new().set_modified(modified));
        }
        Ok(())
    }

    fn make_link(&mut self, name: &[u8], target: &[u8]) -> Result<(), EntryFailure> {
        if target.is_empty() || target.len() >= NAME_BYTES_MAX || target.contains(&0) {
            return Err(RefusedEntry::BadTarget.into());
        }
        let (parent, last) = self.place_for(name)?;
        Ok(parent.symlink(OsStr::from_bytes(target), last)?)
    }

    fn link_to(&mut self, name: &[u8], target: &[u8]) -> Result<(), EntryFailure> {
        let target = parts(target).map_err(|_| RefusedEntry::LinkToNoFile)?;
        let (old_name, old_parents) = target.split_last().ok_or(RefusedEntry::LinkToNoFile)?;
        let old = walk(&self.root, old_parents, Missing::Refused);
        let old = old.map_err(|_| RefusedEntry::LinkToNoFile)?;
        let status = match old.status(old_name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(RefusedEntry::LinkToNoFile.into());
            }
            status => status?,
        };
        match status.kind {
            FileKind::File => {}
            FileKind::Link => {
                let target = old.read_link(old_name)?;
                return self.make_link(name, target.as_bytes());
            }
            FileKind::Directory | FileKind::Special => {
                return Err(RefusedEntry::LinkToNoFile.into());
            }
        }
        let parts = parts(name)?;
        let (last, parents) = parts.split_last().ok_or(RefusedEntry::BadName)?;
        let parent = self.enter(parents)?;
        // All of the folder is on one file system.
        let is_same = |there: FileStatus| there.inode == status.inode;
        if parent.status(last).is_ok_and(is_same) {
            // The name is one of the file already. Its removal could lose the file.
            return self.spend();
        }
        let (parent, last) = self.place_for(name)?;
        Ok(parent.hard_link(&old, old_name, last)?)
    }

    /// Returns the folder of an entry and its last name, of which there is nothing any more.
    fn place_for<'n>(&mut self, name: &'n [u8]) -> Result<(DirHandle, &'n OsStr), EntryFailure> {
        let parts = parts(name)?;
        let (last, parents) = parts.split_last().ok_or(RefusedEntry::BadName)?;
        self.spend()?;
        let parent = self.enter(parents)?;
        self.clear(&parent, last)?;
        Ok((parent, last))
    }

    /// Removes an earlier file, link or empty folder.
    fn clear(&mut self, parent: &DirHandle, name: &OsStr) -> Result<(), EntryFailure> {
        match parent.kind(name)? {
            None => return Ok(()),
            Some(FileKind::Directory) => match parent.remove_dir(name) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    return Err(RefusedEntry::ReplacesFolder.into());
                }
                removed => removed?,
            },
            Some(FileKind::File | FileKind::Link | FileKind::Special) => parent.unlink(name)?,
        }
        // The last folder may have been reached through what is gone.
        self.last = None;
        Ok(())
    }

    fn spend(&mut self) -> Result<(), EntryFailure> {
        Ok(self.budget.spend_entry()?)
    }

    /// Opens the folder that these parts name, also through links; creates missing ones.
    fn enter(&mut self, parts: &[&OsStr]) -> Result<DirHandle, EntryFailure> {
        if let Some((names, folder)) = &self.last {
            let same = names.iter().map(Vec::as_slice);
            if same.eq(parts.iter().map(|part| part.as_bytes())) {
                return Ok(folder.try_clone()?);
            }
        }
        let missing = Missing::Created {
            mode: self.modes.folder,
        };
        let folder = walk(&self.root, parts, missing)?;
        let names = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
        self.last = Some((names, folder.try_clone()?));
        Ok(folder)
    }

    fn error(&self, name: &[u8], failure: EntryFailure) -> UnpackError {
        let archive = self.archive.to_owned();
        // The archive's author chooses this text; 256 characters identify the entry.
        let entry = String::from_utf8_lossy(name).chars().take(256).collect();
        match failure {
            EntryFailure::Refused(reason) => UnpackError::Refused {
                archive,
                entry,
                reason,
            },
            EntryFailure::Io(source) => UnpackError::Write {
                archive,
                entry,
                source,
            },
            EntryFailure::Read(source) => UnpackError::Malformed { archive, source },
            EntryFailure::GivenUp => UnpackError::GivenUp,
        }
    }
}

impl Entries for Extract<'_, '_> {
    /// Creates a folder, unless there is one.
    fn folder(&mut self, name: &[u8]) -> Result<(), Stopped> {
        let made = self.make_folder(name);
        made.map_err(|failure| self.stop(name, failure))
    }

    /// Writes a file; replaces an earlier file of that name.
    fn file(
        &mut self,
        name: &[u8],
        content: &mut dyn Read,
        modified: Option<SystemTime>,
    ) -> Result<(), Stopped> {
        let written = self.make_file(name, modified, |extract, file| {
            Ok(extract.budget.copy(content, file)?)
        });
        written.map_err(|failure| self.stop(name, failure))
    }

    /// Writes a file with gaps. Its length comes last.
    fn sparse_file(
        &mut self,
        name: &[u8],
        regions: Regions<'_>,
        content: &mut dyn Read,
        modified: Option<SystemTime>,
    ) -> Result<(), Stopped> {
        let written = self.make_file(name, modified, |extract, file| {
            for region in regions.parts {
                file.seek(SeekFrom::Start(region.offset))?;
                extract
                    .budget
                    .copy(&mut content.take(region.length), file)?;
            }
            Ok(file.set_len(regions.size)?)
        });
        written.map_err(|failure| self.stop(name, failure))
    }

    /// Creates a symbolic link, wherever it points.
    fn symbolic_link(&mut self, name: &[u8], target: &[u8]) -> Result<(), Stopped> {
        let made = self.make_link(name, target);
        made.map_err(|failure| self.stop(name, failure))
    }

    fn hard_link(&mut self, name: &[u8], target: &[u8]) -> Result<(), Stopped> {
        let made = self.link_to(name, target);
        made.map_err(|failure| self.stop(name, failure))
    }

    fn skip(&mut self, name: &[u8], content: &mut dyn Read) -> Result<(), Stopped> {
        let skipped = self.budget.skip(content);
        skipped.map_err(|error| self.stop(name, error.into()))
    }

    fn refuse(&mut self, name: &[u8], reason: Unsupported) -> Stopped {
        self.stop(name, RefusedEntry::from(reason).into())
    }
}

/// Splits an entry's name into its parts; none for the root itself (`./`). Slashes at its begin do
/// not count, as for GNU tar and Java.
fn parts(name: &[u8]) -> Result<Vec<&OsStr>, RefusedEntry> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(&0) {
        return Err(RefusedEntry::BadName);
    }
    let mut parts = Vec::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(RefusedEntry::LeavesFolder),
            part if part.len() > PART_BYTES_MAX => return Err(RefusedEntry::BadName),
            part => parts.push(OsStr::from_bytes(part)),
        }
    }
    if parts.len() > PARTS_MAX {
        return Err(RefusedEntry::TooDeep);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_and_bad_ones_refused() {
        let ok = |name: &str| parts(name.as_bytes()).unwrap().len();
        assert_eq!(
            (ok("./"), ok("//a"), ok("./a//b/."), ok("a\\..\\b")),
            (0, 1, 2, 1)
        );
        let long_part = "a".repeat(256);
        let long = "a/".repeat(2100);
        let deep = "a/".repeat(129);
        for (name, reason) in [
            ("", RefusedEntry::BadName),
            ("a\0b", RefusedEntry::BadName),
            (&long_part, RefusedEntry::BadName),
            (&long, RefusedEntry::BadName),
            (&deep, RefusedEntry::TooDeep),
            ("..", RefusedEntry::LeavesFolder),
            ("a/../b", RefusedEntry::LeavesFolder),
            ("a/..", RefusedEntry::LeavesFolder),
        ] {
            assert_eq!(parts(name.as_bytes()), Err(reason), "{name:?}");
        }
    }
}
