//! Typed access to properties, which collects what is wrong instead of stopping at it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Component, PathBuf};

use crate::site_xml::{Origin, Properties, Value, local_path};
use crate::{
    ConfigProblems, Expected, HostPort, KeyTable, Problem, Secrets, Suffix, Unit, Warning, parse,
};

/// A value in a message, at most.
const SHOWN_CHARS_MAX: usize = 200;
/// Folders of one property. Machines with more disks than this do not exist, and each one costs work for each container.
const PATHS_MAX: usize = 128;
/// A hundred years. People write the largest number there is to say "never".
const MILLIS_MAX: i64 = 100 * 366 * 24 * 3_600_000;

/// Reads properties; every problem and warning is kept in the order found.
pub struct PropertyReader<'a> {
    properties: &'a Properties,
    table: &'a KeyTable,
    secrets: Secrets,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
    /// Names asked for: a property in the table as honoured that is never asked for would be a lie.
    asked: BTreeSet<String>,
}

impl<'a> PropertyReader<'a> {
    /// Reads `properties` with the defaults and units of `table`.
    #[must_use]
    pub fn new(properties: &'a Properties, table: &'a KeyTable) -> Self {
        Self {
            properties,
            table,
            secrets: Secrets::of(properties),
            problems: Vec::new(),
            warnings: Vec::new(),
            asked: BTreeSet::new(),
        }
    }

