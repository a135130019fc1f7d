//! Names of history files, whose order is the order of their times (Slider:
//! `RoleHistoryWriter.createHistoryFilename` and `findAllHistoryEntries`).

use std::path::{Path, PathBuf};
use std::{fs, io};

use records::{ApplicationAttemptId, EpochMillis};

const PREFIX: &str = "rolehistory-";
const SUFFIX: &str = ".json";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// Returns the name of a history that was saved at this time: 16 lower-case hexadecimal digits. A
/// time before 1970 counts as 1970, as it would sort behind all others.
pub(crate) fn of(saved: EpochMillis) -> String {
    format!("{PREFIX}{:016x}{SUFFIX}", saved.0.max(0))
}

/// Returns the name under which an attempt writes the file `name` until it is complete.
pub(crate) fn temporary(name: &str, attempt: ApplicationAttemptId) -> String {
    format!(".{name}.{attempt}{TEMPORARY_SUFFIX}")
}

fn is_history(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

fn is_temporary(name: &str) -> bool {
    let rest = name.strip_prefix('.');
    rest.is_some_and(|rest| rest.starts_with(PREFIX)) && name.ends_with(TEMPORARY_SUFFIX)
}

/// Regular file of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HistoryFile {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// Returns the history files of a directory, the newest name first.
pub(crate) fn newest_first(directory: &Path) -> io::Result<Vec<HistoryFile>> {
    let mut files = files(directory, is_history)?;
    files.sort_unstable_by(|a, b| b.cmp(a));
    Ok(files)
}

/// Returns the files that saves left behind.
pub(crate) fn left_behind(directory: &Path) -> io::Result<Vec<HistoryFile>> {
    files(directory, is_temporary)
}

fn files(directory: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<HistoryFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // Of the entry itself: a link is no regular file.
        let metadata = entry.metadata()?;
        if wanted(&name) && metadata.is_file() {
            files.push(HistoryFile {
                name,
                path: entry.path(),
                bytes: metadata.len(),
            });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sliders_and_sort_by_time() {
        assert_eq!(
            of(EpochMillis(1_452_081_600_000)),
            "rolehistory-0000015216ced600.json"
        );
        assert!(of(EpochMillis(9)) < of(EpochMillis(16)));
        assert!(of(EpochMillis(16)) < of(EpochMillis(i64::MAX)));
        assert_eq!(of(EpochMillis(-5)), of(EpochMillis(0)));
    }

    #[test]
    fn unfinished_files_are_not_histories() {
        let attempt = records::ApplicationId::new(1, 2).attempt(3);
        let name = temporary(&of(EpochMillis(1)), attempt);
        assert!(is_temporary(&name) && !is_history(&name));
        assert!(!is_history("file.json") && !is_temporary("fence"));
    }
}
