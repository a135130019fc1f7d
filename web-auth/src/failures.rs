//! Bound on the wrong proofs of an address.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong proofs that an address may send in a second.
pub const FAILURES_PER_SECOND: u32 = 50;

/// Addresses that are counted in a second; all further ones share a count.
const ADDRESSES_MAX: usize = 4096;

const SECOND: Duration = Duration::from_secs(1);

/// Counts of wrong proofs, for each address, in the second that runs.
#[derive(Debug)]
pub struct Failures<K>(Mutex<Second<K>>);

#[derive(Debug)]
struct Second<K> {
    began: Option<Instant>,
    counts: HashMap<K, u32>,
    /// Count of addresses beyond the limit.
    others: u32,
}

impl<K> Default for Failures<K> {
    fn default() -> Self {
        Self(Mutex::new(Second {
            began: None,
            counts: HashMap::new(),
            others: 0,
        }))
    }
}

impl<K: Eq + Hash> Failures<K> {
    /// Returns whether an address has sent too many to be judged again in this second.
    pub fn are_too_many(&self, address: &K, now: Instant) -> bool {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        second.turn(now);
        let count = second.counts.get(address).copied();
        count.unwrap_or_else(|| second.of_strangers()) >= FAILURES_PER_SECOND
    }

    /// Counts a wrong proof.
    pub fn count(&self, address: K, now: Instant) {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        second.turn(now);
        if second.counts.len() >= ADDRESSES_MAX && !second.counts.contains_key(&address) {
            second.others = second.others.saturating_add(1);
        } else {
            let count = second.counts.entry(address).or_default();
            *count = count.saturating_add(1);
        }
    }
}

impl<K> Second<K> {
    fn turn(&mut self, now: Instant) {
        let is_over = self
            .began
            .is_none_or(|began| now.saturating_duration_since(began) >= SECOND);
        if is_over {
            self.began = Some(now);
            self.counts.clear();
            self.others = 0;
        }
    }

    /// Returns the count of an address that has none of its own.
    fn of_strangers(&self) -> u32 {
        if self.counts.len() >= ADDRESSES_MAX {
            self.others
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_waits_for_the_next_second_and_others_do_not() {
        let (failures, now) = (Failures::default(), Instant::now());
        for _ in 0..FAILURES_PER_SECOND {
            assert!(!failures.are_too_many(&1, now));
            failures.count(1, now);
        }
        assert!(failures.are_too_many(&1, now));
        assert!(!failures.are_too_many(&2, now));
        assert!(!failures.are_too_many(&1, now + SECOND));
    }

    #[test]
    fn addresses_beyond_the_limit_share_a_count() {
        let (failures, now) = (Failures::default(), Instant::now());
        for address in 0..ADDRESSES_MAX {
            failures.count(address, now);
        }
        for _ in 0..FAILURES_PER_SECOND {
            failures.count(ADDRESSES_MAX, now);
        }
        assert!(failures.are_too_many(&(ADDRESSES_MAX + 1), now));
        assert!(!failures.are_too_many(&0, now));
        let second = failures.0.lock().expect("no test panics under it");
        assert_eq!(second.counts.len(), ADDRESSES_MAX);
    }
}
