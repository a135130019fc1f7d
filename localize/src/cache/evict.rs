//! Eviction of unused resources when the caches are too large.

use std::collections::BTreeMap;

use super::super::layout::Scope;
use super::Cache;
use super::values::{Entry, EntryState, Place};

/// Limit on unused resources, besides the limit in bytes: without it empty files would pile up for
/// ever.
const UNUSED_MAX: usize = 1 << 16;

impl Cache {
    /// Removes unused public and private resources from the index, least recently used first, until
    /// all of them together take at most `target_bytes`. Returns the places to delete.
    pub(in super::super) fn evict(&mut self, target_bytes: u64) -> Vec<(Scope, Place)> {
        let mut total = 0_u64;
        let mut unused = BTreeMap::new();
        for (id, entry) in &self.entries {
            let shared = !matches!(entry.scope, Scope::Application(..));
            if let (true, EntryState::Ready { bytes, .. }) = (shared, &entry.state) {
                total = total.saturating_add(*bytes);
                if entry.users.is_empty() {
                    unused.insert((entry.last_used, *id), *bytes);
                }
            }
        }
        let mut evicted = Vec::new();
        let mut kept = unused.len();
        for ((_, id), bytes) in unused {
            if total <= target_bytes && kept <= UNUSED_MAX {
                break;
            }
            total = total.saturating_sub(bytes);
            kept -= 1;
            let _listed = self.unlist(id);
            if let Some(Entry {
                scope,
                state: EntryState::Ready { place, .. },
                ..
            }) = self.entries.remove(&id)
            {
                self.release_place(&scope, &place);
                evicted.push((scope, place));
            }
        }
        evicted
    }
}
