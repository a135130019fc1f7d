//! HTTP connections to the web ports of nodes, kept for the next look.
//!
//! Names and ports are the ResourceManager's, never those of a tenant, and no redirection is
//! followed. At most one connection to a node is kept, and a bounded number in all.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use wire::dial::{DialError, Dialer, split_host_port};

/// Largest head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Most connections that are kept, each to another node.
const KEPT_MAX: usize = 256;

/// Longest time that an unused connection is kept. Java's nodes close one after a minute
/// (`hadoop.http.idle_timeout.ms`).
pub(super) const KEPT_FOR: Duration = Duration::from_secs(50);

/// Reason for which a node has not answered.
#[derive(Debug, Error)]
pub(super) enum HttpError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("broken connection")]
    Http(#[from] hyper::Error),
    #[error("cannot ask a host of this name")]
    Request(#[from] hyper::http::Error),
    #[error("broken or endless answer")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("refused with {0}")]
    Status(StatusCode),
}

/// Question to a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    /// Path and query.
    pub(super) path: &'static str,
    /// Largest answer, in bytes.
    pub(super) bytes_max: usize,
}

/// A connection with the task that drives it.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    _driver: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Kept {
    connection: Connection,
    since: Instant,
}

/// Connections by the node's web address.
#[derive(Debug, Default)]
pub(super) struct Connections {
    kept: Mutex<BTreeMap<String, Kept>>,
    dialer: Dialer,
}

impl Connections {
    /// Asks the node with this web address, `host:port`; returns the content of its answer.
    pub(super) async fn get(
        &self,
        address: &str,
        question: Question,
        deadline: Instant,
    ) -> Result<Bytes, HttpError> {
        if let Some(kept) = self.take(address)
            && let Ok(content) = self.ask(kept, address, question).await
        {
            return Ok(content);
        }
        // The node may just have closed the kept one.
        let fresh = self.connect(address, deadline).await?;
        self.ask(fresh, address, question).await
    }

    async fn connect(&self, address: &str, deadline: Instant) -> Result<Connection, HttpError> {
        let (host, port) = split_host_port(address)?;
        let (_, stream) = self.dialer.connect(host, port, deadline).await?;
        // A question is one segment, so nothing waits for an acknowledgement.
        let _ = stream.set_nodelay(true);
        let mut builder = Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async move {
            // The sender reports the end.
            let _ = connection.await;
        });
        Ok(Connection {
            sender,
            _driver: AbortOnDropHandle::new(driver),
        })
    }

    async fn ask(
        &self,
        mut connection: Connection,
        address: &str,
        question: Question,
    ) -> Result<Bytes, HttpError> {
        let Question { path, bytes_max } = question;
        let request = Request::builder().uri(path).header(HOST, address);
        connection.sender.ready().await?;
        let answer = connection.sender.send_request(request.body(Empty::new())?);
        let answer = answer.await?;
        if answer.status() != StatusCode::OK {
            return Err(HttpError::Status(answer.status()));
        }
        let content = Limited::new(answer.into_body(), bytes_max).collect();
        let content = content.await.map_err(HttpError::Body)?.to_bytes();
        self.keep(address, connection);
        Ok(content)
    }

    fn take(&self, address: &str) -> Option<Connection> {
        let Kept { connection, since } = self.lock().remove(address)?;
        let is_usable = since.elapsed() < KEPT_FOR && !connection.sender.is_closed();
        is_usable.then_some(connection)
    }

    fn keep(&self, address: &str, connection: Connection) {
        let since = Instant::now();
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX && !kept.contains_key(address) {
            kept.retain(|_, kept| since.duration_since(kept.since) < KEPT_FOR);
        }
        if kept.len() >= KEPT_MAX && !kept.contains_key(address) {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.since);
            let oldest = oldest.map(|(address, _)| address.clone());
            oldest.map(|oldest| kept.remove(&oldest));
        }
        kept.insert(address.to_owned(), Kept { connection, since });
    }

    /// Closes connections that were not used for some time; returns how many are left.
    pub(super) fn close_unused(&self) -> usize {
        let mut kept = self.lock();
        kept.retain(|_, kept| kept.since.elapsed() < KEPT_FOR);
        kept.len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
