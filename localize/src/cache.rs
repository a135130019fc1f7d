//! Index of the caches: the place and the users of each resource, the requests that wait for it,
//! and eviction. No I/O and no clock.
//!
//! ```text
//!            begin                finish(Ok)              last user released
//!  (nothing) ─────► Downloading ───────────► Ready, used ────────────────────► Ready, unused
//!      ▲                │  finish(Err),          ▲                                  │   │
//!      └────────────────┘  none waiting          └────────── begin ─────────────────┘   │ evict
//!      ▲                                                                                ▼
//!      └──────────────────────────────────────────────────────────────────────── (nothing)
//! ```
//! A resource found missing on the disk is *detached*: requests no longer find it, those that use
//! it keep it.

mod evict;
mod places;
mod requests;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use records::ContainerId;

use super::error::FetchError;
use super::layout::Scope;

use places::ScopeIndex;
use requests::{Item, ItemState, Request};
pub(super) use values::{
    CachedResource, Complete, Download, EntryId, Failure, Finished, Place, RequestId, RequestPlan,
    Wanted,
};
use values::{Entry, EntryState};

/// Limit on resources that requests may wait for at once. A container rarely has more than 100, so
/// this is some hundred containers that start together; the status of a waiting resource is a few
/// hundred bytes.
pub(super) const WAITING_MAX: usize = 1 << 16;

/// Index of all caches and of the requests for their resources.
#[derive(Debug)]
pub(super) struct Cache {
    files_per_directory: u32,
    scopes: BTreeMap<Scope, ScopeIndex>,
    entries: BTreeMap<EntryId, Entry>,
    requests: BTreeMap<RequestId, Request>,
    by_container: BTreeMap<ContainerId, Vec<RequestId>>,
    /// Number of items in the states `New` and `Waiting`.
    waiting: usize,
    /// Counter, source of ids and of the order of use.
    tick: u64,
}

/// Refusal of a request above [`WAITING_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyWaiting;

impl Cache {
    /// Returns an empty index; `files_per_directory` as configured.
    pub(super) fn new(files_per_directory: u32) -> Self {
        Self {
            files_per_directory,
            scopes: BTreeMap::new(),
            entries: BTreeMap::new(),
            requests: BTreeMap::new(),
            by_container: BTreeMap::new(),
            waiting: 0,
            tick: 0,
        }
    }

    /// Registers the resources that a container asks for. From now on the request can be plan,
    /// cancelled and released.
    pub(super) fn register(
        &mut self,
        container: ContainerId,
        wanted: Vec<Wanted>,
    ) -> Result<RequestId, TooManyWaiting> {
        if wanted.len() > WAITING_MAX - self.waiting.min(WAITING_MAX) {
            return Err(TooManyWaiting);
        }
        self.waiting += wanted.len();
        let request = RequestId(self.next_tick());
        let new = |wanted| Item {
            wanted,
            state: ItemState::New,
            was_cached: false,
        };
        let items = wanted.into_iter().map(new).collect();
        self.requests.insert(request, Request { container, items });
        self.by_container
            .entry(container)
            .or_default()
            .push(request);
        Ok(request)
    }

    /// Returns the places of the request's cached resources, for the caller to check on the disk
    /// before [`Self::begin`].
    pub(super) fn cached_places(&self, request: RequestId) -> Vec<(EntryId, Scope, Place)> {
        let Some(request) = self.requests.get(&request) else {
            return Vec::new();
        };
        let places = request.items.iter().filter_map(|item| {
            let id = self.find(&item.wanted)?;
            match &self.entries.get(&id)?.state {
                EntryState::Ready { place, .. } => {
                    Some((id, item.wanted.scope.clone(), place.clone()))
                }
                EntryState::Downloading(_) => None,
            }
        });
        places.collect()
    }

    /// Assigns to a request the cached resources, makes it wait for those being downloaded, and
    /// returns the other downloads to start. Entries in `missing` are not on the disk.
    pub(super) fn begin(&mut self, id: RequestId, missing: &[EntryId]) -> RequestPlan {
        let mut plan = RequestPlan::default();
        for entry in missing {
            self.detach(*entry);
        }
        let tick = self.next_tick();
        let Some(request) = self.requests.get_mut(&id) else {
            return plan;
        };
        for item in &mut request.items {
            if !matches!(item.state, ItemState::New) {
                continue;
            }
            let wanted = &item.wanted;
            let index = self.scopes.entry(wanted.scope.clone()).or_default();
            let entry_id = *index.entries.entry(wanted.key()).or_insert_with(|| {
                self.tick += 1;
                EntryId(self.tick)
            });
            let entry = self.entries.entry(entry_id).or_insert_with(|| {
                plan.downloads.push(wanted.download(entry_id));
                Entry::downloading(wanted)
            });
            match &mut entry.state {
                EntryState::Downloading(waiters) => {
                    waiters.push(id);
                    item.state = ItemState::Waiting(entry_id);
                }
                EntryState::Ready { .. } => {
                    entry.users.insert(request.container);
                    entry.last_used = tick;
                    item.state = ItemState::Has(entry_id);
                    item.was_cached = true;
                    self.waiting -= 1;
                }
            }
        }
        plan.complete = self.complete(id);
        plan
    }

    /// Returns whether a request still waits for this download.
    pub(super) fn is_waited_for(&self, entry: EntryId) -> bool {
        self.entries.contains_key(&entry)
    }

    /// Records the end of a download.
    pub(super) fn finish(
        &mut self,
        id: EntryId,
        result: Result<(Place, u64), Arc<FetchError>>,
    ) -> Finished {
        let mut finished = Finished::default();
        let tick = self.next_tick();
        let Some(entry) = self.entries.get_mut(&id) else {
            finished.unwanted = true;
            return finished;
        };
        let EntryState::Downloading(waiters) = &mut entry.state else {
            return finished;
        };
        let waiters: BTreeSet<RequestId> = std::mem::take(waiters).into_iter().collect();
        match result {
            Ok((place, bytes)) => {
                entry.state = EntryState::Ready { place, bytes };
                entry.last_used = tick;
                for waiter in waiters {
                    self.assign(waiter, id);
                    if let Some(complete) = self.complete(waiter) {
                        finished.complete.push((waiter, complete));
                    }
                }
            }
            Err(error) => {
                self.detach(id);
                for waiter in waiters {
                    if let Some(failure) = self.fail(waiter, id, &error) {
                        finished.failed.push((waiter, failure));
                    }
                }
            }
        }
        finished
    }

    /// Returns whether this cache is indexed: not once its application has ended.
    pub(super) fn has_scope(&self, scope: &Scope) -> bool {
        self.scopes.contains_key(scope)
    }

    fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Unlists an entry, and removes it altogether once no container uses it.
    fn detach(&mut self, id: EntryId) {
        self.unlist(id);
        if self
            .entries
            .get(&id)
            .is_some_and(|entry| entry.users.is_empty())
        {
            self.entries.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests;
