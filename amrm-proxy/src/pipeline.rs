//! One attempt's pipeline: [`Pipeline::call`] is the whole way of a call, top to bottom.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use records::{ApplicationAttemptId, Now};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_common::TokenProto;
use wire::raw_message::RawMessage;
use wire::secrets::AmrmTokenSecretManager;
use wire::token::Token;

use crate::chain::Chain;
use crate::distributed_scheduler::NodeTokenKeys;
use crate::interceptor::{Action, AmMethod, Context, Outcome, Request, Response, Timing};
use crate::masters::{Activity, MasterNumbers, NumbersCell};
use crate::node_updates::{NodeUpdates, Order};
use crate::observe::{Observation, Observer, ThrottleReason};
use crate::registration::{Registration, Step};
use crate::rm_forwarder::{HOLD_MAX, RmForwarder};
use crate::store::{MasterRecord, Part, Record as _, RecordKey, Store};

/// Calls of one attempt in the pipeline, the one under way included. An AM's library makes one at a time, and one more when
/// the AM ends during a heartbeat or its connection broke; the calls hold their requests in memory.
const CALLS_WAITING_MAX: usize = 16;

/// Knows what this node signs tokens with.
pub trait NodeKeys: Send + Sync + 'static {
    /// The keys and the registration they belong to; `None` while the node is not registered.
    fn current(&self) -> Option<NodeTokenKeys>;
}

/// Reads the clocks.
pub type ReadClock = dyn Fn() -> Now + Send + Sync;

/// What all pipelines use.
pub(crate) struct Shared {
    pub(crate) secrets: Arc<AmrmTokenSecretManager>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) node_keys: Arc<dyn NodeKeys>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) clock: Arc<ReadClock>,
    pub(crate) activity: Activity,
    pub(crate) node_updates: NodeUpdates,
}

/// Whose pipeline it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) attempt: ApplicationAttemptId,
    pub(crate) user: String,
    pub(crate) tags: Vec<String>,
}

/// The interceptors and the way to the ResourceManager. Whoever has the lock owns them for one call.
pub(crate) struct Work {
    pub(crate) chain: Chain,
    pub(crate) registration: Registration,
    pub(crate) forwarder: RmForwarder,
}

/// Since when a call is held, and how long at most.
#[derive(Clone, Copy, Debug)]
struct Held {
    began: Instant,
    deadline: Instant,
}

/// See the module.
pub(crate) struct Pipeline {
    pub(crate) master: Master,
    shared: Arc<Shared>,
    /// Calls of one attempt go one after the other, as the ResourceManager also takes them, so a call keeps this while it
    /// waits for the ResourceManager: nobody else could do anything with it.
    work: Mutex<Work>,
    /// What others may see of it while it works.
    numbers: NumbersCell,
    places: Semaphore,
    ended: CancellationToken,
    /// Whether what was kept has been forgotten. A call may still be on its last steps then, and must not write any more, so
    /// writing and forgetting take turns.
    is_forgotten: std::sync::Mutex<bool>,
}

impl Pipeline {
    pub(crate) fn new(master: Master, shared: Arc<Shared>, work: Work) -> Self {
        Self {
            master,
            shared,
            numbers: NumbersCell::new(work.chain.gauges()),
            work: Mutex::new(work),
            places: Semaphore::new(CALLS_WAITING_MAX),
            ended: CancellationToken::new(),
            is_forgotten: std::sync::Mutex::new(false),
        }
    }

    /// Takes a call of the AM to its answer. `presented` is the identifier of the token that the AM connected with.
    ///
    /// # Errors
    /// The exception that the AM shall see: an interceptor's, the ResourceManager's, or that the attempt has ended.
    pub(crate) async fn call(
        &self,
        method: AmMethod,
        presented: &[u8],
        request: Bytes,
    ) -> Result<Bytes, RemoteException> {
        let began = Instant::now();
        // For all that a call may have to wait for: its turn, its delay, and the ResourceManager.
        let deadline = began + HOLD_MAX;
        let message = RawMessage::parse(request).map_err(|error| {
            RemoteException::new(HadoopException::InvalidProtocolBuffer, error.to_string())
        })?;
        let _place = self.places.try_acquire().map_err(|_| self.too_many())?;
        let proxied = async {
            let work = timeout_at(deadline, self.work.lock()).await;
            let mut work = work.map_err(|_| self.too_many())?;
            let held = Held { began, deadline };
            self.proxy(&mut work, method, presented, message, held)
                .await
        };
        tokio::select! {
            biased;
            () = self.ended.cancelled() => Err(gone(self.master.attempt)),
            outcome = proxied => outcome.map(|response| response.message.encode()),
        }
    }

