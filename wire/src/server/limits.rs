//! The limits of a server: everything that a peer can make grow.

use std::time::Duration;

use crate::frame::FRAME_LENGTH_MAX;

/// The limits of one server, for all peers together and for each.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Connections of callers at a time; further ones wait for a place while they have the time
    /// to authenticate. A user who has proved a token gets half.
    pub connections_max: usize,
    /// Connections of peers that have not authenticated themselves. A further one evicts one of an
    /// address that holds more than a sixteenth, or one that is silent or takes too long, and waits
    /// until there is such a one.
    pub strangers_max: usize,
    /// Calls in flight on one connection; its further calls are not read.
    pub calls_per_connection_max: usize,
    /// Longest frame of an authenticated peer, in bytes.
    pub frame_length_max: usize,
    /// Total bytes of requests that cost more than
    /// [`SMALL_REQUEST_BYTES`](super::SMALL_REQUEST_BYTES): frames as far as they have arrived, and
    /// what decoding them takes, until their calls end. A user who has proved a token gets half;
    /// one request may cost half.
    pub requests_bytes_max: usize,
    /// Total bytes of answers that their peers have not read, with a reservation for each call
    /// without an answer. A user who has proved a token gets half.
    pub answers_bytes_max: usize,
    /// Bytes reserved for a call's answer until its length is known.
    pub answer_bytes_reserved: usize,
    /// Time for a frame to arrive, beside the time that
    /// [`receive_rate_min`](Self::receive_rate_min) gives it.
    pub receive_grace: Duration,
    /// Lowest rate at which a frame may arrive, in bytes per second.
    pub receive_rate_min: usize,
    /// Time from accept to connection context, so that half-open peers do not occupy connections.
    pub handshake_timeout: Duration,
    /// Time without calls after which a connection is closed.
    pub idle_timeout: Duration,
    /// The same timeout while more than half of [`connections_max`](Self::connections_max) are
    /// open.
    pub idle_timeout_crowded: Duration,
    /// Time that a peer may leave answers unread.
    pub stall_timeout: Duration,
    /// Time for calls in flight to finish once the server shuts down.
    pub drain_timeout: Duration,
}

impl Default for ServerLimits {
    /// Returns limits for a server whose callers prove no identity, such as the nodes of a
    /// cluster; Hadoop's defaults where it has them: `ipc.maximum.data.length`, and twice
    /// `ipc.client.connection.maxidletime` when crowded.
    fn default() -> Self {
        Self {
            connections_max: 4096,
            strangers_max: 2048,
            calls_per_connection_max: 256,
            frame_length_max: FRAME_LENGTH_MAX,
            requests_bytes_max: 4 * FRAME_LENGTH_MAX,
            answers_bytes_max: 2 * FRAME_LENGTH_MAX,
            answer_bytes_reserved: 64 * 1024,
            receive_grace: Duration::from_secs(10),
            receive_rate_min: 64 * 1024,
            handshake_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(600),
            idle_timeout_crowded: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(5),
        }
    }
}

impl ServerLimits {
    /// Returns these limits for a port that may have this many descriptors: half for peers that
    /// have not authenticated themselves, and the rest for callers.
    #[must_use]
    pub fn within_descriptors(self, descriptors: usize) -> Self {
        let strangers = (descriptors / 2).clamp(1, self.strangers_max);
        let callers = descriptors.saturating_sub(strangers);
        Self {
            connections_max: callers.clamp(1, self.connections_max),
            strangers_max: strangers,
            ..self
        }
    }

    /// Returns the bytes that one request may cost: its frame, and what decoding takes.
    #[must_use]
    pub const fn request_cost_max(&self) -> usize {
        self.requests_bytes_max / 2
    }

    /// Returns the time within which this many bytes of a frame have to arrive.
    pub(super) fn time_for(&self, bytes: usize) -> Duration {
        let seconds = bytes / self.receive_rate_min.max(1);
        self.receive_grace + Duration::from_secs(seconds as u64)
    }
}
