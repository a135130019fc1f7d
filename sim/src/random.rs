//! Random numbers from one seed, in a stream for each subject: a subject that draws more numbers
//! than before changes no other subject's, so a change of the workload leaves the faults alone.

use std::ops::RangeInclusive;

use sched::{Draw, SplitMix64};

/// Basis and factor of FNV-1a, which mixes a subject's name into the seed.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Number of parts in a probability: probabilities are given in parts per million.
const MILLION: u64 = 1_000_000;

/// Source of streams.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// Returns the streams of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the stream of a subject. `number` tells subjects of one name apart.
    #[must_use]
    pub fn stream(&self, subject: &str, number: u64) -> Random {
        let bytes = subject.bytes().chain(number.to_le_bytes());
        let mixed = bytes.fold(FNV_BASIS ^ self.seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
        });
        Random(SplitMix64::new(mixed ^ self.seed.rotate_left(32)))
    }
}

/// Stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// Returns a number below `bound`, each with the same probability; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let bound = usize::try_from(bound).unwrap_or(usize::MAX).max(1);
        u64::try_from(self.0.below(bound)).unwrap_or(0)
    }

    /// Returns a number of a range, each with the same probability.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let span = range.end().saturating_sub(*range.start());
        range.start() + self.below(span.saturating_add(1))
    }

    /// Returns true with this probability, in parts per million.
    pub fn chance(&mut self, per_million: u32) -> bool {
        self.below(MILLION) < u64::from(per_million)
    }

    /// Returns a number from 0 inclusive to 1 exclusive.
    pub fn fraction(&mut self) -> f64 {
        // 2^53: numbers below it are exact in an f64.
        const STEPS: u64 = 1 << 53;
        #[expect(clippy::cast_precision_loss, reason = "below 2^53 nothing is lost")]
        let (step, steps) = (self.below(STEPS) as f64, STEPS as f64);
        step / steps
    }

    /// Returns one of the elements; `None` if there are none.
    pub fn pick<'a, T>(&mut self, elements: &'a [T]) -> Option<&'a T> {
        elements.get(usize::try_from(self.below(elements.len() as u64)).unwrap_or(0))
    }

    /// Returns a seed for a part that draws numbers itself.
    pub fn seed(&mut self) -> u64 {
        self.below(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_follows_from_seed_subject_and_number_alone() {
        let draw = |seed, subject, number| {
            let mut random = Streams::new(seed).stream(subject, number);
            [random.below(1_000_000), random.below(1_000_000)]
        };
        assert_eq!(draw(1, "network", 0), draw(1, "network", 0));
        let others = [
            draw(2, "network", 0),
            draw(1, "disk", 0),
            draw(1, "network", 1),
        ];
        assert!(!others.contains(&draw(1, "network", 0)), "{others:?}");
    }

    #[test]
    fn a_probability_is_met() {
        let mut random = Streams::new(1).stream("test", 0);
        let hits = (0..100_000).filter(|_| random.chance(250_000)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
    }

    #[test]
    fn numbers_of_a_range_reach_both_ends() {
        let mut random = Streams::new(1).stream("test", 0);
        let drawn: std::collections::BTreeSet<u64> =
            (0..1_000).map(|_| random.within(3..=5)).collect();
        assert_eq!(drawn, [3, 4, 5].into());
    }
}
