//! The proxy of a node: makes a pipeline when an AM starts, and ends it with the application.
//!
//! Source: `AMRMProxyService.processApplicationStartRequest`, `initializePipeline`,
//! `stopApplication`.

mod start;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use records::{ApplicationAttemptId, ApplicationId, ContainerName, NodeId, Now};
use sched::{Offer, OfferAnswer, Placement};
use tokio_util::sync::CancellationToken;
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::MasterKeyProto;
use wire::secrets::{AmrmTokenSecretManager, KeyRing, attempt_of};
use wire::token::{MasterKey, Token};

pub use self::start::{Admission, AdmitError, AmStart, PendingStart};
use crate::admissions::{AdmissionRefusal, Admissions};
use crate::attempts::{
    Activity, AttemptActivity, AttemptNumbers, ProxiedAttempts, ProxySnapshot, retain_first,
};
use crate::binding::{LateBinding, ReservationSender};
use crate::config::{FileAccess, KEY_CHECK_INTERVAL, ProxyConfig, TokenPolicy};
use crate::distributed_scheduler::gauges::Gauges;
use crate::identity::{Attempt, AttemptIdentity, IDENTITY};
use crate::interceptors::Interceptors;
use crate::looks::{Choice, LookParts, LookSettings, NodeLooks};
use crate::master_tokens::{KeptTokens, MasterTokens};
use crate::node_keys::NodeKeys;
use crate::node_updates::{NodeUpdateTask, NodeUpdates};
use crate::observe::Observer;
use crate::pipeline::{Pipeline, ReadClock, Shared, Work, attempt_not_found};
use crate::registration::Registration;
use crate::rm_forwarder::{ResourceManagers, RmForwarder};
use crate::role_history::view::RoleHistoryView;
use crate::store::{AttemptParts, KeysRecord, Record as _, Store, StoredState};

/// Maximum of pipelines, including those of AMs that are about to start. A node runs some hundred
/// AMs at most; the bound equals that of applications on a node.
pub const PIPELINES_MAX: usize = 10_000;

/// Parts of the agent that the proxy uses.
pub struct ProxyParts {
    /// Store for the state that must survive a restart.
    pub store: Arc<dyn Store>,
    /// Records that the store contained at the start.
    pub found: StoredState,
    /// Source of the keys with which this node signs tokens for other nodes.
    pub node_keys: Arc<dyn NodeKeys>,
    /// Way to the files of role histories.
    pub files: FileAccess,
    /// What looks at other nodes need.
    pub looks: LookParts,
    /// Way to tell other nodes of reservations; `None`: containers are not bound late.
    pub reservations: Option<Arc<dyn ReservationSender>>,
    /// Sink for observations.
    pub observer: Arc<dyn Observer>,
    /// Function that reads the clocks.
    pub clock: Arc<ReadClock>,
}

/// The AMRMProxy without its port.
pub struct AmrmProxy {
    config: ProxyConfig,
    rms: Arc<ResourceManagers>,
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    interceptors: Interceptors,
    binding: LateBinding,
    /// Table that decides which pipelines exist. Every call looks its pipeline up here, so the
    /// table is shared under a lock instead of owned by a task: a question to a task would add two
    /// hops to each call. The lock is held for one method of the table, and for the end of
    /// pipelines.
    pipelines: Mutex<Admissions<Pipeline>>,
}

