//! What people are told of the node as a whole.

use records::EpochMillis;

/// An operator's order to drain the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainNotice {
    /// Name of the mode: `graceful`, `quick` or `fast`.
    pub mode: &'static str,
    /// Reason that the operator gave; may be empty.
    pub reason: String,
    /// Name of the operator.
    pub by: String,
    /// Time of the order.
    pub since: EpochMillis,
    /// Time at which the containers that the mode ends are ended; `None`: it ends none.
    pub ends_at: Option<EpochMillis>,
    /// Whether that time has come.
    pub is_ending: bool,
}

impl DrainNotice {
    /// Returns the order in words for people and for the health report.
    #[must_use]
    pub fn words(&self) -> String {
        let Self {
            mode, reason, by, ..
        } = self;
        if reason.is_empty() {
            format!("Drained by {by} ({mode})")
        } else {
            format!("Drained by {by} ({mode}): {reason}")
        }
    }
}

/// Work of an earlier agent that was in progress when the agent crashed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryNotice {
    /// Work that has failed, with the reason; `None`: all goes on.
    pub failed: Option<String>,
    /// Works that wait until others have gone well.
    pub held: usize,
}

impl RecoveryNotice {
    /// Returns the notice in words for people; empty: there is nothing to say.
    #[must_use]
    pub fn words(&self) -> String {
        let waits = match self.held {
            0 => None,
            1 => Some(
                "after a crash, one work of the last agent waits until another has gone well"
                    .to_owned(),
            ),
            held => Some(format!(
                "after a crash, {held} works of the last agent wait until others have gone well"
            )),
        };
        let failed = self.failed.clone();
        failed
            .into_iter()
            .chain(waits)
            .collect::<Vec<_>>()
            .join("; ")
    }
}
