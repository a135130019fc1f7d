//! Input of a launch: the plan of one container, and the settings that all containers of this agent
//! share.
//!
//! Plain values. All paths are finished: somebody else has chosen the disks and made the
//! directories.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use localize::ContainerDirs;
use records::{ContainerId, ContainerName, NodeId};
use thiserror::Error;
use users::Account;

use super::outlives::Outlives;
use crate::isolation::Isolation;

/// The launch script, in the work directory and, for people, in the log directory.
pub(super) const LAUNCH_SCRIPT: &str = "launch_container.sh";
/// The credentials, in the work directory.
pub(super) const CONTAINER_TOKENS: &str = "container_tokens";

/// A launch of one container: its launch context and the folders chosen for it.
#[derive(Clone)]
pub struct LaunchPlan {
    /// Id of the container.
    pub container_id: ContainerId,
    /// The application's submitter: the value of `USER` and `LOGNAME`, even when the process runs
    /// as another account.
    pub user: String,
    /// The launch context's commands, unexpanded. They are joined by one space and read by bash.
    pub commands: Vec<String>,
    /// The launch context's environment, unexpanded.
    pub environment: BTreeMap<String, String>,
    /// The bytes of `container_tokens` in Hadoop's token storage format. Empty: an empty store is
    /// written.
    pub credentials: Vec<u8>,
    /// Links to localized resources, in the order in which they are made.
    pub links: Vec<Link>,
    /// Folders of the container. They exist before the launch.
    pub dirs: ContainerDirs,
    /// Data that each auxiliary service published, by service name: `NM_AUX_SERVICE_<name>`, in
    /// base64.
    pub service_metadata: BTreeMap<String, Vec<u8>>,
    /// Cost of the container's localization: `LOCALIZATION_COUNTERS`.
    pub localization_counters: LocalizationCounters,
    /// Account that the processes run as, which owns the folders. `None`: the agent's own.
    pub run_as: Option<Arc<Account>>,
}

impl LaunchPlan {
    /// A launch that runs nothing yet and brings nothing along.
    #[must_use]
    pub fn new(container_id: ContainerId, user: String, dirs: ContainerDirs) -> Self {
        Self {
            container_id,
            user,
            commands: Vec::new(),
            environment: BTreeMap::new(),
            credentials: Vec::new(),
            links: Vec::new(),
            dirs,
            service_metadata: BTreeMap::new(),
            localization_counters: LocalizationCounters::default(),
            run_as: None,
        }
    }
}

impl fmt::Debug for LaunchPlan {
    /// Environment, commands and credentials may hold secrets, so only their sizes are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchPlan")
            .field("container_id", &self.container_id)
            .field("user", &self.user)
            .field("commands", &self.commands.len())
            .field("environment", &self.environment.len())
            .field("credentials_bytes", &self.credentials.len())
            .field("links", &self.links.len())
            .field("dirs", &self.dirs)
            .finish_non_exhaustive()
    }
}

/// A name in the work directory for a localized resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Relative to the work directory; may contain `/`. A last component of `*` links every entry
    /// of the resource, which must then be a directory, by its own name.
    pub link: String,
    /// The localized resource; absolute.
    pub target: PathBuf,
}

/// Cost of a container's localization (Hadoop: `ContainerImpl.localizationCountersAsString`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalizationCounters {
    /// Bytes that had to be downloaded.
    pub bytes_missed: u64,
    /// Bytes that were in the cache.
    pub bytes_cached: u64,
    /// Resources that had to be downloaded.
    pub files_missed: u64,
    /// Resources that were in the cache.
    pub files_cached: u64,
    /// Time from the request to the last resource, in milliseconds.
    pub total_ms: u64,
}

impl fmt::Display for LocalizationCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            bytes_missed,
            bytes_cached,
            files_missed,
            files_cached,
            total_ms,
        } = self;
        write!(
            f,
            "{bytes_missed},{bytes_cached},{files_missed},{files_cached},{total_ms}"
        )
    }
}

