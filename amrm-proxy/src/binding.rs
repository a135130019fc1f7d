//! Late binding of opportunistic containers, for all attempts of this node (`placement` =
//! `reservations`).
//!
//! ```text
//!  attempt's scheduler ── Effect::Bind ──▶ AttemptBinding ──▶ ReservationSender   to the nodes
//!        ▲                                  │  Binder   ▲
//!        └────────── News::Bound ◀──────────┘           └── LateBinding::offered  from the nodes
//! ```
//!
//! Tasks are bound by [`sched::Binder`], between the calls of the AM too: an offer comes when a
//! node has room, and has its answer at once. What is bound goes with the AM's next call. A call
//! that has reserved waits a few milliseconds for the first offers.
//!
//! A node that does not take reservations, for example Java's, rests: it gets none for a while,
//! longer each time. Where most nodes rest, containers are placed by looks.

mod attempt;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use records::{ApplicationAttemptId, MonoMillis, NodeId};
use sched::{Digest, KnownNodes, Offer, OfferAnswer, Reservation, Rests};
use sha2::{Digest as _, Sha256};
use wire::rpc::BoxFuture;

pub(crate) use self::attempt::AttemptBinding;
use crate::node_lists::lock;
use crate::pipeline::ReadClock;

/// Longest time that a call waits for the first offers after it has reserved. Nodes with room
/// answer within a millisecond or two.
pub(crate) const OFFERS_WAIT_MAX: Duration = Duration::from_millis(3);

/// First rest, in milliseconds, of a node that takes no reservations.
const REST_MS: u64 = 30_000;

/// Longest rest. Java's nodes write a line to their log for each attempt to call them.
const REST_MAX_MS: u64 = 3_600_000;

/// Most nodes whose rests are remembered.
const RESTS_MAX: usize = 20_000;

/// Outcome of a reservation that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveFailure {
    /// The node takes reservations, but not this one, or this node is not registered: it is asked
    /// again in time.
    Refused,
    /// The node does not take reservations, or does not answer.
    NotTaken,
}

/// Way to other nodes.
pub trait ReservationSender: Send + Sync + 'static {
    /// Tells a node of a reservation, within a bounded time.
    fn reserve(
        &self,
        node: NodeId,
        reservation: Reservation,
    ) -> BoxFuture<'static, Result<(), ReserveFailure>>;
}

/// Late binding of a node's attempts. Clones share everything.
#[derive(Clone)]
pub(crate) struct LateBinding(Arc<Shared>);

struct Shared {
    sender: Option<Arc<dyn ReservationSender>>,
    attempts: Mutex<BTreeMap<ApplicationAttemptId, Arc<AttemptBinding>>>,
    /// Nodes that take no reservations.
    rests: Mutex<Rests<NodeId>>,
    clock: Arc<ReadClock>,
}

impl fmt::Debug for LateBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts = self.attempts().len();
        f.debug_struct("LateBinding")
            .field("attempts", &attempts)
            .finish_non_exhaustive()
    }
}

impl LateBinding {
    /// `sender`: way to other nodes; `None`: nothing is bound late.
    pub(crate) fn new(sender: Option<Arc<dyn ReservationSender>>, clock: Arc<ReadClock>) -> Self {
        Self(Arc::new(Shared {
            sender,
            attempts: Mutex::default(),
            rests: Mutex::new(Rests::new(REST_MS, REST_MAX_MS, RESTS_MAX)),
            clock,
        }))
    }

    /// Begins with an attempt. Offers reach it until [`end`](Self::end).
    pub(crate) fn begin(&self, attempt: ApplicationAttemptId, user: &str) -> Arc<AttemptBinding> {
        let binding = Arc::new(AttemptBinding::new(attempt, digest_of(user)));
        self.attempts().insert(attempt, Arc::clone(&binding));
        binding
    }

    /// Ends an attempt: nothing is bound for it any more, and its reservations are void.
    pub(crate) fn end(&self, attempt: ApplicationAttemptId, binding: &Arc<AttemptBinding>) {
        let mut attempts = self.attempts();
        let present = attempts.get(&attempt);
        if present.is_some_and(|present| Arc::ptr_eq(present, binding)) {
            attempts.remove(&attempt);
        }
    }

    /// Answers the offer of a node.
    pub(crate) fn offered(&self, node: &NodeId, offer: &Offer<()>) -> OfferAnswer {
        let attempt = self.attempts().get(&offer.attempt).cloned();
        attempt.map_or(OfferAnswer::NOTHING, |attempt| {
            attempt.offered(node, offer, self.now())
        })
    }

    /// Returns whether enough of these nodes take reservations, as far as is known.
    pub(crate) fn is_possible(&self, nodes: &KnownNodes) -> bool {
        if self.0.sender.is_none() {
            return false;
        }
        // Each call asks, so that the nodes themselves are not visited.
        2 * self.rests().count(self.now()) <= nodes.len()
    }

    fn rests(&self) -> MutexGuard<'_, Rests<NodeId>> {
        lock(&self.0.rests)
    }

    /// Sends reservations, and notes which nodes take none.
    fn send(&self, letters: Vec<(NodeId, Reservation)>) {
        let Some(sender) = &self.0.sender else {
            return;
        };
        for (node, reservation) in letters {
            let (binding, sent) = (self.clone(), sender.reserve(node.clone(), reservation));
            tokio::spawn(async move {
                let outcome = sent.await;
                let now = binding.now();
                match outcome {
                    Ok(()) => binding.rests().forget(&node),
                    Err(ReserveFailure::Refused) => {}
                    Err(ReserveFailure::NotTaken) => {
                        tracing::debug!(%node, "a node takes no reservations");
                        binding.rests().begin(node, now);
                    }
                }
            });
        }
    }

    fn now(&self) -> MonoMillis {
        (self.0.clock)().mono
    }

    fn attempts(&self) -> MutexGuard<'_, BTreeMap<ApplicationAttemptId, Arc<AttemptBinding>>> {
        lock(&self.0.attempts)
    }
}

/// Returns the digest of a user's name.
fn digest_of(user: &str) -> Digest {
    Digest::of_bytes(&Sha256::digest(user.as_bytes()))
}
