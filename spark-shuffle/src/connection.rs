//! One connection: its requests one after the other, and its end.
//!
//! A request is answered whole before the next is looked at, so a client that asks for thousands of
//! chunks and takes none holds one open file, and its further requests wait in its own socket.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block_server::{CachePolicy, Protocol, Sender, Share, Stream};
use http_server::{Activity, Phase};
use refusals::{Reason, Refusals};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::auth_engine::Ciphers;
use crate::cursor::Malformed;
use crate::frame::{self, LENGTH_BYTES, Request};
use crate::memory::Charge;
use crate::session::{Reply, Session};
use crate::shared::Shared;

/// Bytes of the longest request: far above any real one.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// Bytes that are received at once at most.
const READ_BYTES: usize = 64 * 1024;

/// Bytes of a request that a connection holds without being charged for them.
const FREE_BYTES: usize = 64 * 1024;

/// Bytes of the longest request of a connection that has not named an application of this node.
const FIRST_FRAMES_BYTES_MAX: usize = 16 << 20;

/// Bytes of the longest request of a client that must prove who it is and has not.
const UNPROVEN_FRAME_BYTES_MAX: usize = 4 << 10;

/// Further time for each mebibyte of a request.
const MEBIBYTE_PATIENCE: Duration = Duration::from_secs(1);

/// Time after which a connection is closed whose client takes no part of an answer.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Blocks stay in the page cache: those of cached data sets are read again, and others until all
/// reducers have their part of the same pages.
const CACHE_POLICY: CachePolicy = CachePolicy {
    readahead_bytes: 1 << 20,
    drop_sent: false,
};

impl Protocol for Shared {
    async fn serve(self: Arc<Self>, stream: TcpStream, activity: Arc<Activity>) {
        if let Err(error) = block_server::set_options(&stream, STALL_TIMEOUT) {
            tracing::debug!(%error, "cannot set options of a connection of Spark");
        }
        let mut connection = Connection {
            stream: Stream::Plain(stream),
            session: Session::new(Arc::clone(&self), rand::random()),
            charge: self.memory.charge(),
            shared: Arc::clone(&self),
            activity,
            share: None,
            proof_deadline: Instant::now() + self.config.request_timeout,
            ciphers: None,
            received: Vec::new(),
        };
        if let Err(error) = connection.serve().await {
            // Clients go away and stall: no fault of this program.
            if error.kind() == io::ErrorKind::TimedOut {
                self.refusals.count(Reason::Stalled);
            }
            tracing::debug!(%error, "a connection of Spark ended early");
        }
    }

    async fn refuse(self: Arc<Self>, stream: TcpStream) {
        // Clients come again after a closed connection; a failure would be final.
        drop(stream);
    }

    fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    fn observe_connections(&self, open: u64) {
        self.counters.connections.store(open, Ordering::Relaxed);
    }
}

struct Connection {
    stream: Stream,
    shared: Arc<Shared>,
    session: Session,
    activity: Arc<Activity>,
    /// Place among those of the user whose application was named last.
    share: Option<Share>,
    /// Time by which a client must have proved who it is.
    proof_deadline: Instant,
    /// Ciphers that a handshake has agreed on.
    ciphers: Option<Ciphers>,
    /// Bytes received and not used yet, decrypted.
    received: Vec<u8>,
    /// Charge for what is received.
    charge: Charge,
}

impl Connection {
    async fn serve(&mut self) -> io::Result<()> {
        loop {
            let Some(length) = self.receive().await? else {
                return Ok(());
            };
            if !self.answer_received(length).await? {
                return Ok(());
            }
            let proven = self.session.user().is_some();
            let phase = if proven { Phase::Kept } else { Phase::Idle };
            self.activity.enter(phase);
        }
    }

    /// Receives a whole request, and returns the bytes after its length; `None`: the connection
    /// ends.
    async fn receive(&mut self) -> io::Result<Option<usize>> {
        let config = &self.shared.config;
        let is_proven = self.session.user().is_some();
        let patience = if is_proven {
            config.idle_timeout
        } else {
            config.request_timeout
        };
        let mut deadline = Instant::now() + patience;
        let mut begun = false;
        loop {
            let length = match self.length() {
                Ok(length) => length,
                Err(reason) => {
                    self.shared.refusals.count(reason);
                    return Ok(None);
                }
            };
            if let Some(length) = length
                && self.received.len() >= LENGTH_BYTES + length
            {
                return Ok(Some(length));
            }
            if !begun && !self.received.is_empty() {
                begun = true;
                deadline = Instant::now() + self.shared.config.request_timeout;
            }
            let mebibytes = u32::try_from(self.received.len() >> 20).unwrap_or(u32::MAX);
            let mut until = deadline + MEBIBYTE_PATIENCE.saturating_mul(mebibytes);
            if self.session.is_unproven() {
                until = until.min(self.proof_deadline);
            }
            if !self.read_more(until, begun).await? {
                return Ok(None);
            }
        }
    }

    /// Returns the longest request that the client may send.
    fn frame_bytes_max(&self) -> usize {
        if self.session.is_unproven() {
            UNPROVEN_FRAME_BYTES_MAX
        } else if self.session.user().is_none() {
            FIRST_FRAMES_BYTES_MAX
        } else {
            FRAME_BYTES_MAX
        }
    }

