//! Registers the node and keeps it registered: the loop of heartbeats, with retry, resync and shutdown.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use wire::proto::hadoop_yarn::{
    NodeActionProto, NodeHeartbeatResponseProto, RegisterNodeManagerResponseProto,
    UnRegisterNodeManagerRequestProto,
};
use wire::protocol::resource_tracker::{NodeHeartbeat, RegisterNodeManager, UnRegisterNodeManager};

use super::connection::{RmCallError, RmConnection};
use super::messages::{self, NodeDescription};
use crate::clock::Clock;
use crate::core::Delivery;
use crate::core_task::{Handle, Stopped};
use crate::error_chain;
use crate::metrics::{CallOutcome, Metrics};
use crate::monitor::Sample;
use crate::secrets::NodeSecrets;

/// Used until the ResourceManager names an interval, and when it names none (Hadoop: 1000 ms).
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Containers often end in bursts. An out-of-band heartbeat waits this long after the heartbeat before it, so that a burst
/// costs the ResourceManager at most 50 calls a second from one node and still looks immediate to people.
const OUT_OF_BAND_GAP: Duration = Duration::from_millis(20);

/// How long the last word to the ResourceManager may take; it learns of a silent node by itself, only later.
const UNREGISTER_TIMEOUT: Duration = Duration::from_secs(2);

/// How the node behaves toward the ResourceManager.
#[derive(Clone, Debug)]
pub struct UpdaterConfig {
    /// Between two tries when nobody answers.
    pub retry_interval: Duration,
    /// When to give up; `None`: never.
    pub give_up_after: Option<Duration>,
    /// `yarn.resourcemanager.work-preserving-recovery.enabled`: containers live through a resync.
    pub keep_containers_on_resync: bool,
}

/// Why the loop ended, when nothing is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The agent is stopping; the node is registered and should be unregistered.
    Stopping,
    /// The ResourceManager ordered the node to shut down (decommissioned). It is no longer registered.
    ShutdownOrdered {
        /// The ResourceManager's words.
        diagnostics: String,
    },
}

/// Why the loop ended, when something is.
#[derive(Debug, Error)]
pub enum UpdaterError {
    /// The ResourceManager refuses this node.
    #[error("the ResourceManager refused to register this node: {diagnostics}")]
    Refused {
        /// The ResourceManager's words.
        diagnostics: String,
    },
    /// A registration was answered without what a node needs.
    #[error("the ResourceManager's answer to the registration lacks {0}")]
    Incomplete(&'static str),
    /// Nobody answered for as long as configured.
    #[error(
        "no ResourceManager answered for {waited_ms} ms (yarn.resourcemanager.connect.max-wait.ms)"
    )]
    GaveUp {
        /// How long, milliseconds.
        waited_ms: u128,
        /// The last failure.
        #[source]
        source: RmCallError,
    },
    /// The core task is gone.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// What the loop works with.
pub struct UpdaterParts {
    /// Its slice of the configuration.
    pub config: UpdaterConfig,
    /// What the node says of itself.
    pub node: NodeDescription,
    /// Toward the ResourceManagers.
    pub connection: RmConnection,
    /// The agent's state.
    pub handle: Handle,
    /// Where keys go.
    pub secrets: Arc<NodeSecrets>,
    /// Where heartbeats are counted.
    pub metrics: Arc<Metrics>,
    /// Wakes for an out-of-band heartbeat.
    pub heartbeat_now: Arc<Notify>,
    /// What the node and its containers use.
    pub utilization: watch::Receiver<Sample>,
    /// The agent's clock.
    pub clock: Clock,
    /// Ends the loop.
    pub stop: CancellationToken,
}

/// The loop, before it runs.
pub struct NodeStatusUpdater {
    parts: UpdaterParts,
    /// Of the last answered heartbeat; 0 after a registration.
    response_id: i32,
    token_sequence_no: i64,
    interval: Duration,
}

enum Next {
    Resync,
    End(Ended),
}

impl NodeStatusUpdater {
    /// A loop that has not registered yet.
    #[must_use]
    pub fn new(parts: UpdaterParts) -> Self {
        Self {
            parts,
            response_id: 0,
            token_sequence_no: 0,
            interval: DEFAULT_INTERVAL,
        }
    }

