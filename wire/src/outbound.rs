//! The sending half of a connection, shared by everybody who has frames to send.
//!
//! A frame is appended whole under a lock and then offered to the socket at once, without waiting: in the usual case
//! one system call by the task that made the frame, and no other task wakes. What the socket does not take stays
//! buffered; the connection's own task writes it when the socket is ready, together with what came meanwhile.
//! The socket is shut for sending when the last owner drops it.

use std::io;
use std::net::Shutdown;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use socket2::SockRef;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A buffer that grew beyond this for one large frame is given back once it is empty, in bytes.
const BUFFER_KEPT_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Outbound {
    socket: OwnedWriteHalf,
    pending: Mutex<Pending>,
    /// Tells the connection's task of bytes that the socket did not take, or that writing failed.
    leftover: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    buffer: BytesMut,
    /// Since when the socket takes nothing although there is something to send.
    stalled_since: Option<Instant>,
    /// Writing failed; nothing will be sent any more.
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
        // Every change under the lock leaves whole frames behind, whatever panicked afterwards.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shuts the connection for both directions, whoever still holds a handle on it. The peer sees its end at once.
    pub(crate) fn close(&self) {
        if let Err(error) = SockRef::from(self.socket.as_ref()).shutdown(Shutdown::Both) {
            // The peer was faster.
            tracing::trace!(%error, "the connection was closed already");
        }
    }

    /// Appends frames, to be sent by the next flush. `append` leaves the buffer as it was when it fails.
    pub(crate) fn push<E>(
        &self,
        append: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut pending = self.pending();
        if pending.failure.is_some() {
            // The connection's task is about to tell everybody.
            return Ok(());
        }
        append(&mut pending.buffer)
    }

    /// Sends what the socket takes now; the connection's task sends the rest.
    pub(crate) fn flush_now(&self) {
        let mut pending = self.pending();
        // Bytes that are stalled already wait for the connection's task, and so do these behind them.
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

    /// Bytes not sent yet.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.pending().buffer.len()
    }

    /// How long the socket has taken nothing although there is something to send.
    pub(crate) fn stalled_for(&self) -> Duration {
        self.pending()
            .stalled_since
            .map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Sends leftovers for as long as it is polled; ends only when writing fails. May be dropped and made anew at any
    /// time: what is to be sent stays in the buffer.
    pub(crate) async fn flush_leftovers(&self) -> io::Error {
        loop {
            if let Err(error) = self.flush_below(0).await {
                return error;
            }
            self.leftover.notified().await;
        }
    }

    /// Sends until at most `limit` bytes are left. May be dropped and made anew at any time.
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
