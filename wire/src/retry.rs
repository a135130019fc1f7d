//! When a ResourceManager that does not answer is tried again. Pure: the caller tells the time and draws the luck.
//!
//! Hadoop waits `yarn.resourcemanager.connect.retry-interval.ms`, 30 s by default, between two rounds. A ResourceManager
//! that has restarted waits 10 s for its nodes (`work-preserving-recovery.scheduling-wait-ms`) and then hands out room
//! that the late ones still use. So here the pauses start short and grow, and stay well below that; the configured
//! interval is obeyed when it is shorter.

use std::time::Duration;

use rand::{Rng, RngExt as _};
use tokio::time::Instant;

/// The pause after the first failure, jitter aside.
const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// The longest pause, jitter aside: half of what a restarted ResourceManager waits for its nodes. 10,000 nodes that
/// wait for it then ask 2,700 times a second between them, less than their heartbeats.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How patient to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Addresses that are tried in turn. A pause follows when all have failed: the one that is not on standby may be
    /// any of them.
    pub addresses: usize,
    /// No pause is longer.
    pub interval_max: Duration,
    /// When to give up; `None`: never.
    pub give_up_after: Option<Duration>,
}

/// Failures without a success between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    since: Option<Instant>,
    count: usize,
    any: bool,
}

/// The caller has been patient for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GiveUp {
    /// Since the first failure began.
    pub waited: Duration,
}

impl Failures {
    /// Whether there were any.
    #[must_use]
    pub const fn any(&self) -> bool {
        self.any
    }

    /// It has worked.
    pub const fn clear(&mut self) {
        *self = Self {
            since: None,
            count: 0,
            any: false,
        };
    }

    /// It has not worked, but somebody is there: patience and pauses begin anew.
    pub const fn note_refusal(&mut self) {
        self.clear();
        self.any = true;
    }

    /// A try that began at `began` has failed now. How long to wait before the next.
    ///
    /// # Errors
    /// [`GiveUp`] once the failures have lasted as long as the policy allows.
    pub fn note(
        &mut self,
        began: Instant,
        now: Instant,
        policy: &RetryPolicy,
        rng: &mut impl Rng,
    ) -> Result<Duration, GiveUp> {
        let since = *self.since.get_or_insert(began);
        self.count = self.count.saturating_add(1);
        self.any = true;
        let waited = now.duration_since(since);
        if policy.give_up_after.is_some_and(|limit| waited >= limit) {
            return Err(GiveUp { waited });
        }
        let addresses = policy.addresses.max(1);
        if !self.count.is_multiple_of(addresses) {
            return Ok(Duration::ZERO);
        }
        let rounds = self.count / addresses;
        let max = policy.interval_max.min(PAUSE_MAX);
        let doublings = u32::try_from(rounds - 1).unwrap_or(u32::MAX).min(16);
        let pause = PAUSE_FIRST.saturating_mul(1 << doublings).min(max);
        // Half of it is drawn, so that nodes that lost the same ResourceManager do not come back in step.
        Ok(pause.mul_f64(rng.random_range(0.5..=1.0)))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        addresses: 1,
        interval_max: Duration::from_secs(30),
        give_up_after: None,
    };

    fn pauses(policy: &RetryPolicy, count: usize) -> Vec<Duration> {
        let mut rng = StdRng::seed_from_u64(1);
        let mut failures = Failures::default();
        let began = Instant::now();
        (0..count)
            .map(|_| failures.note(began, began, policy, &mut rng).unwrap())
            .collect()
    }

    #[test]
    fn pauses_grow_from_a_second_to_half_of_what_a_restarted_rm_waits() {
        for (pause, nominal_s) in pauses(&POLICY, 8).into_iter().zip([1, 2, 4, 5, 5, 5, 5, 5]) {
            let nominal = Duration::from_secs(nominal_s);
            assert!(pause >= nominal / 2 && pause <= nominal, "{pause:?}");
        }
    }

    #[test]
    fn nodes_do_not_come_back_in_step() {
        let pauses = pauses(&POLICY, 100);
        let last: std::collections::BTreeSet<_> = pauses[50..].iter().collect();
        assert!(last.len() > 40, "{last:?}");
    }

    #[test]
    fn a_shorter_configured_interval_is_obeyed() {
        let policy = RetryPolicy {
            interval_max: Duration::from_millis(100),
            ..POLICY
        };
        assert!(
            pauses(&policy, 5)
                .into_iter()
                .all(|pause| pause <= policy.interval_max)
        );
    }

    #[test]
    fn every_address_is_tried_before_a_pause() {
        let policy = RetryPolicy {
            addresses: 3,
            ..POLICY
        };
        let is_zero: Vec<_> = pauses(&policy, 6).iter().map(Duration::is_zero).collect();
        assert_eq!(is_zero, [true, true, false, true, true, false]);
    }

    #[test]
    fn patience_is_counted_from_the_first_failure_until_a_success() {
        let policy = RetryPolicy {
            give_up_after: Some(Duration::from_secs(10)),
            ..POLICY
        };
        let mut rng = StdRng::seed_from_u64(1);
        let mut failures = Failures::default();
        let began = Instant::now();
        let at = |s| began + Duration::from_secs(s);
        assert!(failures.note(began, at(1), &policy, &mut rng).is_ok());
        assert!(failures.note(at(8), at(9), &policy, &mut rng).is_ok());
        failures.clear();
        assert!(failures.note(at(9), at(12), &policy, &mut rng).is_ok());
        let waited = Duration::from_secs(10);
        assert_eq!(
            failures.note(at(18), at(19), &policy, &mut rng),
            Err(GiveUp { waited })
        );
    }
}
