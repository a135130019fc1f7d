//! The hosts, or the racks, that an ask names, and how many containers are wanted at each.

use std::collections::{BTreeMap, btree_map};

/// What is wanted at a host or on a rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) count: u32,
    pub(super) relax_locality: bool,
}

/// See the module. A place where nothing is wanted is not in it, except during [`sweep`](Self::sweep).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    lines: BTreeMap<String, Line>,
    /// The sum of their names.
    name_bytes: usize,
}

impl Places {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Bytes of all names.
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

    /// Replaces the line of a place, or takes it away.
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

    /// One less is wanted at a place, if any is.
    pub(super) fn lower(&mut self, name: &str) {
        if let Some(line) = self.get(name) {
            let count = line.count.saturating_sub(1);
            self.set(name, Line { count, ..line });
        }
    }

    /// Shows every place to `visit`, which may lower it; those where nothing is wanted any more go.
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
