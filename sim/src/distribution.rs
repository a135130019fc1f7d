//! Distributions of durations and sizes.

use crate::random::Random;

/// Distribution of a whole number, for example of milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Fixed(u64),
    /// Every number from the first to the second with the same probability.
    Uniform(u64, u64),
    /// Exponential with this mean: the gaps between independent events.
    Exponential(u64),
    /// The logarithm is uniform between those of the two numbers: many short, few long ones, as run
    /// times of tasks are. The first is at least 1.
    LogUniform(u64, u64),
    /// The second number with a probability in parts per million, otherwise the first.
    Mostly(u64, u64, u32),
}

impl Distribution {
    /// Draws a number.
    pub fn sample(&self, random: &mut Random) -> u64 {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform(from, to) => random.within(from..=to),
            Self::Exponential(mean) => whole(float(mean) * -(1.0 - random.fraction()).ln()),
            Self::LogUniform(from, to) => {
                let (from, to) = (float(from.max(1)).ln(), float(to.max(1)).ln());
                whole((from + (to - from) * random.fraction()).exp())
            }
            Self::Mostly(usual, other, per_million) => {
                if random.chance(per_million) {
                    other
                } else {
                    usual
                }
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "durations need no 53 bits")]
const fn float(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and no value is negative"
)]
const fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    fn mean(distribution: Distribution) -> u64 {
        let mut random = Streams::new(3).stream("test", 0);
        let sum: u64 = (0..20_000).map(|_| distribution.sample(&mut random)).sum();
        sum / 20_000
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        assert_eq!(mean(Distribution::Fixed(7)), 7);
        assert!((495..=505).contains(&mean(Distribution::Uniform(0, 1_000))));
        assert!((980..=1_020).contains(&mean(Distribution::Exponential(1_000))));
        // (b - a) / ln(b / a)
        assert!((2_080..=2_220).contains(&mean(Distribution::LogUniform(100, 10_000))));
        assert!((105..=115).contains(&mean(Distribution::Mostly(100, 200, 100_000))));
    }

    #[test]
    fn a_log_uniform_number_stays_between_its_ends() {
        let mut random = Streams::new(3).stream("test", 0);
        let distribution = Distribution::LogUniform(5, 50);
        assert!((0..10_000).all(|_| (5..=50).contains(&distribution.sample(&mut random))));
    }
}
