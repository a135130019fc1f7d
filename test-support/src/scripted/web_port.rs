//! A web port that answers as a test says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Answer to a request.
#[derive(Clone, Debug)]
pub enum WebAnswer {
    /// A whole answer of this status, after which the connection stays open.
    Whole(u16, String),
    /// The same, after which the connection is closed at the next request.
    ThenClose(u16, String),
    /// A whole answer, as soon as the test allows it.
    Once(watch::Receiver<bool>, u16, String),
    /// A redirection to this URL.
    Redirect(String),
    /// The begin of an answer that goes on without end.
    Endless,
    /// The begin of an answer that says to have this many bytes, and has.
    Long(u64),
    /// The begin of an answer of which no more comes, on a connection that stays open.
    Begun(String),
    /// None, on a connection that stays open.
    Silence,
}

type Answer = dyn Fn(&str) -> WebAnswer + Send + Sync;

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

/// Web port on a free port of this machine, until dropped.
pub struct ScriptedWebPort {
    /// Address that the port listens on.
    pub address: SocketAddr,
    counts: Arc<Counts>,
    _serving: AbortOnDropHandle<()>,
}

impl ScriptedWebPort {
    /// Starts a port that answers each path, query included. `answer` must not block: it runs on a
    /// thread of the caller's runtime, which may be the one that waits for time and input for all.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn open(answer: impl Fn(&str) -> WebAnswer + Send + Sync + 'static) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = TcpListener::bind(any).await.expect("a port is free");
        let address = listener.local_addr().expect("the port is bound");
        let counts = Arc::new(Counts::default());
        let serving = tokio::spawn(accept(listener, Arc::new(answer), Arc::clone(&counts)));
        Self {
            address,
            counts,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    /// Number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// Number of whole requests so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, answer: Arc<Answer>, counts: Arc<Counts>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        counts.connections.fetch_add(1, Ordering::SeqCst);
        let (answer, counts) = (Arc::clone(&answer), Arc::clone(&counts));
        connections.spawn(async move {
            // The client may go at any time.
            let _ = serve(stream, &*answer, &counts).await;
        });
    }
}

async fn serve(mut stream: TcpStream, answer: &Answer, counts: &Counts) -> std::io::Result<()> {
    let mut received = Vec::new();
    loop {
        let Some(end) = received.windows(4).position(|at| at == b"\r\n\r\n") else {
            if stream.read_buf(&mut received).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let head: Vec<u8> = received.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head);
        let path = head.split(' ').nth(1).unwrap_or_default();
        counts.requests.fetch_add(1, Ordering::SeqCst);
        let (status, content, is_last) = match answer(path) {
            WebAnswer::Whole(status, content) => (status, content, false),
            WebAnswer::ThenClose(status, content) => (status, content, true),
            WebAnswer::Once(mut allowed, status, content) => {
                // A test that has ended allows everything.
                let _ = allowed.wait_for(|is_allowed| *is_allowed).await;
                (status, content, false)
            }
            WebAnswer::Redirect(url) => {
                let head =
                    format!("HTTP/1.1 302 .\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                continue;
            }
            WebAnswer::Endless => {
                stream.write_all(b"HTTP/1.1 200 .\r\n\r\n").await?;
                loop {
                    stream.write_all(&[b' '; 4096]).await?;
                }
            }
            WebAnswer::Long(length) => {
                let head = format!("HTTP/1.1 200 .\r\nContent-Length: {length}\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                let blanks = tokio::io::repeat(b' ').take(length);
                tokio::io::copy(&mut { blanks }, &mut stream).await?;
                continue;
            }
            WebAnswer::Begun(begin) => {
                let length = begin.len() + 1;
                let whole = format!("HTTP/1.1 200 .\r\nContent-Length: {length}\r\n\r\n{begin}");
                stream.write_all(whole.as_bytes()).await?;
                std::future::pending().await
            }
            WebAnswer::Silence => std::future::pending().await,
        };
        let length = content.len();
        let whole = format!("HTTP/1.1 {status} .\r\nContent-Length: {length}\r\n\r\n{content}");
        stream.write_all(whole.as_bytes()).await?;
        if is_last {
            stream.read_buf(&mut received).await?;
            return Ok(());
        }
    }
}
