//! Index of each cache by resource, and the places of downloads on its disks.

use std::collections::BTreeMap;

use super::super::layout::Scope;
use super::super::shard::Shards;
use super::Cache;
use super::values::{CacheKey, EntryId, Place};

/// Index of one cache, with the next resource number.
#[derive(Debug)]
pub(super) struct ScopeIndex {
    pub(super) next_id: u64,
    pub(super) entries: BTreeMap<CacheKey, EntryId>,
    /// Directories in use, by disk.
    pub(super) shards: BTreeMap<usize, Shards>,
}

impl ScopeIndex {
    /// Returns an empty index whose resources have numbers from `first_id` on.
    pub(super) fn new(first_id: u64) -> Self {
        Self {
            next_id: first_id,
            entries: BTreeMap::new(),
            shards: BTreeMap::new(),
        }
    }
}

impl Cache {
    /// Returns a new place on a disk for a download; to be released if not used. `None` if no
    /// request waits for it.
    pub(in super::super) fn take_place(&mut self, entry: EntryId, disk: usize) -> Option<Place> {
        let limit = self.files_per_directory;
        let entry = self.entries.get(&entry)?;
        let index = self.scopes.entry(entry.scope.clone());
        let index = index.or_insert_with(|| ScopeIndex::new(self.first_id));
        let id = index.next_id;
        index.next_id += 1;
        let shard = match entry.scope {
            Scope::Public | Scope::Private(_) => {
                let shards = index
                    .shards
                    .entry(disk)
                    .or_insert_with(|| Shards::new(limit));
                Some(shards.take())
            }
            Scope::Application(..) => None,
        };
        let name = entry.name.clone();
        Some(Place {
            disk,
            shard,
            id,
            name,
        })
    }

    /// Releases a place that is empty again.
    pub(in super::super) fn release_place(&mut self, scope: &Scope, place: &Place) {
        let shards = self
            .scopes
            .get_mut(scope)
            .and_then(|index| index.shards.get_mut(&place.disk));
        if let (Some(shards), Some(shard)) = (shards, place.shard) {
            shards.release(shard);
        }
    }

    /// Removes an entry from its cache's index, so that no request finds it. Returns whether it was
    /// there.
    pub(super) fn unlist(&mut self, id: EntryId) -> bool {
        let Some(entry) = self.entries.get(&id) else {
            return false;
        };
        if let Some(index) = self.scopes.get_mut(&entry.scope)
            && index.entries.get(&entry.key) == Some(&id)
        {
            index.entries.remove(&entry.key);
            return true;
        }
        false
    }
}
