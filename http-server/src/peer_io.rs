//! A connection's bytes, with the deadlines that hyper does not have.
//!
//! hyper bounds the time from the last answer to the next request. Nothing in it bounds how long a
//! peer may take for the head that it has begun, or for taking an answer.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::activity::{Activity, Phase};

/// A stream that passes bytes through and fails with [`io::ErrorKind::TimedOut`] at a deadline: a
/// head that is not complete in time, or a write of which the peer takes nothing for too long.
#[derive(Debug)]
pub(crate) struct PeerIo<T> {
    inner: T,
    activity: Arc<Activity>,
    request_timeout: Duration,
    stall_timeout: Duration,
    /// Deadline of the head that is arriving.
    head_deadline: Option<Pin<Box<Sleep>>>,
    /// Deadline of the write that waits.
    write_deadline: Option<Pin<Box<Sleep>>>,
    /// Deadline of the flush that waits.
    flush_deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> PeerIo<T> {
    pub(crate) fn new(
        inner: T,
        activity: Arc<Activity>,
        request_timeout: Duration,
        stall_timeout: Duration,
    ) -> Self {
        Self {
            inner,
            activity,
            request_timeout,
            stall_timeout,
            head_deadline: None,
            write_deadline: None,
            flush_deadline: None,
        }
    }

    /// Checks the deadline of a head, which begins with its first byte.
    fn check_head(&mut self, cx: &mut Context<'_>, received: bool) -> io::Result<()> {
        if received && matches!(self.activity.phase(), Phase::Idle | Phase::Kept) {
            self.activity.enter(Phase::Receiving);
            self.head_deadline = None;
        }
        if self.activity.phase() != Phase::Receiving {
            self.head_deadline = None;
            return Ok(());
        }
        let limit = self.request_timeout;
        let deadline = self
            .head_deadline
            .get_or_insert_with(|| Box::pin(sleep(limit)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// Returns what a write gave, or the failure if the peer has taken nothing for too long.
    fn check_write<R>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.write_deadline = None;
            self.flush_deadline = None;
            match self.activity.phase() {
                Phase::Receiving => {}
                // The last bytes of an answer may still be on their way.
                phase @ (Phase::Idle | Phase::Answering | Phase::Kept) => {
                    self.activity.enter(phase)
                }
            }
            return polled;
        }
        let limit = self.stall_timeout;
        stalled(&mut self.write_deadline, limit, cx)
    }
}

/// Waits for a peer that takes nothing until its deadline, which begins with the first wait.
fn stalled<R>(
    deadline: &mut Option<Pin<Box<Sleep>>>,
    limit: Duration,
    cx: &mut Context<'_>,
) -> Poll<io::Result<R>> {
    let deadline = deadline.get_or_insert_with(|| Box::pin(sleep(limit)));
    match deadline.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        Poll::Pending => Poll::Pending,
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PeerIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let received = buffer.filled().len() > before;
        match self.check_head(cx, received) {
            Ok(()) => polled,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PeerIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.check_write(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.check_write(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket has no buffer of its own to flush: this is no progress of the peer. TLS has one,
        // and then this is where the end of an answer waits.
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        if polled.is_ready() {
            self.flush_deadline = None;
            return polled;
        }
        let limit = self.stall_timeout;
        stalled(&mut self.flush_deadline, limit, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.check_write(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Two ends of a connection; the near one has a buffer of 16 bytes and the deadlines.
    fn connection() -> (PeerIo<DuplexStream>, DuplexStream) {
        let (near, far) = duplex(16);
        let activity = Arc::new(Activity::new(Instant::now()));
        (PeerIo::new(near, activity, LIMIT, LIMIT), far)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_cut_at_the_deadline() {
        let (mut near, _far) = connection();
        let begun = Instant::now();
        let error = near.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_that_keeps_reading_gets_everything() {
        let (mut near, mut far) = connection();
        let reader = tokio::spawn(async move {
            let mut taken = 0;
            while taken < 100 {
                sleep(LIMIT / 2).await;
                taken += far.read(&mut [0; 16]).await.unwrap();
            }
            taken
        });
        near.write_all(&[0; 100]).await.unwrap();
        assert_eq!(reader.await.unwrap(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_pauses_for_minutes_to_keep_an_average_rate_gets_everything() {
        let (near, mut far) = duplex(16);
        let activity = Arc::new(Activity::new(Instant::now()));
        let limit = crate::Limits::default().stall_timeout;
        let mut near = PeerIo::new(near, activity, LIMIT, limit);
        let writer = tokio::spawn(async move { near.write_all(&[0; 100]).await });
        let mut first = [0; 50];
        far.read_exact(&mut first).await.unwrap();
        sleep(Duration::from_secs(300)).await;
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        writer.await.unwrap().unwrap();
        assert_eq!(first.len() + rest.len(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_trickles_is_cut_at_the_deadline_from_its_first_byte() {
        let (mut near, mut far) = connection();
        let writer = tokio::spawn(async move {
            sleep(LIMIT * 2).await;
            while far.write_all(b"x").await.is_ok() {
                sleep(LIMIT / 10).await;
            }
        });
        let begun = Instant::now();
        let mut byte = [0];
        let error = loop {
            if let Err(error) = near.read_exact(&mut byte).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), 3 * LIMIT.as_secs());
        drop(near);
        writer.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_head_has_a_deadline_of_its_own() {
        let (mut near, mut far) = connection();
        let mut byte = [0];
        far.write_all(b"a").await.unwrap();
        near.read_exact(&mut byte).await.unwrap();
        near.activity.enter(Phase::Answering);
        near.activity.enter(Phase::Idle);
        sleep(LIMIT * 2).await;
        far.write_all(b"b").await.unwrap();
        near.read_exact(&mut byte).await.unwrap();
    }
}
