//! `hold`: the process of the service in whose control group containers run. The service manager
//! removes the control group of a service without a process; so this one stays in it while the
//! agent is stopped, started again or replaced.

use std::collections::BTreeMap;
use std::process::ExitCode;

use cgroup::Layout;
use nix::unistd::pause;
use service::{Manager, Message};

use super::print_error;

/// Name of the holder's cgroup beside those of containers: one that has given controllers to its
/// children may hold no processes.
const LEAF: &str = "holder";

/// Holds the control group that was delegated to this process until a signal ends it.
pub(super) fn hold(environment: &BTreeMap<String, String>) -> ExitCode {
    // Before the notification: whoever waits for it gives controllers to the children.
    if let Err(error) = cgroup::move_below(&Layout::of_this_process(), LEAF) {
        let error = records::error_chain(&error);
        print_error(format_args!(
            "nm-agent: containers cannot have control groups below this service's: {error}"
        ));
    }
    match Manager::of_environment(environment) {
        Ok(manager) => manager.notify(Message::Ready),
        Err(error) => {
            print_error(format_args!(
                "nm-agent: the service manager cannot be reached: {error}"
            ));
            return ExitCode::FAILURE;
        }
    }
    loop {
        pause();
    }
}
