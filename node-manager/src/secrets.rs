//! The keys that the ResourceManager shares with its nodes, and what is verified with them.
//!
//! Two keys, current and previous, for container tokens and two for NMTokens (Hadoop:
//! `NMContainerTokenSecretManager`, `NMTokenSecretManagerInNM`). They arrive with the registration
//! and roll by heartbeat. For each application attempt the key of its last good NMToken is
//! remembered, so that a long-running AM keeps its access over two rolls.
//!
//! Shared between the RPC connections, which verify, and the status updater, which stores keys:
//! behind a lock that is held for a look-up only, never over an await.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use amrm_proxy::{NodeKeys, NodeTokenKeys};
use late_binding::{PeerIdentifier, PeerTokens};
use node_core::Attempts;
use node_core::recovery::{KeyRecord, KeysRecord};
use prost::Message;
use records::{ApplicationAttemptId, ApplicationId, NodeId};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{ContainerTokenIdentifierProto, NmTokenIdentifierProto};
use wire::rpc::{SecretManager, Verified};
use wire::token::{MasterKey, Token, kind};

use crate::recovery::KeyWriter;

/// Attempts whose NMToken key is remembered. They are dropped with their application, of which
/// there are at most [`node_core::applications::APPLICATIONS_MAX`]; two attempts each is YARN's
/// default limit.
const REMEMBERED_ATTEMPTS_MAX: usize = 2 * node_core::applications::APPLICATIONS_MAX;

/// The node's keys and, once the port is known, its id.
#[derive(Debug, Default)]
pub struct NodeSecrets {
    node_id: OnceLock<NodeId>,
    keys: RwLock<Keys>,
    /// Where keys are kept for the next agent; unset: nowhere.
    writer: OnceLock<KeyWriter>,
}

#[derive(Debug, Default)]
struct Keys {
    container_token: RollingKey,
    nm_token: RollingKey,
    by_attempt: BTreeMap<ApplicationAttemptId, MasterKey>,
    /// Identifier of the last registration, which container tokens of this node's own making name.
    /// The core publishes it.
    rm_identifier: Option<i64>,
}

/// Master keys in an answer of the ResourceManager; `None`: as before.
#[derive(Clone, Debug, Default)]
pub struct NewKeys {
    /// Key of container tokens.
    pub container_token: Option<MasterKey>,
    /// Key of NMTokens.
    pub nm_token: Option<MasterKey>,
}

/// A key and the one before it: both verify, so that a roll invalidates nothing in flight.
#[derive(Debug, Default)]
struct RollingKey {
    current: Option<MasterKey>,
    previous: Option<MasterKey>,
}

impl RollingKey {
    /// Takes a key from the RM. Returns whether it is new; the same id again changes nothing.
    fn roll(&mut self, key: MasterKey) -> bool {
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.key_id == key.key_id)
        {
            return false;
        }
        self.previous = self.current.replace(key);
        true
    }

    /// The previous key goes first, as in Hadoop: ids are random, and an old token must not be
    /// checked with a new key.
    fn find(&self, key_id: i32) -> Option<&MasterKey> {
        [&self.previous, &self.current]
            .into_iter()
            .flatten()
            .find(|key| key.key_id == key_id)
    }
}

impl NodeSecrets {
    /// Sets the id that tokens must name. The first call counts; the node's id never changes while
    /// it runs.
    pub fn set_node_id(&self, node_id: NodeId) {
        let _already_set = self.node_id.set(node_id);
    }

    /// Takes the keys of an answer.
    pub fn roll(&self, keys: NewKeys) {
        if let Some(key) = keys.container_token {
            self.roll_container_token_key(key);
        }
        if let Some(key) = keys.nm_token {
            self.roll_nm_token_key(key);
        }
    }

    /// Takes the container-token key of a registration or heartbeat.
    pub fn roll_container_token_key(&self, key: MasterKey) {
        let key_id = key.key_id;
        let is_new = self.write().container_token.roll(key);
        if is_new {
            self.store_keys();
            tracing::info!(key_id, "container tokens are now signed with a new key");
        }
    }

    /// Takes the NMToken key of a registration or heartbeat.
    pub fn roll_nm_token_key(&self, key: MasterKey) {
        let key_id = key.key_id;
        let is_new = self.write().nm_token.roll(key);
        if is_new {
            self.store_keys();
            tracing::info!(key_id, "NMTokens are now signed with a new key");
        }
    }

    /// Takes the identifier of a registration from the core.
    pub fn set_rm_identifier(&self, rm_identifier: i64) {
        self.write().rm_identifier = Some(rm_identifier);
    }

