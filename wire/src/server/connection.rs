//! One accepted connection: the handshake, then calls until the connection ends.
//!
//! One task reads the connection. It polls each new call once inline and answers a call that
//! finishes at once. A call that has to wait stays in this task as long as the connection has
//! nothing else to do, since another task would wake another thread: most peers send a call only
//! when they have the answer to the last. It moves to a task of its own when more arrives, so that
//! answers may overtake each other, and when the connection ends. Answers of calls that were read
//! together are sent together.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use refusals::Reason;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::Shared;
use super::budget::Account;
use super::calls::WaitingCall;
use super::handshake::{self, Handshake, Known, Next, Refused};
use super::receiving::Receiving;
use super::running::Place;
use super::strangers::StrangerPlace;
use crate::digest_md5;
use crate::frame::{Decoded, FRAME_LENGTH_MAX_UNAUTHENTICATED, FrameDecoder, FrameError};
use crate::header::{CALL_ID_CONTEXT, CallRef};
use crate::layer::LayerError;
use crate::outbound::Outbound;
use crate::service::Caller;
use crate::wrapped::{Sender, WrappedReader, WrappedWriter};

/// Time for a peer to read its last answer and close, after a refusal or when the server stops.
const LINGER: Duration = Duration::from_millis(500);

/// Limit on the bytes of such a peer that are read and discarded. Unread bytes would make the
/// kernel reset the connection, and the peer would lose the answer.
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// Interval of checks on an idle connection.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(10);

