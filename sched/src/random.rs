//! Where random choices come from. The crate has no source of its own: the caller passes one in, and a trace with the
//! same seed gives the same choices.

/// Draws an index. Implemented by [`SplitMix64`]; a caller may bring its own.
pub trait Draw {
    /// A number below `bound`, each as likely as the others. `bound` is at least 1. An answer that is not below it is
    /// taken modulo `bound`, so that a faulty source cannot cause a panic.
    fn below(&mut self, bound: usize) -> usize;
}

/// A small generator for spreading load; never for secrets (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A generator whose numbers follow from `seed`.
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
        // The product's high half: the bias is below bound / 2^64, far less than any number of draws could show.
        let product = u128::from(self.next()) * bound as u128;
        usize::try_from(product >> 64).unwrap_or(0)
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
    fn a_bound_of_one_leaves_no_choice() {
        assert_eq!(SplitMix64::new(0).below(1), 0);
    }
}
