//! An attempt's registration with the ResourceManager, which is made again when the ResourceManager has forgotten it.
//!
//! A ResourceManager that was restarted, or that takes over from another, knows an attempt but not that its AM has
//! registered, nor what it has asked for. In Hadoop the AM's library hears of that by an exception, registers again and
//! says everything again. Here this node does it, in the middle of the AM's call:
//!
//! ```text
//!  AM                    this node                                ResourceManager
//!  allocate 17 ────────▶ allocate 17 ───────────────────────────▶ not registered
//!                        register, as the AM did ───────────────▶ a fresh grant, for the interceptors (on_rejoin)
//!                        allocate 0 with all that is outstanding▶ answer 1
//!  answer 18 ◀────────── and from now on 17 is 0, 18 is 1, …
//! ```
//!
//! Nearest to the ResourceManager of all, so that what is remembered is what the ResourceManager was told: without the asks
//! that the node answers itself, and with what the interceptors add. An answer takes effect when the AM has it, which its
//! next number says: an AM that repeats its call to a new ResourceManager gets what the lost answer had from a new one.
//! Counts are lowered by what was given until the AM states them anew.
//!
//! What is remembered is bounded ([`REGISTER_REQUEST_MAX`], 16 MiB for what is outstanding). Of an AM that goes beyond,
//! nothing is remembered, and it hears of the restart as without a proxy; so does one whose ResourceManager forgets it
//! several times within one call. When it registers by itself, all begins anew.
//!
//! Pure: the pipeline makes the calls. Source: `AMRMClientRelayer`, which Hadoop uses for other clusters of a federation.

mod asks;
mod outstanding;
mod response_ids;

use std::fmt;

use bytes::Bytes;
use records::{ApplicationAttemptId, MonoMillis};
use wire::exception::{HadoopException, RemoteException};
use wire::raw_message::RawMessage;

use self::outstanding::{ANSWERING, Outstanding, is_lasting};
use self::response_ids::{Hearing, ResponseIds, wrong};
use crate::fields::{
    allocate_request, allocate_response, finish_response, register_request, register_response,
};
use crate::interceptor::{Action, AmMethod, Context, Outcome, Request, Response};
use crate::observe::Observation;
use crate::store::{OutstandingRecord, Part, Record as _, RegistrationRecord};

/// Longest register request that is remembered, in bytes. It is a host, a port and an address; with placement constraints
/// for each of a thousand tags it is still shorter.
pub const REGISTER_REQUEST_MAX: usize = 64 * 1024;

/// Registrations for one call. One is enough unless ResourceManagers fail one after the other.
const REGISTRATIONS_PER_CALL_MAX: u8 = 3;

/// How long changes of what is outstanding may go unwritten, in milliseconds. It may be much.
const WRITE_INTERVAL_MS: u64 = 1_000;

/// In the text of the exception that refuses a second registration (Hadoop: `AMRMClientUtils.APP_ALREADY_REGISTERED_MESSAGE`).
const ALREADY_REGISTERED: &str = "is already registered";

/// How a call goes on.
#[derive(Debug)]
pub enum Step {
    /// This is its outcome.
    Done(Outcome),
    /// The attempt has to be registered with this request, and then the call made again.
    Register(Request),
}

/// What of the table is written down.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    is_dirty: bool,
    is_stored: bool,
    at: MonoMillis,
}

/// See the module. The way of a call is [`on_request`](Self::on_request), the ResourceManager,
/// [`on_outcome`](Self::on_outcome), and where that says so a registration, [`on_registered`](Self::on_registered), and the
/// ResourceManager again.
#[derive(Default)]
pub struct Registration {
    /// The AM's request. Without it the attempt cannot be registered again and nothing need be remembered.
    request: Option<Box<[u8]>>,
    ids: ResponseIds,
    /// None while nothing is outstanding, as most of the time.
    outstanding: Option<Box<Outstanding>>,
    /// What the last answer takes off once the AM has it: fields and their contents.
    unheard: Vec<(u32, Bytes)>,
    /// NMTokens of the registration that the AM does not have yet. As many as came in one answer.
    nm_tokens: Vec<Bytes>,
    /// The ResourceManager has registered the attempt again, or will, and has to be told what is outstanding.
    is_owed: bool,
    /// The AM's number of the call under way.
    id: i32,
    tries: u8,
    written: Written,
}

