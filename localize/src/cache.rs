//! Index of the caches: the place and the users of each resource, the requests that wait for it,
//! and eviction. No I/O and no clock: times are given, in milliseconds from any moment on.
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
//!
//! A step costs as much as the resources it concerns, never as much as a request or a cache holds:
//! one container may ask for many thousands. So a download knows which resources of which requests
//! wait for it, and a request counts its pending ones.

mod downloads;
mod evict;
mod gone;
mod past;
mod places;
mod requests;
mod restore;
mod seen;
mod sets;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use records::ContainerId;

use super::error::FetchError;
use super::layout::Scope;
use super::resource::SetNumber;
use super::user_name::UserName;

use downloads::{Downloads, Lane};
use past::Past;
use places::ScopeIndex;
use requests::{Item, ItemState, Request};
pub(super) use restore::Restored;
pub(super) use seen::Belief;
pub(super) use values::{
    Asker, Begun, CacheKey, CachedResource, Complete, Download, EntryId, Failure, Finished, Lost,
    Place, RequestId, Wanted,
};
use values::{Entry, EntryState};

/// Number of a request's resources that one [`Cache::begin`] takes. Looking each up on the disk
/// costs some 20 µs, so a large request holds up others for a few milliseconds.
pub(super) const BEGIN_MAX: usize = 256;

/// Index of all caches and of the requests for their resources.
#[derive(Debug)]
pub(super) struct Cache {
    files_per_directory: u32,
    first_id: u64,
    scopes: BTreeMap<Scope, ScopeIndex>,
    entries: BTreeMap<EntryId, Entry>,
    requests: BTreeMap<RequestId, Request>,
    by_container: BTreeMap<ContainerId, Vec<RequestId>>,
    /// Resources that containers of an earlier run of the agent use.
    held: BTreeMap<ContainerId, Vec<EntryId>>,
    /// Resources that containers had until they ended.
    past: Past,
    downloads: Downloads,
    /// Counter, source of ids and of the order of use.
    tick: u64,
}

impl Cache {
    /// Returns an empty index whose resources have numbers from `first_id` on;
    /// `files_per_directory` and `shared_threads` as configured.
    pub(super) fn new(files_per_directory: u32, shared_threads: usize, first_id: u64) -> Self {
        Self {
            files_per_directory,
            first_id,
            scopes: BTreeMap::new(),
            entries: BTreeMap::new(),
            requests: BTreeMap::new(),
            by_container: BTreeMap::new(),
            held: BTreeMap::new(),
            past: Past::new(past::BYTES_MAX),
            downloads: Downloads::new(shared_threads),
            tick: 0,
        }
    }

    /// Registers the resources of a set that a user's container asks for. From now on the request
    /// can be begun and released.
    pub(super) fn register(
        &mut self,
        container: ContainerId,
        set: SetNumber,
        user: UserName,
        wanted: Vec<Wanted>,
    ) -> RequestId {
        let id = RequestId(self.next_tick());
        let new = |wanted| Item {
            wanted,
            state: ItemState::New,
            was_cached: false,
        };
        let items: Vec<_> = wanted.into_iter().map(new).collect();
        let request = Request {
            container,
            set,
            user,
            begun: 0,
            pending: items.len(),
            brings_back: false,
            items,
        };
        self.requests.insert(id, request);
        self.by_container.entry(container).or_default().push(id);
        id
    }

    /// Returns the places of cached resources among those that the next [`Self::begin`] takes, for
    /// the caller to check on the disk before that. Leaves out the resources that were checked
    /// since the request was registered, for another one: containers of a job want the same ones
    /// at once.
    pub(super) fn places_to_check(&mut self, id: RequestId) -> Vec<(EntryId, Scope, Place)> {
        let tick = self.next_tick();
        let Some(request) = self.requests.get(&id) else {
            return Vec::new();
        };
        let next = request.items.iter().skip(request.begun).take(BEGIN_MAX);
        let places = next.filter_map(|item| {
            let wanted = &item.wanted;
            let entry_id = *self.scopes.get(&wanted.scope)?.entries.get(&wanted.key())?;
            let entry = self.entries.get_mut(&entry_id)?;
            match &entry.state {
                EntryState::Ready { place, .. } if entry.checked < id.0 => {
                    entry.checked = tick;
                    Some((entry_id, wanted.scope.clone(), place.clone()))
                }
                EntryState::Ready { .. } | EntryState::Downloading { .. } => None,
            }
        });
        places.collect()
    }

