//! Decides which directories are good, from measurements of their disks (Hadoop:
//! `DirectoryCollection` and `LocalDirsHandlerService`). No I/O, no clock, no thread.
//!
//! ```text
//!             check failed                    check failed
//!   Good ───────────────────────► Failed ◄─────────────────────── Full
//!    ▲ │ above the limit            │ passed, above the low mark   ▲ │
//!    │ └────────────────────────────┼──────────────────────────────┘ │
//!    └──────────────────────────────┴────────────────────────────────┘
//!                       passed and within the low mark
//! ```
//! Good directories get new files. What lies on full ones is still read, and failed ones are left
//! alone.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dir_handle::DiskSpace;

use super::room::lack_of_room;
use crate::config::DiskHealthConfig;

/// Use of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DirKind {
    /// Caches and work folders (`yarn.nodemanager.local-dirs`).
    Local,
    /// Output of containers (`yarn.nodemanager.log-dirs`).
    Log,
}

impl DirKind {
    /// Returns the end of the property with the directories of this kind, the word of the reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local-dirs",
            Self::Log => "log-dirs",
        }
    }
}

/// Fitness of a directory for new and for old files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Good,
    /// Files on it are read, and removed when they are no longer needed.
    Full(String),
    Failed(String),
}

/// Result of the check of one directory: the room on its disk, or why it cannot be used.
pub(super) type Measured = Result<DiskSpace, String>;

/// A directory with its condition since the last check.
#[derive(Clone, Debug)]
struct Checked {
    path: PathBuf,
    condition: Condition,
    /// Space at the last check; `None` before the first check and when it failed.
    space: Option<DiskSpace>,
}

/// Conditions of all configured directories.
#[derive(Clone, Debug)]
pub(super) struct DiskHealth {
    /// `None`: a directory fails only if it cannot be opened at all, and the node is always
    /// healthy.
    config: Option<DiskHealthConfig>,
    local: Vec<Checked>,
    log: Vec<Checked>,
}

/// Figures of the directories of one kind (Hadoop: `NodeManagerMetrics`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirNumbers {
    /// Configured directories that are not good: `BadLocalDirs`, `BadLogDirs`.
    pub bad: u32,
    /// Used part of the good ones' disks together, in percent: `GoodLocalDirsDiskUtilizationPerc`,
    /// `GoodLogDirsDiskUtilizationPerc`.
    pub good_utilization_percent: u32,
}

/// Outcome of a check of all directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisksReport {
    /// Whether enough directories of both kinds are good.
    pub is_healthy: bool,
    /// Text of Hadoop's health report on the directories that are not good; empty if all are.
    pub report: String,
    /// Figures of the local directories.
    pub local: DirNumbers,
    /// Figures of the log directories.
    pub log: DirNumbers,
    /// Log directories with files that can be read, in the configured order.
    pub readable_log_dirs: Vec<PathBuf>,
}

impl DiskHealth {
    /// Returns the state before the first check, in which every directory counts as good.
    pub(super) fn new(
        config: Option<DiskHealthConfig>,
        local: &[PathBuf],
        log: &[PathBuf],
    ) -> Self {
        let unchecked = |paths: &[PathBuf]| {
            let unchecked = |path: &PathBuf| Checked {
                path: path.clone(),
                condition: Condition::Good,
                space: None,
            };
            paths.iter().map(unchecked).collect()
        };
        Self {
            config,
            local: unchecked(local),
            log: unchecked(log),
        }
    }

    fn of(&self, kind: DirKind) -> &[Checked] {
        match kind {
            DirKind::Local => &self.local,
            DirKind::Log => &self.log,
        }
    }

    /// Returns the directories of this kind in the configured order.
    pub(super) fn paths(&self, kind: DirKind) -> impl Iterator<Item = &Path> {
        self.of(kind).iter().map(|dir| dir.path.as_path())
    }

    /// Returns the condition of a directory by its index; `None`: there is no such directory.
    pub(super) fn condition(&self, kind: DirKind, index: usize) -> Option<&Condition> {
        self.of(kind).get(index).map(|dir| &dir.condition)
    }

    /// Records the check of one directory.
    pub(super) fn measured(&mut self, kind: DirKind, index: usize, measured: Measured) {
        let dirs = match kind {
            DirKind::Local => &mut self.local,
            DirKind::Log => &mut self.log,
        };
        let Some(dir) = dirs.get_mut(index) else {
            return;
        };
        let was_good = dir.condition == Condition::Good;
        dir.space = measured.as_ref().ok().copied();
        let condition = match (measured, &self.config) {
            (Err(reason), _) => Condition::Failed(reason),
            (Ok(_), None) => Condition::Good,
            (Ok(space), Some(config)) => judge(config, kind, was_good, space),
        };
        if dir.condition == condition {
            return;
        }
        let path = dir.path.display();
        match &condition {
            Condition::Good => tracing::info!(%path, "this directory is good again"),
            Condition::Full(reason) | Condition::Failed(reason) => {
                tracing::warn!(%path, reason, "this directory gets no new files");
            }
        }
        dir.condition = condition;
    }

