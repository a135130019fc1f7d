//! The listener and its connections.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::stall::Stall;
use super::{AdminOptions, Site};
use crate::metrics::Metrics;
use crate::view::NodeSource;

/// Open connections. Monitoring, a proxy and some readers come to a dozen; further ones wait in the kernel's queue until
/// one of these ends, which the time limits see to.
const CONNECTIONS_MAX: usize = 64;
/// Bytes of a request's head, and of what is buffered for a connection. Longest of ours: a log link with a long query.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// Header fields of a request. Browsers behind proxies send about 20.
const HEADERS_MAX: usize = 64;
/// Pause after a failed accept: the likely cause, no file descriptors left, does not go away at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why there is no web server.
#[derive(Debug, Error)]
pub enum AdminError {
    /// The address cannot be listened on.
    #[error("cannot listen for web clients on {address}")]
    Bind {
        /// As configured.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// A web server that has its port but does not serve yet.
#[derive(Debug)]
pub struct AdminServer<S> {
    listener: TcpListener,
    address: SocketAddr,
    site: Arc<Site<S>>,
}

impl<S: NodeSource> AdminServer<S> {
    /// Takes the port; 0 lets the system choose one.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub async fn bind(
        address: SocketAddr,
        source: Arc<S>,
        metrics: Arc<Metrics>,
        options: AdminOptions,
    ) -> Result<Self, AdminError> {
        let failed = |source| AdminError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let site = Arc::new(Site::new(source, metrics, options));
        Ok(Self {
            listener,
            address,
            site,
        })
    }

    /// Where it listens, with the real port: what the node registers with the RM.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`; then stops accepting, lets answers under way end for [`super::Patience::shutdown`], and
    /// returns when every connection is gone.
    pub async fn serve(self, shutdown: CancellationToken) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        let (site, feed_shutdown) = (Arc::clone(&self.site), shutdown.clone());
        let feed = tokio::spawn(async move {
            let offset = site.options.utc_offset;
            site.feed.run(&*site.source, offset, feed_shutdown).await;
        });
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                // Reaps, so that the set holds no more than there are connections.
                Some(ended) = connections.join_next(), if !connections.is_empty() => {
                    report(ended);
                    continue;
                }
                accepted = accept(&self.listener, &slots) => accepted,
            };
            let Some((stream, slot)) = accepted else {
                break;
            };
            let (site, shutdown) = (Arc::clone(&self.site), shutdown.clone());
            connections.spawn(async move {
                converse(stream, site, shutdown).await;
                drop(slot);
            });
        }
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
        report(feed.await);
    }
}

type Slot = tokio::sync::OwnedSemaphorePermit;

/// The next connection, once there is room for one. Cancelling it loses none.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> Option<(TcpStream, Slot)> {
    // The semaphore is never closed; if it were, no connection could be served.
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Some((stream, slot)),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a web client");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers the requests of one connection.
async fn converse<S: NodeSource>(
    stream: TcpStream,
    site: Arc<Site<S>>,
    shutdown: CancellationToken,
) {
    let patience = site.options.patience;
    let stream = TokioIo::new(Stall::new(stream, patience.stall));
    let service = service_fn(move |request| {
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.answer(request).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(patience.request)
            .max_buf_size(REQUEST_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .half_close(false)
            .serve_connection(stream, service)
    );
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match timeout(patience.shutdown, connection).await {
                Ok(result) => result,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = result {
        // Clients go away, stall and send nonsense; that is theirs to notice.
        tracing::debug!(%error, "a web client's connection ended early");
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "the task of a web client's connection broke");
    }
}
