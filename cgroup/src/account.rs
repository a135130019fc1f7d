//! What a cgroup has used since its creation, and holds now: every counter that people ask for,
//! read once.

use crate::error::CgroupError;
use crate::files::{Files, Kind};
use crate::layout::Controller;
use crate::text::{device_sum, keyed_device_sum, value};

/// Account of a cgroup and of everything below it. `None`: no hierarchy reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// CPU time since the cgroup was created, in microseconds.
    pub cpu_usage_us: Option<u64>,
    /// Bytes charged now without page cache that was not used lately (`inactive_file`), which the
    /// kernel takes back first. Kubernetes calls it the working set.
    pub working_set_bytes: Option<u64>,
    /// Highest charge so far in bytes, page cache included (v2: Linux 5.19).
    pub peak_bytes: Option<u64>,
    /// Bytes read from block devices. A device that lies on another counts on both.
    pub read_bytes: Option<u64>,
    /// Bytes written to block devices, likewise.
    pub written_bytes: Option<u64>,
}

impl Account {
    pub(crate) fn read(files: Files<'_>) -> Result<Self, CgroupError> {
        let mut account = Self {
            cpu_usage_us: cpu_usage_us(files)?,
            ..Self::default()
        };
        if let Some(folder) = files.controller(Controller::Memory) {
            let (current, inactive, peak) = match folder.kind {
                Kind::V2 => ("memory.current", "inactive_file", "memory.peak"),
                Kind::V1 => (
                    "memory.usage_in_bytes",
                    "total_inactive_file",
                    "memory.max_usage_in_bytes",
                ),
            };
            let charged = folder.number(current)?;
            let stat = folder.read("memory.stat")?;
            let inactive = value(&stat, inactive).unwrap_or(0);
            account.working_set_bytes = Some(charged.saturating_sub(inactive));
            account.peak_bytes = folder.number_if_there(peak)?;
        }
        if let Some(folder) = files.controller(Controller::Io) {
            let (read, written) = match folder.kind {
                Kind::V2 => match folder.read_if_there("io.stat")? {
                    Some(text) => (
                        Some(keyed_device_sum(&text, "rbytes")),
                        Some(keyed_device_sum(&text, "wbytes")),
                    ),
                    None => (None, None),
                },
                Kind::V1 => match folder.read_if_there("blkio.throttle.io_service_bytes")? {
                    Some(text) => (
                        Some(device_sum(&text, "Read")),
                        Some(device_sum(&text, "Write")),
                    ),
                    None => (None, None),
                },
            };
            (account.read_bytes, account.written_bytes) = (read, written);
        }
        Ok(account)
    }

    /// Returns the account of two cgroups together; the peak is the greater one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (one, other) => one.or(other),
        };
        Self {
            cpu_usage_us: sum(self.cpu_usage_us, other.cpu_usage_us),
            working_set_bytes: sum(self.working_set_bytes, other.working_set_bytes),
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
            read_bytes: sum(self.read_bytes, other.read_bytes),
            written_bytes: sum(self.written_bytes, other.written_bytes),
        }
    }
}

fn cpu_usage_us(files: Files<'_>) -> Result<Option<u64>, CgroupError> {
    if let Some(folder) = files.unified() {
        let stat = folder.read("cpu.stat")?;
        return Ok(value(&stat, "usage_usec"));
    }
    let Some(folder) = files.controller(Controller::Cpuacct) else {
        return Ok(None);
    };
    Ok(Some(folder.number("cpuacct.usage")? / 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_accounts_add_up_and_what_one_does_not_know_the_other_tells() {
        let a = Account {
            cpu_usage_us: Some(1),
            working_set_bytes: Some(10),
            peak_bytes: Some(30),
            read_bytes: None,
            written_bytes: Some(u64::MAX),
        };
        let b = Account {
            cpu_usage_us: Some(2),
            working_set_bytes: Some(20),
            peak_bytes: Some(20),
            read_bytes: Some(7),
            written_bytes: Some(1),
        };
        let both = Account {
            cpu_usage_us: Some(3),
            working_set_bytes: Some(30),
            peak_bytes: Some(30),
            read_bytes: Some(7),
            written_bytes: Some(u64::MAX),
        };
        assert_eq!(a.and(b), both);
        assert_eq!(a.and(Account::default()), a);
    }
}
