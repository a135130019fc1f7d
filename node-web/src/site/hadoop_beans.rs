//! Beans of `/jmx` that every daemon of Hadoop has, by which exporters know a node: they take its
//! name from `tag.Hostname` of `JvmMetrics`, and fail without it (Hadoop: `JvmMetrics`,
//! `RpcMetrics`, `RpcDetailedMetrics`, `UserGroupInformation.UgiMetrics`, `HttpServer2Metrics`,
//! `MetricsSystemImpl`, `ContainerMetrics`).
//!
//! A number that there is here is true: memory outside of a heap is the agent's resident memory,
//! and all of its threads are one number. What there is not, a heap, a collector, sinks, a port of
//! localizers, is 0. What is not counted is left out.
//!
//! - `rpc`: the ports for calls; `containers`: each container

mod containers;
mod rpc;

use node_view::snapshot::NodeSnapshot;
use serde_json::{Value, json};

use super::beans::Bean;
use super::process::{OwnUse, bean};
use crate::metrics::Metrics;

/// Facts of the configuration that beans tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeanOptions {
    /// Port of `yarn.nodemanager.localizer.address`. Nobody listens there, and tools read its bean.
    pub localizer_port: u16,
    /// Whether the node has an identity in Kerberos.
    pub is_secure: bool,
    /// Whether each container has a bean (`yarn.nodemanager.container-metrics.enable`).
    pub with_containers: bool,
}

impl Default for BeanOptions {
    /// Hadoop's defaults.
    fn default() -> Self {
        Self {
            localizer_port: 8040,
            is_secure: false,
            with_containers: true,
        }
    }
}

const BYTES_PER_MIB: f64 = (1 << 20) as f64;

/// Memory in `JvmMetrics` of a Java machine alone.
const MEMORY_OF_A_HEAP: [&str; 5] = [
    "MemNonHeapMaxM",
    "MemHeapUsedM",
    "MemHeapCommittedM",
    "MemHeapMaxM",
    "MemMaxM",
];

/// Counts in `JvmMetrics` of a Java machine alone.
const OF_A_JAVA_MACHINE: [&str; 10] = [
    "GcCount",
    "GcTimeMillis",
    "GcNumWarnThresholdExceeded",
    "GcNumInfoThresholdExceeded",
    "GcTotalExtraSleepTime",
    "ThreadsNew",
    "ThreadsBlocked",
    "ThreadsWaiting",
    "ThreadsTimedWaiting",
    "ThreadsTerminated",
];

/// Returns the beans, in Hadoop's names.
pub(super) fn beans(
    node: &NodeSnapshot,
    metrics: &Metrics,
    own: &OwnUse,
    options: BeanOptions,
) -> Vec<Bean> {
    let about = &node.about;
    let host = &about.node_id.host;
    let web = format!("HttpServer2-{}", about.http_port);
    let security = Some(json!(options.is_secure));
    let node_manager = "org.apache.hadoop.yarn.server.nodemanager.NodeManager";
    let mut beans = vec![
        jvm(host, own),
        ugi(host),
        of_node(&web, &web, tags("http", host)),
        of_node("NodeManager", node_manager, [("SecurityEnabled", security)]),
        of_node(
            "MetricsSystem,sub=Control",
            "org.apache.hadoop.metrics2.impl.MetricsSystemImpl",
            [],
        ),
    ];
    beans.extend(rpc::of_containers(host, about.node_id.port, metrics));
    beans.extend(rpc::of_localizers(host, options.localizer_port));
    if options.with_containers {
        beans.extend(containers::beans(node, metrics));
    }
    let sources = beans.len();
    beans.push(metrics_system(host, sources));
    beans
}

/// Returns a bean of this name in Hadoop's domain.
fn of_node(
    name: &str,
    modeler_type: &str,
    attributes: impl IntoIterator<Item = (&'static str, Option<Value>)>,
) -> Bean {
    let name = format!("Hadoop:service=NodeManager,name={name}");
    bean(&name, modeler_type, attributes)
}

/// Returns the tags that every record of Hadoop has.
fn tags(context: &str, host: &str) -> [(&'static str, Option<Value>); 2] {
    [
        ("tag.Context", Some(json!(context))),
        ("tag.Hostname", Some(json!(host))),
    ]
}

/// Returns this value for each of the names.
fn all(names: &'static [&'static str], value: Value) -> Attributes {
    let with_value = move |name: &&'static str| (*name, Some(value.clone()));
    names.iter().map(with_value).collect()
}

/// Names and values of a bean; one that is not known is left out.
type Attributes = Vec<(&'static str, Option<Value>)>;

fn jvm(host: &str, own: &OwnUse) -> Bean {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let resident = own
        .resident_bytes
        .map(|bytes| json!(bytes as f64 / BYTES_PER_MIB));
    let mut attributes = Vec::from(tags("jvm", host));
    attributes.extend([
        ("tag.ProcessName", Some(json!("NodeManager"))),
        ("tag.SessionId", Some(Value::Null)),
        ("MemNonHeapUsedM", resident.clone()),
        ("MemNonHeapCommittedM", resident),
        ("ThreadsRunnable", own.threads.map(Value::from)),
    ]);
    attributes.extend(all(&MEMORY_OF_A_HEAP, json!(0.0)));
    attributes.extend(all(&OF_A_JAVA_MACHINE, json!(0)));
    of_node("JvmMetrics", "JvmMetrics", attributes)
}

/// Logins that `UgiMetrics` counts are those of Hadoop's library, which is not here.
fn ugi(host: &str) -> Bean {
    let mut attributes = Vec::from(tags("ugi", host));
    attributes.extend(all(
        &[
            "GetGroupsNumOps",
            "LoginSuccessNumOps",
            "LoginFailureNumOps",
            "RenewalFailures",
            "RenewalFailuresTotal",
        ],
        json!(0),
    ));
    attributes.extend(all(
        &[
            "GetGroupsAvgTime",
            "LoginSuccessAvgTime",
            "LoginFailureAvgTime",
        ],
        json!(0.0),
    ));
    of_node("UgiMetrics", "UgiMetrics", attributes)
}

/// Numbers are pulled, so there are sources and no sinks.
fn metrics_system(host: &str, sources: usize) -> Bean {
    let name = "MetricsSystem,sub=Stats";
    let mut attributes = Vec::from(tags("metricssystem", host));
    attributes.extend([
        ("NumActiveSources", Some(json!(sources))),
        ("NumAllSources", Some(json!(sources))),
        ("PublishAvgTime", Some(json!(0.0))),
        ("SnapshotAvgTime", Some(json!(0.0))),
    ]);
    attributes.extend(all(
        &[
            "NumActiveSinks",
            "NumAllSinks",
            "DroppedPubAll",
            "PublishNumOps",
            "SnapshotNumOps",
        ],
        json!(0),
    ));
    of_node(name, name, attributes)
}
