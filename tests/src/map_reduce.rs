//! Hadoop's MapReduce examples and jobs of the tests' own: unmodified clients, run in processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use test_support::{Keytool, STORE_PASSWORD};

use crate::conf::{Options, Properties};
use crate::history_server::HistoryServer;
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

/// Key stores for a shuffle over TLS, in a folder of their own: a key of the nodes' servers and one
/// of the reducers, each of which the other side trusts.
#[derive(Debug)]
pub struct ShuffleStores {
    folder: TempDir,
}

impl ShuffleStores {
    /// Makes the stores: JKS with RSA for servers, PKCS #12 with a key on a curve for reducers.
    ///
    /// # Panics
    /// When `keytool` fails.
    #[must_use]
    pub fn make() -> Self {
        let folder =
            tempfile::tempdir().unwrap_or_else(|error| panic!("cannot create a folder: {error}"));
        let keytool = Keytool::find("tests with key stores", folder.path())
            .expect("the test requires Java, which brings keytool");
        for (of, others, key) in [
            ("server", "client", "RSA -keysize 2048 -storetype JKS"),
            ("client", "server", "EC -storetype PKCS12"),
        ] {
            let (keys, certificate) = (format!("{of}.keys"), format!("{of}.cer"));
            keytool.add_key(&keys, of, key);
            keytool.export(&keys, of, &certificate);
            keytool.import(&format!("{others}.trust"), of, &certificate, "");
        }
        Self { folder }
    }

    /// Adds to the properties of nodes and jobs that reducers fetch over TLS and show certificates.
    #[must_use]
    pub fn with_tls(&self, options: Options) -> Options {
        let options = options
            .with("mapreduce.shuffle.ssl.enabled", true)
            .with("hadoop.ssl.require.client.cert", true);
        ["server", "client"].into_iter().fold(options, |all, of| {
            let mut properties = Properties::default();
            for (store, file) in [("keystore", "keys"), ("truststore", "trust")] {
                let path = self.folder.path().join(format!("{of}.{file}"));
                properties
                    .set(format!("ssl.{of}.{store}.location"), path.display())
                    .set(format!("ssl.{of}.{store}.password"), STORE_PASSWORD);
            }
            all.with_file(&format!("ssl-{of}.xml"), &properties)
        })
    }
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

/// Starts the client of an example, whose name is the first argument, beside a history server if
/// the lab has none. `name` names its log files.
///
/// # Panics
/// When the client cannot be started.
#[must_use]
pub fn start<const N: usize>(lab: &Lab, name: &str, arguments: [&str; N]) -> JobClient {
    let (history, properties) = HistoryServer::start_beside(lab).unzip();
    let mut arguments = arguments.map(OsString::from).to_vec();
    arguments.splice(1..1, properties.into_iter().flatten());
    JobClient::start(lab, name, EXAMPLES, arguments).beside(history)
}

/// Starts the client of an example with nothing beside it, to be measured.
///
/// # Panics
/// When the client cannot be started.
#[must_use]
pub fn start_alone<const N: usize>(lab: &Lab, name: &str, arguments: [&str; N]) -> JobClient {
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
        let (history, addresses) = HistoryServer::start_beside(lab).unzip();
        command.args(addresses.into_iter().flatten());
        for property in properties {
            command.args(["-D", property]);
        }
        command.arg(&self.jar);
        JobClient::start_command(lab, name, command).beside(history)
    }
}
