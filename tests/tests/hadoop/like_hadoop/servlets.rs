//! What every daemon of Hadoop serves: `/jmx` and `/conf`.

use std::fmt::Write as _;

use serde_json::Value;
use tests::http;

use super::twins::{Twin, Twins};

/// Numbers of Hadoop's that the agent does not have: it does not count what it deletes, knows no
/// GPUs, and rolls nothing back by itself.
const MISSING: [&str; 6] = [
    "CacheSizeBeforeClean",
    "ContainersRolledBackOnFailure",
    "NodeGpuUtilization",
    "PrivateBytesDeleted",
    "PublicBytesDeleted",
    "TotalBytesDeleted",
];

/// Numbers of the agent's that Hadoop does not have: what is free to the MiB, and whether
/// opportunistic containers are taken.
const OUR_OWN: [&str; 2] = ["AvailableMB", "TakesOpportunisticContainers"];

/// A property whose value must not be shown; one of the paths below.
pub(super) const SECRET: &str = "like.hadoop.password";

/// Compares both nodes, which run containers; [`SECRET`] is set.
pub(super) fn compare(twins: &mut Twins) {
    twins.compare("/jmx", names_of_numbers);
    for path in [
        "/conf?name=yarn.nodemanager.pmem-check-enabled",
        "/conf?name=yarn.nodemanager.vmem-pmem-ratio",
        "/conf?name=hadoop.http.authentication.type",
        "/conf?name=like.hadoop.password",
    ] {
        twins.compare(path, |twin| {
            let answer = answer(twin, path, "application/json");
            let json: Value = serde_json::from_str(&answer.body).unwrap();
            format!("{}\n{json:#}", answer.status)
        });
    }
    twins.compare("/conf", |twin| {
        let known = answer(twin, "/conf?name=yarn.nodemanager.vmem-pmem-ratio", "*/*");
        let (_declaration, body) = known.body.split_once("?>").unwrap();
        let unknown = answer(twin, "/conf?name=nosuch", "*/*");
        format!("{body}\n{}", unknown.status)
    });
}

fn answer(twin: &Twin, path: &str, accept: &str) -> http::Answer {
    let url = format!("http://localhost:{}{path}", twin.web_port);
    http::get_accepting(&url, accept).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the names of the node's numbers with the kinds of their values, a line each, sorted.
fn names_of_numbers(twin: &Twin) -> String {
    let query = "/jmx?qry=Hadoop:service=NodeManager,name=NodeManagerMetrics";
    let answer = answer(twin, query, "*/*");
    let json: Value = serde_json::from_str(&answer.body).unwrap();
    let bean = json["beans"][0].as_object().unwrap();
    let mut lines: Vec<_> = bean
        .iter()
        .filter(|(name, _)| ![&MISSING[..], &OUR_OWN].concat().contains(&name.as_str()))
        .map(|(name, value)| format!("{name} {}", kind(value)))
        .collect();
    lines.sort();
    let mut text = format!("{}\n", answer.status);
    for line in lines {
        writeln!(text, "{line}").unwrap();
    }
    text
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_f64() => "with a fraction",
        Value::Number(_) => "whole",
        Value::String(_) => "text",
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => "something else",
    }
}
