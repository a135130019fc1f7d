//! Problems and warnings of a configuration. All are collected and reported together.

use std::borrow::Cow;
use std::fmt;

use thiserror::Error;

use crate::ParseHostPortError;
use crate::site_xml::{ExpandError, Origin, SiteXmlError};

/// Requirement that a value does not meet.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Expected {
    /// A flag.
    #[error("must be true or false{}", left_open(*opens))]
    Flag {
        /// Hadoop's reading, the default, would not protect what the flag may be meant to protect.
        opens: bool,
    },
    /// A whole number; Hadoop also accepts `0x` before hexadecimal digits.
    #[error("must be a whole number from {min} to {max}{unit}")]
    Integer {
        /// Lowest value allowed.
        min: i64,
        /// Highest value allowed.
        max: i64,
        /// Unit, with a blank before it; may be empty.
        unit: Suffix,
    },
    /// A number with a decimal point.
    #[error("must be a number {}{unit}", range(*min, *max))]
    Number {
        /// Lowest value allowed.
        min: f64,
        /// Highest value allowed.
        max: f64,
        /// Unit, with a blank before it; may be empty.
        unit: Suffix,
    },
    /// A time with a unit.
    #[error("must be a time such as 500ms, 10s, 5m, 1h or 1d")]
    Duration,
    /// An address, `host:port`.
    #[error("{0}; must be host:port")]
    Address(#[source] ParseHostPortError),
    /// A word of a fixed list.
    #[error("must be one of {}", .0.join(", "))]
    OneOf(Vec<&'static str>),
    /// Absolute paths of folders on this machine.
    #[error("must be absolute paths or file: URIs, without ..")]
    Paths,
    /// A text that is not empty.
    #[error("must not be empty")]
    NotEmpty,
    /// A limit on the number of entries.
    #[error("must not have more than {0} entries")]
    AtMost(usize),
    /// A bound between two properties.
    #[error("must not be {relation} {other}, which is {other_value}")]
    Relation {
        /// Relation that is not allowed, `above` or `below`.
        relation: &'static str,
        /// Name of the other property.
        other: &'static str,
        /// Value of the other property.
        other_value: f64,
    },
    /// A rule of the reading program, as the end of a sentence that begins with the property.
    #[error("{0}")]
    Rule(Cow<'static, str>),
    /// Another property, which must be set as well.
    #[error("needs {0} to be set too")]
    Needs(String),
    /// A value that Hadoop supports and the agent does not.
    #[error("is not supported by this agent: {0}")]
    Unsupported(&'static str),
    /// A `${…}` that refers to no property or variable.
    #[error("contains ${{{0}}}, which stands for nothing")]
    Unresolved(String),
    /// A `${…}` that cannot be expanded.
    #[error("{0}")]
    Expansion(#[source] ExpandError),
}

/// Unit after a number; printed with a blank before it unless empty.
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

/// A problem that makes the configuration unusable.
#[derive(Debug, Error)]
pub enum Problem {
    /// Configuration folder that does not exist.
    #[error("{}: is not a folder", .0.display())]
    NoFolder(std::path::PathBuf),
    /// Configuration folder with none of Hadoop's files: most likely not the one that was meant.
    /// All values would be defaults, and a node would join whatever cluster listens on this
    /// machine.
    #[error("{}: has none of Hadoop's files (core-site.xml, yarn-site.xml, …)", .0.display())]
    NoFiles(std::path::PathBuf),
    /// File that cannot be read or parsed.
    #[error(transparent)]
    File(#[from] SiteXmlError),
    /// Value that cannot be used.
    #[error("{origin}: {name} = {value}: {expected}")]
    Value {
        /// Name of the property.
        name: String,
        /// Value, hidden if it may be a secret, cut to a length that fits a line.
        value: String,
        /// Place where the value is set.
        origin: Origin,
        /// Requirement that the value does not meet.
        expected: Expected,
    },
    /// Required property that is not set.
    #[error("{name} is not set: {why}")]
    Missing {
        /// Name of the property.
        name: String,
        /// Reason for which it is required.
        why: &'static str,
    },
}

impl Problem {
    /// Returns the property that it is about; `None`: a folder or a file.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Value { name, .. } | Self::Missing { name, .. } => Some(name),
            Self::NoFolder(_) | Self::NoFiles(_) | Self::File(_) => None,
        }
    }
}

/// Problems of a configuration, in the order found; never empty.
#[derive(Debug, Error)]
pub struct ConfigProblems(Vec<Problem>);

impl ConfigProblems {
    /// Returns `None` for an empty list.
    #[must_use]
    pub fn new(problems: Vec<Problem>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self(problems))
    }

    /// Returns the problems, in the order found.
    #[must_use]
    pub fn list(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for ConfigProblems {
    /// Formats one problem per line.
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

/// A setting that is accepted, though perhaps not as its author meant. `Display` is a sentence for
/// a log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Warning {
    /// Property that no program reads.
    #[error(
        "{origin}: {name} is not a property of the NodeManager{}",
        did_you_mean(suggestion)
    )]
    UnknownName {
        /// Name as written.
        name: String,
        /// Place where the property is set.
        origin: Origin,
        /// Known name that resembles it.
        suggestion: Option<&'static str>,
    },
    /// Known property that is not honoured yet.
    #[error("{origin}: {name} = {value} has no effect: not supported yet")]
    NotYet {
        /// Name of the property.
        name: String,
        /// Value, hidden if it may be a secret.
        value: String,
        /// Place where the value is set.
        origin: Origin,
    },
    /// Value with another effect than in Hadoop.
    #[error("{origin}: {name} = {value}: {how}")]
    Otherwise {
        /// Name of the property.
        name: String,
        /// Value, hidden if it may be a secret.
        value: String,
        /// Place where the value is set.
        origin: Origin,
        /// Description of the difference.
        how: Cow<'static, str>,
    },
    /// Value that cannot be used, of a property that does not count.
    #[error("{problem}; it is not read {why}")]
    Unread {
        /// Problem that it would be.
        problem: String,
        /// Condition under which the property does not count, such as `without …`.
        why: &'static str,
    },
    /// Property of a service, script or rule that no list names.
    #[error("{origin}: {name} = {value} has no effect: {list} does not name {part}")]
    NotListed {
        /// Name of the property.
        name: String,
        /// Value, hidden if it may be a secret.
        value: String,
        /// Place where the property is set.
        origin: Origin,
        /// Property that would have to name the part.
        list: &'static str,
        /// Part of the name that the operator has chosen.
        part: String,
    },
    /// Value with a consequence that is easily overlooked, in Hadoop as well.
    #[error("{origin}: {name} = {value}: {what}")]
    Consequence {
        /// Name of the property.
        name: String,
        /// Value, hidden if it may be a secret.
        value: String,
        /// Place where the value is set.
        origin: Origin,
        /// Description of the consequence.
        what: &'static str,
    },
    /// Auxiliary service that does not run here.
    #[error(
        "{origin}: auxiliary service {service} ({class}) is not available: containers that need it are refused"
    )]
    NoService {
        /// Name of the service.
        service: String,
        /// Class of the service, as configured.
        class: String,
        /// Place where the service is named.
        origin: Origin,
    },
    /// Value in a later file that cannot override a final one.
    #[error("{refused}: {name} has no effect: it is final in {kept}")]
    FinalKept {
        /// Name of the property.
        name: String,
        /// Place of the final value.
        kept: Origin,
        /// Place of the value without effect.
        refused: Origin,
    },
    /// YARN property in `core-site.xml`, which the defaults hide.
    #[error(
        "{hidden}: {name} has no effect: yarn-default.xml comes later and sets it; it belongs in yarn-site.xml"
    )]
    HiddenByDefault {
        /// Name of the property.
        name: String,
        /// Place of the value without effect.
        hidden: Origin,
    },
    /// Configuration without a `yarn-site.xml`.
    #[error("no yarn-site.xml in {0}: all values are defaults")]
    NoYarnSite(String),
}

impl Warning {
    /// Returns whether the configuration asks for a feature that is not there, so that jobs which
    /// need it would miss it.
    #[must_use]
    pub const fn is_missing_feature(&self) -> bool {
        matches!(self, Self::NotYet { .. } | Self::NoService { .. })
    }
}

/// Returns a range for a message, without a bound that only the type sets.
fn range(min: f64, max: f64) -> String {
    if max < f64::MAX {
        format!("from {min} to {max}")
    } else {
        format!("of at least {min}")
    }
}

fn left_open(opens: bool) -> &'static str {
    if opens {
        "; Hadoop would take the default, which does not protect"
    } else {
        ""
    }
}

fn did_you_mean(suggestion: &Option<&'static str>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean {name}?"),
        None => String::new(),
    }
}