impl fmt::Debug for Registration {
    /// Without tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("is_remembered", &self.request.is_some())
            .field("ids", &self.ids)
            .field("outstanding", &self.outstanding)
            .field("is_owed", &self.is_owed)
            .finish_non_exhaustive()
    }
}

fn response_id(message: &RawMessage) -> i32 {
    message.int32(allocate_request::RESPONSE_ID).unwrap_or(0)
}

/// A number as it travels.
fn encoded(id: i32) -> u64 {
    i64::from(id).cast_unsigned()
}

fn is_already_registered(exception: &RemoteException) -> bool {
    exception.is(HadoopException::InvalidApplicationMasterRequest)
        && exception.message.contains(ALREADY_REGISTERED)
}

impl Registration {
    /// A call goes to the ResourceManager. Answers whether it may be the first to one that was not told anything yet: then
    /// the interceptors have to hear of that before (`on_rejoin`, without a grant).
    #[must_use]
    pub fn on_request(&mut self, request: &mut Request) -> bool {
        self.tries = 0;
        if request.method != AmMethod::Allocate {
            return false;
        }
        self.id = response_id(&request.message);
        match self.ids.hearing(self.id) {
            Hearing::Next => self.heard(),
            Hearing::Repeat | Hearing::Wrong { .. } => {}
        }
        if self.is_owed {
            if !self.ids.is_known() {
                self.ids.begin_again(Some(self.id));
            }
            self.say_again(&mut request.message);
        } else if !self.ids.is_plain() {
            self.number(&mut request.message);
        }
        self.is_owed
    }

