//! The configuration read again while the agent runs: which properties take effect at once, and
//! which at the next start.
//!
//! In: two readings of the configuration. Out: `Outcome`, for the log and for operators. Applies
//! nothing itself: `wiring::reloading` hands the values to their owners.

use std::fmt;
use std::sync::Arc;

use node_admin::message::{ChangedSetting, Reload};
use tokio::sync::Notify;

use crate::config::{ChangedProperty, LOG_LEVEL, Reading, keys};

/// Means to read the configuration again while the agent runs.
#[derive(Clone, Debug, Default)]
pub struct Reloading {
    /// Order to read again. Several that wait count as one.
    pub order: Arc<Notify>,
    /// Reading that the agent was started with; `None`: it was started without files.
    pub started_with: Option<Reading>,
    /// Level of the log; `None`: something else decides it.
    pub log_level: Option<LogLevel>,
}

/// Setter of the process's log level.
#[derive(Clone)]
pub struct LogLevel(Arc<dyn Fn(&str) + Send + Sync>);

impl LogLevel {
    /// Returns the level that `set` changes, from any thread.
    pub fn new(set: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(set))
    }

    pub(crate) fn set(&self, level: &str) {
        (self.0)(level);
    }
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogLevel")
    }
}

/// Changes of a configuration that was read again, by what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Changes that take effect now.
    pub(crate) applied: Vec<ChangedProperty>,
    /// Changes that take effect at the next start, with the reason.
    pub(crate) refused: Vec<(ChangedProperty, &'static str)>,
}

/// Reason of most refusals.
const AT_NEXT_START: &str = "takes effect at the next start";

/// Reason where the environment decides the level of the log.
const LEVEL_IS_FIXED: &str = "NM_AGENT_LOG in the agent's environment decides it";

/// Name under which changes of the accounts of containers are refused.
const EXECUTOR_CFG: &str = "container-executor.cfg";

impl Outcome {
    /// Compares the values in force with those that were read. `applied` is the last reading that
    /// was applied: properties that take effect at once have their values from there, others from
    /// `start`.
    pub(crate) fn of(
        start: &Reading,
        applied: &Reading,
        read: &Reading,
        log_level_is_fixed: bool,
    ) -> Self {
        let mut outcome = Self::default();
        for change in start.changes_to(read) {
            if keys::rereads_itself(&change.name) {
                continue;
            }
            if log_level_is_fixed && change.name == LOG_LEVEL {
                outcome.refused.push((change, LEVEL_IS_FIXED));
            } else if !keys::is_taken_at_run_time(&change.name) {
                outcome.refused.push((change, AT_NEXT_START));
            }
        }
        let applied = applied.changes_to(read).into_iter();
        outcome.applied = applied
            .filter(|change| keys::is_taken_at_run_time(&change.name))
            .filter(|change| !(log_level_is_fixed && change.name == LOG_LEVEL))
            .collect();
        outcome
    }

    /// Adds that the helper's file has changed, whose entries are no properties.
    pub(crate) fn refuse_accounts(&mut self) {
        let change = ChangedProperty {
            name: EXECUTOR_CFG.to_owned(),
            old: None,
            new: None,
        };
        self.refused.push((change, AT_NEXT_START));
    }

    /// Logs each change in a line.
    pub(crate) fn log(&self) {
        for ChangedProperty { name, old, new } in &self.applied {
            let (old, new) = (words(old.as_deref()), words(new.as_deref()));
            tracing::info!("{name} changed from {old} to {new}: in effect");
        }
        for (change, why) in &self.refused {
            tracing::warn!("{} changed: {why}", change.name);
        }
        if self.applied.is_empty() && self.refused.is_empty() {
            tracing::info!("the configuration has not changed");
        }
    }

    /// Returns the outcome in a few words, for the service manager's status line.
    pub(crate) fn words(&self) -> String {
        let (applied, refused) = (self.applied.len(), self.refused.len());
        if refused == 0 {
            return format!("configuration read again: {applied} changed");
        }
        format!("configuration read again: {applied} changed, {refused} wait for the next start")
    }

    pub(crate) fn answer(&self) -> Reload {
        let setting = |change: &ChangedProperty, why: Option<&str>| ChangedSetting {
            property: change.name.clone(),
            old: change.old.clone(),
            new: change.new.clone(),
            reason: why.map(str::to_owned),
        };
        let refused = self.refused.iter();
        Reload {
            applied: self.applied.iter().map(|one| setting(one, None)).collect(),
            refused: refused.map(|(one, why)| setting(one, Some(why))).collect(),
        }
    }
}

fn words(value: Option<&str>) -> &str {
    match value {
        None => "nothing",
        Some("") => "empty",
        Some(text) => text,
    }
}

#[cfg(test)]
mod tests;
