//! Gauges of the node: set from a snapshot, never counted along.

use container_runtime::isolation::Availability;
use prometheus::{Gauge, IntGauge};
use records::Resource;

use super::family::{Maker, PerLabel, PerPair};
use super::labels::{Label as _, Share, StateLabel, TypeLabel};
use super::queue::QueueGauges;
use crate::snapshot::NodeSnapshot;

const MEBIBYTE: u64 = 1024 * 1024;

/// See the help texts.
#[derive(Debug)]
pub(super) struct NodeGauges {
    running: PerLabel<TypeLabel, IntGauge>,
    queued: PerLabel<TypeLabel, IntGauge>,
    paused: IntGauge,
    by_state: PerPair<TypeLabel, StateLabel, IntGauge>,
    frozen_memory_bytes: IntGauge,
    containers: IntGauge,
    applications: IntGauge,
    queue: QueueGauges,
    memory_bytes: PerLabel<Share, IntGauge>,
    vcores: PerLabel<Share, IntGauge>,
    registered: IntGauge,
    healthy: IntGauge,
    cgroups_in_use: IntGauge,
    cgroups_missing: IntGauge,
    start_time_seconds: Gauge,
}

impl NodeGauges {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            running: maker.gauges(
                "nm_agent_containers_running",
                "Containers with a process that is not frozen.",
            ),
            queued: maker.gauges(
                "nm_agent_containers_queued",
                "Containers that wait for room and were never started.",
            ),
            paused: maker.gauge(
                "nm_agent_containers_paused",
                "Opportunistic containers frozen to make room.",
            ),
            by_state: maker.gauge_pairs(
                "nm_agent_containers",
                "Containers that this node knows, by where they are in their lives.",
            ),
            frozen_memory_bytes: maker.gauge(
                "nm_agent_frozen_memory_bytes",
                "Memory that paused containers hold.",
            ),
            containers: maker.gauge(
                "nm_agent_containers_known",
                "Containers of any state, finished ones that the RM has not acknowledged too.",
            ),
            applications: maker.gauge(
                "nm_agent_applications_known",
                "Applications of any state on this node.",
            ),
            queue: QueueGauges::new(maker),
            memory_bytes: maker.gauges(
                "nm_agent_memory_bytes",
                "Memory of the node, and what containers with a process hold of it.",
            ),
            vcores: maker.gauges(
                "nm_agent_vcores",
                "Virtual cores of the node, and what containers with a process hold of them.",
            ),
            registered: maker.gauge(
                "nm_agent_registered",
                "1 while the RM accepts this node's heartbeats.",
            ),
            healthy: maker.gauge(
                "nm_agent_healthy",
                "1 while the node reports itself healthy.",
            ),
            cgroups_in_use: maker.gauge(
                "nm_agent_cgroups_in_use",
                "1 while containers run in cgroups.",
            ),
            cgroups_missing: maker.gauge(
                "nm_agent_cgroups_missing",
                "1 while something that the configuration asks of cgroups cannot be had.",
            ),
            start_time_seconds: maker.float_gauge(
                "nm_agent_start_time_seconds",
                "When the agent started, in seconds since 1970-01-01 UTC.",
            ),
        }
    }

    pub(super) fn set(&self, node: &NodeSnapshot) {
        let counts = &node.counts;
        for (gauges, count) in [
            (&self.running, counts.running),
            (&self.queued, counts.queued),
        ] {
            gauges
                .of(TypeLabel::Guaranteed)
                .set(i64::from(count.guaranteed));
            gauges
                .of(TypeLabel::Opportunistic)
                .set(i64::from(count.opportunistic));
        }
        self.paused.set(i64::from(counts.paused));
        self.set_states(node);
        self.frozen_memory_bytes
            .set(clamped(node.frozen_memory_mb.saturating_mul(MEBIBYTE)));
        self.containers.set(clamped(node.containers.len()));
        self.applications.set(clamped(node.applications.len()));
        self.queue.set(node);
        let opportunistic = Resource::new(
            node.opportunistic.opport_memory_used_mb,
            node.opportunistic.opport_cores_used,
        );
        self.set_share(Share::Total, node.total);
        self.set_share(Share::Allocated, node.allocated);
        self.set_share(Share::Opportunistic, opportunistic);
        self.registered.set(i64::from(node.registered));
        self.healthy.set(i64::from(node.health.healthy));
        self.start_time_seconds
            .set(node.started_at.0 as f64 / 1000.0);
    }

    pub(super) fn set_isolation(&self, availability: &Availability) {
        self.cgroups_in_use.set(i64::from(availability.is_used()));
        self.cgroups_missing.set(i64::from(availability.lacks()));
    }

    fn set_states(&self, node: &NodeSnapshot) {
        let mut counts = vec![[0_i64; StateLabel::ALL.len()]; TypeLabel::ALL.len()];
        for container in &node.containers {
            let execution_type = TypeLabel::from(container.execution_type).index();
            counts[execution_type][StateLabel::from(container.state).index()] += 1;
        }
        for execution_type in TypeLabel::ALL {
            for state in StateLabel::ALL {
                let count = counts[execution_type.index()][state.index()];
                self.by_state.of(*execution_type, *state).set(count);
            }
        }
    }

    fn set_share(&self, share: Share, amount: Resource) {
        self.memory_bytes
            .of(share)
            .set(clamped(amount.memory_mb.saturating_mul(MEBIBYTE)));
        self.vcores.of(share).set(i64::from(amount.vcores));
    }
}

/// As a gauge holds it. No real amount comes near the largest.
fn clamped(amount: impl TryInto<i64>) -> i64 {
    amount.try_into().unwrap_or(i64::MAX)
}
