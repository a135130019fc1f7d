//! Hadoop's configuration files with Hadoop's rules: later files override earlier ones unless a
//! value is `final`, `${…}` refers to other properties, environment variables and Java system
//! properties, and `xi:include` includes further files.
//!
//! In: folders, an environment as a map, defaults from the caller. Out: [`Properties`], each value
//! with its origin. Knows no property by meaning and checks no value. Refuses what Hadoop accepts
//! only for document types, includes other than files, and anything above the limits below.

mod encoding;
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

/// Limit on the bytes of one file. Hadoop's own `yarn-default.xml` has 213 thousand.
pub const FILE_BYTES_MAX: usize = 4 << 20;
/// Limit on the files of one configuration; an included file counts each time.
pub const FILES_MAX: usize = 64;
/// Limit on the depth of includes.
pub const INCLUDE_DEPTH_MAX: usize = 8;
/// Limit on the properties of one file with its includes. A node with every product's settings has
/// some thousands.
pub const PROPERTIES_MAX: usize = 50_000;
/// Limit on substitutions in one value, at which Hadoop throws (its `MAX_SUBST`).
const SUBSTITUTIONS_MAX: usize = 20;
/// Limit on the bytes of an expanded value, far above real ones; without it twenty substitutions of
/// large values add up.
const EXPANDED_BYTES_MAX: usize = 1 << 20;

/// Deprecated names that Hadoop still accepts for new ones (its `Configuration.DeprecationDelta`),
/// of those read here.
const DEPRECATED: &[(&str, &str)] = &[("fs.default.name", "fs.defaultFS")];

/// Place where a value is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Hadoop's default, or the program's own.
    Default,
    /// A line of a file.
    File {
        /// Path from which the file was read.
        file: Arc<Path>,
        /// Number of the line, from 1.
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

/// A setting without an effect, contrary to its author's intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Value that was ignored because an earlier one is `final`.
    FinalKept {
        /// Name of the property.
        name: String,
        /// Place of the final value.
        kept: Origin,
        /// Place of the ignored value.
        refused: Origin,
    },
    /// Value that a later default hides: `core-site.xml` is loaded before `yarn-default.xml`.
    HiddenByDefault {
        /// Name of the property.
        name: String,
        /// Place of the hidden value.
        hidden: Origin,
    },
}

/// A property's value with its `${…}` expanded. Not `Debug`, since it may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    /// Value with its blanks.
    pub text: String,
    /// Place where the value is set.
    pub origin: Origin,
    /// Names that were expanded, in order.
    pub used: Vec<String>,
    /// Name in the first `${…}` without a value; that one and all later ones are left in `text`.
    pub unresolved: Option<String>,
}

#[derive(Clone)]
struct Entry {
    raw: String,
    origin: Origin,
}

/// Properties of a configuration, by name.
pub struct Properties {
    entries: BTreeMap<String, Entry>,
    finals: BTreeSet<String>,
    environment: Environment,
    notices: Vec<Notice>,
}

impl fmt::Debug for Properties {
    /// Formats the names only, as values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.keys()).finish()
    }
}

impl Properties {
    /// Returns a configuration without properties.
    #[must_use]
    pub fn new(environment: Environment) -> Self {
        Self {
            entries: BTreeMap::new(),
            finals: BTreeSet::new(),
            environment,
            notices: Vec::new(),
        }
    }

    /// Adds a file of defaults: like any file it overrides earlier values, except final ones.
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

    /// Adds defaults of the code, which override no value.
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

    /// Adds the file of this name from the first of the folders that has it. Returns whether one
    /// has.
    ///
    /// # Errors
    /// A file, or one that it includes, that cannot be used; the properties before the defect are
    /// added nevertheless.
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

    /// Returns the properties of a file that Hadoop reads apart from all others
    /// (`new Configuration(false)`), in the same environment: those of the first of the folders
    /// that has it. None are left where there is no such file.
    ///
    /// # Errors
    /// A file, or one that it includes, that cannot be used.
    pub fn read_apart(&self, folders: &[PathBuf], name: &str) -> Result<Self, SiteXmlError> {
        let mut properties = Self::new(self.environment.clone());
        properties.add_file(folders, name)?;
        Ok(properties)
    }

    /// Returns these properties with those of a file over them, as Hadoop's `addResource` on a copy
    /// puts it: the file of the first of the folders that has it.
    ///
    /// # Errors
    /// A file, or one that it includes, that cannot be used.
    pub fn read_over(&self, folders: &[PathBuf], name: &str) -> Result<Self, SiteXmlError> {
        let mut properties = Self {
            entries: self.entries.clone(),
            finals: self.finals.clone(),
            environment: self.environment.clone(),
            notices: Vec::new(),
        };
        properties.add_file(folders, name)?;
        Ok(properties)
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

    /// Returns the value of a property with its `${…}` expanded; `None`: unset.
    ///
    /// # Errors
    /// As Hadoop throws: a value that needs too many substitutions; and one that grows too long.
    pub fn get(&self, name: &str) -> Result<Option<Value>, ExpandError> {
        self.get_or(name, None)
    }

    /// Returns the value as [`Self::get`] does, with a default for a property that is not set. One
    /// that is final without a value gets no default.
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

    /// Returns the place where a property is set; `None`: unset.
    #[must_use]
    pub fn origin(&self, name: &str) -> Option<&Origin> {
        self.entries.get(current_name(name)).map(|e| &e.origin)
    }

    /// Returns whether no later file can change a property.
    #[must_use]
    pub fn is_final(&self, name: &str) -> bool {
        self.finals.contains(current_name(name))
    }

    /// Returns the value as it was written.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&str> {
        let entry = self.entries.get(current_name(name))?;
        Some(&entry.raw)
    }

    /// Returns all names that have a value, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns all names that begin with `prefix` and have a value, in order.
    pub fn names_under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.entries
            .range(prefix.to_owned()..)
            .map(|(name, _)| name.as_str())
            .take_while(move |name| name.starts_with(prefix))
    }

    /// Returns the settings without an effect, in the order found.
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
