//! Late binding of opportunistic containers by reservations: a task gets its node when that node
//! has room, and not before.
//!
//! The proxy of an attempt reserves at two nodes, drawn at random, for each task that waits. A node
//! with room offers it to one of the reservations. The proxy binds a task to the offer, and the
//! ApplicationMaster gets the container with its next call. Probes that wait for room and bind late
//! are Sparrow's (Ousterhout et al., SOSP 2013). Its probes are served in the order of their
//! arrival; here, as in Eagle (Delgado et al., SoCC 2016), a node picks the attempt with the least
//! left.
//!
//! ```text
//!  proxy: Binder                                     node: ReservationTable
//!  ─────────────                                     ──────────────────────
//!  wants(tasks, nodes) ──── Reservation ───────────▶ reserve
//!  offered             ◀─── Offer ────────────────── offer(room)
//!                      ──── OfferAnswer ───────────▶ answered: the room is held
//!  take_bound: the master's next answer
//!                      ── the master's start call ─▶ arrived: the room is the container's
//! ```
//!
//! - A reservation names the attempt and a size, not a task. It is void when the attempt has
//!   nothing left to start, and otherwise stands until it expires, so a node with much room serves
//!   an attempt again and again.
//! - A reservation is a wish. Lost messages cost time and no container: the proxy renews its
//!   reservations, the node gives room to the next one if an offer has no answer, and frees room
//!   whose container does not come. A container that comes later waits on the node like any other.
//! - An attempt for which room was held in vain gets no offers for a while, longer each time
//!   unless containers of it come: nobody keeps room from others by binding tasks that are not
//!   started.
//! - No attempt starves at a node: one that has waited there for [a multiple of its expected
//!   run](QUEUE_BOUND_FACTOR_DEFAULT) since it came or got room there last gets the next room,
//!   however much is left of it.
//!
//! [QUEUE_BOUND_FACTOR_DEFAULT]: crate::QUEUE_BOUND_FACTOR_DEFAULT

mod binder;
mod held;
mod shares;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use records::{ApplicationAttemptId, Resource};
use thiserror::Error;

pub use self::binder::Binder;
pub use self::table::ReservationTable;
use crate::run_profile::Digest;

/// Most reservations of a node. At about 450 bytes each they take 1.8 MiB at most.
pub const RESERVATIONS_MAX: usize = 4_096;

/// Most reservations of one user at a node.
pub const RESERVATIONS_OF_USER_MAX: usize = 1_024;

/// Most reservations of one attempt at a node: one for each size of its containers.
pub const RESERVATIONS_OF_ATTEMPT_MAX: usize = 8;

/// Milliseconds after which a reservation expires unless it is renewed.
pub const RESERVATION_LIFE_MS: u64 = 10_000;

/// Milliseconds after which a proxy renews a reservation, early enough for one renewal to be lost.
pub const RESERVATION_RENEWAL_MS: u64 = 4_000;

const _: () = assert!(2 * RESERVATION_RENEWAL_MS < RESERVATION_LIFE_MS);

/// Most nodes at which an attempt has reserved for one size.
pub const RESERVED_NODES_MAX: usize = 1_024;

/// Reservations for each task that waits.
pub const RESERVATIONS_PER_TASK: usize = 2;

/// Milliseconds after which an offer without an answer is void. Proxies answer at once.
pub const OFFER_LIFE_MS: u64 = 500;

/// Milliseconds for which room is held at most after a proxy has bound a task to it. Longer than
/// most masters take until their next call.
pub const HELD_MAX_MS: u64 = 5_000;

/// Expectation of how long containers of an attempt run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedRun {
    /// Mean in milliseconds, learnt from containers that have ended, or told.
    Mean(u64),
    /// Milliseconds that the oldest container has run; no other has ended.
    AtLeast(u64),
}

impl ExpectedRun {
    /// Returns the milliseconds to expect where containers of which nothing is known are expected
    /// to run for `unknown_ms`.
    pub(crate) fn expected_ms(self, unknown_ms: u64) -> u64 {
        let expected_ms = match self {
            Self::Mean(mean_ms) => mean_ms,
            Self::AtLeast(ran_ms) => unknown_ms.max(ran_ms),
        };
        expected_ms.clamp(1, crate::queue_order::EXPECTED_MAX_MS)
    }
}

/// Wish of an attempt for room on a node, as its proxy tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Attempt whose tasks wait.
    pub attempt: ApplicationAttemptId,
    /// Digest of the name of the attempt's user.
    pub user: Digest,
    /// Size of each container.
    pub size: Resource,
    /// Tasks of the attempt that wait for a container of this size, on any node; 0: the reservation
    /// is void.
    pub waiting: u32,
    /// Expected run of a container.
    pub run: ExpectedRun,
    /// Containers of this size that the node holds room for and that will not come: their tasks are
    /// not wanted any more.
    pub given_back: u32,
}

/// Refusal of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReserveError {
    /// The size has no memory or no vcores.
    #[error("a reservation for {0} has no size")]
    NoSize(Resource),
    /// The attempt has as many as it may have.
    #[error("the attempt has {RESERVATIONS_OF_ATTEMPT_MAX} reservations on this node")]
    AttemptFull,
    /// The user has as many as he may have.
    #[error("the user has {RESERVATIONS_OF_USER_MAX} reservations on this node")]
    UserFull,
    /// The node has as many as it may have, and no user has more than this one would have.
    #[error("the node has {RESERVATIONS_MAX} reservations")]
    NodeFull,
}

/// Number of an offer, unique at its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferId(pub u64);

impl fmt::Display for OfferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offer {}", self.0)
    }
}

/// Offer of a node to the proxy of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer<P> {
    /// Number for the answer.
    pub id: OfferId,
    /// Proxy that has reserved.
    pub to: P,
    /// Attempt that the room is for.
    pub attempt: ApplicationAttemptId,
    /// Size of each container.
    pub size: Resource,
    /// Containers that there is room for, at least 1.
    pub rooms: u32,
}

/// Answer of a proxy to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferAnswer {
    /// Tasks that are bound to the room offered; 0: none waits any more.
    pub bound: u32,
    /// Tasks of this size that wait after that; 0: the reservation is void.
    pub waiting: u32,
    /// Expected run of a container.
    pub run: ExpectedRun,
    /// Milliseconds in which the proxy expects the start calls of the tasks that are bound.
    pub within_ms: u64,
}

impl OfferAnswer {
    /// Answer of a proxy whose attempt wants nothing of the size offered.
    pub const NOTHING: Self = Self {
        bound: 0,
        waiting: 0,
        run: ExpectedRun::AtLeast(0),
        within_ms: 0,
    };
}

/// Reason for which an answer to an offer is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// There is no such offer, or not any more.
    #[error("no {0} is open")]
    NotOpen(OfferId),
    /// The offer was made to another proxy.
    #[error("{0} was made to another proxy")]
    NotYours(OfferId),
}

/// Size as a key of ordered maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SizeKey {
    memory_mb: u64,
    vcores: u32,
}

impl From<Resource> for SizeKey {
    fn from(size: Resource) -> Self {
        Self {
            memory_mb: size.memory_mb,
            vcores: size.vcores,
        }
    }
}

impl SizeKey {
    const fn size(self) -> Resource {
        Resource::new(self.memory_mb, self.vcores)
    }
}
