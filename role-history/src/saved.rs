//! A history as it is saved: plain values, without files and formats.

use std::collections::BTreeMap;
use std::sync::Arc;

use records::EpochMillis;

/// Saved entry of a role on a node (Slider: `NodeEntryRecord`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedEntry {
    /// Number of the role for its writer. A file may contain any number.
    pub role: i32,
    /// Whether a container of the role was running.
    pub active: bool,
    /// Time at which the node became free of the role; 0 for never.
    pub last_used: EpochMillis,
}

/// Host and the end of its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SavedHost {
    host: Arc<str>,
    entries_end: usize,
}

/// Saved history, compact enough to be copied for a thread that writes it: 16 bytes for each entry
/// and 24 for each host, whose names are shared with the history itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedHistory {
    /// Time of the save.
    pub saved: EpochMillis,
    /// Number of roles of the writer.
    pub roles: i32,
    /// Numbers of the writer's roles by their names. `None` in files older than Slider 0.80.
    pub role_map: Option<BTreeMap<String, i32>>,
    hosts: Vec<SavedHost>,
    entries: Vec<SavedEntry>,
}

impl SavedHistory {
    /// Creates a history without entries.
    #[must_use]
    pub fn new(saved: EpochMillis, roles: i32, role_map: Option<BTreeMap<String, i32>>) -> Self {
        Self {
            saved,
            roles,
            role_map,
            ..Self::default()
        }
    }

    /// Adds an entry. Entries of one host are cheapest when they follow each other.
    pub fn push(&mut self, host: &str, entry: SavedEntry) {
        if self.hosts.last().is_none_or(|last| *last.host != *host) {
            self.begin_host(host.into());
        }
        self.push_to_last(entry);
    }

    /// Adds the entries of a host, whose name is shared.
    pub(crate) fn push_host(&mut self, host: &Arc<str>, entries: impl Iterator<Item = SavedEntry>) {
        let mut entries = entries.peekable();
        if entries.peek().is_some() {
            self.begin_host(host.clone());
            entries.for_each(|entry| self.push_to_last(entry));
        }
    }

    /// Reserves space for exactly this number of entries.
    pub(crate) fn reserve(&mut self, hosts: usize, entries: usize) {
        self.hosts.reserve_exact(hosts);
        self.entries.reserve_exact(entries);
    }

    /// Returns the number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries with their hosts, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&str, SavedEntry)> {
        let starts = [0].into_iter();
        let starts = starts.chain(self.hosts.iter().map(|host| host.entries_end));
        starts.zip(&self.hosts).flat_map(|(start, host)| {
            let entries = &self.entries[start..host.entries_end];
            entries.iter().map(|&entry| (host.host.as_ref(), entry))
        })
    }

    fn begin_host(&mut self, host: Arc<str>) {
        let entries_end = self.entries.len();
        self.hosts.push(SavedHost { host, entries_end });
    }

    fn push_to_last(&mut self, entry: SavedEntry) {
        self.entries.push(entry);
        if let Some(last) = self.hosts.last_mut() {
            last.entries_end = self.entries.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_with_their_hosts_in_order() {
        let entry = |role| SavedEntry {
            role,
            active: true,
            last_used: EpochMillis(5),
        };
        let mut history = SavedHistory::default();
        for (host, role) in [("a", 1), ("a", 2), ("b", 1), ("a", 3)] {
            history.push(host, entry(role));
        }
        let found: Vec<_> = history.iter().map(|(host, e)| (host, e.role)).collect();
        assert_eq!(found, [("a", 1), ("a", 2), ("b", 1), ("a", 3)]);
        assert_eq!(history.len(), 4);
    }
}
