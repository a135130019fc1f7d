//! What containers use: the findings of the monitor's last look, beside what they were asked.
//!
//! Memory in use is the working set: what a container's cgroup is charged without page cache that
//! was not used lately; without a cgroup, what its processes hold.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use records::{ApplicationId, ContainerId, ContainerName, EpochMillis, Resource};
use serde::{Deserialize, Serialize};

/// Bytes of a mebibyte.
const MIB: u64 = 1 << 20;

/// Use of one container at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerUse {
    /// Size of the container.
    pub asked: Resource,
    /// Whether a cgroup accounts for it; otherwise its processes that live are summed up.
    pub is_confined: bool,
    /// Bytes of memory in use.
    pub memory_bytes: u64,
    /// Greatest of these at any look.
    pub memory_peak_bytes: u64,
    /// Highest charge so far in bytes, page cache included; `None`: not reported.
    pub charged_peak_bytes: Option<u64>,
    /// CPU time so far, in milliseconds.
    pub cpu_time_ms: u64,
    /// Thousandths of a CPU kept busy since the look before; 0 at the first.
    pub cpu_millis: u32,
    /// Bytes read from devices so far; `None`: unknown.
    pub read_bytes: Option<u64>,
    /// Bytes written to devices so far; `None`: unknown.
    pub written_bytes: Option<u64>,
    /// Parts of the time since the look before in which a task waited; `None`: unknown.
    pub stalled: Option<Stalled>,
}

/// Percent of the time since the look before in which at least one task waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalled {
    /// For a CPU.
    pub cpu_percent: u8,
    /// For memory.
    pub memory_percent: u8,
    /// For devices.
    pub io_percent: u8,
}

impl Stalled {
    /// Returns the larger of each.
    fn max(self, other: Self) -> Self {
        Self {
            cpu_percent: self.cpu_percent.max(other.cpu_percent),
            memory_percent: self.memory_percent.max(other.memory_percent),
            io_percent: self.io_percent.max(other.io_percent),
        }
    }
}

/// Use of one container, or of several together, as readers get it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Containers that were measured.
    pub containers: usize,
    /// Mebibytes that they were asked.
    pub memory_asked_mb: u64,
    /// Mebibytes in use.
    pub memory_mb: u64,
    /// Greatest of these at any look; none for several containers.
    pub memory_peak_mb: Option<u64>,
    /// Highest charge so far in mebibytes, page cache included; none: not reported, or several.
    pub charged_peak_mb: Option<u64>,
    /// Virtual cores that they were asked.
    pub vcores_asked: u32,
    /// Thousandths of a CPU kept busy since the look before.
    pub cpu_millis: u32,
    /// CPU time so far of these containers, in milliseconds.
    pub cpu_time_ms: u64,
    /// Mebibytes read from devices so far; none: unknown.
    pub read_mb: Option<u64>,
    /// Mebibytes written to devices so far; none: unknown.
    pub written_mb: Option<u64>,
    /// Parts of the time since the look before in which a task waited, of several containers the
    /// greatest; none: unknown.
    pub stalled: Option<Stalled>,
}

