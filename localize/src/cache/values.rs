//! What goes in and out of the books, and what an entry of them is.

use std::collections::BTreeSet;
use std::sync::Arc;

use records::ContainerId;

use super::super::error::FetchError;
use super::super::layout::Scope;
use super::super::resource::{ResourceKind, ResourceSpec, ResourceUrl};
use super::super::shard;

/// What makes two resources the same (Hadoop: `LocalResourceRequest.equals`): size and visibility are not part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct CacheKey {
    pub(in super::super) url: ResourceUrl,
    pub(in super::super) timestamp_ms: i64,
    pub(in super::super) kind: ResourceKind,
}

/// One call of `localize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct RequestId(pub(super) u64);

/// One resource in one cache; a later download of the same resource is another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct EntryId(pub(super) u64);

/// Where a resource is, below the root of its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Place {
    /// Index of the local directory.
    pub(in super::super) disk: usize,
    /// Number of the sub-directory; `None` for caches that have none.
    pub(in super::super) shard: Option<usize>,
    /// Number of the resource, the name of its own folder.
    pub(in super::super) id: u64,
    /// Name of the file or folder in it.
    pub(in super::super) name: String,
}

impl Place {
    /// Names of the folders from the cache's root to the one that holds the resource's own.
    pub(in super::super) fn shard_names(&self) -> Vec<String> {
        self.shard.map(shard::names).unwrap_or_default()
    }
}

/// One resource of a request.
#[derive(Clone, Debug)]
pub(in super::super) struct Wanted {
    pub(in super::super) link: String,
    pub(in super::super) scope: Scope,
    /// File name of the resource.
    pub(in super::super) name: String,
    pub(in super::super) spec: Arc<ResourceSpec>,
}

/// What a thread has to download.
#[derive(Clone, Debug)]
pub(in super::super) struct Download {
    pub(in super::super) entry: EntryId,
    pub(in super::super) scope: Scope,
    pub(in super::super) spec: Arc<ResourceSpec>,
}

/// A resource that a request has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Had {
    pub(in super::super) link: String,
    pub(in super::super) scope: Scope,
    pub(in super::super) place: Place,
    pub(in super::super) bytes: u64,
    /// It was in the cache, and not waited for.
    pub(in super::super) was_cached: bool,
}

/// A request that has all it needs, in its order.
pub(in super::super) type Complete = Vec<Had>;

/// What [`Cache::begin`] leaves to do.
#[derive(Debug, Default)]
pub(in super::super) struct Begun {
    pub(in super::super) downloads: Vec<Download>,
    /// Set if nothing has to be waited for.
    pub(in super::super) complete: Option<Complete>,
}

/// Why a request cannot be satisfied.
#[derive(Clone, Debug)]
pub(in super::super) struct Failure {
    pub(in super::super) link: String,
    pub(in super::super) url: ResourceUrl,
    pub(in super::super) error: Arc<FetchError>,
}

/// What the end of a download means.
#[derive(Debug, Default)]
pub(in super::super) struct Finished {
    pub(in super::super) complete: Vec<(RequestId, Complete)>,
    pub(in super::super) failed: Vec<(RequestId, Failure)>,
    /// Nobody wants it any more: what was downloaded is to be deleted.
    pub(in super::super) unwanted: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) scope: Scope,
    pub(super) key: CacheKey,
    pub(super) name: String,
    pub(super) state: EntryState,
    pub(super) users: BTreeSet<ContainerId>,
    /// Ticks of the cache's own counter.
    pub(super) last_used: u64,
}

#[derive(Debug)]
pub(super) enum EntryState {
    /// Requests that wait, one entry for each link name.
    Downloading(Vec<RequestId>),
    Ready {
        place: Place,
        bytes: u64,
    },
}

impl Entry {
    pub(super) fn downloading(wanted: &Wanted) -> Self {
        Self {
            scope: wanted.scope.clone(),
            key: wanted.key(),
            name: wanted.name.clone(),
            state: EntryState::Downloading(Vec::new()),
            users: BTreeSet::new(),
            last_used: 0,
        }
    }
}

impl Wanted {
    pub(super) fn key(&self) -> CacheKey {
        CacheKey {
            url: self.spec.url.clone(),
            timestamp_ms: self.spec.timestamp_ms,
            kind: self.spec.kind.clone(),
        }
    }

    pub(super) fn download(&self, entry: EntryId) -> Download {
        Download {
            entry,
            scope: self.scope.clone(),
            spec: self.spec.clone(),
        }
    }
}
