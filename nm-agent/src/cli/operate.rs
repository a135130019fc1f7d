//! The commands that ask the running agent of this machine, and their exit statuses.

pub(super) mod drain;
pub(super) mod explain;
pub(super) mod logs;
pub(super) mod reload;
pub(super) mod top;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use node_admin::client::{AskError, ask};
use node_admin::message::{Answer, RefusalKind, Request};
use node_manager::config::load_admin;
use records::error_chain;

use super::ConfDir;
use crate::operate::{queue_text, status_text};

/// Exit status for bad arguments or configuration, as clap has it.
const EXIT_USAGE: u8 = 2;
/// Exit status when no agent answers.
const EXIT_NOT_RUNNING: u8 = 3;
/// Exit status when the caller may not ask.
const EXIT_NOT_ALLOWED: u8 = 4;
/// Exit status for a container or an application that the node does not know.
const EXIT_NO_SUCH_CONTAINER: u8 = 5;

#[derive(Debug, Args)]
pub(super) struct Socket {
    #[command(flatten)]
    conf: ConfDir,
    /// Admin socket of the agent [default: yarn.nodemanager.agent.admin.socket]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct StatusArguments {
    #[command(flatten)]
    socket: Socket,
    /// Print the answer as JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct QueueArguments {
    #[command(flatten)]
    socket: Socket,
    /// Containers to list from the head of the queue
    #[arg(long, value_name = "N", default_value_t = 50)]
    first: usize,
    /// Print the answer as JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Exit status of a command without an answer, whose message is printed already.
type Failed = ExitCode;

type Environment = BTreeMap<String, String>;

pub(super) fn status(arguments: &StatusArguments, environment: &Environment) -> ExitCode {
    let print = |answer: &Answer| {
        let Answer::Status(status) = answer else {
            return None;
        };
        if arguments.json {
            json(status)
        } else {
            Some(status_text(status))
        }
    };
    exchange(&arguments.socket, environment, &Request::Status, print)
}

pub(super) fn queue(arguments: &QueueArguments, environment: &Environment) -> ExitCode {
    let print = |answer: &Answer| {
        let Answer::Queue(queue) = answer else {
            return None;
        };
        if arguments.json {
            json(queue)
        } else {
            Some(queue_text(queue))
        }
    };
    let request = Request::Queue {
        first: arguments.first,
    };
    exchange(&arguments.socket, environment, &request, print)
}

/// Asks the agent and prints what `text` makes of the answer; `None` from it: the answer is to
/// another request.
fn exchange(
    socket: &Socket,
    environment: &Environment,
    request: &Request,
    text: impl Fn(&Answer) -> Option<String>,
) -> ExitCode {
    let answer = match path(socket, environment).and_then(|path| ask_at(&path, request)) {
        Ok(answer) => answer,
        Err(failed) => return failed,
    };
    text(&answer).map_or_else(wrong_answer, |text| print_out(&text))
}

/// Says that the answer is to another request.
fn wrong_answer() -> ExitCode {
    eprintln!("nm-agent: the agent answered another request: use its own version of nm-agent");
    ExitCode::FAILURE
}

/// Prints a text; a reader that has gone away is no failure of the node.
fn print_out(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn json(value: &impl serde::Serialize) -> Option<String> {
    let mut text = serde_json::to_string_pretty(value).ok()?;
    text.push('\n');
    Some(text)
}

/// Returns the path of the agent's socket.
fn path(socket: &Socket, environment: &Environment) -> Result<PathBuf, Failed> {
    if let Some(path) = &socket.socket {
        return Ok(path.clone());
    }
    match load_admin(&socket.conf.folders(environment), environment) {
        Ok(admin) => admin.socket.ok_or_else(|| {
            eprintln!(
                "nm-agent: yarn.nodemanager.agent.admin.socket is empty, so this node has no admin \
                 socket"
            );
            ExitCode::from(EXIT_USAGE)
        }),
        Err(problems) => {
            eprintln!("{problems}");
            Err(ExitCode::from(EXIT_USAGE))
        }
    }
}

fn ask_at(path: &std::path::Path, request: &Request) -> Result<Answer, Failed> {
    ask(path, request).map_err(|error| {
        eprintln!("nm-agent: {}", error_chain(&error));
        exit_code(&error)
    })
}

/// Returns the exit status of a command without an answer.
fn exit_code(error: &AskError) -> ExitCode {
    match error {
        AskError::NotRunning(_) => ExitCode::from(EXIT_NOT_RUNNING),
        AskError::NotAllowed(_) => ExitCode::from(EXIT_NOT_ALLOWED),
        AskError::Refused(refusal) => match refusal.kind {
            RefusalKind::NotAllowed => ExitCode::from(EXIT_NOT_ALLOWED),
            RefusalKind::NoSuchContainer => ExitCode::from(EXIT_NO_SUCH_CONTAINER),
            RefusalKind::BadConfiguration => ExitCode::from(EXIT_USAGE),
            RefusalKind::BadRequest | RefusalKind::Unavailable => ExitCode::FAILURE,
        },
        AskError::Io { .. } | AskError::BadAnswer { .. } => ExitCode::FAILURE,
    }
}
