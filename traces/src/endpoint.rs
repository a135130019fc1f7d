//! The collector's address, and sending a batch to it (OTLP/HTTP: `POST /v1/traces`).

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::Builder;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::http::uri::{InvalidUri, Scheme, Uri};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

/// Port of a collector for OTLP over HTTP.
const DEFAULT_PORT: u16 = 4318;

/// Bytes of an answer's head at most. The body is not read: the status says all.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Address of a collector, such as `http://localhost:4318`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    /// Path with `v1/traces` at its end.
    path: String,
}

/// A text that is no address of a collector.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// The text is no address at all.
    #[error("is no address")]
    NoAddress(#[from] InvalidUri),
    /// The address is of another scheme than `http`.
    #[error("must begin with http://: a collector on the same machine can pass traces on by TLS")]
    Scheme,
    /// The address has no host, or names a user or a query.
    #[error("must be http://HOST:PORT, with a path or without")]
    Form,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let address: Uri = text.parse()?;
        if address.scheme() != Some(&Scheme::HTTP) {
            return Err(EndpointError::Scheme);
        }
        let authority = address.authority().ok_or(EndpointError::Form)?;
        let host = authority.host().trim_matches(['[', ']']);
        if host.is_empty() || authority.as_str().contains('@') || address.query().is_some() {
            return Err(EndpointError::Form);
        }
        Ok(Self {
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(DEFAULT_PORT),
            path: format!("{}/v1/traces", address.path().trim_end_matches('/')),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

/// Reason for which a collector did not take a batch.
#[derive(Debug, Error)]
pub(crate) enum SendError {
    #[error("no connection")]
    Connect(#[from] std::io::Error),
    #[error("broken connection")]
    Http(#[from] hyper::Error),
    #[error("the address cannot stand in a request")]
    Request(#[from] hyper::http::Error),
    #[error("refused with {0}")]
    Refused(StatusCode),
    #[error("no answer in time")]
    Late(#[from] tokio::time::error::Elapsed),
}

impl Endpoint {
    fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }

    /// Sends a document over a connection of its own, without a limit on the time.
    pub(crate) async fn send(&self, document: String) -> Result<(), SendError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let mut builder = Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let _driven = AbortOnDropHandle::new(tokio::spawn(async move {
            // The sender reports the end.
            let _ = connection.await;
        }));
        let request = Request::post(&self.path)
            .header(HOST, self.authority())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(document)))?;
        let answer = sender.send_request(request).await?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(SendError::Refused(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_http_with_a_host() {
        for (text, expected) in [
            ("http://localhost", "http://localhost:4318/v1/traces"),
            (
                "http://collector.site:55/otlp/",
                "http://collector.site:55/otlp/v1/traces",
            ),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), expected);
        }
        for text in [
            "",
            "localhost:4318",
            "https://localhost",
            "http://",
            "http://user:password@localhost",
            "http://localhost/?key=1",
            "http://a b",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
