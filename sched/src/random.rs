//! Source of random choices. The crate has none of its own: the caller passes one in, and a trace
//! with the same seed gives the same choices.

use std::collections::BTreeMap;

/// Source of random indexes. Implemented by [`SplitMix64`]; callers may pass another.
pub trait Draw {
    /// Returns a number below `bound`, each with the same probability. `bound` is at least 1.
    /// Callers take the result modulo `bound`, so that a faulty source cannot cause a panic.
    fn below(&mut self, bound: usize) -> usize;
}

/// Small generator for spreading load; never for secrets (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Creates a generator whose numbers follow from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl Draw for SplitMix64 {
    fn below(&mut self, bound: usize) -> usize {
        // High half of the product: the bias is below bound / 2^64, far less than any number of
        // draws could show.
        let product = u128::from(self.next()) * bound as u128;
        usize::try_from(product >> 64).unwrap_or(0)
    }
}

/// Numbers below a bound in a random order, each once, made as far as they are used.
#[derive(Clone, Debug)]
pub(crate) struct Shuffle {
    bound: usize,
    position: usize,
    /// Positions that have another number than at first.
    moved: BTreeMap<usize, usize>,
}

impl Shuffle {
    pub(crate) const fn new(bound: usize) -> Self {
        Self {
            bound,
            position: 0,
            moved: BTreeMap::new(),
        }
    }

    /// Returns the next number; `None` after the last.
    pub(crate) fn next(&mut self, random: &mut SplitMix64) -> Option<usize> {
        let position = self.position;
        let left = self.bound.checked_sub(position).filter(|left| *left > 0)?;
        self.position += 1;
        let other = position + random.below(left) % left;
        let here = self.moved.remove(&position).unwrap_or(position);
        Some(match other == position {
            true => here,
            false => self.moved.insert(other, here).unwrap_or(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn every_index_is_drawn_and_none_beyond() {
        let mut random = SplitMix64::new(7);
        let mut counts = [0; 5];
        for _ in 0..5_000 {
            counts[random.below(5)] += 1;
        }
        assert!(
            counts.iter().all(|count| (900..1_100).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_shuffle_has_each_number_once_and_any_of_them_first() {
        let mut firsts = [0; 5];
        let mut random = SplitMix64::new(7);
        for _ in 0..5_000 {
            let mut shuffle = Shuffle::new(5);
            let numbers = std::iter::from_fn(|| shuffle.next(&mut random));
            let mut numbers: Vec<usize> = numbers.collect();
            firsts[numbers[0]] += 1;
            numbers.sort_unstable();
            assert_eq!(numbers, [0, 1, 2, 3, 4]);
        }
        assert!(
            firsts.iter().all(|count| (900..1_100).contains(count)),
            "{firsts:?}"
        );
    }

    #[test]
    fn a_bound_of_one_leaves_no_choice() {
        assert_eq!(SplitMix64::new(0).below(1), 0);
    }
}
