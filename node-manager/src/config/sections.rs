//! The sections of the configuration, one per consumer. Plain values: no parsing, no defaults, no
//! I/O.

use std::path::PathBuf;
use std::time::Duration;

use amrm_proxy::config::ProxyConfig;
use container_runtime::config::CgroupConfig;
use hadoop_conf::{HostPort, RmEndpoint};
use hadoop_fs::{FsConfig, Uri};
use health_script::HealthScript;
use launch_context::ContextLimits;
use localize::config::{DeletionConfig, DirsConfig, DiskHealthConfig, LocalizerConfig};
use log_aggregation::Format;
use log_aggregation::policy::Policy;
use log_aggregation::tfile::Compression;
use node_script::Script;
use node_web::site::conf::ShownProperty;
use node_web::site::filters::Filters;
use sched::{LoadComparator, OpportunisticContainersQueuePolicy, QueueOrder, VictimsOrder};
use tls_server::TlsConfig;
use web_auth::NameRules;
use wire::kerberos::ServerPrincipal;
use wire::protection::Protections;

use super::addresses::AddressConfig;
use super::aux_services::{AuxHostConfig, AuxServiceConfig};
use super::capacity::NodeCapacityConfig;
use super::read_policy::Policies;
use super::values::MinimumVersion;
use crate::event_writer::EventRecordConfig;
use node_core::Runtimes;

/// Configuration of the agent, valid as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Addresses that the agent listens on.
    pub addresses: AddressConfig,
    /// The ResourceManagers and how patiently they are called.
    pub rm: ResourceManagerConfig,
    /// Levels of protection of calls that carry a token, the preferred one first
    /// (`hadoop.rpc.protection`).
    pub protections: Protections,
    /// Users and hosts of the node's protocols; `None`: everybody
    /// (`hadoop.security.authorization`).
    pub policies: Option<Policies>,
    /// Identity of the node; `None`: the cluster is not secure.
    pub kerberos: Option<KerberosConfig>,
    /// Resources that the node offers.
    pub capacity: NodeCapacityConfig,
    /// The container scheduler.
    pub scheduler: SchedulerConfig,
    /// How a container's process is made and ended.
    pub launch: ExecutorConfig,
    /// Limits on what containers are started with.
    pub contexts: ContextLimits,
    /// Folders of the node.
    pub dirs: DirsConfig,
    /// File systems of resources, and the default one.
    pub file_systems: FsConfig,
    /// Localization and its cache.
    pub localizer: LocalizerConfig,
    /// Threads and delay of the removal of files.
    pub deletion: DeletionConfig,
    /// Retention and publication of container logs.
    pub logs: LogConfig,
    /// Web pages and REST.
    pub web: WebConfig,
    /// Admin socket.
    pub admin: AdminConfig,
    /// Disks and health scripts.
    pub health: HealthConfig,
    /// Limits that the kernel enforces.
    pub cgroups: CgroupConfig,
    /// Sampling of containers.
    pub monitor: MonitorConfig,
    /// Recovery after a restart.
    pub recovery: RecoveryConfig,
    /// Record of the scheduler's events; `None`: there is none.
    pub event_record: Option<EventRecordConfig>,
    /// Proxy between AMs and the ResourceManager.
    pub amrm_proxy: AmrmProxyConfig,
    /// Services of the node, in the configured order.
    pub aux_services: Vec<AuxServiceConfig>,
    /// Host of those that are Java classes; `None`: there are none.
    pub aux_host: Option<AuxHostConfig>,
    /// Labels and attributes that the node gives itself.
    pub node_labels: NodeLabelsConfig,
    /// Level of the agent's own log, with those of its parts
    /// (`yarn.nodemanager.agent.log.level`).
    pub log_level: String,
    /// Collector of traces of containers (`yarn.nodemanager.agent.traces.endpoint`); `None`: none
    /// are made.
    pub traces: Option<traces::Endpoint>,
}

