//! One attempt's pipeline: [`Pipeline::call`] shows the whole path of a call, top to bottom.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use records::{ApplicationAttemptId, Now};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use wire::exception::{HadoopException, RemoteException};
use wire::raw_message::RawMessage;
use wire::token::Token;

use crate::attempts::{Activity, AttemptNumbers, PublishedNumbers};
use crate::call::{AmMethod, Outcome, Request, Response, Timing};
use crate::chain::Chain;
use crate::identity::{Attempt, AttemptIdentity, IDENTITY};
use crate::interceptor::{Action, Context};
use crate::master_tokens::{KeptTokens, MasterTokens};
use crate::node_keys::{NodeKeys, NodeTokenKeys};
use crate::observe::{Observation, Observer, ThrottleReason};
use crate::registration::{Registration, Step};
use crate::rm_forwarder::{HOLD_MAX, RmForwarder};
use crate::store::{AttemptRecords, Part};

/// Maximum of calls of one attempt in the pipeline, the current one included. An AM's library makes
/// one at a time, and one more when the AM ends during a heartbeat or its connection broke. Waiting
/// calls keep their requests in memory.
const CALLS_WAITING_MAX: usize = 16;

/// Function that reads the agent's clocks.
pub type ReadClock = dyn Fn() -> Now + Send + Sync;

/// Parts of the proxy that all pipelines use.
pub(crate) struct Shared {
    pub(crate) tokens: Arc<MasterTokens>,
    pub(crate) node_keys: Arc<dyn NodeKeys>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) clock: Arc<ReadClock>,
    pub(crate) activity: Activity,
}

/// Interceptors, registration and forwarder of an attempt. Owned by the current call.
pub(crate) struct Work {
    pub(crate) chain: Chain,
    pub(crate) registration: Registration,
    pub(crate) forwarder: RmForwarder,
}

impl Work {
    /// Returns the parts of the attempt's state that are stored.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> {
        let others = Registration::PARTS.iter().copied().chain([IDENTITY]);
        self.chain.parts().chain(others)
    }

    /// Returns whether a part of this key is stored.
    pub(crate) fn has_part(&self, key: &str) -> bool {
        self.parts().any(|part| part.key() == key)
    }
}

/// Begin of a call, and the time at which the AM gets an answer at the latest.
#[derive(Clone, Copy, Debug)]
struct HoldTime {
    began: Instant,
    deadline: Instant,
}

/// Pipeline of one attempt.
pub(crate) struct Pipeline {
    pub(crate) identity: AttemptIdentity,
    shared: Arc<Shared>,
    /// Owned by one call at a time, also while it waits for the ResourceManager, which processes an
    /// attempt's calls one by one, too. An asynchronous mutex serves waiting calls in their order,
    /// and passes ownership on when the current call is dropped with its connection. A task per
    /// attempt would do the same with two more hops per call.
    work: Mutex<Work>,
    /// Numbers for readers, who must not wait for a call.
    numbers: Arc<PublishedNumbers>,
    /// Permits for calls in the pipeline, waiting or current.
    places: Semaphore,
    ended: CancellationToken,
    /// Writer of the attempt's records. Ends with the pipeline, so that a call in its last steps
    /// writes nothing more.
    records: Box<dyn AttemptRecords>,
}

impl Pipeline {
    pub(crate) fn new(
        attempt: Attempt,
        shared: Arc<Shared>,
        records: Box<dyn AttemptRecords>,
        work: Work,
    ) -> Self {
        let Attempt {
            identity,
            numbers,
            ended,
        } = attempt;
        Self {
            identity,
            shared,
            numbers,
            work: Mutex::new(work),
            places: Semaphore::new(CALLS_WAITING_MAX),
            ended,
            records,
        }
    }

    /// Passes a call of the AM to the ResourceManager and returns the answer. `presented` is the
    /// identifier of the token that the AM connected with.
    ///
    /// # Errors
    /// The exception for the AM: from an interceptor, from the ResourceManager, or because the
    /// attempt has ended or too many calls wait.
    pub(crate) async fn call(
        &self,
        method: AmMethod,
        presented: &[u8],
        request: Bytes,
    ) -> Result<Bytes, RemoteException> {
        let began = Instant::now();
        // Covers all that a call may wait for: its turn, its delay, and the ResourceManager.
        let deadline = began + HOLD_MAX;
        let message = RawMessage::parse(request).map_err(|error| {
            RemoteException::new(HadoopException::InvalidProtocolBuffer, error.to_string())
        })?;
        let _place = self
            .places
            .try_acquire()
            .map_err(|_| self.too_many_calls())?;
        let proxied = async {
            let work = timeout_at(deadline, self.work.lock()).await;
            let mut work = work.map_err(|_| self.too_many_calls())?;
            let hold = HoldTime { began, deadline };
            self.proxy(&mut work, method, presented, message, hold)
                .await
        };
        tokio::select! {
            biased;
            () = self.ended.cancelled() => Err(attempt_not_found(self.identity.attempt)),
            outcome = proxied => outcome.map(|response| response.message.encode()),
        }
    }

