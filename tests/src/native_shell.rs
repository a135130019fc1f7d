//! `nm-agent shell`, run in a process as a user runs it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use shell::Summary;

use crate::lab::Lab;
use crate::process::Process;
use crate::rm::ResourceManager;
use crate::wait;

/// Deadline for a client to submit, on a machine that is busy building.
const SUBMIT_DEADLINE: Duration = Duration::from_secs(60);

/// A running client.
#[derive(Debug)]
pub struct NativeShell {
    process: Process,
}

impl NativeShell {
    /// Starts the agent `program` as a client with these arguments, `--conf` apart. `name` names
    /// its log files.
    ///
    /// # Panics
    /// When the client cannot be started.
    #[must_use]
    pub fn start(lab: &Lab, program: &Path, name: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command
            .arg("shell")
            .arg("--conf")
            .arg(lab.conf())
            .args(arguments)
            .current_dir(lab.folder());
        Self {
            process: Process::start(name, &mut command, &lab.log_folder()),
        }
    }

    /// Waits for the id of the submitted application.
    ///
    /// # Panics
    /// When the client ends first, or at the deadline.
    #[must_use]
    #[track_caller]
    pub fn application_id(&mut self) -> String {
        self.process.wait_log(" submitted", SUBMIT_DEADLINE);
        let log = self.process.log();
        let (before, _) = log
            .split_once(" submitted")
            .expect("the text was there right now");
        let id = before.split_whitespace().next_back();
        id.expect("an id stands before it").to_owned()
    }

    /// Waits for the end of the client; returns its exit status and its output.
    ///
    /// # Panics
    /// At the deadline.
    #[must_use]
    #[track_caller]
    pub fn outcome(&mut self, deadline: Duration) -> (Option<i32>, String) {
        let status = self.process.wait_exit(deadline);
        (status.code(), self.process.log())
    }

    /// Sends SIGTERM to the client.
    pub fn terminate(&self) {
        self.process.terminate();
    }
}

/// Returns the final status of a job at the ResourceManager.
///
/// # Panics
/// When there is none.
#[must_use]
#[track_caller]
pub fn summary(rm: &ResourceManager, application_id: &str) -> Summary {
    wait::until("the summary of a job", SUBMIT_DEADLINE, || {
        let application = rm.application(application_id)?;
        let diagnostics = application["diagnostics"].as_str().unwrap_or_default();
        Summary::from_diagnostics(diagnostics).ok_or_else(|| application.to_string())
    })
}
