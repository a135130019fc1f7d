//! Diagnostics of a container's end for its AM and for people: Hadoop's texts with the tails of the
//! error files.
//!
//! Clients match these texts, so they are Hadoop's to the letter, except that the text about the
//! exit code comes once (Hadoop: `DefaultContainerExecutor.launchContainer`,
//! `ContainerLaunch.handleContainerExitWithFailure`; a container without a retry policy gets the
//! latter twice there). The files belong to the container's user: reads are bounded, links are not
//! followed, and nothing that could block is opened.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::SystemTime;

use localize::ContainerFolder;
use records::{ContainerExitStatus, ContainerId};

use super::files::Directory;
use super::glob::Glob;
use super::script::PRELAUNCH_ERR;

/// Bytes kept of one file, whatever is configured; diagnostics as a whole are cut to far less.
const TAIL_MAX: u64 = 64 * 1024;
/// Entries of the log directory that are looked at. A container that writes more log files than
/// this has named its error output among the first.
const LOG_FILES_MAX: usize = 10_000;
/// Matching files that are opened for their times, so that the end of a container is cheap however
/// many it has made. Of more the newest may be missed.
const ERROR_FILES_MAX: usize = 500;
/// Names listed when several files match.
const NAMES_MAX: usize = 16;

/// Selection of the files that hold a container's error output; `None` selects no file.
#[derive(Debug)]
pub(super) struct StderrPattern(Option<Glob>);

impl StderrPattern {
    /// Takes a glob. A refused one selects no file.
    pub(super) fn new(pattern: &str) -> Self {
        let glob = Glob::new(pattern);
        Self(
            glob.inspect_err(|error| {
                tracing::warn!(%error, pattern, "yarn.nodemanager.container.stderr.pattern cannot be used: diagnostics show no error files");
            })
            .ok(),
        )
    }

    fn selects(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|glob| glob.matches(name))
    }
}

/// Diagnostics of an exit in two pieces, which are stamped one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ExitDiagnostics {
    /// Text of the executor; empty for success.
    pub(super) executor: String,
    /// Exit code with the tails of the error files; empty for success.
    pub(super) exit_code: String,
}

/// Returns whether the diagnostics of an exit include error files.
pub(super) fn reads_files(status: ContainerExitStatus) -> bool {
    status != ContainerExitStatus::SUCCESS && !status.is_signalled()
}

/// Returns the diagnostics of an exit with the ends of its error files.
pub(super) fn of_exit(
    id: ContainerId,
    status: ContainerExitStatus,
    log_dir: &ContainerFolder,
    pattern: &StderrPattern,
    tail_bytes: u64,
) -> ExitDiagnostics {
    let mut tails = String::new();
    if reads_files(status) {
        append_tails(&mut tails, id, log_dir, pattern, tail_bytes);
    }
    with_tails(id, status, &tails)
}

/// Returns the diagnostics of an exit without error files, or whose error files cannot be read.
pub(super) fn without_files(id: ContainerId, status: ContainerExitStatus) -> ExitDiagnostics {
    with_tails(id, status, "")
}

fn with_tails(id: ContainerId, status: ContainerExitStatus, tails: &str) -> ExitDiagnostics {
    if status == ContainerExitStatus::SUCCESS {
        return ExitDiagnostics::default();
    }
    let executor = if status.is_signalled() {
        format!("Container killed on request. Exit code is {status}")
    } else {
        format!("Exception from container-launch.\nContainer id: {id}\nExit code: {status}\n\n")
    };
    ExitDiagnostics {
        executor,
        exit_code: format!("Container exited with a non-zero exit code {status}. {tails}\n"),
    }
}

fn append_tails(
    text: &mut String,
    id: ContainerId,
    log_dir: &ContainerFolder,
    pattern: &StderrPattern,
    tail_bytes: u64,
) {
    let tail_bytes = tail_bytes.min(TAIL_MAX);
    match Directory::of(log_dir) {
        Ok(directory) => {
            append_prelaunch(text, &directory, tail_bytes);
            append_stderr(text, &directory, pattern, tail_bytes);
        }
        Err(error) => {
            tracing::debug!(container = %id, error = crate::error_chain(&error), "no error files");
        }
    }
}

