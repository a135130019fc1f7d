//! An AM's endpoint: a small web server, on the address of its node, that reports progress and
//! takes the order to stop.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /progress` | [`Told`] as JSON |
//! | `GET /progress?seen=N` | the same, once its number is not `N`, or after [`WAIT_MAX`] |
//! | `POST /stop` with the job's secret as a bearer token | 202; the AM stops the job |
//!
//! The numbers can be read without a secret, as in the ResourceManager's pages, which link here.
//! The server listens on an address of the node's name and on no other: a node called `localhost`
//! cannot be reached from outside.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ctutils::CtEq as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use wire::dial::{Dialer, RESOLVE_TIMEOUT};

use crate::progress::Counts;

/// Most open connections: the client, and some browsers. Further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;

/// Largest head of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Longest time for a request to arrive; also the longest time that a connection may be idle.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest life of a connection: a peer that does not read its answers holds a permit no longer.
/// Clients reconnect.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);

/// Longest wait for a change before the same numbers are sent again.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(5);

/// Shortest pause between two answers on one connection: a person sees no faster.
const TELL_INTERVAL: Duration = Duration::from_millis(50);

/// Pause after a failed accept: the likely cause, no descriptors left, does not go away at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The numbers that the endpoint reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Number of changes so far.
    pub(crate) number: u64,
    /// Containers of the job by state.
    pub(crate) counts: Counts,
}

/// A web server that has its port.
pub(super) struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    site: Arc<Site>,
}

struct Site {
    told: watch::Receiver<Told>,
    secret: String,
    stop: Arc<Notify>,
}

impl Endpoint {
    /// Takes a port on the first address of the node that can be listened on. `stop` is notified
    /// when the client asks.
    pub(super) async fn bind(
        host: &str,
        secret: String,
        told: watch::Receiver<Told>,
        stop: Arc<Notify>,
    ) -> io::Result<Self> {
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let deadline = Instant::now() + RESOLVE_TIMEOUT;
        let found = Dialer::default().resolve(host, 0, deadline).await;
        for address in found.map_err(io::Error::other)? {
            match TcpListener::bind(address).await {
                Ok(listener) => {
                    let address = listener.local_addr()?;
                    let site = Arc::new(Site { told, secret, stop });
                    return Ok(Self {
                        listener,
                        address,
                        site,
                    });
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// The port that it listens on.
    pub(super) const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Serves requests until dropped.
    pub(super) async fn serve(self) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let place = place.expect("the semaphore is never closed");
            // Connections that have ended have released their permits.
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let site = Arc::clone(&self.site);
                    connections.spawn(async move {
                        // A connection that takes too long is closed.
                        let _ = timeout(CONNECTION_TIMEOUT, converse(stream, site)).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn converse(stream: TcpStream, site: Arc<Site>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.answer(&request).await) }
    });
    let result = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(REQUEST_BYTES_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}

impl Site {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/" | "/progress") => self.progress(request.uri().query()).await,
            (&Method::POST, "/stop") => {
                if !self.is_authorized(request) {
                    return plain(
                        StatusCode::FORBIDDEN,
                        "the job's secret is missing or wrong\n",
                    );
                }
                self.stop.notify_one();
                plain(StatusCode::ACCEPTED, "stopping\n")
            }
            (_, "/" | "/progress" | "/stop") => {
                plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n")
            }
            _ => plain(StatusCode::NOT_FOUND, "not found: only /progress is here\n"),
        }
    }

    async fn progress(&self, query: Option<&str>) -> Response<Full<Bytes>> {
        let mut told = self.told.clone();
        let seen = query.and_then(|query| query.strip_prefix("seen=")?.parse::<u64>().ok());
        if let Some(seen) = seen {
            sleep(TELL_INTERVAL).await;
            // Without a change, the same numbers are sent again.
            let _ = timeout(WAIT_MAX, told.wait_for(|told| told.number != seen)).await;
        }
        let told = *told.borrow();
        let json = serde_json::to_vec(&told).expect("numbers are always JSON");
        respond(StatusCode::OK, "application/json", json.into())
    }

    fn is_authorized(&self, request: &Request<Incoming>) -> bool {
        let header = request.headers().get(AUTHORIZATION);
        let given = header.and_then(|header| header.as_bytes().strip_prefix(b"Bearer "));
        given.is_some_and(|given| is_same(given, self.secret.as_bytes()))
    }
}

/// Compares in constant time, so that the answer's delay does not show where they differ.
fn is_same(given: &[u8], secret: &[u8]) -> bool {
    given.ct_eq(secret).to_bool()
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    respond(
        status,
        "text/plain; charset=utf-8",
        Bytes::from_static(text.as_bytes()),
    )
}

fn respond(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    struct Running {
        port: u16,
        told: watch::Sender<Told>,
        stop: Arc<Notify>,
        _serving: AbortOnDropHandle<()>,
    }

    async fn start() -> Running {
        let (told, telling) = watch::channel(Told::default());
        let stop = Arc::new(Notify::new());
        let secret = "secret".to_owned();
        let endpoint = Endpoint::bind("127.0.0.1", secret, telling, Arc::clone(&stop)).await;
        let endpoint = endpoint.unwrap();
        Running {
            port: endpoint.port(),
            told,
            stop,
            _serving: AbortOnDropHandle::new(tokio::spawn(endpoint.serve())),
        }
    }

    impl Running {
        /// Sends these bytes; returns all that arrives until the connection is closed.
        async fn answer(&self, request: &[u8]) -> String {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
            stream.write_all(request).await.unwrap();
            let mut answer = Vec::new();
            // A reset is an answer too.
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        }

        async fn request(&self, line: &str, header: &str) -> String {
            let text = format!("{line} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{header}\r\n");
            self.answer(text.as_bytes()).await
        }
    }

    #[tokio::test]
    async fn progress_is_told_at_once_and_then_when_it_changes() {
        let running = start().await;
        let first = running.request("GET /progress", "").await;
        assert!(first.contains("\"number\":0"), "{first}");
        let next = running.request("GET /progress?seen=0", "");
        let change = async {
            running.told.send_modify(|told| told.number = 1);
        };
        let (next, ()) = tokio::join!(next, change);
        assert!(next.contains("\"number\":1"), "{next}");
    }

    #[tokio::test]
    async fn only_the_secret_stops() {
        let running = start().await;
        for header in [
            "",
            "Authorization: Bearer wrong\r\n",
            "Authorization: secret\r\n",
        ] {
            let answer = running.request("POST /stop", header).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        }
        let header = "Authorization: Bearer secret\r\n";
        let answer = running.request("POST /stop", header).await;
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
        running.stop.notified().await;
    }

    #[tokio::test]
    async fn what_is_not_there_and_what_is_not_http_is_refused() {
        let running = start().await;
        for (line, status) in [("GET /stop", "405"), ("POST /", "405"), ("GET /x", "404")] {
            let answer = running.request(line, "").await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
        }
        let garbage = running.answer(b"\0\xff garbage\r\n\r\n").await;
        assert!(!garbage.starts_with("HTTP/1.1 2"), "{garbage}");
        let long = format!(
            "GET /{} HTTP/1.1\r\n\r\n",
            "x".repeat(4 * REQUEST_BYTES_MAX)
        );
        let long = running.answer(long.as_bytes()).await;
        assert!(!long.starts_with("HTTP/1.1 2"), "{long}");
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(is_same(b"abc", b"abc"));
        for given in [b"abd".as_slice(), b"ab", b"abcd", b""] {
            assert!(!is_same(given, b"abc"), "{given:?}");
        }
    }
}
