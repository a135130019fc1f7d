//! Properties to Spark's shuffle: those beside all others, and over them those of a file in the
//! service's class path, which differs between several services of one node.

use std::path::PathBuf;
use std::time::Duration;

use hadoop_conf::site_xml::{Properties, SiteXmlError};
use hadoop_conf::{Expected, PropertyReader, parse};
use spark_shuffle::{AuthVersion, Encryption, SparkShuffleConfig};

use super::aux_services::{AuxServiceKind, HostedConfig};
use super::{keys, read_aux_host};

/// File that Spark's service reads from its class path, over the node's configuration.
const OVERLAY: &str = "spark-shuffle-site.xml";

/// Property that says who serves.
const SERVED_BY: &str = "yarn.nodemanager.agent.spark-shuffle";

const PORT: &str = "spark.shuffle.service.port";
const MERGE: &str = "spark.shuffle.push.server.mergedShuffleFileManagerImpl";
const NO_MERGE: &str = "org.apache.spark.network.shuffle.NoOpMergedShuffleFileManager";
const CRYPTO: &str = "spark.network.crypto.enabled";
const VERSION: &str = "spark.network.crypto.authEngineVersion";
const CIPHER: &str = "spark.network.crypto.cipher";
const CTR: &str = "AES/CTR/NoPadding";
const SASL_FALLBACK: &str = "spark.network.crypto.saslFallback";
const AUTHENTICATE: &str = "spark.authenticate";
const ALWAYS_ENCRYPT: &str = "spark.network.sasl.serverAlwaysEncrypt";
const TLS: &str = "spark.ssl.rpc.enabled";
const TIMEOUT: &str = "spark.shuffle.io.connectionTimeout";
const NETWORK_TIMEOUT: &str = "spark.network.timeout";
const CHUNKS: &str = "spark.shuffle.maxChunksBeingTransferred";

/// Threads at most; more would not read disks faster (Spark: `NettyUtils.MAX_DEFAULT_NETTY_THREADS`
/// for the default).
const THREADS_MAX: usize = 256;
const DEFAULT_THREADS_MAX: usize = 8;

/// Reads whether Spark's own class is to serve, in the host.
pub(super) fn is_in_host(reader: &mut PropertyReader<'_>) -> bool {
    reader.choice(SERVED_BY, ("native", false), &[("host", true)])
}

/// Reads the settings of the service of this name. One that is to be in the host, or asks for what
/// the agent has not, is the host's: less than was configured is never served.
pub(super) fn spark_shuffle(
    reader: &mut PropertyReader<'_>,
    name: &str,
    is_in_host: bool,
) -> AuxServiceKind {
    let layered = match layered(reader, name) {
        Ok(layered) => layered,
        Err(error) => {
            reader.unusable_file(error);
            return AuxServiceKind::SparkShuffle(SparkShuffleConfig::default());
        }
    };
    let mut of_service = PropertyReader::new(&layered, &keys::SPARK_SHUFFLE);
    let lack = lacks(&mut of_service).into_iter().next();
    let because = if is_in_host { Some(SERVED_BY) } else { lack };
    if because.is_none() {
        let config = read(&mut of_service);
        reader.add(of_service);
        return AuxServiceKind::SparkShuffle(config);
    }
    let port = of_service.integer(PORT, 0..=i64::from(u16::MAX));
    reader.add(of_service);
    AuxServiceKind::Hosted(HostedConfig {
        port: u16::try_from(port).ok().map(|port| (port, PORT)),
        because,
        ..read_aux_host::hosted(reader, name)
    })
}

/// Adds the problem that a service cannot be in the host, which this property asks for.
pub(super) fn refuse(
    reader: &mut PropertyReader<'_>,
    name: &str,
    property: &'static str,
    rule: &str,
) {
    let rule = Expected::Rule(format!("{name} {rule}").into());
    if property == SERVED_BY {
        reader.problem(property, rule);
    } else if let Ok(layered) = layered(reader, name) {
        let mut of_service = PropertyReader::new(&layered, &keys::SPARK_SHUFFLE);
        of_service.problem(property, rule);
        reader.add(of_service);
    }
}

/// Returns the node's properties with those of the service's own file over them.
fn layered(reader: &mut PropertyReader<'_>, name: &str) -> Result<Properties, SiteXmlError> {
    let folders = class_path_folders(reader, name);
    reader.properties().read_over(&folders, OVERLAY)
}

/// Returns the folders of a service's class path, in which Java would look for the file. An entry
/// `FOLDER/*` stands for the archives in it; operators write it for folders with files, too.
fn class_path_folders(reader: &mut PropertyReader<'_>, name: &str) -> Vec<PathBuf> {
    let property = format!("yarn.nodemanager.aux-services.{name}.classpath");
    let class_path = reader.text(&property).unwrap_or_default();
    let entries = class_path.split([':', ',']).map(str::trim);
    let folders = entries.map(|entry| entry.strip_suffix("/*").unwrap_or(entry));
    folders
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .collect()
}

