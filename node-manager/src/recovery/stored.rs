//! Key spaces of the node in the state store, and their records.
//!
//! | key space | key | value |
//! |---|---|---|
//! | `containers` | `<container id>/start` | [`StartRecord`] |
//! | | `<container id>/state` | [`StateRecord`] |
//! | `applications` | `<application id>` | [`ApplicationRecord`] |
//! | `tokens` | `keys` | [`KeysRecord`] |
//! | | `attempt/<attempt id>` | [`KeyRecord`] of its last good NMToken |
//! | | `used/<container id>` | time until which its token may not be used again |

use std::collections::BTreeMap;

use prost::Message;
use records::{ApplicationAttemptId, ApplicationId, ContainerId, EpochMillis};
use state_store::{Commits, KeySpace, StateStore};

use super::record::{
    ApplicationRecord, KeyRecord, KeysRecord, RecordError, StartRecord, StateRecord, decode, encode,
};

const CONTAINERS: &str = "containers";
const APPLICATIONS: &str = "applications";
const TOKENS: &str = "tokens";
const KEYS: &str = "keys";
const ATTEMPT: &str = "attempt/";
const USED: &str = "used/";

/// Records of one container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredContainer {
    /// How it was accepted.
    pub start: StartRecord,
    /// State after the acceptance; absent: unchanged.
    pub state: Option<StateRecord>,
}

/// Records that were found at the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundState {
    /// Containers that the ResourceManager has not acknowledged.
    pub containers: BTreeMap<ContainerId, StoredContainer>,
    /// Applications, with those of which only logs are left.
    pub applications: BTreeMap<ApplicationId, ApplicationRecord>,
    /// Keys; absent before the first registration.
    pub keys: Option<KeysRecord>,
    /// Key of each attempt's last good NMToken.
    pub attempts: BTreeMap<ApplicationAttemptId, KeyRecord>,
    /// Containers whose tokens have been used, and until when they could be used again.
    pub used: BTreeMap<ContainerId, EpochMillis>,
}

