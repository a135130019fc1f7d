//! What each container uses, for people: by its cgroup where it has one, else by its processes.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use records::{ContainerId, ExecutionType};

use super::processes::{Member, bytes_moved};
use crate::isolation::{AccountReader, GroupAccount};
use crate::launch::RunningProcess;

/// Use of one container at one look, as people ask for it. Heartbeats and limits have Hadoop's
/// numbers ([`Utilization`](super::Utilization)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerAccount {
    /// Whether a cgroup accounts for it. Otherwise the processes that live are summed up: pages
    /// that they share count for each.
    pub is_confined: bool,
    /// Bytes of memory in use: charged without page cache that was not used lately, or resident.
    pub memory_bytes: u64,
    /// Greatest of these at any look.
    pub memory_peak_bytes: u64,
    /// Highest charge so far in bytes, page cache included; `None`: the kernel does not report it.
    pub charged_peak_bytes: Option<u64>,
    /// CPU time so far, in microseconds.
    pub cpu_time_us: u64,
    /// Thousandths of a CPU kept busy since the look before; 0 at the first.
    pub cpu_millis: u32,
    /// Bytes read from devices so far; `None`: unknown.
    pub read_bytes: Option<u64>,
    /// Bytes written to devices so far; `None`: unknown.
    pub written_bytes: Option<u64>,
    /// Parts of the time since the look before in which a task waited; `None`: unknown.
    pub stalled: Option<StalledParts>,
}

/// Percent of a time in which at least one task waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StalledParts {
    /// For a CPU.
    pub cpu_percent: u8,
    /// For memory: reclaim, swap, and reading dropped pages again.
    pub memory_percent: u8,
    /// For devices.
    pub io_percent: u8,
}

/// Numbers of a container that the next look needs.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    account: ContainerAccount,
    stalled_us: Option<[u64; 3]>,
}

/// Accounts of containers, look by look.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    groups: Option<AccountReader>,
    before: HashMap<ContainerId, Before>,
}

impl Accounts {
    /// Accounts that read the cgroups of containers, where there are any.
    pub(super) fn new(groups: Option<AccountReader>) -> Self {
        Self {
            groups,
            before: HashMap::new(),
        }
    }

    /// Returns the account of a container whose processes hold so many bytes and have used so many
    /// clock ticks since the look before, `elapsed` ago.
    pub(super) fn of(
        &mut self,
        process: &RunningProcess,
        members: &[Member<'_>],
        (resident_bytes, ticks): (u64, u64),
        elapsed: Option<Duration>,
    ) -> ContainerAccount {
        let id = process.container_id;
        let class = process
            .spec
            .map_or(ExecutionType::Guaranteed, |spec| spec.execution_type);
        let groups = self.groups.as_ref();
        let group = groups.and_then(|groups| groups.read(id, class));
        let before = self.before.get(&id).copied();
        let is_confined = group.is_some();
        let GroupAccount {
            account: group,
            stalled_us,
        } = group.unwrap_or_default();
        let last = before.map(|before| before.account).unwrap_or_default();
        let cpu_time_us = group.cpu_usage_us.unwrap_or_else(|| match before {
            Some(_) => last.cpu_time_us.saturating_add(micros(ticks)),
            None => micros(members.iter().map(Member::all_ticks).sum()),
        });
        // Processes that have ended take their numbers with them.
        let moved = match (group.read_bytes, group.written_bytes) {
            (Some(_), Some(_)) => (group.read_bytes, group.written_bytes),
            (_, _) => match bytes_moved(members) {
                Some((read, written)) => (
                    last.read_bytes.max(Some(read)),
                    last.written_bytes.max(Some(written)),
                ),
                None => (last.read_bytes, last.written_bytes),
            },
        };
        let since = elapsed.filter(|_| before.is_some());
        let memory_bytes = group.working_set_bytes.unwrap_or(resident_bytes);
        let account = ContainerAccount {
            is_confined,
            memory_bytes,
            memory_peak_bytes: last.memory_peak_bytes.max(memory_bytes),
            charged_peak_bytes: group.peak_bytes,
            cpu_time_us,
            cpu_millis: cpu_millis(cpu_time_us.saturating_sub(last.cpu_time_us), since),
            read_bytes: moved.0,
            written_bytes: moved.1,
            stalled: stalled(
                before.and_then(|before| before.stalled_us),
                stalled_us,
                since,
            ),
        };
        self.before.insert(
            id,
            Before {
                account,
                stalled_us,
            },
        );
        account
    }

    /// Forgets containers that are gone.
    pub(super) fn retain(&mut self, known: &BTreeSet<ContainerId>) {
        self.before.retain(|id, _| known.contains(id));
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.before.is_empty()
    }
}

fn micros(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000) / procfs::ticks_per_second().max(1)
}

fn cpu_millis(used_us: u64, since: Option<Duration>) -> u32 {
    let Some(since_us) = since.map(|since| since.as_micros()).filter(|us| *us > 0) else {
        return 0;
    };
    u32::try_from(u128::from(used_us) * 1_000 / since_us).unwrap_or(u32::MAX)
}

fn stalled(
    before: Option<[u64; 3]>,
    now: Option<[u64; 3]>,
    since: Option<Duration>,
) -> Option<StalledParts> {
    let (before, now, since) = (before?, now?, since?);
    let since_us = since.as_micros().max(1);
    let percent = |place: usize| {
        let stalled_us = now[place].saturating_sub(before[place]);
        let percent = u128::from(stalled_us) * 100 / since_us;
        // The kernel's clock and this one differ a little.
        u8::try_from(percent.min(100)).unwrap_or(100)
    };
    Some(StalledParts {
        cpu_percent: percent(0),
        memory_percent: percent(1),
        io_percent: percent(2),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    #[test]
    fn cpu_time_over_time_is_thousandths_of_a_cpu() {
        assert_eq!(cpu_millis(1_500_000, SECOND), 1_500);
        assert_eq!(cpu_millis(1_500_000, None), 0);
        assert_eq!(cpu_millis(1_500_000, Some(Duration::ZERO)), 0);
        assert_eq!(
            cpu_millis(u64::MAX, Some(Duration::from_micros(1))),
            u32::MAX
        );
    }

    #[test]
    fn a_stall_is_a_part_of_the_time_and_never_more_than_all_of_it() {
        let parts = StalledParts {
            cpu_percent: 25,
            memory_percent: 0,
            io_percent: 100,
        };
        let now = Some([250_100, 7, 9_000_000]);
        assert_eq!(stalled(Some([100, 9, 0]), now, SECOND), Some(parts));
        assert_eq!(stalled(None, now, SECOND), None);
        assert_eq!(stalled(now, None, SECOND), None);
        assert_eq!(stalled(now, now, None), None);
    }
}