/// The ResourceManagers and how patiently they are called.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceManagerConfig {
    /// In the order to try; one, or as many as `yarn.resourcemanager.ha.rm-ids` names. Never empty.
    pub endpoints: Vec<RmEndpoint>,
    /// Keep trying for this long; `None`: for ever (-1).
    pub connect_max_wait_ms: Option<u64>,
    /// Between two tries.
    pub connect_retry_interval_ms: u64,
    /// The RM keeps containers over its restart, so a resync kills none
    /// (`yarn.resourcemanager.work-preserving-recovery.enabled`).
    pub work_preserving_recovery_enabled: bool,
    /// Older RMs are to be refused. Nothing looks at it yet.
    pub minimum_version: MinimumVersion,
    /// Interval of heartbeats until the RM names one.
    pub heartbeat_interval_ms: u64,
    /// The RM takes the node for lost after this time without a heartbeat
    /// (`yarn.nm.liveness-monitor.expiry-interval-ms`).
    pub nm_expiry_interval_ms: u64,
    /// Completed containers are remembered this long for the RM
    /// (`yarn.nodemanager.duration-to-track-stopped-containers`).
    pub stopped_containers_tracked_ms: u64,
}

/// Identity of the node in a secure cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct KerberosConfig {
    /// Principal of the node, perhaps with `_HOST` (`yarn.nodemanager.principal`).
    pub principal: String,
    /// File with the principal's key (`yarn.nodemanager.keytab`).
    pub keytab: PathBuf,
    /// Principal that a ResourceManager must be (`yarn.resourcemanager.principal`).
    pub resource_manager: ServerPrincipal,
    /// Whether the node calls a ResourceManager that wants no proof
    /// (`ipc.client.fallback-to-simple-auth-allowed`).
    pub falls_back_to_simple: bool,
    /// Shortest time between two logins after a failure, in seconds.
    pub relogin_after_s: u64,
    /// The first login is made within so long of the start, in milliseconds.
    pub first_login_within_ms: u64,
}

/// Configuration of the AMRMProxy.
#[derive(Clone, Debug, PartialEq)]
pub struct AmrmProxyConfig {
    /// Whether there is one: `yarn.nodemanager.amrmproxy.enabled` or
    /// `yarn.nodemanager.distributed-scheduling.enabled`.
    pub enabled: bool,
    /// Address at which AMs reach the proxy (`yarn.nodemanager.amrmproxy.address`).
    pub address: HostPort,
    /// Longest time that a call of an AM waits for looks at nodes
    /// (`yarn.nodemanager.agent.amrmproxy.look-wait-ms`).
    pub look_wait_ms: u64,
    /// Whether containers are bound late (`reservations` in
    /// `yarn.nodemanager.agent.amrmproxy.placement`).
    pub binds_late: bool,
    /// Options of the proxy itself.
    pub proxy: ProxyConfig,
}

/// The container scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchedulerConfig {
    /// Policy that admits opportunistic containers to the queue.
    pub opportunistic_queue_policy: OpportunisticContainersQueuePolicy,
    /// Opportunistic containers that may wait under `ByQueueLen`. 0: none, and guaranteed ones
    /// start without a test.
    pub opportunistic_queue_length_max: u32,
    /// Order of the opportunistic containers that wait.
    pub queue_order: QueueOrder,
    /// Expected runs that such a container may wait for others that came later.
    pub queue_bound_factor: u32,
    /// Choice of the running opportunistic containers that make room for guaranteed ones.
    pub victims_order: VictimsOrder,
    /// Comparator of nodes at the ResourceManager, which decides the capacity that `ByResources`
    /// reports.
    pub load_comparator: LoadComparator,
    /// Freeze instead of kill to free resources for a guaranteed container.
    pub pause_for_preemption: bool,
    /// An opportunistic container may stay frozen so long.
    pub pause_max_ms: u64,
    /// Memory that running and frozen containers may hold together; `None`: most of the machine's.
    pub pause_memory_ceiling_mb: Option<u64>,
}

/// Consequence of containers that run as the agent's own user, for people.
pub const SHARED_USER: &str = "containers run as the agent's own user (DefaultContainerExecutor): \
    any tenant whose containers run here controls this node; it can read the agent's state, with \
    the keys of tokens, forge tokens for the containers of others and give orders over the admin \
    socket. LinuxContainerExecutor keeps tenants apart";

/// User that containers run as.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ContainerExecutor {
    /// The agent's own (`DefaultContainerExecutor`, or `LinuxContainerExecutor` whose protection an
    /// administrator does without).
    #[default]
    Own,
    /// The account of the submitter, by these rules (`LinuxContainerExecutor`).
    Users(UsersConfig),
}

