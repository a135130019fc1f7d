//! Master keys that roll, and the tokens made with them.
//!
//! Nodes share the keys of container tokens and NMTokens: they receive a new key long before
//! anything is signed with it. The key of AMRMTokens never leaves this process, so a new one signs
//! at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use prost::Message as _;
use records::{ApplicationAttemptId, MonoMillis, NodeId};

use crate::exception::{HadoopException, RemoteException};
use crate::proto::hadoop_common::TokenProto;
use crate::proto::hadoop_yarn::{
    AmrmTokenIdentifierProto, ContainerTokenIdentifierProto, NmTokenIdentifierProto,
};
use crate::service::{SecretManager, Verified};
use crate::token::{MasterKey, Signer, Token, kind};

/// Length of a key, in bytes: that of an HMAC-SHA1.
const KEY_LENGTH: usize = 20;

/// Reason for refusing a token that no current key has signed. Where the AMRMProxy serves an AM,
/// the AM has a token of the proxy's and must call the proxy.
const OF_ANOTHER_KEY: &str = "shows a token of another key: one that has rolled away, or that of \
    another scheduler. A node with an AMRMProxy gives its AMs tokens of the proxy; their \
    yarn.resourcemanager.scheduler.address has to name the proxy (yarn.nodemanager.amrmproxy.address)";

/// Makes a random key with a random id.
fn new_key() -> MasterKey {
    let secret: [u8; KEY_LENGTH] = rand::random();
    MasterKey::new(rand::random(), Bytes::copy_from_slice(&secret))
}

/// Times of a key roll, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollTimes {
    /// Time from one new key to the next.
    pub interval: u64,
    /// Time from a new key until the old one expires.
    pub overlap: u64,
}

/// The current key and, during an overlap, its successor (Hadoop:
/// `BaseContainerTokenSecretManager`, `AMRMTokenSecretManager`).
#[derive(Debug)]
pub struct KeyRing {
    times: RollTimes,
    current: MasterKey,
    next: Option<MasterKey>,
    /// Time of the next step: a new key, or the expiry of the old one.
    due: MonoMillis,
}

impl KeyRing {
    /// Makes a ring with one key, which is replaced after the interval.
    #[must_use]
    pub fn new(times: RollTimes, now: MonoMillis) -> Self {
        Self {
            times,
            current: new_key(),
            next: None,
            due: now + times.interval,
        }
    }

    /// Restores a ring after a restart. A successor gets its whole overlap again, since it is
    /// unknown which nodes have it.
    #[must_use]
    pub fn restore(
        times: RollTimes,
        current: MasterKey,
        next: Option<MasterKey>,
        now: MonoMillis,
    ) -> Self {
        let delay = if next.is_some() {
            times.overlap
        } else {
            times.interval
        };
        Self {
            times,
            current,
            next,
            due: now + delay,
        }
    }

    /// Takes the step that is due, if any. Returns whether a successor became the current key.
    pub fn tick(&mut self, now: MonoMillis) -> bool {
        if now < self.due {
            return false;
        }
        match self.next.take() {
            None => {
                self.next = Some(new_key());
                self.due = now + self.times.overlap;
                false
            }
            Some(next) => {
                self.current = next;
                self.due = now + self.times.interval.saturating_sub(self.times.overlap);
                true
            }
        }
    }

    /// Returns the key that signs tokens which other processes verify.
    #[must_use]
    pub const fn current(&self) -> &MasterKey {
        &self.current
    }

    /// Returns the newest key: the successor during an overlap, otherwise the current one.
    #[must_use]
    pub fn newest(&self) -> &MasterKey {
        self.next.as_ref().unwrap_or(&self.current)
    }

    /// Returns the newest key, unless the receiver already has the key `known`.
    #[must_use]
    pub fn newest_unless_known(&self, known: Option<i32>) -> Option<&MasterKey> {
        let newest = self.newest();
        (known != Some(newest.key_id)).then_some(newest)
    }

    /// Returns the successor of the current key, during an overlap.
    #[must_use]
    pub const fn next(&self) -> Option<&MasterKey> {
        self.next.as_ref()
    }

    fn by_id(&self, id: i32) -> Option<&MasterKey> {
        let next = self.next.as_ref().filter(|key| key.key_id == id);
        next.or_else(|| Some(&self.current).filter(|key| key.key_id == id))
    }
}

/// Makes a token that authenticates `attempt` to `node`, for an application of `user`.
#[must_use]
pub fn nm_token(
    key: &MasterKey,
    attempt: ApplicationAttemptId,
    node: &NodeId,
    user: &str,
) -> Token {
    let identifier = NmTokenIdentifierProto {
        app_attempt_id: Some(attempt.into()),
        node_id: Some(node.into()),
        app_submitter: Some(user.to_owned()),
        key_id: Some(key.key_id),
    };
    let identifier = Bytes::from(identifier.encode_to_vec());
    Token::sign(key, identifier, kind::NM_TOKEN, &node.to_string())
}

