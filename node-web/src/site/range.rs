//! Which bytes of a log file a reader gets. Pure.

use std::ops::Range;

use thiserror::Error;

/// Bytes of a log that a page shows unless its link says otherwise: the last 4 KiB, as in Hadoop.
const TAIL_BYTES: i64 = 4096;

/// A range that cannot be shown. The text is Hadoop's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("Invalid start and end values. Start: [{start}], end[{end}]")]
pub(super) struct BadRange {
    /// After counting from the end where it was negative.
    pub(super) start: u64,
    /// Likewise.
    pub(super) end: u64,
}

/// The bytes between `start` and `end` of a file of `length` bytes (Hadoop: `ContainerLogsPage`).
/// Negative numbers count from the file's end. Without `start`, the last 4 KiB; without `end`, or
/// with one before the file's begin, up to its end. What lies behind the file's end is empty.
pub(super) fn page(
    length: u64,
    start: Option<i64>,
    end: Option<i64>,
) -> Result<Range<u64>, BadRange> {
    let start = from_either_end(length, start.unwrap_or(-TAIL_BYTES)).unwrap_or(0);
    let end = end
        .and_then(|end| from_either_end(length, end))
        .unwrap_or(length);
    if start > end {
        return Err(BadRange { start, end });
    }
    Ok(start.min(length)..end.min(length))
}

/// The first `size` bytes, or the last `-size` if it is negative, of a file of `length` bytes
/// (Hadoop: `LogToolUtils`).
pub(super) fn sized(length: u64, size: i64) -> Range<u64> {
    if size < 0 {
        length.saturating_sub(size.unsigned_abs())..length
    } else {
        0..length.min(size.unsigned_abs())
    }
}

/// `None` if it lies before the file's begin.
fn from_either_end(length: u64, offset: i64) -> Option<u64> {
    if offset < 0 {
        length.checked_sub(offset.unsigned_abs())
    } else {
        Some(offset.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_numbers_the_page_shows_the_last_four_kibibytes() {
        assert_eq!(page(10_000, None, None), Ok(5904..10_000));
        assert_eq!(page(100, None, None), Ok(0..100));
        assert_eq!(page(0, None, None), Ok(0..0));
    }

    #[test]
    fn negative_numbers_count_from_the_end() {
        assert_eq!(page(100, Some(-30), Some(-10)), Ok(70..90));
        assert_eq!(page(100, Some(-1000), Some(-1000)), Ok(0..100));
    }

    #[test]
    fn an_end_beyond_the_file_means_its_end() {
        assert_eq!(page(100, Some(0), Some(i64::MAX)), Ok(0..100));
    }

    #[test]
    fn a_range_behind_the_end_of_the_file_is_empty() {
        assert_eq!(page(0, Some(0), Some(4096)), Ok(0..0));
        assert_eq!(page(0, Some(10), Some(20)), Ok(0..0));
        assert_eq!(page(0, Some(-4096), Some(-1)), Ok(0..0));
        assert_eq!(page(100, Some(101), Some(200)), Ok(100..100));
    }

    #[test]
    fn a_start_behind_the_end_is_refused() {
        assert_eq!(
            page(100, Some(101), None),
            Err(BadRange {
                start: 101,
                end: 100
            })
        );
        assert_eq!(
            page(100, Some(50), Some(49)).unwrap_err().to_string(),
            "Invalid start and end values. Start: [50], end[49]"
        );
    }

    #[test]
    fn a_size_takes_from_the_begin_or_the_end() {
        assert_eq!(sized(100, 10), 0..10);
        assert_eq!(sized(100, -10), 90..100);
        assert_eq!(sized(100, 1000), 0..100);
        assert_eq!(sized(100, i64::MIN), 0..100);
        assert_eq!(sized(100, 0), 0..0);
    }

    proptest! {
        #[test]
        fn every_range_lies_within_the_file(length: u64, start: Option<i64>, end: Option<i64>, size: i64) {
            if let Ok(range) = page(length, start, end) {
                prop_assert!(range.start <= range.end && range.end <= length);
            }
            let range = sized(length, size);
            prop_assert!(range.start <= range.end && range.end <= length);
        }
    }
}
