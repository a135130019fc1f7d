//! Files of a tree of folders, and of programs.

use std::fs;
use std::path::{Path, PathBuf};

/// Last part of the name of aggregated logs that are still being written (Hadoop:
/// `LogAggregationUtils.getNodeTempDir`, `TMP_FILE_SUFFIX`).
const UNFINISHED: &str = ".tmp";

/// Returns the path of a program that is installed.
#[must_use]
pub fn search_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Returns the files below a folder, which need not exist.
#[must_use]
pub fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.flat_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => below(&entry.path()),
        _ => vec![entry.path()],
    });
    below.collect()
}

/// Returns the files of aggregated logs below a folder that are complete.
#[must_use]
pub fn aggregated_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = below(folder);
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with('.') && !name.ends_with(UNFINISHED)
    });
    found
}

/// Returns the bytes of the one complete file of aggregated logs below a folder.
///
/// # Errors
/// There is none, or there are several.
pub fn the_aggregated(folder: &Path) -> Result<Vec<u8>, String> {
    match aggregated_below(folder).as_slice() {
        [only] => fs::read(only).map_err(|error| error.to_string()),
        others => Err(format!("{others:?}")),
    }
}
