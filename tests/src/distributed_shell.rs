//! DistributedShell, Hadoop's own sample application: its unmodified client, run in a process.

use std::ffi::OsString;

use crate::hadoop;
use crate::job_client::JobClient;
use crate::lab::Lab;

/// Artifact with the client and the ApplicationMaster.
const ARTIFACT: &str = "hadoop-yarn-applications-distributedshell";

/// Class with the client's `main`.
const CLIENT: &str = "org.apache.hadoop.yarn.applications.distributedshell.Client";

/// Execution type of a job's containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerType {
    /// Guaranteed: containers run in resources of their own.
    Guaranteed,
    /// Opportunistic: containers run in what is left over.
    Opportunistic,
    /// Opportunistic at first; the ApplicationMaster promotes each after its start.
    OpportunisticThenPromoted,
}

/// A job of equal containers.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// Shell command of each container.
    pub command: &'a str,
    /// Number of containers.
    pub containers: u32,
    /// Size of each container and of the ApplicationMaster, in MiB; also the heap of the latter.
    pub memory_mb: u32,
    /// Execution type of the containers.
    pub container_type: ContainerType,
}

/// Starts a client that submits `job` and waits for its end. `name` names the application and the
/// client's log files.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn start(lab: &Lab, name: &str, job: &Job<'_>) -> JobClient {
    start_with(lab, name, job, &[])
}

/// Starts a client as [`start`] does, with more of its options. `-master_memory` among them
/// replaces the job's size for the ApplicationMaster.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn start_with(lab: &Lab, name: &str, job: &Job<'_>, options: &[&str]) -> JobClient {
    let text = |value: &str| OsString::from(value);
    let mut arguments = vec![text("-jar"), hadoop::jar(ARTIFACT).into_os_string()];
    arguments.extend(["-appname", name, "-shell_command", job.command].map(text));
    let sizes = [
        ("-num_containers", job.containers),
        ("-container_memory", job.memory_mb),
        ("-master_memory", job.memory_mb),
    ];
    let sizes = sizes
        .into_iter()
        .filter(|(option, _)| !options.contains(option));
    for (option, value) in sizes {
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
    arguments.extend(options.iter().map(|option| text(option)));
    JobClient::start(lab, name, CLIENT, arguments)
}