    /// Registers and sends heartbeats until the agent stops or the ResourceManager ends it. `registered` is told of the
    /// first registration.
    ///
    /// # Errors
    /// [`UpdaterError`].
    pub async fn run(&mut self, registered: impl FnOnce() + Send) -> Result<Ended, UpdaterError> {
        let mut registered = Some(registered);
        loop {
            let stop = self.parts.stop.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Ended::Stopping),
                result = self.register() => result?,
            }
            if let Some(tell) = registered.take() {
                tell();
            }
            match self.heartbeats().await? {
                Next::End(ended) => return Ok(ended),
                Next::Resync => {
                    let keep = self.parts.config.keep_containers_on_resync;
                    tracing::warn!(
                        keep_containers = keep,
                        "the ResourceManager asks for a resync: registering again"
                    );
                    self.parts.handle.resync(keep).await?;
                }
            }
        }
    }

    /// Tells the ResourceManager that the node goes away. A failure is logged: it finds out by itself.
    pub async fn unregister(&mut self) {
        let request = UnRegisterNodeManagerRequestProto {
            node_id: Some((&self.parts.node.node_id).into()),
        };
        match timeout(
            UNREGISTER_TIMEOUT,
            self.parts
                .connection
                .call::<UnRegisterNodeManager>(&request),
        )
        .await
        {
            Ok(Ok(_)) => tracing::info!("unregistered from the ResourceManager"),
            Ok(Err(error)) => tracing::warn!(error = %error_chain(&error), "could not unregister"),
            Err(_) => tracing::warn!("could not unregister: no answer in {UNREGISTER_TIMEOUT:?}"),
        }
    }

    async fn register(&mut self) -> Result<(), UpdaterError> {
        let began = Instant::now();
        loop {
            let report = self.parts.handle.registration_report().await?;
            let containers = report.containers.len();
            let status = self.status(0, self.parts.handle.heartbeat_report().await?);
            let request = messages::registration(&self.parts.node, report, status);
            match self
                .parts
                .connection
                .call::<RegisterNodeManager>(&request)
                .await
            {
                Ok(response) => {
                    self.parts.metrics.count_registration(CallOutcome::Ok);
                    self.accept_registration(response).await?;
                    let address = self.parts.connection.address().to_owned();
                    tracing::info!(resource_manager = address, node = %self.parts.node.node_id, containers, "registered");
                    return Ok(());
                }
                Err(error) => {
                    self.parts.metrics.count_registration(CallOutcome::Error);
                    self.wait_to_retry(began, error, "registering").await?;
                }
            }
        }
    }

    async fn accept_registration(
        &mut self,
        response: RegisterNodeManagerResponseProto,
    ) -> Result<(), UpdaterError> {
        if response.node_action() == NodeActionProto::Shutdown {
            let diagnostics = response.diagnostics_message().to_owned();
            return Err(UpdaterError::Refused { diagnostics });
        }
        let rm_identifier = response
            .rm_identifier
            .ok_or(UpdaterError::Incomplete("rm_identifier"))?;
        let resource = response
            .resource
            .as_ref()
            .and_then(|resource| records::Resource::try_from(resource).ok());
        let container_token_key = messages::master_key(response.container_token_master_key)
            .ok_or(UpdaterError::Incomplete("container_token_master_key"))?;
        let nm_token_key = messages::master_key(response.nm_token_master_key)
            .ok_or(UpdaterError::Incomplete("nm_token_master_key"))?;
        self.parts
            .secrets
            .roll_container_token_key(container_token_key);
        self.parts.secrets.roll_nm_token_key(nm_token_key);
        self.response_id = 0;
        Ok(self
            .parts
            .handle
            .registered(rm_identifier, resource)
            .await?)
    }

    async fn heartbeats(&mut self) -> Result<Next, UpdaterError> {
        let mut failing_since = None;
        let mut due = Instant::now();
        loop {
            let sent = Instant::now();
            let report = self.parts.handle.heartbeat_report().await?;
            let delivery = if failing_since.is_some() {
                Delivery::PerhapsNothing
            } else {
                Delivery::Everything {
                    increased: report.increased.clone(),
                }
            };
            let status = self.status(self.response_id, report);
            let request = messages::heartbeat(
                status,
                self.parts.secrets.current_keys(),
                self.token_sequence_no,
            );
            let stop = self.parts.stop.clone();
            let answer = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Next::End(Ended::Stopping)),
                answer = self.parts.connection.call::<NodeHeartbeat>(&request) => answer,
            };
            match answer {
                Ok(response) => {
                    self.parts
                        .metrics
                        .observe_heartbeat(CallOutcome::Ok, sent.elapsed());
                    failing_since = None;
                    if let Some(next) = self.obey(response, delivery).await? {
                        return Ok(next);
                    }
                }
                // The same heartbeat goes again, with the same response id: the RM then repeats its last answer, whose
                // orders it sends only once.
                Err(error) => {
                    self.parts
                        .metrics
                        .observe_heartbeat(CallOutcome::Error, sent.elapsed());
                    let since = *failing_since.get_or_insert(sent);
                    if error.is_remote() {
                        tracing::warn!(error = %error_chain(&error), "the ResourceManager failed a heartbeat");
                    } else {
                        self.check_patience(since, error, "sending a heartbeat")?;
                    }
                }
            }
            due = (due + self.interval).max(sent + OUT_OF_BAND_GAP);
            let out_of_band = async {
                self.parts.heartbeat_now.notified().await;
                sleep_until(sent + OUT_OF_BAND_GAP).await;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Next::End(Ended::Stopping)),
                () = sleep_until(due) => {}
                () = out_of_band, if failing_since.is_none() => due = Instant::now(),
            }
        }
    }

    /// What an answer asks for; `Some` when it ends the heartbeats.
    async fn obey(
        &mut self,
        response: NodeHeartbeatResponseProto,
        delivery: Delivery,
    ) -> Result<Option<Next>, UpdaterError> {
        if let Ok(interval_ms @ 1..) = u64::try_from(response.next_heart_beat_interval()) {
            self.interval = Duration::from_millis(interval_ms);
        }
        match response.node_action() {
            NodeActionProto::Shutdown => {
                let diagnostics = response.diagnostics_message().to_owned();
                tracing::warn!(
                    diagnostics,
                    "the ResourceManager orders this node to shut down"
                );
                return Ok(Some(Next::End(Ended::ShutdownOrdered { diagnostics })));
            }
            NodeActionProto::Resync => {
                tracing::warn!(
                    diagnostics = response.diagnostics_message(),
                    "resync ordered"
                );
                return Ok(Some(Next::Resync));
            }
            NodeActionProto::Normal => {}
        }
        let duties = messages::duties(&response);
        self.response_id = response.response_id();
        self.token_sequence_no = response.token_sequence_no.unwrap_or(self.token_sequence_no);
        if let Some(key) = messages::master_key(response.container_token_master_key) {
            self.parts.secrets.roll_container_token_key(key);
        }
        if let Some(key) = messages::master_key(response.nm_token_master_key) {
            self.parts.secrets.roll_nm_token_key(key);
        }
        self.parts
            .handle
            .heartbeat_answered(delivery, duties)
            .await?;
        Ok(None)
    }

    fn status(
        &self,
        response_id: i32,
        report: crate::core::HeartbeatReport,
    ) -> wire::proto::hadoop_yarn::NodeStatusProto {
        let utilization = *self.parts.utilization.borrow();
        let now = self.parts.clock.now().wall;
        messages::node_status(&self.parts.node, response_id, report, utilization, now)
    }

    async fn wait_to_retry(
        &self,
        since: Instant,
        error: RmCallError,
        doing: &str,
    ) -> Result<(), UpdaterError> {
        self.check_patience(since, error, doing)?;
        sleep(self.parts.config.retry_interval).await;
        Ok(())
    }

    fn check_patience(
        &self,
        since: Instant,
        error: RmCallError,
        doing: &str,
    ) -> Result<(), UpdaterError> {
        let waited = since.elapsed();
        if self
            .parts
            .config
            .give_up_after
            .is_some_and(|limit| waited >= limit)
        {
            return Err(UpdaterError::GaveUp {
                waited_ms: waited.as_millis(),
                source: error,
            });
        }
        tracing::warn!(error = %error_chain(&error), waited_ms = waited.as_millis(), "{doing} failed, will be tried again");
        Ok(())
    }
}
