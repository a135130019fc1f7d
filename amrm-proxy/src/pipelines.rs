//! The proxy of a node: makes a pipeline when an AM starts, and ends it with the application.
//!
//! Source: `AMRMProxyService.processApplicationStartRequest`, `initializePipeline`,
//! `stopApplication`.

mod start;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use records::{ApplicationAttemptId, ApplicationId, Now};
use tokio_util::sync::CancellationToken;
use wire::credentials::replace_kind;
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::MasterKeyProto;
use wire::secrets::{AmrmTokenSecretManager, KeyRing, attempt_of};
use wire::token::{MasterKey, Token};

pub use self::start::{Admission, AdmitError, AmStart, PendingStart};
use crate::admissions::{AdmissionRefusal, Admissions};
use crate::attempts::{Activity, AttemptActivity, AttemptNumbers, ProxiedAttempts, retain_first};
use crate::call_metrics::CallMetrics;
use crate::chain::Chain;
use crate::config::{
    FileAccess, HistoryConfig, HistoryRule, InterceptorKind, KEY_CHECK_INTERVAL, OptIn, ProxyConfig,
};
use crate::distributed_scheduler::DistributedScheduler;
use crate::interceptor::{Gauges, Interceptor};
use crate::node_updates::{NodeUpdateTask, NodeUpdates};
use crate::observe::{Observer, ProxySnapshot};
use crate::pipeline::{
    AttemptIdentity, NodeKeys, Pipeline, ReadClock, Shared, Work, attempt_not_found,
};
use crate::registration::Registration;
use crate::relabel::Relabel;
use crate::rm_forwarder::{ResourceManagers, RmForwarder};
use crate::role_history::ServiceHistory;
use crate::role_history::files::HistoryFiles;
use crate::role_history::view::RoleHistoryView;
use crate::store::{
    AttemptParts, IdentityRecord, KeysRecord, Part, Record as _, Store, StoredState,
};
use crate::throttle::Throttle;
use crate::token_swap::TokenSwap;

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
    histories: Option<HistoryFiles>,
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
            observer,
            clock,
        } = parts;
        let now = clock();
        let secrets = restore_secrets(&config, found.keys.as_deref(), now);
        let (node_updates, update_task) =
            NodeUpdates::new(Arc::clone(&node_keys), Arc::clone(&observer));
        let proxy = Self {
            rms: Arc::new(ResourceManagers::new(config.rm.clone())),
            shared: Arc::new(Shared {
                secrets: Arc::new(secrets),
                node_keys,
                observer,
                clock,
                activity: Activity::default(),
                node_updates,
            }),
            histories: config
                .role_history
                .as_ref()
                .map(|history| HistoryFiles::start(history.files.clone(), files)),
            store,
            pipelines: Mutex::new(Admissions::new(PIPELINES_MAX)),
            config,
        };
        proxy.persist_keys();
        proxy.restore(found.attempts, now);
        (proxy, update_task)
    }

    /// Returns the local AMRMTokens, with which the port authenticates its callers.
    #[must_use]
    pub fn secrets(&self) -> Arc<AmrmTokenSecretManager> {
        Arc::clone(&self.shared.secrets)
    }

    /// Exchanges the ResourceManager's AMRMToken in an AM's credentials for a local one, and makes
    /// the attempt's pipeline. The same attempt again gets the same pipeline. Another attempt of
    /// the application keeps its pipeline until this one has started.
    ///
    /// # Errors
    /// [`AdmitError`]; nothing has changed then.
    pub fn admit(self: &Arc<Self>, start: &AmStart<'_>) -> Result<Admission, AdmitError> {
        let attempt = start.attempt;
        let secrets = &self.shared.secrets;
        // Alias and service are empty, as in the ResourceManager's token: the AM's library fills in
        // the address that it connects to.
        let replaced = {
            let token = secrets.token_for(attempt);
            replace_kind(start.credentials, "", &token)
                .map_err(|source| AdmitError::Credentials { attempt, source })?
        };
        let Some(rm_token) = replaced.removed.into_iter().next() else {
            return Ok(Admission::NoToken);
        };
        let admitted = self.lock().begin_start(attempt, || {
            let identity = AttemptIdentity {
                attempt,
                user: start.user.to_owned(),
                tags: start.tags.clone(),
                role_history: start.role_history.clone(),
            };
            let work = self.work(&identity, rm_token.clone());
            let pipeline = self.pipeline(identity, work);
            pipeline.persist_identity(&rm_token);
            secrets.activate(attempt, start.user);
            tracing::info!(%attempt, user = start.user, "an ApplicationMaster is proxied from now on");
            pipeline
        });
        let pipeline = admitted.map_err(|refusal| match refusal {
            AdmissionRefusal::Full => AdmitError::TooMany,
            AdmissionRefusal::Superseded(by) => AdmitError::Superseded { attempt, by },
        })?;
        self.shared.activity.notify();
        Ok(Admission::Admitted {
            credentials: replaced.stream,
            start: PendingStart {
                proxy: Arc::clone(self),
                pipeline,
            },
        })
    }

    /// Ends the pipelines of an application that has ended on this node.
    pub fn application_ended(&self, id: ApplicationId) {
        let mut pipelines = self.lock();
        for pipeline in pipelines.end(id) {
            self.end(&pipeline);
            tracing::info!(attempt = %pipeline.identity.attempt, "the application has ended; the pipeline ends");
        }
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
        let pipelines = self.all().into_iter();
        pipelines
            .filter_map(|pipeline| pipeline.role_history())
            .collect()
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
            let before = self.shared.secrets.keys();
            self.shared.secrets.tick((self.shared.clock)().mono);
            if self.shared.secrets.keys() != before {
                tracing::info!("the AMRMProxy's master key has rolled");
                self.persist_keys();
            }
        }
    }

    /// Makes the interceptors, the registration and the forwarder of an attempt.
    fn work(&self, identity: &AttemptIdentity, rm_token: Token) -> Work {
        let opened = self.histories.as_ref().zip(self.history_of(identity));
        let history = opened.map(|(files, (_, opt_in))| {
            files.open(identity.attempt, &identity.user, &opt_in.service)
        });
        Work {
            history,
            chain: Chain::new(self.interceptors(identity)),
            registration: Registration::default(),
            forwarder: RmForwarder::new(Arc::clone(&self.rms), rm_token),
        }
    }

    /// Returns what an attempt opts in to, if this node keeps histories.
    fn history_of(&self, identity: &AttemptIdentity) -> Option<(&HistoryConfig, OptIn)> {
        let config = self.config.role_history.as_ref()?;
        let own = identity.role_history.as_ref();
        let opt_in = HistoryRule::choose(own, &config.rules, &identity.user, &identity.tags)?;
        Some((config, opt_in))
    }

    fn pipeline(&self, identity: AttemptIdentity, work: Work) -> Arc<Pipeline> {
        let records = self.store.attempt(identity.attempt);
        let shared = Arc::clone(&self.shared);
        Arc::new(Pipeline::new(identity, shared, records, work))
    }

    /// Makes the interceptors in their order from the AM to the ResourceManager. The exchange of
    /// tokens is first in every configuration: no other interceptor sees the ResourceManager's
    /// token.
    fn interceptors(&self, identity: &AttemptIdentity) -> Vec<Box<dyn Interceptor>> {
        let mut interceptors: Vec<Box<dyn Interceptor>> = vec![Box::new(TokenSwap)];
        for kind in &self.config.pipeline {
            match kind {
                InterceptorKind::CallMetrics => interceptors.push(Box::new(CallMetrics)),
                InterceptorKind::Throttle => {
                    interceptors.push(Box::new(Throttle::new(self.config.throttle)));
                }
                InterceptorKind::Relabel => {
                    let (user, tags) = (&identity.user, &identity.tags);
                    if let Some(relabel) = Relabel::new(&self.config.relabel, user, tags) {
                        interceptors.push(Box::new(relabel));
                    }
                }
                InterceptorKind::RoleHistory => {
                    if let Some((config, opt_in)) = self.history_of(identity) {
                        let (attempt, user) = (identity.attempt, &identity.user);
                        let now = (self.shared.clock)();
                        let history = ServiceHistory::new(config, attempt, user, opt_in, now);
                        interceptors.push(Box::new(history));
                    }
                }
                InterceptorKind::DistributedScheduler => {
                    let config = self.config.allocator;
                    let scheduler = DistributedScheduler::new(identity.attempt, config);
                    interceptors.push(Box::new(scheduler));
                }
                // The interceptor of a federated cluster would be here, in place of the forwarder.
                InterceptorKind::Forwarder => {}
            }
        }
        interceptors
    }

    /// Ends a pipeline that was removed from the table. The caller still holds the table's lock, so
    /// that a new pipeline of the same attempt finds the old one's tokens and records removed.
    fn end(&self, pipeline: &Pipeline) {
        self.shared.secrets.revoke(pipeline.identity.attempt);
        pipeline.end();
        self.shared.activity.notify();
    }

    fn persist_keys(&self) {
        let (current, next) = self.shared.secrets.keys();
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
            let Some(pipeline) = self.rebuild(attempt, &parts, now) else {
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
            self.shared
                .secrets
                .activate(attempt, &pipeline.identity.user);
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
    ) -> Option<Arc<Pipeline>> {
        let stored = parts.get(&Part::Identity)?;
        let IdentityRecord {
            user,
            tags,
            rm_token,
            role_history,
        } = IdentityRecord::from_stored(stored)?;
        let identity = AttemptIdentity {
            attempt,
            user,
            tags,
            role_history: role_history.map(OptIn::from),
        };
        let mut work = self.work(&identity, Token::from(rm_token?));
        for (part, value) in parts {
            work.chain.restore(attempt, *part, value, now);
            work.registration.restore(attempt, *part, value);
        }
        Some(self.pipeline(identity, work))
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
