//! Beans of `/jmx` that every daemon of Hadoop has, by which exporters know a node: they take its
//! name from `tag.Hostname` of `JvmMetrics`, and fail without it (Hadoop: `JvmMetrics`,
//! `RpcMetrics`, `UserGroupInformation.UgiMetrics`).
//!
//! A number that there is here is true: memory outside of a heap is the agent's resident memory,
//! and all of its threads are one number. Those of a heap, a collector and logins are 0: there are
//! none.

use node_view::snapshot::NodeSnapshot;
use serde_json::{Value, json};

use super::beans::Bean;
use super::process::{OwnUse, bean};
use crate::metrics::{Answered, Metrics};

const BYTES_PER_MIB: f64 = (1 << 20) as f64;
const MILLIS_PER_S: f64 = 1000.0;

/// Numbers of `JvmMetrics` of a Java machine alone.
const OF_A_HEAP: [&str; 12] = [
    "MemNonHeapMaxM",
    "MemHeapUsedM",
    "MemHeapCommittedM",
    "MemHeapMaxM",
    "MemMaxM",
    "GcCount",
    "GcTimeMillis",
    "GcNumWarnThresholdExceeded",
    "GcNumInfoThresholdExceeded",
    "GcTotalExtraSleepTime",
    "ThreadsBlocked",
    "ThreadsTerminated",
];

/// Numbers of `UgiMetrics`, all of logins by Kerberos.
const OF_LOGINS: [&str; 6] = [
    "LoginSuccessNumOps",
    "LoginSuccessAvgTime",
    "LoginFailureNumOps",
    "LoginFailureAvgTime",
    "RenewalFailures",
    "RenewalFailuresTotal",
];

/// Returns the beans, in Hadoop's names.
pub(super) fn beans(node: &NodeSnapshot, metrics: &Metrics, own: &OwnUse) -> Vec<Bean> {
    let host = &node.about.node_id.host;
    vec![
        jvm(host, own),
        ugi(host),
        rpc(host, node.about.node_id.port, metrics.answered()),
    ]
}

fn jvm(host: &str, own: &OwnUse) -> Bean {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let resident = own
        .resident_bytes
        .map(|bytes| json!(bytes as f64 / BYTES_PER_MIB));
    let name = "Hadoop:service=NodeManager,name=JvmMetrics";
    let known = [
        ("tag.Context", Some(json!("jvm"))),
        ("tag.ProcessName", Some(json!("NodeManager"))),
        ("tag.SessionId", Some(Value::Null)),
        ("tag.Hostname", Some(json!(host))),
        ("MemNonHeapUsedM", resident.clone()),
        ("MemNonHeapCommittedM", resident),
        ("ThreadsRunnable", own.threads.map(Value::from)),
    ];
    bean(
        name,
        "JvmMetrics",
        known.into_iter().chain(zeros(&OF_A_HEAP)),
    )
}

fn ugi(host: &str) -> Bean {
    let name = "Hadoop:service=NodeManager,name=UgiMetrics";
    let tags = [
        ("tag.Context", Some(json!("ugi"))),
        ("tag.Hostname", Some(json!(host))),
    ];
    bean(
        name,
        "UgiMetrics",
        tags.into_iter().chain(zeros(&OF_LOGINS)),
    )
}

/// Calls of ApplicationMasters, which the port of container management takes.
fn rpc(host: &str, port: u16, answered: Answered) -> Bean {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let count = answered.count.max(1) as f64;
    let name = format!("Hadoop:service=NodeManager,name=RpcActivityForPort{port}");
    let attributes = [
        ("tag.port", Some(json!(port.to_string()))),
        (
            "tag.serverName",
            Some(json!("ContainerManagementProtocolPB")),
        ),
        ("tag.Context", Some(json!("rpc"))),
        ("tag.Hostname", Some(json!(host))),
        ("RpcProcessingTimeNumOps", Some(json!(answered.count))),
        (
            "RpcProcessingTimeAvgTime",
            Some(json!(answered.seconds * MILLIS_PER_S / count)),
        ),
        // A call waits for nobody: each has a task at once.
        ("RpcQueueTimeNumOps", Some(json!(answered.count))),
        ("RpcQueueTimeAvgTime", Some(json!(0.0))),
        ("CallQueueLength", Some(json!(0))),
    ];
    bean(&name, "RpcActivityForPort", attributes)
}

fn zeros(names: &'static [&'static str]) -> impl Iterator<Item = (&'static str, Option<Value>)> {
    names.iter().map(|name| (*name, Some(json!(0))))
}
