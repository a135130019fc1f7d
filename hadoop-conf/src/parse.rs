//! Values as Java's `Configuration` parses them: numbers, times, lists. Pure.

/// Removes the characters that Java's `String.trim` removes, which `Configuration` uses everywhere:
/// all up to the blank.
#[must_use]
pub fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

/// Parses a whole number as `Configuration.getLong` does: a sign, then decimal digits or `0x` and
/// hexadecimal ones.
#[must_use]
pub fn integer(text: &str) -> Option<i64> {
    let text = trim(text);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let hexadecimal = digits.strip_prefix("0x").or(digits.strip_prefix("0X"));
    let (digits, radix) = match hexadecimal {
        Some(rest) => (rest, 16),
        // Java accepts one plus before decimal digits, and none after a minus.
        None if !negative => (digits.strip_prefix('+').unwrap_or(digits), 10),
        None => (digits, 10),
    };
    // `from_str_radix` would accept another sign.
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// Parses a number as `Configuration.getFloat` does, but only a finite one: no property has a use
/// for others.
#[must_use]
pub fn number(text: &str) -> Option<f64> {
    let text = trim(text);
    let digits = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | 'e' | 'E');
    if !digits.chars().all(plain) {
        return None;
    }
    digits.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// Parses a time as `Configuration.getTimeDuration` does, to whole milliseconds; a number without a
/// unit is milliseconds.
#[must_use]
pub fn duration_ms(text: &str) -> Option<i64> {
    let text = trim(text).to_ascii_lowercase();
    // Longer units first, since all end in `s`. The numbers are nanoseconds per unit.
    const UNITS: [(&str, i128); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ];
    let with_unit = UNITS
        .iter()
        .find_map(|(unit, nanos)| Some((text.strip_suffix(unit)?, *nanos)));
    let (digits, nanos) = with_unit.unwrap_or((&text, 1_000_000));
    // Hadoop accepts no `0x` in times, and no blank before the unit.
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let count: i64 = digits.parse().ok()?;
    i64::try_from(i128::from(count) * nanos / 1_000_000).ok()
}

/// Parses `true` or `false` in any case of letters, as `Configuration.getBoolean` does.
#[must_use]
pub fn flag(text: &str) -> Option<bool> {
    let text = trim(text);
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// Splits words at commas and line ends and trims them, as `Configuration.getTrimmedStrings` does;
/// omits empty ones.
#[must_use]
pub fn list(text: &str) -> Vec<String> {
    let words = text.split([',', '\n']).map(trim);
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns whether a shell accepts this as the name of a variable.
#[must_use]
pub fn is_variable_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Asserts the answers of Hadoop 3.4.2's `Configuration.getLong`.
    #[test]
    fn whole_numbers_are_read_as_hadoop_reads_them() {
        for (text, hadoop) in [
            ("10", Some(10)),
            (" 10 ", Some(10)),
            ("0x10", Some(16)),
            ("-0x10", Some(-16)),
            ("0X1F", Some(31)),
            ("+5", Some(5)),
            ("0xFFFFFFFF", Some(4_294_967_295)),
            ("1_000", None),
            ("1e3", None),
            ("10k", None),
            ("", None),
            ("1.5", None),
            ("0x", None),
            ("-", None),
            ("-+5", None),
            ("0x-5", None),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
        ] {
            assert_eq!(integer(text), hadoop, "{text}");
        }
    }

    /// Asserts the answers of Hadoop 3.4.2's `Configuration.getTimeDuration(…, MILLISECONDS)`.
    #[test]
    fn times_are_read_as_hadoop_reads_them() {
        for (text, hadoop) in [
            ("10", Some(10)),
            ("10s", Some(10_000)),
            (" 10S ", Some(10_000)),
            ("10ms", Some(10)),
            ("10m", Some(600_000)),
            ("1h", Some(3_600_000)),
            ("1d", Some(86_400_000)),
            ("999us", Some(0)),
            ("10ns", Some(0)),
            ("-1s", Some(-1000)),
            ("+5s", Some(5000)),
            ("10 s", None),
            ("1.5s", None),
            ("10sec", None),
            ("10min", None),
            ("s", None),
            ("", None),
            ("0x10", None),
        ] {
            assert_eq!(duration_ms(text), hadoop, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_as_hadoop_reads_them_but_only_finite_ones() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            ("1.5f", Some(1.5)),
            ("1d", Some(1.0)),
            (" 2 ", Some(2.0)),
            ("1e2", Some(100.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("1,5", None),
            ("NaN", None),
            ("Infinity", None),
            ("1e999", None),
            ("", None),
            ("f", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }

    #[test]
    fn lists_lose_blanks_and_empty_words() {
        assert_eq!(list(" a , b,,c\nd,"), ["a", "b", "c", "d"]);
        assert!(list(" , ").is_empty());
    }

    #[test]
    fn flags_are_words_in_any_case_and_nothing_else() {
        assert_eq!(flag(" TRUE "), Some(true));
        assert_eq!(flag("False"), Some(false));
        for text in ["yes", "1", "on", ""] {
            assert_eq!(flag(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", near in "[-+0-9xXaAsSmMuUhHdDnN. eEfF]{0,24}") {
            for text in [text, near] {
                let _ = (integer(&text), number(&text), duration_ms(&text), flag(&text), list(&text));
            }
        }

        #[test]
        fn every_integer_reads_back(value in any::<i64>()) {
            prop_assert_eq!(integer(&value.to_string()), Some(value));
        }
    }
}
