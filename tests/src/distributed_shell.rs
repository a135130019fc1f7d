//! DistributedShell, Hadoop's own sample application: its client as it comes, run in a process.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::lab::Lab;
use crate::process::Process;
use crate::{hadoop, java, wait};

/// The artifact with the client and the ApplicationMaster.
const ARTIFACT: &str = "hadoop-yarn-applications-distributedshell";

/// For the client's JVM to submit, on a machine that is busy building.
const SUBMIT_DEADLINE: Duration = Duration::from_secs(90);

/// What the containers are promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerType {
    /// Their resources.
    Guaranteed,
    /// Nothing: they run in what is left over.
    Opportunistic,
    /// Nothing at first; the ApplicationMaster has each promoted once it is started.
    OpportunisticThenPromoted,
}

/// A job to run.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// What each container runs: a shell command.
    pub command: &'a str,
    /// How many containers.
    pub containers: u32,
    /// What each container asks for, in MiB.
    pub container_memory_mb: u32,
    /// What the ApplicationMaster asks for, in MiB. It is also its heap.
    pub master_memory_mb: u32,
    /// Of which type.
    pub container_type: ContainerType,
}

/// How a job ended.
#[derive(Debug)]
pub struct Outcome {
    /// Whether the client said that the application succeeded.
    pub succeeded: bool,
    /// What the client wrote.
    pub log: String,
}

/// A running client.
#[derive(Debug)]
pub struct DistributedShell {
    process: Process,
    begin: Instant,
}

impl DistributedShell {
    /// Starts a client that submits `job` and waits for its end. `name` names its log files.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(lab: &Lab, name: &str, job: &Job<'_>) -> Self {
        let mut command = client(lab);
        command
            .arg("-jar")
            .arg(hadoop::jar(ARTIFACT))
            .args(["-appname", name, "-shell_command", job.command])
            .args(["-num_containers", &job.containers.to_string()])
            .args(["-container_memory", &job.container_memory_mb.to_string()])
            .args(["-master_memory", &job.master_memory_mb.to_string()]);
        match job.container_type {
            ContainerType::Guaranteed => command.args(["-container_type", "GUARANTEED"]),
            ContainerType::Opportunistic => command.args(["-container_type", "OPPORTUNISTIC"]),
            ContainerType::OpportunisticThenPromoted => command.args([
                "-container_type",
                "OPPORTUNISTIC",
                "-promote_opportunistic_after_start",
            ]),
        };
        Self {
            process: Process::start(name, &mut command, &lab.log_folder()),
            begin: Instant::now(),
        }
    }

    /// Waits for the id of the submitted application.
    ///
    /// # Panics
    /// When the client ends before, or takes too long.
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
    /// When it has not ended at the deadline.
    #[must_use]
    pub fn outcome(&mut self, deadline: Duration) -> Outcome {
        let status = self.process.wait_exit(deadline);
        Outcome {
            succeeded: status.success(),
            log: self.process.log(),
        }
    }

    /// Time since the client was started.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

fn client(lab: &Lab) -> Command {
    let mut command = java::command(
        &lab.conf(),
        "org.apache.hadoop.yarn.applications.distributedshell.Client",
        256,
    );
    // The client uploads what the containers need into the home folder of the file system, which is that of the JVM.
    command
        .env(
            "JAVA_TOOL_OPTIONS",
            format!("-Duser.home={}", lab.home().display()),
        )
        .current_dir(lab.folder());
    command
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