/// Settings that are the same for all containers of this agent. Each field names Hadoop's property.
#[derive(Clone)]
pub struct LaunchConfig {
    /// The id that the RM knows this node by: `NM_HOST` and `NM_PORT`.
    pub node_id: NodeId,
    /// The port that really listens for the web pages: `NM_HTTP_PORT`.
    pub http_port: u16,
    /// The agent's own environment, as it was started: the source of whitelisted variables and of
    /// `$V` in admin values.
    pub agent_environment: BTreeMap<String, String>,
    /// `yarn.nodemanager.env-whitelist`, in the order configured.
    pub env_whitelist: Vec<String>,
    /// `yarn.nodemanager.admin-env` and `yarn.nodemanager.admin-env.<VAR>`, the latter winning;
    /// values unexpanded.
    pub admin_env: BTreeMap<String, String>,
    /// `yarn.nodemanager.force.path`; empty: `PATH` is left alone.
    pub force_path: String,
    /// Home directory of containers (`yarn.nodemanager.user-home-dir`).
    pub user_home_dir: String,
    /// The feature version (8, 11, 17 …) of the Java that containers will find; decides what
    /// `<ADD_OPENS>` becomes. See [`crate::launch::java_feature_version`]. `None`: unknown or no
    /// Java.
    pub java_feature_version: Option<u32>,
    /// Writes `directory.info` and a copy of the script to the logs
    /// (`yarn.nodemanager.log-container-debug-info.enabled`).
    pub debug_info: bool,
    /// `yarn.nodemanager.sleep-delay-before-sigkill.ms`: what processes that a container leaves
    /// behind get between SIGTERM and SIGKILL. Zero: SIGKILL at once.
    pub sigkill_delay: Duration,
    /// `yarn.nodemanager.container.stderr.pattern`: a glob with `{a,b}`, `*`, `?`, `[…]`.
    pub stderr_pattern: String,
    /// Bytes of standard error in a failed container's diagnostics
    /// (`yarn.nodemanager.container.stderr.tail.bytes`).
    pub stderr_tail_bytes: u64,
    /// Maximum number of threads that prepare and spawn guaranteed containers; opportunistic ones
    /// have half as many.
    pub launch_threads_max: usize,
    /// Starts a container's command without its script where the agent can compute what the script
    /// would set (`yarn.nodemanager.agent.launch.one-bash`).
    pub one_bash: bool,
    /// Whether containers run as other users than the agent.
    pub other_users: bool,
    /// Makes containers' cgroups; `None`: they have process groups only.
    pub isolation: Option<Isolation>,
    /// Set when containers outlive the agent. Then a leader that has ended is reaped by
    /// [`crate::launch::Launcher::release`].
    pub outlives: Option<Outlives>,
}

impl LaunchConfig {
    /// Hadoop's defaults for a node that is known as `node_id`: nothing of an environment is taken
    /// over or added, and containers have no cgroups.
    #[must_use]
    pub fn new(node_id: NodeId, http_port: u16) -> Self {
        Self {
            node_id,
            http_port,
            agent_environment: BTreeMap::new(),
            env_whitelist: Vec::new(),
            admin_env: BTreeMap::new(),
            force_path: String::new(),
            user_home_dir: "/home/".to_owned(),
            java_feature_version: None,
            debug_info: true,
            sigkill_delay: Duration::from_millis(250),
            stderr_pattern: "{*stderr*,*STDERR*}".to_owned(),
            stderr_tail_bytes: 4096,
            launch_threads_max: launch_threads_max(),
            one_bash: false,
            other_users: false,
            isolation: None,
            outlives: None,
        }
    }
}

/// Returns two threads for each processor of the machine. Preparing is file creation, spawning
/// waits for the kernel to read bash: both leave the processor idle now and then.
fn launch_threads_max() -> usize {
    2 * std::thread::available_parallelism().map_or(2, usize::from)
}

impl fmt::Debug for LaunchConfig {
    /// The agent's environment may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchConfig")
            .field("node_id", &self.node_id)
            .field("http_port", &self.http_port)
            .field("env_whitelist", &self.env_whitelist)
            .field("java_feature_version", &self.java_feature_version)
            .field("debug_info", &self.debug_info)
            .field("sigkill_delay", &self.sigkill_delay)
            .field("stderr_pattern", &self.stderr_pattern)
            .field("stderr_tail_bytes", &self.stderr_tail_bytes)
            .field("launch_threads_max", &self.launch_threads_max)
            .field("one_bash", &self.one_bash)
            .field("in_cgroups", &self.isolation.is_some())
            .finish_non_exhaustive()
    }
}

/// A plan that cannot become a script and an environment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The kernel cannot pass such a name on; Java refuses it too.
    #[error("invalid environment variable name {name:?}")]
    VariableName {
        /// Name as given, cut to a length that fits a log line.
        name: String,
    },
    /// A NUL byte cannot be passed in a variable.
    #[error("the value of environment variable {name:?} contains a NUL byte")]
    VariableValue {
        /// Name of the variable.
        name: String,
    },
    /// Bash would drop the NUL byte and run something else.
    #[error("a command contains a NUL byte")]
    Command,
    /// The link would lie outside the work directory, or is no name at all.
    #[error("link name {link:?} is not a relative path below the working directory")]
    LinkName {
        /// Link name as given, cut to a length that fits a log line.
        link: String,
    },
    /// A relative link target: only absolute targets mean the same from everywhere.
    #[error("link target {target} is not an absolute path")]
    LinkTarget {
        /// Link target as the AM gave it.
        target: PathBuf,
    },
    /// The script is text; Hadoop has no such paths either, as a URI cannot name them.
    #[error("path {path} is not UTF-8 text without NUL")]
    Path {
        /// The path that cannot be used.
        path: PathBuf,
    },
    /// More than a script should make; see [`crate::launch::LINKS_MAX`].
    #[error("{count} links are wanted, at most {max} can be made")]
    TooManyLinks {
        /// Number of links in the launch context.
        count: usize,
        /// Maximum number of links.
        max: usize,
    },
}

