//! Registers the node and keeps it registered: the loop of heartbeats, with retry, resync and
//! shutdown.

mod parts;
#[cfg(test)]
mod tests;

use std::time::Duration;

use node_core::{Core, Delivery};
use node_view::outcome::CallOutcome;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wire::failover::{
    CallError, Failed, Failure, Link, Pauses, Plan, Policy, Reaction, Reactions, Step,
};
use wire::proto::hadoop_yarn::{
    NodeActionProto, NodeHeartbeatRequestProto, NodeHeartbeatResponseProto,
    RegisterNodeManagerResponseProto, UnRegisterNodeManagerRequestProto,
};

use super::connection::ResourceTracker;
use super::pace;
use super::session::{Answer, Heartbeat, Intervals, Session};
use super::version;
use crate::error_chain;

pub use self::parts::{Ended, UpdaterConfig, UpdaterError, UpdaterParts};

/// Timeout of each of the last calls to the ResourceManager once the agent stops: the
/// heartbeat under way, the one with the last completions, and the unregistration. It
/// detects a silent node by itself, only later.
const LAST_CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Reactions of a node, which goes on until it is ordered to stop. An exception of the active
/// ResourceManager does not move it: another one would not do better. Calls are not repeated
/// unchanged, so that a lost connection counts as a failure even if it was idle: the next heartbeat
/// reports what the lost one may not have delivered.
const REACTIONS: Reactions = Reactions {
    stale: Reaction::Leave,
    busy: Reaction::Stay,
    refused: Reaction::Stay,
    unusable: Reaction::Leave,
};

/// The loop of registration and heartbeats.
pub struct NodeStatusUpdater<T = Link> {
    parts: UpdaterParts<T>,
    plan: Plan,
    /// Paces registrations that only lead to the next resync, as with two nodes of one name.
    resyncs: Plan,
    session: Session,
}

enum Next {
    /// `settled`: a heartbeat had been answered since the registration.
    Resync {
        settled: bool,
    },
    End(Ended),
}

