//! Key spaces of the node in the state store, and their records.
//!
//! | key space | key | value |
//! |---|---|---|
//! | `containers` | `<container id>/start` | [`StartRecord`] |
//! | | `<container id>/state` | [`StateRecord`] |
//! | | `<container id>/context/<n>` | [`ContextRecord`] of a re-initialization, numbered from 1 |
//! | `applications` | `<application id>` | [`ApplicationRecord`] |
//! | | `drain` | [`DrainRecord`] |
//! | | `learnt-runs` | [`LearntRunsRecord`] of how long containers run |
//! | | `suspects` | [`SuspectsRecord`] of the recovery's circuit breaker |
//! | | `logs-settled/<application id>/<container id>` | nothing; no log of it is to be uploaded |
//! | `tokens` | `keys` | [`KeysRecord`] |
//! | | `attempt/<attempt id>` | [`KeyRecord`] of its last good NMToken |
//! | | `used/<container id>` | time until which its token may not be used again |
//! | `localization` | cache and folder of a resource | a resource in the cache (`kept_files`) |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use node_core::StoreOrder;
use node_core::recovery::{
    ApplicationRecord, ContextRecord, DrainRecord, KeyRecord, KeysRecord, LearntRunsRecord,
    RecordError, StoredContainer, SuspectsRecord, decode, encode,
};
use prost::Message;
use records::{ApplicationAttemptId, ApplicationId, ContainerName, EpochMillis};
use state_store::{Commits, Contents, KeySpace, StateStore, Urgency};

use super::kept_files::KEPT_FILES;

const CONTAINERS: &str = "containers";
const APPLICATIONS: &str = "applications";
const TOKENS: &str = "tokens";
const KEYS: &str = "keys";
const ATTEMPT: &str = "attempt/";
const USED: &str = "used/";
/// Part of a container's key before the number of a launch context.
const CONTEXT: &str = "context/";

/// Key of the node's drain, among the applications'. No application has this id.
const DRAIN: &str = "drain";

/// Key of how long containers run, among the applications'.
const LEARNT_RUNS: &str = "learnt-runs";

/// Key of the works that may have crashed the agent, among the applications'.
const SUSPECTS: &str = "suspects";

/// Keys, among the applications', of containers of which no log is to be uploaded.
const LOGS_SETTLED: &str = "logs-settled/";

/// Key spaces of the node, in the order of [`FoundState::from_contents`].
pub const SPACES: [&str; 3] = [CONTAINERS, APPLICATIONS, TOKENS];

/// Records that were found at the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundState {
    /// Containers that the ResourceManager has not acknowledged.
    pub containers: BTreeMap<ContainerName, StoredContainer>,
    /// Applications, with those of which only logs are left.
    pub applications: BTreeMap<ApplicationId, ApplicationRecord>,
    /// Containers of which no logs are to be uploaded, by their applications.
    pub settled_logs: BTreeMap<ApplicationId, BTreeSet<ContainerName>>,
    /// Keys; absent before the first registration.
    pub keys: Option<KeysRecord>,
    /// Key of each attempt's last good NMToken.
    pub attempts: BTreeMap<ApplicationAttemptId, KeyRecord>,
    /// Containers whose tokens have been used, and until when they could be used again.
    pub used: BTreeMap<ContainerName, EpochMillis>,
    /// Drain of the node; absent: it was in service.
    pub drain: Option<DrainRecord>,
    /// Run lengths of containers that were learnt; absent: none.
    pub learnt_runs: Option<LearntRunsRecord>,
    /// Works that may have crashed earlier agents; absent: none is known.
    pub suspects: Option<SuspectsRecord>,
}

impl FoundState {
    /// Takes the node's records out of a store.
    #[must_use]
    pub fn take_from(store: &mut StateStore) -> Self {
        Self::from_contents(SPACES.map(|space| store.take_found(space)))
    }

