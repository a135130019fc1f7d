//! Inputs and outputs of the cache index, and its entries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use records::{ApplicationId, ContainerId};

use super::super::error::FetchError;
use super::super::layout::Scope;
use super::super::progress::Progress;
use super::super::resource::{ResourceKind, ResourceSpec, ResourceUrl, SetNumber};
use super::super::shard;
use super::super::user_name::UserName;

/// Identity of a resource (Hadoop: `LocalResourceRequest.equals`): size and visibility are not part
/// of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct CacheKey {
    pub(in super::super) url: ResourceUrl,
    pub(in super::super) timestamp_ms: i64,
    pub(in super::super) kind: ResourceKind,
}

/// Id of one call of `localize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct RequestId(pub(super) u64);

/// Id of one resource in one cache; a later download of the same resource is another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct EntryId(pub(super) u64);

/// Location of a resource below the root of its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Place {
    /// Index of the local directory.
    pub(in super::super) disk: usize,
    /// Number of the sub-directory; `None` for caches without sub-directories.
    pub(in super::super) shard: Option<usize>,
    /// Number of the resource, the name of its own folder.
    pub(in super::super) id: u64,
    /// Name of the file or folder in the resource's folder.
    pub(in super::super) name: String,
}

impl Place {
    /// Returns the names of the folders from the cache's root to the one that holds the resource's
    /// own.
    pub(in super::super) fn shard_names(&self) -> Vec<String> {
        self.shard.map(shard::names).unwrap_or_default()
    }
}

/// A resource that a request asks for.
#[derive(Clone, Debug)]
pub(in super::super) struct Wanted {
    pub(in super::super) link: String,
    pub(in super::super) scope: Scope,
    /// File name of the resource.
    pub(in super::super) name: String,
    pub(in super::super) spec: Arc<ResourceSpec>,
}

/// A download for a thread to perform.
#[derive(Clone, Debug)]
pub(in super::super) struct Download {
    pub(in super::super) entry: EntryId,
    pub(in super::super) scope: Scope,
    pub(in super::super) spec: Arc<ResourceSpec>,
    pub(in super::super) progress: Arc<Progress>,
    pub(in super::super) asker: Asker,
}

/// One of those for whom a resource is downloaded.
#[derive(Clone, Debug)]
pub(in super::super) struct Asker {
    pub(in super::super) user: UserName,
    pub(in super::super) application: ApplicationId,
}

/// A localized resource of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct CachedResource {
    pub(in super::super) link: String,
    pub(in super::super) scope: Scope,
    pub(in super::super) place: Place,
    pub(in super::super) set: SetNumber,
    pub(in super::super) bytes: u64,
    /// Found in the cache rather than waited for.
    pub(in super::super) was_cached: bool,
}

/// Localized resources of a complete request, in the request's order.
pub(in super::super) type Complete = Vec<CachedResource>;

/// Result of [`Cache::begin`](super::Cache::begin).
#[derive(Debug, Default)]
pub(in super::super) struct Begun {
    /// Resources of the request are left for another call.
    pub(in super::super) is_partial: bool,
    /// Answer to the request, if nothing has to be waited for.
    pub(in super::super) complete: Option<Complete>,
    /// Places of resources that were missing on the disk, and that no request finds any more.
    pub(in super::super) forgotten: Vec<(Scope, Place)>,
}

/// Result of [`Cache::bring_back`](super::Cache::bring_back).
#[derive(Debug)]
pub(in super::super) struct Lost {
    /// Request for the resources, to begin.
    pub(in super::super) request: RequestId,
    /// Places where they were, and where no request finds them any more.
    pub(in super::super) forgotten: Vec<(Scope, Place)>,
}

/// Failure of a request.
#[derive(Clone, Debug)]
pub(in super::super) struct Failure {
    pub(in super::super) link: String,
    pub(in super::super) url: ResourceUrl,
    pub(in super::super) error: Arc<FetchError>,
}

/// Requests to answer after a download has ended.
#[derive(Debug, Default)]
pub(in super::super) struct Finished {
    pub(in super::super) complete: Vec<(RequestId, Complete)>,
    pub(in super::super) failed: Vec<(RequestId, Failure)>,
    /// No request waits for the download any more: the downloaded files must be deleted.
    pub(in super::super) unwanted: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) scope: Scope,
    pub(super) key: CacheKey,
    pub(super) name: String,
    pub(super) state: EntryState,
    pub(super) users: BTreeSet<ContainerId>,
    /// Value of the cache's counter at the last use.
    pub(super) last_used: u64,
    /// Value of the cache's counter when its presence on the disk was last known.
    pub(super) checked: u64,
    /// Time at which it was last seen on the disk, in milliseconds; `None`: not yet.
    pub(super) seen_ms: Option<u64>,
}

#[derive(Debug)]
pub(super) enum EntryState {
    Downloading {
        /// Requests that wait, each with the positions of its items that are this resource.
        waiters: BTreeMap<RequestId, Vec<usize>>,
        spec: Arc<ResourceSpec>,
    },
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
            state: EntryState::Downloading {
                waiters: BTreeMap::new(),
                spec: wanted.spec.clone(),
            },
            users: BTreeSet::new(),
            last_used: 0,
            checked: 0,
            seen_ms: None,
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
}
