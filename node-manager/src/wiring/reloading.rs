//! Reads the configuration again on a signal or by order of an operator, and hands new values to
//! their owners.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use localize::config::LocalizerConfig;
use node_admin::message::{Refusal, RefusalKind, Reload};
use node_core::CoreSettings;
use service::{Manager, Message};
use time::UtcOffset;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::process::Process;
use super::shared::Shared;
use super::{proxy, slices};
use crate::config::{Config, Loaded, Reading};
use crate::core_task::Handle;
use crate::reload::{Outcome, Reloading};
use crate::reload_orders::{Order, ReloadOrders, refusal};
use crate::service_authorization::PortAuthorization;

/// The task that reads again, and the values in force.
pub(super) struct Reloader {
    conf_dirs: Vec<PathBuf>,
    environment: BTreeMap<String, String>,
    means: Reloading,
    /// Last reading whose values were applied; `None`: there are no files.
    applied: Option<Reading>,
    /// Configuration at the start.
    started_with: Config,
    handle: Handle,
    manager: Manager,
    orders: mpsc::Receiver<Order>,
    cache: watch::Sender<LocalizerConfig>,
    shown: watch::Sender<Option<String>>,
    authorization: Option<PortAuthorization>,
}

impl Reloader {
    pub(super) fn new(config: &Config, process: &Process, shared: &Shared) -> (Self, ReloadOrders) {
        let (sender, orders) = ReloadOrders::new();
        let reloader = Self {
            conf_dirs: process.conf_dirs.clone(),
            environment: process.environment.clone(),
            means: process.reloading.clone(),
            applied: process.reloading.started_with.clone(),
            started_with: config.clone(),
            handle: shared.handle.clone(),
            manager: process.manager.clone(),
            orders,
            cache: watch::Sender::new(config.localizer),
            shown: watch::Sender::new(None),
            authorization: shared.authorization.clone(),
        };
        (reloader, sender)
    }

    /// Returns the limits of the cache, as they change.
    pub(super) fn cache(&self) -> watch::Receiver<LocalizerConfig> {
        self.cache.subscribe()
    }

    /// Returns the outcome of the last reading, for the status line.
    pub(super) fn shown(&self) -> watch::Receiver<Option<String>> {
        self.shown.subscribe()
    }

    /// Follows orders until `stop`.
    pub(super) async fn run(mut self, stop: CancellationToken) -> &'static str {
        let order = Arc::clone(&self.means.order);
        loop {
            tokio::select! {
                () = stop.cancelled() => return "the reader of the configuration",
                () = order.notified() => {
                    tracing::info!("SIGHUP: reading the configuration again");
                    // The log and the service manager have the outcome.
                    let _outcome = self.reload().await;
                }
                Some((by, reply)) = self.orders.recv() => {
                    tracing::info!(by, "an operator has the configuration read again");
                    // The operator may have gone; the values are in effect all the same.
                    let _gone = reply.send(self.reload().await);
                }
            }
        }
    }

    async fn reload(&mut self) -> Result<Reload, Refusal> {
        self.manager.notify_reloading();
        let outcome = self.read_and_apply().await;
        let shown = match &outcome {
            Ok(outcome) => {
                outcome.log();
                outcome.words()
            }
            Err(refusal) => {
                let why = &refusal.message;
                tracing::error!("the configuration stays as it is, since it cannot be read: {why}");
                "the configuration cannot be read again, and stays as it is".to_owned()
            }
        };
        self.manager.notify(Message::Status(&shown));
        self.manager.notify(Message::Ready);
        self.shown.send_replace(Some(shown));
        outcome.map(|outcome| outcome.answer())
    }

    async fn read_and_apply(&mut self) -> Result<Outcome, Refusal> {
        let (Some(start), Some(applied)) = (&self.means.started_with, &self.applied) else {
            let message = "the agent was started without configuration files";
            return Err(refusal(RefusalKind::BadConfiguration, message));
        };
        let (folders, environment) = (self.conf_dirs.clone(), self.environment.clone());
        let loaded = tokio::task::spawn_blocking(move || Loaded::read(&folders, &environment));
        let loaded = match loaded.await {
            Ok(loaded) => loaded,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        let (config, reading) = loaded.into_config_and_reading();
        let config = config
            .map_err(|problems| refusal(RefusalKind::BadConfiguration, &problems.to_string()))?;
        if start.has_yarn_site && !reading.has_yarn_site {
            let message = "no folder of the configuration has a yarn-site.xml any more";
            return Err(refusal(RefusalKind::BadConfiguration, message));
        }
        let log_level_is_fixed = self.means.log_level.is_none();
        let mut outcome = Outcome::of(start, applied, &reading, log_level_is_fixed);
        if config.launch.executor != self.started_with.launch.executor && outcome.refused.is_empty()
        {
            outcome.refuse_accounts();
        }
        self.apply(&config).await?;
        self.applied = Some(reading);
        Ok(outcome)
    }

    /// Hands the values that may change to their owners.
    async fn apply(&self, config: &Config) -> Result<(), Refusal> {
        let settings = CoreSettings {
            // The rest of the slice, which the numbers are for, stays as it is.
            scheduler: slices::scheduler(config, 0, UtcOffset::UTC).runtime_settings(),
            log_retain_ms: slices::log_retain_ms(config),
            track_stopped_ms: config.rm.stopped_containers_tracked_ms,
            contexts: config.contexts,
        };
        let changed = self
            .handle
            .run(move |core, now| core.change_settings(settings, now));
        let stopping = |_| refusal(RefusalKind::Unavailable, "the agent is stopping");
        changed.await.map_err(stopping)?;
        self.cache.send_replace(config.localizer);
        if let (Some(authorization), Some(policies)) = (&self.authorization, &config.policies) {
            authorization.replace(policies.clone()).await;
        }
        let placement = config.amrm_proxy.proxy.allocator.placement;
        let looks = proxy::look_settings(config);
        if let Some(proxy) = self.handle.proxy() {
            proxy.change_looks(placement, looks);
        }
        if let Some(level) = &self.means.log_level {
            level.set(&config.log_level);
        }
        Ok(())
    }
}
