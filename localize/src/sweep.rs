//! Deletion of what an earlier run left in a cache, name by name, without a list of it.
//!
//! A user owns the folder of the own cache and may have put millions of names there. So nothing
//! collects them: a sweep reads the names as it goes, on a thread of the deletions, and decides for
//! each by rules that hold at any later time, too: resources of this run have numbers from its
//! first on, and what stays of an earlier run is listed by its records, whose number is bounded.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use dir_handle::{DirHandle, FileKind, is_being_made};

use super::remove_tree::{Incomplete, remove_tree};

/// Levels of numbered sub-directories in a cache: each has 36 times as many as the one before.
const SHARD_LEVELS_MAX: usize = 6;

/// What stays in the caches of one local directory.
#[derive(Debug, Default)]
pub(super) struct Keep {
    /// Folders of resources, below the local directory.
    pub(super) folders: BTreeSet<PathBuf>,
    /// Number of this run's first resource.
    pub(super) first_resource: u64,
}

impl Keep {
    /// Returns whether a name in a cache stays, of a resource or of its download.
    fn has(&self, below: &Path, name: &str) -> bool {
        let text = name.strip_suffix("_tmp").unwrap_or(name);
        let number = text.parse::<u64>();
        let is_of_this_run =
            number.is_ok_and(|number| number >= self.first_resource && number.to_string() == text);
        is_of_this_run || self.folders.contains(&below.join(name))
    }
}

/// Removes from the cache at `below` what does not stay. Continues after a failure and returns the
/// first one, with what it leaves.
pub(super) fn sweep(
    cache: &DirHandle,
    below: &Path,
    keep: &Keep,
    is_stopping: &dyn Fn() -> bool,
) -> Result<(), Incomplete> {
    let mut failure = Ok(());
    sweep_level(cache, below, keep, 0, is_stopping, &mut failure);
    failure
}

fn sweep_level(
    folder: &DirHandle,
    below: &Path,
    keep: &Keep,
    level: usize,
    is_stopping: &dyn Fn() -> bool,
    failure: &mut Result<(), Incomplete>,
) {
    let mut note = |result: Result<(), Incomplete>| {
        if failure.is_ok() {
            *failure = result;
        }
    };
    let names = match folder.names() {
        Ok(names) => names,
        Err(error) => return note(Err(error.into())),
    };
    for name in names {
        if is_stopping() {
            return note(Err(io::Error::from(io::ErrorKind::Interrupted).into()));
        }
        let name = match name {
            Ok(name) => name,
            // A listing that fails once fails for good.
            Err(error) => return note(Err(error.into())),
        };
        match judge(folder, below, keep, level, &name) {
            Ok(Verdict::Stays) => {}
            Ok(Verdict::Goes) => note(remove_tree(folder, &name, is_stopping)),
            Ok(Verdict::Shard(inner)) => {
                let below = below.join(&name);
                let mut inside = Ok(());
                sweep_level(&inner, &below, keep, level + 1, is_stopping, &mut inside);
                note(inside);
            }
            Err(error) => note(Err(error.into())),
        }
    }
}

enum Verdict {
    Stays,
    Goes,
    /// A sub-directory, whose names have one character, while those of resources have two or more.
    Shard(DirHandle),
}

fn judge(
    folder: &DirHandle,
    below: &Path,
    keep: &Keep,
    level: usize,
    name: &OsStr,
) -> io::Result<Verdict> {
    // The agent makes directories only, with names that are texts. A user's own files stay.
    let Some(text) = name.to_str() else {
        return Ok(Verdict::Stays);
    };
    let is_shard = text.len() == 1 && level < SHARD_LEVELS_MAX;
    if !is_shard && (is_being_made(name) || keep.has(below, text)) {
        return Ok(Verdict::Stays);
    }
    match folder.kind(name)? {
        Some(FileKind::Directory) if is_shard => folder.open(name).map(Verdict::Shard),
        Some(FileKind::Directory) => Ok(Verdict::Goes),
        Some(FileKind::File | FileKind::Link | FileKind::Special) | None => Ok(Verdict::Stays),
    }
}
