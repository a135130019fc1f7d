//! `nm-agent reload`.

use std::process::ExitCode;

use clap::Args;
use node_admin::message::{Answer, Request};

use super::{Environment, Socket, ask_at, json, path, print_out, wrong_answer};
use crate::operate::reload_text;

/// Exit status when a changed property takes effect at the next start of the agent only.
const EXIT_NEXT_START: u8 = 6;

#[derive(Debug, Args)]
pub(crate) struct ReloadArguments {
    #[command(flatten)]
    socket: Socket,
    /// Print the answer as JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn reload(arguments: &ReloadArguments, environment: &Environment) -> ExitCode {
    let answer =
        path(&arguments.socket, environment).and_then(|path| ask_at(&path, &Request::Reload));
    let reload = match answer {
        Ok(Answer::Reload(reload)) => reload,
        Ok(_) => return wrong_answer(),
        Err(failed) => return failed,
    };
    let text = if arguments.json {
        json(&reload)
    } else {
        Some(reload_text(&reload))
    };
    let printed = text.map_or(ExitCode::FAILURE, |text| print_out(&text));
    if printed == ExitCode::SUCCESS && !reload.refused.is_empty() {
        return ExitCode::from(EXIT_NEXT_START);
    }
    printed
}