fn append_prelaunch(text: &mut String, directory: &Directory, tail_bytes: u64) {
    if let Ok(tail) = tail(directory, PRELAUNCH_ERR.as_ref(), tail_bytes) {
        write(text, format_args!("Error file: {PRELAUNCH_ERR}.\n"));
        append_tail(text, PRELAUNCH_ERR, tail_bytes, &tail);
    }
}

fn append_stderr(
    text: &mut String,
    directory: &Directory,
    pattern: &StderrPattern,
    tail_bytes: u64,
) {
    let files = match error_files(directory, pattern) {
        Ok(files) => files,
        Err(error) => {
            tracing::debug!(%error, ?directory, "cannot look for error files");
            return;
        }
    };
    // The first by name among equally new ones.
    let newest = files
        .iter()
        .enumerate()
        .max_by_key(|(index, (_, modified))| (*modified, std::cmp::Reverse(*index)));
    let Some((_, (name, _))) = newest else {
        return;
    };
    if files.len() > 1 {
        let names: Vec<_> = files
            .iter()
            .take(NAMES_MAX)
            .map(|(name, _)| name.to_string_lossy())
            .collect();
        write(text, format_args!("Error files: {}.\n", names.join(", ")));
    }
    if let Ok(tail) = tail(directory, name, tail_bytes) {
        append_tail(text, &name.to_string_lossy(), tail_bytes, &tail);
        text.push('\n');
    }
}

fn append_tail(text: &mut String, name: &str, tail_bytes: u64, tail: &[u8]) {
    let tail = String::from_utf8_lossy(tail);
    write(
        text,
        format_args!("Last {tail_bytes} bytes of {name} :\n{tail}"),
    );
}

fn write(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("writing to a String cannot fail");
}