    async fn proxy(
        &self,
        work: &mut Work,
        method: AmMethod,
        presented: &[u8],
        message: RawMessage,
        held: Held,
    ) -> Outcome {
        let mut actions = Vec::new();
        let keys = self.shared.node_keys.current();
        let mut request = Request {
            method,
            message,
            allocated: Vec::new(),
        };
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
                    sleep_until(until.min(held.deadline)).await;
                }
                let rm_began = Instant::now();
                let outcome = self
                    .exchange(work, &mut request, held.deadline, &mut actions)
                    .await;
                rm = rm_began.elapsed();
                outcome
            }
        };
        // And back.
        let timing = Timing {
            total: held.began.elapsed(),
            rm,
        };
        let renewed = self
            .shared
            .secrets
            .renewed_token(self.master.attempt, presented);
        let context = self.context(keys.as_ref(), timing, renewed.as_ref());
        work.chain
            .outbound(inbound.passed, method, &mut outcome, &context, &mut actions);
        self.perform(work, &mut actions);
        let (at, gauges) = (context.now.mono, work.chain.gauges());
        self.numbers
            .change(|numbers| numbers.ended(at, timing, gauges));
        self.shared.activity.changed();
        outcome
    }

    /// From the end of the chain to the ResourceManager and back, with a registration in between where the
    /// ResourceManager has forgotten the attempt.
    async fn exchange(
        &self,
        work: &mut Work,
        request: &mut Request,
        deadline: Instant,
        actions: &mut Vec<Action>,
    ) -> Outcome {
        if work.registration.on_request(request) {
            self.rejoined(work, None, request, actions);
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
            self.rejoined(work, granted.as_ref(), request, actions);
        }
    }

    /// Tells the interceptors of a new ResourceManager before it gets its first call.
    fn rejoined(
        &self,
        work: &mut Work,
        grant: Option<&Response>,
        request: &mut Request,
        actions: &mut Vec<Action>,
    ) {
        let keys = self.shared.node_keys.current();
        let context = self.context(keys.as_ref(), Timing::default(), None);
        work.chain.rejoined(grant, request, &context, actions);
        self.perform(work, actions);
    }

    fn context<'a>(
        &'a self,
        keys: Option<&'a NodeTokenKeys>,
        timing: Timing,
        renewed_token: Option<&'a Token>,
    ) -> Context<'a> {
        Context {
            attempt: self.master.attempt,
            user: &self.master.user,
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
                        tracing::info!(attempt = %self.master.attempt, "the ResourceManager has renewed the AMRMToken");
                        self.keep_master(&token);
                    }
                }
                Action::Persist(part, value) => self.keep(part, value),
                Action::UpdateContainers(update) => {
                    let order = Order {
                        attempt: self.master.attempt,
                        user: self.master.user.clone(),
                        update,
                        ended: self.ended.clone(),
                    };
                    let observer = &*self.shared.observer;
                    self.shared.node_updates.order(order, observer);
                }
                Action::Observe(observation) => self.observed(&observation),
            }
        }
    }

    fn observed(&self, observation: &Observation) {
        self.numbers.change(|numbers| numbers.observed(observation));
        self.shared.observer.observe(observation);
    }

    /// Writes down what it takes to build this pipeline again.
    pub(crate) fn keep_master(&self, rm_token: &Token) {
        let record = MasterRecord {
            user: self.master.user.clone(),
            tags: self.master.tags.clone(),
            rm_token: Some(TokenProto::from(rm_token.clone())),
        };
        self.keep(Part::Master, Some(record.to_stored()));
    }

    fn keep(&self, part: Part, value: Option<Vec<u8>>) {
        let is_forgotten = self.is_forgotten();
        if !*is_forgotten {
            let key = RecordKey::Attempt(self.master.attempt, part);
            self.shared.store.put(key, value);
        }
    }

    /// Ends calls under way, and every later one at its beginning, and forgets what was kept.
    pub(crate) fn end(&self) {
        self.ended.cancel();
        let mut is_forgotten = self.is_forgotten();
        *is_forgotten = true;
        self.shared.store.forget(self.master.attempt);
    }

    fn is_forgotten(&self) -> MutexGuard<'_, bool> {
        // It is set once; a panic elsewhere leaves nothing half done.
        self.is_forgotten
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// As they were when the last call ended. Does not wait for a call under way.
    pub(crate) fn numbers(&self) -> MasterNumbers {
        self.numbers.read()
    }

    fn too_many(&self) -> RemoteException {
        self.observed(&Observation::Throttled(ThrottleReason::CallsWaiting));
        let attempt = self.master.attempt;
        RemoteException::new(
            HadoopException::Retriable,
            format!(
                "{CALLS_WAITING_MAX} calls of {attempt} are waiting; make them one after the other"
            ),
        )
    }
}

/// The exception for an attempt that is not, or no more, this node's: the AM's library shuts the AM down on it.
pub(crate) fn gone(attempt: ApplicationAttemptId) -> RemoteException {
    RemoteException::new(
        HadoopException::ApplicationAttemptNotFound,
        format!("Application attempt {attempt} doesn't exist in the AMRMProxy of this node."),
    )
}
