//! The clock of the agent's state: commands, deadlines and reports get their time from here.
//!
//! Three kinds of time come from elsewhere: durations that begin and end in one function, measured
//! with [`Instant`] there; the pauses of tasks, such as the loop toward the ResourceManager, which
//! use the runtime's clock so that tests can advance it; and the deadlines of launching, isolation
//! and monitoring, which belong to `container-runtime`.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
use records::{EpochMillis, MonoMillis, Now};
use tokio::time::Instant as TokioInstant;

/// Distance from now of a deadline that no [`Instant`] can hold: a year.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads the wall clock. Before 1970 or beyond the year 292 million it reads as the nearer end.
#[must_use]
pub fn wall_now() -> EpochMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(EpochMillis(0), EpochMillis::from)
}

/// Wall and monotonic clock. Copies agree with each other.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    /// Reading of the monotonic part at that time, in milliseconds.
    first_ms: u64,
}

impl Clock {
    /// Returns a clock whose monotonic part starts at 0 now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            first_ms: 0,
        }
    }

    /// Returns a clock whose monotonic part is the kernel's, which goes on over a restart of the
    /// agent, and read `first_ms` when the machine started, so that it has times for what happened
    /// before.
    #[must_use]
    pub fn of_machine(first_ms: u64) -> Self {
        // What `Instant` reads, too.
        let reads = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
        Self {
            started: Instant::now(),
            first_ms: (MonoMillis::from(reads) + first_ms).0,
        }
    }

    /// Reads the monotonic and the wall clock.
    #[must_use]
    pub fn now(&self) -> Now {
        Now {
            mono: MonoMillis::from(self.started.elapsed()) + self.first_ms,
            wall: wall_now(),
        }
    }

    /// Returns the microseconds since the agent started, for durations from one event to another.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Returns the instant at which this clock's monotonic part reads `deadline`, for a timer of
    /// the runtime. A deadline beyond the range of [`Instant`] becomes a time far from now.
    #[must_use]
    pub fn instant_of(&self, deadline: MonoMillis) -> TokioInstant {
        let instant = self
            .started
            .checked_add(Duration::from_millis(
                deadline.0.saturating_sub(self.first_ms),
            ))
            .unwrap_or_else(|| Instant::now() + FAR);
        TokioInstant::from_std(instant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_after_more_than_a_year_is_not_taken_for_one_in_the_past() {
        let two_years = Duration::from_secs(2 * 365 * 24 * 3600);
        let clock = Clock::start();
        let instant = clock.instant_of(two_years.into());
        assert_eq!(instant.into_std() - clock.started, two_years);
    }

    #[test]
    fn the_clocks_of_two_agents_on_one_machine_agree() {
        let (one, other) = (Clock::of_machine(5), Clock::of_machine(5));
        let before = one.now().mono;
        let between = other.now().mono;
        let after = one.now().mono;
        // Each is read in whole milliseconds, from two readings of the kernel's clock.
        assert!(before <= between + 2 && between <= after + 2);
        assert!(before > MonoMillis(5));
    }

    #[test]
    fn a_deadline_beyond_the_range_of_instants_is_far_away() {
        let clock = Clock::start();
        assert!(clock.instant_of(MonoMillis(u64::MAX)).into_std() > clock.started + FAR / 2);
    }
}
