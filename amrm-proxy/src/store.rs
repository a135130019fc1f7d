//! Records that a restart of the agent needs: their keys, their form, and the trait that stores
//! them.
//!
//! The node's [`state_store`] implements the trait; the proxy has one of its key spaces. Each
//! record has a key of its own, so that a change writes little. The first byte of a value is the
//! version of its form: a newer agent reads older forms, and drops unknown ones with a warning.
//! Source of the selection: `AMRMProxyService.recover`,
//! `NMStateStoreService.RecoveredAMRMProxyState`; Hadoop's distributed scheduler stores nothing.
//!
//! | key | value (version 1) |
//! |---|---|
//! | `keys` | current and next local master key |
//! | `nodes` | nodes of the cluster, and until when they count |
//! | `attempt/<attempt id>/master` | user, tags, service of a role history, AMRMTokens |
//! | `attempt/<attempt id>/limits` | grant: sizes, life of tokens, start of the container ids |
//! | `attempt/<attempt id>/next-id` | lower bound of the container ids in use |
//! | `attempt/<attempt id>/asks` | opportunistic asks outstanding |
//! | `attempt/<attempt id>/blacklist` | hosts that must not be used |
//! | `attempt/<attempt id>/registration` | register request, and offset of the response ids |
//! | `attempt/<attempt id>/outstanding` | `allocate` request that restates what is outstanding |
//! | `attempt/<attempt id>/role-history` | asks that name nodes in the place of any node |
//! | `attempt/<attempt id>/role-history-places` | hosts and racks that these name |

mod record;

use std::collections::BTreeMap;

use ::records::ApplicationAttemptId;
use state_store::{Contents, KeySpace, Records, Urgency};

pub use record::{
    AsksRecord, BlacklistRecord, IdentityRecord, KeysRecord, LimitsRecord, NamedAskRecord,
    NamedPlacesRecord, NextIdRecord, NodesRecord, OptInRecord, OutstandingRecord, Record,
    RegistrationRecord, RoleHistoryPlacesRecord, RoleHistoryRecord,
};

/// Name of the proxy's key space in the node's state store.
pub const KEY_SPACE: &str = "amrm-proxy";

/// Key of the local master keys.
const KEYS: &str = "keys";

/// Key of the nodes of the cluster.
const NODES: &str = "nodes";

/// First part of the keys of all attempts.
const ATTEMPTS: &str = "attempt/";

/// Part of an attempt's state that is stored as one record. Whoever stores a part defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part(&'static str);

impl Part {
    /// Defines a part by the last part of its key, which no other part of an attempt may have. The
    /// table above lists all of them.
    #[must_use]
    pub const fn new(key: &'static str) -> Self {
        Self(key)
    }

    /// Returns the last part of the record's key.
    #[must_use]
    pub const fn key(self) -> &'static str {
        self.0
    }
}

/// Records of one attempt, by the last part of their keys.
pub type AttemptParts = BTreeMap<String, Vec<u8>>;

/// Records that were found at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredState {
    /// Record of the local master keys.
    pub keys: Option<Vec<u8>>,
    /// Record of the nodes of the cluster.
    pub nodes: Option<Vec<u8>>,
    /// Records of each attempt. May be incomplete.
    pub attempts: BTreeMap<ApplicationAttemptId, AttemptParts>,
}

impl StoredState {
    /// Sorts the records of the key space. Records of unknown keys are dropped with a warning, and
    /// unknown parts of an attempt when it is restored.
    #[must_use]
    pub fn from_contents(contents: Contents) -> Self {
        let mut state = Self::default();
        for (key, value) in contents {
            if key == KEYS {
                state.keys = Some(value);
            } else if key == NODES {
                state.nodes = Some(value);
            } else if let Some((attempt, part)) = read_key(&key) {
                state
                    .attempts
                    .entry(attempt)
                    .or_default()
                    .insert(part.to_owned(), value);
            } else {
                tracing::warn!(key, "unknown record of the AMRMProxy");
            }
        }
        state
    }

