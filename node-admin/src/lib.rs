//! The agent's admin socket: a Unix socket where operators of this machine ask what the node does
//! and give it orders.
//!
//! ```text
//! nm-agent status ─▶ client::ask ─▶ socket ─▶ AdminServer (who asks? bounds) ─▶ AdminNode
//! ```
//!
//! One request and one answer a connection, each a line of JSON ([`message`]). Owns the socket's
//! file, the check of who asks ([`access`]), and every bound on what a caller can take:
//! connections and answers of each user, bytes of a request and of an answer, and the time for
//! each. In: an [`AdminNode`] that answers a request. Out: its answers. Knows no core, no scheduler
//! and no configuration.

pub mod access;
mod callers;
pub mod client;
pub mod message;
mod server;
mod socket;
#[cfg(test)]
mod tests;

pub use server::{AdminNode, AdminServer};
pub use socket::BindError;

use std::time::Duration;

/// Longest request in bytes. The longest that the client sends is an order to drain with its
/// reason, below 2 KiB.
pub const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Longest answer in bytes. A queue of 10,000 containers takes about 3 MiB.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long a caller may take for its request, and afterwards to take the answer.
const CALLER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the node may take for an answer. Longer than any step of the node that an answer waits
/// for.
const NODE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a client waits for the whole: a little more than the server's own bounds.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(35);
