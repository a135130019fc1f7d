//! One connection: its requests one after the other, and its end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block_server::{CachePolicy, NoTls, Protocol, Sender, Share, Stream};
use http_server::{Activity, Phase};
use refusals::{Reason, Refusals};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::fetch::{Fetch, Segment};
use crate::head::{HEAD_BYTES_MAX, Head};
use crate::reply::{self, Refusal, Status};
use crate::shared::Shared;

/// Time for a refused peer to take the refusal. A connection that is closed while bytes of its
/// peer are unread is reset, and the peer would lose the reply.
const LINGER: Duration = Duration::from_secs(5);

/// Bytes that a refused peer may still send.
const LINGER_BYTES_MAX: usize = 256 * 1024;

impl Protocol for Shared {
    async fn serve(self: Arc<Self>, stream: TcpStream, activity: Arc<Activity>) {
        let stall_timeout = self.config.stall_timeout;
        if let Err(error) = block_server::set_options(&stream, stall_timeout) {
            tracing::debug!(%error, "cannot set options of a reducer's connection");
        }
        serve(stream, self, activity).await;
    }

    async fn refuse(self: Arc<Self>, stream: TcpStream) {
        let refusal = Refusal::new(Status::TooManyRequests, "");
        let opened = timeout(LINGER, Stream::open(stream, self.tls.as_deref())).await;
        if let Ok(Ok(mut stream)) = opened {
            let sent = send_refusal(&mut stream, &refusal, LINGER).await;
            if sent.is_ok() {
                linger(&mut stream).await;
            }
        }
        let port = self.port;
        tracing::debug!(port, "a reducer was refused: too many connections");
    }

    fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    fn observe_connections(&self, open: u64) {
        self.counters.connections.store(open, Ordering::Relaxed);
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, activity: Arc<Activity>) {
    let Some(stream) = open(stream, &shared).await else {
        return;
    };
    let mut connection = Connection {
        stream,
        shared,
        activity,
        share: None,
        received: Vec::new(),
    };
    if let Err(error) = connection.serve().await {
        // Reducers go away and stall: no fault of this program.
        if error.kind() == io::ErrorKind::TimedOut {
            connection.shared.refusals.count(Reason::Stalled);
        }
        tracing::debug!(%error, "a reducer's connection ended early");
    }
}

/// Opens a connection within the time of a request. To the table of connections it is one without a
/// request until then: silent ones make place for others.
async fn open(stream: TcpStream, shared: &Shared) -> Option<Stream> {
    let opening = Stream::open(stream, shared.tls.as_deref());
    let failed = match timeout(shared.config.request_timeout, opening).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(failed)) => failed,
        Err(_late) => {
            shared.refusals.count(Reason::Late);
            return None;
        }
    };
    let NoTls {
        reason,
        mut stream,
        error,
    } = failed;
    if let Some(reason) = reason {
        shared.refusals.count(reason);
    }
    tracing::debug!(%error, "a reducer's TLS handshake failed");
    // So that it gets the alert.
    linger(&mut stream).await;
    None
}

struct Connection {
    stream: Stream,
    shared: Arc<Shared>,
    activity: Arc<Activity>,
    /// Place among those of the user whose job was fetched from last.
    share: Option<Share>,
    /// Bytes received and not used yet: the start of the next request.
    received: Vec<u8>,
}

impl Connection {
    async fn serve(&mut self) -> io::Result<()> {
        let config = &self.shared.config;
        let (mut patience, keep_alive_timeout) =
            (config.request_timeout, config.keep_alive_timeout);
        loop {
            let request = self.receive(patience).await?;
            let Some(request) = request else {
                return Ok(());
            };
            let kept = match request.and_then(|head| self.prepare(&head)) {
                Ok(answer) => self.send(answer).await?,
                Err(refusal) => {
                    tracing::debug!(status = ?refusal.status, text = refusal.text, "refused");
                    if let Some(reason) = refusal.status.reason() {
                        self.shared.refusals.count(reason);
                    }
                    let stall = self.shared.config.stall_timeout;
                    // One without the secret remains one that makes place.
                    send_refusal(&mut self.stream, &refusal, stall).await?;
                    false
                }
            };
            if !kept {
                linger(&mut self.stream).await;
                return Ok(());
            }
            self.activity.enter(Phase::Kept);
            patience = keep_alive_timeout;
        }
    }

    /// Receives a request, whose first byte must come within `patience` and whose last within the
    /// request's time. Returns `None` for a peer that sends none.
    async fn receive(&mut self, patience: Duration) -> io::Result<Option<Result<Head, Refusal>>> {
        let mut deadline = Instant::now() + patience;
        let mut begun = false;
        loop {
            match Head::read(&self.received) {
                Ok(Some((head, length))) => {
                    self.received.drain(..length);
                    let bytes = usize::try_from(head.body_bytes).unwrap_or(usize::MAX);
                    return Ok(self.pass_over(bytes, deadline).await?.then_some(Ok(head)));
                }
                Ok(None) => {}
                Err(refusal) => return Ok(Some(Err(refusal))),
            }
            if !begun && !self.received.is_empty() {
                begun = true;
                self.activity.enter(Phase::Receiving);
                deadline = Instant::now() + self.shared.config.request_timeout;
            }
            if !self.read_more(deadline).await? {
                return Ok(None);
            }
        }
    }

