//! `/jmx` and `/prom`: numbers under Hadoop's names, for dashboards that were made for the Java
//! NodeManager (Hadoop: `NodeManagerMetrics`, `JMXJsonServlet`, `PrometheusMetricsSink`).
//!
//! What a name means is what it means in Hadoop: `Allocated…` counts what was accepted and is not
//! finished, waiting or not. Two things differ. The average of launches is that of the agent's
//! whole life and not of the last ten seconds; and numbers that this agent does not have are not
//! there, rather than 0.

use std::fmt::Write as _;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::answer::{Answer, JSON, METRICS, answer};
use super::body::Body;
use super::target::Target;
use crate::metrics::Metrics;
use crate::snapshot::{ApplicationState, ContainerRestState, NodeSnapshot};

/// The bean's name.
const BEAN: &str = "Hadoop:service=NodeManager,name=NodeManagerMetrics";
const MIB_PER_GIB: u64 = 1024;

/// A number with its names.
#[derive(Debug)]
struct Metric {
    name: &'static str,
    /// In Hadoop's Prometheus text, behind [`PREFIX`].
    prometheus: &'static str,
    kind: &'static str,
    help: &'static str,
    value: Value,
}

const PREFIX: &str = "node_manager_metrics_";
const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// Numbers of the bean at one moment.
#[derive(Debug)]
pub(super) struct HadoopMetrics {
    host: String,
    metrics: Vec<Metric>,
}

impl HadoopMetrics {
    pub(super) fn of(node: &NodeSnapshot, metrics: &Metrics) -> Self {
        let mut all = counters(node, metrics);
        all.extend(containers(node));
        all.extend(resources(node));
        Self {
            host: node.node_id.host.clone(),
            metrics: all,
        }
    }

    /// `/jmx?qry=PATTERN` or `/jmx?get=BEAN::ATTRIBUTE`.
    pub(super) fn jmx(&self, target: &Target) -> Answer {
        let mut bean = Map::from_iter([
            ("name".to_owned(), json!(BEAN)),
            ("modelerType".to_owned(), json!("NodeManagerMetrics")),
        ]);
        if let Some(wanted) = target.parameter("get") {
            let Some((name, attribute)) = wanted.split_once("::") else {
                let why = "query format is not as expected.";
                return document(StatusCode::BAD_REQUEST, &refusal(why));
            };
            let found = self.attributes().find(|(name, _)| name == attribute);
            let Some((attribute, value)) = found.filter(|_| name == BEAN) else {
                let why = format!("No attribute with name {attribute} was found.");
                return document(StatusCode::NOT_FOUND, &refusal(&why));
            };
            bean.insert(attribute, value);
            return document(StatusCode::OK, &json!({"beans": [bean]}));
        }
        let wanted = target.parameter("qry").is_none_or(matches_bean);
        let beans = if wanted {
            bean.extend(self.attributes());
            vec![bean]
        } else {
            Vec::new()
        };
        document(StatusCode::OK, &json!({"beans": beans}))
    }

    /// Names and values of the bean.
    fn attributes(&self) -> impl Iterator<Item = (String, Value)> {
        let tags = [
            ("tag.Context".to_owned(), json!("yarn")),
            ("tag.Hostname".to_owned(), json!(self.host)),
        ];
        let numbers = self
            .metrics
            .iter()
            .map(|metric| (metric.name.to_owned(), metric.value.clone()));
        tags.into_iter().chain(numbers)
    }

    /// Answers `/prom`, in Prometheus' text form.
    pub(super) fn prom(&self) -> Answer {
        let mut text = String::new();
        let host = self.host.replace(['\\', '"', '\n'], "");
        for Metric {
            prometheus,
            kind,
            help,
            value,
            ..
        } in &self.metrics
        {
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "# HELP {PREFIX}{prometheus} {help}\n# TYPE {PREFIX}{prometheus} {kind}\n\
                 {PREFIX}{prometheus}{{context=\"yarn\",hostname=\"{host}\"}} {value}\n"
            );
        }
        answer(StatusCode::OK, METRICS, Body::full(text))
    }
}

