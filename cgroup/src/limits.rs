//! Limits of a cgroup, and how they are written in each version.

use crate::error::CgroupError;
use crate::files::{ControlDir, Files, Kind};
use crate::layout::Controller;
use crate::scale::{Bound, CpuQuota, Weight};

/// Limits to write; `None` leaves a file unchanged. Limits of a controller that no hierarchy has
/// are skipped: callers that depend on one check [`crate::Root::controls`] first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Weight of CPU time relative to siblings. Ignored while idle.
    pub cpu_weight: Option<Weight>,
    /// Runs only on CPU time that no sibling wants (`cpu.idle`, Linux 5.15); older kernels get the
    /// least weight.
    pub cpu_idle: Option<bool>,
    /// Limit on CPU time per period.
    pub cpu_quota: Option<CpuQuota>,
    /// Limit on memory, in bytes; an allocation beyond it that cannot be reclaimed invokes the OOM
    /// killer.
    pub memory_max: Option<Bound>,
    /// Memory, in bytes, above which the kernel throttles the cgroup and reclaims (v2 only).
    pub memory_high: Option<Bound>,
    /// Memory, in bytes, that is not reclaimed while other cgroups have any. On v1 the soft limit:
    /// the amount left to the cgroup when the machine runs short.
    pub memory_low: Option<u64>,
    /// Limit on swap, in bytes. On v1 the limit of memory and swap together follows from it, if
    /// `memory_max` is given too; a `memory_max` above that limit without a new `swap_max` lifts
    /// it.
    pub swap_max: Option<Bound>,
    /// Tendency to swap the cgroup out, 0 to 100 (v1 only).
    pub swappiness: Option<u8>,
    /// Makes the OOM killer kill all processes of the cgroup or none (v2 only).
    pub oom_group: Option<bool>,
    /// Limit on tasks, threads included.
    pub pids_max: Option<Bound>,
    /// Weight of device time relative to siblings. Skipped where the kernel's I/O scheduler has no
    /// weights.
    pub io_weight: Option<Weight>,
}

/// Returns the wanted value unless it is already in force.
fn changed<T: PartialEq + Copy>(wanted: Option<T>, known: Option<T>) -> Option<T> {
    wanted.filter(|wanted| known != Some(*wanted))
}

impl Limits {
    /// Returns the limits that still have to be written to a cgroup in which `known` is in force.
    #[must_use]
    pub fn changes_from(&self, known: &Self) -> Self {
        let cpu_idle = changed(self.cpu_idle, known.cpu_idle);
        let memory_max = changed(self.memory_max, known.memory_max);
        let swap_max = changed(self.swap_max, known.swap_max);
        Self {
            cpu_idle,
            // A change of `cpu.idle` resets the weight in the kernel.
            cpu_weight: match cpu_idle {
                Some(_) => self.cpu_weight,
                None => changed(self.cpu_weight, known.cpu_weight),
            },
            cpu_quota: changed(self.cpu_quota, known.cpu_quota),
            // On v1 the two are written together.
            memory_max: swap_max.and(self.memory_max).or(memory_max),
            swap_max: memory_max.and(self.swap_max).or(swap_max),
            memory_high: changed(self.memory_high, known.memory_high),
            memory_low: changed(self.memory_low, known.memory_low),
            swappiness: changed(self.swappiness, known.swappiness),
            oom_group: changed(self.oom_group, known.oom_group),
            pids_max: changed(self.pids_max, known.pids_max),
            io_weight: changed(self.io_weight, known.io_weight),
        }
    }

