//! Loading and saving (Slider: `RoleHistory.onThaw`, `rebuild`, `saveHistory`).

use std::collections::BTreeMap;

use records::{EpochMillis, Now};

use super::RoleHistory;
use crate::node_entry::NodeEntry;
use crate::role::RoleId;
use crate::saved::{SavedEntry, SavedHistory};

/// Counts of the entries that were taken from a saved history, and of those that were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThawReport {
    /// Time at which the history was saved.
    pub saved: EpochMillis,
    /// Number of entries taken.
    pub loaded: usize,
    /// Entries of roles that do not exist any more.
    pub discarded_unknown_role: usize,
    /// Entries without a host.
    pub discarded_no_host: usize,
    /// Entries that had not been used for longer than the age limit.
    pub purged_for_age: usize,
    /// Number of roles of the writer, if it differs from the present number.
    pub other_role_count: Option<i32>,
}

/// Copy of a history for the thread that writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The values to write.
    pub history: SavedHistory,
    changes: u64,
}

impl RoleHistory {
    /// Takes a saved history: on a new history before the first node reports, or later, when
    /// reading the file took long. Of two last uses of a node the most recent counts.
    ///
    /// Whatever was running counts as used until the time of the save: the file tells nothing about
    /// the present, and what runs is replayed from the ResourceManager's list. Roles are found by
    /// their names if the file has them, else by their ids; Slider writes the names and trusts the
    /// ids.
    pub fn thaw(&mut self, saved: &SavedHistory) -> ThawReport {
        let mut report = ThawReport {
            saved: saved.saved,
            ..ThawReport::default()
        };
        let ids = self.ids_in(saved);
        let threshold = self.age_threshold(saved.saved);
        let entries = saved.iter().filter_map(|(host, entry)| {
            if host.is_empty() {
                report.discarded_no_host += 1;
                return None;
            }
            let Some(&role) = ids.get(&entry.role) else {
                report.discarded_unknown_role += 1;
                return None;
            };
            let last_used = if entry.active {
                saved.saved
            } else {
                entry.last_used
            };
            // A strict role's history is a constraint and no hint, so it does not age.
            let is_strict = self
                .roles
                .get(&role)
                .is_some_and(|state| state.role.placement_policy.is_strict());
            if !is_strict && threshold.is_some_and(|threshold| last_used < threshold) {
                report.purged_for_age += 1;
                return None;
            }
            report.loaded += 1;
            Some((host, role, last_used))
        });
        self.nodes.restore(entries);
        let roles = i32::try_from(self.roles.len()).unwrap_or(i32::MAX);
        report.other_role_count = (saved.roles != roles).then_some(saved.roles);
        self.wall = self.wall.max(saved.saved);
        self.save.saved = self.save.saved.max(saved.saved);
        self.save.thawed = Some(saved.saved);
        report
    }

    /// Returns the time of the save that was loaded; `None` if the history began empty.
    #[must_use]
    pub const fn thawed_data_time(&self) -> Option<EpochMillis> {
        self.save.thawed
    }

    /// Returns whether a start or an end has not been saved. Asks and releases change nothing that
    /// is saved.
    #[must_use]
    pub const fn is_dirty(&self) -> bool {
        self.save.changes != self.save.saved_changes
    }

    /// Returns a copy to write: the entries that carry information, by host and role. The time of
    /// the save is later than that of any save before, whatever the clock does, because files are
    /// ordered by it.
    #[must_use]
    pub fn snapshot(&self, now: Now) -> Snapshot {
        let after_last = EpochMillis(self.save.saved.0.saturating_add(1));
        let roles = self.roles.values().map(|state| &state.role);
        let names = roles.map(|role| (role.name.clone(), role.id.number()));
        let mut history = SavedHistory::new(
            now.wall.max(after_last),
            i32::try_from(self.roles.len()).unwrap_or(i32::MAX),
            Some(names.collect()),
        );
        history.reserve(self.nodes.len(), self.nodes.entries());
        for node in self.nodes.iter() {
            let entries = node.entries().iter().filter(|entry| !entry.is_blank());
            history.push_host(node.host(), entries.map(saved_entry));
        }
        Snapshot {
            history,
            changes: self.save.changes,
        }
    }

    /// Notes that a snapshot is safely written. Changes since it was taken are still unsaved. After
    /// a failed write there is nothing to note: the history stays dirty.
    pub fn set_saved(&mut self, snapshot: &Snapshot) {
        self.save.saved_changes = self.save.saved_changes.max(snapshot.changes);
        self.save.saved = self.save.saved.max(snapshot.history.saved);
    }

    /// Returns the present roles by their ids in the file.
    fn ids_in(&self, saved: &SavedHistory) -> BTreeMap<i32, RoleId> {
        match &saved.role_map {
            Some(names) => {
                let roles = self.roles.values().map(|state| &state.role);
                let known = roles.filter_map(|role| Some((*names.get(&role.name)?, role.id)));
                known.collect()
            }
            None => self.roles.keys().map(|id| (id.number(), *id)).collect(),
        }
    }

    /// Returns the oldest last use that is kept. Relative to the save, not to the present: a
    /// service that was stopped for a month comes back to where it ran.
    fn age_threshold(&self, saved: EpochMillis) -> Option<EpochMillis> {
        let limit = i64::try_from(self.config.age_limit_ms?.get()).ok()?;
        Some(EpochMillis(saved.0.saturating_sub(limit)))
    }
}

fn saved_entry(entry: &NodeEntry) -> SavedEntry {
    SavedEntry {
        role: entry.role().number(),
        active: entry.live() > 0,
        last_used: entry.last_used(),
    }
}
