//! The pipelines of this node: made when an AM starts, dropped when its application ends.
//!
//! Source: `AMRMProxyService.processApplicationStartRequest`, `initializePipeline`, `stopApplication`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use records::{ApplicationAttemptId, ApplicationId, Now};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use wire::credentials::{CredentialsError, SecretBytes, replace_kind};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::MasterKeyProto;
use wire::secrets::{AmrmTokenSecretManager, KeyRing, attempt_of};
use wire::token::{MasterKey, Token};

use crate::admissions::{Admissions, Refusal};
use crate::call_metrics::CallMetrics;
use crate::chain::Chain;
use crate::config::{InterceptorKind, KEY_CHECK_INTERVAL, ProxyConfig};
use crate::distributed_scheduler::DistributedScheduler;
use crate::interceptor::{Gauges, Interceptor};
use crate::masters::{Activity, MasterNumbers, ProxiedMaster, ProxiedMasters, keep_first};
use crate::node_updates::{Messenger, NodeUpdates};
use crate::observe::{Observer, ProxySnapshot};
use crate::pipeline::{Master, NodeKeys, Pipeline, ReadClock, Shared, Work, gone};
use crate::registration::Registration;
use crate::relabel::Relabel;
use crate::rm_forwarder::{ResourceManagers, RmForwarder};
use crate::store::{KeysRecord, MasterRecord, Part, Record as _, RecordKey, Store};
use crate::throttle::Throttle;
use crate::token_swap::TokenSwap;

/// Pipelines at once, those of AMs that are about to start included. A node runs some hundred AMs at most; the bound is that
/// of applications on a node.
pub const PIPELINES_MAX: usize = 10_000;

/// What the proxy uses of the process it is in.
pub struct ProxyParts {
    /// Where state goes that must survive a restart.
    pub store: Arc<dyn Store>,
    /// What was in it at the start.
    pub found: BTreeMap<RecordKey, Vec<u8>>,
    /// What this node signs tokens for other nodes with.
    pub node_keys: Arc<dyn NodeKeys>,
    /// Where observations go.
    pub observer: Arc<dyn Observer>,
    /// The clocks.
    pub clock: Arc<ReadClock>,
}

/// An AM that is about to start.
#[derive(Clone, Debug)]
pub struct MasterStart<'a> {
    /// From its container token.
    pub attempt: ApplicationAttemptId,
    /// From its container token.
    pub user: &'a str,
    /// Of its application, as its environment says.
    pub tags: Vec<String>,
    /// The credentials that it is to be started with.
    pub credentials: &'a [u8],
}

/// What the proxy makes of an AM's start.
#[derive(Debug)]
pub enum Admission {
    /// The AM has no AMRMToken and so speaks to nobody: its start is none of the proxy's business.
    NoToken,
    /// The AM is to be started with these credentials instead.
    Admitted {
        /// With the local token in place of the ResourceManager's. Secret.
        credentials: SecretBytes,
        /// To be told of the start's outcome.
        start: PendingStart,
    },
}

/// A start of an AM whose outcome is open. Its pipeline is there from now on, so that the AM can call at once. Dropped
/// without [`succeeded`](Self::succeeded) it means that the start was refused: the pipeline ends, unless another start of the
/// same AM has succeeded or still may.
pub struct PendingStart {
    proxy: Arc<AmrmProxy>,
    pipeline: Arc<Pipeline>,
}

impl fmt::Debug for PendingStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingStart")
            .field(&self.pipeline.master.attempt)
            .finish()
    }
}

impl PendingStart {
    /// The AM has been started. Pipelines of earlier attempts of its application end.
    pub fn succeeded(self) {
        let attempt = self.pipeline.master.attempt;
        let mut pipelines = self.proxy.lock();
        for pipeline in pipelines.started(attempt, &self.pipeline) {
            tracing::info!(attempt = %pipeline.master.attempt, by = %attempt, "a later attempt takes the pipeline's place");
            self.proxy.end(&pipeline);
        }
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        let attempt = self.pipeline.master.attempt;
        let mut pipelines = self.proxy.lock();
        if let Some(pipeline) = pipelines.over(attempt, &self.pipeline) {
            tracing::info!(%attempt, "the ApplicationMaster was not started and is proxied no more");
            self.proxy.end(&pipeline);
        }
    }
}

