//! `nm-agent history`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use hadoop_conf::site_xml::local_path;
use hadoop_fs::{Caller, FileSystems, Uri};
use node_manager::config::load_file_systems;
use thiserror::Error;

use super::{ConfDir, hadoop_user};
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
    #[command(flatten)]
    conf: ConfDir,
    /// Path, file: URI or hdfs: URI of the history
    #[arg(value_name = "FILE|URI")]
    history: String,
}

/// Reason for which there is nothing to read.
#[derive(Debug, Error)]
enum OpenError {
    /// File in HDFS that cannot be opened.
    #[error("{0:#}")]
    Hdfs(anyhow::Error),
    /// URI of a file that is elsewhere.
    #[error("{0} is not a path or file: URI of this machine, and not in HDFS")]
    Elsewhere(String),
    /// Directory in place of a file.
    #[error("{} is a directory: name one of the files rolehistory-*.json in it", .0.display())]
    Directory(PathBuf),
    /// File that cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

pub(super) fn run(command: &Command, environment: &BTreeMap<String, String>) -> ExitCode {
    let Command::Show(show) = command;
    match open(show, environment) {
        Ok(file) => print(show.check, file),
        Err(error) => {
            let line = history::printable(&error.to_string());
            eprintln!("nm-agent history: {line}");
            ExitCode::FAILURE
        }
    }
}

fn open(show: &Show, environment: &BTreeMap<String, String>) -> Result<Box<dyn Read>, OpenError> {
    let text = &show.history;
    let Some(path) = local_path(text) else {
        let uri = text
            .parse::<Uri>()
            .ok()
            .filter(|uri| uri.has_scheme("hdfs"));
        let uri = uri.ok_or_else(|| OpenError::Elsewhere(text.clone()))?;
        return open_hdfs(&uri, &show.conf, environment).map_err(OpenError::Hdfs);
    };
    let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.is_dir(), file)));
    match opened {
        Ok((false, file)) => Ok(Box::new(file)),
        Ok((true, _)) => Err(OpenError::Directory(path)),
        Err(source) => Err(OpenError::Io { path, source }),
    }
}

fn open_hdfs(
    uri: &Uri,
    conf: &ConfDir,
    environment: &BTreeMap<String, String>,
) -> anyhow::Result<Box<dyn Read>> {
    let systems = FileSystems::new(load_file_systems(&conf.folders(environment), environment)?);
    let files = systems.open(uri, Caller::own(&hadoop_user(environment)?, "history"))?;
    Ok(Box::new(files.open(&uri.path)?))
}

fn print(only_check: bool, file: Box<dyn Read>) -> ExitCode {
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
