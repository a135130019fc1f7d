//! Properties to sections: the node's addresses, its ResourceManagers, what it offers, its folders,
//! its health.

use std::path::PathBuf;

use hadoop_conf::{
    Expected, HostPort, PropertyReader, RmService, Suffix, parse, resource_managers,
};
use health_script::HealthScript;
use localize::config::{DirsConfig, DiskHealthConfig};

use super::addresses::AddressConfig;
use super::capacity::{
    DEFAULT_MEMORY_MB, DEFAULT_VCORES, MemoryCapacity, NodeCapacityConfig, VcoreCapacity,
};
use super::sections::{HealthConfig, MonitorConfig, RecoveryConfig, ResourceManagerConfig};
use super::values::MinimumVersion;
use super::{keys, read_tls};

/// Lowest ratio of virtual to physical memory (Hadoop: `ContainersMonitorImpl`, which wants more
/// than 0.99).
const VMEM_RATIO_MIN: f64 = 0.990_000_1;

/// Scripts beyond these are refused (Hadoop: `NodeHealthCheckerService.MAX_SCRIPTS`).
const HEALTH_SCRIPTS_MAX: usize = 4;

pub(super) fn addresses(reader: &mut PropertyReader<'_>) -> AddressConfig {
    // Every address refers to it, so it is read only to count as honoured.
    let _ = reader.resolved_text("yarn.nodemanager.hostname");
    let bind_host = reader.resolved_text("yarn.nodemanager.bind-host");
    if let Some(host) = &bind_host
        && let Err(error) = HostPort::parse(&format!("{host}:0"), 0)
    {
        reader.problem("yarn.nodemanager.bind-host", Expected::Address(error));
    }
    let web_over_tls = read_tls::is_wanted_for_pages(reader);
    let plain = reader.only_if(
        !web_over_tls,
        "with yarn.http.policy = HTTPS_ONLY",
        |reader| reader.address(AddressConfig::PLAIN_WEB, 8042),
    );
    let tls = reader.only_if(
        web_over_tls,
        "without yarn.http.policy = HTTPS_ONLY",
        |reader| reader.address(AddressConfig::TLS_WEB, 8044),
    );
    AddressConfig {
        node: reader.address("yarn.nodemanager.address", 0),
        bind_host,
        web: if web_over_tls { tls } else { plain },
        web_over_tls,
        metrics: reader.address_if_set(AddressConfig::METRICS, 0),
        localizer: reader.address("yarn.nodemanager.localizer.address", 8040),
    }
}

pub(super) fn resource_manager(reader: &mut PropertyReader<'_>) -> ResourceManagerConfig {
    let max_wait = own_or_general(reader, "resourcemanager.connect.max-wait.ms", -1);
    let interval = own_or_general(reader, "resourcemanager.connect.retry-interval.ms", 0);
    ResourceManagerConfig {
        endpoints: resource_managers(reader, &[RmService::ResourceTracker]),
        connect_max_wait_ms: u64::try_from(max_wait).ok(),
        connect_retry_interval_ms: u64::try_from(interval).unwrap_or(0).max(1),
        work_preserving_recovery_enabled: reader
            .flag("yarn.resourcemanager.work-preserving-recovery.enabled"),
        minimum_version: minimum_version(reader),
        heartbeat_interval_ms: of_resource_manager(
            reader,
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms",
        ),
        nm_expiry_interval_ms: of_resource_manager(
            reader,
            "yarn.nm.liveness-monitor.expiry-interval-ms",
        ),
        stopped_containers_tracked_ms: reader
            .u64("yarn.nodemanager.duration-to-track-stopped-containers", 0),
    }
}

/// Reads an interval in milliseconds that is the ResourceManager's: Hadoop's NodeManager starts
/// with any number, and the default counts here where the number is of no use.
fn of_resource_manager(reader: &mut PropertyReader<'_>, name: &'static str) -> u64 {
    let written = reader.integer(name, i64::MIN..=i64::MAX);
    if let Some(useful) = u64::try_from(written).ok().filter(|written| *written > 0) {
        return useful;
    }
    let default = keys::find(name).and_then(|key| key.default?.parse().ok());
    let default: u64 = default.unwrap_or(1);
    reader.otherwise(
        name,
        format!("of no use to a node, for which {default} counts"),
    );
    default
}

/// The NodeManager's own value, or the one for all who call the ResourceManager.
pub(super) fn own_or_general(reader: &mut PropertyReader<'_>, name: &str, min: i64) -> i64 {
    let general = reader.integer(&format!("yarn.{name}"), min..=i64::MAX);
    let own = reader.integer_if_set(&format!("yarn.nodemanager.{name}"), min..=i64::MAX);
    own.unwrap_or(general)
}

