//! Times in records: read back by the clock that nobody sets, where that is possible.
//!
//! A record has times of the wall clock, which people and older agents can read. The wall clock may
//! be set while the agent runs or between two agents, and then the distance of such a time from now
//! is no age. So a record also says which times its agent's monotonic clock had for them. That is
//! the kernel's clock, which goes on over a restart of the agent and begins anew at a boot.

use prost::Message;
use records::{EpochMillis, MonoMillis, Now};

/// Clock by which the times of a record are written.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct RecordClock {
    /// Boot of the machine, see [`boot_number`].
    #[prost(fixed64, tag = "1")]
    pub boot: u64,
    /// Wall clock's time at which the monotonic clock read 0, in milliseconds, as far as this
    /// record is concerned.
    #[prost(sint64, tag = "2")]
    pub wall_at_zero: i64,
}

/// Returns the number that stands for a boot in records, from the kernel's id of it
/// (`/proc/sys/kernel/random/boot_id`): its first 64 bits. 0, for no known boot, if it is no id.
#[must_use]
pub fn boot_number(id: &str) -> u64 {
    let digits: String = id.chars().filter(|char| *char != '-').take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

impl RecordClock {
    /// Returns the clock for the next state of a record: the one that it has, so that a time which
    /// stays is written as it was, or as the clocks read now after another boot.
    #[must_use]
    pub fn of_record(stored: Option<Self>, boot: u64, now: Now) -> Self {
        stored.filter(|clock| clock.is_of(boot)).unwrap_or(Self {
            boot,
            wall_at_zero: now.wall.0.saturating_sub(millis(now.mono.0)),
        })
    }

    /// Returns a time as the record has it, in milliseconds of the wall clock.
    #[must_use]
    pub fn wall_of(&self, at: MonoMillis) -> i64 {
        self.wall_at_zero.saturating_add(millis(at.0))
    }

    /// Whether the record's agent had the monotonic clock of this boot.
    fn is_of(&self, boot: u64) -> bool {
        self.boot == boot && boot != 0
    }
}

/// Returns a moment of the past that a record names. Never later than now, and never before the
/// monotonic clock began. After another boot, and of a record without a clock, by the distance on
/// the wall clock.
#[must_use]
pub(crate) fn past(at: EpochMillis, clock: Option<RecordClock>, boot: u64, now: Now) -> MonoMillis {
    moment(at, clock, boot, now).min(now.mono)
}

/// Returns a moment to come that a record names, or one that has passed since. Never more than
/// `longest_ms` from now, which is the longest that anything is put off.
#[must_use]
pub(crate) fn deadline(
    at: EpochMillis,
    clock: Option<RecordClock>,
    (boot, longest_ms): (u64, u64),
    now: Now,
) -> MonoMillis {
    moment(at, clock, boot, now).min(now.mono + longest_ms)
}

fn moment(at: EpochMillis, clock: Option<RecordClock>, boot: u64, now: Now) -> MonoMillis {
    let clock = RecordClock::of_record(clock, boot, now);
    let since_zero = at.0.saturating_sub(clock.wall_at_zero);
    MonoMillis(u64::try_from(since_zero).unwrap_or(0))
}

fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 24 * 3_600_000;
    const BOOT: u64 = 7;

    fn now(mono: u64, wall: i64) -> Now {
        Now {
            mono: MonoMillis(mono),
            wall: EpochMillis(wall),
        }
    }

    /// A record of a moment a second ago, and now.
    fn a_second_ago() -> (EpochMillis, RecordClock, Now) {
        let then = now(500_000, 10 * DAY);
        let clock = RecordClock::of_record(None, BOOT, then);
        let at = EpochMillis(clock.wall_of(then.mono));
        assert_eq!(at, then.wall);
        (at, clock, now(501_000, 10 * DAY + 1_000))
    }

    #[test]
    fn within_a_boot_an_age_is_right_however_the_wall_clock_is_set() {
        let (at, clock, present) = a_second_ago();
        for set_by in [0, DAY, -DAY, i64::MAX, i64::MIN] {
            let wall = EpochMillis(present.wall.0.saturating_add(set_by));
            let present = Now { wall, ..present };
            let read = past(at, Some(clock), BOOT, present);
            assert_eq!(present.mono.since(read), 1_000, "set by {set_by}");
        }
    }

    #[test]
    fn after_another_boot_an_age_is_the_wall_clocks_and_never_negative() {
        let (at, clock, present) = a_second_ago();
        let age = |clock, wall: i64| {
            let present = Now {
                wall: EpochMillis(present.wall.0 + wall),
                ..present
            };
            present.mono.since(past(at, clock, BOOT + 1, present))
        };
        for clock in [Some(clock), None] {
            assert_eq!(age(clock, 0), 1_000);
            assert_eq!(age(clock, 5_000), 6_000);
            assert_eq!(age(clock, -DAY), 0, "set back");
            assert_eq!(age(clock, DAY), present.mono.0, "no older than the clock");
        }
    }

    #[test]
    fn an_age_that_was_in_the_future_does_not_move_with_now() {
        let (at, clock, present) = a_second_ago();
        let back = now(present.mono.0, present.wall.0 - DAY);
        assert_eq!(past(at, Some(clock), 0, back), back.mono);
    }

    #[test]
    fn nothing_is_put_off_longer_than_it_can_be() {
        let (_, clock, present) = a_second_ago();
        let at = EpochMillis(clock.wall_of(present.mono + 60_000));
        let left = |boot, wall: i64| {
            let present = now(present.mono.0, present.wall.0 + wall);
            let longest = 100_000;
            deadline(at, Some(clock), (boot, longest), present).since(present.mono)
        };
        assert_eq!(left(BOOT, -DAY), 60_000);
        assert_eq!(left(BOOT + 1, 0), 60_000);
        assert_eq!(left(BOOT + 1, -DAY), 100_000);
    }

    #[test]
    fn boots_have_numbers() {
        let number = boot_number("12345678-9abc-def0-1234-56789abcdef0\n");
        assert_eq!(number, 0x1234_5678_9abc_def0);
        assert_eq!(boot_number("none"), 0);
    }

    proptest! {
        #[test]
        fn any_record_names_a_moment_of_the_past(at: i64, boot: u64, wall_at_zero: i64, mono: u64, wall: i64) {
            let clock = RecordClock { boot, wall_at_zero };
            for present in [boot, 1] {
                let read = past(EpochMillis(at), Some(clock), present, now(mono, wall));
                prop_assert!(read <= MonoMillis(mono));
            }
        }
    }
}
