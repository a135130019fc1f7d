//! Properties to auxiliary services: which there are, and the settings of the MapReduce shuffle.

use std::path::PathBuf;
use std::time::Duration;

use hadoop_conf::{Expected, PropertyReader, Warning};
use shuffle::ShuffleConfig;

use super::aux_services::{AuxHostConfig, AuxServiceConfig, AuxServiceKind, ServedBy};
use super::read_node::{is_service_name, service_names};
use super::{read_aux_host, read_spark_shuffle, read_tls};

/// Services of one node; each stands in the environment of every container.
const AUX_SERVICES_MAX: usize = 32;

const NAMES: &str = "yarn.nodemanager.aux-services";
const SKIP: &str = "yarn.nodemanager.agent.aux-services.skip-unavailable";
const SSL: &str = "mapreduce.shuffle.ssl.enabled";
const MAX_CONNECTIONS: &str = "mapreduce.shuffle.max.connections";

/// Classes that the agent has a service for.
const SHUFFLE_HANDLER: &str = "org.apache.hadoop.mapred.ShuffleHandler";
const SPARK_SHUFFLE: &str = "org.apache.spark.network.yarn.YarnShuffleService";

pub(super) fn aux_services(
    reader: &mut PropertyReader<'_>,
    conf_dirs: &[PathBuf],
) -> (Vec<AuxServiceConfig>, Option<AuxHostConfig>) {
    let mut host = read_aux_host::host(reader);
    let names = reader.list(NAMES);
    if !names.iter().all(|name| is_service_name(name)) {
        reader.problem(NAMES, service_names());
        return Default::default();
    }
    if names.len() > AUX_SERVICES_MAX {
        reader.problem(NAMES, Expected::AtMost(AUX_SERVICES_MAX));
        return Default::default();
    }
    let skip = reader.flag(SKIP);
    let spark_in_host = read_spark_shuffle::is_in_host(reader);
    let mut services: Vec<AuxServiceConfig> = Vec::new();
    for name in names {
        if services.iter().any(|service| service.name == name) {
            continue;
        }
        let property = format!("{NAMES}.{name}.class");
        let Some(class) = reader.text(&property) else {
            reader.missing(property, "yarn.nodemanager.aux-services names it");
            continue;
        };
        let kind = match class.as_str() {
            SHUFFLE_HANDLER => AuxServiceKind::MapReduceShuffle(shuffle(reader, conf_dirs)),
            SPARK_SHUFFLE => read_spark_shuffle::spark_shuffle(reader, &name, spark_in_host),
            other => {
                let mut hosted = read_aux_host::hosted(reader, &name);
                hosted.port = port_of(reader, other);
                AuxServiceKind::Hosted(hosted)
            }
        };
        let service = AuxServiceConfig { name, class, kind };
        let service = with_host(reader, service, &host, skip)
            .and_then(|service| with_own_port(reader, &services, service, skip));
        match service {
            Ok(service) => services.push(service),
            Err(unavailable) => reader.warn(unavailable),
        }
    }
    let needs_host = services
        .iter()
        .any(|service| service.served_by() == ServedBy::Host);
    if needs_host {
        host.properties = read_aux_host::properties(reader);
    }
    (services, needs_host.then_some(host))
}

/// Refuses a service of the host on a machine that has not what a host takes, or leaves it out.
fn with_host(
    reader: &mut PropertyReader<'_>,
    service: AuxServiceConfig,
    host: &AuxHostConfig,
    skip: bool,
) -> Result<AuxServiceConfig, Warning> {
    let AuxServiceKind::Hosted(hosted) = &service.kind else {
        return Ok(service);
    };
    let obstacles = read_aux_host::obstacles(host);
    if obstacles.is_empty() {
        return Ok(service);
    }
    let because = hosted.because;
    if skip {
        let asks = because.map_or_else(String::new, |property| format!(", with {property}"));
        let class = format!("{}{asks}", service.class);
        return Err(not_available(reader, service.name, class));
    }
    let rule = format!(
        "is served by a JVM beside the agent, which this machine has not what it takes for: {}; with \
         {SKIP} = true the agent runs without the service, and refuses containers that need it",
        obstacles.join("; ")
    );
    match because {
        Some(property) => read_spark_shuffle::refuse(reader, &service.name, property, &rule),
        None => {
            let property = format!("{NAMES}.{}.class", service.name);
            reader.problem(&property, Expected::Rule(rule.into()));
        }
    }
    Ok(service)
}

