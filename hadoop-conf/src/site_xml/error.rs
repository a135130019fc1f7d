//! Defects of a configuration file.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::{FILE_BYTES_MAX, FILES_MAX, INCLUDE_DEPTH_MAX, PROPERTIES_MAX};

/// A configuration file that cannot be used. Lines and columns count from 1, columns in bytes.
#[derive(Debug, Error)]
pub enum SiteXmlError {
    /// File that cannot be read.
    #[error("{}: cannot be read: {source}", file.display())]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// Path of a folder, a pipe or a device.
    #[error("{}: is not a regular file", file.display())]
    NotAFile {
        /// Path of the file.
        file: PathBuf,
    },
    /// File above the limit on bytes.
    #[error("{}: is larger than {FILE_BYTES_MAX} bytes", file.display())]
    TooLarge {
        /// Path of the file.
        file: PathBuf,
    },
    /// File with bytes that its encoding does not have.
    #[error("{}:{line}: has a byte that is not {encoding}", file.display())]
    Malformed {
        /// Path of the file.
        file: PathBuf,
        /// Line of the first invalid byte.
        line: usize,
        /// Name of the encoding.
        encoding: &'static str,
    },
    /// File in an encoding that is not read.
    #[error(
        "{}: is in the encoding {encoding}, which is not read: use UTF-8, UTF-16, ISO-8859-1 or US-ASCII",
        file.display()
    )]
    Encoding {
        /// Path of the file.
        file: PathBuf,
        /// Name of the encoding as declared, cut to a length that fits a line.
        encoding: String,
    },
    /// File that is not well-formed XML.
    #[error("{}:{line}:{column}: {source}", file.display())]
    Syntax {
        /// Path of the file.
        file: PathBuf,
        /// Line of the defect.
        line: usize,
        /// Column of the defect.
        column: usize,
        /// Error of the parser.
        source: Box<quick_xml::Error>,
    },
    /// File that ends before its last element does, or is empty.
    #[error("{}:{line}: ends inside an element, or has none", file.display())]
    Incomplete {
        /// Path of the file.
        file: PathBuf,
        /// Last line of the file.
        line: usize,
    },
    /// Content after the outermost element.
    #[error("{}:{line}: has something after the end of its outermost element", file.display())]
    AfterEnd {
        /// Path of the file.
        file: PathBuf,
        /// Line of the content.
        line: usize,
    },
    /// Text before the outermost element.
    #[error("{}:{line}: has text outside its outermost element", file.display())]
    TextOutside {
        /// Path of the file.
        file: PathBuf,
        /// Line of the text.
        line: usize,
    },
    /// Document type. Hadoop reads those; they are refused here because the entities that they
    /// declare can name any file and grow without bound.
    #[error("{}:{line}: has a DOCTYPE, which is not accepted: write the values out", file.display())]
    DocumentType {
        /// Path of the file.
        file: PathBuf,
        /// Line of the declaration.
        line: usize,
    },
    /// Entity that XML itself does not define.
    #[error("{}:{line}: uses the undeclared entity &{name};", file.display())]
    UnknownEntity {
        /// Path of the file.
        file: PathBuf,
        /// Line of the entity.
        line: usize,
        /// Name of the entity, cut to a length that fits a line.
        name: String,
    },
    /// Included file that does not exist, without a fallback.
    #[error("{}:{line}: includes {href}, which does not exist, and has no xi:fallback", file.display())]
    IncludeMissing {
        /// Path of the including file.
        file: PathBuf,
        /// Line of the include.
        line: usize,
        /// Value of the include's `href`.
        href: String,
    },
    /// Include of anything but a file.
    #[error("{}:{line}: includes {href}, but only file: is accepted", file.display())]
    IncludeScheme {
        /// Path of the including file.
        file: PathBuf,
        /// Line of the include.
        line: usize,
        /// Value of the include's `href`.
        href: String,
    },
    /// Include in a circle, or above the limit on depth.
    #[error("{}:{line}: includes {href} in a circle or more than {INCLUDE_DEPTH_MAX} files deep", file.display())]
    IncludeDepth {
        /// Path of the including file.
        file: PathBuf,
        /// Line of the include.
        line: usize,
        /// Value of the include's `href`.
        href: String,
    },
    /// Configuration above the limit on files.
    #[error("{}: more than {FILES_MAX} files belong to the configuration", file.display())]
    TooManyFiles {
        /// Path of the first file above the limit.
        file: PathBuf,
    },
    /// Configuration above the limit on properties.
    #[error("{}:{line}: the configuration has more than {PROPERTIES_MAX} properties", file.display())]
    TooManyProperties {
        /// Path of the file.
        file: PathBuf,
        /// Line of the first property above the limit.
        line: usize,
    },
}

/// Failure to expand a value's `${…}`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExpandError {
    /// Value above Hadoop's limit on substitutions; Hadoop throws even when none is left.
    #[error("needs {max} or more substitutions of ${{…}}, which is where Hadoop gives up", max = super::SUBSTITUTIONS_MAX)]
    TooManySubstitutions,
    /// Value above the limit on bytes.
    #[error("grows beyond {max} bytes when its ${{…}} are put in place", max = super::EXPANDED_BYTES_MAX)]
    TooLong,
}
