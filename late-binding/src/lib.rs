//! Late binding between the agents of a cluster: what a proxy and a node say to each other, and how
//! each knows that the other is a node of the cluster.
//!
//! What is decided lies in [`sched`]: its `ReservationTable` at the node, its `Binder` at the
//! proxy.
//!
//! ```text
//!  proxy's node                                         node
//!  Peers::reserve ─── reserve(attempt, tasks, run) ───▶ port 8041
//!  port 8041      ◀── offer(attempt, rooms) ─────────── Peers::offer
//!                 ─── bound, tasks left ──────────────▶
//! ```
//!
//! - Both calls go to the container management port by Hadoop's RPC, whose limits on connections
//!   and bytes count for them as well.
//! - A caller proves that it is a node by a token ([`PeerIdentifier`]) that names both nodes and is
//!   signed with the master key of container tokens. The ResourceManager gives that key to nodes
//!   and to nobody else. ApplicationMasters have tokens signed with it, but none with such an
//!   identifier.
//! - Nothing is repeated: a message that is lost costs time and no container, as
//!   `sched::reservation` says.
//!
//! In: values of `sched`, tokens. Out: calls, values of `sched`. May not know the state of a node
//! or of an attempt.

mod convert;
mod identifier;
mod peers;

pub use convert::{
    NotAReservation, NotAnOffer, offer_answer_of, offer_of, offer_request, offer_response,
    reservation_of, reserve_request,
};
pub use identifier::{PEER_USER_PREFIX, PeerIdentifier, peer_of_user};
pub use peers::{PeerError, PeerTokens, Peers};