    /// Reads the records of containers, applications and tokens, in this order. What cannot be read
    /// is left out with a warning: it names no other record.
    #[must_use]
    pub fn from_contents([containers, applications, tokens]: [Contents; 3]) -> Self {
        let mut found = Self::default();
        let mut starts = BTreeMap::new();
        let mut states = BTreeMap::new();
        let mut contexts: BTreeMap<ContainerName, BTreeMap<u64, ContextRecord>> = BTreeMap::new();
        for (key, value) in containers {
            let Some((id, part)) = key.split_once('/') else {
                continue;
            };
            let Ok(id) = id.parse::<ContainerName>() else {
                continue;
            };
            match part {
                "start" => read(&key, &value, |start| starts.insert(id, start)),
                "state" => read(&key, &value, |state| states.insert(id, state)),
                other => {
                    if let Some(Ok(number)) = other.strip_prefix(CONTEXT).map(str::parse) {
                        let contexts = contexts.entry(id).or_default();
                        read(&key, &value, |context| contexts.insert(number, context));
                    }
                }
            }
        }
        for (id, start) in starts {
            let stored = StoredContainer {
                start,
                state: states.remove(&id),
                contexts: contexts.remove(&id).unwrap_or_default(),
            };
            found.containers.insert(id, stored);
        }
        for (key, value) in applications {
            if key == DRAIN {
                read(&key, &value, |record| found.drain.replace(record));
            } else if key == LEARNT_RUNS {
                read(&key, &value, |record| found.learnt_runs.replace(record));
            } else if key == SUSPECTS {
                read(&key, &value, |record| found.suspects.replace(record));
            } else if let Some((id, name)) = settled_key(&key) {
                found.settled_logs.entry(id).or_default().insert(name);
            } else if let Ok(id) = key.parse() {
                read(&key, &value, |record| found.applications.insert(id, record));
            }
        }
        for (key, value) in tokens {
            found.read_token(&key, &value);
        }
        found
    }

    fn read_token(&mut self, key: &str, value: &[u8]) {
        if key == KEYS {
            read(key, value, |keys| self.keys.replace(keys));
        } else if let Some(Ok(id)) = key.strip_prefix(ATTEMPT).map(str::parse) {
            read(key, value, |record| self.attempts.insert(id, record));
        } else if let Some(Ok(id)) = key.strip_prefix(USED).map(str::parse)
            && let Ok(until) = <[u8; 8]>::try_from(value)
        {
            let until = EpochMillis(i64::from_be_bytes(until));
            self.used.insert(id, until);
        }
    }
}

/// Reads a key of [`LOGS_SETTLED`].
fn settled_key(key: &str) -> Option<(ApplicationId, ContainerName)> {
    let (application, name) = key.strip_prefix(LOGS_SETTLED)?.split_once('/')?;
    Some((application.parse().ok()?, name.parse().ok()?))
}

fn read<M: Message + Default, T>(key: &str, value: &[u8], found: impl FnOnce(M) -> T) {
    match decode(value) {
        Ok(record) => drop(found(record)),
        Err::<M, RecordError>(error) => {
            tracing::warn!(key, %error, "a record of the node's state is left out");
        }
    }
}

/// Change of the node's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordWrite {
    /// Stores a record, in place of an earlier one of the same key.
    Put {
        /// Name of the key space.
        space: &'static str,
        /// Key of the record.
        key: String,
        /// Bytes of the record.
        value: Vec<u8>,
    },
    /// Removes a record.
    Remove {
        /// Name of the key space.
        space: &'static str,
        /// Key of the record.
        key: String,
    },
    /// Removes all records whose key begins with a prefix.
    Clear {
        /// Name of the key space.
        space: &'static str,
        /// Prefix of the keys.
        prefix: String,
    },
}

impl RecordWrite {
    fn put(space: &'static str, key: String, record: &impl Message) -> Self {
        let value = encode(record);
        Self::Put { space, key, value }
    }
}

/// Returns the changes that an order of the core stands for.
#[must_use]
pub fn writes_of(order: &StoreOrder) -> Vec<RecordWrite> {
    match order {
        StoreOrder::Start(id, record) => {
            vec![RecordWrite::put(
                CONTAINERS,
                format!("{id}/start"),
                &**record,
            )]
        }
        StoreOrder::State(id, record) => {
            vec![RecordWrite::put(
                CONTAINERS,
                format!("{id}/state"),
                &**record,
            )]
        }
        StoreOrder::Context(id, number, record) => {
            let (space, key) = (CONTAINERS, format!("{id}/{CONTEXT}{number}"));
            vec![match record {
                Some(record) => RecordWrite::put(space, key, &**record),
                None => RecordWrite::Remove { space, key },
            }]
        }
        StoreOrder::Forget(id, used_until) => {
            let mut writes = vec![RecordWrite::Clear {
                space: CONTAINERS,
                prefix: format!("{id}/"),
            }];
            writes.extend(used_until.map(|EpochMillis(until)| RecordWrite::Put {
                space: TOKENS,
                key: format!("{USED}{id}"),
                value: until.to_be_bytes().to_vec(),
            }));
            writes
        }
        StoreOrder::ForgetUses(ids) => {
            let forget = |id| RecordWrite::Remove {
                space: TOKENS,
                key: format!("{USED}{id}"),
            };
            ids.iter().map(forget).collect()
        }
        StoreOrder::Application(id, record) => {
            let (space, key) = (APPLICATIONS, id.to_string());
            match record {
                Some(record) => vec![RecordWrite::put(space, key, &**record)],
                None => vec![
                    RecordWrite::Clear {
                        space,
                        prefix: format!("{LOGS_SETTLED}{key}/"),
                    },
                    RecordWrite::Remove { space, key },
                ],
            }
        }
        StoreOrder::LogsSettled(id) => vec![RecordWrite::Put {
            space: APPLICATIONS,
            key: format!("{LOGS_SETTLED}{}/{id}", id.application_id()),
            value: Vec::new(),
        }],
        StoreOrder::Drain(record) => vec![of_node(DRAIN, record.as_deref())],
        StoreOrder::LearntRuns(record) => vec![of_node(LEARNT_RUNS, Some(&**record))],
        StoreOrder::Suspects(record) => vec![of_node(SUSPECTS, record.as_deref())],
    }
}

