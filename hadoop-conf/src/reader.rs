//! Typed access to properties that collects problems rather than stopping at the first.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Component, PathBuf};

use crate::site_xml::{Origin, Properties, SiteXmlError, Value, local_path};
use crate::{
    ConfigProblems, Expected, HostPort, KeyTable, Problem, Secrets, Suffix, Unit, Warning, parse,
};

/// Limit on the characters of a value in a message.
const SHOWN_CHARS_MAX: usize = 200;
/// Limit on the folders of one property. No machine has more disks, and each one costs work for
/// each container.
const PATHS_MAX: usize = 128;
/// A hundred years in milliseconds. Operators write the largest possible number to say "never".
const MILLIS_MAX: i64 = 100 * 366 * 24 * 3_600_000;

/// Reader of properties; keeps every problem and warning in the order found.
pub struct PropertyReader<'a> {
    properties: &'a Properties,
    table: &'a KeyTable,
    secrets: Secrets,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
    /// Names that were read, to check that every property that the table calls honoured is.
    asked: BTreeSet<String>,
}

impl<'a> PropertyReader<'a> {
    /// Returns a reader of `properties` with the defaults and units of `table`.
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

    /// Returns `read` if there are no problems. Drops warnings.
    ///
    /// # Errors
    /// All problems found.
    pub fn check<T>(self, read: T) -> Result<T, ConfigProblems> {
        match ConfigProblems::new(self.problems) {
            Some(problems) => Err(problems),
            None => Ok(read),
        }
    }

    /// Returns the problems, the warnings and the names that were read.
    #[must_use]
    pub fn finish(self) -> (Vec<Problem>, Vec<Warning>, BTreeSet<String>) {
        (self.problems, self.warnings, self.asked)
    }

    /// Returns the properties that are read.
    #[must_use]
    pub fn properties(&self) -> &'a Properties {
        self.properties
    }

    /// Returns the value with its `${…}` expanded; a value that cannot be expanded is a problem and
    /// then counts as unset.
    fn value(&mut self, name: &str) -> Option<Value> {
        let first = self.asked.insert(name.to_owned());
        match self.properties.get_or(name, self.default_of(name)) {
            Ok(value) => value,
            Err(error) => {
                // Reported once, however often the property is read.
                if first {
                    self.problem(name, Expected::Expansion(error));
                }
                None
            }
        }
    }

    /// Returns the value, trimmed; `None` if it is unset or empty.
    pub fn text(&mut self, name: &str) -> Option<String> {
        let value = self.value(name)?;
        let text = parse::trim(&value.text);
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Returns the value with its blanks, where the first of them means something; `None` if it is
    /// unset.
    pub fn untrimmed_text(&mut self, name: &str) -> Option<String> {
        Some(self.value(name)?.text)
    }

    /// Returns the value as [`Self::text`] does; a remaining `${…}` is a problem.
    pub fn resolved_text(&mut self, name: &str) -> Option<String> {
        let unresolved = self.value(name)?.unresolved;
        if let Some(unresolved) = unresolved {
            self.problem(name, Expected::Unresolved(unresolved));
            return None;
        }
        self.text(name)
    }

    /// Returns a flag, the default when it is unset, and `false` after a problem.
    pub fn flag(&mut self, name: &str) -> bool {
        match self.text(name) {
            None => self.default_of(name).and_then(parse::flag).unwrap_or(false),
            Some(text) => parse::flag(&text).unwrap_or_else(|| {
                self.problem(name, Expected::Flag);
                false
            }),
        }
    }

    /// Returns a whole number; `None` if it is unset. A value out of range is a problem.
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

    /// Returns a number; `None` if it is unset. A value out of range is a problem.
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

    /// Returns a number; the lowest one allowed when it is unset or wrong.
    pub fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> f64 {
        let least = *range.start();
        self.number_if_set(name, range).unwrap_or(least)
    }

    /// Returns the words between commas; empty if unset.
    pub fn list(&mut self, name: &str) -> Vec<String> {
        self.value(name)
            .map_or_else(Vec::new, |value| parse::list(&value.text))
    }

    /// Returns an address; one without a port gets the default port.
    pub fn address(&mut self, name: &str, default_port: u16) -> HostPort {
        let Some(text) = self.resolved_text(name) else {
            return HostPort::new("0.0.0.0", default_port);
        };
        HostPort::parse(&text, default_port).unwrap_or_else(|error| {
            self.problem(name, Expected::Address(error));
            HostPort::new("0.0.0.0", default_port)
        })
    }

    /// Returns the choice of a word, which must be written exactly so; after a problem the first
    /// choice.
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

    /// Returns absolute folders of this machine, each once; an empty list is a problem.
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

    /// Adds the problem that the value of a property cannot be used.
    pub fn problem(&mut self, name: &str, expected: Expected) {
        let (value, origin) = self.shown(name);
        self.problems.push(Problem::Value {
            name: name.to_owned(),
            value,
            origin,
            expected,
        });
    }

    /// Adds the problem that a required property is not set.
    pub fn missing(&mut self, name: String, why: &'static str) {
        self.problems.push(Problem::Missing { name, why });
    }

    /// Adds the problem that a file cannot be used.
    pub fn unusable_file(&mut self, error: SiteXmlError) {
        self.problems.push(error.into());
    }

    /// Adds problems and warnings of a reader of other properties.
    pub fn add(&mut self, other: PropertyReader<'_>) {
        self.problems.extend(other.problems);
        self.warnings.extend(other.warnings);
    }

    /// Adds the warning that this value has another effect than in Hadoop.
    pub fn otherwise(&mut self, name: &str, how: &'static str) {
        let (value, origin) = self.shown(name);
        self.warnings.push(Warning::Otherwise {
            name: name.to_owned(),
            value,
            origin,
            how,
        });
    }

    /// Adds the warning that this value has no effect yet.
    pub fn not_yet(&mut self, name: &str) {
        let (value, origin) = self.shown(name);
        self.warnings.push(Warning::NotYet {
            name: name.to_owned(),
            value,
            origin,
        });
    }

    /// Adds a warning.
    pub fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    /// Returns the place where a property is set.
    #[must_use]
    pub fn origin(&self, name: &str) -> Origin {
        self.properties
            .origin(name)
            .cloned()
            .unwrap_or(Origin::Default)
    }

    /// Returns a value for a message, and the place where it is set.
    fn shown(&self, name: &str) -> (String, Origin) {
        let text = match self.properties.get(name) {
            Ok(Some(value)) => self.secrets.show(name, &value).to_owned(),
            Ok(None) => String::new(),
            // A value that cannot be expanded is shown as written.
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

/// Cuts a value to one line of a message's length.
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
