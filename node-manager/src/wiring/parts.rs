//! Makes the parts that act: folders, hands, the status updater, the keeper of the cache.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use container_runtime::isolation::{Availability, Isolation};
use container_runtime::launch::{LaunchConfig, Launcher};
use container_runtime::monitor::{Listener, MemoryExceeded, Monitor, Sample};
use localize::config::LocalizerConfig;
use localize::{self, NodeDirs};
use node_web::metrics::Metrics;
use records::ExecutionType;
use records::PerExecutionType;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use wire::failover::Link;

use super::shared::{NodeAddress, Shared};
use super::{AgentError, slices, starting};
use crate::clock::Clock;
use crate::config::Config;
use crate::hands::{Effect, NodeHands};
use crate::node_identity;
use crate::resource_manager::{NodeDescription, NodeStatusUpdater, UpdaterParts};

/// Launch and exit events between the launcher's threads and the forwarder. A full channel makes
/// launches wait.
const LAUNCH_EVENTS_MAX: usize = 1024;

/// How long the stop waits for folders that are due to go: half of what this step of the end may
/// take. What is left is found by the next start (Hadoop: `DeletionService.serviceStop` waits 10 s
/// for what is being deleted).
const DELETION_PATIENCE: Duration = Duration::from_secs(5);

/// Threads with an end of their own. Those of the launcher end with the core, which owns it.
pub(super) struct Threads {
    pub(super) deletion: localize::DeletionService,
    pub(super) localizer: localize::LocalizerThreads,
    pub(super) monitor: Monitor,
}

impl Threads {
    /// Waits for what each thread is at, which may be a disk.
    pub(super) fn stop(self) {
        self.monitor.stop();
        self.localizer.stop();
        self.deletion.stop(DELETION_PATIENCE);
    }
}

pub(super) fn make_updater(
    config: &Config,
    node: NodeDescription,
    shared: &Shared,
    utilization: watch::Receiver<Sample>,
) -> (NodeStatusUpdater, CancellationToken) {
    let stop = CancellationToken::new();
    let updater = NodeStatusUpdater::new(UpdaterParts {
        config: slices::updater(config),
        node,
        tracker: Link::new(slices::rm_link(config)),
        handle: shared.handle.clone(),
        secrets: Arc::clone(&shared.secrets),
        metrics: Arc::clone(&shared.metrics),
        heartbeat_now: Arc::clone(&shared.heartbeat_now),
        utilization,
        clock: shared.clock,
        stop: stop.clone(),
    });
    (updater, stop)
}

/// What the monitor measures goes to the metrics; what it has to say of a container goes the way of
/// the launcher's events, at most one for each container.
struct MonitorListener {
    metrics: Arc<Metrics>,
    effects: mpsc::UnboundedSender<Effect>,
}

impl Listener for MonitorListener {
    fn measured(&self, sample: &Sample) {
        self.metrics.observe_sample(sample);
    }

    fn exceeded(&self, exceeded: MemoryExceeded) {
        // The core is gone only when the agent has stopped.
        let _stopped = self.effects.send(Effect::MemoryExceeded(exceeded));
    }
}

/// The thread that measures.
pub(super) fn make_monitor(
    config: &Config,
    hands: &NodeHands,
    metrics: &Arc<Metrics>,
) -> Result<(Monitor, watch::Receiver<Sample>), AgentError> {
    let listener = MonitorListener {
        metrics: Arc::clone(metrics),
        effects: hands.effects.clone(),
    };
    let pressure = |class| hands.isolation.as_ref()?.pressure(class);
    let classes = PerExecutionType {
        guaranteed: pressure(ExecutionType::Guaranteed),
        opportunistic: pressure(ExecutionType::Opportunistic),
    };
    Monitor::start(
        slices::monitor(config),
        Arc::clone(&hands.launcher),
        Arc::clone(&hands.limits),
        classes,
        listener,
    )
    .map_err(starting("the monitor's thread"))
}

