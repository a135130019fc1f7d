//! Hadoop's configuration files with Hadoop's rules: later files win unless a value is `final`, `${…}` refers to other
//! properties, variables of the environment and Java system properties, `xi:include` takes in further files.
//!
//! In: folders, an environment as a map, defaults from the caller. Out: [`Properties`], each value with where it came
//! from. It knows no property by meaning and checks no value. What it refuses that Hadoop takes: document types, includes
//! that are no files, and anything beyond the bounds below.

mod environment;
mod error;
mod expand;
mod load;
mod parse;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use environment::Environment;
pub use error::{ExpandError, SiteXmlError};
use load::Loader;
pub use load::local_path;
use parse::Item;

/// Bytes of one file. Hadoop's own `yarn-default.xml` has 213 thousand.
pub const FILE_BYTES_MAX: usize = 4 << 20;
/// Files of one configuration, included ones counted each time.
pub const FILES_MAX: usize = 64;
/// Files that include each other.
pub const INCLUDE_DEPTH_MAX: usize = 8;
/// Properties of one file with what it includes. A node with every product's settings has some thousands.
pub const PROPERTIES_MAX: usize = 50_000;

/// Old names that Hadoop still takes for new ones (its `Configuration.DeprecationDelta`), of those read here.
const DEPRECATED: &[(&str, &str)] = &[("fs.default.name", "fs.defaultFS")];

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing sets it: Hadoop's default, or ours.
    Default,
    /// A file sets it.
    File {
        /// Which, by the path it was read from.
        file: Arc<Path>,
        /// Where, from 1.
        line: usize,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line } => write!(f, "{}:{line}", file.display()),
        }
    }
}

/// Something in the files that has no effect, though its author meant it to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A value was not taken because an earlier one is `final`.
    FinalKept {
        /// The property.
        name: String,
        /// The one that stays.
        kept: Origin,
        /// The one that does not count.
        refused: Origin,
    },
    /// A default that is loaded later hides the value: `core-site.xml` comes before `yarn-default.xml`.
    HiddenByDefault {
        /// The property.
        name: String,
        /// The value that does not count.
        hidden: Origin,
    },
}

/// A property's value with its `${…}` put in place. No `Debug`, since it may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    /// As it is, blanks included.
    pub text: String,
    /// Where it was set.
    pub origin: Origin,
    /// Names that were put in place, in order.
    pub used: Vec<String>,
    /// The first `${…}` that stands for nothing; it and all that follow are still in `text`.
    pub unresolved: Option<String>,
}

struct Entry {
    raw: String,
    origin: Origin,
}

/// All properties of a configuration, by name.
pub struct Properties {
    entries: BTreeMap<String, Entry>,
    finals: BTreeSet<String>,
    environment: Environment,
    notices: Vec<Notice>,
}

impl fmt::Debug for Properties {
    /// Names only: values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.keys()).finish()
    }
}

impl Properties {
    /// No property yet.
    #[must_use]
    pub fn new(environment: Environment) -> Self {
        Self {
            entries: BTreeMap::new(),
            finals: BTreeSet::new(),
            environment,
            notices: Vec::new(),
        }
    }

