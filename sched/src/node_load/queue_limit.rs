//! Limit of the opportunistic queues, from the queues of all nodes (Hadoop:
//! `QueueLimitCalculator`): the mean plus a number of standard deviations, within bounds.
//!
//! The arithmetic is Java's to the last bit: 32-bit sums that wrap, integer division, a deviation
//! rounded to a whole number, and single precision for the product. A limit that differs by one
//! sheds other containers.

use super::comparator::LoadComparator;
use crate::action::ContainerQueuingLimit;

/// Configuration of the limit, in containers or milliseconds, depending on the comparator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueLimitConfig {
    /// `yarn.resourcemanager.nm-container-queuing.queue-limit-stdev`: standard deviations above the
    /// mean.
    pub sigma: f32,
    /// `yarn.resourcemanager.nm-container-queuing.min-queue-length`, or `.min-queue-wait-time-ms`.
    pub min: i32,
    /// `yarn.resourcemanager.nm-container-queuing.max-queue-length`, or `.max-queue-wait-time-ms`.
    /// Overrides `min`.
    pub max: i32,
}

impl QueueLimitConfig {
    /// Returns Hadoop's defaults for the metric that `comparator` orders by.
    #[must_use]
    pub const fn default_for(comparator: LoadComparator) -> Self {
        let (min, max) = match comparator {
            LoadComparator::QueueLength | LoadComparator::QueueLengthThenResources => (5, 15),
            LoadComparator::QueueWaitTime => (10, 100),
        };
        Self {
            sigma: 1.0,
            min,
            max,
        }
    }
}

/// Statistics of the nodes' queues and the limit computed from them. Before the first update both
/// statistics are 0, so the limit is the lower bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueLimitCalculator {
    config: QueueLimitConfig,
    mean: i32,
    stdev: i32,
}

impl QueueLimitCalculator {
    /// Creates a calculator with the statistics of no nodes.
    #[must_use]
    pub const fn new(config: QueueLimitConfig) -> Self {
        Self {
            config,
            mean: 0,
            stdev: 0,
        }
    }

    /// Computes the statistics from the metrics of the usable nodes. Without nodes the statistics
    /// stay unchanged.
    pub fn update(&mut self, metrics: &[i32]) {
        let nodes = i32::try_from(metrics.len()).unwrap_or(i32::MAX);
        if nodes == 0 {
            return;
        }
        let sum = metrics.iter().fold(0_i32, |sum, m| sum.wrapping_add(*m));
        self.mean = sum / nodes;
        let squares = metrics.iter().fold(0_i32, |sum, m| {
            let distance = f64::from(m.wrapping_sub(self.mean));
            double_to_int(f64::from(sum) + distance * distance)
        });
        let variance = int_to_float(squares) / int_to_float(nodes);
        // Java rounds half up, Rust half away from zero: the same, because a root is not negative.
        self.stdev = double_to_int(f64::from(variance).sqrt().round());
    }

    /// Returns the limit in force, in containers or milliseconds.
    #[must_use]
    pub fn threshold(&self) -> i32 {
        let spread = self.config.sigma * int_to_float(self.stdev);
        let wanted = float_to_int(int_to_float(self.mean) + spread);
        wanted.max(self.config.min).min(self.config.max)
    }

    /// Returns the limit to publish to the nodes. If nodes are compared by wait, the length is
    /// unlimited and nodes never shed, because they ignore the time. A negative limit, possible
    /// only with a negative `max`, means no limit to the nodes.
    #[must_use]
    pub fn limit(&self, comparator: LoadComparator) -> ContainerQueuingLimit {
        let threshold = self.threshold();
        match comparator {
            LoadComparator::QueueLength | LoadComparator::QueueLengthThenResources => {
                ContainerQueuingLimit {
                    max_queue_length: usize::try_from(threshold).ok(),
                    max_queue_wait_time_ms: None,
                }
            }
            LoadComparator::QueueWaitTime => ContainerQueuingLimit {
                max_queue_length: None,
                max_queue_wait_time_ms: u64::try_from(threshold).ok(),
            },
        }
    }

    /// Returns the mean of the last update, truncated to a whole number.
    #[must_use]
    pub const fn mean(&self) -> i32 {
        self.mean
    }