impl AmrmProxy {
    /// Makes a proxy with the local keys and the pipelines found in the store, and the task that
    /// sends its promotions to their nodes.
    pub fn new(config: ProxyConfig, parts: ProxyParts) -> (Self, NodeUpdateTask) {
        let ProxyParts {
            store,
            found,
            node_keys,
            files,
            looks,
            reservations,
            observer,
            clock,
        } = parts;
        let now = clock();
        let local = restore_secrets(&config, found.keys.as_deref(), now);
        let (node_updates, update_task) = NodeUpdates::new(
            Arc::clone(&node_keys),
            Arc::clone(&observer),
            config.rm.protections.clone(),
        );
        let placement = config.allocator.placement;
        let kept = (Arc::clone(&store), found.nodes);
        let binding = LateBinding::new(reservations, Arc::clone(&clock));
        let looks = NodeLooks::new(looks, placement, Arc::clone(&clock), kept, binding.clone());
        let interceptors = Interceptors::new(&config, files, node_updates, looks);
        let proxy = Self {
            rms: Arc::new(ResourceManagers::new(config.rm.clone())),
            shared: Arc::new(Shared {
                tokens: Arc::new(MasterTokens::new(local)),
                node_keys,
                observer,
                clock,
                activity: Activity::default(),
            }),
            interceptors,
            binding,
            store,
            pipelines: Mutex::new(Admissions::new(PIPELINES_MAX)),
            config,
        };
        proxy.persist_keys();
        proxy.restore(found.attempts, now);
        (proxy, update_task)
    }

    /// Returns the AMRMTokens with which the port authenticates its callers.
    #[must_use]
    pub fn tokens(&self) -> Arc<MasterTokens> {
        Arc::clone(&self.shared.tokens)
    }

    /// Exchanges the ResourceManager's AMRMToken in an AM's credentials for a local one, unless the
    /// AM keeps it, and makes the attempt's pipeline. The same attempt again gets the same
    /// pipeline. Another attempt of the application keeps its pipeline until this one has started.
    ///
    /// # Errors
    /// [`AdmitError`]; nothing has changed then.
    pub fn admit(self: &Arc<Self>, start: &AmStart<'_>) -> Result<Admission, AdmitError> {
        let attempt = start.attempt;
        let Some(given) = self.given_tokens(start)? else {
            return Ok(Admission::NoToken);
        };
        let admitted = self.lock().begin_start(attempt, || {
            let proxied = Attempt::new(AttemptIdentity {
                attempt,
                user: start.user.to_owned(),
                tags: start.tags.clone(),
                role_history: start.role_history.clone(),
            });
            let rm_token = &given.rm_token;
            let work = self.work(&proxied, rm_token.clone());
            let pipeline = self.pipeline(proxied, work);
            let kept = match self.config.token {
                TokenPolicy::Replace => None,
                TokenPolicy::Keep => Some(KeptTokens {
                    newest: rm_token.clone(),
                    previous: None,
                }),
            };
            pipeline.persist_identity(rm_token, kept.clone());
            self.make_valid(attempt, start.user, kept);
            tracing::info!(%attempt, user = start.user, "an ApplicationMaster is proxied from now on");
            pipeline
        });
        let pipeline = admitted.map_err(|refusal| match refusal {
            AdmissionRefusal::Full => AdmitError::TooMany,
            AdmissionRefusal::Superseded(by) => AdmitError::Superseded { attempt, by },
        })?;
        self.shared.activity.notify();
        Ok(Admission::Admitted {
            credentials: given.credentials,
            start: PendingStart {
                proxy: Arc::clone(self),
                pipeline,
            },
        })
    }

    /// Makes the tokens of an attempt valid at this node's port.
    fn make_valid(&self, attempt: ApplicationAttemptId, user: &str, kept: Option<KeptTokens>) {
        let tokens = &self.shared.tokens;
        match kept {
            Some(kept) => tokens.keep(attempt, user, kept),
            None => drop(tokens.local().activate(attempt, user)),
        }
    }

    /// Ends the pipelines of an application that has ended on this node.
    pub fn application_ended(&self, id: ApplicationId) {
        let mut pipelines = self.lock();
        for pipeline in pipelines.end(id) {
            self.end(&pipeline);
            tracing::info!(attempt = %pipeline.identity.attempt, "the application has ended; the pipeline ends");
        }
    }

    /// Sets the limit on waiting containers that the ResourceManager published to this node, as to
    /// all others; `None`: no limit. Looks place no more than it allows.
    pub fn set_queue_limit(&self, length: Option<usize>) {
        self.interceptors.set_queue_limit(length);
    }

