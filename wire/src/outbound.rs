//! The sending half of a connection, shared by all tasks that send frames.
//!
//! A frame is appended whole under a lock and then offered to the socket at once, without waiting:
//! in the usual case one system call by the task that made the frame, and no other task wakes.
//! Bytes that the socket does not take stay buffered; the connection's own task writes them when
//! the socket is ready, together with later frames. The socket is shut for sending when the last
//! owner drops it.
//!
//! On a wrapped connection a frame is wrapped under the same lock: its token has the number of its
//! place in the order of sending. A layer that fails ends the connection.
//!
//! A frame may come with what it holds, for example its part of a memory budget. That is dropped
//! when the socket has taken the frame or writing has failed.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use socket2::SockRef;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::wrapped::{SealError, WrappedWriter};

/// Largest capacity of an empty buffer, in bytes: one that grew beyond it for a large frame is
/// freed.
const BUFFER_KEPT_MAX: usize = 64 * 1024;

/// A thing that a frame holds until it is sent.
pub(crate) trait Held {
    /// Adapts it to the length of its frame, in bytes. Called whenever the frame has to wait, each
    /// time with the same length.
    fn resize(&mut self, bytes: usize);
}

/// Held by frames that hold nothing.
impl Held for () {
    fn resize(&mut self, _: usize) {}
}

/// The sending half of one connection.
#[derive(Debug)]
pub(crate) struct Outbound<H> {
    socket: OwnedWriteHalf,
    pending: Mutex<Pending<H>>,
    /// Wakes the connection's task when the socket did not take all bytes, or when writing failed.
    leftover: Notify,
}

#[derive(Debug)]
struct Pending<H> {
    buffer: BytesMut,
    /// Layer that frames get before they are in the buffer.
    wrapped: Option<WrappedWriter>,
    /// Holds of the frames in the buffer, in the frames' order.
    holds: VecDeque<Hold<H>>,
    /// Bytes that the socket has taken so far.
    sent: u64,
    /// Time since which the socket takes nothing although the buffer is not empty.
    stalled_since: Option<Instant>,
    /// Kind of the error with which writing failed. Nothing is sent after that.
    failure: Option<io::ErrorKind>,
}

#[derive(Debug)]
struct Hold<H> {
    held: H,
    /// Length of the frame in bytes.
    length: usize,
    /// Value of [`Pending::sent`] at which the frame is sent.
    until: u64,
}

impl<H: Held> Pending<H> {
    /// Appends frames to the buffer.
    fn put<T>(&mut self, append: impl FnOnce(&mut BytesMut) -> T) -> Result<T, SealError> {
        match &mut self.wrapped {
            None => Ok(append(&mut self.buffer)),
            Some(wrapped) => wrapped.put(&mut self.buffer, append),
        }
    }

    /// Drops what the frames held that are sent, and adapts what those hold that wait.
    fn release_sent(&mut self) {
        let sent = self.holds.partition_point(|hold| hold.until <= self.sent);
        self.holds.drain(..sent);
        for hold in &mut self.holds {
            hold.held.resize(hold.length);
        }
    }

    /// Drops what all frames held, and the buffer's memory if it is large. The buffer is empty.
    fn clear(&mut self) {
        self.holds.clear();
        // Not by `capacity()`: that of a buffer that was sent counts only what is left behind it.
        if self.buffer.try_reclaim(BUFFER_KEPT_MAX + 1) {
            self.buffer = BytesMut::new();
        }
    }
}

impl<H: Held> Outbound<H> {
    /// Starts with bytes that the next flush sends as they are; `wrapped` is for what follows.
    pub(crate) fn new(
        socket: OwnedWriteHalf,
        unsent: BytesMut,
        wrapped: Option<WrappedWriter>,
    ) -> Self {
        Self {
            socket,
            pending: Mutex::new(Pending {
                buffer: unsent,
                wrapped,
                holds: VecDeque::new(),
                sent: 0,
                stalled_since: None,
                failure: None,
            }),
            leftover: Notify::new(),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending<H>> {
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
        match pending.put(append) {
            Ok(appended) => appended,
            Err(error) => {
                self.fail(&mut pending, &error);
                Ok(())
            }
        }
    }

    /// Ends sending, since frames cannot be wrapped.
    fn fail(&self, pending: &mut Pending<H>, error: &SealError) {
        tracing::debug!(%error, "frames cannot be wrapped");
        pending.failure = Some(io::ErrorKind::InvalidData);
        pending.buffer = BytesMut::new();
        pending.clear();
        self.leftover.notify_one();
    }

    /// Appends one frame that holds `held` until it is sent.
    pub(crate) fn push_held(&self, held: H, append: impl FnOnce(&mut BytesMut)) {
        let mut pending = self.pending();
        if pending.failure.is_some() {
            return;
        }
        let before = pending.buffer.len();
        if let Err(error) = pending.put(append) {
            self.fail(&mut pending, &error);
            return;
        }
        let after = pending.buffer.len();
        let until = pending.sent + after as u64;
        let length = after - before;
        pending.holds.push_back(Hold {
            held,
            length,
            until,
        });
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

    fn write(&self, pending: &mut Pending<H>) {
        let mut progress = false;
        while !pending.buffer.is_empty() {
            match self.socket.try_write(&pending.buffer) {
                Ok(written) => {
                    pending.buffer.advance(written);
                    pending.sent += written as u64;
                    progress = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if progress || pending.stalled_since.is_none() {
                        pending.stalled_since = Some(Instant::now());
                    }
                    pending.release_sent();
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
        pending.clear();
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
                self.write(&mut pending);
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

#[cfg(test)]
mod tests;
