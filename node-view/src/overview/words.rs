//! Durations and amounts as people read them: one unit, or two when the second still matters.

/// A duration: `0 ms`, `450 ms`, `1.2 s`, `48 s`, `3 min 05 s`, `2 h 07 min`, `3 d 4 h`. Rounded
/// down, so that a wait is never shown as over before it is.
#[must_use]
pub fn duration(millis: u64) -> String {
    let s = millis / 1000;
    match s {
        0 => format!("{millis} ms"),
        1..=9 => format!("{s}.{} s", millis % 1000 / 100),
        10..=59 => format!("{s} s"),
        60..=3_599 => format!("{} min {:02} s", s / 60, s % 60),
        3_600..=86_399 => format!("{} h {:02} min", s / 3_600, s % 3_600 / 60),
        86_400.. => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

/// A short duration in microseconds: `0 µs`, `950 µs`, `1.2 ms`, `48 ms`, and from a second on as
/// [`duration`].
#[must_use]
pub fn fine_duration(micros: u64) -> String {
    match micros {
        0..=999 => format!("{micros} µs"),
        1_000..=9_999 => format!("{}.{} ms", micros / 1000, micros % 1000 / 100),
        10_000.. => duration(micros / 1000),
    }
}

/// A whole number with a comma between groups of three digits.
#[must_use]
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns virtual cores in words: `1 vcore`, `4 vcores`.
#[must_use]
pub fn vcores(count: u32) -> String {
    match count {
        1 => "1 vcore".to_owned(),
        _ => format!("{count} vcores"),
    }
}

/// Returns a character of a container's output as readers get it, so that it steers neither a
/// terminal nor a browser: of a control character its picture (U+2400 and on), but for line breaks
/// and tabulators, and U+FFFD of one that changes the direction of writing.
#[must_use]
pub fn picture(character: char) -> char {
    match character {
        '\n' | '\t' => character,
        '\0'..='\x1f' => {
            char::from_u32(0x2400 + u32::from(character)).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        other => other,
    }
}

/// The last line of a container's diagnostics: usually the last that it wrote to its error output,
/// which most often gives the reason. Empty when there is only what every failure has. Cut at
/// `chars_max` characters.
#[must_use]
pub fn last_said(diagnostics: &str, chars_max: usize) -> String {
    let mut lines = diagnostics.lines().map(|line| unstamped(line.trim()));
    let last = lines.rfind(|line| !line.is_empty()).unwrap_or_default();
    // The head line of an empty file's tail, or the line before there are tails.
    if last.ends_with(" :") || last.starts_with("Container exited with a non-zero exit code") {
        return String::new();
    }
    match last.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", last[..end].trim_end()),
        None => last.to_owned(),
    }
}

/// Without the time that stands before each piece: `[1970-01-01 00:00:00.000]`.
fn unstamped(line: &str) -> &str {
    let stamp = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match stamp {
        Some((time, said))
            if time.len() == 23 && time.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            said
        }
        Some(_) | None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_units_that_matter_at_their_size() {
        for (millis, words) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (1_299, "1.2 s"),
            (9_999, "9.9 s"),
            (10_000, "10 s"),
            (59_999, "59 s"),
            (60_000, "1 min 00 s"),
            (185_000, "3 min 05 s"),
            (3_600_000, "1 h 00 min"),
            (7_620_000, "2 h 07 min"),
            (273_600_000, "3 d 4 h"),
        ] {
            assert_eq!(duration(millis), words);
        }
        assert!(duration(u64::MAX).ends_with(" h"));
    }

    #[test]
    fn short_durations_have_a_finer_unit() {
        for (micros, words) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_000, "1.0 ms"),
            (9_999, "9.9 ms"),
            (48_500, "48 ms"),
            (1_200_000, "1.2 s"),
        ] {
            assert_eq!(fine_duration(micros), words);
        }
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        for (value, words) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(number(value), words);
        }
    }

    #[test]
    fn the_last_line_is_what_a_failure_said() {
        let head = "[2024-01-01 10:00:00.000]Exception from container-launch.\nExit code: 1\n\n";
        let code = "Container exited with a non-zero exit code 1. ";
        let tail = "Error file: prelaunch.err.\nLast 4096 bytes of prelaunch.err :\n";
        let stderr = "Last 4096 bytes of stderr :\nTraceback\nno such file\n\n";
        assert_eq!(
            last_said(&format!("{head}{code}{tail}{stderr}"), 80),
            "no such file"
        );
        assert_eq!(last_said(&format!("{head}{code}{tail}"), 80), "");
        assert_eq!(last_said(&format!("{head}{code}"), 80), "");
        assert_eq!(
            last_said("[2024-01-01 10:00:00.000]no such key\n", 80),
            "no such key"
        );
        assert_eq!(last_said("[error] x]", 80), "[error] x]");
    }

    #[test]
    fn a_long_last_line_is_cut_between_characters() {
        assert_eq!(last_said("aüüb", 2), "aü…");
        assert_eq!(last_said("aüüb", 4), "aüüb");
        assert_eq!(last_said("", 4), "");
    }
}
