//! The server over real connections on a port that the system chooses.

mod tls;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use hyper::{Request, Response};
use refusals::{Reason, Refusals};
use tls_server::TlsServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, advance, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::*;

/// Bytes of one piece of a long answer.
const PIECE: &[u8] = &[b'x'; 16 * 1024];

/// A body of this many pieces.
struct Pieces(usize);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(left) = self.0.checked_sub(1) else {
            return Poll::Ready(None);
        };
        self.0 = left;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(PIECE)))))
    }
}

/// Answers `/PIECES`, a path that is the number of pieces of the answer; other paths get none.
struct Counting;

impl Service for Counting {
    type Body = Pieces;

    async fn answer(&self, request: Request<Bytes>) -> Response<Pieces> {
        let pieces = request.uri().path()[1..].parse().unwrap_or(0);
        Response::new(Pieces(pieces))
    }
}

struct Running {
    address: SocketAddr,
    refusals: Arc<Refusals>,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
}

impl Running {
    async fn start(limits: Limits) -> Self {
        Self::start_with(limits, None).await
    }

    async fn start_with(limits: Limits, tls: Option<Arc<TlsServer>>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let refusals = Arc::new(Refusals::default());
        let server = HttpServer::bind(any, limits).await.unwrap();
        let server = server.with_refusals(Arc::clone(&refusals)).with_tls(tls);
        let shutdown = CancellationToken::new();
        Self {
            address: server.local_address(),
            refusals,
            served: tokio::spawn(server.serve(Arc::new(Counting), shutdown.clone())),
            shutdown,
        }
    }

