//! Counts of what a server refuses its peers, by reason, and the bounds of the log lines about it:
//! how many a second, and one for a whole list of a peer ([`Findings`]).
//!
//! One vocabulary for every port, whatever its protocol: an operator who sees a count rise knows
//! what to look for. In: a reason, from any thread. Out: the count since the start. Knows no
//! protocol and no metrics.

mod findings;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use self::findings::{Findings, cut};

/// Time for which a [`Pace`] allows its lines.
pub const PACE_INTERVAL: Duration = Duration::from_secs(1);

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

/// Limit on log lines about refusals, which anybody can cause at any rate.
#[derive(Debug)]
pub struct Pace {
    lines_max: u32,
    lines: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    /// Time of the first line of the interval under way.
    since: Option<Instant>,
    /// Lines of that interval.
    written: u32,
    /// Refusals since the last line.
    unlogged: u64,
}

impl Pace {
    /// Allows this many lines in each [`PACE_INTERVAL`].
    #[must_use]
    pub const fn new(lines_max: u32) -> Self {
        let lines = Mutex::new(Lines {
            since: None,
            written: 0,
            unlogged: 0,
        });
        Self { lines_max, lines }
    }

    /// Returns the number of refusals that were only counted since the last line, if a line is due
    /// for another one; else counts that.
    pub fn due(&self, now: Instant) -> Option<u64> {
        // All numbers are valid whatever another thread did.
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |since| now.saturating_duration_since(since) >= PACE_INTERVAL;
        if lines.since.is_none_or(is_over) {
            lines.since = Some(now);
            lines.written = 0;
        }
        if lines.written >= self.lines_max {
            lines.unlogged += 1;
            return None;
        }
        lines.written += 1;
        Some(std::mem::take(&mut lines.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_its_lines_and_the_next_line_has_the_number_of_the_others() {
        let pace = Pace::new(2);
        let start = Instant::now();
        assert_eq!([pace.due(start), pace.due(start)], [Some(0), Some(0)]);
        for _ in 0..1_000 {
            assert_eq!(pace.due(start), None);
        }
        let next = start + PACE_INTERVAL;
        assert_eq!(pace.due(next), Some(1_000));
        assert_eq!(pace.due(next), Some(0));
        assert_eq!(pace.due(next), None);
        let after = next + PACE_INTERVAL;
        assert_eq!(pace.due(after), Some(1));
    }

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
