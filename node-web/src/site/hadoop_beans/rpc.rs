//! Beans of the ports that take calls (Hadoop: `RpcMetrics`, `RpcDetailedMetrics`).
//!
//! A call waits for nobody here, each has a task at once: waits in a queue and for a lock are 0,
//! and the whole of a call is its processing. Bytes and connections are not counted.

use refusals::Reason;
use serde_json::{Value, json};

use super::{Attributes, all, of_node, tags};
use crate::metrics::{Answered, Metrics, Port, RpcMethod};
use crate::site::beans::Bean;

const MILLIS_PER_S: f64 = 1000.0;

/// Counts of what this node never does: it defers no call, sends no caller away to come back
/// later, puts no call back, authorizes by tokens alone, and looks for no slow calls.
const NEVER: [&str; 7] = [
    "DeferredRpcProcessingTimeNumOps",
    "RpcAuthorizationFailures",
    "RpcClientBackoff",
    "RpcClientBackoffDisconnected",
    "RpcRequeueCalls",
    "RpcSlowCalls",
    "CallQueueLength",
];

/// Means of waits that there are not.
const NO_WAIT: [&str; 4] = [
    "DeferredRpcProcessingTimeAvgTime",
    "RpcEnQueueTimeAvgTime",
    "RpcLockWaitTimeAvgTime",
    "RpcQueueTimeAvgTime",
];

/// Counts that are 0 at a port on which nobody listens.
const OF_NO_PORT: [&str; 10] = [
    "ReceivedBytes",
    "SentBytes",
    "RpcAuthenticationSuccesses",
    "RpcAuthorizationSuccesses",
    "RpcResponseTimeNumOps",
    "NumInProcessHandler",
    "TotalRequestsPerSecond",
    "NumOpenConnections",
    "NumDroppedConnections",
    "RpcAuthenticationFailures",
];

/// Returns the beans of the port for ApplicationMasters.
pub(super) fn of_containers(host: &str, port: u16, metrics: &Metrics) -> [Bean; 2] {
    let methods = METHODS.map(|(method, _)| metrics.answered(method));
    let others = metrics.answered(RpcMethod::Other);
    let mut sum = others;
    for method in methods {
        sum.count += method.count;
        sum.done += method.done;
        sum.seconds += method.seconds;
    }
    let refusals = metrics.refusals(Port::ContainerManagement);
    let mut activity = activity(host, port, "ContainerManagementProtocolService", sum);
    activity.push((
        "RpcAuthenticationFailures",
        Some(json!(refusals.of(Reason::Unauthorized))),
    ));
    let mut detailed = detailed_tags(host, port);
    for ((_, names), answered) in METHODS.into_iter().zip(methods) {
        detailed.extend(of_method(names, answered));
    }
    [
        named("RpcActivityForPort", port, activity),
        named("RpcDetailedActivityForPort", port, detailed),
    ]
}

/// Returns the beans of the port for localizers, which a Java node starts as processes of their
/// own. There are none here, so nobody calls.
pub(super) fn of_localizers(host: &str, port: u16) -> [Bean; 2] {
    let service = "LocalizationProtocolService";
    let mut activity = activity(host, port, service, Answered::default());
    activity.push(("RpcResponseTimeAvgTime", Some(json!(0.0))));
    activity.push(("tag.NumOpenConnectionsPerUser", Some(json!("{}"))));
    activity.extend(all(&OF_NO_PORT, json!(0)));
    [
        named("RpcActivityForPort", port, activity),
        named(
            "RpcDetailedActivityForPort",
            port,
            detailed_tags(host, port),
        ),
    ]
}

fn named(kind: &str, port: u16, attributes: Attributes) -> Bean {
    let name = format!("{kind}{port}");
    of_node(&name, &name, attributes)
}

fn activity(host: &str, port: u16, service: &str, answered: Answered) -> Attributes {
    let count = Some(json!(answered.count));
    let mut attributes = Vec::from(tags("rpc", host));
    attributes.extend([
        ("tag.port", Some(json!(port.to_string()))),
        ("tag.serverName", Some(json!(service))),
        ("RpcProcessingTimeNumOps", count.clone()),
        ("RpcProcessingTimeAvgTime", Some(mean_ms(answered))),
        ("RpcEnQueueTimeNumOps", count.clone()),
        ("RpcLockWaitTimeNumOps", count.clone()),
        ("RpcQueueTimeNumOps", count.clone()),
        ("RpcCallSuccesses", Some(json!(answered.done))),
        ("TotalRequests", count),
    ]);
    attributes.extend(all(&NEVER, json!(0)));
    attributes.extend(all(&NO_WAIT, json!(0.0)));
    attributes
}

fn detailed_tags(host: &str, port: u16) -> Attributes {
    let mut attributes = Vec::from(tags("rpcdetailed", host));
    attributes.push(("tag.port", Some(json!(port.to_string()))));
    attributes
}

fn of_method(names: [&'static str; 6], answered: Answered) -> Attributes {
    let [count, mean, deferred, deferred_mean, overall, overall_mean] = names;
    vec![
        (count, Some(json!(answered.count))),
        (mean, Some(mean_ms(answered))),
        (deferred, Some(json!(0))),
        (deferred_mean, Some(json!(0.0))),
        (overall, Some(json!(answered.count))),
        (overall_mean, Some(mean_ms(answered))),
    ]
}

fn mean_ms(answered: Answered) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let count = answered.count.max(1) as f64;
    json!(answered.seconds * MILLIS_PER_S / count)
}

/// Methods of the port with the names of their numbers: calls and their mean, those that were
/// deferred, and calls with their waits.
const METHODS: [(RpcMethod, [&str; 6]); 12] = {
    macro_rules! methods {
        ($($method:ident),*) => {
            [$((RpcMethod::$method, [
                concat!(stringify!($method), "NumOps"),
                concat!(stringify!($method), "AvgTime"),
                concat!("Deferred", stringify!($method), "NumOps"),
                concat!("Deferred", stringify!($method), "AvgTime"),
                concat!("Overall", stringify!($method), "NumOps"),
                concat!("Overall", stringify!($method), "AvgTime"),
            ])),*]
        };
    }
    methods![
        StartContainers,
        StopContainers,
        GetContainerStatuses,
        IncreaseContainersResource,
        UpdateContainer,
        SignalToContainer,
        Localize,
        ReInitializeContainer,
        RestartContainer,
        RollbackLastReInitialization,
        CommitLastReInitialization,
        GetLocalizationStatuses
    ]
};
