//! The sending half of a connection, shared by all tasks that send frames.
//!
//! A frame is appended whole under a lock and then offered to the socket at once, without waiting:
//! in the usual case one system call by the task that made the frame, and no other task wakes.
//! Bytes that the socket does not take stay buffered; the connection's own task writes them when
//! the socket is ready, together with later frames. The socket is shut for sending when the last
//! owner drops it.

use std::io;
use std::net::Shutdown;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use socket2::SockRef;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Largest capacity of an empty buffer, in bytes: one that grew beyond it for a large frame is
/// freed.
const BUFFER_KEPT_MAX: usize = 64 * 1024;

/// The sending half of one connection.
#[derive(Debug)]
pub(crate) struct Outbound {
    socket: OwnedWriteHalf,
    pending: Mutex<Pending>,
    /// Wakes the connection's task when the socket did not take all bytes, or when writing failed.
    leftover: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    buffer: BytesMut,
    /// Time since which the socket takes nothing although the buffer is not empty.
    stalled_since: Option<Instant>,
    /// Kind of the error with which writing failed. Nothing is sent after that.
    failure: Option<io::ErrorKind>,
}

impl Outbound {
    pub(crate) fn new(socket: OwnedWriteHalf) -> Self {
        Self {
            socket,
            pending: Mutex::default(),
            leftover: Notify::new(),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Every change under the lock leaves whole frames behind, also when its caller panics
        // afterwards.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shuts the connection down in both directions, although handles on it may remain. The peer
    /// sees the end at once.
    pub(crate) fn close(&self) {
        if let Err(error) = SockRef::from(self.socket.as_ref()).shutdown(Shutdown::Both) {
            // The peer has closed it before.
            tracing::trace!(%error, "the connection was closed already");
        }
    }

    /// Appends frames, to be sent by the next flush. `append` leaves the buffer as it was when it
    /// fails.
    pub(crate) fn push<E>(
        &self,
        append: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut pending = self.pending();
        if pending.failure.is_some() {
            // The connection's task is about to fail all calls.
            return Ok(());
        }
        append(&mut pending.buffer)
    }

    /// Sends what the socket takes now; the connection's task sends the rest.
    pub(crate) fn flush_now(&self) {
        let mut pending = self.pending();
        // Stalled bytes wait for the connection's task, and so do these behind them.
        if pending.stalled_since.is_none() {
            self.write(&mut pending);
        }
        let unfinished = !pending.buffer.is_empty() || pending.failure.is_some();
        drop(pending);
        if unfinished {
            self.leftover.notify_one();
        }
    }

    fn write(&self, pending: &mut Pending) {
        let mut progress = false;
        while !pending.buffer.is_empty() {
            match self.socket.try_write(&pending.buffer) {
                Ok(written) => {
                    pending.buffer.advance(written);
                    progress = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if progress || pending.stalled_since.is_none() {
                        pending.stalled_since = Some(Instant::now());
                    }
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    pending.failure = Some(error.kind());
                    pending.buffer = BytesMut::new();
                }
            }
        }
        pending.stalled_since = None;
        if pending.buffer.capacity() > BUFFER_KEPT_MAX {
            pending.buffer = BytesMut::new();
        } else {
            pending.buffer.clear();
        }
    }

    /// Number of bytes that are not sent yet.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.pending().buffer.len()
    }

    /// Time for which the socket has taken nothing although the buffer is not empty.
    pub(crate) fn stalled_for(&self) -> Duration {
        self.pending()
            .stalled_since
            .map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Sends leftovers while polled; ends only when writing fails. Cancel-safe: unsent bytes stay
    /// in the buffer.
    pub(crate) async fn flush_leftovers(&self) -> io::Error {
        loop {
            if let Err(error) = self.flush_below(0).await {
                return error;
            }
            self.leftover.notified().await;
        }
    }

    /// Sends until at most `limit` bytes are left. Cancel-safe.
    pub(crate) async fn flush_below(&self, limit: usize) -> io::Result<()> {
        loop {
            {
                let mut pending = self.pending();
                if let Some(kind) = pending.failure {
                    return Err(kind.into());
                }
                if pending.buffer.len() > limit {
                    self.write(&mut pending);
                }
                if let Some(kind) = pending.failure {
                    return Err(kind.into());
                }
                if pending.buffer.len() <= limit {
                    return Ok(());
                }
            }
            self.socket.writable().await?;
        }
    }
}
