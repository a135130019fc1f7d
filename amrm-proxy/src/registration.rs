//! An attempt's registration with the ResourceManager, renewed when the ResourceManager has
//! forgotten the attempt.
//!
//! A ResourceManager that was restarted, or that takes over from another, knows the attempt but
//! neither its AM's registration nor its asks. In Hadoop an exception makes the AM's library
//! register again and repeat everything. Here this node does both in the middle of the AM's call:
//!
//! ```text
//!  AM                    this node                                ResourceManager
//!  allocate 17 ────────▶ allocate 17 ───────────────────────────▶ not registered
//!                        register, as the AM did ───────────────▶ new grant (on_reregistered)
//!                        allocate 0 with all that is outstanding▶ answer 1
//!  answer 18 ◀────────── and from now on 17 is 0, 18 is 1, …
//! ```
//!
//! The registration is the part nearest to the ResourceManager, so it remembers exactly what the
//! ResourceManager received: without the asks that the node answers itself, and with the
//! interceptors' additions. An answer takes effect when the AM has it, as its next response id
//! shows: an AM that repeats its call to a new ResourceManager gets from that one what the lost
//! answer contained. Each received container lowers the remembered counts until the AM states them
//! anew.
//!
//! The memory is bounded: by [`REGISTER_REQUEST_MAX`], and by 16 MiB for what is outstanding.
//! Beyond that nothing is remembered, and the AM sees the restart as it would without a proxy. The
//! same holds when ResourceManagers forget the attempt several times within one call. When the AM
//! registers by itself, the memory starts afresh.
//!
//! Pure: the pipeline makes the calls. Source: `AMRMClientRelayer`, which Hadoop uses for other
//! clusters of a federation.

mod asks;
mod outstanding;
mod response_ids;

use std::fmt;

use bytes::Bytes;
use records::{ApplicationAttemptId, MonoMillis};
use wire::exception::{HadoopException, RemoteException};
use wire::raw_message::RawMessage;

use self::outstanding::{Outstanding, REMOVING, is_lasting};
use self::response_ids::{IdOrder, ResponseIds, unexpected_id};
use crate::call::{AmMethod, Outcome, Request, Response};
use crate::fields::{
    allocate_request, allocate_response, finish_response, register_request, register_response,
};
use crate::interceptor::{Action, Context};
use crate::observe::Observation;
use crate::store::{AttemptParts, OutstandingRecord, Part, Record as _, RegistrationRecord};

/// State needed to register the attempt again.
pub(crate) const REGISTRATION: Part = Part::new("registration");

/// Requests to restate to a ResourceManager that has forgotten the attempt.
pub(crate) const OUTSTANDING: Part = Part::new("outstanding");

/// Largest register request that is remembered, in bytes. The request holds a host, a port and an
/// address; even with placement constraints for a thousand tags it is shorter.
pub const REGISTER_REQUEST_MAX: usize = 64 * 1024;

/// Maximum of registrations within one call. One suffices unless ResourceManagers fail one after
/// the other.
const REGISTRATIONS_PER_CALL_MAX: u8 = 3;

/// Interval between writes of what is outstanding, in milliseconds. The record may be large.
const WRITE_INTERVAL_MS: u64 = 1_000;

/// Part of the exception's text that refuses a second registration (Hadoop:
/// `AMRMClientUtils.APP_ALREADY_REGISTERED_MESSAGE`).
const ALREADY_REGISTERED: &str = "is already registered";

/// Next step of a call after the ResourceManager's answer.
#[derive(Debug)]
pub enum Step {
    /// The call ends with this outcome.
    Done(Outcome),
    /// The attempt must be registered with this request, and then the call be made again.
    Register(Request),
}

/// State of the stored copy of what is outstanding.
#[derive(Clone, Copy, Debug, Default)]
struct SaveState {
    is_unsaved: bool,
    is_stored: bool,
    at: MonoMillis,
}