    /// Returns how the node of a container was chosen; `None` if this node has not placed it by
    /// looks, or has forgotten it.
    #[must_use]
    pub fn choice_of(&self, container: ContainerName) -> Option<Choice> {
        self.interceptors.choice_of(container)
    }

    /// Answers a node that offers room to an attempt: the tasks that are bound to it.
    #[must_use]
    pub fn offered(&self, node: &NodeId, offer: &Offer<()>) -> OfferAnswer {
        self.binding.offered(node, offer)
    }

    /// Changes how nodes are chosen for opportunistic containers, for all attempts, each from its
    /// next call on.
    pub fn change_looks(&self, placement: Placement, settings: LookSettings) {
        self.interceptors.change_looks(placement, settings);
    }

    /// Returns the pipeline of an authenticated caller, by the identifier of its token.
    pub(crate) fn pipeline_of(&self, identifier: &[u8]) -> Result<Arc<Pipeline>, RemoteException> {
        let attempt = attempt_of(identifier)?;
        // The connection may be older than the end of its attempt.
        self.lock()
            .get(attempt)
            .cloned()
            .ok_or_else(|| attempt_not_found(attempt))
    }

    /// Returns the proxy's numbers for metrics.
    #[must_use]
    pub fn snapshot(&self) -> ProxySnapshot {
        let pipelines = self.all();
        let now = (self.shared.clock)().mono;
        let gauges = pipelines.iter().map(|pipeline| {
            let AttemptNumbers {
                last_call_at,
                gauges,
                ..
            } = pipeline.numbers();
            // A list ages while its AM does not call, which tells nothing about the
            // ResourceManager.
            let is_silent = last_call_at
                .is_none_or(|at| now.since(at) > self.config.allocator.nodes_age_max_ms);
            Gauges {
                nodes_at: gauges.nodes_at.filter(|_| !is_silent),
                ..gauges
            }
        });
        ProxySnapshot {
            gauges: gauges.fold(Gauges::default(), Gauges::and),
            pipelines: pipelines.len(),
        }
    }

    /// Returns the `listed_max` attempts that called most recently. Reads the numbers of every
    /// pipeline without waiting for a call, so it is meant for pages on demand.
    #[must_use]
    pub fn attempts(&self, listed_max: usize) -> ProxiedAttempts {
        let pipelines = self.all();
        let total = pipelines.len();
        let mut listed: Vec<_> = pipelines
            .into_iter()
            .map(|pipeline| (pipeline.numbers(), pipeline))
            .collect();
        retain_first(&mut listed, listed_max, |(numbers, _)| {
            Reverse(numbers.last_call_at)
        });
        listed.sort_unstable_by_key(|(_, pipeline)| pipeline.identity.attempt);
        let most_active = listed
            .into_iter()
            .map(|(numbers, pipeline)| AttemptActivity {
                attempt: pipeline.identity.attempt,
                user: pipeline.identity.user.clone(),
                numbers,
            })
            .collect();
        ProxiedAttempts { most_active, total }
    }

    /// Returns the role histories of the attempts that keep one, as of each attempt's last call.
    /// Waits for no call.
    #[must_use]
    pub fn role_histories(&self) -> Vec<Arc<RoleHistoryView>> {
        self.interceptors.role_histories()
    }

