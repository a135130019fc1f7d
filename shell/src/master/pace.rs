//! How often the master calls the ResourceManager. Pure.
//!
//! Often while things happen, once a second when nothing does: the pause is an eighth of the time since the last news.

use records::MonoMillis;

/// The shortest pause between two heartbeats, in milliseconds.
pub const PAUSE_MIN_MS: u64 = 50;

/// The longest, in milliseconds: what Hadoop's masters take (`yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms`).
pub const PAUSE_MAX_MS: u64 = 1_000;

/// The pause is so much of the time since the last news.
const PAUSE_SHARE: u64 = 8;

/// When the next heartbeat is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    last_sent: Option<MonoMillis>,
    last_news: MonoMillis,
    is_unanswered: bool,
}

impl Pace {
    /// Something has happened.
    pub(super) const fn news(&mut self, now: MonoMillis) {
        self.last_news = now;
    }

    /// A heartbeat goes out.
    pub(super) const fn sent(&mut self, now: MonoMillis) {
        self.last_sent = Some(now);
        self.is_unanswered = true;
    }

    /// The heartbeat has been answered, or will not be.
    pub(super) const fn answered(&mut self) {
        self.is_unanswered = false;
    }

    /// The first heartbeat after a registration goes at once.
    pub(super) const fn registered(&mut self, now: MonoMillis) {
        *self = Self {
            last_sent: None,
            last_news: now,
            is_unanswered: false,
        };
    }

    /// When the next one is due; `None` while one is unanswered.
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
            (last.since(self.last_news) / PAUSE_SHARE).clamp(PAUSE_MIN_MS, PAUSE_MAX_MS)
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
        pace.news(MonoMillis(80_000));
        assert_eq!(pace.due(false), Some(MonoMillis(80_050)));
    }
}