impl FoundState {
    /// Takes the node's records out of a store. What cannot be read is left out with a warning: it
    /// names no other record.
    #[must_use]
    pub fn take_from(store: &mut StateStore) -> Self {
        let mut found = Self::default();
        let mut starts = BTreeMap::new();
        let mut states = BTreeMap::new();
        for (key, value) in store.take_found(CONTAINERS) {
            let Some((id, part)) = key.split_once('/') else {
                continue;
            };
            let Ok(id) = id.parse::<ContainerId>() else {
                continue;
            };
            match part {
                "start" => read(&key, &value, |start| starts.insert(id, start)),
                "state" => read(&key, &value, |state| states.insert(id, state)),
                _ => {}
            }
        }
        for (id, start) in starts {
            let state = states.remove(&id);
            found
                .containers
                .insert(id, StoredContainer { start, state });
        }
        for (key, value) in store.take_found(APPLICATIONS) {
            if let Ok(id) = key.parse() {
                read(&key, &value, |record| found.applications.insert(id, record));
            }
        }
        for (key, value) in store.take_found(TOKENS) {
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

fn read<M: Message + Default, T>(key: &str, value: &[u8], found: impl FnOnce(M) -> T) {
    match decode(value) {
        Ok(record) => drop(found(record)),
        Err::<M, RecordError>(error) => {
            tracing::warn!(key, %error, "a record of the node's state is left out");
        }
    }
}

/// Writer of containers and applications.
#[derive(Clone, Debug)]
pub struct StateWriter {
    containers: KeySpace,
    applications: KeySpace,
    tokens: KeySpace,
    commits: Commits,
}

impl StateWriter {
    /// Writes to a store.
    #[must_use]
    pub fn new(store: &StateStore) -> Self {
        Self {
            containers: store.key_space(CONTAINERS),
            applications: store.key_space(APPLICATIONS),
            tokens: store.key_space(TOKENS),
            commits: store.commits(),
        }
    }

    /// Returns a handle to wait for commits with.
    #[must_use]
    pub fn commits(&self) -> &Commits {
        &self.commits
    }

    pub(crate) fn start(&self, id: ContainerId, record: &StartRecord) {
        self.containers.put(&format!("{id}/start"), encode(record));
    }

    pub(crate) fn state(&self, id: ContainerId, record: &StateRecord) {
        self.containers.put(&format!("{id}/state"), encode(record));
    }

    /// Forgets a container, but for the use of its token until `used_until`.
    pub(crate) fn forget(&self, id: ContainerId, used_until: Option<EpochMillis>) {
        self.containers.clear(&format!("{id}/"));
        if let Some(EpochMillis(until)) = used_until {
            let until = until.to_be_bytes().to_vec();
            self.tokens.put(&format!("{USED}{id}"), until);
        }
    }

    /// Forgets that tokens were used, which have expired.
    pub(crate) fn forget_uses(&self, ids: impl IntoIterator<Item = ContainerId>) {
        for id in ids {
            self.tokens.remove(&format!("{USED}{id}"));
        }
    }

    pub(crate) fn application(&self, id: ApplicationId, record: Option<&ApplicationRecord>) {
        let key = id.to_string();
        match record {
            Some(record) => self.applications.put(&key, encode(record)),
            None => self.applications.remove(&key),
        }
    }

    /// Forgets everything, for a node that was ordered to shut down.
    pub fn clear(&self) {
        for space in [&self.containers, &self.applications, &self.tokens] {
            space.clear("");
        }
    }
}

/// Writer of keys.
#[derive(Clone, Debug)]
pub struct KeyWriter(KeySpace);

impl KeyWriter {
    /// Writes to a store.
    #[must_use]
    pub fn new(store: &StateStore) -> Self {
        Self(store.key_space(TOKENS))
    }

    pub(crate) fn keys(&self, record: &KeysRecord) {
        self.0.put(KEYS, encode(record));
    }

    pub(crate) fn attempt(&self, attempt: ApplicationAttemptId, record: Option<&KeyRecord>) {
        let key = format!("{ATTEMPT}{attempt}");
        match record {
            Some(record) => self.0.put(&key, encode(record)),
            None => self.0.remove(&key),
        }
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids;

    use super::*;

    #[test]
    fn what_was_written_is_found_by_the_next_agent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let start = StartRecord {
            arrival: 3,
            ..StartRecord::default()
        };
        let state = StateRecord {
            pid: 17,
            ..StateRecord::default()
        };
        let application = ApplicationRecord {
            user: "alice".to_owned(),
            ..ApplicationRecord::default()
        };
        let key = KeyRecord {
            id: -4,
            secret: vec![1],
        };
        {
            let store = StateStore::open(&path).unwrap();
            let writer = StateWriter::new(&store);
            writer.start(ids::container(1), &start);
            writer.state(ids::container(1), &state);
            writer.start(ids::container(2), &start);
            writer.start(ids::container(3), &start);
            writer.forget(ids::container(3), Some(EpochMillis(9)));
            writer.forget(ids::container(4), Some(EpochMillis(9)));
            writer.forget_uses([ids::container(4)]);
            writer.application(ids::application(1), Some(&application));
            writer.application(ids::application(2), Some(&application));
            writer.application(ids::application(2), None);
            let keys = KeyWriter::new(&store);
            keys.attempt(ids::attempt(1), Some(&key));
            keys.attempt(ids::attempt(2), Some(&key));
            keys.attempt(ids::attempt(2), None);
            // Of an unknown form, and so left out.
            writer
                .containers
                .put(&format!("{}/start", ids::container(9)), vec![99]);
        }
        let mut store = StateStore::open(&path).unwrap();
        let found = FoundState::take_from(&mut store);
        let stored = |state| StoredContainer {
            start: start.clone(),
            state,
        };
        let expected = FoundState {
            containers: [
                (ids::container(1), stored(Some(state))),
                (ids::container(2), stored(None)),
            ]
            .into(),
            applications: [(ids::application(1), application)].into(),
            keys: None,
            attempts: [(ids::attempt(1), key)].into(),
            used: [(ids::container(3), EpochMillis(9))].into(),
        };
        assert_eq!(found, expected);
        StateWriter::new(&store).clear();
        drop(store);
        let mut store = StateStore::open(&path).unwrap();
        assert_eq!(FoundState::take_from(&mut store), FoundState::default());
    }
}
