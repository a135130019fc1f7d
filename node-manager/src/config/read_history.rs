//! Properties to the role histories of the AMRMProxy.

use std::path::PathBuf;

use amrm_proxy::config::{FilesConfig, HistoryConfig, HistoryRule, OptIn};
use hadoop_conf::site_xml::local_path;
use hadoop_conf::{Expected, PropertyReader};

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

/// Reads the directory: a `file:` URI or an absolute path.
fn directory(reader: &mut PropertyReader<'_>) -> Option<PathBuf> {
    let text = reader.text(DIRECTORY)?;
    let path = local_path(&text).filter(|path| path.is_absolute());
    if path.is_some() {
        return path;
    }
    let rule = if text.starts_with("hdfs:") {
        "is in HDFS, which needs the HDFS support that this version does not have; use a file: URI of a directory that all nodes share"
    } else {
        "must be a file: URI or an absolute path of a directory that all nodes share"
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
