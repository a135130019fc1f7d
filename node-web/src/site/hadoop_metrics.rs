//! Numbers under Hadoop's names, for dashboards that were made for the Java NodeManager (Hadoop:
//! `NodeManagerMetrics`, `PrometheusMetricsSink`): a bean of `/jmx`, and `/prom`.
//!
//! What a name means is what it means in Hadoop: `Allocated…` counts what was accepted and is not
//! finished, waiting or not. Two things differ. The average of launches is that of the agent's
//! whole life and not of the last ten seconds; and numbers that this agent does not have are not
//! there, rather than 0.

use std::fmt::Write as _;

use hyper::StatusCode;
use node_view::snapshot::{ApplicationState, ContainerSnapshot, NodeNumbers, NodeSnapshot};
use sched::ContainerState;
use serde_json::{Value, json};

use super::answer::{Answer, METRICS, answer};
use super::beans::Bean;
use super::body::Body;
use crate::metrics::{Localizations, Look, Metrics};

/// The bean's name.
pub(super) const BEAN: &str = "Hadoop:service=NodeManager,name=NodeManagerMetrics";
const MIB_PER_GIB: u64 = 1024;

/// A number under Hadoop's name.
#[derive(Debug)]
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: Value,
}

const PREFIX: &str = "node_manager_metrics";
const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// Numbers of the bean at one moment.
#[derive(Debug)]
pub(super) struct HadoopMetrics {
    host: String,
    metrics: Vec<Metric>,
}

impl HadoopMetrics {
    /// Collects the numbers. What the scheduler counts is from `now`, and so is what is available
    /// while no container waits; the rest is from the containers of a snapshot that may be older.
    pub(super) fn of(node: &NodeSnapshot, now: &NodeNumbers, metrics: &Metrics) -> Self {
        let mut all = counters(node, metrics);
        all.extend(containers(node, now));
        all.extend(resources(node, now));
        all.extend(directories(node));
        all.extend(localizations(metrics));
        all.extend(look(&metrics.last_look().unwrap_or_default()));
        Self {
            host: node.about.node_id.host.clone(),
            metrics: all,
        }
    }

