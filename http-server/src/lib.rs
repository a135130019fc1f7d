//! A bounded HTTP/1 server: accepts connections, plain or over TLS, reads requests, sends answers.
//!
//! ```text
//! listener ─▶ HttpServer (owns the table of connections, evicts) ─▶ one task per connection
//!                                                     PeerIo (deadlines) ─▶ hyper ─▶ Service
//! ```
//!
//! Owns the listener, the connections and every bound on what a peer can take: connections in total
//! and per address, bytes of a request, and the time to send a request, to be idle and to take no
//! part of an answer. In: a [`Service`] that answers one request. Out: its answers on the wire. May
//! not know YARN, a page or a metric. [`HostNames`] is the check against DNS rebinding, for
//! services that want one. [`Places`], [`Activity`] and [`set_options`] are also for servers with a
//! loop over requests of their own.

mod activity;
mod connection;
mod host_names;
mod outgoing;
mod peer_io;
mod places;
mod server;
mod service;
#[cfg(test)]
mod tests;

pub use activity::{Activity, Phase};
pub use connection::set_options;
pub use host_names::{HostNames, HostRefusal};
pub use places::{PeerKey, Place, Places};
pub use server::HttpServer;
pub use service::Service;

use std::time::Duration;

/// Bounds on what peers can take from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections. A newcomer beyond this evicts the connection that has been idle longest.
    pub connections: usize,
    /// Open connections of one peer address. A newcomer beyond this evicts a connection of the same
    /// address, so that one peer cannot close the connections of others.
    pub connections_per_address: usize,
    /// Bytes of a request's head, at least 8 KiB (hyper's minimum). Longer heads get 431.
    pub head_bytes: usize,
    /// Header fields of a request. More fields get 431.
    pub head_fields: usize,
    /// Bytes of a request's body. Longer bodies get 413; with 0, any body does.
    pub body_bytes: usize,
    /// Deadline of a request's head from its first byte, and of its body from the head's end.
    pub request_timeout: Duration,
    /// Time without a complete request after which a connection is closed: since it was accepted or
    /// since its last answer.
    pub idle_timeout: Duration,
    /// Time after which a connection is closed whose peer takes no part of an answer. A newcomer
    /// that needs its place evicts such a connection earlier, so it bounds what peers leave behind,
    /// not what they can hold against others.
    pub stall_timeout: Duration,
    /// Time for answers under way to end when the server stops.
    pub shutdown_grace: Duration,
}

impl Limits {
    /// Returns these limits for a port that may have this many descriptors, and at least one.
    #[must_use]
    pub fn within_descriptors(self, descriptors: usize) -> Self {
        let connections = self.connections.min(descriptors).max(1);
        Self {
            connections,
            connections_per_address: self.connections_per_address.min(connections),
            ..self
        }
    }
}

impl Default for Limits {
    /// Bounds for a server with some scrapers, a proxy and a few dozen readers: 256 connections, 64
    /// of one address. A reader may take nothing for ten minutes: `curl --limit-rate 100k` reads
    /// its first megabytes at full speed, and then nothing until the average is right.
    fn default() -> Self {
        Self {
            connections: 256,
            connections_per_address: 64,
            head_bytes: 16 * 1024,
            head_fields: 64,
            body_bytes: 0,
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(600),
            shutdown_grace: Duration::from_secs(1),
        }
    }
}
