//! An amount of memory and virtual cores that a container asks for or a node offers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Memory and virtual cores (Hadoop: `org.apache.hadoop.yarn.api.records.Resource`).
///
/// Covers only the two resource types that decide whether a container may start. Further resource
/// types stay in the bytes of the container token, unread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// Memory in mebibytes.
    pub memory_mb: u64,
    /// Whole virtual cores.
    pub vcores: u32,
}

impl Resource {
    /// Returns an amount of `memory_mb` mebibytes and `vcores` virtual cores.
    #[must_use]
    pub const fn new(memory_mb: u64, vcores: u32) -> Self {
        Self { memory_mb, vcores }
    }

    /// Returns whether `self` is at most `room` in every type.
    #[must_use]
    pub fn fits_in(self, room: Self) -> bool {
        self.memory_mb <= room.memory_mb && self.vcores <= room.vcores
    }

    /// Returns the sum, clamped to what the types hold.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self {
            memory_mb: self.memory_mb.saturating_add(other.memory_mb),
            vcores: self.vcores.saturating_add(other.vcores),
        }
    }

    /// Returns the difference, each type at least 0.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self {
            memory_mb: self.memory_mb.saturating_sub(other.memory_mb),
            vcores: self.vcores.saturating_sub(other.vcores),
        }
    }

    /// Returns the difference, or `None` if any type would fall below 0.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        Some(Self {
            memory_mb: self.memory_mb.checked_sub(other.memory_mb)?,
            vcores: self.vcores.checked_sub(other.vcores)?,
        })
    }
}

impl fmt::Display for Resource {
    /// Writes Hadoop's text: `<memory:1024, vCores:1>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<memory:{}, vCores:{}>", self.memory_mb, self.vcores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_only_when_every_type_fits() {
        let room = Resource::new(1024, 2);
        assert!(Resource::new(1024, 2).fits_in(room));
        assert!(!Resource::new(1025, 1).fits_in(room));
        assert!(!Resource::new(1, 3).fits_in(room));
    }

    #[test]
    fn checked_sub_refuses_to_go_below_zero_in_either_type() {
        let a = Resource::new(1024, 2);
        assert_eq!(
            a.checked_sub(Resource::new(24, 2)),
            Some(Resource::new(1000, 0))
        );
        assert_eq!(a.checked_sub(Resource::new(1, 3)), None);
        assert_eq!(a.checked_sub(Resource::new(1025, 0)), None);
    }
}
