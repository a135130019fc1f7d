//! Stores that are read again while a server runs.

use std::error::Error as _;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::TlsServer;

/// Looks at the stores in the interval of the settings, and takes those that have changed, until it
/// is dropped. Ends at once without an interval. `owner` names the server in the log, such as
/// `the shuffle`.
pub async fn keep_current(tls: Arc<TlsServer>, owner: &'static str) {
    let Some(interval) = tls.config().reload_interval else {
        return;
    };
    loop {
        sleep(interval).await;
        let tls = Arc::clone(&tls);
        match spawn_blocking(move || tls.reload()).await {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => tracing::info!("the key stores of {owner} were read again"),
            Ok(Err(error)) => {
                let cause = error.source().map(ToString::to_string).unwrap_or_default();
                tracing::warn!(%error, cause, "the former keys of {owner} stay in use");
            }
            Err(error) => tracing::error!(%error, "reading the key stores of {owner} failed"),
        }
    }
}