    /// The current keys, container-token key first: each heartbeat names them.
    #[must_use]
    pub fn current_keys(&self) -> (Option<MasterKey>, Option<MasterKey>) {
        let keys = self.read();
        (
            keys.container_token.current.clone(),
            keys.nm_token.current.clone(),
        )
    }

    /// Verifies a container token over the bytes received and returns its identifier.
    ///
    /// # Errors
    /// `InvalidToken` when it is empty, of another kind, for another node, of an unknown key, or
    /// forged.
    pub fn verify_container_token(
        &self,
        token: &TokenProto,
    ) -> Result<ContainerTokenIdentifierProto, RemoteException> {
        if token.identifier.is_empty() || token.kind != kind::CONTAINER_TOKEN {
            return Err(invalid_token("Invalid ContainerToken"));
        }
        let identifier = ContainerTokenIdentifierProto::decode(&*token.identifier)
            .map_err(|error| invalid_token(format!("Invalid ContainerToken: {error}")))?;
        let name = describe(&identifier);
        let own = self
            .node_id
            .get()
            .map(NodeId::to_string)
            .unwrap_or_default();
        if identifier.nm_host_addr() != own {
            return Err(invalid_token(format!(
                "Given Container {name} identifier is not valid for current Node manager. Expected : {own} Found : {}",
                bounded(identifier.nm_host_addr()),
            )));
        }
        let keys = self.read();
        let key = keys
            .container_token
            .find(identifier.master_key_id())
            .ok_or_else(|| {
                invalid_token(format!(
                    "Given Container {name} seems to have an illegally generated token."
                ))
            })?;
        if !key.verify(&token.identifier, &token.password) {
            return Err(invalid_token(format!(
                "Invalid container token used for starting container on : {own}"
            )));
        }
        Ok(identifier)
    }

    /// Takes over the keys of an earlier agent, and keeps those that follow for the next one. For
    /// the start, before any token is verified.
    pub fn restore(
        &self,
        writer: KeyWriter,
        keys: Option<KeysRecord>,
        attempts: BTreeMap<ApplicationAttemptId, KeyRecord>,
    ) {
        let mut own = self.write();
        if let Some(record) = keys {
            own.container_token = RollingKey {
                current: record.container_current.map(key_of),
                previous: record.container_previous.map(key_of),
            };
            own.nm_token = RollingKey {
                current: record.nm_current.map(key_of),
                previous: record.nm_previous.map(key_of),
            };
        }
        let attempts = attempts.into_iter().take(REMEMBERED_ATTEMPTS_MAX);
        own.by_attempt = attempts.map(|(id, key)| (id, key_of(key))).collect();
        let _already_set = self.writer.set(writer);
    }

    fn store_keys(&self) {
        let Some(writer) = self.writer.get() else {
            return;
        };
        let keys = self.read();
        let record = |key: &Option<MasterKey>| key.as_ref().map(key_record);
        writer.keys(&KeysRecord {
            container_current: record(&keys.container_token.current),
            container_previous: record(&keys.container_token.previous),
            nm_current: record(&keys.nm_token.current),
            nm_previous: record(&keys.nm_token.previous),
        });
    }

    // A thread that panicked while holding the lock cannot have left a key half written: each
    // change is one assignment.
    fn read(&self) -> RwLockReadGuard<'_, Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Keys> {
        self.keys.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys with which this node's AMRMProxy signs tokens for other nodes.
impl Attempts for NodeSecrets {
    fn remember(&self, attempt: ApplicationAttemptId, key_id: i32) -> Result<(), RemoteException> {
        let mut keys = self.write();
        let Some(key) = keys.nm_token.find(key_id).cloned() else {
            return Err(invalid_token(
                "Older NMToken should not be used while starting the container.",
            ));
        };
        if keys.by_attempt.len() < REMEMBERED_ATTEMPTS_MAX || keys.by_attempt.contains_key(&attempt)
        {
            let record = key_record(&key);
            let before = keys.by_attempt.insert(attempt, key);
            let is_new = before.is_none_or(|before| before.key_id != key_id);
            if let Some(writer) = self.writer.get().filter(|_| is_new) {
                writer.attempt(attempt, Some(&record));
            }
        }
        Ok(())
    }