    async fn proxy(
        &self,
        work: &mut Work,
        method: AmMethod,
        presented: &[u8],
        message: RawMessage,
        hold: HoldTime,
    ) -> Outcome {
        let mut actions = Vec::new();
        let keys = self.shared.node_keys.current();
        let mut request = Request::new(method, message);
        if work.chain.listen(method).await {
            let context = self.context(None, Timing::default(), None);
            work.chain.tell(&context, &mut actions);
        }
        // From the AM towards the ResourceManager.
        let inbound = work.chain.inbound(
            &mut request,
            &self.context(keys.as_ref(), Timing::default(), None),
            &mut actions,
        );
        self.perform(work, &mut actions);
        let mut rm = Duration::ZERO;
        let mut outcome = match inbound.result {
            Err(refusal) => Err(refusal),
            Ok(delay_ms) => {
                if delay_ms > 0 {
                    let until = Instant::now() + Duration::from_millis(delay_ms);
                    sleep_until(until.min(hold.deadline)).await;
                }
                if work.chain.await_answers().await {
                    let context = self.context(keys.as_ref(), Timing::default(), None);
                    work.chain.answer(&mut request, &context, &mut actions);
                    self.perform(work, &mut actions);
                }
                let rm_began = Instant::now();
                let outcome = self
                    .exchange(work, &mut request, hold.deadline, &mut actions)
                    .await;
                rm = rm_began.elapsed();
                outcome
            }
        };
        // From the ResourceManager back to the AM.
        let timing = Timing {
            total: hold.began.elapsed(),
            rm,
        };
        let renewed = self
            .shared
            .tokens
            .renewed_token(self.identity.attempt, presented);
        let context = self.context(keys.as_ref(), timing, renewed.as_ref());
        work.chain
            .outbound(inbound.passed, method, &mut outcome, &context, &mut actions);
        self.perform(work, &mut actions);
        let at = context.now.mono;
        self.numbers
            .change(|numbers| numbers.record_call(at, timing));
        self.shared.activity.notify();
        outcome
    }

    /// Makes the call at the ResourceManager, and registers the attempt again if the
    /// ResourceManager has forgotten it.
    async fn exchange(
        &self,
        work: &mut Work,
        request: &mut Request,
        deadline: Instant,
        actions: &mut Vec<Action>,
    ) -> Outcome {
        if work.registration.on_request(request) {
            self.notify_reregistered(work, None, request, actions);
        }
        loop {
            let outcome = work.forwarder.call(request, deadline).await;
            let context = self.context(None, Timing::default(), None);
            let step = work
                .registration
                .on_outcome(request, outcome, &context, actions);
            let register = match step {
                Step::Done(outcome) => return outcome,
                Step::Register(register) => register,
            };
            self.perform(work, actions);
            let granted = work.forwarder.call(&register, deadline).await;
            let granted = work.registration.on_registered(request, granted, actions)?;
            self.notify_reregistered(work, granted.as_ref(), request, actions);
        }
    }

    /// Notifies the interceptors of a new ResourceManager before its first call.
    fn notify_reregistered(
        &self,
        work: &mut Work,
        grant: Option<&Response>,
        request: &mut Request,
        actions: &mut Vec<Action>,
    ) {
        let keys = self.shared.node_keys.current();
        let context = self.context(keys.as_ref(), Timing::default(), None);
        work.chain.reregistered(grant, request, &context, actions);
        self.perform(work, actions);
    }

    fn context<'a>(
        &'a self,
        keys: Option<&'a NodeTokenKeys>,
        timing: Timing,
        renewed_token: Option<&'a Token>,
    ) -> Context<'a> {
        Context {
            attempt: self.identity.attempt,
            user: &self.identity.user,
            now: (self.shared.clock)(),
            keys,
            timing,
            renewed_token,
        }
    }

    fn perform(&self, work: &mut Work, actions: &mut Vec<Action>) {
        for action in actions.drain(..) {
            match action {
                Action::UseRmToken(token) => {
                    if work.forwarder.use_token(token.clone()) {
                        tracing::info!(attempt = %self.identity.attempt, "the ResourceManager has renewed the AMRMToken");
                        self.renewed(&token);
                    }
                }
                Action::Persist(part, value) => self.records.put(part, value),
                Action::Observe(observation) => self.observe(&observation),
            }
        }
    }

    fn observe(&self, observation: &Observation) {
        self.numbers.change(|numbers| numbers.record(observation));
        self.shared.observer.observe(observation);
    }

    /// Stores a renewed token of the ResourceManager. The AM may have it once it is stored.
    fn renewed(&self, token: &Token) {
        let attempt = self.identity.attempt;
        let kept = self.shared.tokens.renew(attempt, token);
        let is_kept = kept.is_some();
        self.persist_identity(token, kept);
        if is_kept {
            let (tokens, token) = (Arc::clone(&self.shared.tokens), token.clone());
            self.records
                .when_stored(Box::new(move || tokens.stored(attempt, &token)));
        }
    }

    /// Stores the record from which a restarted agent rebuilds this pipeline. `kept`: tokens that
    /// the AM may show, unless it has local ones.
    pub(crate) fn persist_identity(&self, rm_token: &Token, kept: Option<KeptTokens>) {
        let record = self.identity.to_stored(rm_token, kept);
        self.records.put(IDENTITY, Some(record));
    }

    /// Ends the current calls, refuses later ones, and removes the attempt's records.
    pub(crate) fn end(&self) {
        self.ended.cancel();
        self.records.end();
    }

    /// Returns the numbers published so far. Does not wait for the current call.
    pub(crate) fn numbers(&self) -> AttemptNumbers {
        self.numbers.read()
    }

    fn too_many_calls(&self) -> RemoteException {
        let refused = Observation::Throttled(ThrottleReason::CallsWaiting);
        self.observe(&refused);
        let attempt = self.identity.attempt;
        RemoteException::new(
            HadoopException::Retriable,
            format!(
                "{CALLS_WAITING_MAX} calls of {attempt} are waiting; make them one after the other"
            ),
        )
    }
}

/// Makes the exception for an attempt without a pipeline on this node. The AM's library ends the AM
/// on it.
pub(crate) fn attempt_not_found(attempt: ApplicationAttemptId) -> RemoteException {
    RemoteException::new(
        HadoopException::ApplicationAttemptNotFound,
        format!("Application attempt {attempt} doesn't exist in the AMRMProxy of this node."),
    )
}
