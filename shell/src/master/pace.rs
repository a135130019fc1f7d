//! Interval between the AM's heartbeats. Pure.
//!
//! Short while things change, a second when nothing does: the pause is an eighth of the time since
//! the last change.

use records::MonoMillis;

/// Shortest pause between two heartbeats, in milliseconds.
pub const PAUSE_MIN_MS: u64 = 50;

/// Longest pause, in milliseconds: that of Hadoop's AMs
/// (`yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms`).
pub const PAUSE_MAX_MS: u64 = 1_000;

/// Divisor of the time since the last change: the quotient is the pause.
const PAUSE_SHARE: u64 = 8;

/// Schedule of the heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    last_sent: Option<MonoMillis>,
    last_change: MonoMillis,
    is_unanswered: bool,
}

impl Pace {
    /// Records a change, which shortens the pause.
    pub(super) const fn changed(&mut self, now: MonoMillis) {
        self.last_change = now;
    }

    /// Records that a heartbeat was sent.
    pub(super) const fn sent(&mut self, now: MonoMillis) {
        self.last_sent = Some(now);
        self.is_unanswered = true;
    }

    /// Records that the heartbeat was answered, or will not be.
    pub(super) const fn answered(&mut self) {
        self.is_unanswered = false;
    }

    /// Resets the schedule: the first heartbeat after a registration is due at once.
    pub(super) const fn registered(&mut self, now: MonoMillis) {
        *self = Self {
            last_sent: None,
            last_change: now,
            is_unanswered: false,
        };
    }

    /// Returns the time at which the next heartbeat is due; `None` while one is unanswered.
    pub(super) fn due(&self, has_orders: bool) -> Option<MonoMillis> {
        if self.is_unanswered {
            return None;
        }
        let Some(last) = self.last_sent else {
            return Some(MonoMillis(0));
        };
        let pause = if has_orders {
            PAUSE_MIN_MS
        } else {
            (last.since(self.last_change) / PAUSE_SHARE).clamp(PAUSE_MIN_MS, PAUSE_MAX_MS)
        };
        Some(last + pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_nothing_happens() {
        let mut pace = Pace::default();
        pace.registered(MonoMillis(0));
        assert_eq!(pace.due(false), Some(MonoMillis(0)));
        for (sent, due) in [(0, 50), (800, 900), (80_000, 81_000)] {
            pace.sent(MonoMillis(sent));
            assert_eq!(pace.due(true), None, "one at a time");
            pace.answered();
            assert_eq!(pace.due(false), Some(MonoMillis(due)));
            assert_eq!(pace.due(true), Some(MonoMillis(sent + PAUSE_MIN_MS)));
        }
        pace.changed(MonoMillis(80_000));
        assert_eq!(pace.due(false), Some(MonoMillis(80_050)));
    }
}
