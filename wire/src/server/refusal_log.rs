//! Log of refused connections. Anybody can be refused at any rate, so a line a second has to do.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::handshake::Refused;

/// Shortest time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Log of one server's refusals.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    last: Option<Instant>,
    /// Refusals since the last line.
    unlogged: u64,
}

impl RefusalLog {
    /// Logs a refusal, or counts it for the next line.
    pub(super) fn log(&self, peer: SocketAddr, reason: &Refused) {
        match self.due() {
            Some(0) => tracing::info!(%peer, %reason, "RPC connection refused"),
            Some(earlier) => {
                tracing::info!(%peer, %reason, earlier, "RPC connections refused");
            }
            None => tracing::debug!(%peer, %reason, "RPC connection refused"),
        }
    }

    /// Returns the number of refusals that were only counted, if a line is due.
    fn due(&self) -> Option<u64> {
        // Both numbers are valid whatever another thread did.
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            lines.unlogged += 1;
            return None;
        }
        lines.last = Some(Instant::now());
        Some(std::mem::take(&mut lines.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_has_one_line_and_the_next_line_has_the_number_of_the_others() {
        let log = RefusalLog::default();
        assert_eq!(log.due(), Some(0));
        for _ in 0..1_000 {
            assert_eq!(log.due(), None);
        }
        advance(INTERVAL).await;
        assert_eq!(log.due(), Some(1_000));
        assert_eq!(log.due(), None);
        advance(INTERVAL).await;
        assert_eq!(log.due(), Some(1));
        advance(INTERVAL).await;
        assert_eq!(log.due(), Some(0));
    }
}
