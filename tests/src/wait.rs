//! Waiting for a condition with a deadline. The error names what was awaited and what was seen
//! last.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Pause between two looks: short beside what is awaited (JVMs, heartbeats), long beside the cost
/// of a look.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Calls `look` until it returns a value; at the deadline, returns its last refusal.
///
/// # Errors
/// With what was awaited, for how long, and the last refusal.
pub fn try_until<T, E: Display>(
    what: impl Display,
    deadline: Duration,
    mut look: impl FnMut() -> Result<T, E>,
) -> Result<T, String> {
    let begin = Instant::now();
    loop {
        let refusal = match look() {
            Ok(value) => return Ok(value),
            Err(refusal) => refusal,
        };
        if begin.elapsed() >= deadline {
            return Err(format!(
                "waited {} s for {what}; last: {refusal}",
                deadline.as_secs_f32()
            ));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Calls `look` until it returns a value.
///
/// # Panics
/// At the deadline, with the text of [`try_until`].
#[track_caller]
pub fn until<T, E: Display>(
    what: impl Display,
    deadline: Duration,
    look: impl FnMut() -> Result<T, E>,
) -> T {
    match try_until(what, deadline, look) {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// Returns `Ok` when `holds`, otherwise the value that was seen: the shape that [`until`] polls.
///
/// # Errors
/// With the value seen.
pub fn check<T: Display>(holds: bool, seen: T) -> Result<T, T> {
    if holds { Ok(seen) } else { Err(seen) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_says_what_was_awaited_and_the_last_value() {
        let error = try_until("three", Duration::ZERO, || check(false, 2)).unwrap_err();
        assert_eq!(error, "waited 0 s for three; last: 2");
    }

    #[test]
    fn a_condition_is_looked_at_until_it_holds() {
        let mut looks = 0;
        let seen = until("three looks", Duration::from_secs(60), || {
            looks += 1;
            check(looks == 3, looks)
        });
        assert_eq!(seen, 3);
    }
}
