//! Conversions between the scales of both versions, as pure functions. Values are v2's; v1's are
//! computed from them.

use std::fmt;

/// A share of CPU or device time relative to siblings, on v2's scale: 1 to 10,000, default 100
/// (kernel: cgroup-v2, "Weights").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u32);

impl Weight {
    /// Smallest weight that v2 accepts.
    pub const MIN: Self = Self(1);
    /// Weight of a cgroup that nothing was written to.
    pub const DEFAULT: Self = Self(100);
    /// Largest weight that v2 accepts.
    pub const MAX: Self = Self(10_000);

    /// Returns the nearest valid weight.
    #[must_use]
    pub fn new(weight: u64) -> Self {
        let clamped = weight.clamp(1, 10_000);
        Self(u32::try_from(clamped).unwrap_or(Self::MAX.0))
    }

    /// Returns the weight on v2's scale.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns v1's `cpu.shares`: 2 to 262,144, default 1,024. The kernel's own rule, 1,024 shares
    /// for a weight of 100, except that the least weight becomes the fewest shares: the lowest
    /// priority stays the lowest.
    #[must_use]
    pub fn cpu_shares(self) -> u64 {
        if self == Self::MIN {
            return 2;
        }
        (u64::from(self.0) * 1_024 / 100).clamp(2, 262_144)
    }

    /// Returns v1's `blkio.weight`: 10 to 1,000, default 500 (kernel: blkio-controller). Linear on
    /// each side of the default, so that minimum, default and maximum map to minimum, default and
    /// maximum.
    #[must_use]
    pub fn blkio_weight(self) -> u64 {
        let weight = u64::from(self.0);
        if weight <= 100 {
            10 + (weight - 1) * 490 / 99
        } else {
            500 + (weight - 100) * 500 / 9_900
        }
    }

    /// Returns the BFQ scheduler's weight, on both versions: 1 to 1,000, default 100 (kernel:
    /// bfq-iosched).
    #[must_use]
    pub fn bfq_weight(self) -> u64 {
        let weight = u64::from(self.0);
        if weight <= 100 {
            weight
        } else {
            100 + (weight - 100) * 900 / 9_900
        }
    }
}

/// An upper limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// At most this many bytes or tasks.
    At(u64),
    /// No limit beyond those of ancestors.
    Unlimited,
}

impl fmt::Display for Bound {
    /// Formats the limit for v2's files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(bound) => write!(f, "{bound}"),
            Self::Unlimited => f.write_str("max"),
        }
    }
}

impl Bound {
    /// Returns the limit for v1's memory files: bytes, or -1.
    #[must_use]
    pub fn v1_bytes(self) -> String {
        match self {
            Self::At(bytes) => bytes.to_string(),
            Self::Unlimited => "-1".to_owned(),
        }
    }

    /// Returns the sum of two limits; unlimited if one is.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(a), Self::At(b)) => Self::At(a.saturating_add(b)),
            (Self::Unlimited, _) | (_, Self::Unlimited) => Self::Unlimited,
        }
    }
}

/// A limit on CPU time per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuQuota {
    /// No limit: any idle CPU time may be used.
    Unlimited,
    /// At most `quota_us` of CPU time in each `period_us`. The kernel accepts periods of 1,000 to
    /// 1,000,000 µs and quotas from 1,000 µs.
    At {
        /// Microseconds of CPU time.
        quota_us: u64,
        /// Microseconds of wall time.
        period_us: u64,
    },
}

impl CpuQuota {
    /// Longest period that the kernel accepts.
    const PERIOD_MAX_US: u64 = 1_000_000;
    /// Shortest period, and least quota, that the kernel accepts.
    const LEAST_US: u64 = 1_000;