/// Returns the port of a class that is known to have one, with its property.
fn port_of(reader: &PropertyReader<'_>, class: &str) -> Option<(u16, &'static str)> {
    const TEZ: &str = "org.apache.tez.auxservices.ShuffleHandler";
    const PORT: &str = "tez.shuffle.port";
    const DEFAULT: u16 = 13_563;
    let set = reader.properties().get(PORT).ok().flatten();
    let port = set.map_or(Some(DEFAULT), |value| value.text.trim().parse().ok());
    Some((port?, PORT)).filter(|_| class == TEZ)
}

/// Refuses a service on the port of an earlier one, since it would not start, or leaves it out.
fn with_own_port(
    reader: &mut PropertyReader<'_>,
    earlier: &[AuxServiceConfig],
    service: AuxServiceConfig,
    skip: bool,
) -> Result<AuxServiceConfig, Warning> {
    let Some((port, property)) = service.port() else {
        return Ok(service);
    };
    let has_port = |it: &&AuxServiceConfig| it.port().is_some_and(|(other, _)| other == port);
    let Some(other) = earlier.iter().find(has_port).filter(|_| port != 0) else {
        return Ok(service);
    };
    if skip {
        let why = format!("{}, on port {port} of {}", service.class, other.name);
        return Err(not_available(reader, service.name, why));
    }
    let rule = format!(
        "names {} and {} on one port, {port}: each service needs one of its own ({property}; \
         spark-shuffle-site.xml in a folder of the service's class path sets it for one); with \
         {SKIP} = true the agent runs without the second, and refuses containers that need it",
        other.name, service.name
    );
    reader.problem(NAMES, Expected::Rule(rule.into()));
    Ok(service)
}

/// Returns the warning that a service is left out. The class may have the reason behind it.
fn not_available(reader: &PropertyReader<'_>, service: String, class: String) -> Warning {
    let origin = reader.origin(NAMES);
    Warning::NoService {
        service,
        class,
        origin,
    }
}

/// Reads the settings of a shuffle. Java counts connections in an `int`, and 0 stands for no limit.
fn shuffle(reader: &mut PropertyReader<'_>, conf_dirs: &[PathBuf]) -> ShuffleConfig {
    let tls = if reader.flag(SSL) {
        read_tls::shuffle(reader, conf_dirs)
    } else {
        None
    };
    let port = reader.integer("mapreduce.shuffle.port", 0..=i64::from(u16::MAX));
    let connections = reader.u32(MAX_CONNECTIONS, 0);
    let threads = reader.u32("mapreduce.shuffle.max.threads", 0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let timeout = reader.u32("mapreduce.shuffle.connection-keep-alive.timeout", 1);
    let cache_mb = reader.u32("mapreduce.reduce.shuffle.indexcache.mb", 0);
    ShuffleConfig {
        port: u16::try_from(port).unwrap_or(0),
        backlog: reader.u32("mapreduce.shuffle.listen.queue.size", 0).max(1),
        connections_max: match connections {
            0 => usize::MAX,
            limit => limit as usize,
        },
        threads: match threads {
            0 => 2 * processors,
            threads => (threads as usize).min(THREADS_MAX),
        },
        keep_alive: reader.flag("mapreduce.shuffle.connection-keep-alive.enable"),
        // A timeout below a second would close connections before the next request (Hadoop:
        // `ShuffleChannelHandlerContext`).
        keep_alive_timeout: Duration::from_secs(u64::from(timeout)),
        index_cache_bytes: (cache_mb as usize) << 20,
        manage_os_cache: reader.flag("mapreduce.shuffle.manage.os.cache"),
        readahead_bytes: reader.u64("mapreduce.shuffle.readahead.bytes", 0),
        tls,
        ..ShuffleConfig::default()
    }
}

/// Threads of a shuffle at most; more would not read disks faster.
const THREADS_MAX: usize = 256;
