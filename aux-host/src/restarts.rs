//! Pauses between the lives of a host, and when so many end that the node is unfit.

use std::collections::VecDeque;
use std::time::Duration;

/// First pause; each is twice the one before.
const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Time in which deaths are counted, and a life after which a host counts as sound again.
const SPAN: Duration = Duration::from_secs(60);

/// Deaths within [`SPAN`] that make the node unfit.
const DEATHS_MAX: usize = 3;

/// Deaths of a host. Times are since any fixed moment.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    deaths: VecDeque<Duration>,
    pause: Option<Duration>,
    ready_at: Option<Duration>,
    is_unfit: bool,
}

impl Restarts {
    /// Notes that all services of a life run.
    pub(crate) fn ready(&mut self, now: Duration) {
        self.ready_at = Some(now);
    }

    /// Notes the end of a life; returns the pause before the next.
    pub(crate) fn died(&mut self, now: Duration) -> Duration {
        if self.was_sound(now) {
            self.pause = None;
        }
        self.ready_at = None;
        self.deaths.push_back(now);
        while self.deaths.front().is_some_and(|at| now - *at > SPAN) {
            self.deaths.pop_front();
        }
        self.is_unfit |= self.deaths.len() >= DEATHS_MAX;
        let pause = self.pause.unwrap_or(PAUSE_FIRST);
        self.pause = Some((pause * 2).min(PAUSE_MAX));
        pause
    }

    /// Returns whether the node cannot do with this host: from the third death in a minute until a
    /// life has lasted a minute.
    pub(crate) fn is_unfit(&mut self, now: Duration) -> bool {
        if self.was_sound(now) {
            self.is_unfit = false;
        }
        self.is_unfit
    }

    fn was_sound(&self, now: Duration) -> bool {
        self.ready_at
            .is_some_and(|at| now.saturating_sub(at) >= SPAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn pauses_double_to_a_minute_and_begin_anew_after_a_sound_life() {
        let mut restarts = Restarts::default();
        let pauses: Vec<_> = (0..8)
            .map(|n| restarts.died(s(n * 100)).as_secs())
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        restarts.ready(s(900));
        assert_eq!(restarts.died(s(959)), s(60));
        restarts.ready(s(1_000));
        assert_eq!(restarts.died(s(1_060)), s(1));
    }

    #[test]
    fn the_third_death_in_a_minute_makes_a_node_unfit_until_a_life_lasts_one() {
        let mut restarts = Restarts::default();
        for at in [0, 61, 70] {
            restarts.died(s(at));
            assert!(!restarts.is_unfit(s(at)), "{at}");
        }
        restarts.died(s(75));
        assert!(restarts.is_unfit(s(75)));
        restarts.ready(s(80));
        assert!(restarts.is_unfit(s(139)));
        assert!(!restarts.is_unfit(s(140)));
        restarts.died(s(141));
        assert!(!restarts.is_unfit(s(141)));
    }
}
