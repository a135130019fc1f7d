//! Reading a history from a stream.

use std::collections::BTreeMap;
use std::fmt;
use std::io::BufRead;

use records::EpochMillis;

use super::error::{ReadHistoryError, RecordProblem};
use super::objects::Objects;
use super::record::{Entry, Header, Record};
use crate::saved::{SavedEntry, SavedHistory};

/// Version of the format, the same in all files of Hoya and Slider.
pub(super) const VERSION: i32 = 1;

/// Most characters of a field's path in an error. The keys in a path come from the file.
const FIELD_CHARS_MAX: usize = 128;

/// Bounds on what a stream may make the reader keep in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Most bytes of a record. The longest honest one is the mapping of all roles.
    pub record_bytes_max: usize,
    /// Most entries of a history.
    pub entries_max: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            // 10,000 roles with names of 100 characters.
            record_bytes_max: 1 << 20,
            // Twice the entries of 20 roles on 100,000 nodes. Each takes 16 bytes beside its host.
            entries_max: 4_000_000,
        }
    }
}

/// Oddity of a history that was read nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadWarning {
    /// Footer with another number than that of the entries.
    FooterCount {
        /// Number in the footer.
        stated: i64,
        /// Number of entries read.
        read: usize,
    },
    /// Second mapping of role names. The first one counts.
    SecondMapping {
        /// Line of the record.
        line: u64,
    },
    /// Records of unknown types, which were skipped.
    UnknownRecords {
        /// Number of the records.
        count: u64,
    },
}

impl fmt::Display for ReadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FooterCount { stated, read } => {
                write!(
                    f,
                    "the footer counts {stated} entries, but there are {read}"
                )
            }
            Self::SecondMapping { line } => {
                write!(
                    f,
                    "line {line} is a second mapping of roles, which is ignored"
                )
            }
            Self::UnknownRecords { count } => {
                write!(f, "{count} records of unknown types are skipped")
            }
        }
    }
}

/// History that was read, and what was odd about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadHistory {
    /// The values in the stream.
    pub history: SavedHistory,
    /// Oddities, at most one of each kind.
    pub warnings: Vec<ReadWarning>,
}

/// Reads a whole history. Slider: `RoleHistoryWriter.read`.
///
/// # Errors
/// A stream that is no complete history of a known version, or is beyond the limits. The error
/// names the line, and the field where there is one.
pub fn read_history(
    input: impl BufRead,
    limits: ReadLimits,
) -> Result<ReadHistory, ReadHistoryError> {
    let mut reader = HistoryReader::open(input, limits)?;
    let mut history = SavedHistory::new(reader.saved(), reader.roles(), None);
    while let Some(record) = reader.next_record()? {
        match record {
            HistoryRecord::Mapping(names) => history.role_map = Some(names),
            HistoryRecord::Entry { host, entry } => history.push(host, entry),
        }
    }
    let warnings = reader.warnings;
    Ok(ReadHistory { history, warnings })
}

/// Record between the header and the footer of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryRecord<'a> {
    /// Numbers of the writer's roles by their names. At most one for each history.
    Mapping(BTreeMap<String, i32>),
    /// Entry of a role on a node.
    Entry {
        /// Host of the node.
        host: &'a str,
        /// Values of the entry.
        entry: SavedEntry,
    },
}

/// Record without the host of an entry, which is in the reader's buffer.
#[derive(Debug)]
enum Content {
    Mapping(BTreeMap<String, i32>),
    Entry(SavedEntry),
}

/// Reader of a history, a record at a time. Memory is bounded by the longest record.
#[derive(Debug)]
pub struct HistoryReader<R> {
    objects: Objects<R>,
    limits: ReadLimits,
    header: Header,
    /// Host of the last entry; a buffer that is used again.
    host: String,
    entries: usize,
    has_mapping: bool,
    unknown: u64,
    is_complete: bool,
    warnings: Vec<ReadWarning>,
}

impl<R: BufRead> HistoryReader<R> {
    /// Reads the header of a history.
    ///
    /// # Errors
    /// A stream that does not begin with a header of a known version.
    pub fn open(input: R, limits: ReadLimits) -> Result<Self, ReadHistoryError> {
        let mut objects = Objects::new(input, limits.record_bytes_max);
        let Some((object, line)) = objects.next()? else {
            return Err(ReadHistoryError::Empty);
        };
        let Entry::Header(header) = parse(object, line)? else {
            return Err(ReadHistoryError::NoHeader { line });
        };
        if header.version != VERSION {
            let version = header.version;
            return Err(ReadHistoryError::Version { line, version });
        }
        Ok(Self {
            objects,
            limits,
            header,
            host: String::new(),
            entries: 0,
            has_mapping: false,
            unknown: 0,
            is_complete: false,
            warnings: Vec::new(),
        })
    }

