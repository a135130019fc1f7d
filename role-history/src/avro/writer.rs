//! Writing a history to a stream.

use std::borrow::Cow;
use std::io::{self, Write};

use records::EpochMillis;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use super::reader::VERSION;
use super::record::{Footer, Header, Mapping, NAMESPACES, NodeEntryRecord, names};
use crate::saved::SavedHistory;

/// Form of a header's date, that of Java's `Date.toGMTString`: `6 Jan 2016 12:00:00 GMT`.
const DATE: StaticFormatDescription = format_description!(
    "[day padding:none] [month repr:short] [year] [hour]:[minute]:[second] GMT"
);

/// Writes a history, as Slider 0.80 and later do: header, mapping, entries, footer, a line each,
/// without a line end after the last. Slider: `RoleHistoryWriter.write`.
///
/// Writes many small pieces, so the stream should be buffered. Keeps nothing in memory.
///
/// # Errors
/// Errors of the stream.
pub fn write_history(history: &SavedHistory, mut output: impl Write) -> io::Result<()> {
    let header = Header {
        version: VERSION,
        saved: history.saved.0,
        savedx: format!("{:x}", history.saved.0),
        savedate: date(history.saved),
        roles: history.roles,
    };
    write_record(&mut output, names::HEADER, &header)?;
    if let Some(names) = &history.role_map {
        let mapping = Mapping {
            rolemap: names.clone(),
        };
        output.write_all(b"\n")?;
        write_record(&mut output, names::MAPPING, &mapping)?;
    }
    for (host, entry) in history.iter() {
        let record = NodeEntryRecord {
            host: Cow::Borrowed(host),
            role: entry.role,
            active: entry.active,
            last_used: entry.last_used.0,
        };
        output.write_all(b"\n")?;
        write_record(&mut output, names::NODE_ENTRY, &record)?;
    }
    let footer = Footer {
        count: i64::try_from(history.len()).unwrap_or(i64::MAX),
    };
    output.write_all(b"\n")?;
    write_record(&mut output, names::FOOTER, &footer)
}

/// Writes a record inside the object of the union.
fn write_record(output: &mut impl Write, name: &str, record: &impl Serialize) -> io::Result<()> {
    write!(output, "{{\"entry\":{{\"{}{name}\":", NAMESPACES[0])?;
    serde_json::to_writer(&mut *output, record)?;
    output.write_all(b"}}")
}

/// Returns the date of a time for people; empty for a time outside of the calendar.
fn date(time: EpochMillis) -> String {
    let date = OffsetDateTime::from_unix_timestamp(time.0.div_euclid(1_000));
    let text = date.ok().and_then(|date| date.format(&DATE).ok());
    text.unwrap_or_default()
}