    /// Returns the numbers as a bean.
    pub(super) fn bean(&self) -> Bean {
        Bean::new(BEAN, "NodeManagerMetrics", self.attributes())
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
        for metric in &self.metrics {
            let name = prometheus_name(metric.name);
            let Metric {
                kind, help, value, ..
            } = metric;
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n\
                 {name}{{context=\"yarn\",hostname=\"{host}\"}} {value}\n"
            );
        }
        answer(StatusCode::OK, METRICS, Body::full(text))
    }
}

#[rustfmt::skip] // One number a line, however long.
fn directories(node: &NodeSnapshot) -> Vec<Metric> {
    let (local, log) = (node.about.local_dirs, node.about.log_dirs);
    vec![
        metric(GAUGE, "BadLocalDirs", "# of bad local dirs", local.bad),
        metric(GAUGE, "BadLogDirs", "# of bad log dirs", log.bad),
        metric(GAUGE, "GoodLocalDirsDiskUtilizationPerc", "Disk utilization % on good local dirs", local.good_utilization_percent),
        metric(GAUGE, "GoodLogDirsDiskUtilizationPerc", "Disk utilization % on good log dirs", log.good_utilization_percent),
    ]
}

/// Returns a metric's name in Prometheus' text (Hadoop: `PrometheusMetricsSink.prometheusName`): a
/// capital begins a word behind a small letter, or in front of one.
fn prometheus_name(name: &str) -> String {
    let mut text = PREFIX.to_owned();
    let mut last = 'a';
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let next_is_small = letters.peek().is_some_and(char::is_ascii_lowercase);
        if letter.is_ascii_uppercase() && (last.is_ascii_lowercase() || next_is_small) {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
        last = letter;
    }
    text
}

fn metric(
    kind: &'static str,
    name: &'static str,
    help: &'static str,
    value: impl Into<Value>,
) -> Metric {
    let value = value.into();
    Metric {
        name,
        kind,
        help,
        value,
    }
}

#[rustfmt::skip] // One number a line, however long.
fn counters(node: &NodeSnapshot, metrics: &Metrics) -> Vec<Metric> {
    let ends = metrics.container_ends();
    // Each container that was accepted has ended once, or is here.
    let launched = ends.completed + ends.failed + ends.killed + unfinished(node).count() as u64;
    let launches = metrics.launches();
    let average_ms = mean_ms(launches.count, launches.seconds);
    vec![
        metric(COUNTER, "ContainersLaunched", "# of containers launched", launched),
        metric(COUNTER, "ContainersCompleted", "Containers that ended with 0", ends.completed),
        metric(COUNTER, "ContainersFailed", "Containers that failed", ends.failed),
        metric(COUNTER, "ContainersKilled", "Containers that were ended", ends.killed),
        // Only an ApplicationMaster orders it here.
        metric(COUNTER, "ContainersRolledBackOnFailure", "Containers that the node has rolled back by itself", 0),
        metric(COUNTER, "ContainerLaunchDurationNumOps", "Launches that worked", launches.count),
        metric(GAUGE, "ContainerLaunchDurationAvgTime", "Mean time of a launch in milliseconds", average_ms),
    ]
}

#[rustfmt::skip] // One number a line, however long.
fn containers(node: &NodeSnapshot, now: &NodeNumbers) -> Vec<Metric> {
    let (counts, opportunistic) = (now.counts, &now.opportunistic);
    let queued_opportunistic = opportunistic.queued_opport_containers;
    let queued_guaranteed = counts.waiting.saturating_sub(queued_opportunistic);
    let initing = node
        .containers
        .iter()
        .filter(|container| matches!(container.state, ContainerState::Localizing))
        .count();
    let restarting = node
        .containers
        .iter()
        .filter(|container| matches!(container.state, ContainerState::Restarting))
        .count();
    let running_apps = node
        .applications
        .iter()
        .filter(|app| app.state != ApplicationState::Finished)
        .count();
    vec![
        metric(GAUGE, "ContainersIniting", "# of initializing containers", initing),
        metric(GAUGE, "ContainersReIniting", "# of containers that end for a restart", restarting),
        metric(GAUGE, "ContainersRunning", "# of running containers", counts.running_guaranteed + counts.running_opportunistic),
        metric(GAUGE, "ContainersPaused", "# of paused containers", now.paused),
        metric(GAUGE, "ContainersGuaranteedQueued", "Guaranteed containers that wait", queued_guaranteed),
        metric(GAUGE, "ContainersOpportunisticQueued", "Opportunistic containers that wait", queued_opportunistic),
        metric(GAUGE, "TakesOpportunisticContainers", "1 while the node takes opportunistic containers, else 0", usize::from(now.takes_opportunistic)),
        metric(GAUGE, "RunningOpportunisticContainers", "# of running opportunistic containers", opportunistic.running_opport_containers),
        metric(GAUGE, "ApplicationsRunning", "Applications that have not ended on this node", running_apps),
    ]
}

#[rustfmt::skip] // One number a line, however long.
fn resources(node: &NodeSnapshot, now: &NodeNumbers) -> Vec<Metric> {
    let opportunistic = &now.opportunistic;
    let mut count = 0_u64;
    let (mut memory_mb, mut vcores) = (now.allocated.memory_mb, u64::from(now.allocated.vcores));
    for container in unfinished(node) {
        count += 1;
        let is_waiting = matches!(container.state, ContainerState::Queued { .. } | ContainerState::Paused { .. });
        if container.state.holds_room() || (is_waiting && now.counts.waiting == 0) {
            continue;
        }
        memory_mb = memory_mb.saturating_add(container.resource.memory_mb);
        vcores += u64::from(container.resource.vcores);
    }
    // What is held for containers on their way is not there for others who look.
    let available_mb = i128::from(now.total.memory_mb) - i128::from(memory_mb) - i128::from(now.held.memory_mb);
    let available_gb = available_mb.div_euclid(i128::from(MIB_PER_GIB));
    let available_vcores = i128::from(now.total.vcores) - i128::from(vcores) - i128::from(now.held.vcores);
    vec![
        metric(GAUGE, "AllocatedContainers", "Containers that were accepted and are not finished", count),
        metric(GAUGE, "AllocatedGB", "Memory of the allocated containers in GB, rounded up", memory_mb.div_ceil(MIB_PER_GIB)),
        metric(GAUGE, "AvailableGB", "What is left of the node's memory in GB, rounded down; below 0 when some wait", clamped(available_gb)),
        metric(GAUGE, "AvailableMB", "The same in MB", clamped(available_mb)),
        metric(GAUGE, "AllocatedVCores", "Virtual cores of the allocated containers", vcores),
        metric(GAUGE, "AvailableVCores", "What is left of the node's virtual cores; below 0 when some wait", clamped(available_vcores)),
        metric(GAUGE, "AllocatedOpportunisticGB", "Memory of running opportunistic containers in GB, rounded up", opportunistic.opport_memory_used_mb.div_ceil(MIB_PER_GIB)),
        metric(GAUGE, "AllocatedOpportunisticVCores", "Virtual cores of running opportunistic containers", opportunistic.opport_cores_used),
    ]
}

#[rustfmt::skip] // One number a line, however long.
fn localizations(metrics: &Metrics) -> Vec<Metric> {
    let Localizations { count, seconds, hits, misses } = metrics.localizations();
    vec![
        metric(COUNTER, "LocalizationDurationMillisNumOps", "Containers whose resources came", count),
        metric(GAUGE, "LocalizationDurationMillisAvgTime", "Mean time until they were there, in milliseconds", mean_ms(count, seconds)),
        metric(COUNTER, "LocalizedCacheHitFiles", "Resources that were in the cache", hits.files),
        metric(COUNTER, "LocalizedCacheMissFiles", "Resources that were downloaded", misses.files),
        metric(COUNTER, "LocalizedCacheHitBytes", "Size of those in the cache", hits.bytes),
        metric(COUNTER, "LocalizedCacheMissBytes", "Size of those downloaded", misses.bytes),
        metric(GAUGE, "LocalizedCacheHitFilesRatio", "Part of the resources that was in the cache, in percent", percent(hits.files, misses.files)),
        metric(GAUGE, "LocalizedCacheHitBytesRatio", "Part of the bytes that was in the cache, in percent", percent(hits.bytes, misses.bytes)),
    ]
}

#[rustfmt::skip] // One number a line, however long.
fn look(look: &Look) -> Vec<Metric> {
    let Look { node, containers, took } = look;
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    vec![
        metric(GAUGE, "ContainerUsedMemGB", "Memory that containers use in GB, rounded down", containers.pmem_mb / MIB_PER_GIB),
        metric(GAUGE, "ContainerUsedVMemGB", "Virtual memory that containers use in GB, rounded down", containers.vmem_mb / MIB_PER_GIB),
        metric(GAUGE, "ContainerCpuUtilization", "Processors that containers keep busy", containers.cpu_vcores),
        metric(GAUGE, "NodeUsedMemGB", "Memory of the machine in use in GB, rounded down", node.pmem_mb / MIB_PER_GIB),
        metric(GAUGE, "NodeUsedVMemGB", "Virtual memory of the machine in use in GB, rounded down", node.vmem_mb / MIB_PER_GIB),
        metric(GAUGE, "NodeCpuUtilization", "Processors of the machine that are busy", node.cpu_vcores),
        // There are none that this agent would use.
        metric(GAUGE, "NodeGpuUtilization", "GPUs of the machine that are busy", 0.0),
        metric(GAUGE, "ContainersMonitorCostTime", "Time that measuring took in milliseconds", took_ms),
    ]
}

/// Returns the mean of durations in milliseconds; 0 of none, as in Hadoop.
fn mean_ms(count: u64, seconds: f64) -> f64 {
    if count == 0 {
        0.0
    } else {
        seconds * 1000.0 / count as f64
    }
}

/// Returns the first part of a whole in percent, rounded down; 0 of nothing, as in Hadoop.
fn percent(part: u64, rest: u64) -> u64 {
    let whole = u128::from(part) + u128::from(rest);
    let percent = (u128::from(part) * 100).checked_div(whole);
    percent.map_or(0, |percent| u64::try_from(percent).unwrap_or(100))
}

fn unfinished(node: &NodeSnapshot) -> impl Iterator<Item = &ContainerSnapshot> + '_ {
    let finished = |state| matches!(state, ContainerState::Done(_));
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
    use serde_json::Map;

