//! Delays: a number of milliseconds, or a distribution of them.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use sim::{Distribution, Quantiles, Random};

use crate::numbers::float;

/// Greatest mean and greatest coefficient of variation of a delay.
const MEAN_MAX_MS: f64 = 600_000.0;
const VARIATION_MAX: f64 = 100.0;

/// Delay in milliseconds, drawn anew each time.
///
/// ```toml
/// launch-ms = 5
/// launch-ms = { uniform = [3, 9] }
/// launch-ms = { exponential = 5 }
/// launch-ms = { log-normal = { mean = 165.0, variation = 0.4 } }
/// launch-ms = { quantiles = [[0, 120], [50, 165], [95, 400], [100, 900]] }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Delay {
    /// Distribution by a formula.
    Drawn(Distribution),
    /// Measured quantiles: percent, and the milliseconds that so many do not exceed.
    Measured(Quantiles),
}

/// Distribution as scenarios write it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    Fixed(u64),
    Uniform(u64, u64),
    Exponential(u64),
    LogNormal(LogNormal),
    Quantiles(Vec<(f64, u64)>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogNormal {
    mean: f64,
    variation: f64,
}

impl Delay {
    /// Returns the delay that is always the same.
    #[must_use]
    pub const fn fixed(ms: u64) -> Self {
        Self::Drawn(Distribution::Fixed(ms))
    }

    /// Returns whether the delay is always the same, so that nothing is drawn for it.
    pub(crate) const fn is_fixed(&self) -> bool {
        matches!(self, Self::Drawn(Distribution::Fixed(_)))
    }

    /// Draws a delay.
    pub(crate) fn sample(&self, random: &mut Random) -> u64 {
        match self {
            Self::Drawn(distribution) => distribution.sample(random),
            Self::Measured(quantiles) => quantiles.sample(random),
        }
    }

    /// Returns the mean in milliseconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Drawn(distribution) => distribution.mean(),
            Self::Measured(quantiles) => quantiles.mean(),
        }
    }

    fn of_shape(shape: Shape) -> Result<Self, String> {
        let delay = match shape {
            Shape::Fixed(ms) => Self::fixed(ms),
            Shape::Uniform(from, to) if from <= to => Self::Drawn(Distribution::Uniform(from, to)),
            Shape::Uniform(from, to) => return Err(format!("uniform: {from} is above {to}")),
            Shape::Exponential(mean) => Self::Drawn(Distribution::Exponential(mean)),
            Shape::LogNormal(LogNormal { mean, variation }) => {
                if !(mean > 0.0 && (0.0..=VARIATION_MAX).contains(&variation)) {
                    return Err(format!(
                        "log-normal: the mean must be above 0 and the variation from 0 to \
                         {VARIATION_MAX}"
                    ));
                }
                Self::Drawn(Distribution::LogNormal(mean, variation))
            }
            Shape::Quantiles(points) => {
                let quantiles = Quantiles::new(points).map_err(|error| error.to_string())?;
                Self::Measured(quantiles)
            }
        };
        if delay.mean() <= MEAN_MAX_MS {
            Ok(delay)
        } else {
            Err(format!("a mean above {MEAN_MAX_MS} ms"))
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drawn(Distribution::Fixed(ms)) => write!(f, "{ms} ms"),
            Self::Drawn(Distribution::Uniform(from, to)) => write!(f, "{from} to {to} ms"),
            Self::Drawn(Distribution::Exponential(mean)) => write!(f, "exponential {mean} ms"),
            Self::Drawn(Distribution::LogNormal(mean, variation)) => {
                write!(f, "log-normal {mean} ms (variation {variation})")
            }
            Self::Drawn(Distribution::LogUniform(..) | Distribution::Mostly(..))
            | Self::Measured(_) => write!(f, "distributed, mean {:.0} ms", self.mean()),
        }
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DelayVisitor;

        impl<'de> Visitor<'de> for DelayVisitor {
            type Value = Delay;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("milliseconds, or a table with one distribution")
            }

            fn visit_i64<E: Error>(self, ms: i64) -> Result<Delay, E> {
                let ms = u64::try_from(ms).map_err(|_| E::custom("a delay below 0"))?;
                self.visit_u64(ms)
            }

            fn visit_u64<E: Error>(self, ms: u64) -> Result<Delay, E> {
                Delay::of_shape(Shape::Fixed(ms)).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Delay, A::Error> {
                let shape = Shape::deserialize(MapAccessDeserializer::new(map))?;
                Delay::of_shape(shape).map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_any(DelayVisitor)
    }
}

/// Returns whether an interval between heartbeats can be simulated: a mean of at least 1 ms.
pub(crate) fn is_interval(delay: &Delay) -> bool {
    delay.mean() >= float(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Streams;

    #[derive(Debug, Deserialize)]
    struct One {
        delay: Delay,
    }

    fn read(text: &str) -> Result<Delay, String> {
        let one: Result<One, _> = toml::from_str(&format!("delay = {text}"));
        one.map(|one| one.delay).map_err(|error| error.to_string())
    }

    #[test]
    fn every_distribution_has_the_mean_that_it_says() {
        for (text, mean) in [
            ("200", 200.0),
            ("{ fixed = 200 }", 200.0),
            ("{ uniform = [100, 300] }", 200.0),
            ("{ exponential = 200 }", 200.0),
            ("{ log-normal = { mean = 200.0, variation = 0.5 } }", 200.0),
            ("{ quantiles = [[0, 0], [50, 100], [100, 500]] }", 175.0),
        ] {
            let delay = read(text).unwrap();
            assert!(
                (delay.mean() - mean).abs() < 1e-9,
                "{text}: {}",
                delay.mean()
            );
            let mut random = Streams::new(5).stream("test", 0);
            let sum: u64 = (0..40_000).map(|_| delay.sample(&mut random)).sum();
            let found = float(sum) / 40_000.0;
            assert!((found / mean - 1.0).abs() < 0.02, "{text}: {found}");
            assert_eq!(delay.is_fixed(), text.contains("fixed") || text == "200");
        }
    }

    #[test]
    fn what_is_no_delay_is_refused_with_its_reason() {
        for (text, reason) in [
            ("-1", "below 0"),
            ("{ uniform = [3, 1] }", "3 is above 1"),
            ("{ unifrom = [1, 3] }", "unknown variant `unifrom`"),
            ("{ exponential = 999999999 }", "a mean above"),
            (
                "{ log-normal = { mean = 0.0, variation = 1.0 } }",
                "above 0",
            ),
            (
                "{ log-normal = { mean = nan, variation = 1.0 } }",
                "above 0",
            ),
            ("{ quantiles = [[0, 1], [90, 5]] }", "at 100"),
            ("\"5 ms\"", "expected milliseconds"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