/// Regular files that match, by name, with the time of their last change.
fn error_files(
    directory: &Directory,
    pattern: &StderrPattern,
) -> io::Result<Vec<(OsString, SystemTime)>> {
    let mut files = Vec::new();
    let names = directory.names()?.take(LOG_FILES_MAX);
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let is_selected = |name: &OsString| name.to_str().is_some_and(|name| pattern.selects(name));
    let selected = names.into_iter().filter(is_selected);
    for name in selected.take(ERROR_FILES_MAX) {
        if let Ok(file) = directory.open_regular(&name)
            && let Ok(modified) = file.metadata().and_then(|metadata| metadata.modified())
        {
            files.push((name, modified));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The last bytes of a regular file.
fn tail(directory: &Directory, name: &std::ffi::OsStr, tail_bytes: u64) -> io::Result<Vec<u8>> {
    let file = directory.open_regular(name)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(tail_bytes);
    let wanted = usize::try_from(length - start).map_err(io::Error::other)?;
    read_at(&file, start, wanted)
}

/// Reads until the end or until enough: the file may be cut while it is read.
fn read_at(file: &File, start: u64, wanted: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; wanted];
    let mut length = 0;
    let mut offset = start;
    while length < wanted {
        let read = file.read_at(&mut bytes[length..], offset)?;
        if read == 0 {
            break;
        }
        length += read;
        offset += u64::try_from(read).map_err(io::Error::other)?;
    }
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::launch::testing::Folders;

    fn diagnostics_of(folders: &Folders, status: i32) -> ExitDiagnostics {
        let pattern = StderrPattern::new("{*stderr*,*STDERR*}");
        let status = ContainerExitStatus(status);
        of_exit(folders.id, status, &folders.dirs.log_dir, &pattern, 4096)
    }

    fn exit_code_text(folders: &Folders, status: i32) -> String {
        diagnostics_of(folders, status).exit_code
    }

    /// Returns folders of a container whose log directory is gone.
    fn without_logs() -> Folders {
        let folders = Folders::new();
        std::fs::remove_dir(folders.dirs.log_dir.path()).unwrap();
        folders
    }

    #[test]
    fn a_failure_shows_hadoops_texts_with_both_tails() {
        let folders = Folders::new();
        let log_dir = folders.dirs.log_dir.path();
        std::fs::write(log_dir.join("prelaunch.err"), "line 3: oops\n").unwrap();
        std::fs::write(log_dir.join("stderr"), "boom").unwrap();
        let id = folders.id;
        let executor =
            format!("Exception from container-launch.\nContainer id: {id}\nExit code: 7\n\n");
        let exit_code = "Container exited with a non-zero exit code 7. Error file: prelaunch.err.\n\
             Last 4096 bytes of prelaunch.err :\nline 3: oops\n\
             Last 4096 bytes of stderr :\nboom\n\n";
        let expected = ExitDiagnostics {
            executor,
            exit_code: exit_code.to_owned(),
        };
        assert_eq!(diagnostics_of(&folders, 7), expected);
    }

    #[test]
    fn success_says_nothing() {
        let empty = ExitDiagnostics::default();
        assert_eq!(diagnostics_of(&without_logs(), 0), empty);
    }

    #[test]
    fn a_kill_shows_no_files() {
        let text = diagnostics_of(&without_logs(), 143);
        let [executor, exit_code] = [
            "Container killed on request. Exit code is 143",
            "Container exited with a non-zero exit code 143. \n",
        ];
        assert_eq!((&*text.executor, &*text.exit_code), (executor, exit_code));
    }

    #[test]
    fn a_missing_log_directory_leaves_the_exit_code() {
        let text = exit_code_text(&without_logs(), 3);
        assert_eq!(text, "Container exited with a non-zero exit code 3. \n");
    }

    #[test]
    fn the_newest_of_several_error_files_is_shown() {
        let folders = Folders::new();
        let log_dir = folders.dirs.log_dir.path();
        for (name, age) in [("a.stderr", 5), ("b.STDERR", 1), ("c.stderr", 9)] {
            std::fs::write(log_dir.join(name), name).unwrap();
            let file = File::options().write(true).open(log_dir.join(name));
            let modified = SystemTime::now() - Duration::from_secs(age);
            file.unwrap().set_modified(modified).unwrap();
        }
        let text = exit_code_text(&folders, 1);
        assert!(
            text.ends_with("Error files: a.stderr, b.STDERR, c.stderr.\nLast 4096 bytes of b.STDERR :\nb.STDERR\n\n"),
            "{text}"
        );
    }

    #[test]
    fn of_thousands_of_error_files_some_are_opened() {
        let folders = Folders::new();
        let log_dir = folders.dirs.log_dir.path();
        for number in 0..2 * ERROR_FILES_MAX {
            std::fs::write(log_dir.join(format!("stderr{number}")), "text").unwrap();
        }
        let directory = Directory::of(&folders.dirs.log_dir).unwrap();
        let pattern = StderrPattern::new("*stderr*");
        let files = error_files(&directory, &pattern).unwrap();
        assert_eq!(files.len(), ERROR_FILES_MAX);
        assert!(exit_code_text(&folders, 1).ends_with(":\ntext\n\n"));
    }

    #[test]
    fn only_the_tail_of_a_large_file_is_read() {
        let folders = Folders::new();
        let log_dir = folders.dirs.log_dir.path();
        let content = "x".repeat(100_000) + &"é".repeat(2_048);
        std::fs::write(log_dir.join("stderr"), content).unwrap();
        let text = exit_code_text(&folders, 1);
        assert!(text.ends_with(&format!(":\n{}\n\n", "é".repeat(2_048))));
    }

    #[test]
    fn links_fifos_and_directories_are_not_read() {
        let (folders, outside) = (Folders::new(), tempfile::tempdir().unwrap());
        let log_dir = folders.dirs.log_dir.path();
        std::fs::write(outside.path().join("secret"), "hunter2").unwrap();
        let (link, fifo) = (log_dir.join("stderr"), log_dir.join("prelaunch.err"));
        std::os::unix::fs::symlink(outside.path().join("secret"), link).unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::create_dir(log_dir.join("x.stderr")).unwrap();
        let text = exit_code_text(&folders, 1);
        assert!(text.ends_with("exit code 1. \n"), "{text}");
    }

    #[test]
    fn nothing_is_read_through_a_link_that_took_the_place_of_a_folder_above_the_logs() {
        let folders = Folders::new();
        let outside = folders.swap_for_link();
        std::fs::write(outside.log_dir.path().join("stderr"), "hunter2").unwrap();
        assert!(folders.dirs.log_dir.path().join("stderr").exists());
        let text = exit_code_text(&folders, 1);
        assert!(text.ends_with("exit code 1. \n"), "{text}");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let folders = Folders::new();
        let log_dir = folders.dirs.log_dir.path();
        std::fs::write(log_dir.join("stderr"), b"\xff\0x").unwrap();
        let text = exit_code_text(&folders, 1);
        assert!(text.ends_with(":\n\u{fffd}\0x\n\n"), "{text}");
    }
}
