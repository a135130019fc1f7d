//! Each part's slice of the configuration.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use access_control::{AccessList, AccessRules};
use amrm_proxy::config::FileAccess;
use container_runtime::isolation;
use container_runtime::launch::{LaunchConfig, java_feature_version};
use container_runtime::monitor::{MemoryPolicy, MonitorOptions};
use localize::NodeDirs;
use log_aggregation::destination::{Destination, LocalDestination, UriDestination};
use log_aggregation::upload::Uploader;
use log_aggregation::{Format, ServiceConfig, remote};
use node_admin::access::AdminRules;
use node_core::recovery::boot_number;
use node_core::{CoreConfig, LogAggregation, Machine, ServiceMetadata};
use node_view::snapshot::{About, MemoryChecks, Versions};
use node_web::site::{BeanOptions, RemoteReader, StuckParts, WebOptions};
use sched::{ContainerSchedulerConfig, VmemPmemRatio};
use time::UtcOffset;
use web_auth::negotiation;
use wire::client::{ClientAuth, ClientOptions};
use wire::failover::{Endpoints, LinkConfig};
use wire::protocol::resource_tracker;

use super::process::{HADOOP_BUILT_ON, HADOOP_VERSION};
use super::shared::NodeAddress;
use crate::clock::Clock;
use crate::config::{Capacity, Config, ContainerExecutor, Hardware, LogAggregationConfig};
use crate::descriptors::Descriptors;
use crate::node_identity;
use crate::resource_manager::{NodeDescription, UpdaterConfig};
use crate::uploaded_logs::UploadedLogs;

/// Longest time to connect to one ResourceManager before the next one is tried, the look-up of its
/// name included: 5 s for each of the two.
const RM_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the ResourceManager may take to answer (Hadoop: `ipc.client.rpc-timeout.ms`).
const RM_CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Added to the kill delays before an orderly stop gives up on containers (Hadoop: 1000 ms).
const STOP_SLACK: Duration = Duration::from_secs(1);

/// The part of the machine's memory that running and frozen containers may hold together unless the
/// operator configures another: the rest is for the system, which would swap or kill without it.
const PAUSE_MEMORY_PERCENT: u64 = 90;

pub(super) fn scheduler(
    config: &Config,
    physical_memory_mb: u64,
    utc_offset: UtcOffset,
) -> ContainerSchedulerConfig {
    let length = config.scheduler.opportunistic_queue_length_max;
    let ratio = VmemPmemRatio::new(config.monitor.vmem_pmem_ratio);
    ContainerSchedulerConfig {
        queue_policy: config.scheduler.opportunistic_queue_policy,
        queue_length_max: usize::try_from(length).unwrap_or(usize::MAX),
        queue_order: config.scheduler.queue_order,
        queue_bound_factor: config.scheduler.queue_bound_factor,
        victims_order: config.scheduler.victims_order,
        load_comparator: config.scheduler.load_comparator,
        use_pause_for_preemption: config.scheduler.pause_for_preemption,
        pause_max_ms: config.scheduler.pause_max_ms,
        memory_ceiling_mb: memory_ceiling_mb(config, physical_memory_mb),
        vmem_check: ratio.filter(|_| config.monitor.vmem_check_enabled && config.monitor.polled),
        sigkill_delay_ms: config.launch.sigkill_delay_ms,
        retry_minimum_interval_ms: config.launch.retry_minimum_interval_ms,
        diagnostics_max_chars: config.launch.diagnostics_max_chars,
        utc_offset_s: utc_offset.whole_seconds(),
    }
}

/// Returns the limit on the memory that running and frozen containers may hold together.
fn memory_ceiling_mb(config: &Config, physical_memory_mb: u64) -> u64 {
    config
        .scheduler
        .pause_memory_ceiling_mb
        .unwrap_or(physical_memory_mb.saturating_mul(PAUSE_MEMORY_PERCENT) / 100)
}

/// Returns the resources that containers may use together.
pub(super) fn offer(config: &Config, hardware: Hardware) -> isolation::Offer {
    let capacity = config.capacity.resolve(hardware);
    let ceiling_mb = memory_ceiling_mb(config, capacity.physical.memory_mb);
    isolation::Offer {
        total: capacity.offered,
        // As Hadoop counts them (`NodeManagerHardwareUtils.getNodeCPUs`).
        processors: if config.cgroups.count_logical_processors {
            hardware.logical_processors
        } else {
            hardware.cores
        },
        memory_ceiling_mb: config.scheduler.pause_for_preemption.then_some(ceiling_mb),
    }
}

