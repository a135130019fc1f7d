//! Utilization of the node by allocation: by what containers were given, not by what they really
//! use (Hadoop: `AllocationBasedResourceUtilizationTracker`).

use std::ops::{Add, AddAssign, Sub, SubAssign};

use records::{ExecutionType, Resource};
use serde::{Deserialize, Serialize};

use crate::container_state::ContainerState;

/// Virtual memory allowed per physical memory (`yarn.nodemanager.vmem-pmem-ratio`), in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmemPmemRatio {
    thousandths: u32,
}

impl VmemPmemRatio {
    /// Hadoop's default of 2.1.
    pub const DEFAULT: Self = Self { thousandths: 2_100 };

    /// Returns the ratio rounded to thousandths; `None` unless it is above 0 and at most 1,000,000.
    #[must_use]
    pub fn new(ratio: f64) -> Option<Self> {
        let thousandths = (ratio * 1_000.0).round();
        if !(1.0..=1e9).contains(&thousandths) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number from 1 to 1e9, checked above"
        )]
        let thousandths = thousandths as u32;
        Some(Self { thousandths })
    }
}

/// A resource in every dimension that decides whether a container may start.
///
/// Wide enough that the sum over all containers cannot overflow: sizes are 64 bits wide and come
/// from a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    memory_mb: u128,
    /// Virtual memory in mebibytes; 0 when the virtual memory check is off.
    vmem_mb: u128,
    vcores: u64,
}

impl Amount {
    /// Returns `resource` in every dimension. Virtual memory is rounded down to mebibytes, as in
    /// Hadoop, for containers and node alike.
    pub(crate) fn new(resource: Resource, vmem_check: Option<VmemPmemRatio>) -> Self {
        let memory_mb = u128::from(resource.memory_mb);
        let vmem_mb =
            vmem_check.map_or(0, |ratio| memory_mb * u128::from(ratio.thousandths) / 1_000);
        Self {
            memory_mb,
            vmem_mb,
            vcores: u64::from(resource.vcores),
        }
    }

    /// Returns the memory in mebibytes.
    pub(crate) fn memory_mb(self) -> u128 {
        self.memory_mb
    }

    /// Returns the virtual cores.
    pub(crate) fn vcores(self) -> u64 {
        self.vcores
    }

    /// Returns whether every dimension is at most that of `room`.
    pub(crate) fn fits_in(self, room: Self) -> bool {
        self.memory_mb <= room.memory_mb
            && self.vmem_mb <= room.vmem_mb
            && self.vcores <= room.vcores
    }

    /// Returns the difference, 0 in the dimensions where `other` is larger.
    pub(crate) fn saturating_sub(self, other: Self) -> Self {
        Self {
            memory_mb: self.memory_mb.saturating_sub(other.memory_mb),
            vmem_mb: self.vmem_mb.saturating_sub(other.vmem_mb),
            vcores: self.vcores.saturating_sub(other.vcores),
        }
    }

