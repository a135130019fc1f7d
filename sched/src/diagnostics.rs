//! Diagnostics of a container, for its AM and for people: stamped pieces, cut to the most recent
//! text (Hadoop: `ContainerImpl.addDiagnostics`).

use std::fmt::Write as _;

use records::EpochMillis;

const MS_PER_DAY: i64 = 24 * 60 * 60 * 1_000;

/// Time and limit that apply to a new piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) wall: EpochMillis,
    /// Offset of local time from UTC in seconds, positive east.
    pub(crate) utc_offset_s: i32,
    /// Most characters kept in all.
    pub(crate) max_chars: usize,
}

/// Text of the diagnostics. Never longer than the `max_chars` of its last piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Diagnostics {
    text: String,
}

impl Diagnostics {
    /// Returns the diagnostics of an earlier run. The next piece cuts them to the limit.
    pub(crate) fn recovered(text: String) -> Self {
        Self { text }
    }

    /// Appends a piece on a line of its own, stamped with local time, and cuts the excess from the
    /// front. An empty piece appends nothing.
    pub(crate) fn push(&mut self, piece: &str, stamp: Stamp) {
        if piece.is_empty() {
            return;
        }
        write_local_time(&mut self.text, stamp);
        self.text.push_str(piece);
        if !piece.ends_with('\n') {
            self.text.push('\n');
        }
        self.cut(stamp.max_chars);
    }

    /// Returns the text so far.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    fn cut(&mut self, max_chars: usize) {
        // There are no more characters than bytes: nothing to cut.
        if self.text.len() <= max_chars {
            return;
        }
        let excess = self.text.chars().count().saturating_sub(max_chars);
        let from = self
            .text
            .char_indices()
            .nth(excess)
            .map_or(self.text.len(), |(at, _)| at);
        self.text.drain(..from);
        // A large piece leaves a large buffer behind.
        self.text.shrink_to(max_chars);
    }
}

/// Appends `[yyyy-MM-dd HH:mm:ss.SSS]` in local time.
fn write_local_time(text: &mut String, stamp: Stamp) {
    let local_ms = stamp
        .wall
        .0
        .saturating_add(i64::from(stamp.utc_offset_s) * 1_000);
    let (year, month, day) = civil_date(local_ms.div_euclid(MS_PER_DAY));
    let ms = local_ms.rem_euclid(MS_PER_DAY);
    let (second, ms) = (ms / 1_000, ms % 1_000);
    let (minute, second) = (second / 60, second % 60);
    let (hour, minute) = (minute / 60, minute % 60);
    write!(
        text,
        "[{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03}]"
    )
    .expect("writing to a string does not fail");
}

/// Returns year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Counts from 0000-03-01, so that the leap day is the last of its year and each 400 years have the
/// same 146,097 days. Then 153 days are five months from March on, whatever the year. The idea is
/// Howard Hinnant's ("chrono-Compatible Low-Level Date Algorithms").
fn civil_date(days_since_1970: i64) -> (i64, i64, i64) {
    const DAYS_FROM_YEAR_0_TO_1970: i64 = 719_468;
    const DAYS_PER_400_YEARS: i64 = 146_097;
    let days = days_since_1970 + DAYS_FROM_YEAR_0_TO_1970;
    let era = days.div_euclid(DAYS_PER_400_YEARS);
    let day_of_era = days.rem_euclid(DAYS_PER_400_YEARS);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stamp(wall: i64, utc_offset_s: i32) -> Stamp {
        Stamp {
            wall: EpochMillis(wall),
            utc_offset_s,
            max_chars: 10_000,
        }
    }

    fn time_text(wall: i64, utc_offset_s: i32) -> String {
        let mut text = String::new();
        write_local_time(&mut text, stamp(wall, utc_offset_s));
        text
    }

    #[test]
    fn stamps_are_hadoops() {
        assert_eq!(time_text(0, 0), "[1970-01-01 00:00:00.000]");
        assert_eq!(time_text(951_827_696_789, 0), "[2000-02-29 12:34:56.789]");
        assert_eq!(time_text(1_767_225_599_999, 0), "[2025-12-31 23:59:59.999]");
        assert_eq!(time_text(4_107_542_400_000, 0), "[2100-03-01 00:00:00.000]");
    }

    #[test]
    fn stamps_are_in_local_time() {
        assert_eq!(
            time_text(1_767_225_599_999, 3_600),
            "[2026-01-01 00:59:59.999]"
        );
        assert_eq!(time_text(0, -1_800), "[1969-12-31 23:30:00.000]");
    }

    #[test]
    fn each_piece_is_a_stamped_line() {
        let mut diagnostics = Diagnostics::default();
        diagnostics.push("one", stamp(0, 0));
        diagnostics.push("", stamp(0, 0));
        diagnostics.push("two\n", stamp(1, 0));
        assert_eq!(
            diagnostics.as_str(),
            "[1970-01-01 00:00:00.000]one\n[1970-01-01 00:00:00.001]two\n"
        );
    }

    #[test]
    fn the_last_characters_are_kept() {
        let mut diagnostics = Diagnostics::default();
        diagnostics.push(
            "first",
            Stamp {
                max_chars: 4,
                ..stamp(0, 0)
            },
        );
        assert_eq!(diagnostics.as_str(), "rst\n");
        diagnostics.push(
            "aßbÜc",
            Stamp {
                max_chars: 4,
                ..stamp(0, 0)
            },
        );
        assert_eq!(diagnostics.as_str(), "bÜc\n");
        diagnostics.push(
            "gone",
            Stamp {
                max_chars: 0,
                ..stamp(0, 0)
            },
        );
        assert_eq!(diagnostics.as_str(), "");
    }

    #[test]
    fn a_huge_piece_leaves_no_huge_buffer() {
        let mut diagnostics = Diagnostics::default();
        diagnostics.push(&"x".repeat(1 << 20), stamp(0, 0));
        assert_eq!(diagnostics.text.chars().count(), 10_000);
        assert!(
            diagnostics.text.capacity() <= 20_000,
            "{}",
            diagnostics.text.capacity()
        );
    }

    proptest! {
        #[test]
        fn any_time_and_offset_can_be_written(wall in any::<i64>(), offset in any::<i32>()) {
            let text = time_text(wall, offset);
            prop_assert!(text.len() >= 25);
        }

        #[test]
        fn dates_follow_each_other_day_by_day(day in -1_000_000_i64..1_000_000) {
            let (year, month, date) = civil_date(day);
            let next = civil_date(day + 1);
            let is_next = next == (year, month, date + 1)
                || next == (year, month + 1, 1)
                || (month, date) == (12, 31) && next == (year + 1, 1, 1);
            prop_assert!(is_next, "{:?} after {:?}", next, (year, month, date));
            prop_assert!((1..=31).contains(&date) && (1..=12).contains(&month));
        }

        #[test]
        fn what_is_kept_is_the_end_of_what_was_written(
            pieces in prop::collection::vec(".{0,30}", 0..10),
            max_chars in 0_usize..100,
        ) {
            let stamp = Stamp { max_chars, ..stamp(0, 0) };
            let mut all = Diagnostics::default();
            let mut cut = Diagnostics::default();
            for piece in &pieces {
                all.push(piece, Stamp { max_chars: usize::MAX, ..stamp });
                cut.push(piece, stamp);
            }
            let chars: Vec<char> = all.as_str().chars().collect();
            let expected: String = chars[chars.len().saturating_sub(max_chars)..].iter().collect();
            prop_assert_eq!(cut.as_str(), expected);
        }
    }
}