fn minimum_version(reader: &mut PropertyReader<'_>) -> MinimumVersion {
    const NAME: &str = "yarn.nodemanager.resourcemanager.minimum.version";
    match reader.text(NAME).as_deref() {
        None | Some("NONE") => MinimumVersion::None,
        Some("EqualToNM") => MinimumVersion::EqualToNm,
        Some(version) if version.starts_with(|c: char| c.is_ascii_digit()) => {
            MinimumVersion::AtLeast(version.to_owned())
        }
        // Hadoop compares it with the version, and every number is more than a word.
        Some(_) => {
            reader.read_as(NAME, &"NONE");
            MinimumVersion::None
        }
    }
}

pub(super) fn capacity(reader: &mut PropertyReader<'_>) -> NodeCapacityConfig {
    let detect = reader.flag("yarn.nodemanager.resource.detect-hardware-capabilities");
    let memory_mb = minus_one_or_positive(reader, "yarn.nodemanager.resource.memory-mb");
    let reserved = none_or_more(
        reader,
        "yarn.nodemanager.resource.system-reserved-memory-mb",
    );
    let vcores = minus_one_or_positive(reader, "yarn.nodemanager.resource.cpu-vcores");
    let count_logical_processors =
        reader.flag("yarn.nodemanager.resource.count-logical-processors-as-cores");
    let vcores_per_core = reader.only_if(
        detect && vcores.is_none(),
        "where vcores are not detected",
        |reader| {
            let multiplier = "yarn.nodemanager.resource.pcores-vcores-multiplier";
            reader.number(multiplier, 0.000_001..=f64::MAX)
        },
    );
    let limit = reader.integer(
        "yarn.nodemanager.resource.percentage-physical-cpu-limit",
        1..=100,
    );
    let prefix = "yarn.nodemanager.resource-type.";
    let names: Vec<String> = reader
        .properties()
        .names_under(prefix)
        .map(str::to_owned)
        .collect();
    let custom = names.into_iter().filter_map(|name| {
        let value = reader.resolved_text(&name)?;
        Some((name[prefix.len()..].to_owned(), value))
    });
    let custom_types = custom.collect();
    // Asked for so that a site's list of types is known to be read; types are sent as the node's
    // amounts name them.
    let _ = reader.list("yarn.resource-types");
    NodeCapacityConfig {
        memory: match memory_mb {
            Some(memory_mb) => MemoryCapacity::Fixed { memory_mb },
            None if detect => MemoryCapacity::Detect {
                system_reserved_mb: reserved,
            },
            None => MemoryCapacity::Fixed {
                memory_mb: DEFAULT_MEMORY_MB,
            },
        },
        vcores: match vcores.map(u32::try_from) {
            Some(Ok(vcores)) => VcoreCapacity::Fixed { vcores },
            Some(Err(_)) | None if detect => VcoreCapacity::Detect {
                count_logical_processors,
                vcores_per_core,
            },
            Some(Err(_)) | None => VcoreCapacity::Fixed {
                vcores: DEFAULT_VCORES,
            },
        },
        physical_cpu_limit_percent: u32::try_from(limit).unwrap_or(100),
        custom_types,
    }
}

/// Reads a number of at least 0; `None` for -1. Java takes further negative numbers for amounts
/// below 0, which here are none.
pub(super) fn none_or_more(reader: &mut PropertyReader<'_>, name: &str) -> Option<u64> {
    let written = reader.integer(name, i64::MIN..=i64::MAX);
    if written < -1 {
        reader.otherwise(name, "read as 0: no amount is below it");
    }
    (written != -1).then(|| u64::try_from(written).unwrap_or(0))
}

/// -1 means "find out"; 0 would register a node that can do nothing. The bound is that of the
/// wire's 32 bits.
fn minus_one_or_positive(reader: &mut PropertyReader<'_>, name: &str) -> Option<u64> {
    let value = reader.integer(name, -1..=i64::from(i32::MAX));
    if value == 0 {
        reader.problem(
            name,
            Expected::Integer {
                min: 1,
                max: i64::from(i32::MAX),
                unit: Suffix("(or -1 for the default)"),
            },
        );
    }
    u64::try_from(value).ok()
}

