//! Limits of a cgroup: what is asked for, and how each version is told.

use crate::error::CgroupError;
use crate::layout::Controller;
use crate::place::{Files, Folder, Kind};
use crate::scale::{Bound, CpuQuota, Weight};

/// What to set; `None` leaves as it is. A controller that no hierarchy has is passed over: what must be there is asked
/// of [`crate::Root::controls`] beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Processor time relative to siblings. Ignored while idle.
    pub cpu_weight: Option<Weight>,
    /// Only processor time that nobody else wants (`cpu.idle`, Linux 5.15); older kernels get the least weight.
    pub cpu_idle: Option<bool>,
    /// Most processor time.
    pub cpu_quota: Option<CpuQuota>,
    /// Most memory, in bytes; beyond, the OOM killer comes.
    pub memory_max: Option<Bound>,
    /// Memory, in bytes, from which on it is slowed down and pressed back. v1 has nothing like it.
    pub memory_high: Option<Bound>,
    /// Memory, in bytes, that is not reclaimed while there is any elsewhere. On v1 the soft limit: what is left to it
    /// when the machine runs short.
    pub memory_low: Option<u64>,
    /// Most swap, in bytes. On v1 the bound of memory and swap together follows from it, if `memory_max` is given too; a
    /// `memory_max` beyond that bound without a new one for swap lifts it.
    pub swap_max: Option<Bound>,
    /// How readily it is swapped out, 0 to 100 (v1 only).
    pub swappiness: Option<u8>,
    /// The OOM killer ends all its processes or none (v2 only).
    pub oom_group: Option<bool>,
    /// Most tasks, threads included.
    pub pids_max: Option<Bound>,
    /// Devices relative to siblings. Passed over where the kernel's I/O schedulers know no weights.
    pub io_weight: Option<Weight>,
}

/// What of it has to be written where `known` holds already.
fn news<T: PartialEq + Copy>(wanted: Option<T>, known: Option<T>) -> Option<T> {
    wanted.filter(|wanted| known != Some(*wanted))
}

impl Limits {
    /// What of these has to be written to a cgroup in which `known` holds.
    #[must_use]
    pub fn unlike(&self, known: &Self) -> Self {
        let cpu_idle = news(self.cpu_idle, known.cpu_idle);
        let memory_max = news(self.memory_max, known.memory_max);
        let swap_max = news(self.swap_max, known.swap_max);
        Self {
            cpu_idle,
            // Idle or not: with the change the kernel forgets the weight.
            cpu_weight: match cpu_idle {
                Some(_) => self.cpu_weight,
                None => news(self.cpu_weight, known.cpu_weight),
            },
            cpu_quota: news(self.cpu_quota, known.cpu_quota),
            // On v1 the one is told together with the other.
            memory_max: swap_max.and(self.memory_max).or(memory_max),
            swap_max: memory_max.and(self.swap_max).or(swap_max),
            memory_high: news(self.memory_high, known.memory_high),
            memory_low: news(self.memory_low, known.memory_low),
            swappiness: news(self.swappiness, known.swappiness),
            oom_group: news(self.oom_group, known.oom_group),
            pids_max: news(self.pids_max, known.pids_max),
            io_weight: news(self.io_weight, known.io_weight),
        }
    }

    /// What holds once these have been written to a cgroup in which `earlier` held.
    #[must_use]
    pub fn over(self, earlier: Self) -> Self {
        Self {
            cpu_weight: self.cpu_weight.or(earlier.cpu_weight),
            cpu_idle: self.cpu_idle.or(earlier.cpu_idle),
            cpu_quota: self.cpu_quota.or(earlier.cpu_quota),
            memory_max: self.memory_max.or(earlier.memory_max),
            memory_high: self.memory_high.or(earlier.memory_high),
            memory_low: self.memory_low.or(earlier.memory_low),
            swap_max: self.swap_max.or(earlier.swap_max),
            swappiness: self.swappiness.or(earlier.swappiness),
            oom_group: self.oom_group.or(earlier.oom_group),
            pids_max: self.pids_max.or(earlier.pids_max),
            io_weight: self.io_weight.or(earlier.io_weight),
        }
    }

    /// Those of them that are about processor time.
    #[must_use]
    pub fn of_processors(&self) -> Self {
        Self {
            cpu_weight: self.cpu_weight,
            cpu_idle: self.cpu_idle,
            cpu_quota: self.cpu_quota,
            ..Self::default()
        }
    }

