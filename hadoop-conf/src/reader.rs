//! Typed access to properties that collects problems rather than stopping at the first.

mod numbers;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, PathBuf};

use crate::site_xml::{Origin, Properties, SiteXmlError, Value, local_path};
use crate::{ConfigProblems, Expected, HostPort, KeyTable, Problem, Secrets, Warning, parse};

/// Limit on the characters of a value in a message.
const SHOWN_CHARS_MAX: usize = 200;
/// Limit on the folders of one property. No machine has more disks, and each one costs work for
/// each container.
const PATHS_MAX: usize = 128;

/// Reader of properties; keeps every problem and warning in the order found, each once.
///
/// Values are read as Hadoop's `Configuration` reads them. Where Hadoop goes on with another value
/// than the written one, so does the reader, with a warning: [`KeyTable::lenient`] says where. A
/// [`Guard`](crate::Guard) that would be left open is a problem instead.
pub struct PropertyReader<'a> {
    properties: &'a Properties,
    table: &'a KeyTable,
    secrets: Secrets,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
    /// Names that were read, to check that every property that the table calls honoured is.
    asked: BTreeSet<String>,
    /// Names whose values are told of already, with what is told.
    told: BTreeSet<(String, String)>,
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
            told: BTreeSet::new(),
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
        self.asked.insert(name.to_owned());
        match self.properties.get_or(name, self.default_of(name)) {
            Ok(value) => value,
            Err(error) => {
                self.problem(name, Expected::Expansion(error));
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

    /// Returns a flag, the default when it is unset or neither `true` nor `false`
    /// (`Configuration.getBoolean`), and `false` after a problem: that a protection may be meant
    /// that the default does not give, or that Hadoop has no such property.
    pub fn flag(&mut self, name: &str) -> bool {
        let default = self.default_of(name).and_then(parse::flag).unwrap_or(false);
        let Some(text) = self.text(name) else {
            return default;
        };
        if let Some(flag) = parse::flag(&text) {
            return flag;
        }
        let guard = self.table.guard(name);
        let opens =
            guard.is_some_and(|guard| guard.protects != default && guard.may_protect(&text));
        if opens || self.table.is_own(name) {
            self.problem(name, Expected::Flag { opens });
            return false;
        }
        self.read_as(name, &default);
        default
    }

    /// Returns the words between commas; empty if unset.
    pub fn list(&mut self, name: &str) -> Vec<String> {
        self.value(name)
            .map_or_else(Vec::new, |value| parse::list(&value.text))
    }

    /// Returns an address; one without a port gets the default port.
    pub fn address(&mut self, name: &str, default_port: u16) -> HostPort {
        self.address_if_set(name, default_port)
            .unwrap_or_else(|| HostPort::new("0.0.0.0", default_port))
    }

    /// Reads an address; `None` if none is set.
    pub fn address_if_set(&mut self, name: &str, default_port: u16) -> Option<HostPort> {
        let text = self.resolved_text(name)?;
        match HostPort::parse(&text, default_port) {
            Ok(address) => Some(address),
            Err(error) => {
                self.problem(name, Expected::Address(error));
                None
            }
        }
    }

    /// Returns the choice of a word, which must be written exactly so (`Configuration.getEnum`);
    /// after a problem the first choice.
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
        if self
            .table
            .lenient(name)
            .is_some_and(|rule| rule.other.is_some())
        {
            self.read_as(name, &first.0);
        } else {
            self.problem(
                name,
                Expected::OneOf(all().map(|(word, _)| *word).collect()),
            );
        }
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

    /// Reads properties that count only if `applies`. Otherwise their problems are warnings that
    /// end in `why`, since Hadoop does not read them either. The program's own properties are
    /// always read.
    pub fn only_if<T>(
        &mut self,
        applies: bool,
        why: &'static str,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let first = self.problems.len();
        let told = (!applies).then(|| self.told.clone());
        let value = read(self);
        if let Some(told) = told {
            // Whoever reads a property that counts finds its problem again.
            self.told = told;
            for problem in self.problems.split_off(first) {
                if problem.name().is_some_and(|name| self.table.is_own(name)) {
                    self.problems.push(problem);
                    continue;
                }
                self.warnings.push(Warning::Unread {
                    problem: problem.to_string(),
                    why,
                });
            }
        }
        value
    }

    /// Notes that something is told of a property. Returns `false` if that is told already.
    fn tell(&mut self, name: &str, text: &dyn fmt::Display) -> bool {
        self.told.insert((name.to_owned(), text.to_string()))
    }

    /// Adds the warning that a value is replaced by the one that Hadoop would take.
    pub fn read_as(&mut self, name: &str, value: &dyn fmt::Display) {
        self.otherwise(name, format!("read as {value}, as Hadoop does"));
    }

    /// Adds the problem that the value of a property cannot be used.
    pub fn problem(&mut self, name: &str, expected: Expected) {
        if !self.tell(name, &expected) {
            return;
        }
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
        if !self.tell(&name, &why) {
            return;
        }
        self.problems.push(Problem::Missing { name, why });
    }

    /// Adds the problem that a file cannot be used.
    pub fn unusable_file(&mut self, error: SiteXmlError) {
        self.problems.push(error.into());
    }

    /// Adds problems and warnings of a reader of other properties.
    pub fn add(&mut self, other: PropertyReader<'_>) {
        // Two servers may read one file.
        for problem in other.problems {
            let text = problem.to_string();
            if !self.problems.iter().any(|known| known.to_string() == text) {
                self.problems.push(problem);
            }
        }
        for warning in other.warnings {
            let text = warning.to_string();
            if !self.warnings.iter().any(|known| known.to_string() == text) {
                self.warnings.push(warning);
            }
        }
    }

    /// Adds the warning that this value has another effect than in Hadoop.
    pub fn otherwise(&mut self, name: &str, how: impl Into<Cow<'static, str>>) {
        let how = how.into();
        if !self.tell(name, &how) {
            return;
        }
        let (value, origin) = self.shown(name);
        self.warnings.push(Warning::Otherwise {
            name: name.to_owned(),
            value,
            origin,
            how,
        });
    }

    /// Adds the warning that a property has no effect because `list` does not name `part`.
    pub fn not_listed(&mut self, name: &str, list: &'static str, part: &str) {
        let (value, origin) = self.shown(name);
        self.warnings.push(Warning::NotListed {
            name: name.to_owned(),
            value,
            origin,
            list,
            part: part.to_owned(),
        });
    }

    /// Adds the warning that this value has a consequence that is easily overlooked.
    pub fn consequence(&mut self, name: &str, what: &'static str) {
        let (value, origin) = self.shown(name);
        self.warnings.push(Warning::Consequence {
            name: name.to_owned(),
            value,
            origin,
            what,
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
