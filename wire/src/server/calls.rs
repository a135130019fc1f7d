//! From a complete frame to a running call: the header, the method, the memory for request and
//! answer, the start, and where it waits.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use refusals::Reason;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::budget::Share;
use super::connection::{Connection, Ended};
use super::handshake;
use super::running::{Place, RunningCall, ServiceCall, put_answer};
use super::{MEMORY_WAIT_MAX, SMALL_REQUEST_BYTES};
use crate::exception::{HadoopException, RemoteException};
use crate::header::{self, CALL_ID_CONTEXT, CALL_ID_PING, CallRef};
use crate::outbound::Outbound;

/// Cost of a request, in bytes, above which it is decoded off the runtime's workers: decoding it
/// takes more than a few hundred microseconds, which other connections would wait for.
pub(super) const OFF_WORKER_BYTES: usize = 256 * 1024;

/// Memory that a request has so far, taken step by step.
pub(super) struct Reserved {
    share: Share,
    /// The user's turn to take more.
    _turn: OwnedSemaphorePermit,
}

impl Reserved {
    /// Releases what exceeds this many bytes.
    pub(super) fn release_beyond(&mut self, bytes: usize) {
        let more = self.share.bytes().saturating_sub(bytes);
        drop(self.share.split(more));
    }
}

impl Connection {
    /// Waits for memory until `reserved` covers this many bytes of a request.
    pub(super) async fn reserve(
        &self,
        reserved: Option<Reserved>,
        bytes: usize,
    ) -> Result<Reserved, NoMemory> {
        let more = async {
            let Some(mut reserved) = reserved else {
                let turn = self.account.turn().await;
                let share = self.account.reserve_request(bytes).await;
                return Reserved { share, _turn: turn };
            };
            if let Some(missing) = bytes.checked_sub(reserved.share.bytes()) {
                let more = self.account.reserve_request(missing).await;
                reserved.share.merge(more);
            }
            reserved
        };
        // Boxed, as few requests are long: it would take 1 KiB of every connection's task.
        let more = Box::pin(timeout(MEMORY_WAIT_MAX, more));
        let reserved = self.while_flushing(more).await;
        reserved
            .map_err(NoMemory::Ended)?
            .map_err(|_| NoMemory::Late)
    }

    /// Handles one frame. `reserved` is the memory that the connection has: for the frame, which
    /// its call releases when it ends, and for `kept` bytes behind it, for which it is returned.
    pub(super) async fn take_frame(
        &mut self,
        mut frame: Bytes,
        reserved: Option<Reserved>,
        kept: usize,
    ) -> Result<Option<Reserved>, Ended> {
        let length = frame.len();
        let header = self.try_push(|out| handshake::open_frame(&mut frame, out))?;
        let call = CallRef {
            call_id: header.call_id,
            client_id: header.client_id.clone(),
            retry_count: header.retry_count(),
        };
        let mut memory = Memory { reserved, kept };
        if header.call_id < 0 || self.awaits_context {
            self.take_out_of_band(&call, frame).await?;
            return Ok(memory.left());
        }
        let resolved = self.shared.resolve(header::take_call(frame), &self.caller);
        let admitted = match resolved {
            Ok(service_call) => self.admit(service_call, length, &mut memory).await?,
            Err(exception) => Err(exception),
        };
        match admitted {
            Ok(admitted) => self.start(call, admitted).await?,
            Err(exception) => self.push(|out| put_answer(out, &call, Err(exception))),
        }
        Ok(memory.left())
    }

    /// Handles a frame that is no call, or that comes before the context.
    async fn take_out_of_band(&mut self, call: &CallRef, payload: Bytes) -> Result<(), Ended> {
        let exception = match call.call_id {
            CALL_ID_PING => return Ok(()),
            CALL_ID_CONTEXT if self.awaits_context => match self.check_context(payload).await? {
                Ok(()) => {
                    self.awaits_context = false;
                    return Ok(());
                }
                Err(exception) => exception,
            },
            other if self.awaits_context => handshake::before_context(other),
            other => {
                let is_proven = self.caller.token_identifier.is_some();
                handshake::out_of_band_after_context(other, payload, is_proven)
            }
        };
        let call = CallRef {
            client_id: Bytes::new(),
            ..call.clone()
        };
        self.try_push(|out| Err(handshake::refuse(out, &call, exception)))
    }

    /// Checks the context of a wrapped connection, and that the caller may use its protocol.
    async fn check_context(&self, payload: Bytes) -> Result<Result<(), RemoteException>, Ended> {
        let protocol = match handshake::check_context(&self.caller, payload) {
            Ok(protocol) => protocol,
            Err(exception) => return Ok(Err(exception)),
        };
        let allowed = self.shared.authorize(&self.caller, protocol.as_deref());
        // Boxed, as it waits once in a connection's life.
        let limit = self.shared.limits.handshake_timeout;
        let allowed = self
            .while_flushing(Box::pin(timeout(limit, allowed)))
            .await?;
        allowed.map_err(|_| Ended::HandshakeTimeout)
    }