    /// The ResourceManager has answered a call, or not.
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
                let is_new = std::mem::take(&mut self.is_owed);
                if self.request.is_some() {
                    self.take_in(&request.message, context.attempt, actions);
                }
                if is_new {
                    actions.push(self.record());
                }
                self.answered(&mut response);
                self.write_down(context.now.mono, actions);
            }
            AmMethod::Finish => {
                if response.message.varint(finish_response::IS_UNREGISTERED) == Some(1) {
                    self.forget(actions);
                }
            }
        }
        Step::Done(Ok(response))
    }

    /// The ResourceManager has answered the registration that [`on_outcome`](Self::on_outcome) wanted. Makes the call ready
    /// to be made again, and hands out the grant; `None` when the attempt had been registered and only the answer was lost.
    ///
    /// # Errors
    /// The ResourceManager's exception, which is the call's.
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
            self.say_again(&mut request.message);
        }
        Ok(grant)
    }

    /// The AM has the last answer.
    fn heard(&mut self) {
        self.nm_tokens = Vec::new();
        let unheard = std::mem::take(&mut self.unheard);
        let Some(outstanding) = &mut self.outstanding else {
            return;
        };
        self.written.is_dirty |= !unheard.is_empty();
        for (field, content) in unheard {
            outstanding.take_off(field, content);
        }
        if outstanding.is_empty() {
            self.outstanding = None;
        }
    }

    /// Puts all that is outstanding into a request.
    fn say_again(&self, message: &mut RawMessage) {
        if let Some(outstanding) = &self.outstanding {
            outstanding.say_again(message);
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
        // The new ResourceManager could not tell.
        if let Some(received) = id
            && let Hearing::Wrong { expected } = self.ids.hearing(received)
        {
            return Step::Done(Err(wrong(context.attempt, expected, received)));
        }
        tracing::info!(attempt = %context.attempt, "the ResourceManager has forgotten the attempt, which is registered again");
        self.tries += 1;
        self.is_owed = true;
        self.ids.begin_again(id);
        actions.push(self.record());
        Step::Register(Request {
            method: AmMethod::Register,
            message,
            allocated: Vec::new(),
        })
    }

    /// The AM has registered by itself: it says everything anew.
    fn registered(&mut self, message: &RawMessage, actions: &mut Vec<Action>) {
        let request = message.encode();
        let is_kept = request.len() <= REGISTER_REQUEST_MAX;
        self.forget_outstanding(actions);
        self.request = is_kept.then(|| Box::from(&request[..]));
        self.ids = ResponseIds::registered();
        self.is_owed = false;
        actions.push(self.record());
    }

    /// The attempt needs no registration any more.
    fn forget(&mut self, actions: &mut Vec<Action>) {
        self.forget_outstanding(actions);
        self.request = None;
        actions.push(Action::Persist(Part::Registration, None));
    }

    fn forget_outstanding(&mut self, actions: &mut Vec<Action>) {
        self.outstanding = None;
        self.unheard = Vec::new();
        self.nm_tokens = Vec::new();
        self.written.is_dirty = false;
        if std::mem::take(&mut self.written.is_stored) {
            actions.push(Action::Persist(Part::Outstanding, None));
        }
    }

    /// Takes in what a call has said, once it is answered.
    fn take_in(
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
        self.written.is_dirty = true;
        let outstanding = self.outstanding.get_or_insert_default();
        match outstanding.take_in(message) {
            Ok(()) if outstanding.is_empty() => self.outstanding = None,
            Ok(()) => {}
            Err(reason) => {
                tracing::warn!(%attempt, %reason, "what an AM has asked for is not remembered: it will hear of a restart of the ResourceManager");
                self.request = None;
                self.forget_outstanding(actions);
                actions.push(self.record());
            }
        }
    }

    /// An address given later takes the place of the one in the registration.
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

    /// Gives an answer the AM's number and what it owes the AM, and keeps what it takes off.
    fn answered(&mut self, response: &mut Response) {
        let message = &mut response.message;
        let id = message.int32(allocate_response::RESPONSE_ID).unwrap_or(0);
        let id = self.ids.answer(id);
        if !self.ids.is_plain() {
            message.set_varint(allocate_response::RESPONSE_ID, encoded(id));
        }
        self.unheard.clear();
        if self.outstanding.is_some() {
            let fields = ANSWERING.iter();
            let contents = fields.flat_map(|field| message.all(*field).map(|all| (*field, all)));
            self.unheard.extend(contents);
        }
        if !self.nm_tokens.is_empty() {
            message.extend(allocate_response::NM_TOKENS, &self.nm_tokens);
        }
    }

    fn record(&self) -> Action {
        let record = RegistrationRecord {
            request: self.request.as_deref().map(<[u8]>::to_vec),
            response_id_base: self.ids.base(),
            is_owed: self.is_owed,
        };
        Action::Persist(Part::Registration, Some(record.to_stored()))
    }

    fn write_down(&mut self, now: MonoMillis, actions: &mut Vec<Action>) {
        if !self.written.is_dirty || now.since(self.written.at) < WRITE_INTERVAL_MS {
            return;
        }
        let stored = self.outstanding.as_deref().map(|outstanding| {
            let mut message = RawMessage::default();
            outstanding.say_again(&mut message);
            let request = message.encode().to_vec();
            OutstandingRecord { request }.to_stored()
        });
        self.written = Written {
            is_dirty: false,
            is_stored: stored.is_some(),
            at: now,
        };
        actions.push(Action::Persist(Part::Outstanding, stored));
    }

    /// Takes back what was written down before a restart of the agent. Parts that are others' are left to them.
    pub fn restore(&mut self, attempt: ApplicationAttemptId, part: Part, value: &[u8]) {
        let is_read = match part {
            Part::Registration => RegistrationRecord::from_stored(value).map(|record| {
                self.request = record.request.map(Vec::into_boxed_slice);
                self.ids = ResponseIds::restored(record.response_id_base);
                self.is_owed = record.is_owed;
            }),
            Part::Outstanding => OutstandingRecord::from_stored(value).and_then(|record| {
                let message = RawMessage::parse(record.request.into()).ok()?;
                let mut outstanding = Box::<Outstanding>::default();
                outstanding.take_in(&message).ok()?;
                self.outstanding = Some(outstanding);
                self.written.is_stored = true;
                Some(())
            }),
            Part::Master | Part::Limits | Part::NextId | Part::Asks | Part::Blacklist => Some(()),
        };
        if is_read.is_none() {
            tracing::warn!(%attempt, ?part, "what was kept of a registration cannot be read");
            self.request = None;
            self.outstanding = None;
        }
    }
}

#[cfg(test)]
mod tests;
