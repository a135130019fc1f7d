//! One accepted connection: handshake, then calls until it ends.
//!
//! One task reads the connection. It starts each call where it is, and a call that is finished at its first poll is
//! answered from there; only a call that has to wait gets a task of its own, so that answers may overtake each other.
//! Answers of calls that were read together go out together.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::handshake::{self, Handshake, Refused};
use super::large::Share;
use super::running::{RunningCall, put_answer};
use super::{LARGE_REQUEST_BYTES, Shared};
use crate::digest_md5;
use crate::frame::{Decoded, FRAME_LENGTH_MAX_UNAUTHENTICATED, FrameDecoder, FrameError};
use crate::header::{self, CALL_ID_PING, CallRef};
use crate::outbound::Outbound;
use crate::rpc::Caller;

/// Answers waiting to be sent, in bytes, above which no further call of the connection is read: a peer that asks and
/// does not listen fills this and its own calls in flight, not more.
const OUTBOUND_HIGH_WATER: usize = 1024 * 1024;

/// How long a peer that was refused, or whose server stops, may take to read the last answer and close.
const LINGER: Duration = Duration::from_millis(500);

/// Bytes of such a peer that are read and thrown away. Unread ones would make the kernel reset the connection, and
/// the peer would lose the answer.
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// How often a quiet connection is looked at.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(10);

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("closed by the peer")]
    ByPeer,
    #[error("the server shuts down")]
    Shutdown,
    #[error("no connection context in time")]
    HandshakeTimeout,
    #[error("idle")]
    Idle,
    #[error("the peer does not read its answers")]
    Stalled,
    #[error("a large request did not come in time")]
    Slow,
    #[error("refused")]
    Refused(#[from] Refused),
    #[error("broken frame")]
    Frame(#[from] FrameError),
    #[error("reading or writing failed")]
    Io(#[from] io::Error),
}

/// Serves one connection to its end. `permit` is its place among the server's connections.
pub(super) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    permit: OwnedSemaphorePermit,
) {
    let ended = run(&shared, stream, peer).await;
    drop(permit);
    match ended {
        Ended::Refused(refused) => {
            tracing::info!(%peer, reason = %refused, "RPC connection refused")
        }
        Ended::ByPeer
        | Ended::Shutdown
        | Ended::HandshakeTimeout
        | Ended::Idle
        | Ended::Stalled
        | Ended::Slow
        | Ended::Frame(_)
        | Ended::Io(_) => tracing::debug!(%peer, reason = %ended, "RPC connection ended"),
    }
}

async fn run(shared: &Arc<Shared>, mut stream: TcpStream, peer: SocketAddr) -> Ended {
    if let Err(error) = stream.set_nodelay(true) {
        return error.into();
    }
    let deadline = Instant::now() + shared.limits.handshake_timeout;
    let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX_UNAUTHENTICATED);
    let mut out = BytesMut::new();
    let shaking = tokio::select! {
        result = timeout_at(deadline, shake_hands(shared, &mut stream, peer, &mut decoder, &mut out)) => result,
        () = shared.shutdown.cancelled() => return Ended::Shutdown,
    };
    let caller = match shaking {
        Ok(Ok(caller)) => caller,
        Err(_) => return Ended::HandshakeTimeout,
        Ok(Err(ended)) => {
            if let Ended::Refused(_) = ended {
                let _ = timeout(LINGER, say_goodbye(stream, &out)).await;
            }
            return ended;
        }
    };
    decoder.set_length_max(shared.limits.frame_length_max);
    let (read, write) = stream.into_split();
    let connection = Connection {
        read,
        decoder,
        outbound: Arc::new(Outbound::new(write)),
        slots: Arc::new(Semaphore::new(shared.limits.calls_per_connection_max)),
        large: None,
        large_of_user: shared.large.of_user(&caller.user),
        caller: Arc::new(caller),
        shared: Arc::clone(shared),
    };
    connection.run(out).await
}

/// Reads until the context. What is in `out` afterwards has not been sent.
async fn shake_hands(
    shared: &Shared,
    stream: &mut TcpStream,
    peer: SocketAddr,
    decoder: &mut FrameDecoder,
    out: &mut BytesMut,
) -> Result<Caller, Ended> {
    let preamble = loop {
        match decoder.preamble() {
            Ok(Decoded::Complete(preamble)) => break Ok(preamble),
            Ok(Decoded::Incomplete) => fill(stream, decoder).await?,
            Err(error) => break Err(error),
        }
    };
    let nonce = || digest_md5::nonce(rand::random());
    let mut handshake = Handshake::start(preamble, &shared.auth, nonce, peer, out)?;
    loop {
        match decoder.frame()? {
            Decoded::Complete(frame) => {
                if let Some(caller) = handshake.frame(frame, out)? {
                    return Ok(caller);
                }
            }
            Decoded::Incomplete => {
                if !out.is_empty() {
                    stream.write_all(out).await?;
                    out.clear();
                }
                fill(stream, decoder).await?;
            }
        }
    }
}