    /// Waits until exactly these refusals are counted.
    async fn assert_counted(&self, expected: &[(Reason, u64)]) {
        let counted = || {
            let counts = Reason::ALL
                .iter()
                .map(|reason| (*reason, self.refusals.of(*reason)));
            counts.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
        };
        let waiting = async {
            while counted() != expected {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let result = timeout(Duration::from_secs(10), waiting).await;
        assert!(result.is_ok(), "{:?} is not {expected:?}", counted());
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Connects from another address of this host.
    async fn connect_from(&self, from: [u8; 4]) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends these bytes on a new connection and returns all that arrives.
    async fn send(&self, request: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        rest(stream).await
    }

    /// Asserts that a new peer is answered within the second that health checks may take.
    async fn assert_answers_at_once(&self) {
        let request = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let answer = timeout(Duration::from_secs(1), self.send(request)).await;
        let answer = answer.expect("no answer within a second");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// Returns all that arrives until the connection closes, within 10 s.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset ends a connection too.
    let read = timeout(Duration::from_secs(10), stream.read_to_end(&mut bytes)).await;
    let _ = read.expect("the connection is still open");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn is_open(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    let read = stream.read(&mut byte);
    timeout(Duration::from_millis(50), read).await.is_err()
}

#[tokio::test]
async fn idle_connections_of_all_places_and_more_delay_nobody() {
    let running = Running::start(Limits::default()).await;
    let mut idle = Vec::new();
    for number in 0..400 {
        // Each address has its share.
        let last = u8::try_from(number % 10 + 1).unwrap();
        idle.push(running.connect_from([127, 0, 1, last]).await);
    }
    for _ in 0..3 {
        running.assert_answers_at_once().await;
    }
    assert!(!is_open(&mut idle[0]).await, "the oldest is evicted");
    assert!(is_open(&mut idle[399]).await, "the newest is not");
}

#[tokio::test]
async fn one_address_closes_no_connection_of_another() {
    let running = Running::start(Limits {
        connections_per_address: 4,
        ..Limits::default()
    })
    .await;
    let mut other = running.connect_from([127, 0, 1, 2]).await;
    let mut greedy = Vec::new();
    for _ in 0..20 {
        greedy.push(running.connect_from([127, 0, 1, 1]).await);
    }
    running.assert_answers_at_once().await;
    assert!(is_open(&mut other).await);
    let mut open = 0;
    for stream in &mut greedy {
        open += usize::from(is_open(stream).await);
    }
    assert_eq!(open, 4);
}

#[tokio::test]
async fn readers_under_way_are_kept_while_something_idle_can_go() {
    let running = Running::start(Limits {
        connections: 4,
        ..Limits::default()
    })
    .await;
    let mut reader = running.connect().await;
    reader
        .write_all(b"GET /100000 HTTP/1.1\r\nHost: h\r\n\r\n")
        .await
        .unwrap();
    reader.read_exact(&mut [0; 100]).await.unwrap();
    for _ in 0..10 {
        running.connect().await;
        running.assert_answers_at_once().await;
    }
    reader.read_exact(&mut vec![0; 1 << 20]).await.unwrap();
}

/// Keeps a paused clock where it is until a test moves it: it runs on when no task has anything to
/// do, and sockets are such a case.
fn hold_clock() -> JoinHandle<()> {
    tokio::spawn(async {
        loop {
            yield_now().await;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_is_cut_and_a_slow_one_gets_everything() {
    let held = hold_clock();
    let running = Running::start(Limits {
        stall_timeout: Duration::from_millis(500),
        ..Limits::default()
    })
    .await;
    let connect = async || {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        let mut stream = socket.connect(running.address).await.unwrap();
        let request = b"GET /128 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        stream
    };
    let silent = connect().await;
    let mut slow = connect().await;
    let begun = Instant::now();
    let mut taken = 0;
    loop {
        let read = slow.read(&mut [0; 16 * 1024]).await.unwrap();
        if read == 0 {
            break;
        }
        taken += read;
        advance(Duration::from_millis(10)).await;
    }
    assert!(taken > 128 * PIECE.len(), "{taken}");
    assert!(begun.elapsed() > Duration::from_secs(1), "not slow enough");
    let some = rest(silent).await.len();
    assert!(some < 128 * PIECE.len(), "{some}");
    held.abort();
}

#[tokio::test]
async fn heads_that_do_not_come_and_idle_connections_are_closed() {
    let short = Duration::from_millis(100);
    let running = Running::start(Limits {
        request_timeout: short,
        idle_timeout: short * 5,
        ..Limits::default()
    })
    .await;
    let request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    for (sent, at_least) in [(&b""[..], 5), (&request[..10], 1), (request, 5)] {
        let begun = Instant::now();
        running.send(sent).await;
        let sent = String::from_utf8_lossy(sent);
        assert!(begun.elapsed() >= short * at_least, "{sent:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{sent:?}");
    }
}

#[tokio::test]
async fn heads_and_bodies_are_bounded_in_bytes_and_time() {
    let running = Running::start(Limits {
        body_bytes: 8,
        head_bytes: 8 * 1024,
        request_timeout: Duration::from_millis(100),
        ..Limits::default()
    })
    .await;
    let put = "PUT / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n";
    let long = "x".repeat(16 * 1024);
    let fields = "A: b\r\n".repeat(100);
    for (request, status) in [
        (format!("{put}Content-Length: 8\r\n\r\n12345678"), 200),
        (format!("{put}Content-Length: 99999999999\r\n\r\n"), 413),
        (
            format!("{put}Transfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n"),
            413,
        ),
        (format!("{put}Content-Length: 8\r\n\r\n1234"), 408),
        (format!("{put}Long: {long}\r\n\r\n"), 431),
        (format!("{put}{fields}\r\n"), 431),
    ] {
        let answer = running.send(request.as_bytes()).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{status}: {answer}");
    }
    running
        .assert_counted(&[(Reason::TooLarge, 4), (Reason::Late, 1)])
        .await;
}

#[tokio::test]
async fn what_a_peer_is_refused_is_counted_by_its_reason() {
    let running = Running::start(Limits {
        request_timeout: Duration::from_millis(100),
        ..Limits::default()
    })
    .await;
    running.assert_answers_at_once().await;
    running.assert_counted(&[]).await;
    running.send(b"no HTTP\r\n\r\n").await;
    running.assert_counted(&[(Reason::Malformed, 1)]).await;
    running.send(b"GET / HTTP/1.1\r\n").await;
    let counted = [(Reason::Malformed, 1), (Reason::Late, 1)];
    running.assert_counted(&counted).await;
    let crowded = Running::start(Limits {
        connections: 1,
        ..Limits::default()
    })
    .await;
    let _idle = crowded.connect().await;
    crowded.assert_answers_at_once().await;
    crowded.assert_counted(&[(Reason::Evicted, 1)]).await;
}

#[tokio::test]
async fn a_shutdown_closes_idle_and_stalled_connections_and_the_port() {
    let running = Running::start(Limits {
        shutdown_grace: Duration::from_millis(100),
        ..Limits::default()
    })
    .await;
    let idle = running.connect().await;
    let mut stalled = running.connect().await;
    stalled
        .write_all(b"GET /100000 HTTP/1.1\r\nHost: h\r\n\r\n")
        .await
        .unwrap();
    running.assert_answers_at_once().await;
    running.shutdown.cancel();
    let served = timeout(Duration::from_secs(10), running.served).await;
    served.unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
    drop((idle, stalled));
}
