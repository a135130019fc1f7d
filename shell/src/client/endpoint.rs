//! The client's side of an AM's endpoint. Its numbers are only shown; nothing depends on them.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use wire::dial::{DialError, Dialer};

use crate::master::endpoint::{Told, WAIT_MAX};
use crate::progress::Progress;

/// Longest time to connect, the look-up of the name included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest time for an answer, in addition to the time that the AM waits for a change.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Largest answer, in bytes; real ones have 200.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Pause before another try.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Address of an AM's endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Reason for which an endpoint did not answer.
#[derive(Debug, Error)]
pub(super) enum EndpointError {
    /// No TCP connection to the AM.
    #[error(transparent)]
    Connect(#[from] DialError),
    /// The connection broke, or what came was not HTTP.
    #[error("broken connection")]
    Http(#[from] hyper::Error),
    /// The host's name cannot stand in a request.
    #[error("cannot ask a host of this name")]
    Request(#[from] hyper::http::Error),
    /// An answer that is too long or was cut.
    #[error("broken answer")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An answer that is not an AM's JSON.
    #[error("strange answer")]
    Json(#[from] serde_json::Error),
    /// A refusal by the AM.
    #[error("refused with {0}")]
    Refused(StatusCode),
    /// No answer in time.
    #[error("no answer")]
    Timeout(#[from] tokio::time::error::Elapsed),
}

type Connection = (SendRequest<Empty<Bytes>>, AbortOnDropHandle<()>);

impl Endpoint {
    async fn connect(&self) -> Result<Connection, EndpointError> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let dialer = Dialer::default();
        let (_, stream) = dialer.connect(&self.host, self.port, deadline).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let driven = tokio::spawn(async move {
            // The sender reports the end.
            let _ = connection.await;
        });
        Ok((sender, AbortOnDropHandle::new(driven)))
    }

    fn request(&self, method: Method, path: &str) -> hyper::http::request::Builder {
        let host = format!("{}:{}", self.host, self.port);
        Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, host)
    }

    /// Orders the AM to stop its job.
    pub(super) async fn stop(&self, secret: &str) -> Result<(), EndpointError> {
        let (mut sender, _driven) = self.connect().await?;
        let request = self
            .request(Method::POST, "/stop")
            .header(AUTHORIZATION, format!("Bearer {secret}"))
            .body(Empty::new())?;
        let response = timeout(ANSWER_TIMEOUT, sender.send_request(request)).await??;
        match response.status() {
            StatusCode::ACCEPTED => Ok(()),
            status => Err(EndpointError::Refused(status)),
        }
    }

    /// Copies the AM's numbers into `progress`, until the connection ends.
    async fn copy_progress(
        &self,
        progress: &watch::Sender<Progress>,
    ) -> Result<Infallible, EndpointError> {
        let (mut sender, _driven) = self.connect().await?;
        let mut path = "/progress".to_owned();
        loop {
            let request = self.request(Method::GET, &path).body(Empty::new())?;
            let limit = WAIT_MAX + ANSWER_TIMEOUT;
            let response = timeout(limit, sender.send_request(request)).await??;
            if response.status() != StatusCode::OK {
                return Err(EndpointError::Refused(response.status()));
            }
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect();
            let body = timeout(ANSWER_TIMEOUT, body).await?;
            let body = body.map_err(EndpointError::Body)?.to_bytes();
            let told: Told = serde_json::from_slice(&body)?;
            path = format!("/progress?seen={}", told.number);
            progress.send_if_modified(|progress| {
                let is_new = progress.counts != Some(told.counts);
                progress.counts = Some(told.counts);
                progress.fraction = told.counts.fraction();
                is_new
            });
        }
    }

    /// Copies the AM's numbers until dropped, over as many connections as it takes. `lost`
    /// counts their ends: the AM may have finished.
    pub(super) async fn follow(self, progress: watch::Sender<Progress>, lost: watch::Sender<u64>) {
        loop {
            let Err(error) = self.copy_progress(&progress).await;
            tracing::debug!(%error, "the master's endpoint");
            lost.send_modify(|times| *times += 1);
            sleep(AGAIN_AFTER).await;
        }
    }
}
