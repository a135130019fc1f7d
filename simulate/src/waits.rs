//! Distribution of many waits in little memory.

use std::ops::AddAssign;

use crate::numbers::float;

/// Ranges into which each doubling of the wait is divided: a quantile is right within 1/16.
const PARTS: u64 = 16;

/// Waits in milliseconds: their sum exactly, their distribution within a sixteenth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    sum_ms: u64,
    count: u64,
    /// Number of waits in each range, the shortest first.
    ranges: Vec<u64>,
}

impl AddAssign<u64> for Waits {
    fn add_assign(&mut self, wait_ms: u64) {
        self.sum_ms += wait_ms;
        self.count += 1;
        let range = range_of(wait_ms);
        if self.ranges.len() <= range {
            self.ranges.resize(range + 1, 0);
        }
        self.ranges[range] += 1;
    }
}

impl Waits {
    /// Returns the sum in milliseconds.
    #[must_use]
    pub const fn sum_ms(&self) -> u64 {
        self.sum_ms
    }

    /// Returns the wait, in seconds, that this percentage of the waits does not exceed; 0 if there
    /// are none.
    #[must_use]
    pub fn percentile_s(&self, percent: u64) -> f64 {
        let wanted = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (range, count) in self.ranges.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return float(begin_of(range)) / 1_000.0;
            }
        }
        0.0
    }
}

/// Returns the number of a wait's range: exact below [`PARTS`], then [`PARTS`] for each doubling.
fn range_of(wait_ms: u64) -> usize {
    let range = if wait_ms < PARTS {
        wait_ms
    } else {
        let doublings = u64::from(wait_ms.ilog2()) - u64::from(PARTS.ilog2());
        PARTS * doublings + (wait_ms >> doublings)
    };
    usize::try_from(range).unwrap_or(usize::MAX)
}

/// Returns the shortest wait of a range in milliseconds.
fn begin_of(range: usize) -> u64 {
    let range = range as u64;
    if range < 2 * PARTS {
        return range;
    }
    let doublings = range / PARTS - 1;
    (range - PARTS * doublings) << doublings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_begins_with_the_shortest_wait_that_is_in_it() {
        for wait in (0..5_000).chain([1 << 40, u64::MAX]) {
            let begin = begin_of(range_of(wait));
            assert!(begin <= wait && range_of(begin) == range_of(wait), "{wait}");
            assert!(wait - begin <= wait / 16, "{wait} {begin}");
        }
    }

    #[test]
    fn quantiles_are_within_a_sixteenth_and_the_sum_is_exact() {
        let mut waits = Waits::default();
        for wait in 1..=10_000 {
            waits += wait;
        }
        assert_eq!(waits.sum_ms(), 50_005_000);
        for (percent, expected) in [(1, 0.1), (50, 5.0), (99, 9.9), (100, 10.0)] {
            let found = waits.percentile_s(percent);
            assert!(
                found <= expected && found >= expected * 15.0 / 16.0,
                "{percent}: {found}"
            );
        }
        assert!(Waits::default().percentile_s(50) <= 0.0);
    }
}
