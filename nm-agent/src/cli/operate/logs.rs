//! `nm-agent logs`: the ends of a container's log files, once or as they grow.
//!
//! Files are read by this process with the rights of its user: the agent is asked only whether the
//! container has ended.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use node_admin::client::{AskError, ask};
use node_admin::message::{Answer, RefusalKind, Request};
use node_manager::config::Config;
use node_view::overview::words::number;
use records::ContainerName;

use super::{EXIT_NO_SUCH_CONTAINER, EXIT_NOT_ALLOWED, EXIT_USAGE, Environment, Socket, path};
use crate::logs::{Followed, Neutral, Piece};

/// Files that are shown when none is named.
const USUAL_FILES: [&str; 3] = ["stdout", "stderr", "syslog"];

/// Pause between two looks of `--follow`.
const FOLLOW_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct LogsArguments {
    #[command(flatten)]
    socket: Socket,
    /// Print what is added, until the container has ended
    #[arg(long, short)]
    follow: bool,
    /// Bytes of each file to begin with, at most 1048576
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    tail: u64,
    /// Print the bytes as they are, which may steer the terminal
    #[arg(long)]
    raw: bool,
    /// Id of the container
    #[arg(value_name = "CONTAINER", value_parser = container)]
    container: ContainerName,
    /// Name of a log file [default: stdout, stderr and syslog]
    #[arg(value_name = "FILE")]
    file: Option<String>,
}

fn container(text: &str) -> Result<ContainerName, &'static str> {
    let form = "an id looks like container_1763900000000_0001_01_000007";
    text.parse().map_err(|_| form)
}

pub(crate) fn logs(arguments: &LogsArguments, environment: &Environment) -> ExitCode {
    let roots = match Config::load(&arguments.socket.conf.folders(environment), environment) {
        Ok(config) => config.dirs.log_dirs,
        Err(problems) => {
            eprintln!("{problems}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let files = match files(arguments, &roots) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("nm-agent: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let mut printer = Printer {
        files,
        last: None,
        raw: arguments.raw,
    };
    let socket = if arguments.follow {
        match path(&arguments.socket, environment) {
            Ok(path) => Some(path),
            Err(failed) => return failed,
        }
    } else {
        None
    };
    match printer.run(arguments, socket.as_deref()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!(
                "nm-agent: {} has printed nothing here that this user may read",
                arguments.container
            );
            ExitCode::from(EXIT_NO_SUCH_CONTAINER)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            eprintln!("nm-agent: the logs cannot be read: {error}");
            ExitCode::from(EXIT_NOT_ALLOWED)
        }
        Err(error) => {
            eprintln!("nm-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

fn files(arguments: &LogsArguments, roots: &[PathBuf]) -> io::Result<Vec<(Followed, Neutral)>> {
    let names = match &arguments.file {
        Some(name) => vec![name.as_str()],
        None => USUAL_FILES.to_vec(),
    };
    let followed = names.into_iter().map(|name| {
        let followed = Followed::new(roots.to_vec(), arguments.container, name)?;
        Ok((followed, Neutral::default()))
    });
    followed.collect()
}

/// Files that are printed one after the other.
struct Printer {
    files: Vec<(Followed, Neutral)>,
    /// Place of the file whose bytes were printed last.
    last: Option<usize>,
    raw: bool,
}

impl Printer {
    /// Prints what there is and, with a socket, what comes until the container has ended. Returns
    /// whether anything was printed.
    fn run(&mut self, arguments: &LogsArguments, socket: Option<&Path>) -> io::Result<bool> {
        loop {
            // Asked before the look, so that the last look has what was printed at the end.
            let is_last = socket.is_none_or(|socket| has_ended(socket, arguments.container));
            self.look(arguments.tail)?;
            if is_last {
                return Ok(self.last.is_some());
            }
            thread::sleep(FOLLOW_PAUSE);
        }
    }

    fn look(&mut self, tail: u64) -> io::Result<()> {
        for place in 0..self.files.len() {
            let (followed, neutral) = &mut self.files[place];
            let piece = followed.look(tail)?;
            if piece.bytes.is_empty() {
                continue;
            }
            let mut out = Vec::new();
            if self.last != Some(place) {
                let name = followed.name().escape_debug();
                out.extend_from_slice(format!("==> {name} <==\n").as_bytes());
            }
            out.extend_from_slice(&printed(&piece, neutral, self.raw));
            self.last = Some(place);
            let mut stdout = io::stdout().lock();
            stdout.write_all(&out)?;
            stdout.flush()?;
        }
        Ok(())
    }
}

fn printed(piece: &Piece, neutral: &mut Neutral, raw: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if piece.begins_anew {
        out.extend_from_slice(b"\n[the file begins anew]\n");
        *neutral = Neutral::default();
    }
    if piece.skipped > 0 {
        let skipped = number(piece.skipped);
        out.extend_from_slice(format!("\n[{skipped} bytes are left out]\n").as_bytes());
    }
    if raw {
        out.extend_from_slice(&piece.bytes);
    } else {
        out.extend_from_slice(neutral.text(&piece.bytes).as_bytes());
    }
    out
}

/// Returns whether the agent says that a container has ended, or does not know it. An agent that
/// does not answer says nothing: containers may go on without it.
fn has_ended(socket: &Path, container: ContainerName) -> bool {
    let request = Request::Explain {
        container: container.to_string(),
    };
    match ask(socket, &request) {
        Ok(Answer::Explain(story)) => story.exit_status.is_some() || story.state == "forgotten",
        Err(AskError::Refused(refusal)) => refusal.kind == RefusalKind::NoSuchContainer,
        Ok(_) | Err(_) => false,
    }
}
