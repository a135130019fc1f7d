//! Hadoop's MapReduce examples and jobs of the tests' own: unmodified clients, run in processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::conf::Options;
use crate::java;
use crate::job_client::JobClient;
use crate::lab::Lab;

/// Class that runs an example by its name.
const EXAMPLES: &str = "org.apache.hadoop.examples.ExampleDriver";

/// Deadline for a job of some dozen tasks, each of which is a JVM's start, on a machine that is
/// busy building.
pub const JOB_DEADLINE: Duration = Duration::from_secs(300);

/// Result of the example `pi` with 10 maps of 100 samples each, as its client prints it.
pub const PI_10_100: &str = "Estimated value of Pi is 3.14800000000000000000";

/// Adds to the properties of nodes the service that reducers fetch map outputs from, on a port that
/// the system chooses.
#[must_use]
pub fn with_shuffle(options: Options) -> Options {
    options
        .with("yarn.nodemanager.aux-services", "mapreduce_shuffle")
        .with("mapreduce.shuffle.port", 0)
}

/// Returns the id of the job that is this application.
#[must_use]
pub fn job_id(application_id: &str) -> String {
    application_id.replacen("application", "job", 1)
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

/// A job whose maps fail, or wait for a file, as ordered: `java/OrderedJob.java`, in a jar.
#[derive(Debug)]
pub struct OrderedJob {
    jar: PathBuf,
}

impl OrderedJob {
    /// Compiles the job into the lab's folder.
    ///
    /// # Panics
    /// When there is no JDK.
    #[must_use]
    pub fn compile(lab: &Lab) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/OrderedJob.java");
        Self {
            jar: java::jar_of_source(&source, lab.folder()),
        }
    }

    /// Starts a client that submits the job with these properties, as `NAME=VALUE`. `name` names
    /// its log files.
    ///
    /// # Panics
    /// When the client cannot be started.
    #[must_use]
    pub fn start(&self, lab: &Lab, name: &str, properties: &[&str]) -> JobClient {
        let mut command = java::command_with_jar(&lab.conf(), &self.jar, "OrderedJob", 256);
        for property in properties {
            command.args(["-D", property]);
        }
        command.arg(&self.jar);
        JobClient::start_command(lab, name, command)
    }
}