/// Order of an answered heartbeat to the loop itself.
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
        let policy = Policy {
            pauses: Pauses::NODE,
            interval_max: parts.config.retry_interval,
            give_up_after: parts.config.give_up_after,
            reactions: REACTIONS,
        };
        let endless = Policy {
            give_up_after: None,
            ..policy
        };
        let intervals = Intervals {
            usual: parts.config.heartbeat_interval,
            max: parts.config.heartbeat_interval_max,
        };
        Self {
            plan: Plan::new(policy, parts.tracker.endpoint_count()),
            resyncs: Plan::new(endless, 1),
            session: Session::new(parts.node.clone(), intervals),
            parts,
        }
    }

    /// Registers and sends heartbeats until the agent stops or the ResourceManager ends it.
    /// `registered` is called after the first registration.
    ///
    /// # Errors
    /// [`UpdaterError`].
    pub async fn run(&mut self, registered: impl FnOnce() + Send) -> Result<Ended, UpdaterError> {
        let mut registered = Some(registered);
        let stop = self.parts.stop.clone();
        let pause = sleep(self.parts.config.first_pause);
        if stop.run_until_cancelled(pause).await.is_none() {
            return Ok(Ended::Stopping);
        }
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Ended::Stopping),
                result = self.register() => result?,
            }
            if let Some(registered) = registered.take() {
                registered();
            }
            let settled = match self.heartbeats().await? {
                Next::End(ended) => return Ok(ended),
                Next::Resync { settled } => settled,
            };
            if settled {
                self.resyncs.answered();
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Ended::Stopping),
                result = self.resync() => result?,
            }
        }
    }

    /// Tells the ResourceManager that the node goes away. A failure is logged: it finds out by
    /// itself.
    pub async fn unregister(&mut self) {
        let request = UnRegisterNodeManagerRequestProto {
            node_id: Some((&self.parts.node.node_id).into()),
        };
        let endpoint = self.plan.endpoint();
        match timeout(
            LAST_CALL_TIMEOUT,
            self.parts.tracker.unregister(endpoint, &request),
        )
        .await
        {
            Ok(Ok(_)) => tracing::info!("unregistered from the ResourceManager"),
            Ok(Err(error)) => tracing::warn!(error = %error_chain(&error), "could not unregister"),
            Err(_) => tracing::warn!("could not unregister: no answer in {LAST_CALL_TIMEOUT:?}"),
        }
    }

    async fn register(&mut self) -> Result<(), UpdaterError> {
        self.parts.node_reports.wait_first().await;
        loop {
            let began = Instant::now();
            let report = self
                .parts
                .handle
                .run(|core, _| core.registration_report())
                .await?;
            let containers = report.containers.len();
            let heartbeat = self.parts.handle.run(Core::heartbeat_report).await?;
            let utilization = *self.parts.utilization.borrow();
            let mut request = self.session.registration(report, heartbeat, utilization);
            self.parts.node_reports.add_to_registration(&mut request);
            let endpoint = self.plan.endpoint();
            match self.parts.tracker.register(endpoint, &request).await {
                Ok(response) => {
                    self.plan.answered();
                    self.parts.metrics.count_registration(CallOutcome::Ok);
                    self.accept_registration(response).await?;
                    let address = self.parts.tracker.address(endpoint);
                    tracing::info!(resource_manager = address, node = %self.parts.node.node_id, containers, "registered");
                    return Ok(());
                }
                Err(error) => {
                    self.parts.metrics.count_registration(CallOutcome::Error);
                    let pause = self.after_failure(began, error, "registering")?;
                    sleep(pause).await;
                }
            }
        }
    }

    async fn accept_registration(
        &mut self,
        mut response: RegisterNodeManagerResponseProto,
    ) -> Result<(), UpdaterError> {
        let minimum = &self.parts.config.minimum_version;
        let found = response.rm_version();
        let missing = version::missing(minimum, &self.parts.node.version, found);
        if let Some(wanted) = missing
            && response.node_action() != NodeActionProto::Shutdown
        {
            let found = found.to_owned();
            return Err(UpdaterError::TooOld { found, wanted });
        }
        let registered = self.session.registered(&mut response)?;
        // Before the core takes starts again.
        self.parts.secrets.roll(registered.keys);
        let reports = &mut self.parts.node_reports;
        reports.registered(&response, Instant::now());
        let registered = move |core: &mut Core, now| {
            core.registered(registered.rm_identifier, registered.resource, now)
        };
        Ok(self.parts.handle.run(registered).await?)
    }

    /// Prepares another registration: refuses starts, ends containers that are not kept. Pauses
    /// when the registration before brought nothing but this resync.
    async fn resync(&mut self) -> Result<(), UpdaterError> {
        let keep = self.parts.config.keep_containers_on_resync;
        tracing::warn!(keep_containers = keep, "registering again");
        let patience = self.parts.config.kill_patience;
        let resync = move |core: &mut Core, now| core.resync(keep, now);
        let resynced = self.parts.handle.run_until_ended(resync);
        match timeout(patience, resynced).await {
            Ok(result) => result?,
            Err(_) => tracing::error!(waited = ?patience, "some containers have not ended"),
        }
        let is_repeated = self.resyncs.is_failing();
        let now = Instant::now();
        let failed = Failed {
            failure: Failure::Refused,
            began: now,
            deadline: None,
        };
        let step = self.resyncs.failed(failed, now, &mut rand::rng());
        match step {
            Step::Retry { pause, .. } if is_repeated => sleep(pause).await,
            Step::Retry { .. } | Step::Return | Step::GiveUp { .. } => {}
        }
        Ok(())
    }

    async fn heartbeats(&mut self) -> Result<Next, UpdaterError> {
        let mut settled = false;
        let mut is_last = false;
        let mut due = Instant::now();
        loop {
            let sent = Instant::now();
            let report = self.parts.handle.run(Core::heartbeat_report).await?;
            // What it tells must survive this agent. A failure has been logged, and the
            // ResourceManager must hear of the node all the same.
            let _not_stored = self.parts.handle.committed().await;
            let statuses = report.containers.len();
            let utilization = *self.parts.utilization.borrow();
            let keys = self.parts.secrets.current_keys();
            let Heartbeat {
                mut request,
                delivery,
            } = self.session.heartbeat(report, utilization, keys);
            let reports = &mut self.parts.node_reports;
            reports.add_to_heartbeat(&mut request, Instant::now());
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
                    self.plan.answered();
                    match self.take_answer(response, delivery).await? {
                        Order::GoOn => settled = true,
                        Order::Resync => return Ok(Next::Resync { settled }),
                        Order::End(ended) => return Ok(Next::End(ended)),
                    }
                    self.session.interval()
                }
                Err(error) if error.failure().is_of_active() => {
                    self.plan.refused();
                    self.parts.handle.run(Core::heartbeat_failed).await?;
                    tracing::warn!(error = %error_chain(&error), "the ResourceManager failed a heartbeat");
                    self.session.interval()
                }
                Err(error) => {
                    due = Instant::now();
                    self.parts.handle.run(Core::heartbeat_failed).await?;
                    self.after_failure(sent, error, "sending a heartbeat")?
                }
            };
            if is_last {
                return Ok(Next::End(Ended::Stopping));
            }
            let earliest = sent + pace::gap_after(statuses, self.session.interval());
            due = (due + pause).max(earliest);
            let is_answered = !self.plan.is_failing();
            match self.wait(&mut due, earliest, is_answered).await {
                Wake::Heartbeat => {}
                // One more, since containers have ended; but not to somebody who does not answer.
                Wake::Stop if !self.plan.is_failing() => is_last = true,
                Wake::Stop => return Ok(Next::End(Ended::Stopping)),
            }
        }
    }

    /// Sends one heartbeat. `None`: the agent stops and the answer would take too long.
    async fn send(
        &mut self,
        request: &NodeHeartbeatRequestProto,
    ) -> Option<Result<NodeHeartbeatResponseProto, CallError>> {
        let stop = self.parts.stop.clone();
        let endpoint = self.plan.endpoint();
        let given_up = async {
            stop.cancelled().await;
            sleep(LAST_CALL_TIMEOUT).await;
        };
        tokio::select! {
            biased;
            answer = self.parts.tracker.heartbeat(endpoint, request) => Some(answer),
            () = given_up => None,
        }
    }

    /// Waits until `due`, or for a completion when `out_of_band` and then until `earliest`, or for
    /// the stop.
    async fn wait(&mut self, due: &mut Instant, earliest: Instant, out_of_band: bool) -> Wake {
        let completion = async {
            self.parts.heartbeat_now.notified().await;
            sleep_until(earliest).await;
        };
        tokio::select! {
            biased;
            () = self.parts.stop.cancelled() => return Wake::Stop,
            () = sleep_until(*due) => {}
            () = completion, if out_of_band => *due = Instant::now(),
        }
        Wake::Heartbeat
    }

    async fn take_answer(
        &mut self,
        response: NodeHeartbeatResponseProto,
        delivery: Delivery,
    ) -> Result<Order, UpdaterError> {
        let reports = &mut self.parts.node_reports;
        if response.node_action() == NodeActionProto::Normal {
            reports.heartbeat_answered(&response, Instant::now());
        }
        let why = refusals::cut(response.diagnostics_message());
        match self.session.answered(response) {
            Answer::GoOn {
                orders,
                keys,
                refused_credentials,
            } => {
                self.parts.secrets.roll(keys);
                let refused = u64::try_from(refused_credentials).unwrap_or(u64::MAX);
                self.parts.metrics.count_refused_credentials(refused);
                let answered = move |core: &mut Core, now| {
                    core.heartbeat_answered(&delivery, *orders, now);
                };
                self.parts.handle.run(answered).await?;
                if self.session.has_credentials_to_store() {
                    match self.parts.handle.committed().await {
                        Ok(()) => self.session.credentials_stored(),
                        Err(error) => tracing::warn!(%error, "credentials are not stored"),
                    }
                }
                Ok(Order::GoOn)
            }
            Answer::Resync => {
                tracing::warn!(diagnostics = why, "the ResourceManager asks for a resync");
                Ok(Order::Resync)
            }
            Answer::Shutdown { diagnostics } => {
                let what = "the ResourceManager orders this node to shut down";
                tracing::warn!(diagnostics, "{what}");
                Ok(Order::End(Ended::ShutdownOrdered { diagnostics }))
            }
        }
    }

    /// Notes a failure; returns the pause before the next try.
    fn after_failure(
        &mut self,
        began: Instant,
        error: CallError,
        doing: &str,
    ) -> Result<Duration, UpdaterError> {
        let failed = Failed {
            failure: error.failure(),
            began,
            deadline: None,
        };
        let waited = match self.plan.failed(failed, Instant::now(), &mut rand::rng()) {
            Step::Retry { pause, .. } => {
                tracing::warn!(error = %error_chain(&error), ?pause, "{doing} failed, will be tried again");
                return Ok(pause);
            }
            Step::GiveUp { waited } => waited,
            Step::Return => unreachable!("no reaction of a node takes a failure as the answer"),
        };
        Err(UpdaterError::GaveUp {
            waited_ms: waited.as_millis(),
            source: Box::new(error),
        })
    }
}
