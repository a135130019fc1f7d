//! A bean for each container (Hadoop: `ContainerMetrics`): its limits, its use from look to look,
//! and how long it took to bring it up.
//!
//! Numbers are those of the container's whole life and always there, whatever
//! `yarn.nodemanager.container-metrics.period-ms`, with which a Java node shows them only at the
//! container's end by default. Quantiles and figures of the last period are not kept.

use std::time::Duration;

use node_view::snapshot::{ContainerSnapshot, MemoryChecks, NodeSnapshot};
use records::ContainerExitStatus;
use sched::ContainerState;
use serde_json::{Value, json};

use super::{Attributes, of_node, tags};
use crate::metrics::{ContainerUse, Metrics, Statistics};
use crate::site::beans::Bean;

/// Percent of one processor.
const PERCENT: f64 = 100.0;

/// Returns a bean for each container that has been localized; one that has ended keeps it until the
/// next look.
pub(super) fn beans(node: &NodeSnapshot, metrics: &Metrics) -> impl Iterator<Item = Bean> {
    let uses = metrics.container_uses();
    let containers = node.containers.iter();
    containers.filter_map(move |container| {
        let known = uses.get(&container.id).copied();
        let has_ended = matches!(container.state, ContainerState::Done(_));
        if matches!(container.state, ContainerState::Localizing) || (has_ended && known.is_none()) {
            return None;
        }
        Some(bean_of(container, known.unwrap_or_default(), node))
    })
}

fn bean_of(container: &ContainerSnapshot, used: ContainerUse, node: &NodeSnapshot) -> Bean {
    let id = container.id.to_string();
    let mut attributes = Vec::from(tags("container", &node.about.node_id.host));
    let status = match container.exit_status {
        ContainerExitStatus::INVALID => 0,
        ContainerExitStatus(status) => status,
    };
    let millis = |took: Option<Duration>| {
        let millis = took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        Some(json!(millis.unwrap_or(0)))
    };
    attributes.extend([
        ("tag.ContainerResource", Some(json!(id))),
        (
            "tag.ContainerPid",
            used.pid.map(|pid| json!(pid.to_string())),
        ),
        ("pMemLimitMBs", Some(json!(container.resource.memory_mb))),
        (
            "vMemLimitMBs",
            Some(vmem_limit_mb(container, node.about.memory_checks)),
        ),
        ("vCoreLimit", Some(json!(container.resource.vcores))),
        ("localizationDurationMs", millis(used.localized_in)),
        ("launchDurationMs", millis(used.launched_in)),
        ("ExitCode", Some(json!(status))),
    ]);
    attributes.extend(statistics(PMEM, used.pmem_mb, 1.0));
    attributes.extend(statistics(PCPU, used.busy_processors, PERCENT));
    let name = format!("ContainerResource_{id}");
    of_node(&name, &name, attributes)
}

/// Returns the limit of virtual memory in MiB, rounded down.
fn vmem_limit_mb(container: &ContainerSnapshot, checks: MemoryChecks) -> Value {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a figure for people; Hadoop computes it so"
    )]
    let limit_mb = (container.resource.memory_mb as f64 * checks.vmem_pmem_ratio) as u64;
    json!(limit_mb)
}

/// Names of a number's statistics: count, mean, deviation, least and greatest.
type Names = [&'static str; 5];

const PMEM: Names = [
    "PMemUsageMBsNumUsage",
    "PMemUsageMBsAvgMBs",
    "PMemUsageMBsStdevMBs",
    "PMemUsageMBsMinMBs",
    "PMemUsageMBsMaxMBs",
];

const PCPU: Names = [
    "PCpuUsagePercentNumUsage",
    "PCpuUsagePercentAvgPercents",
    "PCpuUsagePercentStdevPercents",
    "PCpuUsagePercentMinPercents",
    "PCpuUsagePercentMaxPercents",
];

fn statistics(names: Names, of: Statistics, factor: f64) -> Attributes {
    let [count, mean, deviation, min, max] = names;
    let scaled = |number: f64| Some(json!(number * factor));
    vec![
        (count, Some(json!(of.count))),
        (mean, scaled(of.mean)),
        (deviation, scaled(of.deviation())),
        (min, scaled(of.min)),
        (max, scaled(of.max)),
    ]
}

#[cfg(test)]
mod tests {
    use container_runtime::monitor::{ContainerAccount, ContainerLook, Utilization};
    use sched::Ending;

    use super::*;
    use crate::fixture::{container, container_id, node};

    fn look(id: i64, pmem_mb: u64, cpu_vcores: f32) -> ContainerLook {
        ContainerLook {
            id: container_id(id),
            pid: 77,
            was_known: true,
            spec: None,
            used: Utilization {
                pmem_mb,
                vmem_mb: 0,
                cpu_vcores,
            },
            account: ContainerAccount::default(),
        }
    }

    #[test]
    fn a_bean_has_limits_use_and_times_and_goes_with_the_look_behind_the_end() {
        let mut node = node();
        let mut ended = container(2);
        ended.state = ContainerState::Done(Ending::Failed);
        ended.exit_status = ContainerExitStatus(3);
        let mut new = container(3);
        new.state = ContainerState::Localizing;
        node.containers = vec![container(1), ended, new];
        let metrics = Metrics::new();
        metrics.container_launched(container_id(1), Duration::from_millis(12));
        metrics.observe_containers(&[look(1, 100, 0.5), look(2, 7, 0.0)]);
        metrics.observe_containers(&[look(1, 200, 1.5), look(2, 7, 0.0)]);
        let shown: Vec<_> = beans(&node, &metrics).map(|it| it.document(None)).collect();
        let [running, ended] = shown.as_slice() else {
            panic!("{shown:?}");
        };
        assert_eq!(running["tag.ContainerPid"], "77");
        assert_eq!(running["PMemUsageMBsAvgMBs"], 150.0);
        assert_eq!(running["PMemUsageMBsMaxMBs"], 200.0);
        assert_eq!(running["PCpuUsagePercentAvgPercents"], 100.0);
        // 2.1 times 1,024.
        assert_eq!(running["vMemLimitMBs"], 2150);
        assert_eq!(running["launchDurationMs"], 12);
        assert_eq!(
            (&running["ExitCode"], &ended["ExitCode"]),
            (&json!(0), &json!(3))
        );
        metrics.observe_containers(&[look(1, 200, 1.5)]);
        assert_eq!(beans(&node, &metrics).count(), 1);
    }
}