    use records::{ContainerExitStatus, ExecutionType, Resource};
    use sched::{Completion, Ending};

    use super::*;
    use crate::fixture::{container, container_id, node};

    fn values(node: &NodeSnapshot, metrics: &Metrics) -> Map<String, Value> {
        HadoopMetrics::of(node, &node.numbers, metrics)
            .attributes()
            .collect()
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
        done.state = ContainerState::Done(Ending::Succeeded);
        node.containers = vec![container(1), container(2), done];
        let values = values(&node, &metrics);
        assert_eq!(values["ContainersCompleted"], 1);
        assert_eq!(values["ContainersFailed"], 3);
        assert_eq!(values["ContainersKilled"], 3);
        assert_eq!(values["ContainersLaunched"], 9);
        assert_eq!(values["AllocatedContainers"], 2);
    }

    #[test]
    fn prometheus_names_are_hadoops() {
        for (name, expected) in [
            ("ContainersLaunched", "containers_launched"),
            ("AllocatedGB", "allocated_gb"),
            ("AllocatedVCores", "allocated_v_cores"),
            (
                "AllocatedOpportunisticVCores",
                "allocated_opportunistic_v_cores",
            ),
            (
                "ContainerLaunchDurationNumOps",
                "container_launch_duration_num_ops",
            ),
        ] {
            let expected = format!("node_manager_metrics_{expected}");
            assert_eq!(prometheus_name(name), expected);
        }
    }