    /// Those of them that are about memory. Only these may take the kernel long: it presses back at once what is above a
    /// lower bound.
    #[must_use]
    pub fn of_memory(&self) -> Self {
        Self {
            memory_max: self.memory_max,
            memory_high: self.memory_high,
            memory_low: self.memory_low,
            swap_max: self.swap_max,
            swappiness: self.swappiness,
            oom_group: self.oom_group,
            ..Self::default()
        }
    }

    /// The rest of them: tasks and devices.
    #[must_use]
    pub fn of_others(&self) -> Self {
        Self {
            pids_max: self.pids_max,
            io_weight: self.io_weight,
            ..Self::default()
        }
    }
}

/// Sets all that is asked for.
///
/// # Errors
/// The first that the kernel refuses; those after it are not tried.
pub(crate) fn apply(files: Files<'_>, limits: &Limits) -> Result<(), CgroupError> {
    if let Some(folder) = files.controller(Controller::Cpu) {
        apply_cpu(folder, limits)?;
    }
    if let Some(folder) = files.controller(Controller::Memory) {
        match folder.kind {
            Kind::V2 => apply_memory_v2(folder, limits)?,
            Kind::V1 => apply_memory_v1(folder, limits)?,
        }
    }
    if let (Some(folder), Some(bound)) = (files.controller(Controller::Pids), limits.pids_max) {
        folder.write("pids.max", &bound.to_string())?;
    }
    if let (Some(folder), Some(weight)) = (files.controller(Controller::Io), limits.io_weight) {
        apply_io(folder, weight)?;
    }
    Ok(())
}

fn apply_cpu(folder: Folder<'_>, limits: &Limits) -> Result<(), CgroupError> {
    let mut weight = limits.cpu_weight;
    if let Some(idle) = limits.cpu_idle {
        let there = folder.write_if_there("cpu.idle", if idle { "1" } else { "0" })?;
        if idle {
            // The kernel refuses a weight for what is idle.
            weight = (!there).then_some(Weight::MIN);
        }
    }
    if let Some(weight) = weight {
        match folder.kind {
            Kind::V2 => folder.write("cpu.weight", &weight.get().to_string())?,
            Kind::V1 => folder.write("cpu.shares", &weight.cpu_shares().to_string())?,
        }
    }
    match (folder.kind, limits.cpu_quota) {
        (_, None) => Ok(()),
        // Absent where the kernel was built without bandwidth control.
        (Kind::V2, Some(quota)) => folder
            .write_if_there("cpu.max", &quota.cpu_max())
            .map(|_there| ()),
        (Kind::V1, Some(quota)) => apply_quota_v1(folder, quota),
    }
}

fn apply_quota_v1(folder: Folder<'_>, quota: CpuQuota) -> Result<(), CgroupError> {
    const QUOTA: &str = "cpu.cfs_quota_us";
    if !folder.write_if_there(QUOTA, "-1")? {
        return Ok(());
    }
    match quota {
        CpuQuota::Unlimited => Ok(()),
        CpuQuota::At {
            quota_us,
            period_us,
        } => {
            // With the quota away, no period can contradict it.
            folder.write("cpu.cfs_period_us", &period_us.to_string())?;
            folder.write(QUOTA, &quota_us.to_string())
        }
    }
}

fn apply_memory_v2(folder: Folder<'_>, limits: &Limits) -> Result<(), CgroupError> {
    if let Some(group) = limits.oom_group {
        folder.write_if_there("memory.oom.group", if group { "1" } else { "0" })?;
    }
    if let Some(low) = limits.memory_low {
        folder.write("memory.low", &low.to_string())?;
    }
    // Swap first: a lower memory.max presses back at once what is over it, and may do so only where it is allowed to.
    if let Some(swap) = limits.swap_max {
        folder.write_if_there("memory.swap.max", &swap.to_string())?;
    }
    if let Some(high) = limits.memory_high {
        folder.write("memory.high", &high.to_string())?;
    }
    if let Some(max) = limits.memory_max {
        folder.write("memory.max", &max.to_string())?;
    }
    Ok(())
}

