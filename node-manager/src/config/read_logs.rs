//! Properties to the retention and the aggregation of logs.

use hadoop_conf::{Expected, PropertyReader};
use hadoop_fs::Uri;
use log_aggregation::Format;
use log_aggregation::policy::Policy;
use log_aggregation::tfile::Compression;

use super::sections::{LogAggregationConfig, LogConfig};

const ENABLE: &str = "yarn.log-aggregation-enable";
const FORMATS: &str = "yarn.log-aggregation.file-formats";
const POLICY: &str = "yarn.nodemanager.log-aggregation.policy.class";
const INTERVAL: &str = "yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds";

pub(super) fn logs(reader: &mut PropertyReader<'_>) -> LogConfig {
    LogConfig {
        retain_seconds: reader.u64("yarn.nodemanager.log.retain-seconds", 0),
        aggregation_enabled: reader.flag(ENABLE),
        aggregation: {
            let enabled = reader.flag(ENABLE);
            reader.only_if(enabled, "without aggregation of logs", aggregation)
        },
        server_url: reader.text("yarn.log.server.url"),
        server_web_service_url: reader.text("yarn.log.server.web-service.url"),
    }
}

/// Reads the aggregation of logs; `None` if it is off, or goes where this agent cannot write.
fn aggregation(reader: &mut PropertyReader<'_>) -> Option<LogAggregationConfig> {
    // Those of all formats, of which one counts.
    let of_formats = KNOWN_FORMATS.map(|known| OfFormat {
        dir: reader.text(known.dir).map(|text| (known.dir, text)),
        suffix: reader.text(known.suffix),
        known,
    });
    let [tfile, ..] = &of_formats;
    let of_format = format(reader, &of_formats).unwrap_or(tfile);
    let remote_dir = remote_dir(reader, of_format);
    let suffix = suffix(reader, of_format);
    let parameters = reader.text("yarn.nodemanager.log-aggregation.policy.parameters");
    let class = reader.text(POLICY).unwrap_or_default();
    let policy = Policy::read(&class, &parameters.unwrap_or_default()).unwrap_or_else(|_| {
        reader.problem(
            POLICY,
            Expected::Rule("must be one of Hadoop's log aggregation policies".into()),
        );
        Policy::All
    });
    let config = LogAggregationConfig {
        remote_dir: Uri::default(),
        format: of_format.known.format,
        remote_group: reader
            .text("yarn.nodemanager.remote-app-log-dir.groupname")
            .filter(|group| !group.is_empty()),
        suffix,
        threads_max: reader.u32("yarn.nodemanager.logaggregation.threadpool-size-max", 1),
        compression: reader.choice(
            "yarn.nodemanager.log-aggregation.compression-type",
            (Compression::None.as_str(), Compression::None),
            &[(Compression::Gz.as_str(), Compression::Gz)],
        ),
        policy,
        roll_interval_seconds: roll_interval_seconds(reader),
        files_per_application: reader
            .u32("yarn.nodemanager.log-aggregation.num-log-files-per-app", 1),
        local_cleanup: reader.flag("yarn.log-aggregation.enable-local-cleanup"),
    };
    if !reader.flag(ENABLE) {
        return None;
    }
    let remote_dir = remote_dir?;
    Some(LogAggregationConfig {
        remote_dir,
        ..config
    })
}

/// A format that logs may be written in, and its properties.
#[derive(Clone, Copy)]
struct KnownFormat {
    /// Name in the configuration.
    name: &'static str,
    format: Format,
    dir: &'static str,
    suffix: &'static str,
}

/// Formats by the names that Hadoop's documents and distributions give them. A configuration may
/// choose any name for a class (Hadoop: `LogAggregationFileControllerFactory`).
const KNOWN_FORMATS: [KnownFormat; 3] = [
    KnownFormat {
        name: "TFile",
        format: Format::TFile,
        dir: "yarn.log-aggregation.TFile.remote-app-log-dir",
        suffix: "yarn.log-aggregation.TFile.remote-app-log-dir-suffix",
    },
    KnownFormat {
        name: "IndexedFormat",
        format: Format::Indexed,
        dir: "yarn.log-aggregation.IndexedFormat.remote-app-log-dir",
        suffix: "yarn.log-aggregation.IndexedFormat.remote-app-log-dir-suffix",
    },
    KnownFormat {
        name: "IFile",
        format: Format::Indexed,
        dir: "yarn.log-aggregation.IFile.remote-app-log-dir",
        suffix: "yarn.log-aggregation.IFile.remote-app-log-dir-suffix",
    },
];