    #[test]
    fn memory_is_rounded_to_gigabytes_against_the_node_and_may_be_short() {
        let mut node = node();
        node.numbers.total = Resource::new(2048, 3);
        node.numbers.allocated = Resource::new(2049, 4);
        node.containers = vec![container(1), container(2)];
        node.containers[1].resource = Resource::new(1025, 2);
        let values = values(&node, &Metrics::new());
        assert_eq!(values["AllocatedGB"], 3);
        assert_eq!(values["AvailableGB"], -1);
        assert_eq!(values["AvailableMB"], -1);
        assert_eq!(values["AllocatedVCores"], 4);
        assert_eq!(values["AvailableVCores"], -1);
        assert_eq!(values["tag.Hostname"], "node-1.example");
    }

    #[test]
    fn what_is_available_is_that_of_the_moment_while_none_waits() {
        let mut node = node();
        node.containers = vec![container(1), container(2), container(3)];
        node.containers[1].state = ContainerState::Localizing;
        // One that ran has ended since, and one that waited has started.
        let place = sched::QueuePlace::fifo(1);
        node.containers[2].state = ContainerState::Queued { place };
        node.numbers.total = Resource::new(8192, 8);
        node.numbers.allocated = Resource::new(1024, 2);
        let now = values(&node, &Metrics::new());
        assert_eq!(
            (&now["AvailableGB"], &now["AvailableVCores"]),
            (&6.into(), &4.into())
        );
        assert_eq!(now["AvailableMB"], 6_144);
        assert_eq!(now["TakesOpportunisticContainers"], 1);
        node.numbers.takes_opportunistic = false;
        assert_eq!(
            values(&node, &Metrics::new())["TakesOpportunisticContainers"],
            0
        );
        node.numbers.counts.waiting = 1;
        let now = values(&node, &Metrics::new());
        assert_eq!(
            (&now["AvailableGB"], &now["AvailableVCores"]),
            (&5.into(), &2.into())
        );
    }

    #[test]
    fn what_runs_and_waits_is_that_of_the_moment() {
        let mut node = node();
        // The containers are those of an older snapshot.
        node.containers = vec![container(1), container(2), container(3)];
        let numbers = &mut node.numbers;
        numbers.counts.running_guaranteed = 4;
        numbers.counts.running_opportunistic = 1;
        numbers.counts.waiting = 7;
        numbers.paused = 1;
        numbers.opportunistic.queued_opport_containers = 5;
        let now = values(&node, &Metrics::new());
        assert_eq!(now["ContainersRunning"], 5);
        assert_eq!(now["ContainersGuaranteedQueued"], 2);
        assert_eq!(now["ContainersOpportunisticQueued"], 5);
        assert_eq!(now["ContainersPaused"], 1);
    }
}
