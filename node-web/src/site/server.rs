//! The node's web server: the bounded HTTP server with the node's pages as its service.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http_server::{HttpServer, Service};
use hyper::{Request, StatusCode};
use refusals::Reason;
use thiserror::Error;
use tls_server::keep_current;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::answer::Answer;
use super::body::Body;
use super::measuring::Measuring;
use super::{Site, WebOptions};
use crate::metrics::{Metrics, Port};
use crate::source::NodeSource;

/// Reason for which there is no web server.
#[derive(Debug, Error)]
pub enum WebError {
    /// The address cannot be listened on.
    #[error("cannot listen for web clients on {address}")]
    Bind {
        /// Address as configured.
        address: SocketAddr,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

/// A web server that has its port but does not serve yet.
#[derive(Debug)]
pub struct WebServer<S> {
    server: HttpServer,
    /// Port of `/metrics` alone.
    measuring: Option<HttpServer>,
    site: Site<S>,
}

impl<S: NodeSource> WebServer<S> {
    /// Listens on `address`; port 0 lets the system choose one.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn bind(
        address: SocketAddr,
        source: Arc<S>,
        metrics: Arc<Metrics>,
        options: WebOptions,
    ) -> Result<Self, WebError> {
        let server = HttpServer::bind(address, options.limits).await;
        let server = server.map_err(|source| WebError::Bind { address, source })?;
        Ok(Self::with(server, source, metrics, options))
    }

    /// Takes a socket that listens already and does not block.
    ///
    /// # Errors
    /// When it is no such socket.
    pub fn listening(
        listener: std::net::TcpListener,
        source: Arc<S>,
        metrics: Arc<Metrics>,
        options: WebOptions,
    ) -> io::Result<Self> {
        let server = HttpServer::listening(listener, options.limits)?;
        Ok(Self::with(server, source, metrics, options))
    }

    fn with(
        server: HttpServer,
        source: Arc<S>,
        metrics: Arc<Metrics>,
        options: WebOptions,
    ) -> Self {
        let server = server.with_refusals(metrics.refusals(Port::Web));
        let server = server.with_tls(options.tls.clone());
        let site = Site::new(source, metrics, options);
        Self {
            server,
            measuring: None,
            site,
        }
    }

    /// Serves `/metrics` and `/health` on a port of its own as well, where nobody is asked who
    /// calls. Over TLS, if the pages are.
    #[must_use]
    pub fn with_metrics_port(mut self, port: HttpServer) -> Self {
        let refusals = Arc::clone(&self.site.refusals);
        let port = port.with_refusals(refusals);
        self.measuring = Some(port.with_tls(self.site.options.tls.clone()));
        self
    }

    /// Returns the address that the server listens on, with the real port: what the node registers
    /// with the RM.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.server.local_address()
    }

    /// Adds names of the node that are known only once all its ports are. A request must name one
    /// of these, one of the configured hosts, `localhost` or an IP address.
    #[must_use]
    pub fn with_host_names<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.site.hosts.extend(names);
        self
    }

    /// Serves until `shutdown`; then closes the port, lets answers under way end for
    /// [`http_server::Limits::shutdown_grace`], and returns when every connection is closed.
    pub async fn serve(self, shutdown: CancellationToken) {
        let site = Arc::new(self.site);
        let publishing = {
            let (site, shutdown) = (Arc::clone(&site), shutdown.clone());
            let offset = site.options.utc_offset;
            async move { site.feed.run(&*site.source, offset, shutdown).await }
        };
        let mut feed = tokio::spawn(publishing);
        let renewal = site.options.tls.clone();
        let _renewal = renewal.map(|tls| {
            let renewing = keep_current(tls, "the web port");
            AbortOnDropHandle::new(tokio::spawn(renewing))
        });
        let measuring = Arc::new(Measuring(Arc::clone(&site)));
        let measured = self
            .measuring
            .map(|port| port.serve(measuring, shutdown.clone()));
        let serving = self.server.serve(site, shutdown);
        let mut serving = pin!(async {
            match measured {
                Some(measured) => {
                    tokio::join!(serving, measured);
                }
                None => serving.await,
            }
        });
        let fed = tokio::select! {
            () = &mut serving => feed.await,
            fed = &mut feed => {
                // It ends at the shutdown, when answers under way still may.
                if fed.is_ok() {
                    serving.await;
                }
                fed
            }
        };
        if let Err(error) = fed {
            tracing::error!(%error, "the task of the live page's events failed");
        }
    }
}

impl<S> AsFd for WebServer<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.server.as_fd()
    }
}

impl<S: NodeSource> Service for Site<S> {
    type Body = Body;

    async fn answer(&self, request: Request<Bytes>) -> Answer {
        let answer = self.respond(&request).await;
        self.count_refusal(&answer);
        answer
    }
}

impl<S> Site<S> {
    pub(super) fn count_refusal(&self, answer: &Answer) {
        if let Some(reason) = refusal_of(answer.status()) {
            self.refusals.count(reason);
        }
    }
}

/// Returns the reason of an answer that refuses its request; `None` for any other.
fn refusal_of(status: StatusCode) -> Option<Reason> {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::METHOD_NOT_ALLOWED => Some(Reason::Malformed),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => {
            Some(Reason::Unauthorized)
        }
        StatusCode::TOO_MANY_REQUESTS => Some(Reason::NoPlace),
        _ => None,
    }
}
