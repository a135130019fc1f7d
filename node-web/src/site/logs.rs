//! Log files of containers on the local disks: found and opened so that a container cannot lead the
//! agent elsewhere.
//!
//! A container owns its log directory and may put anything there: links to `/etc/shadow`, pipes
//! without a writer, names of any kind. Hence each step below a log root is opened relative to
//! the one before, without following links, only regular files are read, and opening never waits.
//! Everything here blocks and belongs on a blocking thread.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use dir_handle::{DirHandle, FileKind};
use nix::errno::Errno;
use records::ContainerName;
use thiserror::Error;

/// Directory entries looked at in one log directory. A container chooses how many it makes.
const ENTRIES_MAX: usize = 10_000;
/// Longest file name of Linux, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A name that can only mean an entry of one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogName(String);

impl LogName {
    /// `None` if the text is empty, too long, `.` or `..`, or has a slash or a NUL.
    pub(super) fn new(text: &str) -> Option<Self> {
        let one_name = !text.is_empty()
            && text.len() <= NAME_BYTES_MAX
            && !matches!(text, "." | "..")
            && !text.contains(['/', '\0']);
        one_name.then(|| Self(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a file of this name may hold secrets. With
/// `yarn.nodemanager.log-container-debug-info.enabled` a copy of the launch script, whose
/// environment has passwords in many clusters, is in the log directory, and readers are anonymous.
/// A checksum file (`.NAME.crc`) tells whether a guess is right.
fn may_hold_secrets(name: &str) -> bool {
    const SCRIPTS: [&str; 3] = [
        "launch_container.sh",
        "default_container_executor.sh",
        "default_container_executor_session.sh",
    ];
    let name = name
        .strip_prefix('.')
        .and_then(|name| name.strip_suffix(".crc"))
        .unwrap_or(name);
    let has_ending = |endings: [&str; 3]| endings.iter().any(|ending| name.ends_with(ending));
    SCRIPTS.contains(&name) || has_ending([".tokens", "_tokens", ".jks"])
}

/// A log file as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogFile {
    pub(super) name: String,
    /// Length in bytes.
    pub(super) length: u64,
    /// Seconds since 1970-01-01 UTC.
    pub(super) modified_s: i64,
}

/// A log file ready to be read.
#[derive(Debug)]
pub(super) struct OpenLog {
    pub(super) file: File,
    /// Bytes, when it was opened.
    pub(super) length: u64,
    /// Time of the last write, by the file system.
    pub(super) modified_s: i64,
}

/// Why a log file cannot be read.
#[derive(Debug, Error)]
pub(super) enum LogError {
    /// No such file, or something of that name that is not a regular file.
    #[error("no log file of this name")]
    NotFound,
    /// The system refused.
    #[error("cannot open a log file below {}", root.display())]
    Open {
        root: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The regular files in a container's log directories, in the order of their names, at most
/// `limit`. A name found below several roots is listed once, as the first of them has it, which is
/// the one that [`open_log`] opens. Names that are not UTF-8 cannot stand in a link and are left
/// out. What cannot be read is as good as empty.
pub(super) fn list_logs(roots: &[PathBuf], id: &ContainerName, limit: usize) -> Vec<LogFile> {
    let mut found = BTreeMap::new();
    for root in roots {
        let Ok(directory) = container_directory(root, id) else {
            continue;
        };
        list_directory(&directory, &mut found);
    }
    found.into_values().take(limit).collect()
}

fn list_directory(directory: &DirHandle, found: &mut BTreeMap<String, LogFile>) {
    let Ok(names) = directory.names() else {
        return;
    };
    for name in names.take(ENTRIES_MAX).flatten() {
        let Some(name) = name.to_str() else {
            continue;
        };
        if found.contains_key(name) || may_hold_secrets(name) {
            continue;
        }
        if let Ok(status) = directory.status(name)
            && status.kind == FileKind::File
        {
            let file = LogFile {
                name: name.to_owned(),
                length: status.length,
                modified_s: status.modified_s,
            };
            found.insert(file.name.clone(), file);
        }
    }
}

/// Opens a container's log file of this name below the first root that has one.
///
/// # Errors
/// [`LogError::NotFound`] if no root has a regular file of this name, [`LogError::Open`] if the
/// system refused to open one and no further root has it.
pub(super) fn open_log(
    roots: &[PathBuf],
    id: &ContainerName,
    name: &LogName,
) -> Result<OpenLog, LogError> {
    if may_hold_secrets(name.as_str()) {
        return Err(LogError::NotFound);
    }
    let mut refusal = LogError::NotFound;
    for root in roots {
        match open_below(root, id, name) {
            Ok(log) => return Ok(log),
            Err(error) if is_absent(&error) => {}
            Err(source) => {
                refusal = LogError::Open {
                    root: root.clone(),
                    source,
                };
            }
        }
    }
    Err(refusal)
}

/// Returns whether an error means that there is no regular file of the name. `ENXIO` comes from a
/// socket, `InvalidInput` from a directory or a pipe.
fn is_absent(error: &io::Error) -> bool {
    let absent = [Errno::ENOENT, Errno::ENOTDIR, Errno::ELOOP, Errno::ENXIO];
    match error.raw_os_error() {
        Some(errno) => absent.contains(&Errno::from_raw(errno)),
        None => error.kind() == io::ErrorKind::InvalidInput,
    }
}

fn open_below(root: &Path, id: &ContainerName, name: &LogName) -> io::Result<OpenLog> {
    let file = container_directory(root, id)?.open_regular(name.as_str())?;
    let metadata = file.metadata()?;
    Ok(OpenLog {
        length: metadata.len(),
        modified_s: metadata.mtime(),
        file,
    })
}

/// Opens the directory of a container's logs. The root may be a link, as it is the operator's; no
/// name below it may.
fn container_directory(root: &Path, id: &ContainerName) -> io::Result<DirHandle> {
    let names = [id.application_id().to_string(), id.to_string()];
    DirHandle::open_ambient(root)?.open_all(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use tempfile::TempDir;

    use super::*;
    use crate::fixture::{APP, container_id};

    /// A log root with the directory of container 1.
    fn root() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let directory = root
            .path()
            .join(APP.to_string())
            .join(container_id(1).to_string());
        fs::create_dir_all(&directory).unwrap();
        (root, directory)
    }

    fn open_in(root: &TempDir, name: &str) -> Result<OpenLog, LogError> {
        let name = LogName::new(name).unwrap();
        open_log(&[root.path().to_owned()], &container_id(1).name(), &name)
    }

    fn assert_not_found(result: Result<OpenLog, LogError>) {
        assert!(matches!(result, Err(LogError::NotFound)), "{result:?}");
    }

    #[test]
    fn names_of_more_than_one_entry_are_no_log_names() {
        let too_long = "x".repeat(256);
        for text in ["", ".", "..", "a/b", "/a", "a\0b", "../a", &too_long] {
            assert_eq!(LogName::new(text), None, "{text:?}");
        }
        for text in ["stdout", "a b", "..x", "-", "ü"] {
            assert!(LogName::new(text).is_some(), "{text:?}");
        }
    }

    #[test]
    fn launch_scripts_and_tokens_are_neither_listed_nor_opened() {
        let (root, directory) = root();
        for name in [
            "launch_container.sh",
            ".launch_container.sh.crc",
            "default_container_executor.sh",
            "container_tokens",
            "container_1.tokens",
            ".container_1.tokens.crc",
            "keystore.jks",
        ] {
            fs::write(directory.join(name), "secret").unwrap();
            assert_not_found(open_in(&root, name));
        }
        fs::write(directory.join("directory.info"), "").unwrap();
        let listed = list_logs(&[root.path().to_owned()], &container_id(1).name(), 10);
        let names: Vec<_> = listed.into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["directory.info"]);
    }

    #[test]
    fn a_linked_file_is_neither_listed_nor_opened() {
        let (root, directory) = root();
        fs::write(root.path().join("secret"), "secret").unwrap();
        symlink(root.path().join("secret"), directory.join("stdout")).unwrap();
        assert_not_found(open_in(&root, "stdout"));
        let roots = [root.path().to_owned()];
        assert_eq!(list_logs(&roots, &container_id(1).name(), 10), []);
    }

    #[test]
    fn a_linked_container_directory_is_not_entered() {
        let (root, directory) = root();
        fs::write(directory.join("stdout"), "x").unwrap();
        let other = root
            .path()
            .join(APP.to_string())
            .join(container_id(2).to_string());
        symlink(&directory, other).unwrap();
        let name = LogName::new("stdout").unwrap();
        let roots = [root.path().to_owned()];
        assert_not_found(open_log(&roots, &container_id(2).name(), &name));
        assert_eq!(list_logs(&roots, &container_id(2).name(), 10), []);
    }

    #[test]
    fn a_pipe_without_a_writer_and_a_directory_are_refused_at_once() {
        let (root, directory) = root();
        mkfifo(&directory.join("pipe"), Mode::S_IRWXU).unwrap();
        fs::create_dir(directory.join("folder")).unwrap();
        assert_not_found(open_in(&root, "pipe"));
        assert_not_found(open_in(&root, "folder"));
        let roots = [root.path().to_owned()];
        assert_eq!(list_logs(&roots, &container_id(1).name(), 10), []);
    }

    #[test]
    fn files_of_all_roots_are_listed_once_and_the_listed_one_is_opened() {
        let (first, directory) = root();
        fs::write(directory.join("stdout"), "first").unwrap();
        let (second, directory) = root();
        fs::write(directory.join("stdout"), "the second").unwrap();
        fs::write(directory.join("stderr"), "").unwrap();
        let missing = first.path().join("missing");
        let roots = [missing, first.path().to_owned(), second.path().to_owned()];
        let listed: Vec<_> = list_logs(&roots, &container_id(1).name(), 10)
            .into_iter()
            .map(|file| (file.name, file.length))
            .collect();
        assert_eq!(listed, [("stderr".to_owned(), 0), ("stdout".to_owned(), 5)]);
        let name = LogName::new("stdout").unwrap();
        let log = open_log(&roots, &container_id(1).name(), &name).unwrap();
        assert_eq!(log.length, 5);
    }

    #[test]
    fn a_listing_ends_at_its_limit() {
        let (root, directory) = root();
        for number in 0..5 {
            fs::write(directory.join(format!("log{number}")), "").unwrap();
        }
        let roots = [root.path().to_owned()];
        let names: Vec<_> = list_logs(&roots, &container_id(1).name(), 2)
            .into_iter()
            .map(|file| file.name)
            .collect();
        assert_eq!(names, ["log0", "log1"]);
    }
}
