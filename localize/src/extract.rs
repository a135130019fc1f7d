//! Writes the entries of an archive inside one folder and nowhere else.
//!
//! The archive's author may want to overwrite or read our files. The rules:
//! - a name is relative and has no `..`; every part but the last is a real folder, created on the
//!   way if missing;
//! - a later entry replaces an earlier file or link of its name, never a folder;
//! - a symbolic link's target is relative, and `..` is only at its beginning and leads no higher
//!   than the folder. Links are only created in real folders, and no link is passed when writing,
//!   so that no chain of them can lead out;
//! - a hard link names a regular file that the archive created before;
//! - devices and pipes are refused. Owners, times, extended attributes and set-id bits are ignored.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use super::budget::{Budget, CopyError, Exhausted};
use super::error::{RefusedEntry, UnpackError};
use super::layout::CacheModes;
use dir_handle::{DirHandle, FileKind};

/// Longest name of an entry (`PATH_MAX`): no program could open a longer one by its path.
const NAME_BYTES_MAX: usize = 4096;
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
        // Errors of the kernel when a part of a name is a link or a file.
        let errno = error.raw_os_error().map(Errno::from_raw);
        if matches!(errno, Some(Errno::ENOTDIR | Errno::ELOOP)) {
            Self::Refused(RefusedEntry::ThroughLink)
        } else {
            Self::Io(error)
        }
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
        }
    }

    /// Creates a folder, or opens an existing one.
    pub(super) fn folder(&mut self, name: &[u8]) -> Result<(), UnpackError> {
        let made = parts(name)
            .map_err(EntryFailure::from)
            .and_then(|parts| self.spend().and_then(|()| self.enter(&parts).map(drop)));
        made.map_err(|failure| self.error(name, failure))
    }

    /// Writes a file; replaces an earlier file of that name.
    pub(super) fn file(
        &mut self,
        name: &[u8],
        content: &mut (impl Read + ?Sized),
    ) -> Result<(), UnpackError> {
        let written = self.make(name, |extract, parent, last, _| {
            let mut file = parent.create_file(last, extract.modes.file)?;
            Ok(extract.budget.copy(content, &mut file)?)
        });
        written.map_err(|failure| self.error(name, failure))
    }

    /// Creates a symbolic link.
    pub(super) fn symbolic_link(&mut self, name: &[u8], target: &[u8]) -> Result<(), UnpackError> {
        let made = self.make(name, |_, parent, last, depth| {
            check_link_target(target, depth)?;
            Ok(parent.symlink(OsStr::from_bytes(target), last)?)
        });
        made.map_err(|failure| self.error(name, failure))
    }

    /// Creates another name for a file of the archive. The target is relative to the archive's
    /// root.
    pub(super) fn hard_link(&mut self, name: &[u8], target: &[u8]) -> Result<(), UnpackError> {
        let made = self.link_to(name, target);
        made.map_err(|failure| self.error(name, failure))
    }

    /// Returns the error for an entry that is neither file, folder nor link.
    pub(super) fn special(&self, name: &[u8]) -> UnpackError {
        self.error(name, RefusedEntry::SpecialFile.into())
    }

    /// Reads the content of an entry and discards it.
    pub(super) fn skip(
        &mut self,
        name: &[u8],
        content: &mut (impl Read + ?Sized),
    ) -> Result<(), UnpackError> {
        let skipped = self.budget.skip(content);
        skipped.map_err(|error| self.error(name, error.into()))
    }

    fn link_to(&mut self, name: &[u8], target: &[u8]) -> Result<(), EntryFailure> {
        let target = parts(target).map_err(|_| RefusedEntry::LinkToNoFile)?;
        let (old_name, old_parents) = target.split_last().ok_or(RefusedEntry::LinkToNoFile)?;
        if parts(name)? == target {
            // Removing the existing name before linking to it would lose the file.
            return Err(RefusedEntry::LinkToNoFile.into());
        }
        let old = self.root.open_all(old_parents);
        let old = old.map_err(|_| RefusedEntry::LinkToNoFile)?;
        if old.kind(old_name)? != Some(FileKind::File) {
            return Err(RefusedEntry::LinkToNoFile.into());
        }
        self.make(name, |_, parent, last, _| {
            Ok(parent.hard_link(&old, old_name, last)?)
        })
    }

    /// Removes an earlier file or link of that name and lets `make` create the entry, in a folder,
    /// by its last name, and with the number of folders between it and the archive's root.
    fn make(
        &mut self,
        name: &[u8],
        make: impl FnOnce(&mut Self, &DirHandle, &OsStr, usize) -> Result<(), EntryFailure>,
    ) -> Result<(), EntryFailure> {
        let parts = parts(name)?;
        let (last, parents) = parts.split_last().ok_or(RefusedEntry::BadName)?;
        self.spend()?;
        let parent = self.enter(parents)?;
        match parent.kind(last)? {
            None => {}
            Some(FileKind::Directory) => return Err(RefusedEntry::ReplacesFolder.into()),
            Some(FileKind::File | FileKind::Link | FileKind::Special) => parent.unlink(last)?,
        }
        make(self, &parent, last, parents.len())
    }

    fn spend(&mut self) -> Result<(), EntryFailure> {
        Ok(self.budget.spend_entry()?)
    }

    /// Opens the folder that these parts name; creates missing ones.
    fn enter(&mut self, parts: &[&OsStr]) -> Result<DirHandle, EntryFailure> {
        if let Some((names, folder)) = &self.last {
            let same = names.iter().map(Vec::as_slice);
            if same.eq(parts.iter().map(|part| part.as_bytes())) {
                return Ok(folder.try_clone()?);
            }
        }
        let mut folder = self.root.try_clone()?;
        for part in parts {
            folder = folder.ensure(part, self.modes.folder)?;
        }
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

/// Splits an entry's name into its parts; none for the root itself (`./`).
fn parts(name: &[u8]) -> Result<Vec<&OsStr>, RefusedEntry> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(&0) {
        return Err(RefusedEntry::BadName);
    }
    if name.starts_with(b"/") {
        return Err(RefusedEntry::AbsoluteName);
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

/// Checks that a link `depth` folders below the root points to the root or into it.
fn check_link_target(target: &[u8], depth: usize) -> Result<(), RefusedEntry> {
    if target.is_empty() || target.len() > NAME_BYTES_MAX || target.contains(&0) {
        return Err(RefusedEntry::BadName);
    }
    if target.starts_with(b"/") {
        return Err(RefusedEntry::LinkLeavesFolder);
    }
    let mut up = 0_usize;
    let mut went_down = false;
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if went_down || up == depth => return Err(RefusedEntry::LinkLeavesFolder),
            b".." => up += 1,
            _ => went_down = true,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_and_bad_ones_refused() {
        let ok = |name: &str| parts(name.as_bytes()).unwrap().len();
        assert_eq!(
            (ok("./"), ok("a"), ok("./a//b/."), ok("a\\..\\b")),
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
            ("/a", RefusedEntry::AbsoluteName),
            ("//a", RefusedEntry::AbsoluteName),
            ("..", RefusedEntry::LeavesFolder),
            ("a/../b", RefusedEntry::LeavesFolder),
            ("a/..", RefusedEntry::LeavesFolder),
        ] {
            assert_eq!(parts(name.as_bytes()), Err(reason), "{name:?}");
        }
    }

    #[test]
    fn link_targets_stay_inside() {
        let check = |target: &str, depth| check_link_target(target.as_bytes(), depth);
        for (target, depth) in [("b", 0), ("./b/c", 0), ("..", 1), ("../../x", 2), (".", 0)] {
            assert_eq!(check(target, depth), Ok(()), "{target}");
        }
        for (target, depth) in [
            ("/etc/passwd", 3),
            ("..", 0),
            ("../x", 0),
            ("../../x", 1),
            ("./../x", 0),
            // Inside by its text; not if `a` is a link to a folder higher up.
            ("a/../x", 3),
        ] {
            let refused = Err(RefusedEntry::LinkLeavesFolder);
            assert_eq!(check(target, depth), refused, "{target}");
        }
        assert_eq!(check("", 0), Err(RefusedEntry::BadName));
    }
}