/// Why an AM cannot be proxied.
#[derive(Debug, Error)]
pub enum AdmitError {
    /// Its credentials cannot be read.
    #[error("the credentials of {attempt} cannot be read")]
    Credentials {
        /// Whose.
        attempt: ApplicationAttemptId,
        /// Why.
        #[source]
        source: CredentialsError,
    },
    /// As many as there may be.
    #[error("{PIPELINES_MAX} ApplicationMasters are proxied by this node; no more are taken")]
    TooMany,
    /// It comes too late.
    #[error("{attempt} is not started: {by} has started on this node")]
    Superseded {
        /// Which.
        attempt: ApplicationAttemptId,
        /// The later attempt of the same application.
        by: ApplicationAttemptId,
    },
}

impl From<AdmitError> for RemoteException {
    fn from(error: AdmitError) -> Self {
        Self::new(HadoopException::YarnException, error.to_string())
    }
}

/// The proxy: everything but its port.
pub struct AmrmProxy {
    config: ProxyConfig,
    rms: Arc<ResourceManagers>,
    shared: Arc<Shared>,
    pipelines: Mutex<Admissions<Pipeline>>,
}

impl AmrmProxy {
    /// A proxy with the local keys and the pipelines that were found in the store.
    #[must_use]
    pub fn new(config: ProxyConfig, parts: ProxyParts) -> Self {
        let ProxyParts {
            store,
            found,
            node_keys,
            observer,
            clock,
        } = parts;
        let now = clock();
        let secrets = restore_secrets(&config, &found, now);
        let proxy = Self {
            rms: Arc::new(ResourceManagers::new(config.rm.clone())),
            shared: Arc::new(Shared {
                secrets: Arc::new(secrets),
                store,
                node_keys,
                observer,
                clock,
                activity: Activity::default(),
                node_updates: NodeUpdates::default(),
            }),
            pipelines: Mutex::new(Admissions::new(PIPELINES_MAX)),
            config,
        };
        proxy.keep_keys();
        proxy.restore(&found, now);
        proxy
    }

    /// Knows the local AMRMTokens, for the port's authentication.
    #[must_use]
    pub fn secrets(&self) -> Arc<AmrmTokenSecretManager> {
        Arc::clone(&self.shared.secrets)
    }

    /// Takes the ResourceManager's AMRMTokens out of an AM's credentials, puts the local one in, and makes the pipeline.
    /// The same attempt again gets the same. Another attempt of the application keeps its own until this one has started.
    ///
    /// # Errors
    /// [`AdmitError`]. Nothing has changed then.
    pub fn admit(self: &Arc<Self>, start: &MasterStart<'_>) -> Result<Admission, AdmitError> {
        let attempt = start.attempt;
        let secrets = &self.shared.secrets;
        // An empty alias and service, as the ResourceManager has them: the AM's library fills in the address it connects to.
        let replaced = {
            let token = secrets.token_for(attempt);
            replace_kind(start.credentials, "", &token)
                .map_err(|source| AdmitError::Credentials { attempt, source })?
        };
        let Some(rm_token) = replaced.removed.into_iter().next() else {
            return Ok(Admission::NoToken);
        };
        let begun = self.lock().begin(attempt, || {
            let master = Master {
                attempt,
                user: start.user.to_owned(),
                tags: start.tags.clone(),
            };
            let pipeline = self.build(master, rm_token.clone());
            pipeline.keep_master(&rm_token);
            secrets.activate(attempt);
            tracing::info!(%attempt, user = start.user, "an ApplicationMaster is proxied");
            pipeline
        });
        let pipeline = begun.map_err(|refusal| match refusal {
            Refusal::Full => AdmitError::TooMany,
            Refusal::Superseded(by) => AdmitError::Superseded { attempt, by },
        })?;
        self.shared.activity.changed();
        Ok(Admission::Admitted {
            credentials: replaced.stream,
            start: PendingStart {
                proxy: Arc::clone(self),
                pipeline,
            },
        })
    }

