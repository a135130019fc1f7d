//! Measured distributions, as points of their cumulative share.

use std::cmp::Ordering;

use thiserror::Error;

use crate::distribution::{float, whole};
use crate::random::Random;

/// Most points of a distribution.
pub const POINTS_MAX: usize = 1_000;

/// Error for points that are no distribution.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantilesError {
    /// The number of points is not from 2 to [`POINTS_MAX`].
    #[error("{0} points; a measured distribution has from 2 to {POINTS_MAX}")]
    Count(usize),
    /// The first point is not at 0 % or the last one not at 100 %.
    #[error("the first point must be at 0 percent and the last one at 100")]
    Ends,
    /// A share or a value is less than the one before, or no number.
    #[error("point {0}: percentages must rise, and values must not fall")]
    Order(usize),
}

/// Distribution of a whole number, from measured quantiles. Between two points the value is linear
/// in the share.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles {
    /// Percentage of the values that are at most the second number. From 0 to 100.
    points: Vec<(f64, u64)>,
}

impl Quantiles {
    /// Creates a distribution from points: a percentage, and the value that so many percent of the
    /// values do not exceed.
    ///
    /// # Errors
    /// [`QuantilesError`] when the points are no distribution.
    pub fn new(points: Vec<(f64, u64)>) -> Result<Self, QuantilesError> {
        if !(2..=POINTS_MAX).contains(&points.len()) {
            return Err(QuantilesError::Count(points.len()));
        }
        for (number, pair) in (2..).zip(points.windows(2)) {
            let ((percent, value), (next_percent, next_value)) = (pair[0], pair[1]);
            let rises = next_percent.partial_cmp(&percent) == Some(Ordering::Greater);
            if next_value < value || !rises {
                return Err(QuantilesError::Order(number));
            }
        }
        let at = |point: Option<&(f64, u64)>, percent: f64| {
            point.is_some_and(|(found, _)| (found - percent).abs() < f64::EPSILON)
        };
        if at(points.first(), 0.0) && at(points.last(), 100.0) {
            Ok(Self { points })
        } else {
            Err(QuantilesError::Ends)
        }
    }

    /// Draws a number.
    pub fn sample(&self, random: &mut Random) -> u64 {
        let percent = 100.0 * random.fraction();
        let after = self.points.partition_point(|(found, _)| *found <= percent);
        let after = after.clamp(1, self.points.len() - 1);
        let ((from, low), (to, high)) = (self.points[after - 1], self.points[after]);
        let part = (percent - from) / (to - from);
        whole(float(low) + part * float(high - low))
    }

    /// Returns the mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let pieces = self.points.windows(2).map(|pair| {
            let ((from, low), (to, high)) = (pair[0], pair[1]);
            (to - from) / 100.0 * float(low + high) / 2.0
        });
        pieces.sum()
    }

    /// Returns the greatest value.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.points.last().map_or(0, |(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    #[test]
    fn drawn_numbers_have_the_quantiles_and_the_mean() {
        let quantiles = Quantiles::new(vec![(0.0, 10), (50.0, 20), (90.0, 100), (100.0, 500)]);
        let quantiles = quantiles.unwrap();
        let mut random = Streams::new(3).stream("test", 0);
        let drawn: Vec<u64> = (0..20_000).map(|_| quantiles.sample(&mut random)).collect();
        let within = |value: u64| drawn.iter().filter(|drawn| **drawn <= value).count();
        assert!((9_700..=10_300).contains(&within(20)), "{}", within(20));
        assert!((17_800..=18_200).contains(&within(100)), "{}", within(100));
        assert!(drawn.iter().all(|drawn| (10..=500).contains(drawn)));
        // 0.5 * 15 + 0.4 * 60 + 0.1 * 300
        assert!((quantiles.mean() - 61.5).abs() < 1e-9);
        let sum: u64 = drawn.iter().sum();
        assert!((60..=63).contains(&(sum / 20_000)), "{sum}");
    }

    #[test]
    fn points_that_are_no_distribution_are_refused() {
        for (points, expected) in [
            (vec![(0.0, 1)], QuantilesError::Count(1)),
            (vec![(0.0, 1), (90.0, 2)], QuantilesError::Ends),
            (vec![(5.0, 1), (100.0, 2)], QuantilesError::Ends),
            (
                vec![(0.0, 1), (50.0, 3), (100.0, 2)],
                QuantilesError::Order(3),
            ),
            (
                vec![(0.0, 1), (0.0, 1), (100.0, 2)],
                QuantilesError::Order(2),
            ),
            (
                vec![(0.0, 1), (f64::NAN, 1), (100.0, 2)],
                QuantilesError::Order(2),
            ),
        ] {
            assert_eq!(Quantiles::new(points), Err(expected));
        }
    }
}