impl Used {
    /// Returns the CPUs kept busy in words: `0.25`.
    #[must_use]
    pub fn cpus(&self) -> String {
        let hundredths = (u64::from(self.cpu_millis) + 5) / 10;
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

impl From<&ContainerUse> for Used {
    fn from(container: &ContainerUse) -> Self {
        Self {
            memory_peak_mb: Some(mebibytes(container.memory_peak_bytes)),
            charged_peak_mb: container.charged_peak_bytes.map(mebibytes),
            ..Self::sum([container])
        }
    }
}

impl Used {
    /// Returns the use of several containers together.
    pub fn sum<'a>(containers: impl IntoIterator<Item = &'a ContainerUse>) -> Self {
        let mut sum = Self::default();
        // Bytes are added up, so that no container's rounding counts.
        let (mut memory_bytes, mut read_bytes, mut written_bytes) = (0_u64, None, None);
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        };
        for container in containers {
            sum.containers += 1;
            let Resource { memory_mb, vcores } = container.asked;
            sum.memory_asked_mb = sum.memory_asked_mb.saturating_add(memory_mb);
            sum.vcores_asked = sum.vcores_asked.saturating_add(vcores);
            memory_bytes = memory_bytes.saturating_add(container.memory_bytes);
            sum.cpu_millis = sum.cpu_millis.saturating_add(container.cpu_millis);
            sum.cpu_time_ms = sum.cpu_time_ms.saturating_add(container.cpu_time_ms);
            add(&mut read_bytes, container.read_bytes);
            add(&mut written_bytes, container.written_bytes);
            sum.stalled = match (sum.stalled, container.stalled) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (one, other) => one.or(other),
            };
        }
        sum.memory_mb = mebibytes(memory_bytes);
        sum.read_mb = read_bytes.map(mebibytes);
        sum.written_mb = written_bytes.map(mebibytes);
        sum
    }
}

/// Use of the node's memory, CPUs and devices by containers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Time of the look.
    pub at_ms: i64,
    /// Mebibytes of the machine's memory that are not available, whoever uses them; 0: unknown.
    pub machine_memory_mb: u64,
    /// Use by all containers together.
    pub all: Used,
    /// Applications, the most memory in use first; not all where there are many.
    pub applications: Vec<UsedBy>,
    /// Containers, the most memory in use first; not all where there are many.
    pub containers: Vec<UsedBy>,
}

/// Use by an application's containers here, or by one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedBy {
    /// Id of the application or the container.
    pub id: String,
    /// Use of the application or the container.
    #[serde(flatten)]
    pub used: Used,
}

/// Returns the nearest number of mebibytes.
const fn mebibytes(bytes: u64) -> u64 {
    bytes / MIB + (bytes % MIB) / (MIB / 2)
}

/// Findings of the monitor's last look at the containers with a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Time of the look; `None`: there was none, or containers are not measured.
    pub at: Option<EpochMillis>,
    /// Mebibytes of the machine's memory that are not available; 0: unknown.
    pub machine_memory_mb: u64,
    /// Containers by id.
    by_container: BTreeMap<ContainerId, ContainerUse>,
}

impl Uses {
    /// Makes the findings of a look.
    #[must_use]
    pub fn new(
        at: EpochMillis,
        machine_memory_mb: u64,
        containers: impl IntoIterator<Item = (ContainerId, ContainerUse)>,
    ) -> Arc<Self> {
        Arc::new(Self {
            at: Some(at),
            machine_memory_mb,
            by_container: containers.into_iter().collect(),
        })
    }

    /// Returns the use of a container; `None`: it was not seen.
    #[must_use]
    pub fn of(&self, id: &ContainerId) -> Option<Used> {
        self.by_container.get(id).map(Used::from)
    }

    /// Returns the use of the container of this name.
    #[must_use]
    pub fn named(&self, name: ContainerName) -> Option<Used> {
        name.ids().find_map(|id| self.of(&id))
    }

    /// Returns the use of an application's containers here; `None`: none was seen.
    #[must_use]
    pub fn of_application(&self, id: ApplicationId) -> Option<Used> {
        let all = self.by_container.iter();
        let own = all.filter(|(container, _)| container.application_id() == id);
        let sum = Used::sum(own.map(|(_, container)| container));
        (sum.containers > 0).then_some(sum)
    }

    /// Returns the use of all containers together; `None`: there was no look.
    #[must_use]
    pub fn of_all(&self) -> Option<Used> {
        self.at?;
        Some(Used::sum(self.by_container.values()))
    }

    /// Returns the use of each application with a container that was seen, in the order of ids.
    #[must_use]
    pub fn by_application(&self) -> Vec<(ApplicationId, Used)> {
        let mut parts: BTreeMap<ApplicationId, Vec<&ContainerUse>> = BTreeMap::new();
        for (id, container) in &self.by_container {
            parts
                .entry(id.application_id())
                .or_default()
                .push(container);
        }
        let used = |(id, containers)| (id, Used::sum(containers));
        parts.into_iter().map(used).collect()
    }