    /// Returns the standard deviation of the last update, rounded to a whole number.
    #[must_use]
    pub const fn stdev(&self) -> i32 {
        self.stdev
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "Java's d2i: towards zero, clamped, 0 for NaN"
)]
fn double_to_int(value: f64) -> i32 {
    value as i32
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "Java's f2i: towards zero, clamped, 0 for NaN"
)]
fn float_to_int(value: f32) -> i32 {
    value as i32
}

/// Converts as Java's i2f: to the nearest value of single precision.
fn int_to_float(value: i32) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn calculator(sigma: f32, min: i32, max: i32, metrics: &[i32]) -> QueueLimitCalculator {
        let mut calculator = QueueLimitCalculator::new(QueueLimitConfig { sigma, min, max });
        calculator.update(metrics);
        calculator
    }

    #[test]
    fn limits_are_those_of_hadoop() {
        let mut lines = 0;
        for line in include_str!("../../testdata/queue_limit_3.4.2.txt").lines() {
            if line.starts_with('#') {
                continue;
            }
            let mut fields = line.split(' ');
            let mut field = || fields.next().unwrap();
            let metrics: Vec<i32> = match field() {
                "-" => Vec::new(),
                metrics => metrics.split(',').map(|m| m.parse().unwrap()).collect(),
            };
            let sigma = field().parse().unwrap();
            let mut number = || field().parse::<i32>().unwrap();
            let (min, max) = (number(), number());
            let found = calculator(sigma, min, max, &metrics);
            assert_eq!(
                (found.mean(), found.stdev(), found.threshold()),
                (number(), number(), number()),
                "{line}"
            );
            lines += 1;
        }
        assert_eq!(lines, 60);
    }

    #[test]
    fn the_first_limit_is_the_lower_bound_and_no_nodes_change_nothing() {
        let config = QueueLimitConfig::default_for(LoadComparator::QueueLength);
        let mut calculator = QueueLimitCalculator::new(config);
        assert_eq!(calculator.threshold(), 5);
        calculator.update(&[9, 9]);
        assert_eq!(calculator.threshold(), 9);
        calculator.update(&[]);
        assert_eq!(calculator.threshold(), 9);
    }

    #[test]
    fn the_upper_bound_wins_over_the_lower() {
        assert_eq!(calculator(1.0, 15, 5, &[10]).threshold(), 5);
    }

    #[test]
    fn a_limit_by_time_leaves_the_length_open() {
        let calculator = calculator(1.0, 10, 100, &[50]);
        let by_time = calculator.limit(LoadComparator::QueueWaitTime);
        assert_eq!(by_time.max_queue_length, None);
        assert_eq!(by_time.max_queue_wait_time_ms, Some(50));
        let by_length = calculator.limit(LoadComparator::QueueLengthThenResources);
        assert_eq!(by_length.max_queue_length, Some(50));
        assert_eq!(by_length.max_queue_wait_time_ms, None);
    }

    proptest! {
        #[test]
        fn whatever_nodes_say_the_limit_is_within_its_bounds(
            metrics in prop::collection::vec(any::<i32>(), 0..20),
            sigma in any::<f32>(),
            min in -10..1_000_i32,
            range in 0..1_000_i32,
        ) {
            let threshold = calculator(sigma, min, min + range, &metrics).threshold();
            prop_assert!((min..=min + range).contains(&threshold));
        }

        /// Compares with the formula in double precision; for short queues single precision is
        /// exact enough.
        #[test]
        fn the_limit_is_the_mean_and_so_many_deviations(
            metrics in prop::collection::vec(0..50_i32, 1..100),
            halves in 0..6_u8,
        ) {
            let nodes = metrics.len() as f64;
            let mean = (f64::from(metrics.iter().sum::<i32>()) / nodes).floor();
            let squares: f64 = metrics.iter().map(|m| (f64::from(*m) - mean).powi(2)).sum();
            let stdev = (squares / nodes).sqrt().round();
            let expected = (mean + f64::from(halves) / 2.0 * stdev).floor();
            let found = calculator(f32::from(halves) / 2.0, 0, i32::MAX, &metrics).threshold();
            prop_assert_eq!(f64::from(found), expected);
        }
    }
}