    /// Returns the quota of a number of CPUs, by Hadoop's arithmetic
    /// (`CGroupsCpuResourceHandlerImpl.getOverallLimits`): the largest quota that the kernel allows
    /// and a period to match, since long periods throttle least often. Below one CPU the period
    /// stays and the quota shrinks. Unlimited if the number of CPUs is too large for any period.
    #[must_use]
    pub fn of_cpus(cpus: f64) -> Self {
        if !cpus.is_finite() || cpus <= 0.0 {
            return Self::Unlimited;
        }
        let most = 1_000_000.0;
        if cpus < 1.0 {
            return Self::At {
                quota_us: whole(most * cpus).max(Self::LEAST_US),
                period_us: Self::PERIOD_MAX_US,
            };
        }
        let period_us = whole(most / cpus);
        if period_us < Self::LEAST_US {
            return Self::Unlimited;
        }
        Self::At {
            quota_us: Self::PERIOD_MAX_US,
            period_us,
        }
    }

    /// Formats the quota for v2's `cpu.max`.
    #[must_use]
    pub fn cpu_max(self) -> String {
        match self {
            Self::Unlimited => "max".to_owned(),
            Self::At {
                quota_us,
                period_us,
            } => format!("{quota_us} {period_us}"),
        }
    }
}

/// Returns the whole microseconds of a number between 0 and 1,000,000.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the callers have bounded it, and cutting the fraction off is what is wanted"
)]
fn whole(us: f64) -> u64 {
    us as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn default_weight_is_default_shares_and_ends_are_ends() {
        for (weight, shares, blkio, bfq) in [
            (1, 2, 10, 1),
            (2, 20, 14, 2),
            (100, 1_024, 500, 100),
            (200, 2_048, 505, 109),
            (10_000, 102_400, 1_000, 1_000),
        ] {
            let weight = Weight::new(weight);
            let all = (
                weight.cpu_shares(),
                weight.blkio_weight(),
                weight.bfq_weight(),
            );
            assert_eq!(all, (shares, blkio, bfq), "{weight:?}");
        }
    }

    #[test]
    fn quotas_are_hadoops() {
        let at = |quota_us, period_us| CpuQuota::At {
            quota_us,
            period_us,
        };
        for (cpus, quota) in [
            (1.0, at(1_000_000, 1_000_000)),
            (2.0, at(1_000_000, 500_000)),
            (3.0, at(1_000_000, 333_333)),
            (0.5, at(500_000, 1_000_000)),
            (0.0001, at(1_000, 1_000_000)),
            (1_000.0, at(1_000_000, 1_000)),
            (1_001.0, CpuQuota::Unlimited),
            (0.0, CpuQuota::Unlimited),
            (f64::NAN, CpuQuota::Unlimited),
        ] {
            assert_eq!(CpuQuota::of_cpus(cpus), quota, "{cpus}");
        }
        assert_eq!(at(20_000, 100_000).cpu_max(), "20000 100000");
        assert_eq!(CpuQuota::Unlimited.cpu_max(), "max");
    }

    #[test]
    fn bounds_are_written_as_each_version_wants_them() {
        assert_eq!(Bound::At(7).to_string(), "7");
        assert_eq!(Bound::Unlimited.to_string(), "max");
        assert_eq!(Bound::Unlimited.v1_bytes(), "-1");
        assert_eq!(Bound::At(u64::MAX).plus(Bound::At(1)), Bound::At(u64::MAX));
        assert_eq!(Bound::At(1).plus(Bound::Unlimited), Bound::Unlimited);
    }

    proptest! {
        #[test]
        fn heavier_never_becomes_lighter(a in 1_u64..=10_000, b in 1_u64..=10_000) {
            let (light, heavy) = (Weight::new(a.min(b)), Weight::new(a.max(b)));
            prop_assert!(light.cpu_shares() <= heavy.cpu_shares());
            prop_assert!(light.blkio_weight() <= heavy.blkio_weight());
            prop_assert!(light.bfq_weight() <= heavy.bfq_weight());
        }

        #[test]
        fn any_quota_is_one_that_the_kernel_takes(cpus in proptest::num::f64::ANY) {
            if let CpuQuota::At { quota_us, period_us } = CpuQuota::of_cpus(cpus) {
                prop_assert!((1_000..=1_000_000).contains(&period_us));
                prop_assert!(quota_us >= 1_000);
            }
        }
    }
}
