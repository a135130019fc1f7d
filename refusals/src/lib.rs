//! Counts of what a server refuses its peers, by reason.
//!
//! One vocabulary for every port, whatever its protocol: an operator who sees a count rise knows
//! what to look for. In: a reason, from any thread. Out: the count since the start. Knows no
//! protocol and no metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Reason of a refusal. What is refused is a connection, a request, or what a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Bytes that are no request of the port's protocol or version.
    Malformed,
    /// No proof of identity, a wrong one, or one without the right to what is asked for.
    Unauthorized,
    /// A request that is longer than the port allows, or would take too much memory.
    TooLarge,
    /// A peer that did not prove its identity, or send a whole request, in time.
    Late,
    /// A peer that left its answers unread.
    Stalled,
    /// A connection that was closed for a newer one.
    Evicted,
    /// No place for a further connection of the peer or its user.
    NoPlace,
    /// No memory for the request in time, since other requests have it.
    NoMemory,
}

impl Reason {
    /// Every reason, in the order of their numbers.
    pub const ALL: &'static [Self] = &[
        Self::Malformed,
        Self::Unauthorized,
        Self::TooLarge,
        Self::Late,
        Self::Stalled,
        Self::Evicted,
        Self::NoPlace,
        Self::NoMemory,
    ];

    /// Returns the word for metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unauthorized => "unauthorized",
            Self::TooLarge => "too_large",
            Self::Late => "late",
            Self::Stalled => "stalled",
            Self::Evicted => "evicted",
            Self::NoPlace => "no_place",
            Self::NoMemory => "no_memory",
        }
    }
}

/// Counts of one port since its start, shared by whoever refuses and whoever reads.
#[derive(Debug, Default)]
pub struct Refusals([AtomicU64; Reason::ALL.len()]);

impl Refusals {
    /// Counts one refusal.
    pub fn count(&self, reason: Reason) {
        self.0[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of refusals for a reason.
    #[must_use]
    pub fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_count_and_word() {
        let refusals = Refusals::default();
        for (number, reason) in Reason::ALL.iter().enumerate() {
            for _ in 0..=number {
                refusals.count(*reason);
            }
        }
        let mut words = Vec::new();
        for (number, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(refusals.of(*reason), number as u64 + 1, "{reason:?}");
            words.push(reason.as_str());
        }
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Reason::ALL.len());
    }
}
