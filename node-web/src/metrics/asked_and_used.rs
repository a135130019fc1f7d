//! Series of what containers use beside what they were asked, by execution type: as many series
//! whatever runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use container_runtime::monitor::ContainerLook;
use prometheus::{IntCounter, IntGauge};
use records::{ContainerId, ExecutionType, PerExecutionType, Resource};

use super::family::{Maker, PerLabel, PerPair};
use super::labels::{Label, TypeLabel};

const MEBIBYTE: u64 = 1024 * 1024;

/// Share of the memory that a container was asked which it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    FirstQuarter,
    SecondQuarter,
    ThirdQuarter,
    LastQuarter,
    More,
}

impl Part {
    /// Returns the part; a container that was asked nothing uses more.
    fn of(used_bytes: u64, asked_mb: u64) -> Self {
        let asked = u128::from(asked_mb) * u128::from(MEBIBYTE);
        let quarters = (u128::from(used_bytes) * 4).checked_div(asked);
        match quarters {
            Some(0) => Self::FirstQuarter,
            Some(1) => Self::SecondQuarter,
            Some(2) => Self::ThirdQuarter,
            Some(3) => Self::LastQuarter,
            Some(_) | None => Self::More,
        }
    }
}

impl Label for Part {
    const NAME: &'static str = "used";
    const ALL: &'static [Self] = &[
        Self::FirstQuarter,
        Self::SecondQuarter,
        Self::ThirdQuarter,
        Self::LastQuarter,
        Self::More,
    ];

    fn value(self) -> &'static str {
        match self {
            Self::FirstQuarter => "first_quarter",
            Self::SecondQuarter => "second_quarter",
            Self::ThirdQuarter => "third_quarter",
            Self::LastQuarter => "last_quarter",
            Self::More => "more",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// Way of bytes between containers and devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Read,
    Written,
}

impl Label for Way {
    const NAME: &'static str = "way";
    const ALL: &'static [Self] = &[Self::Read, Self::Written];

    fn value(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Written => "written",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// Bytes that a container had read and written at the last look.
type Moved = (u64, u64);

/// See the help texts.
#[derive(Debug)]
pub(super) struct AskedAndUsed {
    asked_memory_bytes: PerLabel<TypeLabel, IntGauge>,
    working_set_bytes: PerLabel<TypeLabel, IntGauge>,
    by_memory_use: PerPair<TypeLabel, Part, IntGauge>,
    device_bytes: PerPair<TypeLabel, Way, IntCounter>,
    moved: Mutex<BTreeMap<ContainerId, Moved>>,
}

impl AskedAndUsed {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            asked_memory_bytes: maker.gauges(
                "nm_agent_containers_asked_memory_bytes",
                "Memory that the containers with a process were asked, as of the last look.",
            ),
            working_set_bytes: maker.gauges(
                "nm_agent_containers_working_set_bytes",
                "Memory that these containers use: charged to their cgroups without page cache that was not used lately; without cgroups what their processes hold.",
            ),
            by_memory_use: maker.gauge_pairs(
                "nm_agent_containers_by_memory_use",
                "Containers by the part of the memory that they were asked which they use.",
            ),
            device_bytes: maker.counter_pairs(
                "nm_agent_containers_device_bytes_total",
                "Bytes that containers have read from devices and written to them, as far as it is known.",
            ),
            moved: Mutex::default(),
        }
    }

