//! Bound on messages over time.

use records::MonoMillis;

/// Messages that may be sent in the long run, and those that are saved up meanwhile. What one call
/// sends is not cut: it may spend in advance, and the next one waits.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    per_second: u64,
    /// Most messages that are saved up, in thousandths.
    burst: i64,
    /// Messages that are saved up, in thousandths; below 0 what the last call has spent in advance.
    saved: i64,
    at: MonoMillis,
}

impl Rate {
    /// Allows so many messages a second, and so many at once after a pause.
    #[must_use]
    pub const fn new(per_second: u64, burst: u32) -> Self {
        let burst = burst as i64 * 1_000;
        Self {
            per_second,
            burst,
            saved: burst,
            at: MonoMillis(0),
        }
    }

    /// Returns whether there may be messages now.
    pub fn allows(&mut self, now: MonoMillis) -> bool {
        let more = now.since(self.at).saturating_mul(self.per_second);
        let more = i64::try_from(more).unwrap_or(i64::MAX);
        self.saved = self.saved.saturating_add(more).min(self.burst);
        self.at = now;
        self.saved > 0
    }

    /// Notes messages that are sent.
    pub fn spend(&mut self, messages: usize) {
        let messages = i64::try_from(messages).unwrap_or(i64::MAX);
        self.saved = self.saved.saturating_sub(messages.saturating_mul(1_000));
    }
}
