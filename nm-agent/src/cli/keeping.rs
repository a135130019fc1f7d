//! `run` where containers outlive the agent: the front that a service manager sees, the keeper of
//! the containers' exit statuses, and the agent below both. The `keeper` crate says how they fit.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use keeper::{Kept, front, keep};
use nix::sys::signal::Signal;

use super::{ConfDir, KeepArguments};

/// Name of the processes in lists.
const NAME: &str = "nm-agent";

/// Variable of a container's process that names the container.
const CONTAINER_ID: &str = "CONTAINER_ID";

/// Runs the agent below a keeper; returns the agent's exit status.
pub(super) fn run_kept(conf: &ConfDir, folder: &Path) -> ExitCode {
    let mut arguments: Vec<OsString> = ["keep", "--folder"].map(OsString::from).into();
    arguments.push(folder.into());
    if let Some(conf) = &conf.conf {
        arguments.extend([OsString::from("--conf"), conf.into()]);
    }
    let mut signals = vec![Signal::SIGINT, Signal::SIGTERM];
    // One that is ignored, as by nohup, is not passed on.
    if !program::signals::is_hang_up_ignored() {
        signals.push(Signal::SIGHUP);
    }
    match front(NAME, arguments, &signals) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("nm-agent: starting the keeper of exit statuses: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Is the keeper.
pub(super) fn keeper(arguments: &KeepArguments) -> ExitCode {
    let mut program: Vec<OsString> = vec!["run".into()];
    if let Some(conf) = &arguments.conf.conf {
        program.extend([OsString::from("--conf"), conf.into()]);
    }
    program.push("--keeper".into());
    let kept = Kept {
        folder: &arguments.folder,
        name: NAME,
        arguments: &program,
        variable: CONTAINER_ID,
    };
    match keep(&kept) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "nm-agent: the keeper of exit statuses: {}",
                records::error_chain(&error)
            );
            ExitCode::FAILURE
        }
    }
}