    /// Takes the memory for decoding a request whose frame has this length, or refuses the call.
    async fn admit(
        &self,
        call: ServiceCall,
        length: usize,
        memory: &mut Memory,
    ) -> Result<Result<Admitted, RemoteException>, Ended> {
        let (call, cost) = if length > OFF_WORKER_BYTES {
            let computing = spawn_blocking(move || {
                let cost = call.cost();
                (call, cost)
            });
            self.while_flushing(computing)
                .await?
                .expect("it neither panics nor is cancelled")
        } else {
            let cost = call.cost();
            (call, cost)
        };
        let cost = match cost {
            Ok(cost) => cost.saturating_add(length),
            Err(error) => {
                let text = error.to_string();
                return Ok(Err(RemoteException::new(
                    HadoopException::InvalidProtocolBuffer,
                    text,
                )));
            }
        };
        let limit = self.shared.limits.request_cost_max();
        if cost > limit {
            tracing::info!(peer = %self.caller.peer, user = %self.caller.user, method = call.method, cost, limit, "a request would take too much memory and is refused");
            self.shared.refusals.count(Reason::TooLarge);
            let text = format!("the request would take {cost} bytes of memory, limit {limit}");
            return Ok(Err(RemoteException::new(HadoopException::RpcServer, text)));
        }
        let share = if cost > SMALL_REQUEST_BYTES {
            match self
                .reserve(memory.reserved.take(), cost + memory.kept)
                .await
            {
                Ok(mut reserved) => {
                    let share = reserved.share.split(cost);
                    memory.reserved = Some(reserved);
                    Some(share)
                }
                Err(NoMemory::Ended(ended)) => return Err(ended),
                // With the reservation that of what is behind the frame is lost.
                Err(NoMemory::Late) if memory.kept > 0 => return Err(Ended::NoMemory),
                Err(NoMemory::Late) => {
                    self.shared.refusals.count(Reason::NoMemory);
                    let text = "the server is busy with other requests; try again";
                    return Ok(Err(RemoteException::new(HadoopException::Retriable, text)));
                }
            }
        } else {
            None
        };
        Ok(Ok(Admitted {
            running: RunningCall::new(call),
            is_heavy: cost > OFF_WORKER_BYTES,
            share,
        }))
    }

    /// Starts a call, and answers it if it has not to wait. One that waits stays with the
    /// connection; a heavy one gets a task of its own.
    async fn start(&mut self, call: CallRef, admitted: Admitted) -> Result<(), Ended> {
        let Admitted {
            mut running,
            is_heavy,
            share,
        } = admitted;
        // Both waits are back-pressure: no more is read from this peer until calls have ended.
        // Passed by reference, as a future that is passed by value takes its space twice.
        let slots = Arc::clone(&self.slots);
        let slot = self.while_flushing(pin!(slots.acquire_owned())).await?;
        let answer_bytes = self.shared.limits.answer_bytes_reserved;
        let answer = self
            .while_flushing(pin!(self.account.reserve_answer(answer_bytes)))
            .await?;
        let place = Place {
            _slot: slot.expect("the semaphore is never closed"),
            answer,
        };
        if !is_heavy {
            let first = poll_fn(|context| Poll::Ready(running.poll_once(context))).await;
            if let Some(result) = first {
                self.outbound
                    .push_held(place, |out| put_answer(out, &call, result));
                return Ok(());
            }
        }
        let waiting = WaitingCall {
            running,
            call,
            place,
            share,
        };
        if is_heavy {
            self.run_apart(waiting, true);
        } else {
            self.waiting = Some(waiting);
        }
        Ok(())
    }

    /// Runs the call that waits with the connection, and answers it. Pends without one.
    pub(super) async fn run_waiting(waiting: &mut Option<WaitingCall>, outbound: &Outbound<Place>) {
        let Some(WaitingCall { running, .. }) = waiting else {
            return pending().await;
        };
        let result = running.await;
        if let Some(WaitingCall { call, place, .. }) = waiting.take() {
            outbound.push_held(place, |out| put_answer(out, &call, result));
        }
    }

    /// Gives the call that waits with the connection a task of its own, because the connection has
    /// something else to do.
    pub(super) fn let_go(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            self.run_apart(waiting, false);
        }
    }

    /// Runs a call in a task of its own. A started call runs to its end even if its connection is
    /// lost.
    fn run_apart(&self, waiting: WaitingCall, is_heavy: bool) {
        let WaitingCall {
            running,
            call,
            place,
            share,
        } = waiting;
        let outbound: Weak<Outbound<Place>> = Arc::downgrade(&self.outbound);
        let shared = Arc::clone(&self.shared);
        self.shared.running.spawn(async move {
            let finished = async {
                if is_heavy {
                    running.finish_off_worker(&shared.heavy).await
                } else {
                    running.await
                }
            };
            tokio::select! {
                result = finished => {
                    drop(share);
                    if let Some(outbound) = outbound.upgrade() {
                        outbound.push_held(place, |out: &mut BytesMut| put_answer(out, &call, result));
                        outbound.flush_now();
                    }
                }
                () = shared.abandon.cancelled() => tracing::warn!("a call was abandoned at shutdown"),
            }
        });
    }
}

/// Memory of a connection for a frame and what is behind it.
struct Memory {
    reserved: Option<Reserved>,
    /// Bytes behind the frame that are received and not handled.
    kept: usize,
}

impl Memory {
    /// Returns what is to cover the bytes behind the frame.
    fn left(self) -> Option<Reserved> {
        self.reserved.filter(|_| self.kept > 0)
    }
}

/// Reason for which a request gets no memory.
pub(super) enum NoMemory {
    /// Requests of others have kept the memory for too long.
    Late,
    /// The connection ended meanwhile.
    Ended(Ended),
}

/// A started call that is not answered yet.
pub(super) struct WaitingCall {
    running: RunningCall,
    call: CallRef,
    place: Place,
    /// Memory for its request.
    share: Option<Share>,
}

/// A call that has the memory for its request.
struct Admitted {
    running: RunningCall,
    /// Whether it is decoded off the runtime's workers.
    is_heavy: bool,
    share: Option<Share>,
}
