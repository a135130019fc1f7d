//! Index of the caches: the place and the users of each resource, the requests that wait for it,
//! and eviction. No I/O and no clock.
//!
//! ```text
//!            begin                finish(Ok)              last user released
//!  (nothing) ─────► Downloading ───────────► Ready, used ────────────────────► Ready, unused
//!      ▲                │  finish(Err),          ▲                                  │   │
//!      └────────────────┘  nobody waits          └────────── begin ─────────────────┘   │ evict
//!      ▲                                                                                ▼
//!      └──────────────────────────────────────────────────────────────────────── (nothing)
//! ```
//! A resource found missing on the disk is *detached*: requests no longer find it, those that use
//! it keep it.

mod evict;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use records::{ApplicationId, ContainerId};

use super::error::FetchError;
use super::layout::Scope;
use super::resource::{LocalizationState, ResourceStatus};
use super::shard::Shards;

pub(super) use values::{
    Begun, Complete, Download, EntryId, Failure, Finished, Had, Place, RequestId, Wanted,
};
use values::{CacheKey, Entry, EntryState};

/// Limit on resources that requests may wait for at once. A container rarely has more than 100, so
/// this is some hundred containers that start together; the status of a waiting resource is a few
/// hundred bytes.
pub(super) const WAITING_MAX: usize = 1 << 16;

/// First id of a cache (Hadoop: `LocalResourcesTrackerImpl` counts up from 9 before use).
const FIRST_ID: u64 = 10;

#[derive(Debug)]
struct Request {
    container: ContainerId,
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    wanted: Wanted,
    state: ItemState,
    /// Found in the cache by the request, and not waited for.
    was_cached: bool,
}

#[derive(Debug)]
enum ItemState {
    /// Not looked up yet.
    New,
    Waiting(EntryId),
    Has(EntryId),
    Failed(Arc<FetchError>),
    /// Cancelled: the container was cancelled, or another of its resources failed.
    Dropped,
}

#[derive(Debug)]
struct ScopeBooks {
    next_id: u64,
    entries: BTreeMap<CacheKey, EntryId>,
    /// Directories in use, by disk.
    shards: BTreeMap<usize, Shards>,
}

/// Index of all caches and of the requests for their resources.
#[derive(Debug)]
pub(super) struct Cache {
    files_per_directory: u32,
    scopes: BTreeMap<Scope, ScopeBooks>,
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

    /// Registers the resources that a container asks for. From now on the request can be begun,
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
    pub(super) fn known(&self, request: RequestId) -> Vec<(EntryId, Scope, Place)> {
        let Some(request) = self.requests.get(&request) else {
            return Vec::new();
        };
        let known = request.items.iter().filter_map(|item| {
            let id = self.find(&item.wanted)?;
            match &self.entries.get(&id)?.state {
                EntryState::Ready { place, .. } => {
                    Some((id, item.wanted.scope.clone(), place.clone()))
                }
                EntryState::Downloading(_) => None,
            }
        });
        known.collect()
    }