/// Holds the cache of localized resources against its target size, now and then.
pub(super) async fn keep_cache(
    localizer: localize::Localizer,
    config: LocalizerConfig,
    stop: CancellationToken,
) -> &'static str {
    let target_bytes = config.cache_target_size_mb.saturating_mul(1 << 20);
    let interval = Duration::from_millis(config.cache_cleanup_interval_ms.max(1));
    loop {
        tokio::select! {
            () = stop.cancelled() => return "the cache's keeper",
            () = tokio::time::sleep(interval) => {}
        }
        let localizer = localizer.clone();
        let evicted =
            tokio::task::spawn_blocking(move || localizer.clean_up_cache(target_bytes)).await;
        if let Ok(evicted @ 1..) = evicted {
            tracing::info!(evicted, "unused resources left the cache");
        }
    }
}

/// The node's folders and the threads that delete.
pub(super) struct Folders {
    pub(super) dirs: NodeDirs,
    pub(super) deletion: localize::DeletionService,
}

impl Folders {
    pub(super) fn start(config: &Config, clock: Clock) -> Result<Self, AgentError> {
        let started = NodeDirs::start(&config.dirs, clock.now().wall).map_err(AgentError::Dirs)?;
        for unusable in &started.unusable {
            let error = crate::error_chain(&unusable.error);
            tracing::warn!(path = %unusable.path.display(), error, "this directory cannot be used and is left out");
        }
        let deletion = localize::DeletionService::start(&config.deletion)
            .map_err(starting("the deletion threads"))?;
        deletion.delete(started.leftovers);
        Ok(Self {
            dirs: started.dirs,
            deletion,
        })
    }
}

/// Cgroups, if they are asked for or were given and can be used; tells once which.
fn start_isolation(
    config: &Config,
    effects: &mpsc::UnboundedSender<Effect>,
) -> Result<(Option<Isolation>, Availability), AgentError> {
    let offer = slices::offer(config, node_identity::hardware());
    let (answers, mut answered) = mpsc::unbounded_channel();
    let (isolation, availability) = Isolation::start(&config.cgroups, offer, &answers)
        .map_err(starting("the threads for cgroups"))?;
    availability.log();
    let forward = effects.clone();
    // Ends with the threads that answer.
    tokio::spawn(async move {
        while let Some(event) = answered.recv().await {
            if forward.send(Effect::Isolation(event)).is_err() {
                break;
            }
        }
    });
    Ok((isolation, availability))
}

pub(super) fn make_hands(
    config: &Config,
    environment: BTreeMap<String, String>,
    folders: &Folders,
    address: &NodeAddress,
    metrics: &Metrics,
    effects: mpsc::UnboundedSender<Effect>,
) -> Result<(NodeHands, localize::LocalizerThreads), AgentError> {
    let (localizer, localizer_threads) = localize::Localizer::start(
        &config.localizer,
        folders.dirs.clone(),
        folders.deletion.clone(),
        crate::clock::wall_now,
    )
    .map_err(starting("the localizer threads"))?;
    let (isolation, availability) = start_isolation(config, &effects)?;
    metrics.set_isolation(&availability);
    let (launch_events, mut launched) = mpsc::channel(LAUNCH_EVENTS_MAX);
    let launch_config = LaunchConfig {
        isolation: isolation.clone(),
        ..slices::launch(config, address, environment)
    };
    let launcher = Launcher::start(
        launch_config,
        launch_events,
        tokio::runtime::Handle::current(),
    )
    .map_err(starting("the launch threads"))?;
    let forward = effects.clone();
    // Ends with the launcher, whose last event it has then passed on; nobody needs to wait for
    // that.
    tokio::spawn(async move {
        while let Some(event) = launched.recv().await {
            if forward.send(Effect::Launch(event)).is_err() {
                break;
            }
        }
    });
    let hands = NodeHands {
        isolation,
        launcher: Arc::new(launcher),
        localizer,
        dirs: folders.dirs.clone(),
        deletion: folders.deletion.clone(),
        limits: Arc::default(),
        effects,
    };
    Ok((hands, localizer_threads))
}
