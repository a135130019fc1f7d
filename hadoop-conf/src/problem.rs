//! What can be wrong with a configuration, and what is worth a warning. All of it is collected and told together.

use std::borrow::Cow;
use std::fmt;

use thiserror::Error;

use crate::ParseHostPortError;
use crate::site_xml::{ExpandError, Origin, SiteXmlError};

/// What a value would have to be.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Expected {
    /// Hadoop takes its default for anything else; here a typing error is told.
    #[error("must be true or false")]
    Flag,
    /// A whole number; Hadoop also takes `0x` before hexadecimal digits.
    #[error("must be a whole number from {min} to {max}{unit}")]
    Integer {
        /// Least.
        min: i64,
        /// Most.
        max: i64,
        /// What it counts, with a blank before it; may be empty.
        unit: Suffix,
    },
    /// A number with a decimal point.
    #[error("must be a number from {min} to {max}{unit}")]
    Number {
        /// Least.
        min: f64,
        /// Most.
        max: f64,
        /// What it counts, with a blank before it; may be empty.
        unit: Suffix,
    },
    /// A time with a unit.
    #[error("must be a time such as 500ms, 10s, 5m, 1h or 1d")]
    Duration,
    /// `host:port`.
    #[error("{0}; must be host:port")]
    Address(#[source] ParseHostPortError),
    /// One of a few words.
    #[error("must be one of {}", .0.join(", "))]
    OneOf(Vec<&'static str>),
    /// Folders of this machine.
    #[error("must be absolute paths or file: URIs, without ..")]
    Paths,
    /// At least something.
    #[error("must not be empty")]
    NotEmpty,
    /// Not more than so many.
    #[error("must not have more than {0} entries")]
    AtMost(usize),
    /// A bound between two properties.
    #[error("must not be {relation} {other}, which is {other_value}")]
    Relation {
        /// `above` or `below`.
        relation: &'static str,
        /// The other property.
        other: &'static str,
        /// Its value.
        other_value: f64,
    },
    /// A rule of the program that reads it, as the end of a sentence that begins with the property.
    #[error("{0}")]
    Rule(Cow<'static, str>),
    /// Another property must be set with it.
    #[error("needs {0} to be set too")]
    Needs(String),
    /// Hadoop has this; the agent does not.
    #[error("is not supported by this agent: {0}")]
    Unsupported(&'static str),
    /// `${…}` that stands for nothing.
    #[error("contains ${{{0}}}, which stands for nothing")]
    Unresolved(String),
    /// `${…}` that cannot be put in place.
    #[error("{0}")]
    Expansion(#[source] ExpandError),
}

/// A unit's name after a number; prints with a blank before it unless empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suffix(pub &'static str);

impl fmt::Display for Suffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => Ok(()),
            unit => write!(f, " {unit}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Error)]
pub enum Problem {
    /// A folder of the configuration is not there.
    #[error("{}: is not a folder", .0.display())]
    NoFolder(std::path::PathBuf),
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] SiteXmlError),
    /// A value cannot be used.
    #[error("{origin}: {name} = {value}: {expected}")]
    Value {
        /// The property.
        name: String,
        /// Its value, hidden if it may be a secret, cut to a length that fits a line.
        value: String,
        /// Where it is set.
        origin: Origin,
        /// What would be right.
        expected: Expected,
    },
    /// A value is missing.
    #[error("{name} is not set: {why}")]
    Missing {
        /// The property.
        name: String,
        /// What needs it.
        why: &'static str,
    },
}

/// Everything that is wrong, in the order found; never empty.
#[derive(Debug, Error)]
pub struct ConfigProblems(Vec<Problem>);

impl ConfigProblems {
    /// `None` if there are none.
    #[must_use]
    pub fn new(problems: Vec<Problem>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self(problems))
    }

    /// The problems, in the order found.
    #[must_use]
    pub fn list(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for ConfigProblems {
    /// One problem a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        let noun = if count == 1 { "problem" } else { "problems" };
        write!(f, "the configuration has {count} {noun}")?;
        for problem in &self.0 {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

/// Something that works, though perhaps not as its author meant. `Display` is a sentence for a log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Warning {
    /// Nothing reads a property of this name.
    #[error(
        "{origin}: {name} is not a property of the NodeManager{}",
        did_you_mean(suggestion)
    )]
    UnknownName {
        /// As written.
        name: String,
        /// Where it is set.
        origin: Origin,
        /// A name that it resembles.
        suggestion: Option<&'static str>,
    },
    /// The property is known, but not obeyed yet.
    #[error("{origin}: {name} = {value} has no effect: not supported yet")]
    NotYet {
        /// The property.
        name: String,
        /// Its value, hidden if it may be a secret.
        value: String,
        /// Where it is set.
        origin: Origin,
    },
    /// The value is obeyed otherwise than in Hadoop.
    #[error("{origin}: {name} = {value}: {how}")]
    Otherwise {
        /// The property.
        name: String,
        /// Its value, hidden if it may be a secret.
        value: String,
        /// Where it is set.
        origin: Origin,
        /// In what way.
        how: &'static str,
    },
    /// An auxiliary service that does not run here.
    #[error(
        "{origin}: auxiliary service {service} ({class}) is not available: containers that need it are refused"
    )]
    NoService {
        /// Its name.
        service: String,
        /// Its class, as configured.
        class: String,
        /// Where it is named.
        origin: Origin,
    },
    /// A later file cannot change a final value.
    #[error("{refused}: {name} has no effect: it is final in {kept}")]
    FinalKept {
        /// The property.
        name: String,
        /// The value that stays.
        kept: Origin,
        /// The value that does not count.
        refused: Origin,
    },
    /// A YARN property in `core-site.xml`.
    #[error(
        "{hidden}: {name} has no effect: yarn-default.xml comes later and sets it; it belongs in yarn-site.xml"
    )]
    HiddenByDefault {
        /// The property.
        name: String,
        /// The value that does not count.
        hidden: Origin,
    },
    /// No `yarn-site.xml` was found.
    #[error("no yarn-site.xml in {0}: all values are defaults")]
    NoYarnSite(String),
}

fn did_you_mean(suggestion: &Option<&'static str>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean {name}?"),
        None => String::new(),
    }
}
