//! Counters of aggregated logs.

use node_view::outcome::CallOutcome;
use prometheus::IntCounter;

use super::family::{Maker, PerLabel};

#[derive(Debug)]
pub(super) struct LogSeries {
    uploads: PerLabel<CallOutcome, IntCounter>,
    files: IntCounter,
    bytes: IntCounter,
}

impl LogSeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            uploads: maker.counters(
                "nm_agent_log_uploads_total",
                "Uploads of an application's logs that had files, or failed.",
            ),
            files: maker.counter(
                "nm_agent_uploaded_log_files_total",
                "Log files of containers that were uploaded.",
            ),
            bytes: maker.counter(
                "nm_agent_uploaded_log_bytes_total",
                "Size of these files before compression.",
            ),
        }
    }

    pub(super) fn observe(&self, outcome: CallOutcome, files: u64, bytes: u64) {
        self.uploads.of(outcome).inc();
        self.files.inc_by(files);
        self.bytes.inc_by(bytes);
    }
}
