//! Formats of control files: single numbers, lines of key and number, and pressure lines. Pure.

use std::collections::BTreeMap;

/// Parses a file that holds one number; `max` is [`u64::MAX`].
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        digits => digits.parse().ok(),
    }
}

/// Returns the number after `key` in a file of lines `KEY NUMBER`. A key that the kernel did not
/// print is `None`, not 0.
pub(crate) fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (found, number) = line.split_once(' ')?;
        (found == key).then(|| number.trim().parse().ok()).flatten()
    })
}

/// Returns the sum over the devices of a file of lines `MAJOR:MINOR OPERATION NUMBER` (v1).
pub(crate) fn device_sum(text: &str, operation: &str) -> u64 {
    let numbers = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        (words.next()? == operation).then(|| words.next()?.parse::<u64>().ok())?
    });
    numbers.fold(0, u64::saturating_add)
}

/// Returns the sum over the devices of a file of lines `MAJOR:MINOR KEY=NUMBER …` (v2).
pub(crate) fn keyed_device_sum(text: &str, key: &str) -> u64 {
    let numbers = text.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        fields.find_map(|field| {
            field
                .strip_prefix(key)?
                .strip_prefix('=')?
                .parse::<u64>()
                .ok()
        })
    });
    numbers.fold(0, u64::saturating_add)
}

/// Pressure stall information: how long tasks waited for a resource (kernel: PSI,
/// `Documentation/accounting/psi.rst`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Time during which at least one task waited.
    pub some: Stall,
    /// Time during which all tasks waited. `None` if not reported (CPU of the whole machine, before
    /// Linux 5.13).
    pub full: Option<Stall>,
}

/// A line of a pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Share of the last 10 s, in percent.
    pub avg10_percent: f32,
    /// Share of the last 60 s, in percent.
    pub avg60_percent: f32,
    /// Share of the last 300 s, in percent.
    pub avg300_percent: f32,
    /// Time since the cgroup was created, in microseconds.
    pub total_us: u64,
}

impl Pressure {
    /// Parses a pressure file; `None` if the text is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let line = |kind| {
            let rest = text.lines().find_map(|line| line.strip_prefix(kind))?;
            Stall::parse(rest)
        };
        Some(Self {
            some: line("some ")?,
            full: line("full "),
        })
    }
}

impl Stall {
    fn parse(text: &str) -> Option<Self> {
        let fields: BTreeMap<&str, &str> = text
            .split_ascii_whitespace()
            .filter_map(|field| field.split_once('='))
            .collect();
        let percent = |name| fields.get(name)?.parse::<f32>().ok();
        Some(Self {
            avg10_percent: percent("avg10")?,
            avg60_percent: percent("avg60")?,
            avg300_percent: percent("avg300")?,
            total_us: fields.get("total")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_that_is_not_printed_is_not_zero() {
        let text = "low 0\nhigh 3\noom_kill 12\noom_group_kill 1\n";
        assert_eq!(value(text, "oom_kill"), Some(12));
        assert_eq!(value(text, "oom"), None);
        assert_eq!(value("oom_kill x\n", "oom_kill"), None);
    }

    #[test]
    fn numbers_may_be_max() {
        assert_eq!(number("12\n"), Some(12));
        assert_eq!(number("max\n"), Some(u64::MAX));
        assert_eq!(number("-1\n"), None);
        assert_eq!(number(""), None);
    }

    #[test]
    fn pressure_is_read_with_and_without_full() {
        let some = "some avg10=0.75 avg60=1.11 avg300=2.28 total=3746660514\n";
        let full = "full avg10=0.00 avg60=0.25 avg300=0.00 total=17\n";
        let both = Pressure::parse(&(some.to_owned() + full)).unwrap();
        assert_eq!(both.some.total_us, 3_746_660_514);
        assert!((both.some.avg300_percent - 2.28).abs() < 0.001);
        assert!((both.full.unwrap().avg60_percent - 0.25).abs() < 0.001);
        assert_eq!(Pressure::parse(some).unwrap().full, None);
        for broken in ["", "some", "some avg10=x avg60=1 avg300=1 total=1", full] {
            assert_eq!(Pressure::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn bytes_are_summed_over_devices_and_an_operation_is_a_whole_word() {
        let v1 = "8:0 Read 4096\n8:0 Write 1\n8:16 Read 4\n8:16 Discard 9\nTotal 4110\n";
        assert_eq!(
            (device_sum(v1, "Read"), device_sum(v1, "Write")),
            (4_100, 1)
        );
        assert_eq!(device_sum("Total 0\n", "Read"), 0);
        let v2 = "8:16 rbytes=1459200 wbytes=3 rios=192 wios=353 dbytes=0 dios=0\n\
            253:0 rbytes=800 wbytes=18446744073709551615 rios=1 wios=1\n8:32\n";
        assert_eq!(keyed_device_sum(v2, "rbytes"), 1_460_000);
        assert_eq!(keyed_device_sum(v2, "wbytes"), u64::MAX);
        assert_eq!(keyed_device_sum(v2, "bytes"), 0);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".{0,200}") {
            let _ = (Pressure::parse(&text), number(&text), value(&text, "oom"));
            let _ = (device_sum(&text, "Read"), keyed_device_sum(&text, "rbytes"));
        }
    }
}
