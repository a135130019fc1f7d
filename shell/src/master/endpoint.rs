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

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ctutils::CtEq as _;
use http_body_util::Full;
use http_server::{HostNames, HttpServer, Limits, Service};
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use wire::dial::{Dialer, RESOLVE_TIMEOUT};

use crate::progress::Counts;

/// Bounds on peers: the client, and some browsers. An AM's process is small, so its endpoint is.
const LIMITS: Limits = Limits {
    connections: 32,
    connections_per_address: 16,
    head_bytes: HEAD_BYTES_MAX,
    head_fields: 64,
    body_bytes: 0,
    request_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(10),
    stall_timeout: Duration::from_secs(30),
    shutdown_grace: Duration::ZERO,
};

/// Bytes of the head of a request: the shortest limit that the server takes.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Longest wait for a change before the same numbers are sent again.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(5);

/// Shortest pause between two answers on one connection: a person sees no faster.
const TELL_INTERVAL: Duration = Duration::from_millis(50);

const TEXT: &str = "text/plain; charset=utf-8";

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
    server: HttpServer,
    site: Arc<Site>,
}

/// State that all requests share.
struct Site {
    told: watch::Receiver<Told>,
    secret: String,
    stop: Arc<Notify>,
    hosts: HostNames,
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
            match HttpServer::bind(address, LIMITS).await {
                Ok(server) => {
                    let hosts = HostNames::with_machine([host]);
                    let site = Arc::new(Site {
                        told,
                        secret,
                        stop,
                        hosts,
                    });
                    return Ok(Self { server, site });
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Returns the port that the server listens on.
    pub(super) const fn port(&self) -> u16 {
        self.server.local_address().port()
    }

    /// Serves requests until dropped.
    pub(super) async fn serve(self) {
        self.server.serve(self.site, CancellationToken::new()).await;
    }
}

impl Service for Site {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<Bytes>) -> Response<Full<Bytes>> {
        if let Err(refusal) = self.hosts.check(&request) {
            return respond(refusal.status(), TEXT, format!("{refusal}\n").into());
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/" | "/progress") => self.progress(request.uri().query()).await,
            (&Method::POST, "/stop") => {
                if !self.is_authorized(&request) {
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
}

impl Site {
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

    fn is_authorized(&self, request: &Request<Bytes>) -> bool {
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
    respond(status, TEXT, Bytes::from_static(text.as_bytes()))
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
    use tokio::net::TcpStream;
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
            let text =
                format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n");
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
    async fn a_request_for_another_host_is_misdirected() {
        let running = start().await;
        for (host, status) in [("evil.example", "421"), ("127.0.0.1:1", "200")] {
            let text =
                format!("GET /progress HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let answer = running.answer(text.as_bytes()).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
        }
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
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(4 * HEAD_BYTES_MAX));
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