async fn fill(stream: &mut TcpStream, decoder: &mut FrameDecoder) -> Result<(), Ended> {
    match stream.read_buf(decoder.read_buffer()).await {
        Ok(0) => Err(Ended::ByPeer),
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sends a last answer and waits for the peer to close.
async fn say_goodbye(mut stream: TcpStream, last: &[u8]) -> io::Result<()> {
    stream.write_all(last).await?;
    stream.shutdown().await?;
    let (mut read, _write) = stream.into_split();
    discard(&mut read).await
}

/// Reads until the peer closes, and forgets it.
async fn discard(read: &mut OwnedReadHalf) -> io::Result<()> {
    let mut scratch = vec![0; 8 * 1024];
    let mut discarded = 0;
    while discarded < LINGER_BYTES_MAX {
        match read.read(&mut scratch).await? {
            0 => break,
            length => discarded += length,
        }
    }
    Ok(())
}

/// A connection whose caller is known.
struct Connection {
    read: OwnedReadHalf,
    decoder: FrameDecoder,
    outbound: Arc<Outbound>,
    /// A place for each call in flight on this connection.
    slots: Arc<Semaphore>,
    /// The large request that is coming in.
    large: Option<LargeRequest>,
    /// What the caller's connections have for such.
    large_of_user: Arc<Semaphore>,
    caller: Arc<Caller>,
    shared: Arc<Shared>,
}

/// A request that is long enough to be counted in bytes.
struct LargeRequest {
    /// Its share of the server's memory.
    share: Share,
    since: Instant,
}

impl Connection {
    /// `unsent` is what the handshake has left to send.
    async fn run(mut self, unsent: BytesMut) -> Ended {
        self.push(|out| out.extend_from_slice(&unsent));
        let ended = self.serve_calls().await;
        match ended {
            Ended::Refused(_) => self.close().await,
            Ended::Shutdown => {
                // Those that started are answered; the server bounds how long it waits for that.
                let all =
                    u32::try_from(self.shared.limits.calls_per_connection_max).unwrap_or(u32::MAX);
                let _ = self.while_flushing(self.slots.acquire_many(all)).await;
                self.close().await;
            }
            Ended::ByPeer
            | Ended::HandshakeTimeout
            | Ended::Idle
            | Ended::Stalled
            | Ended::Slow
            | Ended::Frame(_)
            | Ended::Io(_) => {}
        }
        ended
    }

    async fn close(self) {
        let Self {
            mut read, outbound, ..
        } = self;
        let _ = timeout(LINGER, async move {
            outbound.flush_below(0).await?;
            // Calls hold it weakly, so this shuts the socket for sending.
            drop(outbound);
            discard(&mut read).await
        })
        .await;
    }

    async fn serve_calls(&mut self) -> Ended {
        let mut last_read = Instant::now();
        let housekeeping = sleep_until(last_read + HOUSEKEEPING_INTERVAL);
        tokio::pin!(housekeeping);
        loop {
            if let Err(ended) = self.take_frames().await {
                self.outbound.flush_now();
                return ended;
            }
            self.outbound.flush_now();
            tokio::select! {
                read = self.read.read_buf(self.decoder.read_buffer()) => match read {
                    Ok(0) => return Ended::ByPeer,
                    Ok(_) => last_read = Instant::now(),
                    Err(error) => return error.into(),
                },
                error = self.outbound.flush_leftovers() => return error.into(),
                () = self.shared.shutdown.cancelled() => return Ended::Shutdown,
                () = &mut housekeeping => {
                    if let Some(ended) = self.grown_old(last_read) {
                        return ended;
                    }
                    housekeeping.as_mut().reset(Instant::now() + HOUSEKEEPING_INTERVAL);
                }
            }
        }
    }

    /// Whether the connection should end by its age.
    fn grown_old(&self, last_read: Instant) -> Option<Ended> {
        let limits = &self.shared.limits;
        if self.outbound.stalled_for() > limits.stall_timeout {
            return Some(Ended::Stalled);
        }
        if self
            .large
            .as_ref()
            .is_some_and(|large| large.since.elapsed() > limits.large_request_timeout)
        {
            return Some(Ended::Slow);
        }
        let busy = self.slots.available_permits() < limits.calls_per_connection_max;
        let silence = last_read.elapsed();
        let patience = if self.shared.is_crowded() {
            limits.idle_timeout_crowded
        } else {
            limits.idle_timeout
        };
        (!busy && silence > patience).then_some(Ended::Idle)
    }

    /// Handles every frame that has come whole.
    async fn take_frames(&mut self) -> Result<(), Ended> {
        loop {
            self.reserve_large().await?;
            let Decoded::Complete(frame) = self.decoder.frame()? else {
                return Ok(());
            };
            let large = self.large.take().map(|large| large.share);
            if self.outbound.buffered_bytes() > OUTBOUND_HIGH_WATER {
                let drained = self.outbound.flush_below(OUTBOUND_HIGH_WATER);
                timeout(self.shared.limits.stall_timeout, drained)
                    .await
                    .map_err(|_| Ended::Stalled)??;
            }
            self.take_frame(frame, large).await?;
        }
    }

    /// Gets a share of the server's memory for a large request that has begun, before more of it is read.
    async fn reserve_large(&mut self) -> Result<(), Ended> {
        let limits = &self.shared.limits;
        let Some(length) = self.decoder.declared_length() else {
            return Ok(());
        };
        if self.large.is_some() || length <= LARGE_REQUEST_BYTES || length > limits.frame_length_max
        {
            return Ok(());
        }
        let reserving = self.shared.large.reserve(&self.large_of_user, length);
        let share = self.while_flushing(reserving).await?;
        self.large = Some(LargeRequest {
            share,
            since: Instant::now(),
        });
        Ok(())
    }

    /// `large` is the frame's share of the server's memory, given back when its call ends.
    async fn take_frame(&self, mut frame: Bytes, large: Option<Share>) -> Result<(), Ended> {
        let header = self.try_push(|out| handshake::open_frame(&mut frame, out))?;
        let call = CallRef {
            call_id: header.call_id,
            client_id: header.client_id.clone(),
            retry_count: header.retry_count(),
        };
        match header.call_id {
            0.. => {}
            CALL_ID_PING => return Ok(()),
            other => {
                let exception = handshake::out_of_band_after_context(
                    other,
                    self.caller.token_identifier.is_some(),
                );
                let refused = |out: &mut BytesMut| {
                    Err(handshake::refuse(
                        out,
                        &CallRef {
                            client_id: Bytes::new(),
                            ..call
                        },
                        exception,
                    ))
                };
                return self.try_push(refused);
            }
        }
        let started = match self.shared.resolve(header::take_call(frame), &self.caller) {
            Ok(service_call) => RunningCall::new(service_call),
            Err(exception) => {
                self.push(|out| put_answer(out, &call, Err(exception)));
                return Ok(());
            }
        };
        self.start(call, started, large).await
    }

    /// Polls a call once where we are, and moves it to a task of its own if it has to wait.
    async fn start(
        &self,
        call: CallRef,
        mut running: RunningCall,
        large: Option<Share>,
    ) -> Result<(), Ended> {
        // Both waits are back-pressure: nothing more is read from this peer until a call has ended.
        let slots = self
            .while_flushing(Arc::clone(&self.slots).acquire_owned())
            .await?;
        let total = self
            .while_flushing(Arc::clone(&self.shared.calls).acquire_owned())
            .await?;
        let first =
            std::future::poll_fn(|context| std::task::Poll::Ready(running.poll_once(context)))
                .await;
        if let Some(result) = first {
            self.push(|out| put_answer(out, &call, result));
            return Ok(());
        }
        // A call that started is carried to its end even when its connection is lost.
        let outbound: Weak<Outbound> = Arc::downgrade(&self.outbound);
        let abandon = self.shared.abandon.clone();
        self.shared.running.spawn(async move {
            tokio::select! {
                result = running => {
                    if let Some(outbound) = outbound.upgrade() {
                        let _ = outbound.push(|out| {
                            put_answer(out, &call, result);
                            Ok::<(), std::convert::Infallible>(())
                        });
                        outbound.flush_now();
                    }
                }
                () = abandon.cancelled() => tracing::warn!("a call was abandoned at shutdown"),
            }
            drop((slots, total, large));
        });
        Ok(())
    }

    /// Waits for something and goes on sending meanwhile; the wait ends early when sending fails.
    async fn while_flushing<T>(&self, wait: impl Future<Output = T>) -> Result<T, Ended>
    where
        T: Sized,
    {
        tokio::select! {
            biased;
            value = wait => Ok(value),
            error = self.outbound.flush_leftovers() => Err(error.into()),
        }
    }

    fn push(&self, append: impl FnOnce(&mut BytesMut)) {
        let _ = self.outbound.push(|out| {
            append(out);
            Ok::<(), std::convert::Infallible>(())
        });
    }

    /// As [`push`](Self::push) for what may end the connection with an answer.
    fn try_push<T>(
        &self,
        append: impl FnOnce(&mut BytesMut) -> Result<T, Refused>,
    ) -> Result<T, Ended> {
        let mut result = None;
        self.push(|out| result = Some(append(out)));
        match result {
            Some(result) => Ok(result?),
            // Writing has failed before, and there is nobody to answer.
            None => Err(Ended::ByPeer),
        }
    }
}
