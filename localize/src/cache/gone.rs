//! Resources that a container has got and that were removed from the disk before it used them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use records::ContainerId;

use super::super::layout::Scope;
use super::super::resource::{ResourceSpec, SetNumber, Visibility};
use super::super::user_name::UserName;
use super::requests::Item;
use super::values::{Entry, EntryId, EntryState, Place, RequestId, Wanted};
use super::{Cache, Lost};

impl Cache {
    /// Registers a request for resources that a container uses and that are gone from their paths,
    /// and forgets what is there: no request finds it any more. The links come with the paths, and
    /// the request has their order. `path_of` returns the path of a place. `None`: the container
    /// uses nothing at one of the paths.
    ///
    /// Statuses go on telling the resources as complete. What an earlier such request has brought
    /// back of the same links is released.
    pub(in super::super) fn bring_back(
        &mut self,
        container: ContainerId,
        user: UserName,
        gone: &[(String, PathBuf)],
        path_of: impl Fn(&Scope, &Place) -> PathBuf,
    ) -> Option<Lost> {
        self.release_brought_back(container);
        let mut by_path = BTreeMap::new();
        let mut set = SetNumber::default();
        for (id, of_set) in self.used_by(container) {
            if let Some(entry) = self.entries.get(&id)
                && let EntryState::Ready { place, .. } = &entry.state
            {
                by_path.insert(path_of(&entry.scope, place), id);
                set = set.max(of_set);
            }
        }
        let mut wanted = Vec::with_capacity(gone.len());
        let mut missing = BTreeSet::new();
        for (link, path) in gone {
            let id = *by_path.get(path)?;
            wanted.push(self.entries.get(&id)?.wanted_again(link.clone()));
            missing.insert(id);
        }
        let forgotten = missing.into_iter().filter_map(|id| self.detach(id));
        let forgotten = forgotten.collect();
        let request = self.register(container, set, user, wanted);
        if let Some(request) = self.requests.get_mut(&request) {
            request.brings_back = true;
        }
        Some(Lost { request, forgotten })
    }

    /// Returns the entries that a container uses, with the sets that they are of.
    fn used_by(&self, container: ContainerId) -> Vec<(EntryId, SetNumber)> {
        let held = self.held.get(&container).into_iter().flatten();
        let mut used: Vec<_> = held.map(|id| (*id, SetNumber::default())).collect();
        for request in self.requests_of(container) {
            let has = request.items.iter().filter_map(Item::entry);
            used.extend(has.map(|entry| (entry, request.set)));
        }
        used
    }

    /// Releases what was brought back for a container and has been brought back once more since, so
    /// that a container with many launches holds no more than another.
    fn release_brought_back(&mut self, container: ContainerId) {
        let before = self.entries_of(container);
        let ids: Vec<RequestId> = self
            .by_container
            .get(&container)
            .cloned()
            .unwrap_or_default();
        let mut later_links = BTreeSet::new();
        for id in ids.into_iter().rev() {
            let request = self.requests.get(&id);
            if request.is_some_and(|request| request.brings_back && request.pending == 0) {
                self.settle(id, true, &mut later_links);
            }
        }
        self.release_dropped(container, &before);
    }
}

impl Entry {
    /// Returns the resource as a request for it names it, with the bytes that it had on the disk.
    fn wanted_again(&self, link: String) -> Wanted {
        let visibility = match self.scope {
            Scope::Public => Visibility::Public,
            Scope::Private(_) => Visibility::Private,
            Scope::Application(..) => Visibility::Application,
        };
        let bytes = match self.state {
            EntryState::Ready { bytes, .. } => bytes,
            EntryState::Downloading { .. } => 0,
        };
        Wanted {
            link,
            scope: self.scope.clone(),
            name: self.name.clone(),
            spec: Arc::new(ResourceSpec {
                url: self.key.url.clone(),
                size: i64::try_from(bytes).unwrap_or(-1),
                timestamp_ms: self.key.timestamp_ms,
                kind: self.key.kind.clone(),
                visibility,
            }),
        }
    }
}
