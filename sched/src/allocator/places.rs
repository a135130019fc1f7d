//! Hosts or racks that an ask names, with the containers wanted at each.

use std::collections::{BTreeMap, btree_map};

/// Count and flag of a host or rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) count: u32,
    pub(super) relax_locality: bool,
}

/// Places of one kind, by name. Contains no place with a count of 0, except during
/// [`sweep`](Self::sweep).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    lines: BTreeMap<String, Line>,
    /// Bytes of all names together.
    name_bytes: usize,
}

impl Places {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the bytes of all names together.
    pub(super) const fn name_bytes(&self) -> usize {
        self.name_bytes
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.lines.contains_key(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<Line> {
        self.lines.get(name).copied()
    }

    pub(super) fn iter(&self) -> btree_map::Iter<'_, String, Line> {
        self.lines.iter()
    }

    /// Replaces the line of a place, or removes it if the count is 0.
    pub(super) fn set(&mut self, name: &str, line: Line) {
        if line.count == 0 {
            if self.lines.remove(name).is_some() {
                self.name_bytes -= name.len();
            }
        } else if let Some(known) = self.lines.get_mut(name) {
            *known = line;
        } else {
            self.name_bytes += name.len();
            self.lines.insert(name.to_owned(), line);
        }
    }

    /// Lowers the count of a place by 1, if it is known.
    pub(super) fn lower(&mut self, name: &str) {
        if let Some(line) = self.get(name) {
            let count = line.count.saturating_sub(1);
            self.set(name, Line { count, ..line });
        }
    }

    /// Raises the count of a place by 1; `relax_locality` is the flag of a new one.
    pub(super) fn raise(&mut self, name: &str, relax_locality: bool) {
        let line = self.get(name).unwrap_or(Line {
            count: 0,
            relax_locality,
        });
        let count = line.count.saturating_add(1);
        self.set(name, Line { count, ..line });
    }

    /// Calls `visit` for every place, which may lower the count, and removes places with a count of
    /// 0.
    pub(super) fn sweep(&mut self, mut visit: impl FnMut(&str, &mut Line)) {
        let name_bytes = &mut self.name_bytes;
        self.lines.retain(|name, line| {
            visit(name, line);
            if line.count == 0 {
                *name_bytes -= name.len();
            }
            line.count > 0
        });
    }
}