    /// Returns the bytes of the next request after its length; `None`: more are needed.
    fn length(&self) -> Result<Option<usize>, Reason> {
        frame::length(&self.received, self.frame_bytes_max()).map_err(|error| match error {
            Malformed::Long => Reason::TooLarge,
            Malformed::Short | Malformed::Text => Reason::Malformed,
        })
    }

    /// Receives more bytes. Returns whether there are any: the client may have closed, be late, or
    /// find no memory.
    async fn read_more(&mut self, deadline: Instant, begun: bool) -> io::Result<bool> {
        // Room follows the bytes that came, at most double.
        let room = self.received.len().clamp(1_024, READ_BYTES);
        self.received.reserve(room);
        let held = self.received.capacity();
        if held > FREE_BYTES && !self.charge.set(held) {
            self.shared.refusals.count(Reason::NoMemory);
            return Ok(false);
        }
        let read = self.stream.read(&mut self.received, room);
        let Ok(read) = timeout_at(deadline, read).await else {
            if begun {
                self.shared.refusals.count(Reason::Late);
            }
            return Ok(false);
        };
        let count = read?;
        if let Some(ciphers) = &mut self.ciphers {
            let start = self.received.len() - count;
            ciphers.incoming.apply(&mut self.received[start..]);
        }
        Ok(count > 0)
    }

    /// Answers the requests that are there whole, the first of which has `length` bytes after its
    /// length. Returns whether the connection stays open.
    async fn answer_received(&mut self, length: usize) -> io::Result<bool> {
        let mut received = std::mem::take(&mut self.received);
        let mut used = 0;
        let mut length = length;
        let stays = loop {
            let request = &received[used + LENGTH_BYTES..used + LENGTH_BYTES + length];
            used += LENGTH_BYTES + length;
            let Ok(request) = Request::parse(request) else {
                self.shared.refusals.count(Reason::Malformed);
                break false;
            };
            let mut reply = self.session.answer(request).await;
            let ciphers = reply.ciphers.take();
            if !self.take_share() {
                self.shared.refusals.count(Reason::NoPlace);
                break false;
            }
            if !self.send(reply).await? {
                break false;
            }
            if let Some(mut ciphers) = ciphers {
                ciphers.incoming.apply(&mut received[used..]);
                self.ciphers = Some(ciphers);
            }
            match frame::length(&received[used..], self.frame_bytes_max()) {
                Ok(Some(next)) if received.len() - used >= LENGTH_BYTES + next => length = next,
                // What is wrong with it is found again when the rest has come.
                Ok(_) | Err(_) => break true,
            }
        };
        self.received = received;
        self.received.drain(..used);
        if self.received.capacity() > FREE_BYTES && self.received.len() <= FREE_BYTES / 2 {
            self.received.shrink_to(FREE_BYTES);
        }
        if self.received.capacity() <= FREE_BYTES {
            let _less_is_had = self.charge.set(0);
        }
        Ok(stays)
    }

    /// Counts the connection for the user of the application that was named last. Returns whether
    /// there is a place for it.
    fn take_share(&mut self) -> bool {
        let Some(user) = self.session.user() else {
            return true;
        };
        if !self.share.as_ref().is_some_and(|it| it.is_of(user)) {
            // Its place is free for the next.
            self.share = None;
            self.share = self.shared.shares.take(user);
        }
        self.share.is_some()
    }

    /// Sends an answer. Returns whether the connection stays open.
    async fn send(&mut self, reply: Reply) -> io::Result<bool> {
        self.activity.enter(Phase::Answering);
        let Reply {
            frame, range, ends, ..
        } = reply;
        let outgoing = self.ciphers.as_mut().map(|it| &mut *it.outgoing as _);
        let sender = Sender::new(&mut self.stream, &self.activity, STALL_TIMEOUT);
        let mut sender = sender.through(outgoing);
        sender.write(&frame).await?;
        if let Some(range) = range {
            let Some(_under_way) = UnderWay::begin(&self.shared) else {
                return Ok(false);
            };
            let sent = sender.send_range(&range.file, range.start, range.length, CACHE_POLICY);
            let sent = match sent.await {
                Ok(()) => sender.flush().await,
                failed @ Err(_) => failed,
            };
            match sent {
                Ok(()) => self.shared.counters.sent(range.length),
                Err(error) => {
                    self.shared.counters.failed();
                    return Err(error);
                }
            }
        } else {
            sender.flush().await?;
        }
        Ok(!ends)
    }
}

/// A chunk that is being sent.
struct UnderWay<'a>(&'a Shared);

impl<'a> UnderWay<'a> {
    /// Returns `None` where as many are being sent as may be.
    fn begin(shared: &'a Shared) -> Option<Self> {
        let others = shared.counters.chunks.fetch_add(1, Ordering::Relaxed);
        let begun = Self(shared);
        let is_free = shared.config.chunks_max.is_none_or(|max| others < max);
        is_free.then_some(begun)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.counters.chunks.fetch_sub(1, Ordering::Relaxed);
    }
}
