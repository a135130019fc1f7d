//! Hadoop's MapReduce examples: their unmodified client, run in a process.

use std::ffi::OsString;
use std::time::Duration;

use crate::conf::Options;
use crate::job_client::JobClient;
use crate::lab::Lab;

/// Class that runs an example by its name.
const EXAMPLES: &str = "org.apache.hadoop.examples.ExampleDriver";

/// Deadline for a job of some dozen tasks, each of which is a JVM's start, on a machine that is
/// busy building.
pub const JOB_DEADLINE: Duration = Duration::from_secs(300);

/// Adds to the properties of nodes the service that reducers fetch map outputs from, on a port that
/// the system chooses.
#[must_use]
pub fn with_shuffle(options: Options) -> Options {
    options
        .with("yarn.nodemanager.aux-services", "mapreduce_shuffle")
        .with("mapreduce.shuffle.port", 0)
}

/// Starts the client of the example `pi` with this many maps of ten samples each. `name` names its
/// log files.
///
/// # Panics
/// When the client cannot be started.
#[must_use]
pub fn start_pi(lab: &Lab, name: &str, maps: u32) -> JobClient {
    start(lab, name, ["pi", &maps.to_string(), "10"])
}

/// Starts the client of an example, whose name is the first argument. `name` names its log files.
///
/// # Panics
/// When the client cannot be started.
#[must_use]
pub fn start<const N: usize>(lab: &Lab, name: &str, arguments: [&str; N]) -> JobClient {
    JobClient::start(lab, name, EXAMPLES, arguments.map(OsString::from))
}