/// Whether a pattern of names, with at most one `*` that counts, is one of the bean. An empty one
/// is of all, as in Java.
fn matches_bean(pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern.is_empty() || pattern == BEAN,
        Some((begin, end)) => {
            let end = end.trim_start_matches([':', ',', '*']);
            BEAN.starts_with(begin) && BEAN.ends_with(end)
        }
    }
}

fn refusal(why: &str) -> Value {
    json!({"result": "ERROR", "message": why})
}

fn document(status: StatusCode, document: &Value) -> Answer {
    answer(status, JSON, Body::full(document.to_string()))
}

fn metric(
    (name, prometheus): (&'static str, &'static str),
    kind: &'static str,
    help: &'static str,
    value: impl Into<Value>,
) -> Metric {
    Metric {
        name,
        prometheus,
        kind,
        help,
        value: value.into(),
    }
}

fn counters(node: &NodeSnapshot, metrics: &Metrics) -> Vec<Metric> {
    let ends = metrics.container_ends();
    // Each container that was accepted has ended once, or is here.
    let launched = ends.completed + ends.failed + ends.killed + unfinished(node).count() as u64;
    let launches = metrics.launches();
    let average_ms = if launches.count == 0 {
        0.0
    } else {
        launches.seconds * 1000.0 / launches.count as f64
    };
    vec![
        metric(
            ("ContainersLaunched", "containers_launched"),
            COUNTER,
            "# of containers launched",
            launched,
        ),
        metric(
            ("ContainersCompleted", "containers_completed"),
            COUNTER,
            "Containers that ended with 0",
            ends.completed,
        ),
        metric(
            ("ContainersFailed", "containers_failed"),
            COUNTER,
            "Containers that failed",
            ends.failed,
        ),
        metric(
            ("ContainersKilled", "containers_killed"),
            COUNTER,
            "Containers that were ended",
            ends.killed,
        ),
        metric(
            (
                "ContainerLaunchDurationNumOps",
                "container_launch_duration_num_ops",
            ),
            COUNTER,
            "Launches that worked",
            launches.count,
        ),
        metric(
            (
                "ContainerLaunchDurationAvgTime",
                "container_launch_duration_avg_time",
            ),
            GAUGE,
            "Mean time of a launch in milliseconds",
            average_ms,
        ),
    ]
}

fn containers(node: &NodeSnapshot) -> Vec<Metric> {
    let counts = &node.counts;
    let initing = node
        .containers
        .iter()
        .filter(|container| {
            matches!(
                container.state,
                ContainerRestState::New | ContainerRestState::Localizing
            )
        })
        .count();
    let running_apps = node
        .applications
        .iter()
        .filter(|app| app.state != ApplicationState::Finished)
        .count();
    vec![
        metric(
            ("ContainersIniting", "containers_initing"),
            GAUGE,
            "# of initializing containers",
            initing,
        ),
        metric(
            ("ContainersRunning", "containers_running"),
            GAUGE,
            "# of running containers",
            counts.running.guaranteed + counts.running.opportunistic,
        ),
        metric(
            ("ContainersPaused", "containers_paused"),
            GAUGE,
            "# of paused containers",
            counts.paused,
        ),
        metric(
            ("ContainersGuaranteedQueued", "containers_guaranteed_queued"),
            GAUGE,
            "Guaranteed containers that wait",
            counts.queued.guaranteed,
        ),
        metric(
            (
                "ContainersOpportunisticQueued",
                "containers_opportunistic_queued",
            ),
            GAUGE,
            "Opportunistic containers that wait",
            node.opportunistic.queued_opport_containers,
        ),
        metric(
            (
                "RunningOpportunisticContainers",
                "running_opportunistic_containers",
            ),
            GAUGE,
            "# of running opportunistic containers",
            node.opportunistic.running_opport_containers,
        ),
        metric(
            ("ApplicationsRunning", "applications_running"),
            GAUGE,
            "Applications that have not ended on this node",
            running_apps,
        ),
    ]
}

