//! `nm-agent drain`.

use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use hadoop_conf::parse;
use node_admin::message::{Answer, Request};
use node_view::operator::{DrainMode, DrainState};

use super::{Environment, Failed, Socket, ask_at, json, path, print_out, wrong_answer};
use crate::operate::drain_text;

/// Time between two looks at a node that is being drained.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct DrainArguments {
    #[command(flatten)]
    socket: Socket,
    /// Containers to end [default: graceful]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Time that they have to end by themselves, such as 30s, 10m or 2h; with fast the node stays
    /// healthy for so long [default: none]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    within: Option<Duration>,
    /// Reason for people: on pages, in the health report of `yarn node -status` and in the log
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Put the node back into service
    #[arg(long, conflicts_with_all = ["mode", "within", "reason", "wait"])]
    cancel: bool,
    /// Wait until no opportunistic container is left, and with fast none at all. Alone, on a node
    /// that is being drained already, it waits for that drain and changes nothing
    #[arg(long)]
    wait: bool,
    /// Longest wait, such as 30s, 10m or 2h [default: none]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
    /// Print the answer as JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// End no running container
    Graceful,
    /// End the opportunistic containers
    Quick,
    /// End all containers
    Fast,
}

impl From<Mode> for DrainMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Graceful => Self::Graceful,
            Mode::Quick => Self::Quick,
            Mode::Fast => Self::Fast,
        }
    }
}

/// Reads a duration with a unit. A bare number would be milliseconds to Hadoop and seconds to
/// people.
fn duration(text: &str) -> Result<Duration, String> {
    let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
    let millis = parse::duration_ms(text).filter(|_| has_unit);
    let millis = millis.and_then(|millis| u64::try_from(millis).ok());
    let millis = millis.ok_or("write a number with a unit: 500ms, 30s, 10m, 2h or 1d")?;
    Ok(Duration::from_millis(millis))
}

pub(crate) fn drain(arguments: &DrainArguments, environment: &Environment) -> ExitCode {
    let path = match path(&arguments.socket, environment) {
        Ok(path) => path,
        Err(failed) => return failed,
    };
    if arguments.cancel {
        return cancel(&path);
    }
    let state = match order(&path, arguments) {
        Ok(state) => state,
        Err(failed) => return failed,
    };
    if !arguments.wait {
        return print(&state, arguments.json);
    }
    match wait(&path, state, arguments.timeout) {
        Ok(state) => print(&state, arguments.json),
        Err(failed) => failed,
    }
}

/// Orders a drain, unless the arguments only wait and there is one to wait for.
fn order(path: &Path, arguments: &DrainArguments) -> Result<DrainState, Failed> {
    let DrainArguments {
        mode,
        within,
        reason,
        ..
    } = arguments;
    let only_waits = arguments.wait && mode.is_none() && within.is_none() && reason.is_empty();
    if only_waits {
        let Answer::Status(status) = ask_at(path, &Request::Status)? else {
            return Err(wrong_answer());
        };
        if let Some(state) = status.drain {
            return Ok(state);
        }
    }
    let within_ms = within.unwrap_or_default().as_millis();
    let request = Request::Drain {
        mode: mode.unwrap_or(Mode::Graceful).into(),
        within_ms: u64::try_from(within_ms).unwrap_or(u64::MAX),
        reason: reason.clone(),
    };
    let Answer::Drain(state) = ask_at(path, &request)? else {
        return Err(wrong_answer());
    };
    Ok(state)
}

fn print(state: &DrainState, as_json: bool) -> ExitCode {
    let text = if as_json {
        json(state)
    } else {
        Some(drain_text(state))
    };
    text.map_or(ExitCode::FAILURE, |text| print_out(&text))
}

fn cancel(path: &Path) -> ExitCode {
    match ask_at(path, &Request::CancelDrain) {
        Ok(Answer::CancelDrain { was_drained: true }) => {
            print_out("The node is back in service.\n")
        }
        Ok(Answer::CancelDrain { was_drained: false }) => {
            print_out("The node was not drained; it is in service.\n")
        }
        Ok(_) => wrong_answer(),
        Err(failed) => failed,
    }
}

/// Looks at the node until it is drained.
fn wait(
    path: &Path,
    mut state: DrainState,
    timeout: Option<Duration>,
) -> Result<DrainState, Failed> {
    let begun = Instant::now();
    while !is_drained(&state) {
        if timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
            eprint!(
                "nm-agent: the node is not drained yet\n{}",
                drain_text(&state)
            );
            return Err(ExitCode::FAILURE);
        }
        thread::sleep(LOOK_INTERVAL);
        let Answer::Status(status) = ask_at(path, &Request::Status)? else {
            return Err(wrong_answer());
        };
        state = status.drain.ok_or_else(|| {
            eprintln!("nm-agent: the drain has been cancelled");
            ExitCode::FAILURE
        })?;
    }
    Ok(state)
}

fn is_drained(state: &DrainState) -> bool {
    let without_guaranteed = match state.mode {
        DrainMode::Graceful | DrainMode::Quick => true,
        DrainMode::Fast => state.guaranteed_left == 0,
    };
    state.opportunistic_left == 0 && without_guaranteed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        for text in ["", "10", "-1s", "1.5h", "soon"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_fast_waits_for_guaranteed_containers() {
        let state = |mode, guaranteed_left, opportunistic_left| DrainState {
            mode,
            reason: String::new(),
            by: "root".to_owned(),
            since_ms: 0,
            ends_at_ms: None,
            is_ending: false,
            guaranteed_left,
            opportunistic_left,
        };
        assert!(is_drained(&state(DrainMode::Graceful, 3, 0)));
        assert!(is_drained(&state(DrainMode::Quick, 3, 0)));
        assert!(!is_drained(&state(DrainMode::Quick, 0, 1)));
        assert!(!is_drained(&state(DrainMode::Fast, 3, 0)));
        assert!(is_drained(&state(DrainMode::Fast, 0, 0)));
    }
}
