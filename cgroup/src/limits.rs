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
    // Memory and swap together may never be less than memory, so which comes first depends on the direction. First
    // without a bound together is the one order that always works.
    let both = limits.swap_max.map(|swap| max.plus(swap));
    let counts_swap = both.is_some() && folder.write_if_there(BOTH, "-1")?;
    const MEMORY: &str = "memory.limit_in_bytes";
    match folder.write(MEMORY, &max.v1_bytes()) {
        // More than the bound of both together, which was set earlier and has to go.
        Err(error) if error.errno() == Some(libc::EINVAL) && !counts_swap => {
            folder.write_if_there(BOTH, "-1")?;
            folder.write(MEMORY, &max.v1_bytes())?;
        }
        written => written?,
    }
    match both {
        Some(both) if counts_swap => folder.write(BOTH, &both.v1_bytes()),
        Some(_) | None => Ok(()),
    }
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
