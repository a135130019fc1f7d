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
    /// Log-normal with this mean and this coefficient of variation, as measured times of calls and
    /// launches often are.
    LogNormal(f64, f64),
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
            Self::LogNormal(mean, variation) => {
                let variance = (1.0 + variation * variation).ln();
                let location = mean.ln() - variance / 2.0;
                whole((location + variance.sqrt() * normal(random)).exp())
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

    /// Returns the mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Fixed(value) | Self::Exponential(value) => float(value),
            Self::Uniform(from, to) => f64::midpoint(float(from), float(to)),
            Self::LogUniform(from, to) => {
                let (from, to) = (float(from.max(1)), float(to.max(1)));
                if to > from {
                    (to - from) / (to / from).ln()
                } else {
                    from
                }
            }
            Self::LogNormal(mean, _) => mean,
            Self::Mostly(usual, other, per_million) => {
                let share = f64::from(per_million) / 1_000_000.0;
                float(usual) * (1.0 - share) + float(other) * share
            }
        }
    }
}

/// Draws from the normal distribution with the mean 0 and the variance 1 (Box and Muller, 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.fraction()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.fraction()).cos()
}

#[expect(clippy::cast_precision_loss, reason = "durations need no 53 bits")]
pub(crate) const fn float(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and no value is negative"
)]
pub(crate) const fn whole(value: f64) -> u64 {
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
        assert!((980..=1_020).contains(&mean(Distribution::LogNormal(1_000.0, 0.5))));
    }

    #[test]
    fn stated_means_are_those_of_drawn_numbers() {
        for distribution in [
            Distribution::Fixed(1_000),
            Distribution::Uniform(500, 2_000),
            Distribution::Exponential(1_000),
            Distribution::LogUniform(100, 10_000),
            Distribution::LogUniform(7, 7),
            Distribution::LogNormal(1_000.0, 0.7),
            Distribution::Mostly(1_000, 9_000, 200_000),
        ] {
            let (stated, drawn) = (distribution.mean(), float(mean(distribution)));
            assert!(
                (drawn / stated - 1.0).abs() < 0.04,
                "{distribution:?}: {drawn}"
            );
        }
    }

    #[test]
    fn the_coefficient_of_variation_of_a_log_normal_number_is_the_stated_one() {
        let mut random = Streams::new(3).stream("test", 0);
        let distribution = Distribution::LogNormal(1_000.0, 0.5);
        let squares: f64 = (0..20_000)
            .map(|_| (float(distribution.sample(&mut random)) - 1_000.0).powi(2))
            .sum();
        let variation = (squares / 20_000.0).sqrt() / 1_000.0;
        assert!((0.47..0.53).contains(&variation), "{variation}");
    }

    #[test]
    fn a_log_uniform_number_stays_between_its_ends() {
        let mut random = Streams::new(3).stream("test", 0);
        let distribution = Distribution::LogUniform(5, 50);
        assert!((0..10_000).all(|_| (5..=50).contains(&distribution.sample(&mut random))));
    }
}