    fn forget_application(&self, id: ApplicationId) {
        self.write().by_attempt.retain(|attempt, _| {
            let stays = attempt.application_id != id;
            if let Some(writer) = self.writer.get().filter(|_| !stays) {
                writer.attempt(*attempt, None);
            }
            stays
        });
    }
}

impl NodeSecrets {
    /// Returns the password of another node's token for this one.
    fn retrieve_peer(
        &self,
        peer: &PeerIdentifier,
        identifier: &[u8],
    ) -> Result<Verified, RemoteException> {
        if self.node_id.get() != Some(&peer.to) {
            return Err(invalid_token(format!(
                "the token of a node is for {}, not for this node",
                peer.to
            )));
        }
        let keys = self.read();
        let key = keys.container_token.find(peer.key_id);
        let key = key.ok_or_else(|| {
            invalid_token("the token of a node is signed with a key that this node does not have")
        })?;
        Ok(Verified {
            password: key.sign(identifier).to_vec(),
            user: peer.user(),
            owner: None,
        })
    }
}

/// Tokens with which this node calls others.
impl PeerTokens for NodeSecrets {
    fn token_for(&self, node: &NodeId) -> Option<Token> {
        let own = self.node_id.get()?;
        let keys = self.read();
        let key = keys.container_token.current.as_ref()?;
        Some(PeerIdentifier::token(own, node, key))
    }
}

impl NodeKeys for NodeSecrets {
    fn current(&self) -> Option<NodeTokenKeys> {
        let keys = self.read();
        Some(NodeTokenKeys {
            container_token: keys.container_token.current.clone()?,
            nm_token: keys.nm_token.current.clone()?,
            rm_identifier: keys.rm_identifier?,
        })
    }
}

/// The passwords of NMTokens, for the connections of AMs and of the ResourceManager.
impl SecretManager for NodeSecrets {
    fn kind(&self) -> &'static str {
        kind::NM_TOKEN
    }

    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException> {
        if let Some(peer) = PeerIdentifier::read(identifier) {
            return self.retrieve_peer(&peer, identifier);
        }
        let token = NmTokenIdentifierProto::decode(identifier)
            .map_err(|error| invalid_token(format!("Invalid NMToken: {error}")))?;
        let attempt = nm_token_attempt(&token)?;
        let found = token
            .node_id
            .as_ref()
            .map(|id| format!("{}:{}", bounded(id.host()), id.port()))
            .unwrap_or_default();
        let own = self
            .node_id
            .get()
            .map(NodeId::to_string)
            .unwrap_or_default();
        if found != own {
            return Err(invalid_token(format!(
                "Given NMToken for application : {attempt} is not valid for current node manager.expected : {own} found : {found}"
            )));
        }
        let keys = self.read();
        let key = keys
            .nm_token
            .find(token.key_id())
            .or_else(|| keys.by_attempt.get(&attempt).filter(|key| key.key_id == token.key_id()))
            .ok_or_else(|| {
                invalid_token(format!(
                    "Given NMToken for application : {attempt} seems to have been generated illegally."
                ))
            })?;
        Ok(Verified {
            password: key.sign(identifier).to_vec(),
            user: attempt.to_string(),
            owner: token.app_submitter.filter(|user| !user.is_empty()),
        })
    }
}

/// The attempt that an NMToken identifier names.
///
/// # Errors
/// `InvalidToken` when it names none.
pub fn nm_token_attempt(
    token: &NmTokenIdentifierProto,
) -> Result<ApplicationAttemptId, RemoteException> {
    token
        .app_attempt_id
        .as_ref()
        .and_then(|attempt| ApplicationAttemptId::try_from(attempt).ok())
        .ok_or_else(|| invalid_token("Invalid NMToken: it names no application attempt"))
}

fn key_record(key: &MasterKey) -> KeyRecord {
    KeyRecord {
        id: key.key_id,
        secret: key.secret().to_vec(),
    }
}

fn key_of(record: KeyRecord) -> MasterKey {
    MasterKey::new(record.id, record.secret.into())
}

fn invalid_token(message: impl Into<String>) -> RemoteException {
    RemoteException::new(HadoopException::InvalidToken, message)
}

fn describe(identifier: &ContainerTokenIdentifierProto) -> String {
    identifier
        .container_id
        .as_ref()
        .and_then(|id| records::ContainerId::try_from(id).ok())
        .map_or_else(|| "without a container id".to_owned(), |id| id.to_string())
}

/// Texts of a peer that has proved nothing are cut before they reach an answer or a log.
fn bounded(text: &str) -> &str {
    const TEXT_MAX: usize = 256;
    text.char_indices()
        .nth(TEXT_MAX)
        .map_or(text, |(end, _)| &text[..end])
}
