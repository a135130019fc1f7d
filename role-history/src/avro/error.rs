//! Errors of reading a history.

use std::fmt;
use std::io;

use thiserror::Error;

/// Error of a stream that is no complete history. Lines count from 1.
#[derive(Debug, Error)]
pub enum ReadHistoryError {
    /// Failed read of the stream.
    #[error("cannot read line {line}")]
    Read {
        /// Line that was being read.
        line: u64,
        /// Error of the stream.
        #[source]
        source: io::Error,
    },
    /// Stream without any record.
    #[error("the history is empty")]
    Empty,
    /// Text between records that is not an object.
    #[error("line {line} has text that is not a JSON object")]
    NotAnObject {
        /// Line of the text.
        line: u64,
    },
    /// Record longer than the limit.
    #[error("the record at line {line} is longer than {max} bytes")]
    RecordTooLong {
        /// Line at which the record begins.
        line: u64,
        /// Limit in bytes.
        max: usize,
    },
    /// More entries than the limit.
    #[error("line {line} has more than the {max} entries that a history may have")]
    TooManyEntries {
        /// Line of the first entry beyond the limit.
        line: u64,
        /// Limit of the number of entries.
        max: usize,
    },
    /// End of the stream inside a record.
    #[error("the record at line {line} is cut off")]
    Truncated {
        /// Line at which the record begins.
        line: u64,
    },
    /// Record that is not valid JSON or has a field of a wrong type.
    #[error("line {line}: {problem}")]
    Record {
        /// Line of the mistake.
        line: u64,
        /// Field and mistake.
        problem: Box<RecordProblem>,
    },
    /// First record that is not a header.
    #[error("line {line} is not a header")]
    NoHeader {
        /// Line of the record.
        line: u64,
    },
    /// Header of a version that this reader does not know.
    #[error("line {line}: version {version} of the history is unknown")]
    Version {
        /// Line of the header.
        line: u64,
        /// Version in the header.
        version: i32,
    },
    /// Second header.
    #[error("line {line} is a second header")]
    SecondHeader {
        /// Line of the record.
        line: u64,
    },
    /// End of the stream before a footer.
    #[error("the history ends at line {line} without a footer")]
    NoFooter {
        /// Last line of the stream.
        line: u64,
    },
    /// Record after the footer.
    #[error("line {line} follows the footer")]
    AfterFooter {
        /// Line of the record.
        line: u64,
    },
}

/// Mistake inside a record.
#[derive(Debug)]
pub struct RecordProblem {
    /// Path of the field, such as `entry.….NodeEntryRecord.role`. Empty if the record is no object
    /// that could have fields.
    pub field: String,
    /// Description of the mistake.
    pub reason: String,
}

impl fmt::Display for RecordProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.reason)
        } else {
            write!(f, "field {}: {}", self.field, self.reason)
        }
    }
}
