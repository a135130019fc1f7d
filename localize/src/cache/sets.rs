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
    /// requests. A link of several sets, or of several resources, is complete once. What is pending
    /// or has failed counts for its own set only.
    pub(in super::super) fn status(
        &self,
        container: ContainerId,
        set: SetNumber,
    ) -> Vec<ResourceStatus> {
        let mut complete = BTreeSet::new();
        let mut statuses = Vec::new();
        let requests = self.requests_of(container);
        for request in requests.filter(|request| request.set <= set) {
            for item in &request.items {
                let link = item.wanted.link.as_str();
                let (state, diagnostics) = state_of(item);
                let is_shown = match state {
                    LocalizationState::Completed => complete.insert(link),
                    LocalizationState::Pending | LocalizationState::Failed => request.set == set,
                };
                if is_shown {
                    statuses.push(ResourceStatus {
                        link: link.to_owned(),
                        state,
                        diagnostics,
                    });
                }
            }
        }
        statuses
    }

    /// Releases what a container no longer uses: sets after the last, and of those before the one
    /// that it may go back to, or else before the last, the links that were replaced up to there
    /// and what was not localized. Returns the open requests of later sets, which are cancelled.
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
                if self.cancel_pending(id) {
                    open.push(id);
                }
                self.requests.remove(&id);
            } else if request.set <= settled {
                if request.set < settled && request.pending == 0 {
                    request.items.retain(|item| is_used(item, &later_links));
                    request.begun = request.items.len();
                }
                let complete = request.items.iter().filter(|item| is_complete(item));
                later_links.extend(complete.map(|item| item.wanted.link.clone()));
                if request.items.is_empty() {
                    self.requests.remove(&id);
                }
            }
        }
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
        open
    }

    fn requests_of(&self, container: ContainerId) -> impl Iterator<Item = &Request> {
        let ids = self.by_container.get(&container).into_iter().flatten();
        ids.filter_map(|id| self.requests.get(id))
    }

    /// Returns the entries that a container uses.
    fn entries_of(&self, container: ContainerId) -> BTreeSet<EntryId> {
        let items = self
            .requests_of(container)
            .flat_map(|request| &request.items);
        let entry = |item: &Item| match item.state {
            ItemState::Has(entry) => Some(entry),
            ItemState::New
            | ItemState::Waiting(_)
            | ItemState::Failed(_)
            | ItemState::Cancelled => None,
        };
        items.filter_map(entry).collect()
    }
}

fn is_complete(item: &Item) -> bool {
    matches!(item.state, ItemState::Has(_))
}

fn is_used(item: &Item, later_links: &BTreeSet<String>) -> bool {
    is_complete(item) && !later_links.contains(&item.wanted.link)
}

fn state_of(item: &Item) -> (LocalizationState, String) {
    match &item.state {
        ItemState::New | ItemState::Waiting(_) | ItemState::Cancelled => {
            (LocalizationState::Pending, String::new())
        }
        ItemState::Has(_) => (LocalizationState::Completed, String::new()),
        ItemState::Failed(error) => (
            LocalizationState::Failed,
            crate::error_chain(error.as_ref()),
        ),
    }
}
