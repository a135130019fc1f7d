//! Beans of `/jmx`, by which tools that watch clusters know a node: names, tags, attributes and the
//! kinds of their values, with a container that runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use tests::{http, require, wait};

use super::twins::{DEADLINE, Twin, Twins};

/// Attributes of Hadoop's that the agent does not have, by a part of a bean's name: what it does
/// not count, and what only a Java machine with this collector has. The rest of their beans'
/// attributes must be there.
const MISSING: [(&str, &[&str]); 5] = [
    (
        "name=NodeManagerMetrics",
        &[
            "CacheSizeBeforeClean",
            "PrivateBytesDeleted",
            "PublicBytesDeleted",
            "TotalBytesDeleted",
        ],
    ),
    ("name=JvmMetrics", &["Copy", "MarkSweepCompact"]),
    // Statistics of the pages.
    (
        "name=HttpServer2",
        &[
            "Dispatched",
            "Request",
            "Responses",
            "StatsOnMs",
            "Async",
            "Expires",
        ],
    ),
    (
        "name=RpcActivityForPort",
        &[
            "NumOpenConnections",
            "ReceivedBytes",
            "SentBytes",
            "RpcAuthenticationSuccesses",
            "RpcAuthorizationSuccesses",
            "RpcResponseTime",
            "NumInProcessHandler",
            "TotalRequestsPerSecond",
            "NumDroppedConnections",
        ],
    ),
    // Quantiles of a container's last period, and its times of day.
    (
        "name=ContainerResource_",
        &[
            "MBsI",
            "PercentI",
            "Histogram",
            "MilliVcoreUsage",
            "StartTime",
            "FinishTime",
        ],
    ),
];

/// Numbers of the agent's that Hadoop does not have: what is free to the MiB, and whether
/// opportunistic containers are taken.
const OUR_OWN: [&str; 2] = ["AvailableMB", "TakesOpportunisticContainers"];

#[test]
fn beans_have_hadoops_names_tags_and_attributes() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        site.set("yarn.nodemanager.container-metrics.period-ms", 100)
            .set("yarn.nodemanager.resource-monitor.interval-ms", 200)
            .set("yarn.nodemanager.container-monitor.interval-ms", 200)
            .set("yarn.nodemanager.aux-services", "mapreduce_shuffle")
            .set("mapreduce.shuffle.port", 0);
    });
    twins.each(|twin| {
        let running = twin.allocation(3);
        twin.start_sleeping(&running);
    });
    twins.each(wait_for_figures);
    twins.compare("/jmx with a container", text_of_beans);
    for (bean, attribute) in [
        ("name=JvmMetrics", "tag.ProcessName"),
        ("name=NodeManager", "SecurityEnabled"),
        ("name=ContainerResource_", "pMemLimitMBs"),
        ("name=ContainerResource_", "vMemLimitMBs"),
        ("name=ContainerResource_", "vCoreLimit"),
        ("name=ContainerResource_", "tag.ContainerResource"),
        (
            "name=RpcDetailedActivityForPort<node>",
            "StartContainersNumOps",
        ),
        ("name=RpcActivityForPort<node>", "RpcProcessingTimeNumOps"),
        ("name=RpcActivityForPort<node>", "tag.serverName"),
        ("name=NodeManagerMetrics", "ContainersLaunched"),
    ] {
        twins.compare(&format!("{attribute} of {bean}"), |twin| {
            named(&beans(twin), bean)[attribute].to_string()
        });
    }
}

/// Returns the beans of Hadoop's domain by their names, in which the container management port is
/// `<node>`, the web port `<web>`, and another, that of localizers, `<localizer>`.
fn beans(twin: &Twin) -> BTreeMap<String, Map<String, Value>> {
    let url = format!("http://localhost:{}/jmx?qry=Hadoop:*", twin.web_port);
    let answer = http::get_json(&url).unwrap();
    let beans = answer["beans"].as_array().unwrap();
    let named = beans.iter().map(|bean| {
        let name = bean["name"].as_str().unwrap();
        (masked(twin, name), bean.as_object().unwrap().clone())
    });
    named.collect()
}

fn masked(twin: &Twin, name: &str) -> String {
    let text = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    match name[text.len()..].parse::<i32>() {
        Ok(port) if text.ends_with("ForPort") && port == i32::from(twin.am.node().port) => {
            format!("{text}<node>")
        }
        Ok(_) if text.ends_with("ForPort") => format!("{text}<localizer>"),
        Ok(_) if text.ends_with("HttpServer2-") => format!("{text}<web>"),
        Ok(_) | Err(_) => name.to_owned(),
    }
}

/// Returns the bean whose name ends so, or begins so behind Hadoop's domain.
fn named<'a>(
    beans: &'a BTreeMap<String, Map<String, Value>>,
    part: &str,
) -> &'a Map<String, Value> {
    let found = beans
        .iter()
        .find(|(name, _)| name.ends_with(part) || (part.ends_with('_') && name.contains(part)));
    let (_, bean) = found.unwrap_or_else(|| panic!("no {part} in {:?}", beans.keys()));
    bean
}

/// Waits until the monitor has measured the container and its figures are shown.
fn wait_for_figures(twin: &Twin) {
    wait::until("figures of the container", DEADLINE, || {
        let beans = beans(twin);
        let bean = beans
            .iter()
            .find(|(name, _)| name.contains("=ContainerResource_"));
        let count = bean.map(|(_, bean)| {
            let pid = bean.get("tag.ContainerPid").is_some();
            (pid, bean.get("PCpuUsagePercentNumUsage").cloned())
        });
        let is_shown = matches!(&count, Some((true, Some(count))) if count.as_u64() > Some(1));
        wait::check(is_shown, format!("{count:?}"))
    });
}

/// Returns names, types, and attributes with the kinds of their values, a line each, sorted.
fn text_of_beans(twin: &Twin) -> String {
    let mut text = String::new();
    for (name, bean) in beans(twin) {
        let missing = MISSING.iter().filter(|(part, _)| name.contains(part));
        let missing: Vec<_> = missing.flat_map(|(_, parts)| parts.iter()).collect();
        let modeler = bean["modelerType"].as_str().unwrap();
        writeln!(text, "{name}, {}", masked(twin, modeler)).unwrap();
        let mut names: Vec<_> = bean.iter().collect();
        names.sort_by_key(|(name, _)| *name);
        for (attribute, value) in names {
            let is_left_out = missing.iter().any(|part| attribute.contains(**part))
                || OUR_OWN.contains(&attribute.as_str());
            if !is_left_out {
                writeln!(text, "{name} {attribute} {}", kind(value)).unwrap();
            }
        }
    }
    text
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_f64() => "with a fraction",
        Value::Number(_) => "whole",
        Value::String(_) => "text",
        Value::Bool(_) => "flag",
        Value::Null => "nothing",
        Value::Array(_) | Value::Object(_) => "something else",
    }
}
