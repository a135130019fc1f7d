//! Resources of an earlier run of the agent that are in the caches, and their users.

use std::collections::BTreeSet;

use records::ContainerId;

use super::super::layout::Scope;
use super::super::shard::Shards;
use super::Cache;
use super::places::ScopeIndex;
use super::values::{CacheKey, Entry, EntryId, EntryState, Place};

/// A resource that an earlier run of the agent downloaded.
#[derive(Clone, Debug)]
pub(in super::super) struct Restored {
    pub(in super::super) scope: Scope,
    pub(in super::super) key: CacheKey,
    pub(in super::super) place: Place,
    pub(in super::super) bytes: u64,
    /// Containers that use it.
    pub(in super::super) users: BTreeSet<ContainerId>,
}

impl Cache {
    /// Lists a resource that is on the disk, as used last of all so far. Returns whether it is: not
    /// if there is another one like it.
    pub(in super::super) fn restore(&mut self, restored: Restored) -> bool {
        let Restored {
            scope,
            key,
            place,
            bytes,
            users,
        } = restored;
        let (limit, first_id) = (self.files_per_directory, self.first_id);
        let tick = self.next_tick();
        let id = EntryId(tick);
        let index = self.scopes.entry(scope.clone());
        let index = index.or_insert_with(|| ScopeIndex::new(first_id));
        if index.entries.contains_key(&key) {
            return false;
        }
        index.entries.insert(key.clone(), id);
        if let Some(shard) = place.shard {
            let shards = index.shards.entry(place.disk);
            let shards = shards.or_insert_with(|| Shards::new(limit));
            shards.count(shard);
        }
        for container in &users {
            self.held.entry(*container).or_default().push(id);
        }
        let entry = Entry {
            scope,
            key,
            name: place.name.clone(),
            state: EntryState::Ready { place, bytes },
            users,
            last_used: tick,
            checked: tick,
            seen_ms: None,
        };
        self.entries.insert(id, entry);
        true
    }
}
