//! Measured times and their percentiles.

use std::time::{Duration, Instant};

use records::percentile::of_sorted;

/// Measured times, or differences between two of them, in milliseconds; at least one.
#[derive(Debug, Clone)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Calls `measure` this many times.
    ///
    /// # Panics
    /// When `count` is 0.
    pub fn take(count: usize, measure: impl FnMut(usize) -> Duration) -> Self {
        (0..count).map(measure).collect()
    }

    /// Calls `measure` this many times, but not again once `limit` has passed since the first.
    ///
    /// # Panics
    /// When `count` is 0.
    pub fn take_within(
        count: usize,
        limit: Duration,
        measure: impl FnMut(usize) -> Duration,
    ) -> Self {
        let begin = Instant::now();
        let is_due = |number: &usize| *number == 0 || begin.elapsed() < limit;
        (0..count).take_while(is_due).map(measure).collect()
    }

    /// Returns the samples with the shorter median.
    #[must_use]
    pub fn or_shorter(self, other: Self) -> Self {
        if other.p50() < self.p50() {
            other
        } else {
            self
        }
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the median, in milliseconds.
    #[must_use]
    pub fn p50(&self) -> f64 {
        self.percentile(50)
    }

    /// Returns whether there are enough samples for a 99th percentile that is no maximum.
    #[must_use]
    pub fn have_p99(&self) -> bool {
        self.0.len() >= 100
    }

    /// Returns the 99th percentile, in milliseconds; of fewer than a hundred samples, the longest.
    #[must_use]
    pub fn p99(&self) -> f64 {
        self.percentile(99)
    }

    fn percentile(&self, percent: u64) -> f64 {
        of_sorted(&self.0, percent).expect("there is at least one sample")
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        times.into_iter().map(milliseconds).collect()
    }
}

/// Times or differences in milliseconds, in any order; at least one.
impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(times: I) -> Self {
        let mut samples: Vec<f64> = times.into_iter().collect();
        assert!(!samples.is_empty(), "nothing was measured");
        samples.sort_by(f64::total_cmp);
        Self(samples)
    }
}

/// Returns a time in milliseconds.
#[must_use]
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_measured_once() {
        let samples = Samples::take_within(9, Duration::ZERO, |_| Duration::from_millis(3));
        assert_eq!((samples.count(), samples.p99()), (1, 3.0));
        let limit = Duration::from_secs(3600);
        let samples = Samples::take_within(9, limit, |_| Duration::ZERO);
        assert_eq!(samples.count(), 9);
    }
}
