//! Properties to the role histories of the AMRMProxy.

use std::path::Path;

use amrm_proxy::config::{FilesConfig, HistoryConfig, HistoryRule, OptIn};
use hadoop_conf::site_xml::local_path;
use hadoop_conf::{Expected, PropertyReader};
use hadoop_fs::Uri;

use super::read_node::rule_names;

const DIRECTORY: &str = "yarn.nodemanager.agent.role-history.dir";
const USER_MB: &str = "yarn.nodemanager.agent.role-history.user-mb";
const PLACEMENT_TIMEOUT: &str = "yarn.nodemanager.agent.role-history.placement-timeout-ms";
const RULES: &str = "yarn.nodemanager.agent.role-history.rules";

/// Reads the role histories; `None` without a directory for them.
pub(super) fn role_history(reader: &mut PropertyReader<'_>) -> Option<HistoryConfig> {
    let user_mb = reader.u64(USER_MB, 1);
    let placement_timeout_ms = reader.u64(PLACEMENT_TIMEOUT, 0);
    let rules = rules(reader);
    let directory = directory(reader)?;
    Some(HistoryConfig {
        files: FilesConfig {
            directory,
            user_bytes_max: user_mb.saturating_mul(1 << 20),
        },
        placement_timeout_ms,
        rules,
    })
}

/// Reads the directory: a `file:` or `hdfs:` URI, or an absolute path of this machine.
fn directory(reader: &mut PropertyReader<'_>) -> Option<Uri> {
    let text = reader.text(DIRECTORY)?;
    let path = local_path(&text).filter(|path| path.is_absolute());
    if let Some(path) = path.as_deref().and_then(Path::to_str) {
        return Some(Uri::file(path));
    }
    let default_fs = reader.text("fs.defaultFS").and_then(|fs| fs.parse().ok());
    let remote = text
        .parse::<Uri>()
        .ok()
        .filter(|uri| uri.has_scheme("hdfs"));
    let remote = remote.map(|uri| uri.resolved(&default_fs.unwrap_or_default()));
    let rule = match remote {
        Some(uri) if uri.host.is_none() => {
            "names no host, and fs.defaultFS is of another file system"
        }
        Some(_) if !cfg!(feature = "hdfs") => {
            "is in HDFS, and this program was built without the feature `hdfs`"
        }
        Some(uri) => return Some(uri),
        None => {
            "must be a file: or hdfs: URI, or an absolute path, of a directory that all nodes share"
        }
    };
    reader.problem(DIRECTORY, Expected::Rule(rule.into()));
    None
}

fn rules(reader: &mut PropertyReader<'_>) -> Vec<HistoryRule> {
    let mut rules = Vec::new();
    for name in rule_names(reader, RULES) {
        let of = |what: &str| format!("yarn.nodemanager.agent.role-history.rule.{name}.{what}");
        let opt_in = OptIn {
            service: reader.text(&of("service")).unwrap_or_else(|| name.clone()),
            is_guaranteed: reader
                .text(&of("guaranteed"))
                .is_some_and(|value| value.eq_ignore_ascii_case("true")),
            policy: reader.text(&of("policy")).unwrap_or_default(),
        };
        if let Err(error) = opt_in.policies() {
            reader.problem(&of("policy"), Expected::Rule(error.to_string().into()));
        }
        rules.push(HistoryRule {
            user: reader.text(&of("user")),
            tag: reader.text(&of("tag")),
            opt_in,
            name,
        });
    }
    rules
}