    /// Returns the limits in force once these have been written to a cgroup that had `earlier`.
    #[must_use]
    pub fn written_over(self, earlier: Self) -> Self {
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

    /// Returns the CPU limits only.
    #[must_use]
    pub fn cpu_only(&self) -> Self {
        Self {
            cpu_weight: self.cpu_weight,
            cpu_idle: self.cpu_idle,
            cpu_quota: self.cpu_quota,
            ..Self::default()
        }
    }

    /// Returns the memory and swap limits only. Writing these alone may take the kernel long: on a
    /// lower limit it reclaims at once.
    #[must_use]
    pub fn memory_only(&self) -> Self {
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

    /// Returns the limits on tasks and devices only.
    #[must_use]
    pub fn tasks_and_io_only(&self) -> Self {
        Self {
            pids_max: self.pids_max,
            io_weight: self.io_weight,
            ..Self::default()
        }
    }
}

/// Writes all limits that are given.
///
/// # Errors
/// The first write that the kernel refuses; later ones are not tried.
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

fn apply_cpu(folder: ControlDir<'_>, limits: &Limits) -> Result<(), CgroupError> {
    let mut weight = limits.cpu_weight;
    if let Some(idle) = limits.cpu_idle {
        let there = folder.write_if_there("cpu.idle", if idle { "1" } else { "0" })?;
        if idle {
            // The kernel refuses a weight for an idle cgroup.
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
        // Absent if the kernel was built without bandwidth control.
        (Kind::V2, Some(quota)) => folder
            .write_if_there("cpu.max", &quota.cpu_max())
            .map(|_there| ()),
        (Kind::V1, Some(quota)) => apply_quota_v1(folder, quota),
    }
}

fn apply_quota_v1(folder: ControlDir<'_>, quota: CpuQuota) -> Result<(), CgroupError> {
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
            // Without a quota in force, any period is accepted.
            folder.write("cpu.cfs_period_us", &period_us.to_string())?;
            folder.write(QUOTA, &quota_us.to_string())
        }
    }
}

fn apply_memory_v2(folder: ControlDir<'_>, limits: &Limits) -> Result<(), CgroupError> {
    if let Some(group) = limits.oom_group {
        folder.write_if_there("memory.oom.group", if group { "1" } else { "0" })?;
    }
    if let Some(low) = limits.memory_low {
        folder.write("memory.low", &low.to_string())?;
    }
    // Swap comes first: a lower memory.max makes the kernel reclaim at once, and it may swap only
    // as far as the new limit allows.
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

fn apply_memory_v1(folder: ControlDir<'_>, limits: &Limits) -> Result<(), CgroupError> {
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
    // The limit of memory and swap together may never be below that of memory. So memory is written
    // first; if the old limit of both refuses that, it is lifted before.
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

fn apply_io(folder: ControlDir<'_>, weight: Weight) -> Result<(), CgroupError> {
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
            // The file exists, but no device has a scheduler with weights.
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
            cpus in proptest::option::of(0_u8..3),
        ) -> Limits {
            Limits {
                cpu_weight: weight.map(Weight::new),
                cpu_idle,
                cpu_quota: cpus.map(|n| CpuQuota::of_cpus(f64::from(n))),
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
            let changes = wanted.changes_from(&known);
            prop_assert_eq!(changes.written_over(known), wanted.written_over(known));
            prop_assert_eq!(wanted.changes_from(&changes.written_over(known)), Limits::default());
        }

        #[test]
        fn the_parts_are_all_of_it(limits in limits()) {
            let parts = limits.cpu_only().written_over(limits.memory_only()).written_over(limits.tasks_and_io_only());
            prop_assert_eq!(parts, limits);
        }
    }

    #[test]
    fn a_weight_is_written_again_when_cpu_idle_has_reset_it() {
        let busy = Limits {
            cpu_idle: Some(false),
            cpu_weight: Some(Weight::MAX),
            ..Limits::default()
        };
        let idle = Limits {
            cpu_idle: Some(true),
            ..busy
        };
        assert_eq!(busy.changes_from(&idle), busy);
    }

    #[test]
    fn memory_and_swap_are_written_together() {
        let known = Limits {
            memory_max: Some(Bound::At(1)),
            swap_max: Some(Bound::At(0)),
            ..Limits::default()
        };
        let larger = Limits {
            memory_max: Some(Bound::At(2)),
            ..known
        };
        assert_eq!(larger.changes_from(&known), larger);
        let swapping = Limits {
            swap_max: Some(Bound::At(1)),
            ..known
        };
        assert_eq!(swapping.changes_from(&known), swapping);
    }
}