pub(super) fn dirs(reader: &mut PropertyReader<'_>) -> DirsConfig {
    const MODE: &str = "yarn.nodemanager.default-container-executor.log-dirs.permissions";
    let _ = reader.resolved_text("hadoop.tmp.dir");
    let mode = reader.text(MODE).map_or(Some(0o710), |text| {
        let octal = text.bytes().all(|b| matches!(b, b'0'..=b'7'));
        let mode = u32::from_str_radix(&text, 8).ok();
        mode.filter(|mode| octal && *mode <= 0o1777)
    });
    if mode.is_none() {
        reader.problem(
            MODE,
            Expected::Rule("must be an octal mode from 0 to 1777".into()),
        );
    }
    DirsConfig {
        local_dirs: reader.paths("yarn.nodemanager.local-dirs"),
        log_dirs: reader.paths("yarn.nodemanager.log-dirs"),
        log_dir_permissions: mode.unwrap_or(0o710),
        log_retain_sec: reader.u64("yarn.nodemanager.log.retain-seconds", 0),
    }
}

pub(super) fn health(reader: &mut PropertyReader<'_>) -> HealthConfig {
    const SCRIPTS: &str = "yarn.nodemanager.health-checker.scripts";
    let run_before_startup = reader.flag("yarn.nodemanager.health-checker.run-before-startup");
    let names = reader.list(SCRIPTS);
    if names.len() > HEALTH_SCRIPTS_MAX {
        reader.problem(SCRIPTS, Expected::AtMost(HEALTH_SCRIPTS_MAX));
    }
    // A script without a path is not there, in Hadoop too: the default list names one that nobody
    // has.
    let there = names.into_iter().filter_map(|name| {
        let path = format!("yarn.nodemanager.health-checker.{name}.path");
        Some((name, reader.resolved_text(&path)?))
    });
    let there: Vec<_> = there.take(HEALTH_SCRIPTS_MAX).collect();
    let (timeout_ms, interval_ms) =
        reader.only_if(!there.is_empty(), "without a health script", |reader| {
            let timeout = reader.u64("yarn.nodemanager.health-checker.timeout-ms", 1);
            let interval = reader.u64("yarn.nodemanager.health-checker.interval-ms", 1);
            (timeout, interval)
        });
    let mut scripts = Vec::new();
    for (name, path) in there {
        let of = |what: &str| format!("yarn.nodemanager.health-checker.{name}.{what}");
        let opts = reader.list(&of("opts"));
        let own_timeout = reader.integer_if_set(&of("timeout-ms"), 0..=i64::MAX);
        let own_interval = reader.integer_if_set(&of("interval-ms"), 0..=i64::MAX);
        // 0 stands for the general value.
        let positive = |own: Option<i64>| u64::try_from(own?).ok().filter(|ms| *ms > 0);
        scripts.push(HealthScript {
            path: PathBuf::from(path),
            opts,
            timeout_ms: positive(own_timeout).unwrap_or(timeout_ms),
            interval_ms: positive(own_interval).unwrap_or(interval_ms),
            name,
        });
    }
    let checked = reader.flag("yarn.nodemanager.disk-health-checker.enable");
    let disks = disk_health(reader, checked);
    HealthConfig {
        disks: checked.then_some(disks),
        scripts,
        run_before_startup,
    }
}

fn disk_health(reader: &mut PropertyReader<'_>, checked: bool) -> DiskHealthConfig {
    const HEALTHY: &str = "yarn.nodemanager.disk-health-checker.min-healthy-disks";
    const MAX_USED: &str =
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage";
    const LOW_USED: &str =
        "yarn.nodemanager.disk-health-checker.disk-utilization-watermark-low-per-disk-percentage";
    const MIN_FREE: &str = "yarn.nodemanager.disk-health-checker.min-free-space-per-disk-mb";
    const HIGH_FREE: &str =
        "yarn.nodemanager.disk-health-checker.min-free-space-per-disk-watermark-high-mb";
    let look_at_use =
        reader.flag("yarn.nodemanager.disk-health-checker.disk-utilization-threshold.enabled");
    let look_at_free =
        reader.flag("yarn.nodemanager.disk-health-checker.disk-free-space-threshold.enabled");
    let max_used = reader.number(MAX_USED, 0.0..=100.0);
    let low_used = reader
        .number_if_set(LOW_USED, 0.0..=100.0)
        .unwrap_or(max_used);
    if low_used > max_used {
        reader.otherwise(LOW_USED, "above the maximum, which counts instead");
    }
    let min_free = reader.u64(MIN_FREE, 0);
    let high_free = reader.u64(HIGH_FREE, 0);
    let min_healthy_disks = reader.number(HEALTHY, 0.0..=f64::MAX);
    if min_healthy_disks > 1.0 {
        reader.otherwise(HEALTHY, "more than all disks: the node is never healthy");
    }
    DiskHealthConfig {
        interval_ms: reader.only_if(checked, "without checks of disks", |reader| {
            reader.u64("yarn.nodemanager.disk-health-checker.interval-ms", 1)
        }),
        min_healthy_disks,
        max_utilization_percent: look_at_use.then_some(max_used),
        // Hadoop corrects both marks silently (DirectoryCollection).
        utilization_watermark_low_percent: low_used.min(max_used),
        min_free_space_mb: look_at_free.then_some(min_free),
        free_space_watermark_high_mb: high_free.max(min_free),
    }
}