fn read(reader: &mut PropertyReader<'_>) -> SparkShuffleConfig {
    let port = reader.integer(PORT, 0..=i64::from(u16::MAX));
    let threads = reader.u32("spark.shuffle.io.serverThreads", 0);
    let backlog = reader.integer("spark.shuffle.io.backLog", -1..=i64::from(u32::MAX));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let defaults = SparkShuffleConfig::default();
    SparkShuffleConfig {
        port: u16::try_from(port).unwrap_or(0),
        backlog: match u32::try_from(backlog) {
            Ok(0) | Err(_) => defaults.backlog,
            Ok(backlog) => backlog,
        },
        threads: match threads {
            0 => (2 * processors).min(DEFAULT_THREADS_MAX),
            threads => (threads as usize).min(THREADS_MAX),
        },
        connections_max: usize::MAX,
        idle_timeout: idle_timeout(reader).unwrap_or(defaults.idle_timeout),
        chunks_max: chunks_max(reader),
        authenticates: reader.flag(AUTHENTICATE),
        encryption: encryption(reader),
        ..defaults
    }
}

/// Reads the encryption of connections. Spark encrypts nothing for clients that prove nothing; who
/// asks for it all the same is not served in the clear.
fn encryption(reader: &mut PropertyReader<'_>) -> Option<Encryption> {
    if !reader.flag(CRYPTO) {
        return None;
    }
    if !reader.flag(AUTHENTICATE) {
        let rule = "encrypts nothing without spark.authenticate, which is false";
        reader.problem(CRYPTO, Expected::Rule(rule.into()));
    }
    let version = match reader.integer(VERSION, 1..=2) {
        2 => AuthVersion::V2,
        _first => AuthVersion::V1,
    };
    Some(Encryption {
        version,
        allows_sasl: reader.flag(SASL_FALLBACK),
    })
}

/// Reads the time without a request after which a connection is closed.
fn idle_timeout(reader: &mut PropertyReader<'_>) -> Option<Duration> {
    for name in [TIMEOUT, NETWORK_TIMEOUT] {
        let Some(text) = reader.text(name) else {
            continue;
        };
        let parsed = spark_seconds(&text).filter(|time| !time.is_zero());
        if parsed.is_none() {
            let rule = "is a time as Spark writes it, at least a second: 120, 120s, 2min, 1h";
            reader.problem(name, Expected::Rule(rule.into()));
        }
        return parsed;
    }
    None
}

/// Reads a time of Spark, in seconds where no unit is named (Spark: `JavaUtils.timeStringAsSec`).
fn spark_seconds(text: &str) -> Option<Duration> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let seconds = match &text[digits.len()..] {
        "" | "s" => number,
        "us" => number / 1_000_000,
        "ms" => number / 1_000,
        "m" | "min" => number.checked_mul(60)?,
        "h" => number.checked_mul(3_600)?,
        "d" => number.checked_mul(86_400)?,
        _unknown => return None,
    };
    Some(Duration::from_secs(seconds))
}

/// Reads the bound of chunks under way, whose default is no bound.
fn chunks_max(reader: &mut PropertyReader<'_>) -> Option<u64> {
    let text = reader.text(CHUNKS)?;
    let parsed = parse::integer(&text).and_then(|number| u64::try_from(number).ok());
    if parsed.is_none() {
        let rule = "is a number of chunks, at least 0";
        reader.problem(CHUNKS, Expected::Rule(rule.into()));
    }
    parsed.filter(|max| *max < i64::MAX.unsigned_abs())
}

/// Returns the properties that ask for what Spark's own service does and the agent's does not.
fn lacks(reader: &mut PropertyReader<'_>) -> Vec<&'static str> {
    let mut lacks = Vec::new();
    if reader.text(MERGE).is_some_and(|class| class != NO_MERGE) {
        lacks.push(MERGE);
    }
    let cipher = reader.text(CIPHER);
    if reader.flag(CRYPTO) && cipher.is_some_and(|cipher| cipher != CTR) {
        lacks.push(CIPHER);
    }
    lacks.extend(
        [ALWAYS_ENCRYPT, TLS]
            .iter()
            .filter(|name| reader.flag(name)),
    );
    lacks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_spark_reads_them() {
        for (text, seconds) in [
            ("120", 120),
            ("120s", 120),
            (" 2min", 120),
            ("2M", 120),
            ("1h", 3_600),
            ("1d", 86_400),
            ("5000ms", 5),
        ] {
            let expected = Some(Duration::from_secs(seconds));
            assert_eq!(spark_seconds(text), expected, "{text}");
        }
        for text in [
            "",
            "s",
            "1.5s",
            "-1",
            "2weeks",
            "99999999999999999999",
            "9999999999999999999d",
        ] {
            assert_eq!(spark_seconds(text), None, "{text}");
        }
    }
}
