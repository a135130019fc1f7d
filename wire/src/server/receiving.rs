//! From bytes to complete frames: the memory that a frame takes while it arrives, and the frames
//! inside those of a wrapped connection.
//!
//! Bytes of a wrapped frame count twice while they are unwrapped, as the token and as the frames in
//! it. All that a connection has received and not handed to a call is covered by one reservation:
//! a second one would wait for the turn that the first one holds.

use std::mem;

use bytes::Bytes;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::SMALL_REQUEST_BYTES;
use super::calls::{NoMemory, OFF_WORKER_BYTES, Reserved};
use super::connection::{Connection, Ended};
use super::handshake;
use crate::frame::{Decoded, FrameDecoder};

/// Bytes of unsent answers above which no further call of the connection is read.
const OUTBOUND_HIGH_WATER: usize = 1024 * 1024;

/// A frame that has arrived in part, or a token whose frames are not all handled.
pub(super) struct Receiving {
    /// Time of the first byte of the frame, later by as long as it had to wait for memory.
    pub(super) since: Instant,
    /// Memory reserved, if it is long.
    pub(super) reserved: Option<Reserved>,
}

impl Receiving {
    fn now() -> Self {
        Self {
            since: Instant::now(),
            reserved: None,
        }
    }
}

/// Returns the bytes that a decoder's buffer takes for a long frame that arrives. Every connection
/// may buffer as much as a small request has, so a length that is only announced takes nothing.
fn arriving(decoder: &FrameDecoder) -> usize {
    let length = decoder.declared_length().unwrap_or(0);
    let bytes = decoder.next_capacity().min(length);
    if bytes <= SMALL_REQUEST_BYTES {
        0
    } else {
        bytes
    }
}

impl Connection {
    /// Returns the bytes that are received and not handed to a call.
    pub(super) fn received_bytes(&self) -> usize {
        let wrapped = self.wrapped.as_ref();
        let inside = wrapped.map_or(0, |wrapped| wrapped.frames().buffered_bytes());
        self.decoder.buffered_bytes() + inside
    }

    /// Handles every frame that was received completely.
    pub(super) async fn take_frames(&mut self) -> Result<(), Ended> {
        while let Decoded::Complete(frame) = self.decoder.frame()? {
            if self.wrapped.is_some() {
                self.take_wrapped(frame).await?;
            } else {
                self.take_next(frame, 0).await?;
            }
        }
        if self.received_bytes() == 0 {
            self.receiving = None;
        } else {
            // The rest of the frame may have to wait, also for what that call holds.
            self.let_go();
            self.receiving.get_or_insert_with(Receiving::now);
        }
        self.cover(0).await
    }

    /// Handles a frame once the peer has read enough of its answers. `kept`: bytes behind the frame
    /// that are received and not handled yet.
    async fn take_next(&mut self, frame: Bytes, kept: usize) -> Result<(), Ended> {
        // What follows may wait, also for what that call holds.
        self.let_go();
        if self.outbound.buffered_bytes() > OUTBOUND_HIGH_WATER {
            let drained = self.outbound.flush_below(OUTBOUND_HIGH_WATER);
            timeout(self.shared.limits.stall_timeout, drained)
                .await
                .map_err(|_| Ended::Stalled)??;
        }
        let reserved = self.receiving.take().and_then(|frame| frame.reserved);
        if let Some(reserved) = self.take_frame(frame, reserved, kept).await? {
            self.receiving = Some(Receiving {
                reserved: Some(reserved),
                ..Receiving::now()
            });
        }
        Ok(())
    }

    /// Unwraps a frame and handles the frames that are complete with it.
    async fn take_wrapped(&mut self, mut frame: Bytes) -> Result<(), Ended> {
        self.let_go();
        let length = frame.len();
        let token = self.try_push(|out| handshake::open_wrapped(&mut frame, out))?;
        drop(frame);
        let is_long = length > SMALL_REQUEST_BYTES;
        self.cover(if is_long { length + token.len() } else { 0 })
            .await?;
        self.unwrap(token).await?;
        while let Some(wrapped) = &mut self.wrapped {
            match wrapped.frame()? {
                Decoded::Complete(frame) => {
                    let behind = wrapped.unfed_bytes() + wrapped.frames().buffered_bytes();
                    let kept = if is_long { behind } else { 0 };
                    self.take_next(frame, kept).await?;
                }
                Decoded::Incomplete => {
                    let unfed = wrapped.unfed_bytes();
                    if unfed == 0 {
                        break;
                    }
                    self.cover(if is_long { unfed } else { 0 }).await?;
                    if let Some(wrapped) = &mut self.wrapped {
                        wrapped.feed();
                    }
                }
            }
        }
        Ok(())
    }

    /// Unwraps a token; a long one off the runtime's workers, as it takes milliseconds.
    async fn unwrap(&mut self, token: Bytes) -> Result<(), Ended> {
        let Some(mut wrapped) = self.wrapped.take() else {
            return Ok(());
        };
        if token.len() <= OFF_WORKER_BYTES {
            wrapped.open(token)?;
            self.wrapped = Some(wrapped);
            return Ok(());
        }
        let heavy = self.shared.heavy.clone();
        let opening = async {
            let permit = heavy.acquire_owned().await;
            let opening = spawn_blocking(move || {
                let opened = wrapped.open(token);
                drop(permit);
                (wrapped, opened)
            });
            opening.await.expect("it neither panics nor is cancelled")
        };
        // Boxed, as few tokens are long.
        let (wrapped, opened) = self.while_flushing(Box::pin(opening)).await?;
        self.wrapped = Some(wrapped);
        Ok(opened?)
    }

    /// Makes the reservation cover what arrives beside `held`: long frames of which more arrives
    /// than the buffers have space for. Releases what is more.
    async fn cover(&mut self, held: usize) -> Result<(), Ended> {
        let wrapped = self.wrapped.as_ref();
        let inside = wrapped.map_or(0, |wrapped| arriving(wrapped.frames()));
        let bytes = held + arriving(&self.decoder) + inside;
        if bytes == 0 {
            if let Some(receiving) = &mut self.receiving {
                receiving.reserved = None;
            }
            return Ok(());
        }
        let receiving = self.receiving.get_or_insert_with(Receiving::now);
        let before = mem::take(&mut receiving.reserved);
        let began = Instant::now();
        let reserved = self.reserve(before, bytes).await;
        let mut reserved = reserved.map_err(|refused| match refused {
            NoMemory::Late => Ended::NoMemory,
            NoMemory::Ended(ended) => ended,
        })?;
        reserved.release_beyond(bytes);
        if let Some(receiving) = &mut self.receiving {
            // The peer's rate is not judged by a time in which nothing was read.
            receiving.since += began.elapsed();
            receiving.reserved = Some(reserved);
        }
        Ok(())
    }
}
