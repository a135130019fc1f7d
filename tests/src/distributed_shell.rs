//! DistributedShell, Hadoop's own sample application: its client as it comes, run in a process.

use std::ffi::OsString;

use crate::hadoop;
use crate::job_client::JobClient;
use crate::lab::Lab;

/// The artifact with the client and the ApplicationMaster.
const ARTIFACT: &str = "hadoop-yarn-applications-distributedshell";

/// The class with the client's `main`.
const CLIENT: &str = "org.apache.hadoop.yarn.applications.distributedshell.Client";

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
    /// What each container and the ApplicationMaster ask for, in MiB. It is also the heap of the latter.
    pub memory_mb: u32,
    /// Of which type.
    pub container_type: ContainerType,
}

/// Starts a client that submits `job` and waits for its end. `name` names the application and the client's log files.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn start(lab: &Lab, name: &str, job: &Job<'_>) -> JobClient {
    let text = |value: &str| OsString::from(value);
    let mut arguments = vec![text("-jar"), hadoop::jar(ARTIFACT).into_os_string()];
    arguments.extend(["-appname", name, "-shell_command", job.command].map(text));
    for (option, value) in [
        ("-num_containers", job.containers),
        ("-container_memory", job.memory_mb),
        ("-master_memory", job.memory_mb),
    ] {
        arguments.extend([text(option), text(&value.to_string())]);
    }
    arguments.push(text("-container_type"));
    match job.container_type {
        ContainerType::Guaranteed => arguments.push(text("GUARANTEED")),
        ContainerType::Opportunistic => arguments.push(text("OPPORTUNISTIC")),
        ContainerType::OpportunisticThenPromoted => {
            arguments.extend(["OPPORTUNISTIC", "-promote_opportunistic_after_start"].map(text));
        }
    }
    JobClient::start(lab, name, CLIENT, arguments)
}
