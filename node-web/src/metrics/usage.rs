//! Series of what the monitor measures: use of the machine by class, pressure, and what measuring
//! costs.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use container_runtime::monitor::{Pressure, Sample, Stalls, Utilization};
use prometheus::{Counter, Gauge, Histogram, IntGauge};

use super::family::{Maker, PerLabel, PerPair, PerTriple};
use super::labels::{PressureLabel, StallLabel, TypeLabel};

const MEBIBYTE: u64 = 1024 * 1024;

/// Seconds. A look at some containers takes a millisecond, at a thousand some tens.
const LOOK_BUCKETS: [f64; 9] = [0.000_1, 0.001, 0.005, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0];

/// Findings of one look at the machine and the containers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// Use of the whole machine.
    pub node: Utilization,
    /// Use by all containers together.
    pub containers: Utilization,
    /// Duration of the look.
    pub took: Duration,
}

/// See the help texts.
#[derive(Debug)]
pub(super) struct UsageSeries {
    last: Mutex<Option<Look>>,
    containers_memory_bytes: PerLabel<TypeLabel, IntGauge>,
    containers_virtual_memory_bytes: PerLabel<TypeLabel, IntGauge>,
    containers_busy_processors: PerLabel<TypeLabel, Gauge>,
    node_memory_bytes: IntGauge,
    node_busy_processors: Gauge,
    pressure_seconds: PerPair<PressureLabel, StallLabel, Counter>,
    containers_pressure_seconds: PerTriple<TypeLabel, PressureLabel, StallLabel>,
    look_seconds: Histogram,
}

impl UsageSeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            last: Mutex::default(),
            containers_memory_bytes: maker.gauges(
                "nm_agent_containers_used_memory_bytes",
                "Physical memory that the processes of containers hold.",
            ),
            containers_virtual_memory_bytes: maker.gauges(
                "nm_agent_containers_used_virtual_memory_bytes",
                "Virtual memory that the processes of containers hold.",
            ),
            containers_busy_processors: maker.float_gauges(
                "nm_agent_containers_busy_processors",
                "Processors that containers kept busy between the last two looks.",
            ),
            node_memory_bytes: maker.gauge(
                "nm_agent_node_used_memory_bytes",
                "Physical memory of the machine that is not available.",
            ),
            node_busy_processors: maker.float_gauge(
                "nm_agent_node_busy_processors",
                "Processors of the machine that were busy between the last two looks.",
            ),
            pressure_seconds: maker.float_counter_pairs(
                "nm_agent_node_pressure_seconds_total",
                "Time in which processes of the machine waited for a resource, some of them or all; 0 where the kernel does not tell.",
            ),
            containers_pressure_seconds: maker.float_counter_triples(
                "nm_agent_containers_pressure_seconds_total",
                "Time in which containers waited for a resource, some of their processes or all; not there where the kernel does not tell.",
            ),
            look_seconds: maker.histogram(
                "nm_agent_monitor_look_seconds",
                "How long it took to measure the machine and all containers.",
                &LOOK_BUCKETS,
            ),
        }
    }

    pub(super) fn last_look(&self) -> Option<Look> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn observe(&self, sample: &Sample) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Look {
            node: sample.node,
            containers: sample.containers,
            took: sample.took,
        });
        for (label, used) in [
            (TypeLabel::Guaranteed, sample.by_type.guaranteed),
            (TypeLabel::Opportunistic, sample.by_type.opportunistic),
        ] {
            self.containers_memory_bytes.of(label).set(pmem(used));
            self.containers_virtual_memory_bytes
                .of(label)
                .set(bytes(used.vmem_mb));
            self.containers_busy_processors
                .of(label)
                .set(f64::from(used.cpu_vcores));
        }
        self.node_memory_bytes.set(pmem(sample.node));
        self.node_busy_processors
            .set(f64::from(sample.node.cpu_vcores));
        for (resource, stall, seconds) in stalls(&sample.pressure) {
            raise(self.pressure_seconds.of(resource, stall), seconds);
        }
        for (label, pressure) in [
            (TypeLabel::Guaranteed, &sample.pressure_by_type.guaranteed),
            (
                TypeLabel::Opportunistic,
                &sample.pressure_by_type.opportunistic,
            ),
        ] {
            for (resource, stall, seconds) in pressure.iter().flat_map(stalls) {
                let family = &self.containers_pressure_seconds;
                raise(&family.of(label, resource, stall), seconds);
            }
        }
        self.look_seconds.observe(sample.took.as_secs_f64());
    }
}

/// Returns each number of a pressure with its labels, in seconds.
fn stalls(pressure: &Pressure) -> impl Iterator<Item = (PressureLabel, StallLabel, f64)> {
    let resources = [
        (PressureLabel::Cpu, pressure.cpu),
        (PressureLabel::Io, pressure.io),
        (PressureLabel::Memory, pressure.memory),
    ];
    resources.into_iter().flat_map(|(resource, stalls)| {
        let Stalls { some_us, all_us } = stalls;
        [(StallLabel::Some, some_us), (StallLabel::All, all_us)]
            .map(|(stall, micros)| (resource, stall, micros as f64 / 1e6))
    })
}

/// Brings a counter up to what the kernel counts, since the machine started or the cgroup was made,
/// and never down.
fn raise(counter: &Counter, seconds: f64) {
    let risen = seconds - counter.get();
    counter.inc_by(risen.max(0.0));
}

fn pmem(used: Utilization) -> i64 {
    bytes(used.pmem_mb)
}

fn bytes(mebibytes: u64) -> i64 {
    i64::try_from(mebibytes.saturating_mul(MEBIBYTE)).unwrap_or(i64::MAX)
}