    /// Returns the report if too few directories are good (Hadoop:
    /// `LocalDirsHandlerService.areDisksHealthy`).
    pub(super) fn failure(&self) -> Option<String> {
        let config = self.config?;
        let has_enough = |dirs: &[Checked]| {
            let good = dirs.iter().filter(|dir| dir.condition == Condition::Good);
            good.count() as f64 / dirs.len() as f64 >= config.min_healthy_disks
        };
        let is_healthy = has_enough(&self.local) && has_enough(&self.log);
        (!is_healthy).then(|| self.text())
    }

    /// Returns the reasons of the directories of a kind that cannot be used.
    pub(super) fn causes(&self, kind: DirKind) -> String {
        let cause = |dir: &Checked| match &dir.condition {
            Condition::Failed(reason) => Some(format!("{} : {reason}", dir.path.display())),
            Condition::Good | Condition::Full(_) => None,
        };
        let causes: Vec<_> = self.of(kind).iter().filter_map(cause).collect();
        causes.join("; ")
    }

    /// Returns the outcome of the checks so far.
    pub(super) fn report(&self) -> DisksReport {
        let readable = |dir: &&Checked| !matches!(dir.condition, Condition::Failed(_));
        let readable_logs = self.log.iter().filter(readable);
        DisksReport {
            is_healthy: self.failure().is_none(),
            report: self.text(),
            local: numbers(&self.local),
            log: numbers(&self.log),
            readable_log_dirs: readable_logs.map(|dir| dir.path.clone()).collect(),
        }
    }

    /// Returns the text of Hadoop's `LocalDirsHandlerService.getDisksHealthReport`, to the space.
    fn text(&self) -> String {
        let mut text = String::new();
        if self.config.is_none() {
            return text;
        }
        for kind in [DirKind::Local, DirKind::Log] {
            let failed = |condition: &Condition| match condition {
                Condition::Failed(reason) => Some(reason.clone()),
                Condition::Good | Condition::Full(_) => None,
            };
            self.list(kind, "have errors: ", failed, &mut text);
            let full = |condition: &Condition| match condition {
                Condition::Full(reason) => Some(reason.clone()),
                Condition::Good | Condition::Failed(_) => None,
            };
            let before = text.len();
            let words =
                "usable space is below configured utilization percentage/no more usable space";
            self.list(kind, words, full, &mut text);
            if kind == DirKind::Local && text.len() > before {
                text.push_str("; ");
            }
        }
        text
    }

    /// Adds the directories that have a reason, if there are any.
    fn list(
        &self,
        kind: DirKind,
        words: &str,
        reason: impl Fn(&Condition) -> Option<String>,
        text: &mut String,
    ) {
        let dirs = self.of(kind);
        let listed = dirs.iter().filter_map(|dir| {
            let reason = reason(&dir.condition)?;
            Some(format!("{} : {reason}", dir.path.display()))
        });
        let listed: Vec<_> = listed.collect();
        if listed.is_empty() {
            return;
        }
        let (count, all, name) = (listed.len(), dirs.len(), kind.as_str());
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{count}/{all} {name} {words} [ {} ] ",
            listed.join(" , ")
        );
    }
}

/// Returns whether a directory that can be used has room (Hadoop: `DirectoryCollection.testDirs`).
fn judge(config: &DiskHealthConfig, kind: DirKind, was_good: bool, space: DiskSpace) -> Condition {
    if let Some(max) = config.max_utilization_percent {
        let limit = if was_good {
            max
        } else {
            config.utilization_watermark_low_percent
        };
        // A file system without blocks has no part in use: the comparisons are false.
        let used = 100.0 - 100.0 * (space.free_bytes as f64 / space.total_bytes as f64);
        if used > limit || used >= 100.0 {
            return Condition::Full(format!("used space above threshold of {limit:?}%"));
        }
    }
    if let Some(min) = config.min_free_space_mb {
        let limit = if was_good {
            min
        } else {
            config.free_space_watermark_high_mb
        };
        if space.free_bytes >> 20 < limit {
            return Condition::Full(format!("free space below limit of {limit}MB"));
        }
    }
    // Nothing is downloaded to log directories.
    let lack = lack_of_room(space, was_good).filter(|_| kind == DirKind::Local);
    lack.map_or(Condition::Good, Condition::Full)
}

fn numbers(dirs: &[Checked]) -> DirNumbers {
    let (mut bad, mut total, mut free) = (0, 0_u128, 0_u128);
    for dir in dirs {
        if dir.condition != Condition::Good {
            bad += 1;
        } else if let Some(space) = dir.space {
            total += u128::from(space.total_bytes);
            free += u128::from(space.free_bytes);
        }
    }
    let used = total.saturating_sub(free) * 100;
    let percent = used.checked_div(total).unwrap_or(0);
    DirNumbers {
        bad,
        good_utilization_percent: u32::try_from(percent).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
