//! Entries that were seen on the disk a moment ago: who wants only these is answered without
//! another look.

use super::Cache;
use super::values::{EntryId, EntryState, Place, Wanted};

/// Time for which a look at the disk counts.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Belief {
    /// Now, in milliseconds.
    pub(in super::super) now_ms: u64,
    /// Age from which a look no longer counts, in milliseconds; 0: none counts.
    pub(in super::super) age_ms: u64,
}

impl Belief {
    fn counts(self, seen_ms: u64) -> bool {
        self.now_ms.saturating_sub(seen_ms) < self.age_ms
    }
}

impl Cache {
    /// Records that the resource was on the disk at this time, in milliseconds.
    pub(in super::super) fn seen(&mut self, id: EntryId, now_ms: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.seen_ms = Some(now_ms);
        }
    }

    /// Returns whether all of these are cached in places that are usable, and were seen there
    /// lately. Then a request for them is complete as soon as it begins.
    pub(in super::super) fn has_all(
        &self,
        wanted: &[Wanted],
        belief: Belief,
        is_usable: impl Fn(&Place) -> bool,
    ) -> bool {
        let has = |wanted: &Wanted| {
            let index = self.scopes.get(&wanted.scope)?;
            let entry = self.entries.get(index.entries.get(&wanted.key())?)?;
            let is_seen = entry.seen_ms.is_some_and(|seen_ms| belief.counts(seen_ms));
            match &entry.state {
                EntryState::Ready { place, .. } => Some(is_seen && is_usable(place)),
                EntryState::Downloading { .. } => None,
            }
        };
        wanted.iter().all(|wanted| has(wanted).unwrap_or(false))
    }
}
