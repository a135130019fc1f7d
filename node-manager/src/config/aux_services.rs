//! Auxiliary services, and the host of those that are Java classes.

use std::path::PathBuf;

use shuffle::ShuffleConfig;
use spark_shuffle::SparkShuffleConfig;

/// A service that containers may address (`yarn.nodemanager.aux-services`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuxServiceConfig {
    /// Name of the auxiliary service, which is free: the class decides.
    pub name: String,
    /// Configured class (`yarn.nodemanager.aux-services.NAME.class`).
    pub class: String,
    /// Server of the service, with its settings.
    pub kind: AuxServiceKind,
}

/// Program that serves a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedBy {
    /// The agent itself.
    Agent,
    /// A JVM beside it, which runs the configured class.
    Host,
}

/// Servers of services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuxServiceKind {
    /// Map outputs for reducers (`org.apache.hadoop.mapred.ShuffleHandler`).
    MapReduceShuffle(ShuffleConfig),
    /// Blocks of Spark's executors (`org.apache.spark.network.yarn.YarnShuffleService`).
    SparkShuffle(SparkShuffleConfig),
    /// A Java class in the host: every other one, and these where the configuration says so.
    Hosted(HostedConfig),
}

/// A service that is a Java class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostedConfig {
    /// Class path of its own, colons between (`….NAME.classpath`); empty: the host's.
    pub class_path: String,
    /// Classes that come from the host all the same (`….NAME.system-classes`).
    pub system_classes: Vec<String>,
    /// Port with its property, where the class is known.
    pub port: Option<(u16, &'static str)>,
    /// Property for which the agent leaves the service to the host, although it knows the class.
    pub because: Option<&'static str>,
}

/// The host of the services that are Java classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuxHostConfig {
    /// The program `java`.
    pub java: PathBuf,
    /// The host's jar.
    pub jar: PathBuf,
    /// Hadoop's class path, colons between.
    pub class_path: String,
    /// Heap in mebibytes.
    pub heap_mb: u32,
    /// Further options of the JVM.
    pub options: Vec<String>,
    /// Whether the node is unhealthy while the host does not stay up.
    pub is_required: bool,
    /// Properties that files set, expanded, for the services.
    pub properties: Vec<(String, String)>,
}

impl AuxServiceConfig {
    /// Returns the port that the service listens on, 0 for one that the system chooses, and the
    /// property that names it; `None`: the service is not known to have one.
    #[must_use]
    pub const fn port(&self) -> Option<(u16, &'static str)> {
        match &self.kind {
            AuxServiceKind::MapReduceShuffle(config) => {
                Some((config.port, "mapreduce.shuffle.port"))
            }
            AuxServiceKind::SparkShuffle(config) => {
                Some((config.port, "spark.shuffle.service.port"))
            }
            AuxServiceKind::Hosted(config) => config.port,
        }
    }

    /// Returns who serves it.
    #[must_use]
    pub const fn served_by(&self) -> ServedBy {
        match &self.kind {
            AuxServiceKind::MapReduceShuffle(_) | AuxServiceKind::SparkShuffle(_) => {
                ServedBy::Agent
            }
            AuxServiceKind::Hosted(_) => ServedBy::Host,
        }
    }

    /// Returns the settings of a MapReduce shuffle, if it is one.
    #[must_use]
    pub const fn map_reduce_shuffle(&self) -> Option<&ShuffleConfig> {
        match &self.kind {
            AuxServiceKind::MapReduceShuffle(config) => Some(config),
            AuxServiceKind::SparkShuffle(_) | AuxServiceKind::Hosted(_) => None,
        }
    }
}
