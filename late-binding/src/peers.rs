//! Calls to other nodes, over connections that are kept.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use records::NodeId;
use sched::{OFFER_LIFE_MS, Offer, OfferAnswer, Reservation};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use wire::client::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::protection::Protections;
use wire::protocol::late_binding::{MakeOffer, PROTOCOL, Reserve};
use wire::rpc::Method;
use wire::token::Token;

use crate::convert::{offer_answer_of, offer_request, reserve_request};

/// Most calls of a node at once; further ones wait for their turn as long as their time allows.
const CALLS_AT_ONCE_MAX: usize = 256;

/// Most connections that are kept, each to another node.
const KEPT_MAX: usize = 512;

/// Longest time that an unused connection is kept once another one is made. Shorter than that of
/// Hadoop's clients, since an attempt renews its reservations every few seconds.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// Longest time for a reservation, its connection included.
const RESERVE_MAX: Duration = Duration::from_secs(1);

/// Source of the tokens with which this node calls others.
pub trait PeerTokens: Send + Sync + 'static {
    /// Returns a token of this node for another; `None` while this node is not registered.
    fn token_for(&self, node: &NodeId) -> Option<Token>;
}

/// Failure of a call to another node.
#[derive(Debug, Error)]
pub enum PeerError {
    /// This node has no key to prove who it is.
    #[error("this node is not registered")]
    NotRegistered,
    /// The node could not be reached, or does not answer in time.
    #[error("the node does not answer")]
    Silent(#[source] Option<RpcError>),
    /// The node does not speak this protocol, or does not take this node for one of the cluster.
    #[error("the node refuses the call")]
    Foreign(#[source] RpcError),
    /// The node has no place for the reservation.
    #[error("the node takes no reservation: {0}")]
    Refused(String),
}

impl From<RpcError> for PeerError {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::Remote(_) | RpcError::Sasl { .. } => Self::Foreign(error),
            RpcError::Dial(_)
            | RpcError::Timeout { .. }
            | RpcError::ConnectionLost { .. }
            | RpcError::RequestTooLong(_)
            | RpcError::Decode { .. } => Self::Silent(Some(error)),
        }
    }
}

struct Kept {
    client: RpcClient,
    used: Instant,
}

/// Other nodes, as this one calls them.
pub struct Peers {
    tokens: Arc<dyn PeerTokens>,
    options: ClientOptions,
    places: Semaphore,
    kept: Mutex<BTreeMap<NodeId, Kept>>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers")
            .field("kept", &self.lock().len())
            .finish_non_exhaustive()
    }
}

impl Peers {
    /// Makes calls with these tokens, on connections of these levels of protection.
    #[must_use]
    pub fn new(tokens: Arc<dyn PeerTokens>, protections: Protections) -> Self {
        Self {
            tokens,
            options: ClientOptions {
                connect_timeout: RESERVE_MAX,
                call_timeout: RESERVE_MAX,
                protections,
                ..ClientOptions::default()
            },
            places: Semaphore::new(CALLS_AT_ONCE_MAX),
            kept: Mutex::default(),
        }
    }

    /// Tells a node of a reservation of this node's proxy.
    ///
    /// # Errors
    /// [`PeerError`]: the node may have taken it all the same, except after
    /// [`PeerError::Refused`].
    pub async fn reserve(&self, node: &NodeId, reservation: &Reservation) -> Result<(), PeerError> {
        let request = reserve_request(reservation);
        let answer = self.call::<Reserve>(node, &request, RESERVE_MAX).await?;
        answer
            .refusal
            .map_or(Ok(()), |refusal| Err(PeerError::Refused(refusal)))
    }

    /// Offers room of this node to the proxy on another, and returns what it makes of it.
    ///
    /// # Errors
    /// [`PeerError`]: the proxy may have bound tasks all the same, which then come unannounced.
    pub async fn offer(&self, offer: &Offer<NodeId>) -> Result<OfferAnswer, PeerError> {
        let life = Duration::from_millis(OFFER_LIFE_MS);
        let answer = self
            .call::<MakeOffer>(&offer.to, &offer_request(offer), life)
            .await?;
        Ok(offer_answer_of(&answer))
    }

    async fn call<M: Method>(
        &self,
        node: &NodeId,
        request: &M::Request,
        longest: Duration,
    ) -> Result<M::Response, PeerError> {
        let calling = async {
            // The semaphore is never closed.
            let _place = self.places.acquire().await;
            if let Some(client) = self.kept(node) {
                match client.call::<M>(request).await {
                    // The node may just have closed the connection.
                    Err(RpcError::ConnectionLost { .. }) => {}
                    answer => return Ok(answer?),
                }
            }
            Ok(self.connect(node).await?.call::<M>(request).await?)
        };
        timeout(longest, calling)
            .await
            .unwrap_or(Err(PeerError::Silent(None)))
    }

    async fn connect(&self, node: &NodeId) -> Result<RpcClient, PeerError> {
        let token = self
            .tokens
            .token_for(node)
            .ok_or(PeerError::NotRegistered)?;
        let auth = ClientAuth::Token(token);
        let client =
            RpcClient::connect_host(&node.host, node.port, PROTOCOL, auth, &self.options).await?;
        let mut kept = self.lock();
        kept.retain(|_, kept| kept.used.elapsed() < KEPT_FOR && !kept.client.is_lost());
        if kept.len() < KEPT_MAX || kept.contains_key(node) {
            let (client, used) = (client.clone(), Instant::now());
            kept.insert(node.clone(), Kept { client, used });
        }
        Ok(client)
    }

    fn kept(&self, node: &NodeId) -> Option<RpcClient> {
        let mut kept = self.lock();
        let known = kept.get_mut(node)?;
        if known.client.is_lost() {
            kept.remove(node);
            return None;
        }
        known.used = Instant::now();
        Some(known.client.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
