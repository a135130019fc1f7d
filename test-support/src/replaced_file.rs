//! Files that change while somebody reads them.

use std::fs;
use std::path::Path;

/// Replaces the content of a file, or makes it, in one step: a program that reads it meanwhile gets
/// the former content or this one. A write in place empties the file first.
///
/// # Panics
/// When the folder takes no files.
#[track_caller]
pub fn replace_file(path: &Path, content: impl AsRef<[u8]>) {
    let new = path.with_added_extension("new");
    let replaced = fs::write(&new, content).and_then(|()| fs::rename(&new, path));
    replaced.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
