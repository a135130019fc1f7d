//! Records of what is in the caches, for the next agent, and what an earlier one has left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use records::{ApplicationId, ContainerId};

use super::super::cache::{CacheKey, Download, Place, Restored};
use super::super::kept::{self, KeptRecords, KeptResource};
use super::super::layout::Scope;
use super::download::Stored;
use super::{Localizer, Shared};

impl Localizer {
    /// Has `records` outlive the agent, and lists the resources that an earlier one has left, which
    /// [`StartedDirs`](crate::StartedDirs) has found to be on the disks. Those on the paths that a
    /// container uses stay until [`Self::release`]. Comes before the first request.
    pub fn remember(
        &self,
        records: Arc<dyn KeptRecords>,
        mut resources: Vec<KeptResource>,
        users: &[(ContainerId, Vec<PathBuf>)],
    ) {
        let mut by_path: BTreeMap<&PathBuf, BTreeSet<ContainerId>> = BTreeMap::new();
        for (container, paths) in users {
            for path in paths {
                by_path.entry(path).or_default().insert(*container);
            }
        }
        // The last downloads are the last to be evicted: later uses are on no record.
        resources.sort_by_key(|resource| resource.seal.changed_ns);
        let local_dirs = self.shared.dirs.local_dirs();
        let mut state = self.shared.state();
        for resource in resources {
            let disk = local_dirs.iter().position(|dir| *dir == resource.local_dir);
            let place = disk.and_then(|disk| resource.place(disk));
            let Some((scope, place)) = resource.scope().zip(place) else {
                continue;
            };
            let users = resource.path().and_then(|path| by_path.remove(&path));
            let restored = Restored {
                scope,
                key: resource.cache_key(),
                place,
                bytes: resource.bytes,
                users: users.unwrap_or_default(),
            };
            if !state.cache.restore(restored)
                && let Some(key) = resource.key()
            {
                records.forget(&key);
            }
        }
        drop(state);
        if self.shared.records.set(records).is_err() {
            tracing::warn!("the records of the caches are kept by another one");
        }
    }
}

impl Shared {
    /// Stores the record of a download. The caller holds the lock of the caches, here and below, so
    /// that the records follow each other as the changes do.
    pub(super) fn keep(&self, download: &Download, stored: &Stored) {
        let Some((records, seal)) = self.records.get().zip(stored.seal) else {
            return;
        };
        let Some(local_dir) = self.local_dir(&stored.place) else {
            return;
        };
        let spec = &download.spec;
        let key = CacheKey {
            url: spec.url.clone(),
            timestamp_ms: spec.timestamp_ms,
            kind: spec.kind.clone(),
        };
        let place = (&stored.place, stored.bytes);
        let resource = kept::kept((&download.scope, key), local_dir, place, seal);
        if let Some(key) = resource.key() {
            records.keep(&key, &resource);
        }
    }

    /// Removes the records of resources that are no longer in their caches.
    pub(super) fn forget(&self, places: &[(Scope, Place)]) {
        let Some(records) = self.records.get() else {
            return;
        };
        for (scope, place) in places {
            let local_dir = self.local_dir(place);
            let key = local_dir.and_then(|dir| kept::key_of(scope, &dir, place));
            if let Some(key) = key {
                records.forget(&key);
            }
        }
    }

    /// Removes the records of an application's cache.
    pub(super) fn forget_all(&self, application: ApplicationId) {
        if let Some(records) = self.records.get() {
            records.forget_all(&kept::prefix_of(application));
        }
    }

    fn local_dir(&self, place: &Place) -> Option<PathBuf> {
        self.dirs.local_dirs().into_iter().nth(place.disk)
    }
}
