//! Registers the node and keeps it registered: the loop of heartbeats, with retry, resync and shutdown.

mod parts;
#[cfg(test)]
mod tests;

use std::time::Duration;

use node_web::metrics::CallOutcome;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wire::proto::hadoop_yarn::{
    NodeActionProto, NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, NodeStatusProto,
    RegisterNodeManagerResponseProto, UnRegisterNodeManagerRequestProto,
};
use wire::retry::{Failures, RetryPolicy};

use super::connection::{ResourceTracker, RmCallError, RmConnection};
use super::messages;
use super::version;
use crate::core::{Delivery, HeartbeatReport};
use crate::error_chain;

pub use self::parts::{Ended, UpdaterConfig, UpdaterError, UpdaterParts};

/// Containers often end in bursts. An out-of-band heartbeat waits this long after the heartbeat before it, so that a burst
/// costs the ResourceManager at most 50 calls a second from one node and still looks immediate to people.
const OUT_OF_BAND_GAP: Duration = Duration::from_millis(20);

/// How long each of the last words to the ResourceManager may take once the agent stops: the heartbeat under way, the one
/// that tells of the last completions, and the unregistration. It learns of a silent node by itself, only later.
const LAST_WORD_TIMEOUT: Duration = Duration::from_secs(2);

/// The loop, before it runs.
pub struct NodeStatusUpdater<T = RmConnection> {
    parts: UpdaterParts<T>,
    retry: RetryPolicy,
    /// Of the last answered heartbeat; 0 after a registration.
    response_id: i32,
    token_sequence_no: i64,
    interval: Duration,
}

enum Next {
    /// `settled`: a heartbeat had been answered since the registration.
    Resync {
        settled: bool,
    },
    End(Ended),
}

/// What an answered heartbeat orders of the loop itself.
enum Order {
    GoOn,
    Resync,
    End(Ended),
}

/// Why the wait between two heartbeats is over.
enum Wake {
    Heartbeat,
    Stop,
}

impl<T: ResourceTracker> NodeStatusUpdater<T> {
    /// A loop that has not registered yet.
    #[must_use]
    pub fn new(parts: UpdaterParts<T>) -> Self {
        Self {
            retry: RetryPolicy {
                addresses: parts.tracker.addresses(),
                interval_max: parts.config.retry_interval,
                give_up_after: parts.config.give_up_after,
            },
            interval: parts.config.heartbeat_interval,
            parts,
            response_id: 0,
            token_sequence_no: 0,
        }
    }