    /// Takes in a look.
    pub(super) fn observe(&self, looks: &[ContainerLook]) {
        let mut sums = PerExecutionType::<(u64, u64)>::default();
        let mut parts = PerExecutionType::<[i64; Part::ALL.len()]>::default();
        for look in looks {
            let (kind, asked) = kind_and_size(look);
            let used_bytes = look.account.memory_bytes;
            let (asked_bytes, sum) = sums.of(kind);
            *asked_bytes += asked.memory_mb.saturating_mul(MEBIBYTE);
            *sum += used_bytes;
            parts.of(kind)[Part::of(used_bytes, asked.memory_mb).index()] += 1;
        }
        for kind in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
            let label = TypeLabel::from(kind);
            let (asked, used) = *sums.of(kind);
            self.asked_memory_bytes.of(label).set(clamped(asked));
            self.working_set_bytes.of(label).set(clamped(used));
            for part in Part::ALL {
                let count = parts.of(kind)[part.index()];
                self.by_memory_use.of(label, *part).set(count);
            }
        }
        self.count_bytes(looks);
    }

    /// Counts what has been moved since the look before.
    fn count_bytes(&self, looks: &[ContainerLook]) {
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = BTreeMap::new();
        for look in looks {
            let account = &look.account;
            let (before_read, before_written) = moved.get(&look.id).copied().unwrap_or_default();
            let read = account.read_bytes.unwrap_or(before_read);
            let written = account.written_bytes.unwrap_or(before_written);
            let label = TypeLabel::from(kind_and_size(look).0);
            let count = |way, bytes| self.device_bytes.of(label, way).inc_by(bytes);
            count(Way::Read, read.saturating_sub(before_read));
            count(Way::Written, written.saturating_sub(before_written));
            now.insert(look.id, (read, written));
        }
        *moved = now;
    }
}

/// Returns type and size; a container without a spec counts as guaranteed, as in heartbeats.
fn kind_and_size(look: &ContainerLook) -> (ExecutionType, Resource) {
    match look.spec {
        Some(spec) => (spec.execution_type, spec.resource),
        None => (ExecutionType::Guaranteed, Resource::default()),
    }
}

fn clamped(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use container_runtime::monitor::{ContainerAccount, Utilization};
    use prometheus::{Registry, TextEncoder};
    use sched::ContainerSpec;

    use super::*;
    use crate::fixture::container_id;

    fn look(id: i64, used_mb: u64, asked_mb: u64, read_bytes: u64) -> ContainerLook {
        ContainerLook {
            id: container_id(id),
            pid: 100,
            was_known: true,
            spec: Some(ContainerSpec {
                id: container_id(id),
                resource: Resource::new(asked_mb, 1),
                execution_type: ExecutionType::Opportunistic,
                version: 0,
            }),
            used: Utilization::default(),
            account: ContainerAccount {
                memory_bytes: used_mb * MEBIBYTE,
                read_bytes: Some(read_bytes),
                ..ContainerAccount::default()
            },
        }
    }

    fn text(registry: &Registry) -> String {
        let encoder = TextEncoder::new();
        encoder.encode_to_string(&registry.gather()).unwrap()
    }

    #[test]
    fn a_container_that_uses_90_of_512_is_in_the_first_quarter() {
        let registry = Registry::new();
        let series = AskedAndUsed::new(&Maker(&registry));
        let lines = text(&registry).lines().count();
        series.observe(&[look(1, 90, 512, 7), look(2, 600, 512, 0), look(3, 1, 0, 0)]);
        let text = text(&registry);
        for line in [
            "nm_agent_containers_asked_memory_bytes{execution_type=\"opportunistic\"} 1073741824",
            "nm_agent_containers_working_set_bytes{execution_type=\"opportunistic\"} 724566016",
            "nm_agent_containers_by_memory_use{execution_type=\"opportunistic\",used=\"first_quarter\"} 1",
            "nm_agent_containers_by_memory_use{execution_type=\"opportunistic\",used=\"more\"} 2",
            "nm_agent_containers_device_bytes_total{execution_type=\"opportunistic\",way=\"read\"} 7",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert_eq!(text.lines().count(), lines, "no series per container");
    }

    #[test]
    fn bytes_of_a_container_that_ends_stay_counted() {
        let registry = Registry::new();
        let series = AskedAndUsed::new(&Maker(&registry));
        for looks in [
            vec![look(1, 1, 1, 100)],
            vec![look(1, 1, 1, 150), look(2, 1, 1, 5)],
            vec![],
            vec![look(3, 1, 1, 1)],
        ] {
            series.observe(&looks);
        }
        let counter = series.device_bytes.of(TypeLabel::Opportunistic, Way::Read);
        assert_eq!(counter.get(), 156);
        assert_eq!(series.moved.lock().unwrap().len(), 1);
    }
}
