//! A Hadoop client that submits one application and waits for its end, in a process of its own.

use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::lab::Lab;
use crate::process::Process;
use crate::{java, wait};

/// Deadline for the client's JVM to submit, on a machine that is busy building.
const SUBMIT_DEADLINE: Duration = Duration::from_secs(90);

/// Heap of the client. MapReduce's examples make splits and a job file, and need no more.
const HEAP_MB: u32 = 256;

/// The end of a job.
#[derive(Debug)]
pub struct Outcome {
    /// Whether the client reported success.
    pub succeeded: bool,
    /// Output of the client.
    pub log: String,
}

/// A running client.
#[derive(Debug)]
pub struct JobClient {
    process: Process,
    begin: Instant,
    /// Server that the client may ask, which ends with it.
    _beside: Option<Process>,
}

impl JobClient {
    /// Starts the client `main_class`. `name` names its log files.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start<I>(lab: &Lab, name: &str, main_class: &str, arguments: I) -> Self
    where
        I: IntoIterator<Item = OsString>,
    {
        let mut command = java::command(&lab.conf(), main_class, HEAP_MB);
        command.args(arguments);
        Self::start_command(lab, name, command)
    }

    /// Starts the client that this command runs. `name` names its log files.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start_command(lab: &Lab, name: &str, mut command: Command) -> Self {
        // Clients upload what containers need into the home folder of the file system, which is
        // that of the JVM.
        command
            .env(
                "JAVA_TOOL_OPTIONS",
                format!("-Duser.home={}", lab.home().display()),
            )
            .envs(lab.environment())
            .current_dir(lab.folder());
        Self {
            process: Process::start(name, &mut command, &lab.log_folder()),
            begin: Instant::now(),
            _beside: None,
        }
    }

    /// Keeps a server for as long as the client.
    #[must_use]
    pub fn beside(self, server: Option<Process>) -> Self {
        Self {
            _beside: server,
            ..self
        }
    }

    /// Waits for the id of the submitted application.
    ///
    /// # Panics
    /// When the client ends first, or at the deadline.
    #[must_use]
    pub fn application_id(&mut self) -> String {
        wait::until("an application id", SUBMIT_DEADLINE, || {
            let exit = self.process.exit();
            application_id(&self.process.log()).ok_or_else(|| {
                assert!(
                    exit.is_none(),
                    "the client ended with {exit:?} and without submitting"
                );
                "not submitted"
            })
        })
    }

    /// Waits for the end of the job.
    ///
    /// # Panics
    /// At the deadline.
    #[must_use]
    pub fn outcome(&mut self, deadline: Duration) -> Outcome {
        let status = self.process.wait_exit(deadline);
        Outcome {
            succeeded: status.success(),
            log: self.process.log(),
        }
    }

    /// Waits for the end of the job and expects success.
    ///
    /// # Panics
    /// At the deadline, or when the job has failed.
    #[track_caller]
    pub fn assert_succeeds(&mut self, deadline: Duration) {
        let outcome = self.outcome(deadline);
        assert!(outcome.succeeded, "{}", outcome.log);
    }

    /// Returns the time since the client was started.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Waits until the client has written `text`.
    ///
    /// # Panics
    /// At the deadline, or when the client has ended without it.
    #[track_caller]
    pub fn wait_log(&mut self, text: &str, deadline: Duration) {
        self.process.wait_log(text, deadline);
    }
}

fn application_id(log: &str) -> Option<String> {
    let (_, rest) = log.split_once("Submitted application ")?;
    let (id, _) = rest.split_once(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    id.starts_with("application_").then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_read_from_the_client_log() {
        let log =
            "x INFO impl.YarnClientImpl: Submitted application application_1700000000000_0001\ny";
        assert_eq!(
            application_id(log).as_deref(),
            Some("application_1700000000000_0001")
        );
    }

    #[test]
    fn a_line_that_is_not_complete_has_no_id_yet() {
        assert_eq!(
            application_id("Submitted application application_17000"),
            None
        );
    }
}
