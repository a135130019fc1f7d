//! Histogram of the containers' waits, of bounded size. Pure.

use std::collections::BTreeMap;

use records::percentile;

/// Bound below which values are kept exactly; above, to one part in this number.
const EXACT_BELOW: u64 = 32;

/// Histogram of milliseconds. At most 2,000 buckets, however many values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Number of values by the lower bound of their bucket.
    buckets: BTreeMap<u64, u64>,
    count: u64,
}

/// Returns the lower bound of a value's bucket: its five leading bits.
const fn bucket(value_ms: u64) -> u64 {
    if value_ms < EXACT_BELOW {
        return value_ms;
    }
    let shift = value_ms.ilog2() - EXACT_BELOW.ilog2();
    value_ms >> shift << shift
}

impl Waits {
    /// Adds a value.
    pub fn add(&mut self, value_ms: u64) {
        *self.buckets.entry(bucket(value_ms)).or_default() += 1;
        self.count += 1;
    }

    /// Returns the value that `percent` of 100 of the values do not exceed, rounded down to its
    /// bucket; `None` without values.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let rank = percentile::rank(self.count, percent)?;
        let mut seen = 0;
        for (value, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return Some(*value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let mut waits = Waits::default();
        assert_eq!(waits.percentile(50), None);
        for value in 1..=10 {
            waits.add(value);
        }
        assert_eq!(waits.percentile(0), Some(1));
        assert_eq!(waits.percentile(50), Some(5));
        assert_eq!(waits.percentile(99), Some(10));
    }

    proptest! {
        #[test]
        fn a_percentile_is_at_most_three_percent_below_the_true_one(
            mut values in prop::collection::vec(0_u64..10_000_000, 1..200),
            percent in 1_u64..=100,
        ) {
            let mut waits = Waits::default();
            values.iter().for_each(|value| waits.add(*value));
            values.sort_unstable();
            let rank = usize::try_from(percent).unwrap() * values.len();
            let truth = values[rank.div_ceil(100) - 1];
            let estimate = waits.percentile(percent).unwrap();
            prop_assert!(estimate <= truth && truth - estimate <= truth / 32, "{} for {}", estimate, truth);
        }

        #[test]
        fn any_value_has_a_bucket(value: u64) {
            let mut waits = Waits::default();
            waits.add(value);
            prop_assert!(waits.percentile(99).is_some_and(|told| told <= value));
        }
    }
}