pub(super) fn web(
    config: &Config,
    utc_offset: UtcOffset,
    descriptors: &Descriptors,
    stuck: StuckParts,
) -> WebOptions {
    let defaults = WebOptions::default();
    let mut limits = defaults.limits.within_descriptors(descriptors.web);
    if config.web.proof.is_some() {
        // A token has the caller's groups, where the KDC is a directory server.
        limits.head_bytes = negotiation::HEADER_BYTES_MAX;
    }
    WebOptions {
        limits,
        log_aggregation_enabled: config.logs.aggregation_enabled,
        log_server_url: config.logs.server_url.clone(),
        log_server_web_service_url: config.logs.server_web_service_url.clone(),
        remote_logs: None,
        utc_offset,
        hosts: config.web.hosts.clone(),
        tls: None,
        filters: Arc::new(config.web.filters.clone()),
        kerberos: None,
        access: Arc::new(access(config)),
        beans: BeanOptions {
            localizer_port: config.addresses.localizer.port,
            is_secure: config.kerberos.is_some(),
            with_containers: config.monitor.container_metrics,
        },
        properties: config.web.shown.as_slice().into(),
        stuck,
        log_levels: None,
    }
}

/// Returns who may ask what through the admin socket.
pub(super) fn admin_rules(config: &Config) -> AdminRules {
    AdminRules {
        own_uid: nix::unistd::geteuid().as_raw(),
        group: config.admin.group.clone(),
        administrators: AccessList::new(config.web.admin_acl.as_str()),
    }
}

fn access(config: &Config) -> AccessRules {
    let web = &config.web;
    AccessRules {
        enabled: web.acl_enabled,
        administrators: AccessList::new(web.admin_acl.as_str()),
        own_user: crate::node_identity::own_user(),
        filter_lists: web.filter_lists,
        instrumentation_requires_admin: web.instrumentation_requires_admin,
        authorization: web.authorization,
        anonymous_allowed: web.anonymous_allowed,
    }
}

/// Returns the file system for aggregated logs. A local one is reached by handles, because
/// everybody may write to the root.
pub(super) fn log_destination(
    logs: &LogAggregationConfig,
    files: &FileAccess,
) -> Box<dyn Destination> {
    let (root, group) = (&logs.remote_dir, logs.remote_group.clone());
    if root.has_scheme("file") {
        return Box::new(LocalDestination::new(root.path.clone().into(), group));
    }
    let FileAccess { systems, user } = files.clone();
    let group = group.or_else(|| node_identity::primary_group(&user));
    let destination = UriDestination::new(systems, root.clone(), user, group);
    Box::new(destination)
}

/// Returns the reader of the logs that the node has uploaded; `None`: it uploads none, or in the
/// indexed format, whose index would have to be read.
pub(super) fn remote_logs(config: &Config, files: &FileAccess) -> Option<RemoteReader> {
    let logs = config.logs.aggregation.as_ref()?;
    if logs.format != Format::TFile {
        return None;
    }
    let uploaded = UploadedLogs {
        destination: log_destination(logs, files),
        suffix: logs.suffix.clone(),
        compression: logs.compression,
    };
    Some(RemoteReader::new(Arc::new(uploaded)))
}

/// Returns the settings of the threads that upload logs; `None`: there are none.
pub(super) fn log_uploader(
    config: &Config,
    address: &NodeAddress,
    dirs: &NodeDirs,
    destination: impl FnOnce(&LogAggregationConfig) -> Box<dyn Destination>,
) -> Option<(ServiceConfig, Uploader)> {
    let logs = config.logs.aggregation.as_ref()?;
    let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let threads = ServiceConfig {
        threads_max: count(logs.threads_max),
        roll_interval: logs.roll_interval_seconds.map(Duration::from_secs),
        token_wait: config
            .kerberos
            .is_some()
            .then(|| Duration::from_millis(log_retain_ms(config))),
    };
    let uploader = Uploader {
        dirs: dirs.clone(),
        destination: destination(logs),
        suffix: logs.suffix.clone(),
        node: remote::node_name(&address.node_id),
        format: logs.format,
        node_id: address.node_id.to_string(),
        compression: logs.compression,
        files_per_application: count(logs.files_per_application),
        // A delay is for people who look at the files of containers.
        deletes_rolled: logs.local_cleanup && config.deletion.debug_delay_sec == Some(0),
        wall_now: crate::clock::wall_now,
    };
    Some((threads, uploader))
}

pub(super) fn updater(config: &Config, first_pause: Duration) -> UpdaterConfig {
    UpdaterConfig {
        first_pause,
        minimum_version: config.rm.minimum_version.clone(),
        heartbeat_interval: Duration::from_millis(config.rm.heartbeat_interval_ms.max(1)),
        heartbeat_interval_max: Duration::from_millis(config.rm.nm_expiry_interval_ms.max(1)),
        retry_interval: Duration::from_millis(config.rm.connect_retry_interval_ms),
        give_up_after: config.rm.connect_max_wait_ms.map(Duration::from_millis),
        keep_containers_on_resync: config.rm.work_preserving_recovery_enabled,
        kill_patience: stop_patience(config),
    }
}

