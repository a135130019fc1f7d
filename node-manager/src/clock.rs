//! The only place of the agent that reads a clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use records::{EpochMillis, MonoMillis, Now};
use tokio::time::Instant as TokioInstant;

/// The wall clock. Before 1970 or beyond the year 292 million it reads as the nearer end.
#[must_use]
pub fn wall_now() -> EpochMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(EpochMillis(0), EpochMillis::from)
}

/// Wall and monotonic clock, the latter counted from the start of the agent. Copies agree with each
/// other.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// A clock whose monotonic part starts at 0 now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// Reads the monotonic and the wall clock.
    #[must_use]
    pub fn now(&self) -> Now {
        Now {
            mono: self.started.elapsed().into(),
            wall: wall_now(),
        }
    }

    /// Microseconds since the agent started, for measuring how long things take.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The instant at which this clock's monotonic part reads `deadline`, for a timer of the
    /// runtime.
    #[must_use]
    pub fn instant_of(&self, deadline: MonoMillis) -> TokioInstant {
        // A deadline beyond what an `Instant` holds never comes; a year is as good.
        const FAR_MS: u64 = 365 * 24 * 3600 * 1000;
        let offset = std::time::Duration::from_millis(deadline.0.min(FAR_MS));
        TokioInstant::from_std(self.started + offset)
    }
}