    /// The application has ended on this node.
    pub fn application_ended(&self, id: ApplicationId) {
        let mut pipelines = self.lock();
        for pipeline in pipelines.end(id) {
            self.end(&pipeline);
            tracing::info!(attempt = %pipeline.master.attempt, "the application has ended and is proxied no more");
        }
    }

    /// The pipeline for a caller who proved to hold this token.
    pub(crate) fn pipeline_of(&self, identifier: &[u8]) -> Result<Arc<Pipeline>, RemoteException> {
        let attempt = attempt_of(identifier)?;
        // A connection may be older than the end of its attempt.
        self.lock()
            .get(attempt)
            .cloned()
            .ok_or_else(|| gone(attempt))
    }

    /// For metrics.
    #[must_use]
    pub fn snapshot(&self) -> ProxySnapshot {
        let pipelines = self.all();
        let now = (self.shared.clock)().mono;
        let gauges = pipelines.iter().map(|pipeline| {
            let MasterNumbers {
                last_call_at,
                gauges,
                ..
            } = pipeline.numbers();
            // A list gets old when its AM does not call, which says nothing about the ResourceManager.
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

    /// The attempts that called most recently, at most `listed_max`. Costs a look at every pipeline and waits for no call,
    /// so it is for when somebody looks.
    #[must_use]
    pub fn masters(&self, listed_max: usize) -> ProxiedMasters {
        let pipelines = self.all();
        let total = pipelines.len();
        let mut listed: Vec<_> = pipelines
            .into_iter()
            .map(|pipeline| (pipeline.numbers(), pipeline))
            .collect();
        keep_first(&mut listed, listed_max, |(numbers, _)| {
            Reverse(numbers.last_call_at)
        });
        listed.sort_unstable_by_key(|(_, pipeline)| pipeline.master.attempt);
        let most_active = listed
            .into_iter()
            .map(|(numbers, pipeline)| ProxiedMaster {
                attempt: pipeline.master.attempt,
                user: pipeline.master.user.clone(),
                numbers,
            })
            .collect();
        ProxiedMasters { most_active, total }
    }

    /// For those who watch: tells when [`Self::masters`] may say something else than before.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.shared.activity.clone()
    }

    fn all(&self) -> Vec<Arc<Pipeline>> {
        self.lock().pipelines().cloned().collect()
    }

    /// Brings promotions that rules asked for to the containers' nodes, until `stop`.
    pub async fn update_nodes(&self, stop: CancellationToken) {
        let messenger = Messenger {
            node_keys: Arc::clone(&self.shared.node_keys),
            observer: Arc::clone(&self.shared.observer),
        };
        self.shared
            .node_updates
            .run(Arc::new(messenger), stop)
            .await;
    }

    /// Rolls the local key when it is time, until `stop`.
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
                self.keep_keys();
            }
        }
    }

    fn build(&self, master: Master, rm_token: Token) -> Arc<Pipeline> {
        let work = Work {
            chain: Chain::new(self.interceptors(&master)),
            registration: Registration::default(),
            forwarder: RmForwarder::new(Arc::clone(&self.rms), rm_token),
        };
        Arc::new(Pipeline::new(master, Arc::clone(&self.shared), work))
    }

    /// The chain, from the AM towards the ResourceManager. The swap of tokens stands first whatever the list says: no
    /// interceptor sees a token that is not its own.
    fn interceptors(&self, master: &Master) -> Vec<Box<dyn Interceptor>> {
        let mut interceptors: Vec<Box<dyn Interceptor>> = vec![Box::new(TokenSwap)];
        for kind in &self.config.pipeline {
            match kind {
                InterceptorKind::CallMetrics => interceptors.push(Box::new(CallMetrics)),
                InterceptorKind::Throttle => {
                    interceptors.push(Box::new(Throttle::new(self.config.throttle)));
                }
                InterceptorKind::Relabel => {
                    let (user, tags) = (&master.user, &master.tags);
                    if let Some(relabel) = Relabel::new(&self.config.relabel, user, tags) {
                        interceptors.push(Box::new(relabel));
                    }
                }
                InterceptorKind::DistributedScheduler => {
                    let config = self.config.allocator;
                    let scheduler = DistributedScheduler::new(master.attempt, config);
                    interceptors.push(Box::new(scheduler));
                }
                // A federated cluster's interceptor would stand here, before the forwarder and instead of it.
                InterceptorKind::Forwarder => {}
            }
        }
        interceptors
    }

    /// Ends a pipeline that is no more among those of the node. The caller still has their lock: a new pipeline for the
    /// same attempt must find the old one's tokens and records gone.
    fn end(&self, pipeline: &Pipeline) {
        self.shared.secrets.revoke(pipeline.master.attempt);
        pipeline.end();
        self.shared.activity.changed();
    }

    fn keep_keys(&self) {
        let (current, next) = self.shared.secrets.keys();
        let record = KeysRecord {
            current: Some(MasterKeyProto::from(current)),
            next: next.map(MasterKeyProto::from),
        };
        self.shared
            .store
            .put(RecordKey::Keys, Some(record.to_stored()));
    }

    /// Builds the pipelines again that were there before a restart. What cannot be read is dropped with a warning.
    fn restore(&self, found: &BTreeMap<RecordKey, Vec<u8>>, now: Now) {
        let attempts: BTreeSet<_> = found
            .keys()
            .filter_map(|key| match key {
                RecordKey::Keys => None,
                RecordKey::Attempt(attempt, _) => Some(*attempt),
            })
            .collect();
        for attempt in attempts {
            let part = |part| found.get(&RecordKey::Attempt(attempt, part));
            let master = part(Part::Master).and_then(|stored| MasterRecord::from_stored(stored));
            let Some(MasterRecord {
                user,
                tags,
                rm_token: Some(token),
            }) = master
            else {
                tracing::warn!(%attempt, "the pipeline cannot be restored");
                self.shared.store.forget(attempt);
                continue;
            };
            let master = Master {
                attempt,
                user,
                tags,
            };
            let mut work = Work {
                chain: Chain::new(self.interceptors(&master)),
                registration: Registration::default(),
                forwarder: RmForwarder::new(Arc::clone(&self.rms), Token::from(token)),
            };
            for kept in Part::ALL {
                if let Some(value) = part(kept) {
                    work.chain.restore(attempt, kept, value, now);
                    work.registration.restore(attempt, kept, value);
                }
            }
            let shared = Arc::clone(&self.shared);
            let pipeline = Arc::new(Pipeline::new(master, shared, work));
            let mut pipelines = self.lock();
            if pipelines.begin(attempt, || Arc::clone(&pipeline)).is_err() {
                drop(pipelines);
                tracing::warn!(%attempt, "{PIPELINES_MAX} pipelines are restored; this one is not");
                self.shared.store.forget(attempt);
                continue;
            }
            self.shared.secrets.activate(attempt);
            let older = pipelines.started(attempt, &pipeline);
            pipelines.over(attempt, &pipeline);
            for older in older {
                self.end(&older);
            }
            drop(pipelines);
            tracing::info!(%attempt, "the pipeline is restored");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Admissions<Pipeline>> {
        // Every change is whole before anything else is done: a panic elsewhere leaves nothing half done.
        self.pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn restore_secrets(
    config: &ProxyConfig,
    found: &BTreeMap<RecordKey, Vec<u8>>,
    now: Now,
) -> AmrmTokenSecretManager {
    let stored = found.get(&RecordKey::Keys);
    let record = stored.and_then(|stored| KeysRecord::from_stored(stored));
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