/// Makes a token that permits starting the container of `identifier`; fills in the key's id.
#[must_use]
pub fn container_token(key: &MasterKey, mut identifier: ContainerTokenIdentifierProto) -> Token {
    let mut token = TokenProto::default();
    put_container_token(&key.signer(), &mut identifier, &mut token);
    token.into()
}

/// Overwrites `token` with a container token and reuses the memory of its texts. For callers that
/// sign many.
pub fn put_container_token(
    signer: &Signer,
    identifier: &mut ContainerTokenIdentifierProto,
    token: &mut TokenProto,
) {
    identifier.master_key_id = Some(signer.key_id());
    token.kind.clear();
    token.kind.push_str(kind::CONTAINER_TOKEN);
    token.service.clear();
    token.service.push_str(identifier.nm_host_addr());
    token.identifier = identifier.encode_to_vec().into();
    token.password = Bytes::copy_from_slice(&signer.sign(&token.identifier));
}

/// The secret manager of AMRMTokens: issues them for attempts, verifies them when a master
/// connects, and revokes them when the attempt has ended (Hadoop: `AMRMTokenSecretManager`).
#[derive(Debug)]
pub struct AmrmTokenSecretManager(Mutex<State>);

#[derive(Debug)]
struct State {
    keys: KeyRing,
    /// Attempts whose tokens are valid: those of unfinished applications, whose number is bounded.
    /// With the users who submitted the applications.
    valid: BTreeMap<ApplicationAttemptId, String>,
}

impl AmrmTokenSecretManager {
    /// Makes a manager with a new key and no valid attempt.
    #[must_use]
    pub fn new(times: RollTimes, now: MonoMillis) -> Self {
        Self::with_keys(KeyRing::new(times, now))
    }

    /// Makes a manager with keys restored after a restart, and no valid attempt.
    #[must_use]
    pub const fn with_keys(keys: KeyRing) -> Self {
        Self(Mutex::new(State {
            keys,
            valid: BTreeMap::new(),
        }))
    }

