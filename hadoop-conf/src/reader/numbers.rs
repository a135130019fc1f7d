//! Numbers and times: their ranges, and what replaces those outside.

use std::ops::RangeInclusive;

use super::PropertyReader;
use crate::{Expected, Instead, Suffix, Unit, parse};

/// A hundred years in milliseconds. Operators write the largest possible number to say "never".
const MILLIS_MAX: i64 = 100 * 366 * 24 * 3_600_000;

impl PropertyReader<'_> {
    /// Returns a whole number; `None` if it is unset. A value out of range is a problem, or
    /// replaced by the table's [rule](crate::KeyTable::lenient).
    pub fn integer_if_set(&mut self, name: &str, range: RangeInclusive<i64>) -> Option<i64> {
        let text = self.text(name)?;
        let written = parse::integer(&text);
        if let Some(value) = written.filter(|value| range.contains(value)) {
            return Some(value.min(self.longest(name)));
        }
        let (min, max) = range.into_inner();
        let value = self.instead_of(name, written, (min, max), parse::integer);
        match value {
            Some(value) => self.read_as(name, &value),
            None => {
                let unit = self.unit_of(name);
                self.problem(name, Expected::Integer { min, max, unit });
            }
        }
        value
    }

    /// Returns the value that the table's rule puts in place of one that is out of range, or of
    /// none that can be read; `None`: there is no rule, and the value is a problem.
    fn instead_of<T: Copy + PartialOrd>(
        &self,
        name: &str,
        written: Option<T>,
        (min, max): (T, T),
        parse: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let rule = self.table.lenient(name)?;
        let instead = match written {
            Some(value) if value < min => rule.below,
            Some(_) => rule.above,
            None => rule.other,
        };
        let nearest = if written < Some(min) { min } else { max };
        match instead? {
            Instead::Nearest => Some(nearest),
            Instead::Default => self.default_of(name).and_then(parse),
        }
    }

    /// Returns a time in milliseconds, of at least `min`: a number of them, or one with a unit
    /// (`Configuration.getTimeDuration`). After a problem, `min`.
    pub fn duration_ms(&mut self, name: &str, min: u32) -> u64 {
        let least = i64::from(min);
        let default = self.default_of(name).and_then(parse::duration_ms);
        let text = self.text(name);
        let written = match &text {
            None => default,
            Some(text) => parse::duration_ms(text).filter(|value| *value >= least),
        };
        if written.is_none() && text.is_some() {
            self.problem(name, Expected::Duration);
        }
        let value = written.unwrap_or(least).clamp(least, MILLIS_MAX);
        u64::try_from(value).unwrap_or(u64::from(min))
    }

    /// Returns the highest useful value. Longer times are cut, so that adding one to a clock cannot
    /// overflow.
    fn longest(&self, name: &str) -> i64 {
        let unit = self.table.find(name).map(|key| key.unit);
        match unit {
            Some(Unit::Seconds) => MILLIS_MAX / 1000,
            Some(Unit::Millis) => MILLIS_MAX,
            None if name.ends_with("-ms") => MILLIS_MAX,
            Some(_) | None => i64::MAX,
        }
    }

    /// Returns a whole number; after a problem the lowest one allowed.
    pub fn integer(&mut self, name: &str, range: RangeInclusive<i64>) -> i64 {
        let least = *range.start();
        self.integer_if_set(name, range).unwrap_or_else(|| {
            let default = self.default_of(name).and_then(parse::integer);
            default.unwrap_or(least)
        })
    }

    /// Returns a whole number of at least `min` that fits the type.
    pub fn u32(&mut self, name: &str, min: u32) -> u32 {
        let value = self.integer(name, i64::from(min)..=i64::from(i32::MAX));
        u32::try_from(value).unwrap_or(min)
    }

    /// Returns a whole number of at least `min`.
    pub fn u64(&mut self, name: &str, min: u32) -> u64 {
        let value = self.integer(name, i64::from(min)..=i64::MAX);
        u64::try_from(value).unwrap_or(u64::from(min))
    }

    /// Returns a whole number of at least 0 that fits the type, or `None` for -1, which stands for
    /// no limit.
    pub fn u32_or_minus_one(&mut self, name: &str) -> Option<u32> {
        u32::try_from(self.integer(name, -1..=i64::from(i32::MAX))).ok()
    }

    /// Returns a whole number of at least 0, or `None` for -1, which in Hadoop stands for no limit
    /// or for automatic detection.
    pub fn u64_or_minus_one(&mut self, name: &str) -> Option<u64> {
        u64::try_from(self.integer(name, -1..=i64::MAX)).ok()
    }

    /// Returns a number; `None` if it is unset. A value out of range is a problem, or replaced by
    /// the table's [rule](crate::KeyTable::lenient).
    pub fn number_if_set(&mut self, name: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let text = self.text(name)?;
        let written = parse::number(&text);
        if let Some(value) = written.filter(|value| range.contains(value)) {
            return Some(value);
        }
        let (min, max) = range.into_inner();
        let value = self.instead_of(name, written, (min, max), parse::number);
        match value {
            Some(value) => self.read_as(name, &value),
            None => {
                let unit = self.unit_of(name);
                self.problem(name, Expected::Number { min, max, unit });
            }
        }
        value
    }

    /// Returns a number; the lowest one allowed when it is unset or wrong.
    pub fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> f64 {
        let least = *range.start();
        self.number_if_set(name, range).unwrap_or(least)
    }

    fn unit_of(&self, name: &str) -> Suffix {
        Suffix(self.table.find(name).map_or("", |key| match key.unit {
            Unit::Millis => "milliseconds",
            Unit::Seconds => "seconds",
            Unit::Mebibytes | Unit::Bytes | Unit::Characters | Unit::MegabitsPerSecond => {
                key.unit.suffix()
            }
            Unit::Percent => "percent",
            Unit::Text
            | Unit::Flag
            | Unit::Count
            | Unit::Duration
            | Unit::Ratio
            | Unit::Address
            | Unit::Paths
            | Unit::List
            | Unit::ClassName
            | Unit::Octal => "",
        }))
    }
}
