//! What a host is started with.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use cgroup::Cgroup;

/// A service that is a Java class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedService {
    /// Name of the service.
    pub name: String,
    /// Class, a `org.apache.hadoop.yarn.server.api.AuxiliaryService`.
    pub class: String,
    /// Class path of its own, as `ApplicationClassLoader` takes it, colons between; empty: the
    /// host's.
    pub class_path: String,
    /// Classes that come from the host's class path all the same; empty: Hadoop's own list.
    pub system_classes: Vec<String>,
    /// Folder for what must outlive a restart; `None`: nothing is recovered.
    pub recovery_folder: Option<PathBuf>,
}

/// Terms on which a host is started, at each of its lives.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The program `java`.
    pub java: PathBuf,
    /// Options of the JVM, before the class path.
    pub options: Vec<OsString>,
    /// Class path: the host's jar, and Hadoop's.
    pub class_path: OsString,
    /// Environment, the whole of it.
    pub environment: Vec<(String, String)>,
    /// Properties of Hadoop's configuration, over its defaults.
    pub properties: Vec<(String, String)>,
    /// Services, at most [`SERVICES_MAX`](crate::SERVICES_MAX).
    pub services: Vec<HostedService>,
    /// Cgroup of the host; `None`: it runs in the agent's.
    pub group: Option<Cgroup>,
    /// How long each step may take.
    pub patience: Patience,
}

/// How long the steps of a host's life may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// From the start of Java to the first word.
    pub hello: Duration,
    /// Start of one service.
    pub service: Duration,
    /// Sending what the host does not read.
    pub write: Duration,
    /// From the order to stop to the end, before SIGTERM.
    pub stop: Duration,
    /// From SIGTERM to the end, before SIGKILL.
    pub terminate: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(30),
            service: Duration::from_secs(60),
            write: Duration::from_secs(30),
            stop: Duration::from_secs(4),
            terminate: Duration::from_secs(1),
        }
    }
}

/// Local folders of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// Folders that services write in.
    pub good: Vec<PathBuf>,
    /// Folders that services read in: good ones and full ones.
    pub readable: Vec<PathBuf>,
}
