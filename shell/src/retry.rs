//! When a ResourceManager that does not answer is tried again. Pure: the caller tells the time.
//!
//! Hadoop waits 30 s between two rounds; a person in front of a terminal does not. Pauses start at a tenth of a second
//! and double, up to two seconds or the configured interval, whichever is shorter.

use records::MonoMillis;

use crate::cluster::Patience;

/// The first pause, in milliseconds.
const PAUSE_FIRST_MS: u64 = 100;

/// The longest pause, in milliseconds: a client is one of few, and a master must be back well before its
/// ResourceManager gives it up (`yarn.am.liveness-monitor.expiry-interval-ms`, 10 minutes).
const PAUSE_MAX_MS: u64 = 2_000;

/// Failures without a success between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    since: Option<MonoMillis>,
    count: u32,
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try again after so many milliseconds.
    RetryAfter(u64),
    /// It has failed for so many milliseconds, which is enough.
    GiveUp(u64),
}

impl Failures {
    /// It has worked.
    pub const fn clear(&mut self) {
        *self = Self {
            since: None,
            count: 0,
        };
    }

    /// For how many milliseconds it has not worked; `None` if it does.
    #[must_use]
    pub fn lasting_ms(&self, now: MonoMillis) -> Option<u64> {
        Some(now.since(self.since?))
    }

    /// A try that began at `began` has failed now. `addresses`: a pause follows when each has failed once more.
    pub fn note(
        &mut self,
        began: MonoMillis,
        now: MonoMillis,
        addresses: usize,
        patience: &Patience,
    ) -> Verdict {
        let since = *self.since.get_or_insert(began);
        self.count = self.count.saturating_add(1);
        let lasting = now.since(since);
        let limit = patience.give_up_after.map(as_ms);
        if limit.is_some_and(|limit| lasting >= limit) {
            return Verdict::GiveUp(lasting);
        }
        let addresses = u32::try_from(addresses.max(1)).unwrap_or(u32::MAX);
        if !self.count.is_multiple_of(addresses) {
            return Verdict::RetryAfter(0);
        }
        let doublings = (self.count / addresses - 1).min(16);
        let max = PAUSE_MAX_MS.min(as_ms(patience.interval_max).max(1));
        let pause = (PAUSE_FIRST_MS << doublings).min(max);
        // The last try is at the limit, not beyond it.
        let left = limit.map_or(u64::MAX, |limit| limit - lasting);
        Verdict::RetryAfter(pause.min(left))
    }
}

fn as_ms(duration: std::time::Duration) -> u64 {
    MonoMillis::from(duration).0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PATIENCE: Patience = Patience {
        give_up_after: Some(Duration::from_secs(10)),
        interval_max: Duration::from_secs(1),
    };

    #[test]
    fn pauses_double_up_to_the_interval() {
        let mut failures = Failures::default();
        let at = MonoMillis(5);
        let pauses: Vec<Verdict> = (0..6)
            .map(|_| failures.note(at, at, 1, &PATIENCE))
            .collect();
        assert_eq!(
            pauses,
            [100, 200, 400, 800, 1000, 1000].map(Verdict::RetryAfter)
        );
    }

    #[test]
    fn each_address_is_tried_before_a_pause() {
        let mut failures = Failures::default();
        let at = MonoMillis(5);
        let pauses: Vec<Verdict> = (0..4)
            .map(|_| failures.note(at, at, 2, &PATIENCE))
            .collect();
        assert_eq!(pauses, [0, 100, 0, 200].map(Verdict::RetryAfter));
    }

    #[test]
    fn patience_ends_and_begins_anew_after_a_success() {
        let mut failures = Failures::default();
        let note = |failures: &mut Failures, ms| {
            failures.note(MonoMillis(ms), MonoMillis(ms), 1, &PATIENCE)
        };
        assert_eq!(note(&mut failures, 0), Verdict::RetryAfter(100));
        assert_eq!(note(&mut failures, 9_950), Verdict::RetryAfter(50));
        assert_eq!(note(&mut failures, 10_000), Verdict::GiveUp(10_000));
        assert_eq!(failures.lasting_ms(MonoMillis(10_001)), Some(10_001));
        failures.clear();
        assert_eq!(failures.lasting_ms(MonoMillis(10_001)), None);
        assert_eq!(note(&mut failures, 20_000), Verdict::RetryAfter(100));
    }

    #[test]
    fn without_a_limit_it_never_gives_up() {
        let patience = Patience {
            give_up_after: None,
            ..PATIENCE
        };
        let mut failures = Failures::default();
        failures.note(MonoMillis(0), MonoMillis(0), 1, &patience);
        let verdict = failures.note(MonoMillis(0), MonoMillis(u64::MAX), 1, &patience);
        assert!(matches!(verdict, Verdict::RetryAfter(_)));
    }
}
