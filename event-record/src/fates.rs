//! What became of containers, as counts and as tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use records::{ContainerExitStatus, ContainerId, ExecutionType};
use sched::{Action, Note};

/// Most differences that a table lists.
const LISTED_MAX: usize = 40;

/// Fate of a container. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Execution type when it was last said; `None`: it was never started, shed or rejected.
    pub execution_type: Option<ExecutionType>,
    /// Wait before the first start; `None`: it did not start.
    pub waited_ms: Option<u64>,
    /// Whether it was refused on arrival.
    pub rejected: bool,
    /// Whether it lost its place in the queue.
    pub shed: bool,
    /// Evictions by kill, also of a frozen container.
    pub killed: u32,
    /// Evictions by freezing.
    pub frozen: u32,
    /// Work that kills discarded.
    pub lost_ms: u64,
    /// Exit status, if it ended.
    pub status: Option<ContainerExitStatus>,
}

impl Fate {
    fn words(&self) -> String {
        let mut words = match (self.rejected, self.shed, self.waited_ms) {
            (true, _, _) => "rejected".to_owned(),
            (_, true, _) => "shed".to_owned(),
            (_, _, Some(ms)) => format!("started after {ms} ms"),
            (_, _, None) => "waits".to_owned(),
        };
        for (count, verb) in [(self.frozen, "frozen"), (self.killed, "killed")] {
            match count {
                0 => {}
                1 => {
                    let _ = write!(words, ", {verb}");
                }
                _ => {
                    let _ = write!(words, ", {verb} {count} times");
                }
            }
        }
        if self.lost_ms > 0 {
            let _ = write!(words, ", {} ms lost", self.lost_ms);
        }
        words
    }

    /// Returns whether two fates are the same but for the time of waiting.
    fn is_like(&self, other: &Self) -> bool {
        let ended = |fate: &Self| (fate.waited_ms.is_some(), fate.rejected, fate.shed);
        ended(self) == ended(other) && self.killed == other.killed && self.frozen == other.frozen
    }
}

/// Fates of containers, gathered from a scheduler's actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// By the containers' ids.
    pub of: BTreeMap<ContainerId, Fate>,
}

impl Fates {
    /// Takes an action into account.
    pub fn observe(&mut self, action: &Action) {
        match action {
            Action::Note(note) => self.note(note),
            Action::Completed(completion) => {
                let fate = self.of.entry(completion.id).or_default();
                fate.execution_type = Some(completion.execution_type);
                fate.status = Some(completion.exit_status);
            }
            Action::Localize(id) => {
                self.of.entry(*id).or_default();
            }
            Action::Launch(_)
            | Action::RollBack(_)
            | Action::Pause(_)
            | Action::Resume(_)
            | Action::Terminate(_)
            | Action::ForceKill(_)
            | Action::ApplyLimits(_)
            | Action::CleanUp(_) => {}
        }
    }

    fn note(&mut self, note: &Note) {
        match note {
            Note::Queued {
                id, execution_type, ..
            } => self.of.entry(*id).or_default().execution_type = Some(*execution_type),
            Note::Started {
                id,
                execution_type,
                queue_wait_ms,
                ..
            } => {
                let fate = self.of.entry(*id).or_default();
                fate.execution_type = Some(*execution_type);
                fate.waited_ms.get_or_insert(*queue_wait_ms);
            }
            Note::Rejected { id, .. } => self.of.entry(*id).or_default().rejected = true,
            Note::Shed { id, .. } => self.of.entry(*id).or_default().shed = true,
            Note::Evicted {
                id, paused: true, ..
            } => self.of.entry(*id).or_default().frozen += 1,
            Note::Evicted { id, ran_ms, .. }
            | Note::PausedKilled { id, ran_ms, .. }
            | Note::Drained { id, ran_ms } => {
                let fate = self.of.entry(*id).or_default();
                fate.killed += 1;
                fate.lost_ms = fate.lost_ms.saturating_add(*ran_ms);
            }
            Note::Passed { .. }
            | Note::LargerThanNode { .. }
            | Note::Retried { .. }
            | Note::Promoted(_)
            | Note::Demoted(_) => {}
        }
    }

    fn counts(&self, of_type: ExecutionType) -> Counts {
        let mut counts = Counts::default();
        // What is refused on arrival never had its type said, and is opportunistic.
        let is_of =
            |fate: &&Fate| fate.execution_type.unwrap_or(ExecutionType::Opportunistic) == of_type;
        for fate in self.of.values().filter(is_of) {
            counts.all += 1;
            counts.waits_ms.extend(fate.waited_ms);
            counts.rejected += u64::from(fate.rejected);
            counts.shed += u64::from(fate.shed);
            counts.killed += u64::from(fate.killed);
            counts.frozen += u64::from(fate.frozen);
            counts.lost_ms = counts.lost_ms.saturating_add(fate.lost_ms);
        }
        counts.waits_ms.sort_unstable();
        counts
    }
}

#[derive(Default)]
struct Counts {
    all: u64,
    /// Sorted.
    waits_ms: Vec<u64>,
    rejected: u64,
    shed: u64,
    killed: u64,
    frozen: u64,
    lost_ms: u64,
}

impl Counts {
    fn wait(&self, percent: usize) -> String {
        let last = self.waits_ms.len().saturating_sub(1);
        let at = self.waits_ms.get(last * percent / 100);
        at.map_or_else(|| "-".to_owned(), u64::to_string)
    }
}

/// Returns a table of several plays of the same record, by execution type.
#[must_use]
pub fn table(plays: &[(String, &Fates)]) -> String {
    let head = [
        "settings",
        "type",
        "containers",
        "started",
        "wait p50 ms",
        "p95",
        "max",
        "rejected",
        "shed",
        "killed",
        "frozen",
        "lost ms",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for execution_type in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
        for (name, fates) in plays {
            let counts = fates.counts(execution_type);
            rows.push(vec![
                name.clone(),
                execution_type.as_str().to_lowercase(),
                counts.all.to_string(),
                counts.waits_ms.len().to_string(),
                counts.wait(50),
                counts.wait(95),
                counts.wait(100),
                counts.rejected.to_string(),
                counts.shed.to_string(),
                counts.killed.to_string(),
                counts.frozen.to_string(),
                counts.lost_ms.to_string(),
            ]);
        }
    }
    aligned(&rows)
}

fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 | 1 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the containers of which another thing becomes, a line for each up to a bound, and how
/// many there are.
#[must_use]
pub fn differences(before: &Fates, after: &Fates) -> (usize, String) {
    let (mut count, mut text) = (0, String::new());
    let none = Fate::default();
    for (id, fate) in &before.of {
        let other = after.of.get(id).unwrap_or(&none);
        if fate.is_like(other) {
            continue;
        }
        count += 1;
        if count <= LISTED_MAX {
            let (was, is) = (fate.words(), other.words());
            let _ = writeln!(text, "{id}: {was}; then {is}");
        }
    }
    if count > LISTED_MAX {
        let _ = writeln!(text, "… and {} more", count - LISTED_MAX);
    }
    (count, text)
}