/// Memory of one attempt's registration and outstanding requests. A call passes
/// [`on_request`](Self::on_request), the ResourceManager and [`on_outcome`](Self::on_outcome). If
/// the latter asks for a registration, the call passes [`on_registered`](Self::on_registered) and
/// the ResourceManager again.
#[derive(Default)]
pub struct Registration {
    /// The AM's register request. Without it the attempt cannot be registered again, and nothing
    /// else is remembered.
    request: Option<Box<[u8]>>,
    ids: ResponseIds,
    /// Requests that the ResourceManager has not fulfilled; `None` most of the time, when there are
    /// none.
    outstanding: Option<Box<Outstanding>>,
    /// Fields of the last answer, with their contents, that complete requests once the AM has the
    /// answer. `None` when the AM has shown that it does.
    unconfirmed: Option<Vec<(u32, Bytes)>>,
    /// NMTokens from the answer to the registration, until the AM has them. Bounded by the length
    /// of that answer.
    nm_tokens: Vec<Bytes>,
    /// Whether the next call must state everything outstanding, because the ResourceManager does
    /// not know it.
    must_restate: bool,
    /// Response id of the current call, as the AM sent it.
    id: i32,
    tries: u8,
    save_state: SaveState,
}

impl fmt::Debug for Registration {
    /// Prints no tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("is_remembered", &self.request.is_some())
            .field("ids", &self.ids)
            .field("outstanding", &self.outstanding)
            .field("must_restate", &self.must_restate)
            .finish_non_exhaustive()
    }
}

fn response_id(message: &RawMessage) -> i32 {
    message.int32(allocate_request::RESPONSE_ID).unwrap_or(0)
}

/// Encodes a response id as a varint's value.
fn encoded(id: i32) -> u64 {
    i64::from(id).cast_unsigned()
}

fn is_already_registered(exception: &RemoteException) -> bool {
    exception.is(HadoopException::InvalidApplicationMasterRequest)
        && exception.message.contains(ALREADY_REGISTERED)
}

impl Registration {
    /// Prepares a request for the ResourceManager. Returns whether the ResourceManager may not have
    /// been told of anything yet. Then the interceptors must be notified first (`on_reregistered`,
    /// without a grant).
    #[must_use]
    pub fn on_request(&mut self, request: &mut Request) -> bool {
        self.tries = 0;
        if request.method != AmMethod::Allocate {
            return false;
        }
        self.id = response_id(&request.message);
        match self.ids.classify(self.id) {
            IdOrder::Next => self.confirm_last_answer(),
            IdOrder::Repeat | IdOrder::Unexpected { .. } => {}
        }
        if self.must_restate {
            if !self.ids.is_known() {
                self.ids.rebase(Some(self.id));
            }
            self.restate(&mut request.message);
        } else if !self.ids.is_plain() {
            self.number(&mut request.message);
        }
        self.must_restate
    }

