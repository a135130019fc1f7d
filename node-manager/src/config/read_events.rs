//! Properties to the record of the scheduler's events.

use hadoop_conf::PropertyReader;

use crate::event_writer::EventRecordConfig;

const DIRECTORY: &str = "yarn.nodemanager.agent.event-record.dir";
const FILE_MB: &str = "yarn.nodemanager.agent.event-record.file-mb";
const FILES: &str = "yarn.nodemanager.agent.event-record.files";

/// Least size of a file in MiB: twice the state of a scheduler with all containers that it may
/// have.
const FILE_MB_MIN: u32 = 16;

/// Reads the record's files; `None` without a directory for them. The first of several paths
/// counts.
pub(super) fn event_record(reader: &mut PropertyReader<'_>) -> Option<EventRecordConfig> {
    let file_mb = reader.u64(FILE_MB, FILE_MB_MIN);
    let files = reader.u64(FILES, 1);
    let is_set = reader.text(DIRECTORY).is_some();
    let dir = is_set.then(|| reader.paths(DIRECTORY).into_iter().next());
    Some(EventRecordConfig {
        dir: dir.flatten()?,
        file_bytes_max: file_mb
            .saturating_mul(1 << 20)
            .min(event_record::FILE_BYTES_MAX),
        files_max: usize::try_from(files).unwrap_or(usize::MAX),
    })
}
