//! Reading a history from a stream.

use std::io::BufRead;

use records::EpochMillis;

use super::error::{ReadHistoryError, RecordProblem};
use super::objects::Objects;
use super::record::{Entry, Footer, Header, Record};
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
    let Header { saved, roles, .. } = header;
    let mut history = SavedHistory::new(EpochMillis(saved), roles, None);
    let mut warnings = Vec::new();
    let mut unknown = 0;
    let Footer { count } = loop {
        let last = objects.line();
        let Some((object, line)) = objects.next()? else {
            return Err(ReadHistoryError::NoFooter { line: last });
        };
        match parse(object, line)? {
            Entry::Header(_) => return Err(ReadHistoryError::SecondHeader { line }),
            Entry::Mapping(_) if history.role_map.is_some() => {
                // One warning for any number of mappings keeps the list short.
                let warned = |w: &ReadWarning| matches!(w, ReadWarning::SecondMapping { .. });
                if !warnings.iter().any(warned) {
                    warnings.push(ReadWarning::SecondMapping { line });
                }
            }
            Entry::Mapping(mapping) => history.role_map = Some(mapping.rolemap),
            Entry::OfNode(_) if history.len() == limits.entries_max => {
                let max = limits.entries_max;
                return Err(ReadHistoryError::TooManyEntries { line, max });
            }
            Entry::OfNode(entry) => history.push(
                &entry.host,
                SavedEntry {
                    role: entry.role,
                    active: entry.active,
                    last_used: EpochMillis(entry.last_used),
                },
            ),
            Entry::Footer(footer) => break footer,
            Entry::Unknown => unknown += 1,
        }
    };
    if let Some((_, line)) = objects.next()? {
        return Err(ReadHistoryError::AfterFooter { line });
    }
    if unknown > 0 {
        warnings.push(ReadWarning::UnknownRecords { count: unknown });
    }
    if usize::try_from(count) != Ok(history.len()) {
        warnings.push(ReadWarning::FooterCount {
            stated: count,
            read: history.len(),
        });
    }
    Ok(ReadHistory { history, warnings })
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
