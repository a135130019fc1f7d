//! `nm-agent history`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use hadoop_conf::site_xml::local_path;
use thiserror::Error;

use crate::history;

/// Bytes that are read and written at a time.
const BUFFER_BYTES: usize = 64 * 1_024;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print a history as a table, or what is wrong with it.
    ///
    /// The file is one of the rolehistory-*.json of a service, or one that Apache Slider wrote. The
    /// table has a line for each role on each node: when the node became free of the role, how long
    /// before the save that was, the name of the role and the node. It is printed as the file is
    /// read, however large that is. Characters that could steer a terminal are printed as escapes.
    ///
    /// Exit status: 0 for a history that a service loads; 2 for one that it does not load, with the
    /// line and the field of the problem on standard error; 1 if the file cannot be opened. With
    /// --check nothing is printed but the problems, on standard output, also those of a file that a
    /// service loads nevertheless, and the exit status is 2 if there is one.
    ///
    /// Example: nm-agent history show --check rolehistory-0000015216ced600.json
    Show(Show),
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// Say only what is wrong with the file
    #[arg(long)]
    check: bool,
    /// Path or file: URI of the history
    #[arg(value_name = "FILE|URI")]
    history: String,
}

/// Reason for which there is nothing to read.
#[derive(Debug, Error)]
enum OpenError {
    /// URI of a file in HDFS.
    #[error(
        "{0} is in HDFS, which this agent does not read yet. Copy the file first: hdfs dfs -get {0}"
    )]
    Hdfs(String),
    /// URI of a file that is elsewhere.
    #[error("{0} is not a path or file: URI of this machine")]
    Remote(String),
    /// Directory in place of a file.
    #[error("{} is a directory: name one of the files rolehistory-*.json in it", .0.display())]
    Directory(PathBuf),
    /// File that cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

pub(super) fn run(command: &Command) -> ExitCode {
    let Command::Show(show) = command;
    match open(&show.history) {
        Ok(file) => print(show.check, file),
        Err(error) => {
            let line = history::printable(&error.to_string());
            eprintln!("nm-agent history: {line}");
            ExitCode::FAILURE
        }
    }
}

fn open(text: &str) -> Result<File, OpenError> {
    let Some(path) = local_path(text) else {
        let text = text.to_owned();
        return Err(if text.starts_with("hdfs:") {
            OpenError::Hdfs(text)
        } else {
            OpenError::Remote(text)
        });
    };
    let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.is_dir(), file)));
    match opened {
        Ok((false, file)) => Ok(file),
        Ok((true, _)) => Err(OpenError::Directory(path)),
        Err(source) => Err(OpenError::Io { path, source }),
    }
}

fn print(only_check: bool, file: File) -> ExitCode {
    let input = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let outcome = if only_check {
        history::check(input, &mut out)
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().into();
        history::show(input, now, &mut out, io::stderr().lock())
    };
    match outcome.and_then(|outcome| out.flush().map(|()| outcome)) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        // The reader of the table has gone away, as `head` does: nothing is left to print.
        Err(_) => ExitCode::FAILURE,
    }
}
