//! Memory limits of a container, and whether it exceeds them (Hadoop:
//! `ContainersMonitorImpl`).

/// Bytes in a mebibyte.
pub(super) const MIB: u64 = 1 << 20;

/// Limits that are enforced by polling (`yarn.nodemanager.{pmem,vmem}-check-enabled`), and the
/// ratio of virtual to physical memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryPolicy {
    /// Kill what uses more physical memory than it was given.
    pub pmem: bool,
    /// Kill what uses more virtual memory than allowed.
    pub vmem: bool,
    /// Virtual bytes allowed for each physical one (`yarn.nodemanager.vmem-pmem-ratio`).
    pub vmem_pmem_ratio: f64,
}

/// Bytes that the processes of a container use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Limit of physical memory, in bytes.
    pub pmem_bytes: u64,
    /// Limit of virtual memory, in bytes.
    pub vmem_bytes: u64,
    /// Physical memory of processes that were there at the look before too.
    pub aged_pmem_bytes: u64,
    /// Virtual memory of those.
    pub aged_vmem_bytes: u64,
}

/// Bytes that the processes of a container may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryLimit {
    pub(super) pmem_bytes: u64,
    pub(super) vmem_bytes: u64,
}

/// Kind of memory of which a container uses too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Virtual: exit status -103.
    Virtual,
    /// Physical: exit status -104.
    Physical,
}

impl MemoryPolicy {
    /// Returns whether any limit is enforced.
    pub(super) fn checks(self) -> bool {
        self.pmem || self.vmem
    }

    /// Returns the limits of a container of this size.
    pub(super) fn limit(self, memory_mb: u64) -> MemoryLimit {
        let pmem_bytes = memory_mb.saturating_mul(MIB);
        MemoryLimit {
            pmem_bytes,
            vmem_bytes: scaled(pmem_bytes, self.vmem_pmem_ratio),
        }
    }

    /// Returns the limit that a container exceeds. Virtual memory is compared first, as in Hadoop.
    ///
    /// A forking process briefly has two copies of its memory. So processes younger than one sample
    /// count only when they bring the container to more than twice its limit.
    pub(super) fn exceeded(self, used: MemoryUse, limit: MemoryLimit) -> Option<MemoryKind> {
        let over = |all: u64, aged: u64, limit: u64| all > limit.saturating_mul(2) || aged > limit;
        if self.vmem && over(used.vmem_bytes, used.aged_vmem_bytes, limit.vmem_bytes) {
            Some(MemoryKind::Virtual)
        } else if self.pmem && over(used.pmem_bytes, used.aged_pmem_bytes, limit.pmem_bytes) {
            Some(MemoryKind::Physical)
        } else {
            None
        }
    }
}

/// Saturates; Hadoop computes with 32-bit floats and has the last few bytes of large limits
/// different.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a float saturates, and no amount is negative"
)]
fn scaled(bytes: u64, ratio: f64) -> u64 {
    (bytes as f64 * ratio) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: MemoryPolicy = MemoryPolicy {
        pmem: true,
        vmem: true,
        vmem_pmem_ratio: 2.0,
    };
    const LIMIT: MemoryLimit = MemoryLimit {
        pmem_bytes: 100,
        vmem_bytes: 200,
    };

    fn physical(all: u64, aged: u64) -> MemoryUse {
        MemoryUse {
            pmem_bytes: all,
            aged_pmem_bytes: aged,
            ..MemoryUse::default()
        }
    }

    #[test]
    fn what_is_used_up_to_the_limit_is_allowed() {
        assert_eq!(BOTH.exceeded(physical(100, 100), LIMIT), None);
        let over = BOTH.exceeded(physical(101, 101), LIMIT);
        assert_eq!(over, Some(MemoryKind::Physical));
    }

    #[test]
    fn young_processes_may_bring_a_container_to_twice_its_limit() {
        assert_eq!(BOTH.exceeded(physical(200, 100), LIMIT), None);
        let over = BOTH.exceeded(physical(201, 100), LIMIT);
        assert_eq!(over, Some(MemoryKind::Physical));
    }

    #[test]
    fn virtual_memory_is_looked_at_first() {
        let used = MemoryUse {
            vmem_bytes: 201,
            aged_vmem_bytes: 201,
            ..physical(101, 101)
        };
        assert_eq!(BOTH.exceeded(used, LIMIT), Some(MemoryKind::Virtual));
        let physical_only = MemoryPolicy {
            vmem: false,
            ..BOTH
        };
        let over = physical_only.exceeded(used, LIMIT);
        assert_eq!(over, Some(MemoryKind::Physical));
    }

    #[test]
    fn what_is_not_checked_is_not_exceeded() {
        let neither = MemoryPolicy {
            pmem: false,
            vmem: false,
            ..BOTH
        };
        assert!(!neither.checks());
        assert_eq!(neither.exceeded(physical(999, 999), LIMIT), None);
    }

    #[test]
    fn limits_follow_from_the_memory_given_and_saturate() {
        let limit = BOTH.limit(1024);
        assert_eq!(limit.pmem_bytes, 1 << 30);
        assert_eq!(limit.vmem_bytes, 2 << 30);
        assert_eq!(BOTH.limit(u64::MAX).vmem_bytes, u64::MAX);
    }
}