/// Returns the configuration of launches, but for control groups. Reads the version of the Java in
/// `environment`'s `JAVA_HOME`, and asks bash for its defaults.
pub(super) fn launch(
    config: &Config,
    address: &NodeAddress,
    environment: BTreeMap<String, String>,
) -> LaunchConfig {
    let launch = &config.launch;
    LaunchConfig {
        env_whitelist: launch.env_whitelist.clone(),
        admin_env: launch.admin_env.iter().cloned().collect(),
        force_path: launch.force_path.clone().unwrap_or_default(),
        user_home_dir: launch.user_home_dir.clone(),
        java_feature_version: java_feature_version(&environment),
        debug_info: launch.debug_info,
        sigkill_delay: Duration::from_millis(launch.sigkill_delay_ms),
        stderr_pattern: launch.stderr_pattern.clone(),
        stderr_tail_bytes: launch.stderr_tail_bytes,
        one_bash: launch.one_bash,
        other_users: matches!(launch.executor, ContainerExecutor::Users(_)),
        agent_environment: environment,
        ..LaunchConfig::new(address.node_id.clone(), address.http_port)
    }
}

pub(super) fn monitor(config: &Config) -> MonitorOptions {
    MonitorOptions {
        interval: config.monitor.interval_ms.map(Duration::from_millis),
        node: config.monitor.node,
        containers: config.monitor.enabled,
        memory: MemoryPolicy {
            pmem: config.monitor.pmem_check_enabled && config.monitor.polled,
            vmem: config.monitor.vmem_check_enabled && config.monitor.polled,
            vmem_pmem_ratio: config.monitor.vmem_pmem_ratio,
        },
        smaps_based_rss: config.monitor.smaps_based_rss,
    }
}

pub(super) fn rm_link(config: &Config, auth: ClientAuth) -> LinkConfig {
    let trackers = config.rm.endpoints.iter();
    let addresses = trackers.map(|rm| rm.resource_tracker.to_string());
    LinkConfig {
        endpoints: Arc::new(Endpoints::new(addresses.collect())),
        protocol: resource_tracker::PROTOCOL,
        auth,
        options: ClientOptions {
            protections: config.protections.clone(),
            connect_timeout: RM_CONNECT_TIMEOUT,
            call_timeout: RM_CALL_TIMEOUT,
            ..ClientOptions::default()
        },
    }
}

pub(super) fn node(address: &NodeAddress, capacity: Capacity) -> NodeDescription {
    NodeDescription {
        node_id: address.node_id.clone(),
        http_port: address.http_port,
        capability: capacity.offered,
        physical: capacity.physical,
        version: HADOOP_VERSION.to_owned(),
    }
}

pub(super) fn core(
    config: &Config,
    machine: Machine,
    utc_offset: UtcOffset,
    can_freeze: bool,
    service_metadata: ServiceMetadata,
) -> CoreConfig {
    CoreConfig {
        machine,
        log_retain_ms: log_retain_ms(config),
        log_aggregation: config.logs.aggregation.as_ref().map(|logs| LogAggregation {
            policy: logs.policy,
            local_cleanup: logs.local_cleanup,
            utc_offset,
        }),
        track_stopped_ms: config.rm.stopped_containers_tracked_ms,
        can_freeze,
        runtimes: config.launch.runtimes,
        private_output: config.web.acl_enabled,
        contexts: config.contexts,
        service_metadata,
        remembers: config.recovery.enabled,
        boot: keeper::boot_id().map_or(0, |id| boot_number(&id)),
        is_secure: config.kerberos.is_some(),
        tokens_end_after_ms: config.rm.nm_expiry_interval_ms,
        records_events: config.event_record.is_some(),
    }
}

/// Returns the time for which logs of ended applications stay, in milliseconds.
pub(super) fn log_retain_ms(config: &Config) -> u64 {
    config.logs.retain_seconds.saturating_mul(1000)
}

/// How long containers get to end when the agent stops (Hadoop:
/// `ContainerManagerImpl.waitForContainersOnShutdownMillis`).
pub(super) fn stop_patience(config: &Config) -> Duration {
    let kill = Duration::from_millis(config.launch.sigkill_delay_ms);
    kill + Duration::from_millis(config.launch.process_kill_wait_ms) + STOP_SLACK
}

/// Returns the facts about the node that pages show and that do not change while it runs; the core
/// fills in the rest.
pub(super) fn about(config: &Config, address: &NodeAddress, clock: Clock) -> Arc<About> {
    let own = concat!("nm-agent ", env!("CARGO_PKG_VERSION"));
    let memory_checks = MemoryChecks {
        pmem: config.monitor.pmem_check_enabled,
        vmem: config.monitor.vmem_check_enabled,
        vmem_pmem_ratio: config.monitor.vmem_pmem_ratio,
    };
    let versions = Versions {
        node_manager: HADOOP_VERSION.to_owned(),
        node_manager_build: format!("{HADOOP_VERSION} ({own})"),
        hadoop: HADOOP_VERSION.to_owned(),
        hadoop_build: format!("{HADOOP_VERSION} ({own})"),
        built_on: HADOOP_BUILT_ON,
    };
    // The first check of the directories fills in what is known of them.
    let started = clock.now();
    let at_start = About::at_start(
        address.node_id.clone(),
        address.http_port,
        started.wall,
        memory_checks,
    );
    Arc::new(About {
        web_over_tls: config.addresses.web_over_tls,
        versions,
        started_mono: started.mono,
        ..at_start
    })
}
