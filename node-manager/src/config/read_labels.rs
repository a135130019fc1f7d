//! Properties to the providers of the node's labels and attributes.

use std::path::PathBuf;
use std::time::Duration;

use hadoop_conf::{Expected, PropertyReader};
use node_script::Script;

use super::sections::{NodeLabelsConfig, ProviderConfig, ProviderSource};
use crate::node_labels::{Described, NodeAttributes, NodeLabels};

/// Names of the properties of one provider.
struct Names {
    provider: &'static str,
    configured: &'static str,
    script_path: &'static str,
    script_opts: &'static str,
    fetch_interval: &'static str,
    fetch_timeout: &'static str,
    resync_interval: &'static str,
}

const LABELS: Names = Names {
    provider: "yarn.nodemanager.node-labels.provider",
    configured: "yarn.nodemanager.node-labels.provider.configured-node-partition",
    script_path: "yarn.nodemanager.node-labels.provider.script.path",
    script_opts: "yarn.nodemanager.node-labels.provider.script.opts",
    fetch_interval: "yarn.nodemanager.node-labels.provider.fetch-interval-ms",
    fetch_timeout: "yarn.nodemanager.node-labels.provider.fetch-timeout-ms",
    resync_interval: "yarn.nodemanager.node-labels.resync-interval-ms",
};

const ATTRIBUTES: Names = Names {
    provider: "yarn.nodemanager.node-attributes.provider",
    configured: "yarn.nodemanager.node-attributes.provider.configured-node-attributes",
    script_path: "yarn.nodemanager.node-attributes.provider.script.path",
    script_opts: "yarn.nodemanager.node-attributes.provider.script.opts",
    fetch_interval: "yarn.nodemanager.node-attributes.provider.fetch-interval-ms",
    fetch_timeout: "yarn.nodemanager.node-attributes.provider.fetch-timeout-ms",
    resync_interval: "yarn.nodemanager.node-attributes.resync-interval-ms",
};

pub(super) fn node_labels(reader: &mut PropertyReader<'_>) -> NodeLabelsConfig {
    NodeLabelsConfig {
        labels: provider::<NodeLabels>(reader, &LABELS),
        attributes: provider::<NodeAttributes>(reader, &ATTRIBUTES),
    }
}

fn provider<T: Described>(
    reader: &mut PropertyReader<'_>,
    names: &Names,
) -> Option<ProviderConfig> {
    let provider = reader.text(names.provider).unwrap_or_default();
    let is_there = !provider.is_empty();
    reader.only_if(is_there, "without a provider", |reader| {
        named_provider::<T>(reader, names, &provider)
    })
}

/// Reads the provider of this name; `None` for an empty one, or after a problem.
fn named_provider<T: Described>(
    reader: &mut PropertyReader<'_>,
    names: &Names,
    provider: &str,
) -> Option<ProviderConfig> {
    let configured = reader.resolved_text(names.configured).unwrap_or_default();
    let script_path = reader.resolved_text(names.script_path);
    let arguments = reader.list(names.script_opts);
    let timeout = Duration::from_millis(reader.u64(names.fetch_timeout, 1));
    let resync_interval = Duration::from_millis(reader.u64(names.resync_interval, 0));
    let fetch_interval = fetch_interval(reader, names.fetch_interval);
    let source = match provider.to_ascii_lowercase().as_str() {
        "" => return None,
        "config" => {
            if let Err(error) = T::from_property(&configured) {
                let rule = error.to_string();
                reader.problem(names.configured, Expected::Rule(rule.into()));
            }
            ProviderSource::Property {
                name: names.configured,
                configured,
            }
        }
        "script" => {
            let Some(path) = script_path else {
                let why = "the provider of the node's labels or attributes is a script";
                reader.missing(names.script_path.to_owned(), why);
                return None;
            };
            ProviderSource::Script(Script {
                path: PathBuf::from(path),
                arguments,
                timeout,
            })
        }
        _ => {
            let why = "a Java class cannot be a provider; config and script can";
            reader.problem(names.provider, Expected::Unsupported(why));
            return None;
        }
    };
    Some(ProviderConfig {
        source,
        fetch_interval,
        resync_interval,
    })
}

/// Reads an interval of at least a millisecond; -1 stands for one fetch only.
fn fetch_interval(reader: &mut PropertyReader<'_>, name: &str) -> Option<Duration> {
    let interval = reader.integer(name, -1..=i64::MAX);
    if interval == 0 {
        let rule = "must be a number of milliseconds, or -1 to fetch once";
        reader.problem(name, Expected::Rule(rule.into()));
    }
    u64::try_from(interval).ok().map(Duration::from_millis)
}
