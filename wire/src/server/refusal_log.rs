//! Log of refused connections. Anybody can be refused at any rate, so a line a second has to do.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use refusals::{Pace, Reason};
use tokio::time::Instant;

use super::handshake::Refused;

/// Lines a second.
const LINES_MAX: u32 = 1;

/// Log of one server's refusals.
#[derive(Debug)]
pub(super) struct RefusalLog {
    pace: Pace,
    on_unauthorized: OnUnauthorized,
}

type Call = dyn Fn(SocketAddr, &str) + Send + Sync;

/// Function that is called with each peer that did not prove its identity, and the answer to it.
#[derive(Clone, Default)]
pub(super) struct OnUnauthorized(pub(super) Option<Arc<Call>>);

impl fmt::Debug for OnUnauthorized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnUnauthorized")
    }
}

impl RefusalLog {
    pub(super) fn new(on_unauthorized: OnUnauthorized) -> Self {
        let pace = Pace::new(LINES_MAX);
        Self {
            pace,
            on_unauthorized,
        }
    }

    /// Logs a refusal, or counts it for the next line.
    pub(super) fn log(&self, peer: SocketAddr, refused: &Refused) {
        if let (Some(call), Refused::Answered { exception, .. }, Reason::Unauthorized) =
            (&self.on_unauthorized.0, refused, refused.reason())
        {
            call(peer, &exception.message);
        }
        match self.pace.due(Instant::now().into_std()) {
            Some(0) => tracing::info!(%peer, reason = %refused, "RPC connection refused"),
            Some(earlier) => {
                tracing::info!(%peer, reason = %refused, earlier, "RPC connections refused");
            }
            None => tracing::debug!(%peer, reason = %refused, "RPC connection refused"),
        }
    }
}