    /// What was read, if nothing is wrong. Warnings are dropped.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check<T>(self, read: T) -> Result<T, ConfigProblems> {
        match ConfigProblems::new(self.problems) {
            Some(problems) => Err(problems),
            None => Ok(read),
        }
    }

    /// Problems, warnings and the names asked for.
    #[must_use]
    pub fn finish(self) -> (Vec<Problem>, Vec<Warning>, BTreeSet<String>) {
        (self.problems, self.warnings, self.asked)
    }

    /// What is read.
    #[must_use]
    pub fn properties(&self) -> &'a Properties {
        self.properties
    }

    /// The value with its `${…}` in place; a value that cannot be had is a problem and then counts as unset.
    fn value(&mut self, name: &str) -> Option<Value> {
        let first = self.asked.insert(name.to_owned());
        match self.properties.get_or(name, self.default_of(name)) {
            Ok(value) => value,
            Err(error) => {
                // Told once, however often it is asked for.
                if first {
                    self.problem(name, Expected::Expansion(error));
                }
                None
            }
        }
    }

    /// What the property says, trimmed; `None` if it is unset or empty.
    pub fn text(&mut self, name: &str) -> Option<String> {
        let value = self.value(name)?;
        let text = parse::trim(&value.text);
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Like [`Self::text`], but `${…}` must not remain.
    pub fn resolved_text(&mut self, name: &str) -> Option<String> {
        let unresolved = self.value(name)?.unresolved;
        if let Some(unresolved) = unresolved {
            self.problem(name, Expected::Unresolved(unresolved));
            return None;
        }
        self.text(name)
    }

    /// `true` or `false`, the default when it is unset; `false` stands in after a problem.
    pub fn flag(&mut self, name: &str) -> bool {
        match self.text(name) {
            None => self.default_of(name).and_then(parse::flag).unwrap_or(false),
            Some(text) => parse::flag(&text).unwrap_or_else(|| {
                self.problem(name, Expected::Flag);
                false
            }),
        }
    }

    /// A whole number; `None` if it is unset. Out of range is a problem.
    pub fn integer_if_set(&mut self, name: &str, range: RangeInclusive<i64>) -> Option<i64> {
        let text = self.text(name)?;
        let value = parse::integer(&text).filter(|value| range.contains(value));
        if value.is_none() {
            let (min, max) = range.into_inner();
            let unit = self.unit_of(name);
            self.problem(name, Expected::Integer { min, max, unit });
        }
        value.map(|value| value.min(self.longest(name)))
    }

    /// Times beyond any use are cut, so that adding one to a clock cannot overflow.
    fn longest(&self, name: &str) -> i64 {
        let unit = self.table.find(name).map(|key| key.unit);
        match unit {
            Some(Unit::Seconds) => MILLIS_MAX / 1000,
            Some(Unit::Millis) => MILLIS_MAX,
            None if name.ends_with("-ms") => MILLIS_MAX,
            Some(_) | None => i64::MAX,
        }
    }

    /// A whole number; the least one allowed stands in after a problem.
    pub fn integer(&mut self, name: &str, range: RangeInclusive<i64>) -> i64 {
        let least = *range.start();
        self.integer_if_set(name, range).unwrap_or_else(|| {
            let default = self.default_of(name).and_then(parse::integer);
            default.unwrap_or(least)
        })
    }

    /// A whole number of at least `min` that fits the type.
    pub fn u32(&mut self, name: &str, min: u32) -> u32 {
        let value = self.integer(name, i64::from(min)..=i64::from(i32::MAX));
        u32::try_from(value).unwrap_or(min)
    }

    /// A whole number of at least `min`.
    pub fn u64(&mut self, name: &str, min: u32) -> u64 {
        let value = self.integer(name, i64::from(min)..=i64::MAX);
        u64::try_from(value).unwrap_or(u64::from(min))
    }

    /// A whole number of at least 0 that fits the type, or `None` for -1, which says "no limit".
    pub fn u32_or_minus_one(&mut self, name: &str) -> Option<u32> {
        u32::try_from(self.integer(name, -1..=i64::from(i32::MAX))).ok()
    }

    /// A whole number of at least 0, or `None` for -1, which in Hadoop says "no limit" or "find out".
    pub fn u64_or_minus_one(&mut self, name: &str) -> Option<u64> {
        u64::try_from(self.integer(name, -1..=i64::MAX)).ok()
    }

    /// A number; `None` if it is unset. Out of range is a problem.
    pub fn number_if_set(&mut self, name: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let text = self.text(name)?;
        let value = parse::number(&text).filter(|value| range.contains(value));
        if value.is_none() {
            let (min, max) = range.into_inner();
            let unit = self.unit_of(name);
            self.problem(name, Expected::Number { min, max, unit });
        }
        value
    }

    /// A number; the least one allowed stands in when it is unset or wrong.
    pub fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> f64 {
        let least = *range.start();
        self.number_if_set(name, range).unwrap_or(least)
    }

    /// Words between commas; empty if unset.
    pub fn list(&mut self, name: &str) -> Vec<String> {
        self.value(name)
            .map_or_else(Vec::new, |value| parse::list(&value.text))
    }

    /// `host:port`; without a port the given one.
    pub fn address(&mut self, name: &str, default_port: u16) -> HostPort {
        let Some(text) = self.resolved_text(name) else {
            return HostPort::new("0.0.0.0", default_port);
        };
        HostPort::parse(&text, default_port).unwrap_or_else(|error| {
            self.problem(name, Expected::Address(error));
            HostPort::new("0.0.0.0", default_port)
        })
    }

    /// One of a few words, written exactly so; the first stands in after a problem.
    pub fn choice<T: Copy>(
        &mut self,
        name: &str,
        first: (&'static str, T),
        others: &[(&'static str, T)],
    ) -> T {
        let Some(text) = self.text(name) else {
            return first.1;
        };
        let all = || std::iter::once(&first).chain(others);
        if let Some((_, value)) = all().find(|(word, _)| *word == text) {
            return *value;
        }
        self.problem(
            name,
            Expected::OneOf(all().map(|(word, _)| *word).collect()),
        );
        first.1
    }

    /// Folders of this machine, absolute, each once; at least one, else a problem.
    pub fn paths(&mut self, name: &str) -> Vec<PathBuf> {
        if self.resolved_text(name).is_none() {
            if self
                .properties
                .get(name)
                .is_ok_and(|value| value.is_none_or(|v| v.unresolved.is_none()))
            {
                self.problem(name, Expected::NotEmpty);
            }
            return Vec::new();
        }
        let mut paths: Vec<PathBuf> = Vec::new();
        for text in self.list(name) {
            let usable = local_path(&text).filter(|path| {
                path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
            });
            match usable {
                Some(path) if !paths.contains(&path) => paths.push(path),
                Some(_) => {}
                None => {
                    self.problem(name, Expected::Paths);
                    return Vec::new();
                }
            }
        }
        if paths.is_empty() {
            self.problem(name, Expected::NotEmpty);
        }
        if paths.len() > PATHS_MAX {
            self.problem(name, Expected::AtMost(PATHS_MAX));
        }
        paths
    }

    /// Says that the value of a property cannot be used.
    pub fn problem(&mut self, name: &str, expected: Expected) {
        let (value, origin) = self.shown(name);
        self.problems.push(Problem::Value {
            name: name.to_owned(),
            value,
            origin,
            expected,
        });
    }

    /// Says that a property is not set though something needs it.
    pub fn missing(&mut self, name: String, why: &'static str) {
        self.problems.push(Problem::Missing { name, why });
    }

    /// Warns that this value is obeyed otherwise than in Hadoop.
    pub fn otherwise(&mut self, name: &str, how: &'static str) {
        let (value, origin) = self.shown(name);
        self.warnings.push(Warning::Otherwise {
            name: name.to_owned(),
            value,
            origin,
            how,
        });
    }

    /// Warns that this value has no effect yet.
    pub fn not_yet(&mut self, name: &str) {
        let (value, origin) = self.shown(name);
        self.warnings.push(Warning::NotYet {
            name: name.to_owned(),
            value,
            origin,
        });
    }

    /// Keeps a warning.
    pub fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    /// Where a property is set.
    #[must_use]
    pub fn origin(&self, name: &str) -> Origin {
        self.properties
            .origin(name)
            .cloned()
            .unwrap_or(Origin::Default)
    }

    /// A value for a message, and where it is set.
    fn shown(&self, name: &str) -> (String, Origin) {
        let text = match self.properties.get(name) {
            Ok(Some(value)) => self.secrets.show(name, &value).to_owned(),
            Ok(None) => String::new(),
            // What cannot be expanded is shown as it was written.
            Err(_) => {
                let raw = Value {
                    text: self.properties.raw(name).unwrap_or("").to_owned(),
                    origin: self.origin(name),
                    used: Vec::new(),
                    unresolved: None,
                };
                self.secrets.show(name, &raw).to_owned()
            }
        };
        (shorten(&text), self.origin(name))
    }

    fn default_of(&self, name: &str) -> Option<&'static str> {
        self.table.find(name)?.default
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

/// On one line and not longer than a message should be.
fn shorten(text: &str) -> String {
    let mut shown: String = parse::trim(text)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(SHOWN_CHARS_MAX + 1)
        .collect();
    if shown.chars().count() > SHOWN_CHARS_MAX {
        shown.pop();
        shown.push('…');
    }
    shown
}