    /// Registers and sends heartbeats until the agent stops or the ResourceManager ends it. `registered` is told of the
    /// first registration.
    ///
    /// # Errors
    /// [`UpdaterError`].
    pub async fn run(&mut self, registered: impl FnOnce() + Send) -> Result<Ended, UpdaterError> {
        let mut registered = Some(registered);
        let mut resyncs = Failures::default();
        let stop = self.parts.stop.clone();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Ended::Stopping),
                result = self.register() => result?,
            }
            if let Some(tell) = registered.take() {
                tell();
            }
            let settled = match self.heartbeats().await? {
                Next::End(ended) => return Ok(ended),
                Next::Resync { settled } => settled,
            };
            if settled {
                resyncs.clear();
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Ended::Stopping),
                result = self.resync(&mut resyncs) => result?,
            }
        }
    }

    /// Tells the ResourceManager that the node goes away. A failure is logged: it finds out by itself.
    pub async fn unregister(&mut self) {
        let request = UnRegisterNodeManagerRequestProto {
            node_id: Some((&self.parts.node.node_id).into()),
        };
        match timeout(LAST_WORD_TIMEOUT, self.parts.tracker.unregister(&request)).await {
            Ok(Ok(_)) => tracing::info!("unregistered from the ResourceManager"),
            Ok(Err(error)) => tracing::warn!(error = %error_chain(&error), "could not unregister"),
            Err(_) => tracing::warn!("could not unregister: no answer in {LAST_WORD_TIMEOUT:?}"),
        }
    }

    async fn register(&mut self) -> Result<(), UpdaterError> {
        let mut failures = Failures::default();
        loop {
            let began = Instant::now();
            let report = self.parts.handle.registration_report().await?;
            let containers = report.containers.len();
            let heartbeat = self.parts.handle.heartbeat_report().await?;
            let status = self.status(0, heartbeat);
            let request = messages::registration(&self.parts.node, report, status);
            match self.parts.tracker.register(&request).await {
                Ok(response) => {
                    self.parts.metrics.count_registration(CallOutcome::Ok);
                    self.accept_registration(response).await?;
                    let address = self.parts.tracker.address();
                    tracing::info!(resource_manager = address, node = %self.parts.node.node_id, containers, "registered");
                    return Ok(());
                }
                Err(error) => {
                    self.parts.metrics.count_registration(CallOutcome::Error);
                    let pause = self.after_failure(&mut failures, began, error, "registering")?;
                    sleep(pause).await;
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
        let minimum = &self.parts.config.minimum_version;
        let found = response.rm_version();
        if let Some(wanted) = version::missing(minimum, &self.parts.node.version, found) {
            let found = found.to_owned();
            return Err(UpdaterError::TooOld { found, wanted });
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
        self.parts.secrets.set_rm_identifier(rm_identifier);
        self.response_id = 0;
        Ok(self
            .parts
            .handle
            .registered(rm_identifier, resource)
            .await?)
    }

    /// Makes ready for another registration: refuses starts, ends what is not kept. When registering brought nothing but
    /// the next resync, as with two nodes of one name, there is a pause first.
    async fn resync(&mut self, resyncs: &mut Failures) -> Result<(), UpdaterError> {
        let keep = self.parts.config.keep_containers_on_resync;
        tracing::warn!(keep_containers = keep, "registering again");
        let patience = self.parts.config.kill_patience;
        match timeout(patience, self.parts.handle.resync(keep)).await {
            Ok(result) => result?,
            Err(_) => tracing::error!(waited = ?patience, "some containers have not ended"),
        }
        let had_any = resyncs.any();
        let endless = RetryPolicy {
            addresses: 1,
            give_up_after: None,
            ..self.retry
        };
        let now = Instant::now();
        let pause = resyncs.note(now, now, &endless, &mut rand::rng());
        if had_any && let Ok(pause) = pause {
            sleep(pause).await;
        }
        Ok(())
    }

    async fn heartbeats(&mut self) -> Result<Next, UpdaterError> {
        let mut failures = Failures::default();
        let mut settled = false;
        let mut is_last = false;
        let mut due = Instant::now();
        loop {
            let sent = Instant::now();
            let report = self.parts.handle.heartbeat_report().await?;
            let delivery = if failures.any() {
                Delivery::PerhapsNothing
            } else {
                Delivery::Everything {
                    increased: report.increased.clone(),
                }
            };
            let request = self.heartbeat_request(report);
            let Some(answer) = self.send(&request).await else {
                return Ok(Next::End(Ended::Stopping));
            };
            let outcome = if answer.is_ok() {
                CallOutcome::Ok
            } else {
                CallOutcome::Error
            };
            self.parts
                .metrics
                .observe_heartbeat(outcome, sent.elapsed());
            let pause = match answer {
                Ok(response) => {
                    failures.clear();
                    match self.obey(response, delivery).await? {
                        Order::GoOn => settled = true,
                        Order::Resync => return Ok(Next::Resync { settled }),
                        Order::End(ended) => return Ok(Next::End(ended)),
                    }
                    self.interval
                }
                // The same heartbeat goes again, with the same response id: the RM then repeats its last answer, whose
                // orders it sends only once.
                Err(error) if error.is_of_active_rm() => {
                    failures.note_refusal();
                    self.parts.handle.heartbeat_failed().await?;
                    tracing::warn!(error = %error_chain(&error), "the ResourceManager failed a heartbeat");
                    self.interval
                }
                Err(error) => {
                    due = Instant::now();
                    self.parts.handle.heartbeat_failed().await?;
                    self.after_failure(&mut failures, sent, error, "sending a heartbeat")?
                }
            };
            if is_last {
                return Ok(Next::End(Ended::Stopping));
            }
            due = (due + pause).max(sent + OUT_OF_BAND_GAP);
            match self.wait(&mut due, sent, !failures.any()).await {
                Wake::Heartbeat => {}
                // One more, since containers have ended; but not to somebody who does not answer.
                Wake::Stop if !failures.any() => is_last = true,
                Wake::Stop => return Ok(Next::End(Ended::Stopping)),
            }
        }
    }

    /// Sends one heartbeat. `None`: the agent stops and the answer would take too long.
    async fn send(
        &mut self,
        request: &NodeHeartbeatRequestProto,
    ) -> Option<Result<NodeHeartbeatResponseProto, RmCallError>> {
        let stop = self.parts.stop.clone();
        let out_of_patience = async {
            stop.cancelled().await;
            sleep(LAST_WORD_TIMEOUT).await;
        };
        tokio::select! {
            biased;
            answer = self.parts.tracker.heartbeat(request) => Some(answer),
            () = out_of_patience => None,
        }
    }

    /// Waits until `due`, or for a completion when `out_of_band`, or for the stop.
    async fn wait(&mut self, due: &mut Instant, sent: Instant, out_of_band: bool) -> Wake {
        let completion = async {
            self.parts.heartbeat_now.notified().await;
            sleep_until(sent + OUT_OF_BAND_GAP).await;
        };
        tokio::select! {
            biased;
            () = self.parts.stop.cancelled() => return Wake::Stop,
            () = sleep_until(*due) => {}
            () = completion, if out_of_band => *due = Instant::now(),
        }
        Wake::Heartbeat
    }

    async fn obey(
        &mut self,
        response: NodeHeartbeatResponseProto,
        delivery: Delivery,
    ) -> Result<Order, UpdaterError> {
        let config = &self.parts.config;
        self.interval = messages::interval(&response)
            .unwrap_or(config.heartbeat_interval)
            .min(config.heartbeat_interval_max);
        match response.node_action() {
            NodeActionProto::Shutdown => {
                let diagnostics = response.diagnostics_message().to_owned();
                tracing::warn!(
                    diagnostics,
                    "the ResourceManager orders this node to shut down"
                );
                return Ok(Order::End(Ended::ShutdownOrdered { diagnostics }));
            }
            NodeActionProto::Resync => {
                tracing::warn!(
                    diagnostics = response.diagnostics_message(),
                    "the ResourceManager asks for a resync"
                );
                return Ok(Order::Resync);
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
        Ok(Order::GoOn)
    }

    fn heartbeat_request(&self, report: HeartbeatReport) -> NodeHeartbeatRequestProto {
        let status = self.status(self.response_id, report);
        let keys = self.parts.secrets.current_keys();
        messages::heartbeat(status, keys, self.token_sequence_no)
    }

    fn status(&self, response_id: i32, report: HeartbeatReport) -> NodeStatusProto {
        let utilization = *self.parts.utilization.borrow();
        let now = self.parts.clock.now().wall;
        messages::node_status(&self.parts.node, response_id, report, utilization, now)
    }

    /// How long to wait before the next try.
    fn after_failure(
        &self,
        failures: &mut Failures,
        began: Instant,
        error: RmCallError,
        doing: &str,
    ) -> Result<Duration, UpdaterError> {
        match failures.note(began, Instant::now(), &self.retry, &mut rand::rng()) {
            Ok(pause) => {
                tracing::warn!(error = %error_chain(&error), ?pause, "{doing} failed, will be tried again");
                Ok(pause)
            }
            Err(give_up) => Err(UpdaterError::GaveUp {
                waited_ms: give_up.waited.as_millis(),
                source: error,
            }),
        }
    }
}