    /// Returns the use by all, by applications and by containers, of each at most `first` with the
    /// most memory in use first; `None`: there was no look.
    #[must_use]
    pub fn listed(&self, first: usize) -> Option<Usage> {
        let containers = self.by_container.iter();
        let containers = containers.map(|(id, container)| (*id, Used::from(container)));
        Some(Usage {
            at_ms: self.at?.0,
            machine_memory_mb: self.machine_memory_mb,
            all: self.of_all()?,
            applications: greatest(self.by_application(), first),
            containers: greatest(containers.collect(), first),
        })
    }

    /// Returns every container that was seen, in the order of ids.
    pub fn containers(&self) -> impl Iterator<Item = (&ContainerId, &ContainerUse)> {
        self.by_container.iter()
    }
}

fn greatest<I: ToString + Ord + Copy>(mut all: Vec<(I, Used)>, first: usize) -> Vec<UsedBy> {
    all.sort_by_key(|(id, used)| (Reverse(used.memory_mb), *id));
    let listed = all.into_iter().take(first);
    listed
        .map(|(id, used)| UsedBy {
            id: id.to_string(),
            used,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use test_support::ids::{application, container as container_id};

    use super::*;

    fn container(memory_bytes: u64) -> ContainerUse {
        ContainerUse {
            asked: Resource::new(512, 1),
            memory_bytes,
            memory_peak_bytes: memory_bytes + MIB,
            cpu_millis: 254,
            cpu_time_ms: 10,
            read_bytes: Some(3 * MIB),
            ..ContainerUse::default()
        }
    }

    #[test]
    fn a_container_is_seen_beside_what_it_was_asked() {
        let uses = Uses::new(EpochMillis(1), 0, [(container_id(1), container(90 * MIB))]);
        let used = uses.of(&container_id(1)).unwrap();
        assert_eq!((used.memory_asked_mb, used.memory_mb), (512, 90));
        assert_eq!((used.memory_peak_mb, used.read_mb), (Some(91), Some(3)));
        assert_eq!((used.written_mb, used.cpus().as_str()), (None, "0.25"));
        assert_eq!(uses.named(container_id(1).name()), Some(used));
        assert_eq!(uses.of(&container_id(2)), None);
    }

    #[test]
    fn sums_lose_nothing_to_rounding_and_have_no_peak() {
        let third = MIB / 3;
        let all = (1..=300).map(|id| (container_id(id), container(third)));
        let uses = Uses::new(EpochMillis(1), 0, all);
        let sum = uses.of_all().unwrap();
        assert_eq!((sum.containers, sum.memory_mb), (300, 100));
        assert_eq!((sum.memory_peak_mb, sum.cpu_millis), (None, 300 * 254));
        let of_application = uses.of_application(container_id(1).application_id());
        assert_eq!(of_application.as_ref(), Some(&sum));
        let by_application = uses.by_application();
        assert_eq!(by_application, [(container_id(1).application_id(), sum)]);
        let listed = uses.listed(2).unwrap();
        assert_eq!((listed.containers.len(), listed.applications.len()), (2, 1));
        assert_eq!(listed.containers[0].id, container_id(1).to_string());
        assert_eq!(uses.of_application(application(9_999)), None);
    }

    #[test]
    fn the_greatest_stall_stands_for_several_and_without_a_look_there_is_nothing() {
        let stalled = |cpu_percent, io_percent| ContainerUse {
            stalled: Some(Stalled {
                cpu_percent,
                memory_percent: 0,
                io_percent,
            }),
            ..container(0)
        };
        let sum = Used::sum([&stalled(7, 1), &container(0), &stalled(3, 50)]);
        let stalled = sum.stalled.unwrap();
        assert_eq!((stalled.cpu_percent, stalled.io_percent), (7, 50));
        assert_eq!(Uses::default().of_all(), None);
    }
}
