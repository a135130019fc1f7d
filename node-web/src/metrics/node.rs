//! Gauges of the node: read from a snapshot, never counted along.

use container_runtime::isolation::Availability;
use node_view::snapshot::NodeSnapshot;
use prometheus::{Gauge, IntGauge};
use records::{PerExecutionType, Resource};

use super::family::{Maker, PerLabel, PerPair};
use super::labels::{Label as _, Share, StateLabel, TypeLabel};

const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// Name, help and value of a gauge without labels.
type Row = (&'static str, &'static str, fn(&NodeSnapshot) -> f64);

const GAUGES: [Row; 18] = [
    (
        "nm_agent_containers_paused",
        "Opportunistic containers frozen to make room.",
        |node| node.counts().paused.into(),
    ),
    (
        "nm_agent_frozen_memory_bytes",
        "Memory that paused containers hold.",
        |node| node.numbers.frozen_memory_mb as f64 * MEBIBYTE,
    ),
    (
        "nm_agent_containers_known",
        "Containers of any state, finished ones that the RM has not acknowledged too.",
        |node| node.containers.len() as f64,
    ),
    (
        "nm_agent_applications_known",
        "Applications of any state on this node.",
        |node| node.applications.len() as f64,
    ),
    (
        "nm_agent_queue_capacity_containers",
        "Opportunistic containers that may wait, by this node's configuration.",
        |node| node.numbers.opportunistic.opport_queue_capacity.into(),
    ),
    (
        "nm_agent_queue_wait_estimate_seconds",
        "Wait of one more opportunistic container as last told to the RM; NaN if none would be taken.",
        |node| {
            let estimate = node.numbers.opportunistic.estimated_queue_wait_ms;
            estimate.map_or(f64::NAN, |millis| f64::from(millis) / 1000.0)
        },
    ),
    (
        "nm_agent_queue_limit_containers",
        "Opportunistic containers that may wait, by the RM; +Inf without a limit.",
        |node| {
            let length = node.numbers.limit_length();
            length.map_or(f64::INFINITY, |length| length as f64)
        },
    ),
    (
        "nm_agent_queue_wait_limit_seconds",
        "Estimated wait that the RM allows; +Inf without a limit.",
        |node| {
            let wait = node.numbers.limit_wait_ms();
            wait.map_or(f64::INFINITY, |millis| millis as f64 / 1000.0)
        },
    ),
    (
        "nm_agent_registered",
        "1 while the RM accepts this node's heartbeats.",
        |node| f64::from(u8::from(node.is_registered())),
    ),
    (
        "nm_agent_healthy",
        "1 while the node reports itself healthy.",
        |node| f64::from(u8::from(node.about.health.healthy)),
    ),
    (
        "nm_agent_draining",
        "1 while an operator has the node drained.",
        |node| f64::from(u8::from(node.about.drain.is_some())),
    ),
    (
        "nm_agent_recovery_held_works",
        "Works of an earlier agent that wait, after a crash, until others have gone well.",
        |node| node.about.recovery.held as f64,
    ),
    (
        "nm_agent_recovery_failed_works",
        "Works of an earlier agent that failed at this agent's start, after two crashes in a row.",
        |node| f64::from(u8::from(node.about.recovery.failed.is_some())),
    ),
    (
        "nm_agent_bad_local_dirs",
        "Local directories that get no new files, because they have failed or are full.",
        |node| node.about.local_dirs.bad.into(),
    ),
    (
        "nm_agent_bad_log_dirs",
        "Log directories that get no new files, because they have failed or are full.",
        |node| node.about.log_dirs.bad.into(),
    ),
    (
        "nm_agent_good_local_dirs_used_ratio",
        "Used part of the disks of the good local directories together.",
        |node| f64::from(node.about.local_dirs.good_utilization_percent) / 100.0,
    ),
    (
        "nm_agent_good_log_dirs_used_ratio",
        "Used part of the disks of the good log directories together.",
        |node| f64::from(node.about.log_dirs.good_utilization_percent) / 100.0,
    ),
    (
        "nm_agent_start_time_seconds",
        "When the agent started, in seconds since 1970-01-01 UTC.",
        |node| node.about.started_at.0 as f64 / 1000.0,
    ),
];