/// Returns the change of a record that belongs to the node and not to one application.
fn of_node<M: Message>(key: &str, record: Option<&M>) -> RecordWrite {
    let (space, key) = (APPLICATIONS, key.to_owned());
    match record {
        Some(record) => RecordWrite::put(space, key, record),
        None => RecordWrite::Remove { space, key },
    }
}

/// Receiver of changes, which does not wait for the disk.
pub trait RecordSink: std::fmt::Debug + Send + Sync {
    /// Takes a change.
    fn write(&self, write: RecordWrite);
}

/// Key spaces of the node in the state store.
#[derive(Debug)]
struct NodeSpaces([KeySpace; 3]);

impl NodeSpaces {
    fn of(store: &StateStore) -> Self {
        Self(SPACES.map(|name| store.key_space(name)))
    }

    fn space(&self, name: &str) -> &KeySpace {
        let [containers, applications, tokens] = &self.0;
        match name {
            CONTAINERS => containers,
            APPLICATIONS => applications,
            _ => tokens,
        }
    }
}

impl RecordSink for NodeSpaces {
    fn write(&self, write: RecordWrite) {
        match write {
            RecordWrite::Put { space, key, value } => self.space(space).put(&key, value),
            RecordWrite::Remove { space, key } => self.space(space).remove(&key),
            RecordWrite::Clear { space, prefix } => self.space(space).clear(&prefix),
        }
    }
}

/// Writer of containers and applications.
#[derive(Clone, Debug)]
pub struct StateWriter {
    sink: Arc<dyn RecordSink>,
    kept_files: KeySpace,
    commits: Commits,
}

impl StateWriter {
    /// Writes to a store.
    #[must_use]
    pub fn new(store: &StateStore) -> Self {
        Self {
            sink: Arc::new(NodeSpaces::of(store)),
            kept_files: store.key_space(KEPT_FILES),
            commits: store.commits(),
        }
    }

    /// Returns a handle to wait for commits with.
    #[must_use]
    pub fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Writes what an order of the core stands for.
    pub(crate) fn write(&self, order: &StoreOrder) {
        for write in writes_of(order) {
            self.sink.write(write);
        }
    }

    /// Waits until what was written is committed, or cannot be.
    pub(crate) fn commit_now(&self) {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        self.commits.when_settled(Urgency::Now, move |outcome| {
            let _gone = tell.send(outcome);
        });
        if !matches!(told.recv(), Ok(Ok(()))) {
            tracing::warn!("a record for the next start is not stored");
        }
    }

    /// Forgets everything, the cached resources too, for a node that was ordered to shut down.
    pub fn clear(&self) {
        for space in SPACES {
            let prefix = String::new();
            self.sink.write(RecordWrite::Clear { space, prefix });
        }
        self.kept_files.clear("");
    }
}

/// Writer of keys.
#[derive(Clone, Debug)]
pub struct KeyWriter(Arc<dyn RecordSink>);

impl KeyWriter {
    /// Writes to a store.
    #[must_use]
    pub fn new(store: &StateStore) -> Self {
        Self::to(Arc::new(NodeSpaces::of(store)))
    }

    /// Writes to a receiver of changes.
    #[must_use]
    pub fn to(sink: Arc<dyn RecordSink>) -> Self {
        Self(sink)
    }

    pub(crate) fn keys(&self, record: &KeysRecord) {
        let write = RecordWrite::put(TOKENS, KEYS.to_owned(), record);
        self.0.write(write);
    }

    pub(crate) fn attempt(&self, attempt: ApplicationAttemptId, record: Option<&KeyRecord>) {
        let (space, key) = (TOKENS, format!("{ATTEMPT}{attempt}"));
        self.0.write(match record {
            Some(record) => RecordWrite::put(space, key, record),
            None => RecordWrite::Remove { space, key },
        });
    }
}

#[cfg(test)]
mod tests;
