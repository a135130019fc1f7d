//! Dates as Hadoop's pages and reports print them. Pure.

use records::EpochMillis;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

/// Java's `EEE MMM dd HH:mm:ss Z yyyy`.
const JAVA_DATE: &[BorrowedFormatItem<'_>] = format_description!(
    "[weekday repr:short] [month repr:short] [day] [hour]:[minute]:[second] [offset_hour sign:mandatory][offset_minute] [year]"
);

/// Returns seconds since the epoch as Java's `Date` prints them; `N/A`, as Hadoop says, for what no
/// calendar holds.
#[must_use]
pub fn java_date(epoch_s: i64, offset: UtcOffset) -> String {
    OffsetDateTime::from_unix_timestamp(epoch_s)
        .ok()
        .and_then(|utc| utc.checked_to_offset(offset))
        .and_then(|local| local.format(JAVA_DATE).ok())
        .unwrap_or_else(|| "N/A".to_owned())
}

/// Returns a time as Java's `Times.format` writes it; `N/A` for one beyond the calendar.
#[must_use]
pub fn java_date_of(time: EpochMillis, offset: UtcOffset) -> String {
    java_date(time.0.div_euclid(1000), offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_javas() {
        let offset = UtcOffset::from_hms(-5, -30, 0).unwrap();
        assert_eq!(
            java_date(1_700_000_000, UtcOffset::UTC),
            "Tue Nov 14 22:13:20 +0000 2023"
        );
        assert_eq!(
            java_date(1_700_000_000, offset),
            "Tue Nov 14 16:43:20 -0530 2023"
        );
    }

    #[test]
    fn a_time_outside_the_calendar_is_not_available() {
        assert_eq!(java_date(i64::MAX, UtcOffset::UTC), "N/A");
        assert_eq!(java_date(i64::MIN, UtcOffset::UTC), "N/A");
    }
}