    /// Returns whether every dimension is 0.
    pub(crate) fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// Returns memory and cores, clamped to what the type holds.
    pub(crate) fn to_resource(self) -> Resource {
        Resource::new(
            u64::try_from(self.memory_mb).unwrap_or(u64::MAX),
            u32::try_from(self.vcores).unwrap_or(u32::MAX),
        )
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            memory_mb: self.memory_mb + other.memory_mb,
            vmem_mb: self.vmem_mb + other.vmem_mb,
            vcores: self.vcores + other.vcores,
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Amount {
    type Output = Self;

    /// Subtracts what was added before. A larger value is a defect in this crate and overflows.
    fn sub(self, other: Self) -> Self {
        Self {
            memory_mb: self.memory_mb - other.memory_mb,
            vmem_mb: self.vmem_mb - other.vmem_mb,
            vcores: self.vcores - other.vcores,
        }
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// Sums over the containers that hold an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceUtilizationTracker {
    /// Sum over both execution types.
    pub(crate) allocated: Amount,
    /// Sum over the opportunistic containers.
    pub(crate) opportunistic: Amount,
    /// Number of opportunistic containers.
    pub(crate) opportunistic_count: usize,
    /// Number of guaranteed containers.
    pub(crate) guaranteed_count: usize,
    /// Sum over the containers that are being killed or frozen: freed without a further decision.
    pub(crate) being_freed: Amount,
}

impl ResourceUtilizationTracker {
    /// Adds a container in this state.
    pub(crate) fn add(&mut self, kind: ExecutionType, state: ContainerState, amount: Amount) {
        if !state.holds_room() {
            return;
        }
        self.allocated += amount;
        match kind {
            ExecutionType::Guaranteed => self.guaranteed_count += 1,
            ExecutionType::Opportunistic => {
                self.opportunistic += amount;
                self.opportunistic_count += 1;
            }
        }
        if state.frees_room() {
            self.being_freed += amount;
        }
    }

    /// Subtracts a container that was added with the same type, state and amount.
    pub(crate) fn subtract(&mut self, kind: ExecutionType, state: ContainerState, amount: Amount) {
        if !state.holds_room() {
            return;
        }
        self.allocated -= amount;
        match kind {
            ExecutionType::Guaranteed => self.guaranteed_count -= 1,
            ExecutionType::Opportunistic => {
                self.opportunistic -= amount;
                self.opportunistic_count -= 1;
            }
        }
        if state.frees_room() {
            self.being_freed -= amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(memory_mb: u64, vcores: u32) -> Amount {
        Amount::new(
            Resource::new(memory_mb, vcores),
            Some(VmemPmemRatio::DEFAULT),
        )
    }

    #[test]
    fn virtual_memory_is_rounded_down_to_mebibytes() {
        assert_eq!(amount(1, 1).vmem_mb, 2);
        assert_eq!(amount(1_000, 1).vmem_mb, 2_100);
    }

    #[test]
    fn virtual_memory_does_not_count_when_its_check_is_off() {
        let without = Amount::new(Resource::new(1_000, 1), None);
        assert_eq!(without.vmem_mb, 0);
    }

    #[test]
    fn ratios_that_cannot_be_meant_are_refused() {
        for ratio in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e12] {
            assert_eq!(VmemPmemRatio::new(ratio), None, "{ratio}");
        }
        assert_eq!(VmemPmemRatio::new(2.1), Some(VmemPmemRatio::DEFAULT));
    }

    #[test]
    fn as_many_of_the_largest_containers_as_may_be_known_do_not_overflow() {
        let ratio = VmemPmemRatio::new(1_000_000.0);
        let largest = Amount::new(Resource::new(u64::MAX, u32::MAX), ratio);
        let total = (0..crate::CONTAINERS_MAX).fold(Amount::default(), |sum, _| sum + largest);
        assert!(!total.fits_in(largest));
        assert_eq!(total.to_resource(), Resource::new(u64::MAX, u32::MAX));
    }

    #[test]
    fn what_is_counted_can_be_taken_out_again() {
        let mut tracker = ResourceUtilizationTracker::default();
        let killing = ContainerState::Killing { holds_room: true };
        let running = ContainerState::Running { order: 1 };
        tracker.add(ExecutionType::Opportunistic, killing, amount(10, 1));
        tracker.add(ExecutionType::Guaranteed, running, amount(5, 2));
        assert_eq!(tracker.allocated, amount(10, 1) + amount(5, 2));
        assert_eq!(tracker.being_freed, amount(10, 1));
        assert_eq!(tracker.opportunistic_count, 1);
        tracker.subtract(ExecutionType::Opportunistic, killing, amount(10, 1));
        tracker.subtract(ExecutionType::Guaranteed, running, amount(5, 2));
        assert_eq!(tracker, ResourceUtilizationTracker::default());
    }
}