/// An event of a launch. Each launch yields `LaunchFailed`, or `Launched`, `ProcessesGone` and
/// `Exited`. Besides, processes of launches that nobody knows any more end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchEvent {
    /// The container's process exists.
    Launched {
        /// Id of the container.
        id: ContainerId,
        /// Session leader and process group.
        pid: i32,
        /// Start time of the process in clock ticks since boot; 0 unless containers outlive the
        /// agent.
        start_time: u64,
        /// Duration of each phase of the launch.
        timings: LaunchTimings,
        /// Lines for the diagnostics about signals that were asked for before the process was
        /// known.
        signals: Vec<String>,
    },
    /// No process came to be; nothing more will be said of this launch.
    LaunchFailed {
        /// Id of the container.
        id: ContainerId,
        /// -1, or 143 when it was terminated before it was launched.
        status: records::ContainerExitStatus,
        /// Diagnostics for the AM and people.
        diagnostics: String,
        /// Whether the node lacks what every launch needs, such as room for another process.
        is_of_node: bool,
    },
    /// Processes of the container survive SIGKILL. Comes before `ProcessesGone`, which is told all
    /// the same; what the container took is to be withheld until `LeftoversGone`.
    ProcessesStay(ContainerId),
    /// The container's process and every process that it started are gone, but for those of
    /// `ProcessesStay`. Its last output and its cgroup's events are read next.
    ProcessesGone(ContainerId),
    /// The launch is over: last event of the launch. Its files and cgroup are removed.
    Exited {
        /// Id of the container.
        id: ContainerId,
        /// 0 to 255; 128 + signal when it was signalled.
        status: records::ContainerExitStatus,
        /// Cause of a failure, for the AM and people; empty when the status is 0.
        cause: String,
        /// Exit code with the last error output, a piece of its own in the container's
        /// diagnostics; empty when the status is 0.
        diagnostics: String,
    },
    /// The processes are gone that an earlier agent started for a container and of which no record
    /// tells, or that survived SIGKILL.
    LeftoversGone(ContainerName),
}

/// Durations of the phases of one launch, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchTimings {
    /// Time from [`crate::launch::Launcher::launch`] until a launch thread takes the job.
    pub queue_us: u64,
    /// Environment, script, files.
    pub prepare_us: u64,
    /// The spawn itself, until the kernel has exchanged our memory for bash's.
    pub spawn_us: u64,
}

/// The signals an AM may ask for (Hadoop: `SignalContainerCommand`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerSignal {
    /// SIGQUIT: a JVM prints its threads.
    OutputThreadDump,
    /// SIGTERM, as an orderly request to end.
    GracefulShutdown,
    /// SIGKILL, which cannot be ignored.
    ForcefulShutdown,
}

impl ContainerSignal {
    /// Returns the name of Hadoop's `SignalContainerCommand`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutputThreadDump => "OUTPUT_THREAD_DUMP",
            Self::GracefulShutdown => "GRACEFUL_SHUTDOWN",
            Self::ForcefulShutdown => "FORCEFUL_SHUTDOWN",
        }
    }

    /// The kernel's number and its name.
    #[must_use]
    pub const fn signal(self) -> (i32, &'static str) {
        match self {
            Self::OutputThreadDump => (libc::SIGQUIT, "SIGQUIT"),
            Self::GracefulShutdown => (libc::SIGTERM, "SIGTERM"),
            Self::ForcefulShutdown => (libc::SIGKILL, "SIGKILL"),
        }
    }
}

/// A text that a peer chose, cut to what fits a log line.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(128).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_written_as_hadoop_writes_them() {
        let counters = LocalizationCounters {
            bytes_missed: 1,
            bytes_cached: 2,
            files_missed: 3,
            files_cached: 4,
            total_ms: 5,
        };
        assert_eq!(counters.to_string(), "1,2,3,4,5");
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let mut plan = super::super::testing::plan(std::path::Path::new("/w"));
        plan.environment
            .insert("PASSWORD".to_owned(), "hunter2".to_owned());
        plan.commands = vec!["run --password=hunter2".to_owned()];
        plan.credentials = b"hunter2".to_vec();
        let shown = format!("{plan:?}");
        assert!(!shown.contains("hunter2"), "{shown}");

        let mut config = super::super::testing::config();
        config
            .agent_environment
            .insert("PASSWORD".to_owned(), "hunter2".to_owned());
        let shown = format!("{config:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