fn apply_memory_v1(folder: Folder<'_>, limits: &Limits) -> Result<(), CgroupError> {
    if let Some(low) = limits.memory_low {
        folder.write_if_there("memory.soft_limit_in_bytes", &low.to_string())?;
    }
    if let Some(swappiness) = limits.swappiness {
        folder.write_if_there("memory.swappiness", &swappiness.min(100).to_string())?;
    }
    let Some(max) = limits.memory_max else {
        return Ok(());
    };
    const BOTH: &str = "memory.memsw.limit_in_bytes";
    const MEMORY: &str = "memory.limit_in_bytes";
    // Memory and swap together may never be less than memory. So memory goes first, and where it would be more than the
    // bound of both, which was set earlier, that one has to go before.
    match folder.write(MEMORY, &max.v1_bytes()) {
        Err(error)
            if error.errno() == Some(libc::EINVAL) && folder.write_if_there(BOTH, "-1")? =>
        {
            folder.write(MEMORY, &max.v1_bytes())?;
        }
        written => written?,
    }
    if let Some(swap) = limits.swap_max {
        folder.write_if_there(BOTH, &max.plus(swap).v1_bytes())?;
    }
    Ok(())
}

fn apply_io(folder: Folder<'_>, weight: Weight) -> Result<(), CgroupError> {
    let bfq = weight.bfq_weight().to_string();
    let files = match folder.kind {
        Kind::V2 => [
            ("io.weight", weight.get().to_string()),
            ("io.bfq.weight", bfq),
        ],
        Kind::V1 => [
            ("blkio.weight", weight.blkio_weight().to_string()),
            ("blkio.bfq.weight", bfq),
        ],
    };
    for (file, value) in files {
        match folder.write_if_there(file, &value) {
            Ok(_there) => {}
            // The file is there, but no device has the scheduler that would obey.
            Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bounds() -> impl Strategy<Value = Option<Bound>> {
        let bound = prop_oneof![Just(Bound::Unlimited), (0_u64..4).prop_map(Bound::At)];
        proptest::option::of(bound)
    }

    prop_compose! {
        fn limits()(
            memory_max in bounds(),
            swap_max in bounds(),
            memory_high in bounds(),
            pids_max in bounds(),
            memory_low in proptest::option::of(0_u64..3),
            cpu_idle in any::<Option<bool>>(),
            oom_group in any::<Option<bool>>(),
            weight in proptest::option::of(1_u64..4),
            io_weight in proptest::option::of(1_u64..4),
            swappiness in proptest::option::of(0_u8..3),
            processors in proptest::option::of(0_u8..3),
        ) -> Limits {
            Limits {
                cpu_weight: weight.map(Weight::new),
                cpu_idle,
                cpu_quota: processors.map(|n| CpuQuota::of_processors(f64::from(n))),
                memory_max,
                memory_high,
                memory_low,
                swap_max,
                swappiness,
                oom_group,
                pids_max,
                io_weight: io_weight.map(Weight::new),
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_makes_hold_what_is_wanted(known in limits(), wanted in limits()) {
            let news = wanted.unlike(&known);
            prop_assert_eq!(news.over(known), wanted.over(known));
            prop_assert_eq!(wanted.unlike(&news.over(known)), Limits::default());
        }

        #[test]
        fn the_parts_are_all_of_it(limits in limits()) {
            let parts = limits.of_processors().over(limits.of_memory()).over(limits.of_others());
            prop_assert_eq!(parts, limits);
        }
    }

    #[test]
    fn a_weight_is_told_again_when_the_kernel_has_forgotten_it() {
        let busy = Limits {
            cpu_idle: Some(false),
            cpu_weight: Some(Weight::MAX),
            ..Limits::default()
        };
        let idle = Limits {
            cpu_idle: Some(true),
            ..busy
        };
        assert_eq!(busy.unlike(&idle), busy);
    }

    #[test]
    fn memory_and_swap_are_told_together() {
        let known = Limits {
            memory_max: Some(Bound::At(1)),
            swap_max: Some(Bound::At(0)),
            ..Limits::default()
        };
        let larger = Limits {
            memory_max: Some(Bound::At(2)),
            ..known
        };
        assert_eq!(larger.unlike(&known), larger);
        let swapping = Limits {
            swap_max: Some(Bound::At(1)),
            ..known
        };
        assert_eq!(swapping.unlike(&known), swapping);
    }
}