pub(super) fn monitor(reader: &mut PropertyReader<'_>) -> MonitorConfig {
    let general = reader.integer(
        "yarn.nodemanager.resource-monitor.interval-ms",
        i64::MIN..=i64::MAX,
    );
    let own = reader.integer_if_set(
        "yarn.nodemanager.container-monitor.interval-ms",
        i64::MIN..=i64::MAX,
    );
    // Not above 0 means that nothing is measured.
    let positive = |interval: i64| u64::try_from(interval).ok().filter(|ms| *ms > 0);
    let of_containers = positive(own.unwrap_or(general));
    let enabled = reader.flag("yarn.nodemanager.container-monitor.enabled");
    // With enforcement by the kernel Hadoop does not poll, and it takes `enforced`, which is true
    // by default, for that whether or not cgroups are used. Seen on a live 3.4.2: a container of
    // 128 MB lives on with 300.
    let enforced = reader.flag("yarn.nodemanager.resource.memory.enforced");
    let elastic = reader.flag("yarn.nodemanager.elastic-memory-control.enabled");
    MonitorConfig {
        enabled: enabled && of_containers.is_some(),
        node: positive(general).is_some(),
        interval_ms: of_containers.or(positive(general)),
        polled: !enforced || elastic,
        pmem_check_enabled: reader.flag("yarn.nodemanager.pmem-check-enabled"),
        vmem_check_enabled: reader.flag("yarn.nodemanager.vmem-check-enabled"),
        vmem_pmem_ratio: reader.number(
            "yarn.nodemanager.vmem-pmem-ratio",
            VMEM_RATIO_MIN..=f64::MAX,
        ),
        container_metrics: reader.flag("yarn.nodemanager.container-metrics.enable"),
        smaps_based_rss: reader
            .flag("yarn.nodemanager.container-monitor.procfs-tree.smaps-based-rss.enabled"),
    }
}

pub(super) fn recovery(
    reader: &mut PropertyReader<'_>,
    addresses: &AddressConfig,
) -> RecoveryConfig {
    let dirs = reader.paths("yarn.nodemanager.recovery.dir");
    let enabled = reader.flag("yarn.nodemanager.recovery.enabled");
    if enabled && addresses.node.port == 0 {
        // Hadoop refuses too (`ContainerManagerImpl.serviceStart`): tokens name the port.
        let rule = "must have a fixed port where yarn.nodemanager.recovery.enabled is set";
        reader.problem("yarn.nodemanager.address", Expected::Rule(rule.into()));
    }
    RecoveryConfig {
        enabled,
        dir: dirs.into_iter().next().unwrap_or_default(),
        supervised: reader.flag("yarn.nodemanager.recovery.supervised"),
    }
}

/// Limit on the rules of one kind; each AM that starts is compared with every rule, and each of its
/// asks with every rule that applies.
const RULES_MAX: usize = 64;

/// Reads the names of an operator's rules. A wrong list is a problem, and names none.
pub(super) fn rule_names(reader: &mut PropertyReader<'_>, property: &'static str) -> Vec<String> {
    let names = reader.list(property);
    let expected = if names.len() > RULES_MAX {
        Expected::AtMost(RULES_MAX)
    } else if names.iter().all(|name| is_service_name(name)) {
        return names;
    } else {
        service_names()
    };
    reader.problem(property, expected);
    Vec::new()
}

/// Returns the expected form of names of services.
pub(super) fn service_names() -> Expected {
    Expected::Rule(
        "must be names of letters, digits and _, not beginning with a digit, with commas between"
            .into(),
    )
}

/// Whether a name may be that of an auxiliary service (Hadoop:
/// `AuxServices.validateAuxServiceName`).
pub(super) fn is_service_name(name: &str) -> bool {
    parse::is_variable_name(name)
}
