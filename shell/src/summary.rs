//! Result of a job. The AM writes the text form into the diagnostics of its application when it
//! unregisters, and the client parses it from there. Any ResourceManager keeps diagnostics, so the
//! summary outlives the AM.
//!
//! The text is one line for people and one line that starts with [`MARKER`] and holds JSON.

use serde::{Deserialize, Serialize};

use crate::progress::Counts;

/// Start of the line that holds the summary, for any reader of diagnostics.
pub const MARKER: &str = "nm-agent-shell-summary:";

/// Longest summary, in bytes. A ResourceManager keeps 64 KiB of diagnostics
/// (`yarn.app.attempt.diagnostics.limit.kc`), to which it adds lines of its own.
const TEXT_BYTES_MAX: usize = 32 * 1024;

/// Limit on failures listed one by one; the others are only counted.
pub const FAILURES_MAX: usize = 20;

/// Longest reason of a failure, in characters.
pub const REASON_CHARS_MAX: usize = 500;

/// Final result of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Every command exited with 0.
    Succeeded,
    /// At least one task failed.
    Failed,
    /// Stopped by a client or the AM's node before the end.
    Stopped,
}

/// A task that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Number of the task, from 1: its `YARN_SHELL_ID`.
    pub task: u32,
    /// Last container of the task, in Hadoop's text; empty if it never had one.
    pub container: String,
    /// Node of that container, `host:port`; empty without a container.
    pub node: String,
    /// Exit status of the command or, below 0, Hadoop's reason; `None` when no container of the
    /// task ever ended.
    pub exit_status: Option<i32>,
    /// Reason for the failure, for people.
    pub reason: String,
    /// URL of the container's logs; empty if the task never ran.
    pub log_url: String,
}

/// Result of a job with its statistics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Final result.
    pub outcome: Outcome,
    /// Tasks by their end, and containers by the reason for which they were taken away.
    pub counts: Counts,
    /// Median of the time from a node's acceptance of a container until it was first seen running,
    /// in milliseconds; `None` when no container ran.
    pub queue_wait_p50_ms: Option<u64>,
    /// 99th percentile of that time, in milliseconds.
    pub queue_wait_p99_ms: Option<u64>,
    /// Time from the start of the AM to the end of the job, in milliseconds.
    pub wall_ms: u64,
    /// Details of the first [`FAILURES_MAX`] failed tasks.
    pub failures: Vec<Failure>,
}

impl Summary {
    /// Returns the text for the application's diagnostics.
    #[must_use]
    pub fn to_diagnostics(&self) -> String {
        let mut kept = self.clone();
        loop {
            let json = serde_json::to_string(&kept).expect("numbers and texts are always JSON");
            let counts = self.counts;
            let text = format!(
                "{} of {} containers succeeded, {} failed.\n{MARKER}{json}\n",
                counts.succeeded, counts.tasks, counts.failed
            );
            if text.len() <= TEXT_BYTES_MAX || kept.failures.pop().is_none() {
                return text;
            }
        }
    }

    /// Finds a summary in the diagnostics of an application. `None` when there is none or it does
    /// not parse.
    #[must_use]
    pub fn from_diagnostics(diagnostics: &str) -> Option<Self> {
        let (_, rest) = diagnostics.rsplit_once(MARKER)?;
        let json = rest.lines().next()?;
        let mut summary: Self = serde_json::from_str(json).ok()?;
        summary.failures.truncate(FAILURES_MAX);
        Some(summary)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(failures: usize, reason: &str) -> Summary {
        Summary {
            outcome: Outcome::Failed,
            counts: Counts {
                tasks: 9,
                failed: 2,
                ..Counts::default()
            },
            queue_wait_p50_ms: Some(3),
            queue_wait_p99_ms: None,
            wall_ms: 1234,
            failures: vec![
                Failure {
                    task: 1,
                    container: "container_1_1_1_000002".to_owned(),
                    node: "n:1".to_owned(),
                    exit_status: Some(3),
                    reason: reason.to_owned(),
                    log_url: "http://n:2/node/containerlogs/c/u/".to_owned(),
                };
                failures
            ],
        }
    }

    #[test]
    fn a_summary_is_found_among_what_a_resource_manager_adds() {
        let summary = sample(2, "line\nbreak \"quoted\"");
        let text = format!("Attempt ended.\n{}\nMore.", summary.to_diagnostics());
        assert_eq!(Summary::from_diagnostics(&text), Some(summary));
    }

    #[test]
    fn a_summary_never_outgrows_what_a_resource_manager_keeps() {
        let summary = sample(FAILURES_MAX, &"\u{1}".repeat(REASON_CHARS_MAX));
        let text = summary.to_diagnostics();
        assert!(text.len() <= TEXT_BYTES_MAX);
        let read = Summary::from_diagnostics(&text).unwrap();
        assert_eq!(read.counts, summary.counts);
        assert!(!read.failures.is_empty() && read.failures.len() < FAILURES_MAX);
    }

    #[test]
    fn diagnostics_without_a_summary_have_none() {
        for text in ["", MARKER, "nm-agent-shell-summary:{", "Killed by user"] {
            assert_eq!(Summary::from_diagnostics(text), None);
        }
    }

    proptest! {
        #[test]
        fn any_diagnostics_are_read_without_panic(before in ".{0,40}", json in ".{0,80}") {
            let _ = Summary::from_diagnostics(&format!("{before}{MARKER}{json}"));
        }
    }
}
