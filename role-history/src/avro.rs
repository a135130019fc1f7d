//! Slider's file format: Avro records in JSON encoding, a stream of objects.
//!
//! ```text
//! {"entry":{"org.apache.slider.server.avro.RoleHistoryHeader":{"version":1, …}}}
//! {"entry":{"org.apache.slider.server.avro.RoleHistoryMapping":{"rolemap":{"store":1}}}}
//! {"entry":{"org.apache.slider.server.avro.NodeEntryRecord":{"host":"n1", …}}}
//! {"entry":{"org.apache.slider.server.avro.RoleHistoryFooter":{"count":1}}}
//! ```
//!
//! Reads from and writes to any stream, one record at a time; files are the caller's. Reads what
//! every version of Slider wrote, and the files of its predecessor Hoya; writes the form of Slider
//! 0.80 and later. Sources: Slider `org.apache.slider.server.avro.RoleHistoryWriter` and
//! `RoleHistoryRecord`.

mod error;
mod objects;
mod reader;
mod record;
mod writer;

pub use self::error::{ReadHistoryError, RecordProblem};
pub use self::reader::{
    HistoryReader, HistoryRecord, ReadHistory, ReadLimits, ReadWarning, read_history,
};
pub use self::writer::write_history;

#[cfg(test)]
mod tests;