fn resources(node: &NodeSnapshot) -> Vec<Metric> {
    let (mut count, mut memory_mb, mut vcores) = (0_u64, 0_u64, 0_u64);
    for container in unfinished(node) {
        count += 1;
        memory_mb = memory_mb.saturating_add(container.resource.memory_mb);
        vcores += u64::from(container.resource.vcores);
    }
    let available_mb = i128::from(node.total.memory_mb) - i128::from(memory_mb);
    let available_gb = available_mb.div_euclid(i128::from(MIB_PER_GIB));
    let available_vcores = i128::from(node.total.vcores) - i128::from(vcores);
    vec![
        metric(
            ("AllocatedContainers", "allocated_containers"),
            GAUGE,
            "Containers that were accepted and are not finished",
            count,
        ),
        metric(
            ("AllocatedGB", "allocated_gb"),
            GAUGE,
            "Memory of the allocated containers in GB, rounded up",
            memory_mb.div_ceil(MIB_PER_GIB),
        ),
        metric(
            ("AvailableGB", "available_gb"),
            GAUGE,
            "What is left of the node's memory in GB, rounded down; below 0 when some wait",
            clamped(available_gb),
        ),
        metric(
            ("AllocatedVCores", "allocated_v_cores"),
            GAUGE,
            "Virtual cores of the allocated containers",
            vcores,
        ),
        metric(
            ("AvailableVCores", "available_v_cores"),
            GAUGE,
            "What is left of the node's virtual cores; below 0 when some wait",
            clamped(available_vcores),
        ),
        metric(
            ("AllocatedOpportunisticGB", "allocated_opportunistic_gb"),
            GAUGE,
            "Memory of running opportunistic containers in GB, rounded up",
            node.opportunistic
                .opport_memory_used_mb
                .div_ceil(MIB_PER_GIB),
        ),
        metric(
            (
                "AllocatedOpportunisticVCores",
                "allocated_opportunistic_v_cores",
            ),
            GAUGE,
            "Virtual cores of running opportunistic containers",
            node.opportunistic.opport_cores_used,
        ),
    ]
}

fn unfinished(
    node: &NodeSnapshot,
) -> impl Iterator<Item = &crate::snapshot::ContainerSnapshot> + '_ {
    let finished = |state| matches!(state, ContainerRestState::Done);
    node.containers
        .iter()
        .filter(move |container| !finished(container.state))
}

/// No sum of sizes comes near the ends of the type.
fn clamped(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use records::{ContainerExitStatus, ExecutionType, Resource};
    use sched::Completion;

    use super::*;
    use crate::snapshot::fixture::{container, container_id, node};

    fn values(node: &NodeSnapshot, metrics: &Metrics) -> Map<String, Value> {
        HadoopMetrics::of(node, metrics).attributes().collect()
    }

    #[test]
    fn ends_count_in_hadoops_three_classes_and_what_lives_was_launched_too() {
        let metrics = Metrics::new();
        for status in [0, 1, 137, -1, -105, -108, -108] {
            metrics.observe_completion(&Completion {
                id: container_id(1),
                exit_status: ContainerExitStatus(status),
                execution_type: ExecutionType::Opportunistic,
            });
        }
        let mut node = node();
        let mut done = container(3);
        done.state = ContainerRestState::Done;
        node.containers = vec![container(1), container(2), done];
        let values = values(&node, &metrics);
        assert_eq!(values["ContainersCompleted"], 1);
        assert_eq!(values["ContainersFailed"], 3);
        assert_eq!(values["ContainersKilled"], 3);
        assert_eq!(values["ContainersLaunched"], 9);
        assert_eq!(values["AllocatedContainers"], 2);
    }

    #[test]
    fn memory_is_rounded_to_gigabytes_against_the_node_and_may_be_short() {
        let mut node = node();
        node.total = Resource::new(2048, 3);
        node.containers = vec![container(1), container(2)];
        node.containers[1].resource = Resource::new(1025, 2);
        let values = values(&node, &Metrics::new());
        assert_eq!(values["AllocatedGB"], 3);
        assert_eq!(values["AvailableGB"], -1);
        assert_eq!(values["AllocatedVCores"], 4);
        assert_eq!(values["AvailableVCores"], -1);
        assert_eq!(values["tag.Hostname"], "node-1.example");
    }
}
