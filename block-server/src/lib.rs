//! Serves ranges of files to many peers over TCP, whatever the protocol: a port, threads, bounds on
//! connections, and sending.
//!
//! ```text
//! Listener ─▶ start: accept loop ─▶ Connections (who gets a place) ─▶ Protocol::serve
//!                                                                      └─▶ Sender ─▶ Stream
//! ```
//!
//! In: a port, limits and a [`Protocol`], which reads requests and chooses ranges of files. Out:
//! bytes on the wire, by `sendfile` where nothing encrypts them. May not know what a request or a
//! file means.
//!
//! Reads of files block, so they happen on threads that serve nothing else: a disk that hangs
//! delays fetches and no heartbeat.

mod connections;
mod listener;
mod sender;
mod shares;
mod stream;

pub use listener::{Limits, Listener, Protocol, RunningServer};
pub use sender::{CachePolicy, Keystream, Sender};
pub use shares::{Share, Shares};
pub use stream::{NoTls, Stream};

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

/// Bytes of a connection's send buffer (`SO_SNDBUF`; Linux doubles the figure). The kernel's
/// automatic size would let each slow peer hold some megabytes. Enough for 500 MB/s over 1 ms.
const SEND_BUFFER_BYTES: usize = 256 * 1024;

/// Sets the options of an accepted connection, whose peer is given up when it acknowledges nothing
/// for `stall_timeout`.
///
/// # Errors
/// The system's.
pub fn set_options(stream: &TcpStream, stall_timeout: Duration) -> io::Result<()> {
    http_server::set_options(stream, SEND_BUFFER_BYTES, stall_timeout)
}