    /// Passes over the body of a request. Returns whether it came whole.
    async fn pass_over(&mut self, mut bytes: usize, deadline: Instant) -> io::Result<bool> {
        loop {
            let passed = bytes.min(self.received.len());
            self.received.drain(..passed);
            bytes -= passed;
            if bytes == 0 {
                return Ok(true);
            }
            if !self.read_more(deadline).await? {
                return Ok(false);
            }
        }
    }

    /// Receives more bytes. Returns whether there are any: the peer may have closed, or be late.
    async fn read_more(&mut self, deadline: Instant) -> io::Result<bool> {
        let read = self.stream.read(&mut self.received, HEAD_BYTES_MAX);
        match timeout_at(deadline, read).await {
            Ok(read) => Ok(read? > 0),
            Err(_late) => Ok(false),
        }
    }

    /// Checks a request and finds its map outputs. Waits for files: this thread serves nothing
    /// else.
    fn prepare(&mut self, head: &Head) -> Result<Answer, Refusal> {
        let Shared {
            config,
            jobs,
            indexes,
            shares,
            port,
            counters,
            ..
        } = &*self.shared;
        let fetch = Fetch::check(head, jobs, *port)?;
        if !self.share.as_ref().is_some_and(|it| it.is_of(fetch.user())) {
            // Its place is free for the next.
            self.share = None;
            self.share = shares.take(fetch.user());
        }
        if self.share.is_none() {
            return Err(Refusal::new(Status::TooManyRequests, ""));
        }
        self.activity.enter(Phase::Answering);
        let segments = fetch.locate(indexes);
        let segments = segments.inspect_err(|_| counters.failed())?;
        let keep_alive = fetch.keep_alive || config.keep_alive;
        Ok(Answer {
            fetch,
            segments,
            keep_alive,
        })
    }

    /// Sends an answer. Returns whether the connection stays open.
    async fn send(&mut self, answer: Answer) -> io::Result<bool> {
        let Answer {
            fetch,
            mut segments,
            keep_alive,
        } = answer;
        let Shared {
            config, counters, ..
        } = &*self.shared;
        let policy = CachePolicy {
            readahead_bytes: config.readahead_bytes,
            drop_sent: config.manage_os_cache,
        };
        let content_length = segments.iter().map(Segment::bytes).sum();
        let keep_alive_s = keep_alive.then_some(config.keep_alive_timeout.as_secs());
        let head = reply::head(&fetch.reply_hash, keep_alive_s, content_length);
        let mut sender = Sender::new(&mut self.stream, &self.activity, config.stall_timeout);
        sender.write(head.as_bytes()).await?;
        for segment in &mut segments {
            let sent = send_segment(&mut sender, &fetch, segment, policy).await;
            match sent {
                Ok(()) => counters.sent(segment.bytes()),
                Err(error) => {
                    counters.failed();
                    return Err(error);
                }
            }
        }
        sender.flush().await?;
        Ok(keep_alive)
    }
}

/// Answer that is ready to be sent.
struct Answer {
    fetch: Fetch,
    segments: Vec<Segment>,
    keep_alive: bool,
}

async fn send_segment(
    sender: &mut Sender<'_>,
    fetch: &Fetch,
    segment: &mut Segment,
    policy: CachePolicy,
) -> io::Result<()> {
    let file = fetch
        .open(segment)
        .map_err(|gone| io::Error::other(gone.to_string()))?;
    sender.write(&segment.header).await?;
    let partition = segment.partition;
    let (start, length) = (partition.start, partition.part_length);
    sender.send_range(&file, start, length, policy).await
}

/// Sends a refusal, which changes nothing about the place of its connection.
async fn send_refusal(
    stream: &mut Stream,
    refusal: &Refusal,
    stall_timeout: Duration,
) -> io::Result<()> {
    let apart = Activity::new(Instant::now());
    let mut sender = Sender::new(stream, &apart, stall_timeout);
    sender.write(refusal.reply().as_bytes()).await?;
    sender.flush().await
}

/// Closes the sending side, and reads what the peer still sends, so that it gets the reply.
async fn linger(stream: &mut Stream) {
    let close_and_read_rest = async {
        if stream.close().await.is_err() {
            return;
        }
        let mut bytes = [0; 1_024];
        let mut rest = LINGER_BYTES_MAX;
        while let Ok(count @ 1..) = stream.discard(&mut bytes).await {
            let Some(less) = rest.checked_sub(count) else {
                return;
            };
            rest = less;
        }
    };
    let _closed_or_late = timeout(LINGER, close_and_read_rest).await;
}