/// See the help texts.
#[derive(Debug)]
pub(super) struct NodeGauges {
    /// In the order of [`GAUGES`].
    plain: [Gauge; GAUGES.len()],
    running: PerLabel<TypeLabel, IntGauge>,
    queued: PerLabel<TypeLabel, IntGauge>,
    by_state: PerPair<TypeLabel, StateLabel, IntGauge>,
    memory_bytes: PerLabel<Share, Gauge>,
    vcores: PerLabel<Share, IntGauge>,
    cgroups_in_use: IntGauge,
    cgroups_missing: IntGauge,
}

impl NodeGauges {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            plain: GAUGES.map(|(name, help, _)| maker.float_gauge(name, help)),
            running: maker.gauges(
                "nm_agent_containers_running",
                "Containers with a process that is not frozen.",
            ),
            queued: maker.gauges(
                "nm_agent_containers_queued",
                "Containers that wait for room and were never started.",
            ),
            by_state: maker.gauge_pairs(
                "nm_agent_containers",
                "Containers that this node knows, by where they are in their lives.",
            ),
            memory_bytes: maker.float_gauges(
                "nm_agent_memory_bytes",
                "Memory of the node, and what containers with a process hold of it.",
            ),
            vcores: maker.gauges(
                "nm_agent_vcores",
                "Virtual cores of the node, and what containers with a process hold of them.",
            ),
            cgroups_in_use: maker.gauge(
                "nm_agent_cgroups_in_use",
                "1 while containers run in cgroups.",
            ),
            cgroups_missing: maker.gauge(
                "nm_agent_cgroups_missing",
                "1 while something that the configuration asks of cgroups cannot be had.",
            ),
        }
    }

    pub(super) fn set(&self, node: &NodeSnapshot) {
        for (gauge, (_, _, value)) in self.plain.iter().zip(GAUGES) {
            gauge.set(value(node));
        }
        let counts = node.counts();
        set_types(&self.running, counts.running);
        set_types(&self.queued, counts.queued);
        self.set_states(node);
        let numbers = &node.numbers;
        let opportunistic = Resource::new(
            numbers.opportunistic.opport_memory_used_mb,
            numbers.opportunistic.opport_cores_used,
        );
        for (share, amount) in [
            (Share::Total, numbers.total),
            (Share::Allocated, numbers.allocated),
            (Share::Opportunistic, opportunistic),
        ] {
            let bytes = amount.memory_mb as f64 * MEBIBYTE;
            self.memory_bytes.of(share).set(bytes);
            self.vcores.of(share).set(i64::from(amount.vcores));
        }
    }

    pub(super) fn set_isolation(&self, availability: &Availability) {
        self.cgroups_in_use.set(i64::from(availability.is_used()));
        self.cgroups_missing.set(i64::from(availability.lacks()));
    }

    fn set_states(&self, node: &NodeSnapshot) {
        let mut counts = vec![[0_i64; StateLabel::ALL.len()]; TypeLabel::ALL.len()];
        for container in &node.containers {
            let execution_type = TypeLabel::from(container.execution_type).index();
            counts[execution_type][StateLabel::from(container.rest_state()).index()] += 1;
        }
        for execution_type in TypeLabel::ALL {
            for state in StateLabel::ALL {
                let count = counts[execution_type.index()][state.index()];
                self.by_state.of(*execution_type, *state).set(count);
            }
        }
    }
}

fn set_types(gauges: &PerLabel<TypeLabel, IntGauge>, counts: PerExecutionType) {
    for (label, count) in [
        (TypeLabel::Guaranteed, counts.guaranteed),
        (TypeLabel::Opportunistic, counts.opportunistic),
    ] {
        gauges.of(label).set(i64::from(count));
    }
}