/// A format with the values of its properties.
struct OfFormat {
    known: KnownFormat,
    /// Root, with the property that names it.
    dir: Option<(&'static str, String)>,
    suffix: Option<String>,
}

/// Reads the format that logs are written in: the first of those that are read. `None`: this agent
/// does not write it.
fn format<'a>(reader: &mut PropertyReader<'_>, known: &'a [OfFormat]) -> Option<&'a OfFormat> {
    let formats = reader.list(FORMATS);
    let first = formats.first().map(String::as_str);
    let found = known.iter().find(|format| Some(format.known.name) == first);
    if found.is_none() && reader.flag(ENABLE) {
        reader.problem(
            FORMATS,
            Expected::Unsupported(
                "this agent writes TFile and IndexedFormat, one of which must be the first format",
            ),
        );
    }
    found
}

/// Reads the root of aggregated logs, completed by the default file system.
fn remote_dir(reader: &mut PropertyReader<'_>, format: &OfFormat) -> Option<Uri> {
    const OF_ALL: &str = "yarn.nodemanager.remote-app-log-dir";
    let of_all = reader.text(OF_ALL).map(|text| (OF_ALL, text));
    let (name, text) = format.dir.clone().or(of_all)?;
    let Ok(uri) = text.parse::<Uri>() else {
        let rule = "must be an absolute path or the URI of a directory";
        reader.problem(name, Expected::Rule(rule.into()));
        return None;
    };
    let default_fs = reader.text("fs.defaultFS")?.parse().ok()?;
    let uri = uri.resolved(&default_fs);
    if ["file", "hdfs"].iter().any(|scheme| uri.has_scheme(scheme)) {
        return Some(uri);
    }
    if reader.flag(ENABLE) {
        reader.otherwise(
            ENABLE,
            "logs go to file: and hdfs: only: others stay on the node for yarn.nodemanager.log.retain-seconds",
        );
    }
    None
}

fn suffix(reader: &mut PropertyReader<'_>, format: &OfFormat) -> String {
    let of_all = reader.text("yarn.nodemanager.remote-app-log-dir-suffix");
    let end = format.known.name.to_lowercase();
    let own = format.suffix.clone();
    own.unwrap_or_else(|| format!("{}-{end}", of_all.unwrap_or_default()))
}

/// Reads the interval of uploads while an application runs; `None`: only at its end. A short one is
/// raised to the least, as in Hadoop (`AppLogAggregatorImpl`), which many applications would
/// otherwise load the file system with.
fn roll_interval_seconds(reader: &mut PropertyReader<'_>) -> Option<u64> {
    let configured = reader.integer(INTERVAL, i64::MIN..=i64::MAX);
    let least = reader.u64(
        "yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds.min",
        0,
    );
    let is_debugged = reader.flag("yarn.nodemanager.log-aggregation.debug-enabled");
    let configured = u64::try_from(configured).ok().filter(|it| *it > 0)?;
    Some(if is_debugged {
        configured
    } else {
        configured.max(least)
    })
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{loaded, problems};

    use super::*;

    const ON: (&str, &str) = (ENABLE, "true");

    #[test]
    fn the_first_format_is_written_with_properties_of_its_name() {
        for (name, format) in [
            ("TFile", Format::TFile),
            ("IndexedFormat", Format::Indexed),
            ("IFile", Format::Indexed),
        ] {
            let formats = format!("{name},Other");
            let dir = format!("yarn.log-aggregation.{name}.remote-app-log-dir");
            let suffix = format!("{dir}-suffix");
            let set = [ON, (FORMATS, &formats), (&dir, "/own")];
            let read = |set: &[(&str, &str)]| loaded(set).config.unwrap().logs.aggregation;
            let aggregation = read(&set).unwrap();
            assert_eq!(aggregation.format, format);
            assert_eq!(aggregation.remote_dir.path, "/own");
            let default = format!("logs-{}", name.to_lowercase());
            assert_eq!(aggregation.suffix, default);
            let aggregation = read(&[&set[..], &[(&suffix, "mine")]].concat());
            assert_eq!(aggregation.unwrap().suffix, "mine");
        }
    }

    #[test]
    fn another_first_format_is_refused_where_logs_are_aggregated() {
        let formats = (FORMATS, "Mine,TFile");
        assert!(problems(&[ON, formats])[0].contains("IndexedFormat"));
        assert!(loaded(&[formats]).config.is_ok());
    }
}
