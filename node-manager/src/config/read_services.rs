//! Properties to auxiliary services: which there are, and the settings of the MapReduce shuffle.

use std::path::PathBuf;
use std::time::Duration;

use hadoop_conf::{Expected, PropertyReader, Warning};
use shuffle::ShuffleConfig;

use super::read_node::{is_service_name, service_names};
use super::sections::{AuxServiceConfig, AuxServiceKind};
use super::{read_spark_shuffle, read_tls};

/// Services of one node; each stands in the environment of every container.
const AUX_SERVICES_MAX: usize = 32;

const NAMES: &str = "yarn.nodemanager.aux-services";
pub(super) const SKIP: &str = "yarn.nodemanager.agent.aux-services.skip-unavailable";
const SSL: &str = "mapreduce.shuffle.ssl.enabled";
const MAX_CONNECTIONS: &str = "mapreduce.shuffle.max.connections";

/// Classes that the agent has a service for.
const SHUFFLE_HANDLER: &str = "org.apache.hadoop.mapred.ShuffleHandler";
pub(super) const SPARK_SHUFFLE: &str = "org.apache.spark.network.yarn.YarnShuffleService";

pub(super) fn aux_services(
    reader: &mut PropertyReader<'_>,
    conf_dirs: &[PathBuf],
) -> Vec<AuxServiceConfig> {
    let names = reader.list(NAMES);
    if !names.iter().all(|name| is_service_name(name)) {
        reader.problem(NAMES, service_names());
        return Vec::new();
    }
    if names.len() > AUX_SERVICES_MAX {
        reader.problem(NAMES, Expected::AtMost(AUX_SERVICES_MAX));
        return Vec::new();
    }
    let skip = reader.flag(SKIP);
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
            SHUFFLE_HANDLER => Ok(AuxServiceKind::MapReduceShuffle(shuffle(reader, conf_dirs))),
            SPARK_SHUFFLE => read_spark_shuffle::spark_shuffle(reader, &name, skip)
                .map(AuxServiceKind::SparkShuffle),
            _other if skip => Err(not_available(reader, name.clone(), class.clone())),
            _other => {
                reader.problem(&property, unavailable());
                continue;
            }
        };
        let service = kind.and_then(|kind| {
            let class = class.clone();
            let service = AuxServiceConfig { name, class, kind };
            with_own_port(reader, &services, service, skip)
        });
        match service {
            Ok(service) => services.push(service),
            Err(unavailable) => reader.warn(unavailable),
        }
    }
    services
}

/// Refuses a service on the port of an earlier one, since it would not start, or leaves it out.
fn with_own_port(
    reader: &mut PropertyReader<'_>,
    earlier: &[AuxServiceConfig],
    service: AuxServiceConfig,
    skip: bool,
) -> Result<AuxServiceConfig, Warning> {
    let (port, property) = service.port();
    let mut earlier = earlier.iter();
    let Some(other) = earlier.find(|it| port != 0 && it.port().0 == port) else {
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
pub(super) fn not_available(
    reader: &PropertyReader<'_>,
    service: String,
    class: String,
) -> Warning {
    let origin = reader.origin(NAMES);
    Warning::NoService {
        service,
        class,
        origin,
    }
}

fn unavailable() -> Expected {
    let text = format!(
        "is no service of this agent, which has {SHUFFLE_HANDLER} and {SPARK_SHUFFLE} only; with \
         {SKIP} = true the agent runs without it, and refuses containers that need it"
    );
    Expected::Rule(text.into())
}

/// Reads the settings of a shuffle. Java counts connections in an `int`, and 0 stands for no limit.
fn shuffle(reader: &mut PropertyReader<'_>, conf_dirs: &[PathBuf]) -> ShuffleConfig {
    let tls = if reader.flag(SSL) {
        read_tls::server(reader, conf_dirs)
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
