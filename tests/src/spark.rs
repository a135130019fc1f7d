//! Spark: its unmodified client in cluster mode, run in a process, with the jobs of
//! `java/SparkJobs.java`. The ApplicationMaster with the driver and the executors take Spark's jars
//! from this machine, and everything else from the default file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::java;
use crate::job_client::JobClient;
use crate::lab::Lab;
use crate::maven::{Artifact, Collection};

use test_support::HADOOP_VERSION;

/// Release of Spark, of the line 3.5.
const VERSION: &str = "3.5.5";

/// Class of `spark-submit`.
const SUBMIT: &str = "org.apache.spark.deploy.SparkSubmit";

/// Deadline for a job of a few tasks in some JVMs, on a machine that is busy building.
pub const JOB_DEADLINE: Duration = Duration::from_secs(240);

/// Memory that the container of an executor takes, in MiB: a heap of `HEAP_MB` and what Spark
/// adds to it. Smaller heaps are refused by Spark.
pub const EXECUTOR_MB: u32 = 640;

/// Memory that the ApplicationMaster's container with the driver takes, in MiB: more than an
/// executor's, so that a node for one executor gets no ApplicationMaster.
pub const DRIVER_MB: u32 = 768;

/// Heap of a driver or an executor, in MiB.
const HEAP_MB: u32 = 512;

/// Spark for YARN, with the clients of the pinned Hadoop in place of the older ones that Spark
/// names, and with the releases of libraries that Spark is built with where those clients name
/// older ones.
const ARTIFACTS: [Artifact; 6] = [
    of("org.apache.spark", "spark-yarn_2.12", VERSION),
    of("org.apache.hadoop", "hadoop-client-api", HADOOP_VERSION),
    of("org.apache.hadoop", "hadoop-client-runtime", HADOOP_VERSION),
    // The filter of the driver's pages.
    Artifact {
        is_alone: true,
        ..of(
            "org.apache.hadoop",
            "hadoop-yarn-server-web-proxy",
            HADOOP_VERSION,
        )
    },
    of("org.slf4j", "slf4j-api", "2.0.7"),
    of("com.fasterxml.jackson.core", "jackson-core", "2.15.2"),
];

const fn of(group: &'static str, name: &'static str, version: &'static str) -> Artifact {
    Artifact {
        group,
        name,
        version,
        is_alone: false,
    }
}

fn collection() -> Collection {
    Collection {
        name: format!("spark-{VERSION}"),
        megabytes: 180,
        artifacts: &ARTIFACTS,
    }
}

/// Spark's own shuffle service, apart from what it needs, which is among Spark's jars.
const SERVICE: [Artifact; 1] = [Artifact {
    is_alone: true,
    ..of("org.apache.spark", "spark-network-yarn_2.12", VERSION)
}];

/// Returns the class path of Spark's own shuffle service; downloads its jars first if need be.
///
/// # Panics
/// When the download fails.
#[must_use]
pub fn service_class_path() -> String {
    let collection = Collection {
        name: format!("spark-network-yarn-{VERSION}"),
        megabytes: 1,
        artifacts: &SERVICE,
    };
    format!("{}/*:{}/*", collection.jars().display(), jars().display())
}

/// Returns whether the jars are there, so that neither Maven nor a network is needed.
#[must_use]
pub fn is_cached() -> bool {
    collection().is_cached()
}

/// Returns the folder with all of Spark's jars; downloads them first if need be.
///
/// # Panics
/// When the download fails.
#[must_use]
pub fn jars() -> &'static Path {
    static JARS: OnceLock<PathBuf> = OnceLock::new();
    JARS.get_or_init(|| collection().jars())
}

/// Compiled `java/SparkJobs.java`, and what its jobs need of a cluster.
#[derive(Debug)]
pub struct Spark {
    jar: PathBuf,
}

impl Spark {
    /// Compiles the jobs into the lab's folder.
    ///
    /// # Panics
    /// When there is no JDK, or Spark cannot be downloaded.
    #[must_use]
    pub fn new(lab: &Lab) -> Self {
        let folder = lab.folder().join("spark");
        let (classes, jar) = (folder.join("classes"), folder.join("jobs.jar"));
        fs::create_dir_all(&classes)
            .unwrap_or_else(|error| panic!("cannot create {}: {error}", classes.display()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/SparkJobs.java");
        let mut class_path = jars().as_os_str().to_owned();
        class_path.push("/*");
        run(tool("javac")
            .arg("-cp")
            .arg(class_path)
            .arg("-d")
            .arg(&classes)
            .arg(source));
        run(tool("jar")
            .arg("--create")
            .arg("--file")
            .arg(&jar)
            .arg("-C")
            .arg(&classes)
            .arg("."));
        Self { jar }
    }

    /// Starts the client of a job with this many executors of a core each, with further properties
    /// and, where a name begins with `--`, options. `arguments` begin with the job's name.
    ///
    /// # Panics
    /// When the client cannot be started.
    #[must_use]
    pub fn submit(
        &self,
        lab: &Lab,
        executors: u32,
        further: &[(&str, &str)],
        arguments: &[&str],
    ) -> JobClient {
        let mut command = java::spark_command(&lab.conf(), jars(), SUBMIT, 256);
        command
            .args(["--master", "yarn", "--deploy-mode", "cluster"])
            .args(["--class", "SparkJobs"]);
        for (name, value) in properties(executors) {
            command.arg("--conf").arg(format!("{name}={value}"));
        }
        for (name, value) in further {
            if name.starts_with("--") {
                command.args([name, value]);
            } else {
                command.arg("--conf").arg(format!("{name}={value}"));
            }
        }
        command
            .arg(&self.jar)
            .args(arguments)
            .env("HADOOP_CONF_DIR", lab.conf());
        JobClient::start_command(lab, arguments[0], command)
    }
}

/// Returns the properties of a job of small JVMs, whose executors all run from the beginning.
fn properties(executors: u32) -> Vec<(&'static str, String)> {
    let heap = format!("{HEAP_MB}m");
    let beside_heap = |container_mb: u32| format!("{}m", container_mb - HEAP_MB);
    let text = str::to_owned;
    vec![
        ("spark.yarn.jars", format!("local:{}/*", jars().display())),
        ("spark.driver.memory", heap.clone()),
        ("spark.driver.memoryOverhead", beside_heap(DRIVER_MB)),
        ("spark.executor.memory", heap),
        ("spark.executor.memoryOverhead", beside_heap(EXECUTOR_MB)),
        ("spark.executor.instances", executors.to_string()),
        // The service is a Java class within a Java NodeManager.
        ("spark.shuffle.service.enabled", text("false")),
        // Tasks begin once every executor is there, so that each has some.
        ("spark.scheduler.minRegisteredResourcesRatio", text("1.0")),
        (
            "spark.scheduler.maxRegisteredResourcesWaitingTime",
            text("120s"),
        ),
        ("spark.locality.wait", text("0s")),
        // The client's default is a second.
        ("spark.yarn.report.interval", text("200ms")),
        ("spark.yarn.scheduler.heartbeat.interval-ms", text("500")),
    ]
}

fn tool(name: &str) -> Command {
    let home = java::home().unwrap_or_else(|why| panic!("{why}"));
    Command::new(home.join("bin").join(name))
}

fn run(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not run: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}