    /// Assigns to a request the cached ones of its next [`BEGIN_MAX`] resources, and makes it wait
    /// for the others, whose downloads are queued. Entries in `missing` are not on the disk.
    pub(super) fn begin(&mut self, id: RequestId, missing: &[EntryId]) -> Begun {
        let mut forgotten = Vec::new();
        for entry in missing {
            forgotten.extend(self.detach(*entry));
        }
        let tick = self.next_tick();
        let Some(request) = self.requests.get_mut(&id) else {
            return Begun {
                forgotten,
                ..Begun::default()
            };
        };
        let items = request.items.iter_mut().enumerate();
        for (position, item) in items.skip(request.begun).take(BEGIN_MAX) {
            request.begun = position + 1;
            if !matches!(item.state, ItemState::New) {
                continue;
            }
            let wanted = &item.wanted;
            let index = self.scopes.entry(wanted.scope.clone());
            let index = index.or_insert_with(|| ScopeIndex::new(self.first_id));
            let entry_id = *index.entries.entry(wanted.key()).or_insert_with(|| {
                self.tick += 1;
                EntryId(self.tick)
            });
            let new = || Entry::downloading(wanted);
            let entry = self.entries.entry(entry_id).or_insert_with(new);
            match &mut entry.state {
                EntryState::Downloading { waiters, .. } => {
                    let positions = waiters.entry(id).or_default();
                    if positions.is_empty() {
                        let lane = lane_of(&wanted.scope);
                        self.downloads.ask(entry_id, lane, &request.user);
                    }
                    positions.push(position);
                    item.state = ItemState::Waiting(entry_id);
                }
                EntryState::Ready { .. } => {
                    entry.users.insert(request.container);
                    entry.last_used = tick;
                    item.state = ItemState::Has(entry_id);
                    item.was_cached = true;
                    request.pending -= 1;
                }
            }
        }
        Begun {
            is_partial: request.begun < request.items.len(),
            complete: self.complete(id),
            forgotten,
        }
    }

    /// Starts the download whose turn it is, if there is a thread for it. Each started download is
    /// followed by [`Self::finish`] and [`Self::thread_ended`].
    pub(super) fn next_download(&mut self) -> Option<Download> {
        loop {
            let (id, progress) = self.downloads.next()?;
            if let Some(entry) = self.entries.get(&id)
                && let EntryState::Downloading { spec, waiters } = &entry.state
                && let Some(asker) = waiters.keys().find_map(|waiter| self.asker(*waiter))
            {
                return Some(Download {
                    entry: id,
                    scope: entry.scope.clone(),
                    spec: spec.clone(),
                    progress,
                    asker,
                });
            }
            self.downloads.ended(id);
        }
    }

    fn asker(&self, request: RequestId) -> Option<Asker> {
        let request = self.requests.get(&request)?;
        Some(Asker {
            user: request.user.clone(),
            application: request.container.application_id(),
        })
    }

    /// Records that the thread of a download is free again.
    pub(super) fn thread_ended(&mut self, entry: EntryId) {
        self.downloads.ended(entry);
    }

    /// Returns the number of threads that download.
    pub(super) fn threads(&self) -> usize {
        self.downloads.threads()
    }

    /// Makes all downloads under way abort at their next step.
    pub(super) fn give_up_all(&self) {
        self.downloads.give_up_all();
    }

    /// Fails the downloads without progress for `limit_ms`. To be called at intervals much shorter
    /// than that; the first call that sees a download starts its time.
    pub(super) fn fail_stalled(&mut self, now_ms: u64, limit_ms: u64) -> Finished {
        let mut all = Finished::default();
        for id in self.downloads.check_progress(now_ms, limit_ms) {
            let Some(entry) = self.entries.get(&id) else {
                continue;
            };
            let url = entry.key.url.to_string();
            let error = FetchError::Stalled { url, limit_ms };
            all.failed
                .append(&mut self.finish(id, Err(Arc::new(error))).failed);
        }
        all
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
        let EntryState::Downloading { waiters, .. } = &mut entry.state else {
            return finished;
        };
        let waiters = std::mem::take(waiters);
        match result {
            Ok((place, bytes)) => {
                entry.state = EntryState::Ready { place, bytes };
                entry.last_used = tick;
                entry.checked = tick;
                for (waiter, positions) in waiters {
                    self.assign(waiter, id, &positions);
                    if let Some(complete) = self.complete(waiter) {
                        finished.complete.push((waiter, complete));
                    }
                }
            }
            Err(error) => {
                // It had no place yet.
                let _none = self.detach(id);
                for (waiter, positions) in waiters {
                    if let Some(failure) = self.fail(waiter, &positions, &error) {
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

    /// Unlists an entry, and removes it altogether once no container uses it. Returns its place, if
    /// it had one and was listed.
    fn detach(&mut self, id: EntryId) -> Option<(Scope, Place)> {
        let was_listed = self.unlist(id);
        let entry = self.entries.get(&id)?;
        let forgotten = match &entry.state {
            EntryState::Ready { place, .. } if was_listed => {
                Some((entry.scope.clone(), place.clone()))
            }
            EntryState::Ready { .. } | EntryState::Downloading { .. } => None,
        };
        if entry.users.is_empty() {
            self.entries.remove(&id);
        }
        forgotten
    }
}

/// Returns the threads that download to a cache.
fn lane_of(scope: &Scope) -> Lane {
    match scope {
        Scope::Public => Lane::Public,
        Scope::Private(_) | Scope::Application(..) => Lane::Own,
    }
}

#[cfg(test)]
mod tests;
