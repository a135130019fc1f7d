//! Time as plain numbers, so that an event trace can be stored and replayed.
//!
//! Nothing here reads a clock: the process that owns one makes a [`Now`] and hands it down.

use std::ops::Add;

/// Milliseconds since the agent started. Monotonic: never goes back, unaffected by changes of the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoMillis(pub u64);

/// Milliseconds since 1970-01-01 UTC, as Hadoop writes times on the wire. May jump when the clock is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochMillis(pub i64);

/// One reading of both clocks, taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For durations and deadlines.
    pub mono: MonoMillis,
    /// For what Hadoop peers compare with their own clocks.
    pub wall: EpochMillis,
}

impl MonoMillis {
    /// Milliseconds from `earlier` to `self`; 0 if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for MonoMillis {
    type Output = Self;

    /// The time `delay_ms` milliseconds later; saturates instead of wrapping.
    fn add(self, delay_ms: u64) -> Self {
        Self(self.0.saturating_add(delay_ms))
    }
}
