//! What can be wrong with a configuration file.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::{FILE_BYTES_MAX, FILES_MAX, INCLUDE_DEPTH_MAX, PROPERTIES_MAX};

/// A configuration file that cannot be used. Lines and columns count from 1, columns in bytes.
#[derive(Debug, Error)]
pub enum SiteXmlError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is a folder, a pipe or a device.
    #[error("{}: is not a regular file", file.display())]
    NotAFile {
        /// Which file.
        file: PathBuf,
    },
    /// It is larger than any configuration file has reason to be.
    #[error("{}: is larger than {FILE_BYTES_MAX} bytes", file.display())]
    TooLarge {
        /// Which file.
        file: PathBuf,
    },
    /// It is not UTF-8.
    #[error("{}:{line}: has a byte that is not UTF-8", file.display())]
    NotUtf8 {
        /// Which file.
        file: PathBuf,
        /// Where the first such byte is.
        line: usize,
    },
    /// It is not well-formed XML.
    #[error("{}:{line}:{column}: {source}", file.display())]
    Syntax {
        /// Which file.
        file: PathBuf,
        /// Where.
        line: usize,
        /// Where in the line.
        column: usize,
        /// The parser's reason.
        source: Box<quick_xml::Error>,
    },
    /// It ends before its last element does, or is empty.
    #[error("{}:{line}: ends inside an element, or has none", file.display())]
    Incomplete {
        /// Which file.
        file: PathBuf,
        /// Its last line.
        line: usize,
    },
    /// Something follows the outermost element.
    #[error("{}:{line}: has something after the end of its outermost element", file.display())]
    AfterEnd {
        /// Which file.
        file: PathBuf,
        /// Where.
        line: usize,
    },
    /// Text stands before the outermost element.
    #[error("{}:{line}: has text outside its outermost element", file.display())]
    TextOutside {
        /// Which file.
        file: PathBuf,
        /// Where.
        line: usize,
    },
    /// It declares a document type. Hadoop reads those; they are refused here because entities declared in them can name
    /// any file and grow without bound.
    #[error("{}:{line}: has a DOCTYPE, which is not accepted: write the values out", file.display())]
    DocumentType {
        /// Which file.
        file: PathBuf,
        /// Where.
        line: usize,
    },
    /// It uses an entity that XML itself does not define.
    #[error("{}:{line}: uses the undeclared entity &{name};", file.display())]
    UnknownEntity {
        /// Which file.
        file: PathBuf,
        /// Where.
        line: usize,
        /// Its name, cut to a length that fits a line.
        name: String,
    },
    /// A file to be included does not exist, and no fallback stands in for it.
    #[error("{}:{line}: includes {href}, which does not exist, and has no xi:fallback", file.display())]
    IncludeMissing {
        /// The file that includes.
        file: PathBuf,
        /// Where.
        line: usize,
        /// What it names.
        href: String,
    },
    /// Only files can be included.
    #[error("{}:{line}: includes {href}, but only file: is accepted", file.display())]
    IncludeScheme {
        /// The file that includes.
        file: PathBuf,
        /// Where.
        line: usize,
        /// What it names.
        href: String,
    },
    /// Files include each other in a circle, or too deep.
    #[error("{}:{line}: includes {href} in a circle or more than {INCLUDE_DEPTH_MAX} files deep", file.display())]
    IncludeDepth {
        /// The file that includes.
        file: PathBuf,
        /// Where.
        line: usize,
        /// What it names.
        href: String,
    },
    /// More files than any configuration has reason to have.
    #[error("{}: more than {FILES_MAX} files belong to the configuration", file.display())]
    TooManyFiles {
        /// The first one too many.
        file: PathBuf,
    },
    /// More properties than any configuration has reason to have.
    #[error("{}:{line}: the configuration has more than {PROPERTIES_MAX} properties", file.display())]
    TooManyProperties {
        /// Which file.
        file: PathBuf,
        /// Where.
        line: usize,
    },
}

/// A value whose `${…}` cannot be put in place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExpandError {
    /// Hadoop gives up here, and throws, even when nothing is left to put in place.
    #[error("needs {max} or more substitutions of ${{…}}, which is where Hadoop gives up", max = super::expand::SUBSTITUTIONS_MAX)]
    TooManySubstitutions,
    /// The value has grown beyond reason.
    #[error("grows beyond {max} bytes when its ${{…}} are put in place", max = super::expand::EXPANDED_BYTES_MAX)]
    TooLong,
}