    /// Adds a file of defaults: like any file it hides what was set before, except final values.
    pub fn add_defaults<'a>(&mut self, defaults: impl Iterator<Item = (&'a str, &'a str)>) {
        for (name, value) in defaults {
            if self.finals.contains(name) {
                continue;
            }
            let entry = Entry {
                raw: value.to_owned(),
                origin: Origin::Default,
            };
            let hidden = self.entries.insert(name.to_owned(), entry);
            if let Some(hidden) = hidden.filter(|entry| entry.origin != Origin::Default) {
                self.notices.push(Notice::HiddenByDefault {
                    name: name.to_owned(),
                    hidden: hidden.origin,
                });
            }
        }
    }

    /// Adds defaults that stand only in code: they hide nothing.
    pub fn add_fallbacks<'a>(&mut self, defaults: impl Iterator<Item = (&'a str, &'a str)>) {
        for (name, value) in defaults {
            self.entries
                .entry(name.to_owned())
                .or_insert_with(|| Entry {
                    raw: value.to_owned(),
                    origin: Origin::Default,
                });
        }
    }

    /// Adds the file of this name from the first of the folders that has it. Gives whether one has.
    ///
    /// # Errors
    /// When the file or one that it includes cannot be used; what stands before the error counts nevertheless.
    pub fn add_file(&mut self, folders: &[PathBuf], name: &str) -> Result<bool, SiteXmlError> {
        let paths = folders.iter().map(|folder| folder.join(name));
        let Some(path) = paths.into_iter().find(|path| path.exists()) else {
            return Ok(false);
        };
        let (items, result) = Loader::new(folders).load(&path);
        for item in items {
            self.apply(item);
        }
        result.map(|()| true)
    }

    fn apply(&mut self, item: Item) {
        let name = current_name(&item.name).to_owned();
        let origin = Origin::File {
            file: item.file,
            line: item.line,
        };
        if let Some(raw) = item.value {
            match self.entries.get(&name) {
                Some(kept) if self.finals.contains(&name) => {
                    if kept.raw != raw {
                        self.notices.push(Notice::FinalKept {
                            name: name.clone(),
                            kept: kept.origin.clone(),
                            refused: origin,
                        });
                    }
                }
                // A property that is final without a value can never get one.
                None if self.finals.contains(&name) => {}
                Some(_) | None => {
                    self.entries.insert(name.clone(), Entry { raw, origin });
                }
            }
        }
        if item.is_final {
            self.finals.insert(name);
        }
    }

    /// The value of a property with its `${…}` put in place; `None`: unset.
    ///
    /// # Errors
    /// Where Hadoop throws: when the value needs too many substitutions, and when it grows too long.
    pub fn get(&self, name: &str) -> Result<Option<Value>, ExpandError> {
        self.get_or(name, None)
    }

    /// The same with a default for a property that nothing has set. One that is final without a value keeps none.
    ///
    /// # Errors
    /// Those of [`Self::get`].
    pub fn get_or(&self, name: &str, default: Option<&str>) -> Result<Option<Value>, ExpandError> {
        let current = current_name(name);
        let (raw, origin) = match self.entries.get(current) {
            Some(entry) => (entry.raw.as_str(), entry.origin.clone()),
            None => match default.filter(|_| !self.finals.contains(current)) {
                Some(default) => (default, Origin::Default),
                None => return Ok(None),
            },
        };
        let expanded = expand::expand(raw, |name| {
            let outside = self.environment.resolve(name);
            outside.or_else(|| {
                let entry = self.entries.get(current_name(name))?;
                Some(entry.raw.clone())
            })
        })?;
        Ok(Some(Value {
            text: expanded.value,
            origin,
            used: expanded.used,
            unresolved: expanded.unresolved,
        }))
    }

    /// Where a property is set; `None`: unset.
    #[must_use]
    pub fn origin(&self, name: &str) -> Option<&Origin> {
        self.entries.get(current_name(name)).map(|e| &e.origin)
    }

    /// The value as it was written.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&str> {
        let entry = self.entries.get(current_name(name))?;
        Some(&entry.raw)
    }

    /// All names that have a value, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// All names that begin with `prefix` and have a value, in order.
    pub fn names_under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.entries
            .range(prefix.to_owned()..)
            .map(|(name, _)| name.as_str())
            .take_while(move |name| name.starts_with(prefix))
    }

    /// What has no effect, in the order found.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }
}

fn current_name(name: &str) -> &str {
    let renamed = DEPRECATED.iter().find(|(old, _)| *old == name);
    renamed.map_or(name, |(_, new)| new)
}

#[cfg(test)]
mod tests;