/// Reason why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("closed by the peer")]
    ByPeer,
    #[error("the server shuts down")]
    Shutdown,
    #[error("no connection context in time")]
    HandshakeTimeout,
    #[error("no place for a connection of the user in time")]
    NoPlace,
    #[error("evicted before authentication by a newer connection")]
    Evicted,
    #[error("idle")]
    Idle,
    #[error("the peer does not read its answers")]
    Stalled,
    #[error("a request did not arrive in time")]
    Slow,
    #[error("no memory for a large request in time")]
    NoMemory,
    #[error("refused")]
    Refused(#[from] Refused),
    #[error("broken frame")]
    Frame(#[from] FrameError),
    #[error("a wrapped message was cut, changed, dropped or repeated")]
    Layer(#[from] LayerError),
    #[error("reading or writing failed")]
    Io(#[from] io::Error),
}

impl Ended {
    /// Returns the reason for which the server ended the connection; `None` if it had none.
    fn refusal(&self) -> Option<Reason> {
        match self {
            Self::ByPeer | Self::Shutdown | Self::Idle | Self::Io(_) => None,
            Self::HandshakeTimeout | Self::Slow => Some(Reason::Late),
            Self::NoPlace => Some(Reason::NoPlace),
            Self::Evicted => Some(Reason::Evicted),
            Self::Stalled => Some(Reason::Stalled),
            Self::NoMemory => Some(Reason::NoMemory),
            Self::Refused(refused) => Some(refused.reason()),
            Self::Frame(FrameError::TooLong { .. }) => Some(Reason::TooLarge),
            Self::Frame(FrameError::NegativeLength { .. }) | Self::Layer(_) => {
                Some(Reason::Malformed)
            }
        }
    }
}

/// Serves one connection to its end. `place` is its place until it has authenticated itself.
pub(super) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    place: StrangerPlace,
) {
    let ended = run(&shared, stream, peer, place).await;
    if let Some(reason) = ended.refusal() {
        shared.refusals.count(reason);
    }
    match ended {
        Ended::Refused(refused) => shared.refusal_log.log(peer, &refused),
        Ended::ByPeer
        | Ended::Shutdown
        | Ended::HandshakeTimeout
        | Ended::NoPlace
        | Ended::Evicted
        | Ended::Idle
        | Ended::Stalled
        | Ended::Slow
        | Ended::NoMemory
        | Ended::Frame(_)
        | Ended::Layer(_)
        | Ended::Io(_) => tracing::debug!(%peer, reason = %ended, "RPC connection ended"),
    }
}

async fn run(
    shared: &Arc<Shared>,
    mut stream: TcpStream,
    peer: SocketAddr,
    place: StrangerPlace,
) -> Ended {
    if let Err(error) = stream.set_nodelay(true) {
        return error.into();
    }
    let deadline = Instant::now() + shared.limits.handshake_timeout;
    let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX_UNAUTHENTICATED);
    let mut out = BytesMut::new();
    let is_known = AtomicBool::new(false);
    let handshake = async {
        let known =
            handshake_to_caller(shared, &mut stream, &place, peer, &mut decoder, &mut out).await?;
        is_known.store(true, Ordering::Relaxed);
        let account = shared.budgets.account_of(&known.caller);
        let own = account.connection().await;
        let all = Arc::clone(&shared.connections).acquire_owned().await;
        let all = all.expect("the semaphore is never closed");
        Ok((known, account, [own, all]))
    };
    let handshake = tokio::select! {
        result = timeout_at(deadline, handshake) => result,
        () = place.evicted.cancelled() => return Ended::Evicted,
        () = shared.shutdown.cancelled() => return Ended::Shutdown,
    };
    let (Known { caller, next }, account, places) = match handshake {
        Ok(Ok(known)) => known,
        Err(_) if is_known.into_inner() => return Ended::NoPlace,
        Err(_) => return Ended::HandshakeTimeout,
        Ok(Err(ended)) => {
            if let Ended::Refused(_) = ended {
                let _ = timeout(LINGER, send_last_answer(stream, &out)).await;
            }
            return ended;
        }
    };
    drop(place);
    decoder.set_length_max(shared.limits.frame_length_max);
    let (read, write) = stream.into_split();
    let layer = match next {
        Next::Calls { .. } => None,
        Next::Context(layer) => Some(layer),
    };
    let awaits_context = layer.is_some();
    let (wrap, unwrap) = layer.map(|layer| (layer.wrap, layer.unwrap)).unzip();
    let writer = wrap.map(|wrap| WrappedWriter::new(wrap, Sender::Server));
    let connection = Connection {
        read,
        decoder,
        wrapped: unwrap.map(|unwrap| WrappedReader::new(unwrap, shared.limits.frame_length_max)),
        awaits_context,
        outbound: Arc::new(Outbound::new(write, out, writer)),
        slots: Arc::new(Semaphore::new(shared.limits.calls_per_connection_max)),
        waiting: None,
        receiving: None,
        account,
        caller: Arc::new(caller),
        shared: Arc::clone(shared),
        _places: places,
    };
    connection.run().await
}

/// Runs the handshake until the caller is known. Bytes left in `out` are not sent yet.
async fn handshake_to_caller(
    shared: &Shared,
    stream: &mut TcpStream,
    place: &StrangerPlace,
    peer: SocketAddr,
    decoder: &mut FrameDecoder,
    out: &mut BytesMut,
) -> Result<Known, Ended> {
    let preamble = loop {
        match decoder.preamble() {
            Ok(Decoded::Complete(preamble)) => break Ok(preamble),
            Ok(Decoded::Incomplete) => {
                fill(stream, decoder).await?;
            }
            Err(error) => break Err(error),
        }
    };
    let nonce = || digest_md5::nonce(rand::random());
    let mut handshake = Handshake::start(
        preamble,
        &shared.auth,
        &shared.protections,
        nonce,
        peer,
        out,
    )?;
    loop {
        match decoder.frame()? {
            Decoded::Complete(frame) => {
                place.has_begun.store(true, Ordering::Relaxed);
                if let Some(known) = handshake.frame(frame, out)? {
                    return authorized(shared, known, out).await;
                }
            }
            Decoded::Incomplete => {
                stream.write_all(out).await?;
                out.clear();
                fill(stream, decoder).await?;
            }
        }
    }
}

/// Refuses a caller who may not use the protocol. Whoever has a layer names it in the context,
/// which is still to come.
async fn authorized(shared: &Shared, known: Known, out: &mut BytesMut) -> Result<Known, Ended> {
    if let Next::Calls { protocol } = &known.next {
        let allowed = shared.authorize(&known.caller, protocol.as_deref()).await;
        if let Err(exception) = allowed {
            let call = CallRef::out_of_band(CALL_ID_CONTEXT);
            return Err(handshake::refuse(out, &call, exception).into());
        }
    }
    Ok(known)
}

async fn fill(stream: &mut TcpStream, decoder: &mut FrameDecoder) -> Result<(), Ended> {
    match stream.read_buf(decoder.read_buffer()).await {
        Ok(0) => Err(Ended::ByPeer),
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sends a last answer and waits for the peer to close.
async fn send_last_answer(mut stream: TcpStream, last: &[u8]) -> io::Result<()> {
    stream.write_all(last).await?;
    stream.shutdown().await?;
    let (mut read, _write) = stream.into_split();
    discard(&mut read).await
}

/// Reads and discards until the peer closes.
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

/// A connection after its handshake, with a known caller.
pub(super) struct Connection {
    read: OwnedReadHalf,
    pub(super) decoder: FrameDecoder,
    /// The frames inside the messages of a security layer, if one was agreed on.
    pub(super) wrapped: Option<WrappedReader>,
    /// Whether the connection context is still to come, the first frame of a wrapped connection.
    pub(super) awaits_context: bool,
    pub(super) outbound: Arc<Outbound<Place>>,
    /// Slots for the calls on this connection whose answers are not sent.
    pub(super) slots: Arc<Semaphore>,
    /// Call that waits while the connection has nothing else to do.
    pub(super) waiting: Option<WaitingCall>,
    /// Frame that has arrived in part.
    pub(super) receiving: Option<Receiving>,
    /// Memory of the caller's user, for all connections of that user.
    pub(super) account: Arc<Account>,
    pub(super) caller: Arc<Caller>,
    pub(super) shared: Arc<Shared>,
    /// Places among the user's connections and among all.
    _places: [OwnedSemaphorePermit; 2],
}

impl Connection {
    /// Serves calls until the connection ends.
    async fn run(mut self) -> Ended {
        let ended = self.serve_calls().await;
        self.let_go();
        match ended {
            Ended::Refused(_) => self.close().await,
            Ended::Shutdown => {
                // Started calls are answered; the server limits the time for that.
                let all =
                    u32::try_from(self.shared.limits.calls_per_connection_max).unwrap_or(u32::MAX);
                let _ = self.while_flushing(self.slots.acquire_many(all)).await;
                self.close().await;
            }
            Ended::ByPeer
            | Ended::HandshakeTimeout
            | Ended::NoPlace
            | Ended::Evicted
            | Ended::Idle
            | Ended::Stalled
            | Ended::Slow
            | Ended::NoMemory
            | Ended::Frame(_)
            | Ended::Layer(_)
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
            // Calls hold it weakly, so this shuts down the socket's sending side.
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
                () = Self::run_waiting(&mut self.waiting, &self.outbound) => {}
                error = self.outbound.flush_leftovers() => return error.into(),
                () = self.shared.shutdown.cancelled() => return Ended::Shutdown,
                () = &mut housekeeping => {
                    if let Some(ended) = self.timeout_passed(last_read) {
                        return ended;
                    }
                    housekeeping.as_mut().reset(Instant::now() + HOUSEKEEPING_INTERVAL);
                }
            }
        }
    }

    /// Returns the reason to end the connection if one of its timeouts has passed.
    fn timeout_passed(&self, last_read: Instant) -> Option<Ended> {
        let limits = &self.shared.limits;
        if self.outbound.stalled_for() > limits.stall_timeout {
            return Some(Ended::Stalled);
        }
        if let Some(receiving) = &self.receiving {
            let received = self.received_bytes();
            if receiving.since.elapsed() > limits.time_for(received) {
                return Some(Ended::Slow);
            }
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

    /// Waits for a future and keeps sending meanwhile; ends early if sending fails or stalls.
    pub(super) async fn while_flushing<T>(
        &self,
        wait: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        tokio::select! {
            biased;
            value = wait => Ok(value),
            error = self.outbound.flush_leftovers() => Err(error.into()),
            () = self.stalled() => Err(Ended::Stalled),
        }
    }

    /// Ends when the peer has left answers unread for too long.
    async fn stalled(&self) {
        while self.outbound.stalled_for() <= self.shared.limits.stall_timeout {
            sleep(HOUSEKEEPING_INTERVAL).await;
        }
    }

    /// Appends frames, to be sent by the next flush.
    pub(super) fn push(&self, append: impl FnOnce(&mut BytesMut)) {
        let _ = self.outbound.push(|out| {
            append(out);
            Ok::<(), std::convert::Infallible>(())
        });
    }

    /// Like [`push`](Self::push), for a result that may end the connection with an answer.
    pub(super) fn try_push<T>(
        &self,
        append: impl FnOnce(&mut BytesMut) -> Result<T, Refused>,
    ) -> Result<T, Ended> {
        let mut result = None;
        self.push(|out| result = Some(append(out)));
        match result {
            Some(result) => Ok(result?),
            // Writing has failed before, so no answer can be sent.
            None => Err(Ended::ByPeer),
        }
    }
}
