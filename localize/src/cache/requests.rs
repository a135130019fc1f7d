//! Requests of containers: the resources that each has, waits for, or failed to get.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use records::{ApplicationAttemptId, ApplicationId, ContainerId};

use super::super::error::FetchError;
use super::super::layout::Scope;
use super::super::resource::SetNumber;
use super::super::user_name::UserName;
use super::Cache;
use super::values::{
    CachedResource, Complete, Entry, EntryId, EntryState, Failure, RequestId, Wanted,
};

/// Resources that a container asked for in one call.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) container: ContainerId,
    /// Set that the resources belong to.
    pub(super) set: SetNumber,
    pub(super) user: UserName,
    pub(super) items: Vec<Item>,
    /// Number of items that were looked up, in their order.
    pub(super) begun: usize,
    /// Number of items in the states `New` and `Waiting`.
    pub(super) pending: usize,
    /// Whether the container had the resources before.
    pub(super) brings_back: bool,
}

/// A resource of a request.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) wanted: Wanted,
    pub(super) state: ItemState,
    /// Found in the cache by the request, and not waited for.
    pub(super) was_cached: bool,
}

/// Progress of a resource of a request.
#[derive(Debug)]
pub(super) enum ItemState {
    /// Not looked up yet.
    New,
    Waiting(EntryId),
    Has(EntryId),
    Failed(Arc<FetchError>),
    /// Cancelled: the container was released, or another of its resources failed.
    Cancelled,
}

impl Cache {
    /// Cancels a container's pending resources and returns its open requests.
    fn cancel(&mut self, container: ContainerId) -> Vec<RequestId> {
        let requests = self.by_container.get(&container).cloned();
        let mut open = requests.unwrap_or_default();
        open.retain(|request| self.cancel_pending(*request));
        open
    }

    /// Releases all resources of a container that has ended, and keeps what became of them, until
    /// [`Self::forget_past`]. Returns its open requests, which are cancelled.
    pub(in super::super) fn release(&mut self, container: ContainerId) -> Vec<RequestId> {
        let open = self.cancel(container);
        let tick = self.next_tick();
        let mut past: Option<(UserName, Vec<_>)> = None;
        for request in self.by_container.remove(&container).unwrap_or_default() {
            let Some(request) = self.requests.remove(&request) else {
                continue;
            };
            let (_, told) = past.get_or_insert_with(|| (request.user.clone(), Vec::new()));
            told.extend(request.told());
            for item in request.items {
                if let ItemState::Has(entry) = item.state {
                    self.stop_using(entry, container, tick);
                }
            }
        }
        if let Some((user, told)) = past {
            self.past.keep(container, user, told);
        }
        for entry in self.held.remove(&container).unwrap_or_default() {
            self.stop_using(entry, container, tick);
        }
        open
    }

    /// Removes the cache of an application, whose folders are about to be deleted, and cancels the
    /// pending resources of its containers. Returns their open requests.
    pub(in super::super) fn remove_application(
        &mut self,
        scope: &Scope,
        application: ApplicationId,
    ) -> Vec<RequestId> {
        let containers = self.by_container.range(containers_of(application));
        let containers: Vec<_> = containers.map(|(container, _)| *container).collect();
        let open = containers
            .into_iter()
            .flat_map(|container| self.cancel(container))
            .collect();
        let index = self.scopes.remove(scope);
        for entry in index
            .into_iter()
            .flat_map(|index| index.entries.into_values())
        {
            self.entries.remove(&entry);
        }
        open
    }

    /// Assigns a downloaded resource to the items of a request at these positions.
    pub(super) fn assign(&mut self, request: RequestId, entry: EntryId, positions: &[usize]) {
        let Some(request) = self.requests.get_mut(&request) else {
            return;
        };
        for position in positions {
            if let Some(item) = request.items.get_mut(*position) {
                item.state = ItemState::Has(entry);
                request.pending -= 1;
            }
        }
        if let Some(entry) = self.entries.get_mut(&entry) {
            entry.users.insert(request.container);
        }
    }

    /// Fails a request with the failure of the items at these positions, and cancels its other
    /// pending ones.
    pub(super) fn fail(
        &mut self,
        id: RequestId,
        positions: &[usize],
        error: &Arc<FetchError>,
    ) -> Option<Failure> {
        let mut failure = None;
        let request = self.requests.get_mut(&id)?;
        for position in positions {
            let Some(item) = request.items.get_mut(*position) else {
                continue;
            };
            item.state = ItemState::Failed(error.clone());
            request.pending -= 1;
            failure.get_or_insert_with(|| Failure {
                link: item.wanted.link.clone(),
                url: item.wanted.spec.url.clone(),
                error: error.clone(),
            });
        }
        self.cancel_pending(id);
        failure
    }

    /// Cancels the pending resources of a request; downloads that no other request waits for are
    /// detached. Returns whether the request was open.
    pub(super) fn cancel_pending(&mut self, id: RequestId) -> bool {
        let Some(request) = self.requests.get_mut(&id) else {
            return false;
        };
        if request.pending == 0 {
            return false;
        }
        request.pending = 0;
        let user = request.user.clone();
        let mut entries = BTreeSet::new();
        for item in &mut request.items {
            match item.state {
                ItemState::Waiting(entry) => {
                    entries.insert(entry);
                }
                ItemState::New => {}
                ItemState::Has(_) | ItemState::Failed(_) | ItemState::Cancelled => continue,
            }
            item.state = ItemState::Cancelled;
        }
        for id_of_entry in entries {
            if let Some(Entry {
                state: EntryState::Downloading { waiters, .. },
                ..
            }) = self.entries.get_mut(&id_of_entry)
            {
                waiters.remove(&id);
                let is_waited_for = !waiters.is_empty();
                self.downloads.leave(id_of_entry, &user, is_waited_for);
                if !is_waited_for {
                    // It has no place that a request knows.
                    let _none = self.detach(id_of_entry);
                }
            }
        }
        true
    }

    pub(super) fn stop_using(&mut self, id: EntryId, container: ContainerId, tick: u64) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.users.remove(&container);
        entry.last_used = tick;
        let listed = self
            .scopes
            .get(&entry.scope)
            .is_some_and(|index| index.entries.get(&entry.key) == Some(&id));
        if entry.users.is_empty() && !listed {
            self.entries.remove(&id);
        }
    }

    /// Returns the resources of a request if it has all of them.
    pub(super) fn complete(&self, request: RequestId) -> Option<Complete> {
        let request = self.requests.get(&request)?;
        if request.pending > 0 {
            return None;
        }
        let has = |item: &Item| match item.state {
            ItemState::Has(entry) => match &self.entries.get(&entry)?.state {
                EntryState::Ready { place, bytes } => Some(CachedResource {
                    link: item.wanted.link.clone(),
                    scope: item.wanted.scope.clone(),
                    place: place.clone(),
                    set: request.set,
                    bytes: *bytes,
                    was_cached: item.was_cached,
                }),
                EntryState::Downloading { .. } => None,
            },
            ItemState::New
            | ItemState::Waiting(_)
            | ItemState::Failed(_)
            | ItemState::Cancelled => None,
        };
        request.items.iter().map(has).collect()
    }
}

/// Returns the range of all containers of an application.
fn containers_of(application_id: ApplicationId) -> RangeInclusive<ContainerId> {
    let bound = |attempt_id, id| ContainerId {
        attempt: ApplicationAttemptId {
            application_id,
            attempt_id,
        },
        id,
    };
    bound(i32::MIN, i64::MIN)..=bound(i32::MAX, i64::MAX)
}
