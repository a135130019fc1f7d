//! Conversions between counts and floating point, each in one place.

/// Converts a count or a duration. Exact below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and durations are far below 2^53"
)]
pub(crate) const fn float(value: u64) -> f64 {
    value as f64
}

/// Converts a number of elements.
pub(crate) const fn float_of(count: usize) -> f64 {
    float(count as u64)
}

/// Rounds to a whole number; 0 for what is negative or no number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates"
)]
pub(crate) const fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Returns `part / all`, or 0 if there is nothing to divide by.
pub(crate) fn ratio(part: f64, all: f64) -> f64 {
    if all > 0.0 { part / all } else { 0.0 }
}