    /// Returns the time of the save.
    pub const fn saved(&self) -> EpochMillis {
        EpochMillis(self.header.saved)
    }

    /// Returns the number of roles of the writer.
    pub const fn roles(&self) -> i32 {
        self.header.roles
    }

    /// Returns the oddities so far, at most one of each kind. All are known at the end.
    pub fn warnings(&self) -> &[ReadWarning] {
        &self.warnings
    }

    /// Returns the next record; `None` when the stream has ended after a footer.
    ///
    /// # Errors
    /// Those of [`read_history`]. After a [`ReadHistoryError::Record`] the reader goes on with the
    /// record that follows; after any other error the rest of the stream has no meaning.
    pub fn next_record(&mut self) -> Result<Option<HistoryRecord<'_>>, ReadHistoryError> {
        Ok(self.next_content()?.map(|content| match content {
            Content::Mapping(names) => HistoryRecord::Mapping(names),
            Content::Entry(entry) => HistoryRecord::Entry {
                host: &self.host,
                entry,
            },
        }))
    }

    fn next_content(&mut self) -> Result<Option<Content>, ReadHistoryError> {
        while !self.is_complete {
            let last = self.objects.line();
            let Some((object, line)) = self.objects.next()? else {
                return Err(ReadHistoryError::NoFooter { line: last });
            };
            match parse(object, line)? {
                Entry::Header(_) => return Err(ReadHistoryError::SecondHeader { line }),
                Entry::Mapping(_) if self.has_mapping => self.warn_of_mapping(line),
                Entry::Mapping(mapping) => {
                    self.has_mapping = true;
                    return Ok(Some(Content::Mapping(mapping.rolemap)));
                }
                Entry::OfNode(_) if self.entries == self.limits.entries_max => {
                    let max = self.limits.entries_max;
                    return Err(ReadHistoryError::TooManyEntries { line, max });
                }
                Entry::OfNode(entry) => {
                    self.entries += 1;
                    self.host.clear();
                    self.host.push_str(&entry.host);
                    return Ok(Some(Content::Entry(SavedEntry {
                        role: entry.role,
                        active: entry.active,
                        last_used: EpochMillis(entry.last_used),
                    })));
                }
                Entry::Footer(footer) => self.end(footer.count)?,
                Entry::Unknown => self.unknown += 1,
            }
        }
        Ok(None)
    }

    /// Adds one warning for any number of further mappings, which keeps the list short.
    fn warn_of_mapping(&mut self, line: u64) {
        let is_mapping = |warning: &ReadWarning| match warning {
            ReadWarning::SecondMapping { .. } => true,
            ReadWarning::FooterCount { .. } | ReadWarning::UnknownRecords { .. } => false,
        };
        if !self.warnings.iter().any(is_mapping) {
            self.warnings.push(ReadWarning::SecondMapping { line });
        }
    }

    /// Checks that nothing follows the footer, and its number of entries.
    fn end(&mut self, stated: i64) -> Result<(), ReadHistoryError> {
        self.is_complete = true;
        if let Some((_, line)) = self.objects.next()? {
            return Err(ReadHistoryError::AfterFooter { line });
        }
        if self.unknown > 0 {
            let count = self.unknown;
            self.warnings.push(ReadWarning::UnknownRecords { count });
        }
        if usize::try_from(stated) != Ok(self.entries) {
            let read = self.entries;
            self.warnings
                .push(ReadWarning::FooterCount { stated, read });
        }
        Ok(())
    }
}

/// Reads a record. The path of a wrong field is found by a second, slower pass.
fn parse(object: &[u8], line: u64) -> Result<Entry<'_>, ReadHistoryError> {
    let error = match serde_json::from_slice::<Record<'_>>(object) {
        Ok(record) => return Ok(record.entry),
        Err(error) => error,
    };
    let mut again = serde_json::Deserializer::from_slice(object);
    let traced: Result<Record<'_>, _> = serde_path_to_error::deserialize(&mut again);
    let path = traced.map_or_else(|error| error.path().to_string(), |_| String::new());
    let field = if path == "." { String::new() } else { path };
    let text = error.to_string();
    // The JSON reader counts lines from the beginning of the record, so its place is left out.
    let reason = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(text, _)| text);
    let lines_before = u64::try_from(error.line()).unwrap_or(u64::MAX);
    Err(ReadHistoryError::Record {
        line: line.saturating_add(lines_before.saturating_sub(1)),
        problem: Box::new(RecordProblem {
            field: field.chars().take(FIELD_CHARS_MAX).collect(),
            reason: reason.chars().take(FIELD_CHARS_MAX * 2).collect(),
        }),
    })
}
