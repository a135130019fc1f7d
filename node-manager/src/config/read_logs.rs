//! Properties to the retention and the aggregation of logs.

use hadoop_conf::{Expected, PropertyReader};
use hadoop_fs::Uri;
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
    let remote_dir = remote_dir(reader);
    let suffix = suffix(reader);
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
    let formats = reader.list(FORMATS);
    if !reader.flag(ENABLE) {
        return None;
    }
    if formats.first().map(String::as_str) != Some("TFile") {
        reader.problem(
            FORMATS,
            Expected::Unsupported("this agent writes TFile, which must be the first format"),
        );
        return None;
    }
    let remote_dir = remote_dir?;
    Some(LogAggregationConfig {
        remote_dir,
        ..config
    })
}

/// Reads the root of aggregated logs, completed by the default file system.
fn remote_dir(reader: &mut PropertyReader<'_>) -> Option<Uri> {
    const OF_FORMAT: &str = "yarn.log-aggregation.TFile.remote-app-log-dir";
    const OF_ALL: &str = "yarn.nodemanager.remote-app-log-dir";
    let of_format = reader.text(OF_FORMAT).map(|text| (OF_FORMAT, text));
    let of_all = reader.text(OF_ALL).map(|text| (OF_ALL, text));
    let (name, text) = of_format.or(of_all)?;
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

fn suffix(reader: &mut PropertyReader<'_>) -> String {
    let of_format = reader.text("yarn.log-aggregation.TFile.remote-app-log-dir-suffix");
    let of_all = reader.text("yarn.nodemanager.remote-app-log-dir-suffix");
    of_format.unwrap_or_else(|| format!("{}-tfile", of_all.unwrap_or_default()))
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
