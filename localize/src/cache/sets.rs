//! Sets of a container's resources: which of them it has, and what is released when a launch
//! context replaces another (Hadoop: `ResourceSet`).

use std::collections::BTreeSet;

use records::ContainerId;

use super::super::resource::{LocalizationState, ResourceStatus, SetNumber, UsedSets};
use super::Cache;
use super::requests::{Item, ItemState, Request};
use super::values::{EntryId, RequestId};

impl Cache {
    /// Returns the state of each resource of a container's sets up to this one, in the order of the
    /// requests, also of one that was released. A link of several sets, or of several resources, is
    /// complete once. What is pending or has failed counts for its own set only.
    pub(in super::super) fn status(
        &self,
        container: ContainerId,
        set: SetNumber,
    ) -> Vec<ResourceStatus> {
        let mut complete = BTreeSet::new();
        let requests = self.requests_of(container);
        let now = requests.flat_map(Request::told);
        let told = now.chain(self.past.of(container).cloned());
        let shown = told.filter(|(of, status)| match status.state {
            LocalizationState::Completed => *of <= set && complete.insert(status.link.clone()),
            LocalizationState::Pending | LocalizationState::Failed => *of == set,
        });
        shown.map(|(_, status)| status).collect()
    }

    /// Forgets what became of the resources of a container that has ended.
    pub(in super::super) fn forget_past(&mut self, container: ContainerId) {
        self.past.forget(container);
    }

    /// Releases what a container no longer uses: sets after the last but the next one, and of those
    /// before the one that it may go back to, or else before the last, the links that were replaced
    /// up to there and what was not localized. Returns the open requests of later sets that are
    /// released, which are cancelled.
    pub(in super::super) fn use_sets(
        &mut self,
        container: ContainerId,
        used: UsedSets,
    ) -> Vec<RequestId> {
        let before = self.entries_of(container);
        let settled = used.back_to.unwrap_or(used.last);
        let ids = self.by_container.get(&container).cloned();
        let mut open = Vec::new();
        let mut later_links = BTreeSet::new();
        for id in ids.unwrap_or_default().into_iter().rev() {
            let Some(request) = self.requests.get_mut(&id) else {
                continue;
            };
            if request.set > used.last {
                if Some(request.set) == used.next {
                    continue;
                }
                if self.cancel_pending(id) {
                    open.push(id);
                }
                self.requests.remove(&id);
            } else if request.set <= settled {
                let drops_replaced = request.set < settled && request.pending == 0;
                self.settle(id, drops_replaced, &mut later_links);
            }
        }
        self.release_dropped(container, &before);
        open
    }

    /// Adds the links of a request's complete items to `later_links`. With `drops_replaced`, items
    /// that are not complete, and those whose links later requests have, leave the request before.
    /// An empty request is removed.
    pub(super) fn settle(
        &mut self,
        id: RequestId,
        drops_replaced: bool,
        later_links: &mut BTreeSet<String>,
    ) {
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        if drops_replaced {
            let is_used =
                |item: &Item| item.entry().is_some() && !later_links.contains(&item.wanted.link);
            request.items.retain(is_used);
            request.begun = request.items.len();
        }
        let complete = request.items.iter().filter(|item| item.entry().is_some());
        later_links.extend(complete.map(|item| item.wanted.link.clone()));
        if request.items.is_empty() {
            self.requests.remove(&id);
        }
    }

    /// Releases what a container used before and no request of it has any more. Forgets the
    /// requests that are gone.
    pub(super) fn release_dropped(&mut self, container: ContainerId, before: &BTreeSet<EntryId>) {
        if let Some(ids) = self.by_container.get_mut(&container) {
            ids.retain(|id| self.requests.contains_key(id));
            if ids.is_empty() {
                self.by_container.remove(&container);
            }
        }
        let tick = self.next_tick();
        let after = self.entries_of(container);
        let held = self.held.get(&container);
        let is_held = |entry: &EntryId| held.is_some_and(|held| held.contains(entry));
        let released: Vec<_> = before
            .difference(&after)
            .filter(|id| !is_held(id))
            .collect();
        for entry in released {
            self.stop_using(*entry, container, tick);
        }
    }

    pub(super) fn requests_of(&self, container: ContainerId) -> impl Iterator<Item = &Request> {
        let ids = self.by_container.get(&container).into_iter().flatten();
        ids.filter_map(|id| self.requests.get(id))
    }

    /// Returns the entries that a container uses.
    pub(super) fn entries_of(&self, container: ContainerId) -> BTreeSet<EntryId> {
        let requests = self.requests_of(container);
        let items = requests.flat_map(|request| &request.items);
        items.filter_map(Item::entry).collect()
    }
}

impl Request {
    /// Returns the lines of `getLocalizationStatuses`, with their set. While resources are brought
    /// back, they are told as complete, which they were before.
    pub(super) fn told(&self) -> impl Iterator<Item = (SetNumber, ResourceStatus)> {
        let items = self.items.iter();
        let told = items.filter(|item| !self.brings_back || item.entry().is_some());
        told.map(|item| (self.set, item.status()))
    }
}

impl Item {
    /// Returns the entry of the resource, once the container has it.
    pub(super) fn entry(&self) -> Option<EntryId> {
        match self.state {
            ItemState::Has(entry) => Some(entry),
            ItemState::New
            | ItemState::Waiting(_)
            | ItemState::Failed(_)
            | ItemState::Cancelled => None,
        }
    }

    /// Returns the resource's line of `getLocalizationStatuses`.
    pub(super) fn status(&self) -> ResourceStatus {
        let (state, diagnostics) = match &self.state {
            ItemState::New | ItemState::Waiting(_) | ItemState::Cancelled => {
                (LocalizationState::Pending, String::new())
            }
            ItemState::Has(_) => (LocalizationState::Completed, String::new()),
            ItemState::Failed(error) => (
                LocalizationState::Failed,
                crate::error_chain(error.as_ref()),
            ),
        };
        ResourceStatus {
            link: self.wanted.link.clone(),
            state,
            diagnostics,
        }
    }
}
