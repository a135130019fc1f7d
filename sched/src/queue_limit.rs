//! How many opportunistic containers may wait on a node, from how many wait on the nodes at large (Hadoop:
//! `QueueLimitCalculator`): the mean and so many standard deviations, within bounds.
//!
//! The arithmetic is Java's to the last bit: 32-bit sums that wrap, integer division, a deviation rounded to a whole
//! number, and single precision for the product. A limit that differs by one sheds other containers.

use crate::action::ContainerQueuingLimit;
use crate::node_load::LoadComparator;

/// What an operator decides about the limit, in containers or milliseconds as the comparator has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueLimitConfig {
    /// `yarn.resourcemanager.nm-container-queuing.queue-limit-stdev`: standard deviations above the mean.
    pub sigma: f32,
    /// `yarn.resourcemanager.nm-container-queuing.min-queue-length`, or `.min-queue-wait-time-ms`.
    pub min: i32,
    /// `yarn.resourcemanager.nm-container-queuing.max-queue-length`, or `.max-queue-wait-time-ms`. Wins over `min`.
    pub max: i32,
}

impl QueueLimitConfig {
    /// Hadoop's defaults for the metric that `comparator` orders by.
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

/// See the module. Before the first update both statistics are 0, so the limit is the lower bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueLimitCalculator {
    config: QueueLimitConfig,
    mean: i32,
    stdev: i32,
}

impl QueueLimitCalculator {
    /// With statistics of no nodes.
    #[must_use]
    pub const fn new(config: QueueLimitConfig) -> Self {
        Self {
            config,
            mean: 0,
            stdev: 0,
        }
    }

    /// Takes in the metrics of the nodes that are in use. Without any the statistics stay as they were.
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
        // Java rounds half up, Rust half away from zero: the same, since a root is not negative.
        self.stdev = double_to_int(f64::from(variance).sqrt().round());
    }

    /// The limit in force, in containers or milliseconds.
    #[must_use]
    pub fn threshold(&self) -> i32 {
        let spread = self.config.sigma * int_to_float(self.stdev);
        let wanted = float_to_int(int_to_float(self.mean) + spread);
        wanted.max(self.config.min).min(self.config.max)
    }

    /// The limit as nodes are told it. By waiting time the length is unlimited, so that nodes never shed: they do not
    /// look at the time. A negative limit, which only a negative `max` gives, is no limit, as nodes read it.
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

    /// The whole mean of the last update.
    #[must_use]
    pub const fn mean(&self) -> i32 {
        self.mean
    }

    /// The whole standard deviation of the last update.
    #[must_use]
    pub const fn stdev(&self) -> i32 {
        self.stdev
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "Java's d2i: towards zero, clamped, 0 for no number"
)]
fn double_to_int(value: f64) -> i32 {
    value as i32
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "Java's f2i: towards zero, clamped, 0 for no number"
)]
fn float_to_int(value: f32) -> i32 {
    value as i32
}

/// Java's i2f: to the nearest number that single precision has.
fn int_to_float(value: i32) -> f32 {
    value as f32
}