/// Accounts of containers.
#[derive(Clone, Debug, PartialEq)]
pub struct UsersConfig {
    /// Rules for the accounts.
    pub rules: users::Rules,
    /// Group of the folders of users; `None`: the agent's own
    /// (`yarn.nodemanager.linux-container-executor.group`).
    pub group: Option<String>,
}

/// How a container's process is made and ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutorConfig {
    /// User that containers run as.
    pub executor: ContainerExecutor,
    /// Meaning of the runtimes that containers ask for.
    pub runtimes: Runtimes,
    /// Names taken over from the agent's environment unless the container sets them.
    pub env_whitelist: Vec<String>,
    /// Variables added for every container, name and unexpanded value, in the order configured.
    pub admin_env: Vec<(String, String)>,
    /// Put before every container's `PATH`.
    pub force_path: Option<String>,
    /// `HOME` of containers.
    pub user_home_dir: String,
    /// From SIGTERM to SIGKILL; 0: SIGKILL at once.
    pub sigkill_delay_ms: u64,
    /// How long to wait for a process to exist, or to end.
    pub process_kill_wait_ms: u64,
    /// Bound of a container's diagnostics, in characters.
    pub diagnostics_max_chars: usize,
    /// Shell pattern of the error files whose end goes into the diagnostics, braces allowed.
    pub stderr_pattern: String,
    /// How much of such a file.
    pub stderr_tail_bytes: u64,
    /// Copy the script and list the work folder before each launch.
    pub debug_info: bool,
    /// The same, but only after a launch of that container has failed.
    pub debug_info_on_error: bool,
    /// Start a container's command without running its launch script, where that cannot be told
    /// apart.
    pub one_bash: bool,
    /// Least milliseconds from a failure of a container with a retry policy to its next start.
    pub retry_minimum_interval_ms: u64,
}

/// Retention and publication of container logs.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// Logs stay this long after their application ended.
    pub retain_seconds: u64,
    /// Logs are to be collected on a remote file system (`yarn.log-aggregation-enable`).
    pub aggregation_enabled: bool,
    /// Aggregation of logs; `None`: it is off, or goes to a file system that is not supported.
    pub aggregation: Option<LogAggregationConfig>,
    /// Address to which log pages of unknown applications redirect (`yarn.log.server.url`).
    pub server_url: Option<String>,
    /// The same for REST (`yarn.log.server.web-service.url`).
    pub server_web_service_url: Option<String>,
}

/// Aggregation of container logs.
#[derive(Clone, Debug, PartialEq)]
pub struct LogAggregationConfig {
    /// Root of the aggregated logs (`yarn.nodemanager.remote-app-log-dir`).
    pub remote_dir: Uri,
    /// Group of that root if the agent creates it; `None`: the primary group of the agent's user
    /// (`yarn.nodemanager.remote-app-log-dir.groupname`).
    pub remote_group: Option<String>,
    /// Format of the files, the first of `yarn.log-aggregation.file-formats`.
    pub format: Format,
    /// Suffix of the folder of a user's buckets: `logs-tfile`.
    pub suffix: String,
    /// Uploads at once (`yarn.nodemanager.logaggregation.threadpool-size-max`).
    pub threads_max: u32,
    /// Compression of the files.
    pub compression: Compression,
    /// Policy for applications without one of their own.
    pub policy: Policy,
    /// Interval of uploads while an application runs; `None`: only at its end.
    pub roll_interval_seconds: Option<u64>,
    /// Files that the node keeps of an application that is uploaded while it runs.
    pub files_per_application: u32,
    /// Delete logs on the node once they are uploaded.
    pub local_cleanup: bool,
}

/// Web pages and REST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebConfig {
    /// Check who asks for logs (`yarn.acl.enable`).
    pub acl_enabled: bool,
    /// Users and groups that may see everything (`yarn.admin.acl`).
    pub admin_acl: String,
    /// Leave out of lists what the caller may not see (`yarn.webapp.filter-entity-list-by-user`).
    pub filter_lists: bool,
    /// Show numbers and configuration to administrators only
    /// (`hadoop.security.instrumentation.requires.admin`).
    pub instrumentation_requires_admin: bool,
    /// Pages of administrators are for them only (`hadoop.security.authorization`).
    pub authorization: bool,
    /// Serve callers without a name (`hadoop.http.authentication.simple.anonymous.allowed`).
    pub anonymous_allowed: bool,
    /// Proof of callers by Kerberos; `None`: names are believed
    /// (`hadoop.http.authentication.type`).
    pub proof: Option<PageProofConfig>,
    /// Keys of TLS; `None`: pages are served without (`yarn.http.policy`, `ssl-server.xml`).
    pub tls: Option<TlsConfig>,
    /// Hadoop's filters of requests and answers.
    pub filters: Filters,
    /// Host names that clients may use besides the node's own (`yarn.nodemanager.agent.web.hosts`).
    pub hosts: Vec<String>,
    /// Every property with the value in force, as `/conf` shows it.
    pub shown: Vec<ShownProperty>,
}

