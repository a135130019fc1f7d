//! A program's clocks: a monotonic one, and the machine's wall clock, which can be set.

use records::{EpochMillis, MonoMillis, Now};

/// Wall time at the begin of a simulation, milliseconds since 1970: any time that tokens accept.
const BEGIN_MS: i64 = 1_700_000_000_000;

/// Clocks of a program that started at some virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Virtual time at which the monotonic clock was 0.
    pub started_ms: u64,
    /// Milliseconds by which the wall clock is ahead.
    pub ahead_ms: i64,
}

impl Clock {
    /// Returns the clocks' times.
    #[must_use]
    pub fn now(&self, virtual_ms: u64) -> Now {
        let elapsed = i64::try_from(virtual_ms).unwrap_or(i64::MAX);
        Now {
            mono: MonoMillis(virtual_ms.saturating_sub(self.started_ms)),
            wall: EpochMillis(
                BEGIN_MS
                    .saturating_add(elapsed)
                    .saturating_add(self.ahead_ms),
            ),
        }
    }

    /// Returns the virtual time of a moment of the monotonic clock.
    #[must_use]
    pub const fn virtual_ms(&self, at: MonoMillis) -> u64 {
        self.started_ms.saturating_add(at.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_the_wall_clock_leaves_the_monotonic_one_alone() {
        let clock = Clock {
            started_ms: 100,
            ahead_ms: 0,
        };
        let set = Clock {
            ahead_ms: -5_000,
            ..clock
        };
        assert_eq!(clock.now(250).mono, MonoMillis(150));
        assert_eq!(set.now(250).mono, MonoMillis(150));
        assert_eq!(clock.now(250).wall.0 - set.now(250).wall.0, 5_000);
        assert_eq!(clock.virtual_ms(MonoMillis(150)), 250);
    }
}
