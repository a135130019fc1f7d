//! Percentiles by nearest rank: always a value that occurred, never one between two. Pure.

/// Returns the rank, counted from 1 in ascending order, of the value that `percent` of 100 of
/// `count` values do not exceed; `None` without values.
#[must_use]
pub fn rank(count: u64, percent: u64) -> Option<u64> {
    let rank = count.saturating_mul(percent.min(100)).div_ceil(100).max(1);
    (count > 0).then_some(rank)
}

/// Returns the value that `percent` of 100 of the values do not exceed; `None` without values. The
/// values are in ascending order.
#[must_use]
pub fn of_sorted<T: Copy>(sorted: &[T], percent: u64) -> Option<T> {
    let rank = rank(sorted.len().try_into().ok()?, percent)?;
    let index = usize::try_from(rank - 1).ok()?;
    sorted.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        assert_eq!(of_sorted::<u64>(&[], 50), None);
        assert_eq!(of_sorted(&[7], 99), Some(7));
        assert_eq!(of_sorted(&[1, 2], 50), Some(1));
        let hundred: Vec<u64> = (1..=100).collect();
        for percent in [1, 50, 99, 100] {
            assert_eq!(of_sorted(&hundred, percent), Some(percent));
        }
        assert_eq!(of_sorted(&hundred, 0), Some(1));
        assert_eq!(of_sorted(&hundred, 101), Some(100));
    }
}