    /// Handles the outcome of a call, and decides whether the attempt must be registered.
    pub fn on_outcome(
        &mut self,
        request: &mut Request,
        outcome: Outcome,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Step {
        let mut response = match outcome {
            Ok(response) => response,
            Err(exception) => return self.refused(request.method, exception, context, actions),
        };
        match request.method {
            AmMethod::Register => self.registered(&request.message, actions),
            AmMethod::Allocate => {
                let is_new = std::mem::take(&mut self.must_restate);
                if self.request.is_some() {
                    self.apply_request(&request.message, context.attempt, actions);
                }
                if is_new {
                    actions.push(self.record());
                }
                self.answered(&mut response);
                self.persist_outstanding(context.now.mono, actions);
            }
            AmMethod::Finish => {
                if response.message.varint(finish_response::IS_UNREGISTERED) == Some(1) {
                    self.forget(actions);
                }
            }
        }
        Step::Done(Ok(response))
    }

    /// Handles the outcome of the registration that [`on_outcome`](Self::on_outcome) asked for.
    /// Prepares the call to be made again and returns the grant, or `None` if the attempt was
    /// already registered and only that answer was lost.
    ///
    /// # Errors
    /// The ResourceManager's exception, which also ends the call.
    pub fn on_registered(
        &mut self,
        request: &mut Request,
        outcome: Outcome,
        actions: &mut Vec<Action>,
    ) -> Result<Option<Response>, RemoteException> {
        let grant = match outcome {
            Ok(grant) => Some(grant),
            Err(exception) if is_already_registered(&exception) => None,
            Err(exception) => return Err(exception),
        };
        if let Some(grant) = &grant {
            self.nm_tokens = grant.message.all(register_response::NM_TOKENS).collect();
        }
        actions.push(Action::Observe(Observation::RegisteredAgain));
        if request.method == AmMethod::Allocate {
            self.restate(&mut request.message);
        }
        Ok(grant)
    }

    /// Applies the last answer, which the AM has received, unless an earlier call did so.
    fn confirm_last_answer(&mut self) {
        let Some(unconfirmed) = self.unconfirmed.take() else {
            return;
        };
        self.nm_tokens = Vec::new();
        let Some(outstanding) = &mut self.outstanding else {
            return;
        };
        self.save_state.is_unsaved |= !unconfirmed.is_empty();
        for (field, content) in unconfirmed {
            outstanding.apply_answer(field, content);
        }
        if outstanding.is_empty() {
            self.outstanding = None;
        }
    }

    /// Adds everything outstanding to a request.
    fn restate(&self, message: &mut RawMessage) {
        if let Some(outstanding) = &self.outstanding {
            outstanding.restate(message);
        }
        self.number(message);
    }

    fn number(&self, message: &mut RawMessage) {
        let id = encoded(self.ids.to_rm(self.id));
        message.set_varint(allocate_request::RESPONSE_ID, id);
    }

    fn refused(
        &mut self,
        method: AmMethod,
        exception: RemoteException,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Step {
        let is_forgotten = exception.is(HadoopException::ApplicationMasterNotRegistered);
        let is_wrong_id = exception.is(HadoopException::InvalidApplicationMasterRequest);
        let id = match method {
            AmMethod::Register => return Step::Done(Err(exception)),
            AmMethod::Allocate if is_wrong_id => {
                return Step::Done(Err(self.ids.translate(exception)));
            }
            AmMethod::Allocate => Some(self.id),
            AmMethod::Finish => None,
        };
        let register = self.request.as_deref().filter(|_| is_forgotten);
        let register = register.and_then(|request| {
            let message = Bytes::copy_from_slice(request);
            RawMessage::parse(message).ok()
        });
        let Some(message) = register.filter(|_| self.tries < REGISTRATIONS_PER_CALL_MAX) else {
            return Step::Done(Err(exception));
        };
        // A new ResourceManager cannot detect an unexpected id.
        if let Some(received) = id
            && let IdOrder::Unexpected { expected } = self.ids.classify(received)
        {
            return Step::Done(Err(unexpected_id(context.attempt, expected, received)));
        }
        tracing::info!(attempt = %context.attempt, "the ResourceManager has forgotten the attempt; registering it again");
        self.tries += 1;
        self.must_restate = true;
        self.ids.rebase(id);
        actions.push(self.record());
        Step::Register(Request::new(AmMethod::Register, message))
    }

    /// Starts afresh after a registration by the AM itself, which states everything anew.
    fn registered(&mut self, message: &RawMessage, actions: &mut Vec<Action>) {
        let request = message.encode();
        let is_kept = request.len() <= REGISTER_REQUEST_MAX;
        self.forget_outstanding(actions);
        self.nm_tokens = Vec::new();
        self.request = is_kept.then(|| Box::from(&request[..]));
        self.ids = ResponseIds::registered();
        self.must_restate = false;
        actions.push(self.record());
    }

    /// Drops the memory of an attempt that needs no registration any more.
    fn forget(&mut self, actions: &mut Vec<Action>) {
        self.forget_outstanding(actions);
        self.request = None;
        actions.push(Action::Persist(REGISTRATION, None));
    }

    fn forget_outstanding(&mut self, actions: &mut Vec<Action>) {
        self.outstanding = None;
        self.unconfirmed = None;
        self.save_state.is_unsaved = false;
        if std::mem::take(&mut self.save_state.is_stored) {
            actions.push(Action::Persist(OUTSTANDING, None));
        }
    }

    /// Remembers the lasting requests of a call that was answered.
    fn apply_request(
        &mut self,
        message: &RawMessage,
        attempt: ApplicationAttemptId,
        actions: &mut Vec<Action>,
    ) {
        if let Some(url) = message.message(allocate_request::TRACKING_URL) {
            self.note_tracking_url(&url);
            actions.push(self.record());
        }
        if !is_lasting(message) {
            return;
        }
        self.save_state.is_unsaved = true;
        let outstanding = self.outstanding.get_or_insert_default();
        match outstanding.apply_request(message) {
            Ok(()) if outstanding.is_empty() => self.outstanding = None,
            Ok(()) => {}
            Err(reason) => {
                tracing::warn!(%attempt, %reason, "an AM's requests are not remembered: it will have to register again after a restart of the ResourceManager");
                self.request = None;
                self.forget_outstanding(actions);
                actions.push(self.record());
            }
        }
    }

    /// Replaces the tracking URL of the remembered register request.
    fn note_tracking_url(&mut self, url: &[u8]) {
        let Some(request) = self.request.as_deref() else {
            return;
        };
        if let Ok(mut message) = RawMessage::parse(Bytes::copy_from_slice(request)) {
            message.set(register_request::TRACKING_URL, url);
            let request = message.encode();
            if request.len() <= REGISTER_REQUEST_MAX {
                self.request = Some(Box::from(&request[..]));
            }
        }
    }

    /// Gives an answer the AM's response id and any outstanding NMTokens, and keeps the fields that
    /// complete requests.
    fn answered(&mut self, response: &mut Response) {
        let message = &mut response.message;
        let id = message.int32(allocate_response::RESPONSE_ID).unwrap_or(0);
        let id = self.ids.answer(id);
        if !self.ids.is_plain() {
            message.set_varint(allocate_response::RESPONSE_ID, encoded(id));
        }
        let fields = REMOVING.iter().filter(|_| self.outstanding.is_some());
        let contents = fields.flat_map(|field| message.all(*field).map(|all| (*field, all)));
        self.unconfirmed = Some(contents.collect());
        if !self.nm_tokens.is_empty() {
            message.extend(allocate_response::NM_TOKENS, &self.nm_tokens);
        }
    }

    fn record(&self) -> Action {
        let record = RegistrationRecord {
            request: self.request.as_deref().map(<[u8]>::to_vec),
            response_id_base: self.ids.base(),
            must_restate: self.must_restate,
        };
        Action::Persist(REGISTRATION, Some(record.to_stored()))
    }

    fn persist_outstanding(&mut self, now: MonoMillis, actions: &mut Vec<Action>) {
        if !self.save_state.is_unsaved || now.since(self.save_state.at) < WRITE_INTERVAL_MS {
            return;
        }
        let stored = self.outstanding.as_deref().map(|outstanding| {
            let mut message = RawMessage::default();
            outstanding.restate(&mut message);
            let request = message.encode().to_vec();
            OutstandingRecord { request }.to_stored()
        });
        self.save_state = SaveState {
            is_unsaved: false,
            is_stored: stored.is_some(),
            at: now,
        };
        actions.push(Action::Persist(OUTSTANDING, stored));
    }

    /// Parts of the attempt's state that this module stores.
    pub const PARTS: &'static [Part] = &[REGISTRATION, OUTSTANDING];

    /// Restores the own parts among those that were stored before a restart of the agent.
    pub fn restore(&mut self, attempt: ApplicationAttemptId, parts: &AttemptParts) {
        let stored = |part: Part| parts.get(part.key());
        let registration = stored(REGISTRATION).map(|value| self.restore_registration(value));
        let outstanding = stored(OUTSTANDING).map(|value| self.restore_outstanding(value));
        for (part, restored) in [(REGISTRATION, registration), (OUTSTANDING, outstanding)] {
            if restored == Some(None) {
                tracing::warn!(%attempt, part = part.key(), "a stored record of the registration cannot be read");
                self.request = None;
            }
        }
        if self.request.is_none() {
            self.outstanding = None;
        }
    }

    fn restore_registration(&mut self, value: &[u8]) -> Option<()> {
        let record = RegistrationRecord::from_stored(value)?;
        self.request = record.request.map(Vec::into_boxed_slice);
        self.ids = ResponseIds::restored(record.response_id_base);
        self.must_restate = record.must_restate;
        Some(())
    }

    fn restore_outstanding(&mut self, value: &[u8]) -> Option<()> {
        self.save_state.is_stored = true;
        let record = OutstandingRecord::from_stored(value)?;
        let message = RawMessage::parse(record.request.into()).ok()?;
        let outstanding = self.outstanding.get_or_insert_default();
        outstanding.apply_request(&message).ok()
    }
}

#[cfg(test)]
mod tests;
