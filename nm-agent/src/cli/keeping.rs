//! `run` where containers outlive the agent: the front that a service manager sees, the keeper of
//! the containers' exit statuses, and the agent below both. The `keeper` crate says how they fit.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::process::ExitCode;

use cgroup::Layout;
use keeper::{Beside, Kept, front, keep};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use node_manager::config::CONTAINERS_CGROUP;
use service::Relay;

use super::{ConfDir, KeepArguments, print_error};

/// Name of the processes in lists.
const NAME: &str = "nm-agent";

/// Name of the keeper's cgroup beside those of containers.
const LEAF: &str = "keeper";

/// Variable of a container's process that names the container.
const CONTAINER_ID: &str = "CONTAINER_ID";

/// Runs the agent below a keeper; returns the agent's exit status. A service manager that started
/// this process gets the agent's notifications from it.
pub(super) fn run_kept(
    conf: &ConfDir,
    folder: &Path,
    environment: &BTreeMap<String, String>,
) -> ExitCode {
    match run_front(conf, folder, environment) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            print_error(format_args!(
                "nm-agent: starting the keeper of exit statuses: {error}"
            ));
            ExitCode::FAILURE
        }
    }
}

fn run_front(
    conf: &ConfDir,
    folder: &Path,
    environment: &BTreeMap<String, String>,
) -> io::Result<u8> {
    let mut arguments: Vec<OsString> = ["keep", "--folder"].map(OsString::from).into();
    arguments.push(folder.into());
    if let Some(conf) = &conf.conf {
        arguments.extend([OsString::from("--conf"), conf.into()]);
    }
    let as_it_is = |signal| (signal, signal);
    let mut signals = [Signal::SIGINT, Signal::SIGTERM].map(as_it_is).to_vec();
    // One that is ignored, as by nohup, is not passed on.
    if !program::signals::is_hang_up_ignored() {
        // The program below has no terminal, and reads its configuration again on SIGHUP.
        let program_gets = if program::signals::has_terminal() {
            Signal::SIGTERM
        } else {
            Signal::SIGHUP
        };
        signals.push((Signal::SIGHUP, program_gets));
    }
    let Some((relay, program)) = Relay::open(environment)? else {
        return front(NAME, arguments, &signals, None);
    };
    let number = program.as_raw_fd().to_string();
    arguments.extend([OsString::from("--relay"), number.into()]);
    let beside = Beside {
        front: relay.as_fd(),
        program,
        serve: &mut || relay.forward(),
    };
    front(NAME, arguments, &signals, Some(beside))
}

/// Is the keeper.
pub(super) fn keeper(
    arguments: &KeepArguments,
    environment: &BTreeMap<String, String>,
) -> ExitCode {
    show_name();
    let mut program: Vec<OsString> = vec!["run".into()];
    if let Some(conf) = &arguments.conf.conf {
        program.extend([OsString::from("--conf"), conf.into()]);
    }
    if let Some(relay) = arguments.relay {
        program.extend([OsString::from("--relay"), relay.to_string().into()]);
    }
    program.push("--keeper".into());
    let mut when_left = || leave_service(environment);
    let relay = arguments.relay.map(service::inherited).transpose();
    let kept = relay.map(|handed_on| Kept {
        folder: &arguments.folder,
        name: NAME,
        arguments: &program,
        variable: CONTAINER_ID,
        handed_on,
        when_left: &mut when_left,
    });
    let ended = match kept {
        Ok(kept) => keep(kept).map_err(|error| records::error_chain(&error)),
        Err(error) => Err(format!("taking the relay to the service manager: {error}")),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(format_args!(
                "nm-agent: the keeper of exit statuses: {error}"
            ));
            ExitCode::FAILURE
        }
    }
}

/// Shows a process that was started from `/proc/self/exe` under the program's name in lists of
/// processes.
pub(super) fn show_name() {
    let name = CString::new(NAME).unwrap_or_default();
    // Only what an operator reads depends on it.
    let _shown = prctl::set_name(&name);
}

/// Moves the keeper beside the containers that it stays for, so that a service manager finds no
/// process of the stopped service.
fn leave_service(environment: &BTreeMap<String, String>) {
    let Some(path) = environment.get(CONTAINERS_CGROUP) else {
        return;
    };
    if let Err(error) = cgroup::move_beside(&Layout::of_this_process(), path, LEAF) {
        let error = records::error_chain(&error);
        print_error(format_args!(
            "nm-agent: the keeper stays in the cgroup of the service: {error}"
        ));
    }
}
