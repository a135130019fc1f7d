//! Time as plain numbers, so that an event trace can be stored and replayed.
//!
//! Nothing here reads a clock: the process that owns one creates a [`Now`] and passes it on.

use std::ops::Add;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since a beginning that the agent chose: its start or, with recovery, a time before
/// the machine's. Monotonic: never decreases, unaffected by changes of the wall clock.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct MonoMillis(pub u64);

/// Milliseconds since 1970-01-01 UTC, as Hadoop writes times on the wire. May jump when the clock
/// is set.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct EpochMillis(pub i64);

/// A reading of both clocks, taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// Time for durations and deadlines.
    pub mono: MonoMillis,
    /// Time that Hadoop peers compare with their own clocks.
    pub wall: EpochMillis,
}

impl MonoMillis {
    /// Returns the milliseconds from `earlier` to `self`; 0 if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<Duration> for MonoMillis {
    /// Converts the time since the start; saturates.
    fn from(since_start: Duration) -> Self {
        Self(u64::try_from(since_start.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for EpochMillis {
    /// Converts the time since 1970-01-01 UTC; saturates.
    fn from(since_epoch: Duration) -> Self {
        Self(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

impl Add<u64> for MonoMillis {
    type Output = Self;

    /// Returns the time `delay_ms` milliseconds later; saturates instead of wrapping.
    fn add(self, delay_ms: u64) -> Self {
        Self(self.0.saturating_add(delay_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_beyond_what_the_types_hold_saturate() {
        assert_eq!(
            MonoMillis::from(Duration::from_micros(1_999)),
            MonoMillis(1)
        );
        assert_eq!(
            EpochMillis::from(Duration::from_secs(2)),
            EpochMillis(2_000)
        );
        assert_eq!(MonoMillis::from(Duration::MAX), MonoMillis(u64::MAX));
        assert_eq!(EpochMillis::from(Duration::MAX), EpochMillis(i64::MAX));
    }
}