    /// Leaves out the attempts that do not go on, whose pipelines would never end, and removes
    /// their records.
    pub fn retain(&mut self, store: &dyn Store, goes_on: impl Fn(ApplicationAttemptId) -> bool) {
        self.attempts.retain(|attempt, _| {
            let stays = goes_on(*attempt);
            if !stays {
                tracing::info!(%attempt, "its application has ended; the pipeline is not restored");
                store.attempt(*attempt).end();
            }
            stays
        });
    }
}

fn read_key(key: &str) -> Option<(ApplicationAttemptId, &str)> {
    let (attempt, part) = key.strip_prefix(ATTEMPTS)?.split_once('/')?;
    Some((attempt.parse().ok()?, part))
}

/// Storage that the proxy needs. Writes never wait. After a restart the last written value of each
/// key is found, except for changes of the last moments before a crash; a caller that cannot accept
/// this writes ahead.
pub trait Store: Send + Sync + 'static {
    /// Stores the local master keys.
    fn put_keys(&self, value: Vec<u8>);

    /// Stores the nodes of the cluster, or removes them (`None`).
    fn put_nodes(&self, value: Option<Vec<u8>>);

    /// Returns a writer for an attempt's records. Existing records stay.
    fn attempt(&self, attempt: ApplicationAttemptId) -> Box<dyn AttemptRecords>;
}

/// Writer of one attempt's records.
pub trait AttemptRecords: Send + Sync + 'static {
    /// Stores a part, or removes it (`None`).
    fn put(&self, part: Part, value: Option<Vec<u8>>);

    /// Calls `stored` once everything put so far is on the disk: on another thread, where it must
    /// not block, or at once. Does not call it if that fails.
    fn when_stored(&self, stored: Box<dyn FnOnce() + Send>);

    /// Removes all parts. Later writes through this writer are ignored, so that a call in its last
    /// steps cannot write into the records of a successor.
    fn end(&self);
}

impl Store for KeySpace {
    fn put_keys(&self, value: Vec<u8>) {
        self.put(KEYS, value);
    }

    fn put_nodes(&self, value: Option<Vec<u8>>) {
        match value {
            Some(value) => self.put(NODES, value),
            None => self.remove(NODES),
        }
    }

    fn attempt(&self, attempt: ApplicationAttemptId) -> Box<dyn AttemptRecords> {
        Box::new(self.records(format!("{ATTEMPTS}{attempt}/")))
    }
}

impl AttemptRecords for Records {
    fn put(&self, part: Part, value: Option<Vec<u8>>) {
        self.put(part.key(), value);
    }

    fn when_stored(&self, stored: Box<dyn FnOnce() + Send>) {
        self.when_settled(Urgency::Now, move |outcome| {
            if outcome.is_ok() {
                stored();
            }
        });
    }

    fn end(&self) {
        self.end();
    }
}

/// A store without records, for an agent whose containers do not survive its restart either.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStore;

impl Store for NoStore {
    fn put_keys(&self, _: Vec<u8>) {}

    fn put_nodes(&self, _: Option<Vec<u8>>) {}

    fn attempt(&self, _: ApplicationAttemptId) -> Box<dyn AttemptRecords> {
        Box::new(Self)
    }
}

impl AttemptRecords for NoStore {
    fn put(&self, _: Part, _: Option<Vec<u8>>) {}

    fn when_stored(&self, stored: Box<dyn FnOnce() + Send>) {
        stored();
    }

    fn end(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ATTEMPT;

    #[test]
    fn keys_survive_their_text() {
        let key = format!("{ATTEMPTS}{ATTEMPT}/asks");
        assert_eq!(read_key(&key), Some((ATTEMPT, "asks")));
        for text in ["", "attempt/x/asks", "attempt/", "keys/", "keys"] {
            assert_eq!(read_key(text), None, "{text}");
        }
        let contents = Contents::from([
            ("keys".to_owned(), vec![1]),
            ("nodes".to_owned(), vec![4]),
            (key, vec![2]),
            ("other".to_owned(), vec![3]),
        ]);
        let state = StoredState::from_contents(contents);
        assert_eq!((state.keys, state.nodes), (Some(vec![1]), Some(vec![4])));
        let parts = AttemptParts::from([("asks".to_owned(), vec![2])]);
        assert_eq!(state.attempts, BTreeMap::from([(ATTEMPT, parts)]));
    }
}