    /// Assigns to a request the cached resources, makes it wait for those being downloaded, and
    /// returns the other downloads to start. Entries in `missing` are not on the disk.
    pub(super) fn begin(&mut self, id: RequestId, missing: &[EntryId]) -> Begun {
        let mut begun = Begun::default();
        for entry in missing {
            self.detach(*entry);
        }
        let tick = self.next_tick();
        let Some(request) = self.requests.get_mut(&id) else {
            return begun;
        };
        for item in &mut request.items {
            if !matches!(item.state, ItemState::New) {
                continue;
            }
            let wanted = &item.wanted;
            let books = self.scopes.entry(wanted.scope.clone()).or_default();
            let entry_id = *books.entries.entry(wanted.key()).or_insert_with(|| {
                self.tick += 1;
                EntryId(self.tick)
            });
            let entry = self.entries.entry(entry_id).or_insert_with(|| {
                begun.downloads.push(wanted.download(entry_id));
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
        begun.complete = self.complete(id);
        begun
    }

    /// Returns whether a request still waits for this download.
    pub(super) fn is_waited_for(&self, entry: EntryId) -> bool {
        self.entries.contains_key(&entry)
    }

    /// Returns a new place on a disk for a download; to be released if not used. `None` if no
    /// request waits for it.
    pub(super) fn take_place(&mut self, entry: EntryId, disk: usize) -> Option<Place> {
        let limit = self.files_per_directory;
        let entry = self.entries.get(&entry)?;
        let books = self.scopes.entry(entry.scope.clone()).or_default();
        let id = books.next_id;
        books.next_id += 1;
        let shard = match entry.scope {
            Scope::Public | Scope::Private(_) => {
                let shards = books
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
    pub(super) fn give_place_back(&mut self, scope: &Scope, place: &Place) {
        let shards = self
            .scopes
            .get_mut(scope)
            .and_then(|books| books.shards.get_mut(&place.disk));
        if let (Some(shards), Some(shard)) = (shards, place.shard) {
            shards.give_back(shard);
        }
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
                    self.give(waiter, id);
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

    /// Cancels a container's pending resources, and returns its open requests. Its localized
    /// resources stay in use.
    pub(super) fn cancel(&mut self, container: ContainerId) -> Vec<RequestId> {
        let requests = self.by_container.get(&container).cloned();
        let mut open = requests.unwrap_or_default();
        open.retain(|request| self.drop_waiting(*request));
        open
    }

    /// Releases all resources of a container. Returns its open requests.
    pub(super) fn release(&mut self, container: ContainerId) -> Vec<RequestId> {
        let open = self.cancel(container);
        let tick = self.next_tick();
        for request in self.by_container.remove(&container).unwrap_or_default() {
            let items = self.requests.remove(&request).map(|request| request.items);
            for item in items.unwrap_or_default() {
                if let ItemState::Has(entry) = item.state {
                    self.stop_using(entry, container, tick);
                }
            }
        }
        open
    }

    /// Removes the cache of an application, whose folders are about to be deleted, and cancels the
    /// pending resources of its containers. Returns their open requests.
    pub(super) fn remove_application(
        &mut self,
        scope: &Scope,
        application: ApplicationId,
    ) -> Vec<RequestId> {
        let containers = self.by_container.keys().copied();
        let its: Vec<_> = containers
            .filter(|container| container.application_id() == application)
            .collect();
        let open = its
            .into_iter()
            .flat_map(|container| self.cancel(container))
            .collect();
        let books = self.scopes.remove(scope);
        for entry in books
            .into_iter()
            .flat_map(|books| books.entries.into_values())
        {
            self.entries.remove(&entry);
        }
        open
    }

    /// Returns whether this cache is indexed: not once its application has ended.
    pub(super) fn has_scope(&self, scope: &Scope) -> bool {
        self.scopes.contains_key(scope)
    }

    /// Returns the state of each resource of a container, in the order of the requests.
    pub(super) fn status(&self, container: ContainerId) -> Vec<ResourceStatus> {
        let requests = self.by_container.get(&container).into_iter().flatten();
        let items = requests
            .filter_map(|request| self.requests.get(request))
            .flat_map(|request| &request.items);
        let status = |item: &Item| {
            let (state, diagnostics) = match &item.state {
                ItemState::New | ItemState::Waiting(_) | ItemState::Dropped => {
                    (LocalizationState::Pending, String::new())
                }
                ItemState::Has(_) => (LocalizationState::Completed, String::new()),
                ItemState::Failed(error) => (
                    LocalizationState::Failed,
                    crate::error_chain(error.as_ref()),
                ),
            };
            ResourceStatus {
                link: item.wanted.link.clone(),
                state,
                diagnostics,
            }
        };
        items.map(status).collect()
    }

    fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    fn find(&self, wanted: &Wanted) -> Option<EntryId> {
        let books = self.scopes.get(&wanted.scope)?;
        books.entries.get(&wanted.key()).copied()
    }

    /// Removes an entry from its cache's index, so that no request finds it.
    fn unlist(&mut self, id: EntryId) {
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        if let Some(books) = self.scopes.get_mut(&entry.scope)
            && books.entries.get(&entry.key) == Some(&id)
        {
            books.entries.remove(&entry.key);
        }
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

    /// Assigns a downloaded resource to a request that waits for it.
    fn give(&mut self, request: RequestId, entry: EntryId) {
        let Some(request) = self.requests.get_mut(&request) else {
            return;
        };
        for item in &mut request.items {
            if matches!(item.state, ItemState::Waiting(id) if id == entry) {
                item.state = ItemState::Has(entry);
                self.waiting -= 1;
            }
        }
        if let Some(entry) = self.entries.get_mut(&entry) {
            entry.users.insert(request.container);
        }
    }

    /// Fails a request with the failure of one resource, and cancels its other pending resources.
    fn fail(&mut self, id: RequestId, entry: EntryId, error: &Arc<FetchError>) -> Option<Failure> {
        let mut failure = None;
        let request = self.requests.get_mut(&id)?;
        for item in &mut request.items {
            if matches!(item.state, ItemState::Waiting(id) if id == entry) {
                item.state = ItemState::Failed(error.clone());
                self.waiting -= 1;
                failure.get_or_insert_with(|| Failure {
                    link: item.wanted.link.clone(),
                    url: item.wanted.spec.url.clone(),
                    error: error.clone(),
                });
            }
        }
        self.drop_waiting(id);
        failure
    }

    /// Cancels the pending resources of a request; downloads that no other request waits for are
    /// detached. Returns whether the request was open.
    fn drop_waiting(&mut self, id: RequestId) -> bool {
        let Some(request) = self.requests.get_mut(&id) else {
            return false;
        };
        let mut entries = BTreeSet::new();
        let mut open = false;
        for item in &mut request.items {
            match item.state {
                ItemState::Waiting(entry) => {
                    entries.insert(entry);
                }
                ItemState::New => {}
                ItemState::Has(_) | ItemState::Failed(_) | ItemState::Dropped => continue,
            }
            item.state = ItemState::Dropped;
            self.waiting -= 1;
            open = true;
        }
        for entry in entries {
            if let Some(Entry {
                state: EntryState::Downloading(waiters),
                ..
            }) = self.entries.get_mut(&entry)
            {
                waiters.retain(|waiter| *waiter != id);
                if waiters.is_empty() {
                    self.detach(entry);
                }
            }
        }
        open
    }

    fn stop_using(&mut self, id: EntryId, container: ContainerId, tick: u64) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.users.remove(&container);
        entry.last_used = tick;
        let listed = self
            .scopes
            .get(&entry.scope)
            .is_some_and(|books| books.entries.get(&entry.key) == Some(&id));
        if entry.users.is_empty() && !listed {
            self.entries.remove(&id);
        }
    }

    /// Returns the resources of a request if it has all of them.
    fn complete(&self, request: RequestId) -> Option<Complete> {
        let request = self.requests.get(&request)?;
        let has = |item: &Item| match item.state {
            ItemState::Has(entry) => match &self.entries.get(&entry)?.state {
                EntryState::Ready { place, bytes } => Some(Had {
                    link: item.wanted.link.clone(),
                    scope: item.wanted.scope.clone(),
                    place: place.clone(),
                    bytes: *bytes,
                    was_cached: item.was_cached,
                }),
                EntryState::Downloading(_) => None,
            },
            ItemState::New | ItemState::Waiting(_) | ItemState::Failed(_) | ItemState::Dropped => {
                None
            }
        };
        request.items.iter().map(has).collect()
    }
}

impl Default for ScopeBooks {
    fn default() -> Self {
        Self {
            next_id: FIRST_ID,
            entries: BTreeMap::new(),
            shards: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests;
