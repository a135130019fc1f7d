//! Attempts for which room was held in vain.

use std::collections::BTreeMap;

use records::{ApplicationAttemptId, MonoMillis};

use super::{HELD_MAX_MS, RESERVATIONS_MAX};

/// First rest of an attempt, in milliseconds.
const FIRST_MS: u64 = HELD_MAX_MS;

/// Longest rest, in milliseconds.
const LONGEST_MS: u64 = 300_000;

#[derive(Clone, Copy, Debug)]
struct Rest {
    until: MonoMillis,
    length_ms: u64,
    /// Whether a container of the attempt has come since.
    has_come: bool,
}

/// Attempts that get no offers, each until a time. As many as have reservations at most.
#[derive(Clone, Debug)]
pub(super) struct Rests(BTreeMap<ApplicationAttemptId, Rest>);

impl Rests {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Begins the rest of an attempt, twice as long as its last one unless a container of it has
    /// come meanwhile. Room that was held in vain while it rests was bound before.
    pub(super) fn begin(&mut self, attempt: ApplicationAttemptId, now: MonoMillis) {
        let before = self.0.get(&attempt);
        if before.is_some_and(|before| now < before.until) {
            return;
        }
        let again = before.filter(|before| !before.has_come);
        let length_ms = again.map_or(FIRST_MS, |before| 2 * before.length_ms);
        let length_ms = length_ms.min(LONGEST_MS);
        let until = MonoMillis(now.0.saturating_add(length_ms));
        if before.is_none() && self.0.len() >= RESERVATIONS_MAX {
            let first = self.0.iter().min_by_key(|(_, rest)| rest.until);
            let first = first.map(|(attempt, _)| *attempt);
            first.map(|first| self.0.remove(&first));
        }
        let rest = Rest {
            until,
            length_ms,
            has_come: false,
        };
        self.0.insert(attempt, rest);
    }

    /// Notes that a container of an attempt has come: its next rest is a first one. The present one
    /// goes on, so that nobody buys room with one container of many.
    pub(super) fn came(&mut self, attempt: ApplicationAttemptId) {
        if let Some(rest) = self.0.get_mut(&attempt) {
            rest.has_come = true;
        }
    }

    /// Forgets an attempt that has ended.
    pub(super) fn forget(&mut self, attempt: ApplicationAttemptId) {
        self.0.remove(&attempt);
    }

    /// Returns whether an attempt rests.
    pub(super) fn has(&self, attempt: ApplicationAttemptId, now: MonoMillis) -> bool {
        // Hardly any attempt ever rests.
        !self.0.is_empty() && self.0.get(&attempt).is_some_and(|rest| now < rest.until)
    }
}