    /// Returns the current key and its successor, to be stored for [`KeyRing::restore`].
    #[must_use]
    pub fn keys(&self) -> (MasterKey, Option<MasterKey>) {
        let state = self.lock();
        (state.keys.current().clone(), state.keys.next().cloned())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is a single assignment, so a panic of another thread leaves nothing half
        // done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rolls the key if that is due.
    pub fn tick(&self, now: MonoMillis) {
        self.lock().keys.tick(now);
    }

    /// Returns the attempt's token, whether or not it is valid yet.
    #[must_use]
    pub fn token_for(&self, attempt: ApplicationAttemptId) -> Token {
        Self::sign(self.lock().keys.newest(), attempt)
    }

    /// Returns the attempt's token and makes it valid. `user` submitted the application.
    pub fn activate(&self, attempt: ApplicationAttemptId, user: &str) -> Token {
        let mut state = self.lock();
        state.valid.insert(attempt, user.to_owned());
        Self::sign(state.keys.newest(), attempt)
    }

    /// Makes the attempt's tokens invalid.
    pub fn revoke(&self, attempt: ApplicationAttemptId) {
        self.lock().valid.remove(&attempt);
    }

    /// Returns a new token for an attempt whose token `presented` was signed by an older key;
    /// `None` if by the newest.
    #[must_use]
    pub fn renewed_token(&self, attempt: ApplicationAttemptId, presented: &[u8]) -> Option<Token> {
        let shown = AmrmTokenIdentifierProto::decode(presented).ok()?;
        let state = self.lock();
        let key = state.keys.newest_unless_known(Some(shown.key_id()))?;
        Some(Self::sign(key, attempt))
    }

    fn sign(key: &MasterKey, attempt: ApplicationAttemptId) -> Token {
        let identifier = AmrmTokenIdentifierProto {
            app_attempt_id: Some(attempt.into()),
            key_id: Some(key.key_id),
        };
        let identifier = Bytes::from(identifier.encode_to_vec());
        // No service: the master's client fills in the address it connects to.
        Token::sign(key, identifier, kind::AM_RM_TOKEN, "")
    }
}

/// Returns the attempt that an AMRMToken's identifier names.
///
/// # Errors
/// `InvalidToken` if it names none.
pub fn attempt_of(identifier: &[u8]) -> Result<ApplicationAttemptId, RemoteException> {
    let invalid = |why: String| RemoteException::new(HadoopException::InvalidToken, why);
    let identifier = AmrmTokenIdentifierProto::decode(identifier)
        .map_err(|error| invalid(format!("not an AMRMToken: {error}")))?;
    let attempt = identifier.app_attempt_id.as_ref();
    let attempt = attempt.ok_or_else(|| invalid("an AMRMToken without an attempt".to_owned()))?;
    ApplicationAttemptId::try_from(attempt).map_err(|error| invalid(error.to_string()))
}

impl SecretManager for AmrmTokenSecretManager {
    fn kind(&self) -> &'static str {
        kind::AM_RM_TOKEN
    }

    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException> {
        let attempt = attempt_of(identifier)?;
        let invalid = |why: &str| {
            RemoteException::new(HadoopException::InvalidToken, format!("{attempt} {why}"))
        };
        let key_id = AmrmTokenIdentifierProto::decode(identifier).map(|id| id.key_id());
        let state = self.lock();
        let owner = state.valid.get(&attempt);
        let owner = owner.ok_or_else(|| invalid("not found in AMRMTokenSecretManager."))?;
        let key = key_id.ok().and_then(|id| state.keys.by_id(id));
        let key = key.ok_or_else(|| invalid(OF_ANOTHER_KEY))?;
        Ok(Verified {
            password: key.sign(identifier).to_vec(),
            user: attempt.to_string(),
            owner: Some(owner.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: RollTimes = RollTimes {
        interval: 100,
        overlap: 30,
    };

    fn attempt() -> ApplicationAttemptId {
        test_support::ids::attempt(1)
    }

    #[test]
    fn a_new_key_is_sent_before_it_signs() {
        let mut ring = KeyRing::new(TIMES, MonoMillis(0));
        let first = ring.current().key_id;
        assert!(!ring.tick(MonoMillis(99)));
        assert_eq!(ring.newest_unless_known(Some(first)), None);
        assert!(!ring.tick(MonoMillis(100)));
        assert_eq!(ring.current().key_id, first);
        let sent = ring.newest_unless_known(Some(first)).unwrap().key_id;
        assert!(!ring.tick(MonoMillis(129)));
        assert!(ring.tick(MonoMillis(130)));
        assert_eq!(ring.current().key_id, sent);
        assert_eq!(ring.newest_unless_known(Some(sent)), None);
        // From one roll to the next it takes the interval.
        assert!(!ring.tick(MonoMillis(199)));
        assert_eq!(ring.next(), None);
        assert!(!ring.tick(MonoMillis(200)));
        assert!(ring.next().is_some());
        assert_eq!(ring.next(), ring.newest_unless_known(Some(sent)));
    }

    #[test]
    fn a_restored_ring_waits_for_its_overlap_or_its_interval() {
        let (current, next) = (new_key(), new_key());
        let mut in_overlap =
            KeyRing::restore(TIMES, current.clone(), Some(next), MonoMillis(1_000));
        assert!(!in_overlap.tick(MonoMillis(1_029)));
        assert!(in_overlap.tick(MonoMillis(1_030)));
        let mut between = KeyRing::restore(TIMES, current, None, MonoMillis(1_000));
        between.tick(MonoMillis(1_099));
        assert_eq!(between.next(), None);
        between.tick(MonoMillis(1_100));
        assert!(between.next().is_some());
    }

    #[test]
    fn a_masters_token_counts_until_its_attempt_ends() {
        let secrets = AmrmTokenSecretManager::new(TIMES, MonoMillis(0));
        let token = secrets.activate(attempt(), "alice");
        let verified = secrets.retrieve(&token.identifier).unwrap();
        assert_eq!(verified.password, token.password);
        assert_eq!(verified.user, attempt().to_string());
        assert_eq!(verified.owner.as_deref(), Some("alice"));
        secrets.revoke(attempt());
        let refusal = secrets.retrieve(&token.identifier).unwrap_err();
        assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
    }

    #[test]
    fn a_masters_token_of_an_old_key_is_renewed_and_then_void() {
        let secrets = AmrmTokenSecretManager::new(TIMES, MonoMillis(0));
        let old = secrets.activate(attempt(), "alice");
        assert_eq!(secrets.renewed_token(attempt(), &old.identifier), None);
        secrets.tick(MonoMillis(100));
        let new = secrets.renewed_token(attempt(), &old.identifier).unwrap();
        for token in [&old, &new] {
            let verified = secrets.retrieve(&token.identifier).unwrap();
            assert_eq!(verified.password, token.password);
        }
        secrets.tick(MonoMillis(130));
        assert!(secrets.retrieve(&old.identifier).is_err());
        assert!(secrets.retrieve(&new.identifier).is_ok());
    }

    #[test]
    fn a_token_of_another_scheduler_is_refused_with_a_word_on_the_proxy() {
        let [rm, proxy] = [(); 2].map(|()| AmrmTokenSecretManager::new(TIMES, MonoMillis(0)));
        rm.activate(attempt(), "alice");
        let token = proxy.activate(attempt(), "alice");
        let refusal = rm.retrieve(&token.identifier).unwrap_err();
        assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
        for word in [
            "AMRMProxy",
            "yarn.resourcemanager.scheduler.address",
            "yarn.nodemanager.amrmproxy.address",
        ] {
            assert!(refusal.to_string().contains(word), "{refusal}");
        }
    }

    #[test]
    fn bytes_that_are_no_identifier_are_refused() {
        let secrets = AmrmTokenSecretManager::new(TIMES, MonoMillis(0));
        for bytes in [&b""[..], b"\xff\xff", b"\x08\x01"] {
            let refusal = secrets.retrieve(bytes).unwrap_err();
            assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
        }
    }
}