    /// Returns the notification for changes in what [`Self::attempts`] returns.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.shared.activity.clone()
    }

    fn all(&self) -> Vec<Arc<Pipeline>> {
        self.lock().pipelines().cloned().collect()
    }

    /// Rolls the local key when it is due, until `stop`.
    pub async fn roll_keys(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(KEY_CHECK_INTERVAL) => {}
            }
            let local = self.shared.tokens.local();
            let before = local.keys();
            local.tick((self.shared.clock)().mono);
            if local.keys() != before {
                tracing::info!("the AMRMProxy's master key has rolled");
                self.persist_keys();
            }
        }
    }

    /// Makes the interceptors, the registration and the forwarder of an attempt.
    fn work(&self, attempt: &Attempt, rm_token: Token) -> Work {
        let now = (self.shared.clock)();
        Work {
            chain: self.interceptors.chain(&self.config, attempt, now),
            registration: Registration::default(),
            forwarder: RmForwarder::new(Arc::clone(&self.rms), rm_token),
        }
    }

    fn pipeline(&self, attempt: Attempt, work: Work) -> Arc<Pipeline> {
        let records = self.store.attempt(attempt.identity.attempt);
        let shared = Arc::clone(&self.shared);
        Arc::new(Pipeline::new(attempt, shared, records, work))
    }

    /// Ends a pipeline that was removed from the table. The caller still holds the table's lock, so
    /// that a new pipeline of the same attempt finds the old one's tokens and records removed.
    fn end(&self, pipeline: &Pipeline) {
        self.shared.tokens.revoke(pipeline.identity.attempt);
        pipeline.end();
        self.shared.activity.notify();
    }

    fn persist_keys(&self) {
        let (current, next) = self.shared.tokens.local().keys();
        let record = KeysRecord {
            current: Some(MasterKeyProto::from(current)),
            next: next.map(MasterKeyProto::from),
        };
        self.store.put_keys(record.to_stored());
    }

    /// Rebuilds the pipelines of the agent before its restart. Unreadable ones are dropped with a
    /// warning.
    fn restore(&self, attempts: BTreeMap<ApplicationAttemptId, AttemptParts>, now: Now) {
        for (attempt, parts) in attempts {
            let Some((pipeline, kept)) = self.rebuild(attempt, &parts, now) else {
                tracing::warn!(%attempt, "the pipeline cannot be restored");
                self.store.attempt(attempt).end();
                continue;
            };
            let mut pipelines = self.lock();
            if pipelines
                .begin_start(attempt, || Arc::clone(&pipeline))
                .is_err()
            {
                tracing::warn!(%attempt, "{PIPELINES_MAX} pipelines are restored; this one is not");
                pipeline.end();
                continue;
            }
            self.make_valid(attempt, &pipeline.identity.user, kept);
            let older = pipelines.mark_started(attempt, &pipeline);
            pipelines.settle_start(attempt, &pipeline);
            for older in older {
                self.end(&older);
            }
            tracing::info!(%attempt, "the pipeline is restored");
        }
    }

    fn rebuild(
        &self,
        attempt: ApplicationAttemptId,
        parts: &AttemptParts,
        now: Now,
    ) -> Option<(Arc<Pipeline>, Option<KeptTokens>)> {
        let stored = parts.get(IDENTITY.key())?;
        let (identity, rm_token, kept) = AttemptIdentity::from_stored(attempt, stored)?;
        let proxied = Attempt::new(identity);
        let mut work = self.work(&proxied, rm_token);
        for part in parts.keys().filter(|part| !work.has_part(part)) {
            tracing::warn!(%attempt, part, "a record that nobody here reads is ignored");
        }
        work.chain.restore(attempt, parts, now);
        work.registration.restore(attempt, parts);
        Some((self.pipeline(proxied, work), kept))
    }

    fn lock(&self) -> MutexGuard<'_, Admissions<Pipeline>> {
        // Every change is complete when the lock is released, so a panic elsewhere breaks nothing.
        self.pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn restore_secrets(
    config: &ProxyConfig,
    stored: Option<&[u8]>,
    now: Now,
) -> AmrmTokenSecretManager {
    let record = stored.and_then(KeysRecord::from_stored);
    let key = |key: Option<MasterKeyProto>| MasterKey::try_from(key?).ok();
    let keys = record.and_then(|record| Some((key(record.current)?, key(record.next))));
    match keys {
        Some((current, next)) => AmrmTokenSecretManager::with_keys(KeyRing::restore(
            config.keys,
            current,
            next,
            now.mono,
        )),
        None => AmrmTokenSecretManager::new(config.keys, now.mono),
    }
}

#[cfg(test)]
mod tests;