/// Proof of callers of pages by Kerberos (`hadoop.http.authentication.…`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageProofConfig {
    /// Principal of the pages, whose host may be `_HOST`, or `HTTP` for all keys of the keytab
    /// (`….kerberos.principal`).
    pub service: String,
    /// File with the key (`….kerberos.keytab`).
    pub keytab: PathBuf,
    /// File with the secret of cookies (`….signature.secret.file`).
    pub secret_file: Option<PathBuf>,
    /// How long a cookie is good (`….token.validity`).
    pub validity: Duration,
    /// Attributes behind a cookie's value (`….cookie.path`, `….domain`, `….persistent`).
    pub cookie_attributes: String,
    /// Paths that need no proof (`….kerberos.endpoint.whitelist`).
    pub open_paths: Vec<String>,
    /// From principals to users (`hadoop.security.auth_to_local`).
    pub rules: NameRules,
}

/// Admin socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// Path of the socket (`yarn.nodemanager.agent.admin.socket`); `None`: there is none.
    pub socket: Option<PathBuf>,
    /// Whether an operator chose the path: then the agent does not start without the socket.
    pub is_required: bool,
    /// Group whose members may ask (`yarn.nodemanager.agent.admin.group`).
    pub group: Option<String>,
}

/// Disks and health scripts.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthConfig {
    /// Disks; `None`: not checked.
    pub disks: Option<DiskHealthConfig>,
    /// Scripts with a path, in the order configured; at most four.
    pub scripts: Vec<HealthScript>,
    /// Run the scripts once before registering.
    pub run_before_startup: bool,
}

/// Sampling of containers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MonitorConfig {
    /// Look at containers at all.
    pub enabled: bool,
    /// Whether the machine as a whole is measured (`yarn.nodemanager.resource-monitor.interval-ms`
    /// above 0).
    pub node: bool,
    /// Between two looks; `None`: nothing is measured.
    pub interval_ms: Option<u64>,
    /// Whether memory is checked by polling. Without it, both checks below are only reported.
    pub polled: bool,
    /// Kill what uses more physical memory than it was given.
    pub pmem_check_enabled: bool,
    /// Kill what uses more virtual memory than allowed.
    pub vmem_check_enabled: bool,
    /// Virtual memory allowed per physical; at least 1.
    pub vmem_pmem_ratio: f64,
    /// Count resident memory by mapping, without what files back.
    pub smaps_based_rss: bool,
    /// Show each container in `/jmx` (`yarn.nodemanager.container-metrics.enable`).
    pub container_metrics: bool,
}

/// Configuration of the recovery after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryConfig {
    /// Value of `yarn.nodemanager.recovery.enabled`.
    pub enabled: bool,
    /// Folder of the stored state.
    pub dir: PathBuf,
    /// Leave containers running when the agent stops.
    pub supervised: bool,
}

/// Labels and attributes that the node gives itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLabelsConfig {
    /// Provider of the labels; `None`: the node reports none.
    pub labels: Option<ProviderConfig>,
    /// Provider of the attributes; `None`: the node reports none.
    pub attributes: Option<ProviderConfig>,
}

/// Configuration of one provider (`yarn.nodemanager.node-labels.*`,
/// `yarn.nodemanager.node-attributes.*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderConfig {
    /// Place where the labels or attributes come from.
    pub source: ProviderSource,
    /// Interval at which the source is asked again; `None`: never.
    pub fetch_interval: Option<Duration>,
    /// Interval at which the ResourceManager is told again what has not changed.
    pub resync_interval: Duration,
}

/// Place where labels or attributes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderSource {
    /// A property of the configuration, whose files are read again.
    Property {
        /// Name of the property.
        name: &'static str,
        /// Value at the start; empty if unset.
        configured: String,
    },
    /// A program that prints them.
    Script(Script),
}
