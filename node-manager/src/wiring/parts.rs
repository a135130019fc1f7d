//! Makes the parts that act: directories, the performer, the monitor, the status updater, the
//! cleaner of the cache.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use container_runtime::isolation::{Availability, Isolation};
use container_runtime::launch::{LaunchConfig, Launcher};
use container_runtime::monitor::{
    ContainerLook, Listener, MemoryExceeded, Monitor, Sample, StalledParts,
};
use file_worker::{Pool, PoolConfig, Program, Security};
use hadoop_conf::Site;
use hadoop_fs::{Caller, FileSystems};
use localize::config::LocalizerConfig;
use localize::{self, DiskChecks, KeptResource, NodeDirs};
use log_aggregation::LogAggregation;
use node_view::usage::{ContainerUse, Stalled, Uses};
use node_web::metrics::Metrics;
use records::ExecutionType;
use records::PerExecutionType;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use users::{Account, GroupError, Users};
use wire::failover::Link;

use super::error::{AgentError, starting};
use super::health::HealthThreads;
use super::process::Process;
use super::recovery::Recovery;
use super::shared::{NodeAddress, Shared};
use super::slices;
use crate::aux_services::{AuxServices, ServiceThreads};
use crate::clock::Clock;
use crate::config::{Config, ContainerExecutor, LogAggregationConfig, keys};
use crate::event_writer::EventWriter;
use crate::node_identity;
use crate::node_labels::{NodeReports, Providers, Reread};
use crate::offers::OfferTask;
use crate::performer::Performer;
use crate::resource_manager::{NodeDescription, NodeStatusUpdater, UpdaterParts};
use crate::worker_channels::WorkerSenders;

/// How long the stop waits for folders that are due to go: half of what this step of the end may
/// take. What is left is found by the next start (Hadoop: `DeletionService.serviceStop` waits 10 s
/// for what is being deleted).
const DELETION_PATIENCE: Duration = Duration::from_secs(5);

/// Running containers that get links to further resources at the same time.
const LINKING_MAX: usize = 4;

/// Threads that the end of the agent stops one after the other. The launcher's threads end when its
/// last owner is gone: the core's performer or the monitor.
pub(super) struct Threads {
    pub(super) deletion: localize::DeletionService,
    pub(super) health: HealthThreads,
    pub(super) localizer: localize::LocalizerThreads,
    pub(super) services: ServiceThreads,
    pub(super) monitor: Monitor,
    pub(super) providers: Providers,
}

impl Threads {
    /// Stops the threads and waits for the work that each is doing, which may wait for a disk.
    pub(super) fn stop(self) {
        self.services.stop();
        self.monitor.stop();
        self.health.stop();
        self.localizer.stop();
        self.deletion.stop(DELETION_PATIENCE);
        // Last, since a script on a disk that hangs cannot be ended.
        self.providers.stop();
    }
}

pub(super) fn make_updater(
    config: &Config,
    node: NodeDescription,
    shared: &Shared,
    utilization: watch::Receiver<Sample>,
    node_reports: NodeReports,
) -> (NodeStatusUpdater, CancellationToken) {
    let stop = CancellationToken::new();
    let updater = NodeStatusUpdater::new(UpdaterParts {
        config: slices::updater(config, shared.identity.first_pause),
        node,
        tracker: Link::new(slices::rm_link(config, shared.identity.auth.clone())),
        handle: shared.handle.clone(),
        secrets: Arc::clone(&shared.secrets),
        metrics: Arc::clone(&shared.metrics),
        heartbeat_now: Arc::clone(&shared.heartbeat_now),
        utilization,
        node_reports,
        clock: shared.clock,
        stop: stop.clone(),
    });
    (updater, stop)
}

/// Starts the providers of the node's labels and attributes.
pub(super) fn start_providers(
    config: &Config,
    process: &Process,
) -> Result<(Providers, NodeReports), AgentError> {
    let Process {
        environment,
        conf_dirs,
        ..
    } = process.clone();
    let can_reread = !conf_dirs.is_empty();
    let reread: Reread = Arc::new(move |name| {
        let site = Site::read(&conf_dirs, &environment, &keys::TABLE);
        let value = site.properties.get(name).ok()?;
        let text = value.map(|value| value.text).unwrap_or_default();
        site.problems.is_empty().then_some(text)
    });
    let reread = can_reread.then_some(&reread);
    let environment = Arc::new(process.environment.clone());
    let started = Providers::start(&config.node_labels, &environment, reread);
    Ok(started?)
}

/// Receiver of the monitor's findings: samples go to the metrics, containers that use too much
/// memory to the core.
struct MonitorListener {
    metrics: Arc<Metrics>,
    exceeded: mpsc::Sender<MemoryExceeded>,
    uses: watch::Sender<Arc<Uses>>,
    clock: Clock,
}

impl Listener for MonitorListener {
    fn measured(&self, sample: &Sample, containers: &[ContainerLook]) {
        self.metrics.observe_sample(sample);
        self.metrics.observe_containers(containers);
        let containers = containers.iter().map(|look| (look.id, container_use(look)));
        let at = self.clock.now().wall;
        let uses = Uses::new(at, sample.node.pmem_mb, containers);
        self.uses.send_replace(uses);
    }

    fn exceeded(&self, exceeded: MemoryExceeded) {
        // Waits while the channel is full; fails once the agent has stopped.
        let _stopped = self.exceeded.blocking_send(exceeded);
    }
}

/// Returns what was found of one container, as faces show it.
fn container_use(look: &ContainerLook) -> ContainerUse {
    let account = &look.account;
    let stalled = |parts: StalledParts| Stalled {
        cpu_percent: parts.cpu_percent,
        memory_percent: parts.memory_percent,
        io_percent: parts.io_percent,
    };
    ContainerUse {
        asked: look.spec.map(|spec| spec.resource).unwrap_or_default(),
        is_confined: account.is_confined,
        memory_bytes: account.memory_bytes,
        memory_peak_bytes: account.memory_peak_bytes,
        charged_peak_bytes: account.charged_peak_bytes,
        cpu_time_ms: account.cpu_time_us / 1_000,
        cpu_millis: account.cpu_millis,
        read_bytes: account.read_bytes,
        written_bytes: account.written_bytes,
        stalled: account.stalled.map(stalled),
    }
}

/// Starts the monitor's thread.
pub(super) fn make_monitor(
    config: &Config,
    performer: &Performer,
    (exceeded, uses): (mpsc::Sender<MemoryExceeded>, watch::Sender<Arc<Uses>>),
    clock: Clock,
) -> Result<(Monitor, watch::Receiver<Sample>), AgentError> {
    let listener = MonitorListener {
        metrics: Arc::clone(&performer.metrics),
        exceeded,
        uses,
        clock,
    };
    let pressure = |class| performer.isolation.as_ref()?.pressure(class);
    let classes = PerExecutionType {
        guaranteed: pressure(ExecutionType::Guaranteed),
        opportunistic: pressure(ExecutionType::Opportunistic),
    };
    Monitor::start(
        slices::monitor(config),
        Arc::clone(&performer.launcher),
        classes,
        performer.isolation.as_ref().map(Isolation::accounts),
        listener,
    )
    .map_err(starting("the monitor's thread"))
}

/// Ends when a task of the launcher has panicked, and at the stop.
pub(super) async fn watch_launcher(
    broken: impl Future<Output = ()>,
    stop: CancellationToken,
) -> &'static str {
    tokio::select! {
        () = broken => {}
        () = stop.cancelled() => {}
    }
    "the watch of a container"
}

/// Removes unused resources from the cache at intervals, down to its target size.
pub(super) async fn clean_cache(
    localizer: localize::Localizer,
    limits: watch::Receiver<LocalizerConfig>,
    stop: CancellationToken,
) -> &'static str {
    let interval_ms = limits.borrow().cache_cleanup_interval_ms;
    let interval = Duration::from_millis(interval_ms.max(1));
    loop {
        tokio::select! {
            () = stop.cancelled() => return "the cleaner of the cache",
            () = tokio::time::sleep(interval) => {}
        }
        let localizer = localizer.clone();
        let target_mb = limits.borrow().cache_target_size_mb;
        let target_bytes = target_mb.saturating_mul(1 << 20);
        let evicted =
            tokio::task::spawn_blocking(move || localizer.clean_up_cache(target_bytes)).await;
        match evicted {
            Ok(0) => {}
            Ok(evicted) => tracing::info!(evicted, "unused resources left the cache"),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
}

/// Makes the accounts that containers run as; `None`: they run as this process's user.
pub(super) fn make_users(config: &Config) -> Result<Option<Arc<Users>>, AgentError> {
    let ContainerExecutor::Users(config) = &config.launch.executor else {
        return Ok(None);
    };
    let obstacles = users::obstacles();
    let mut problems: Vec<String> = obstacles.iter().map(ToString::to_string).collect();
    let users = match Users::new(config.rules.clone(), config.group.as_deref()) {
        Ok(users) if problems.is_empty() => users,
        Ok(_) => return Err(AgentError::CannotRunAsUsers(problems)),
        Err(error @ GroupError::LookUp { .. }) if problems.is_empty() => {
            return Err(AgentError::Group(error));
        }
        Err(error) => {
            problems.push(error.to_string());
            return Err(AgentError::CannotRunAsUsers(problems));
        }
    };
    users::seal_this_process().map_err(starting("to keep users from tracing the agent"))?;
    Ok(Some(Arc::new(users)))
}

/// Makes the file systems of the node, and what reads archives. Clients of HDFS and readers of
/// archives are in processes of their own: as the users for whom they work, where containers run as
/// users, and otherwise as this process's user. For the node's own work a name suffices, as HDFS
/// has no other measure of who asks; so where this process may become others, the client has the
/// rights of nobody rather than the superuser's.
pub(super) fn make_file_systems(
    config: &Config,
    users: Option<Arc<Users>>,
    security: Option<Security>,
) -> (FileSystems, Arc<Pool>) {
    let account_of = move |caller: Caller<'_>| {
        let users = users.as_ref()?;
        let account = (!caller.is_own).then(|| users.run_as(caller.user).ok());
        // Whoever has no account of the system is still a user of HDFS.
        let nobody = || Arc::new(Account::anybody());
        Some(account.flatten().unwrap_or_else(nobody))
    };
    let pool = Arc::new(Pool::new(PoolConfig {
        program: Program::own(),
        file_systems: config.file_systems.clone(),
        account_of: Box::new(account_of),
        security,
    }));
    let default_fs = config.file_systems.default_fs.clone();
    let systems = FileSystems::opened_by(default_fs, Arc::clone(&pool) as _);
    (systems, pool)
}

/// The node's folders, checked once, and the threads that delete.
pub(super) struct Folders {
    pub(super) dirs: NodeDirs,
    pub(super) checks: DiskChecks,
    pub(super) deletion: localize::DeletionService,
    /// Resources of an earlier run that are in the caches.
    pub(super) cached: Vec<KeptResource>,
}

impl Folders {
    /// Lets the localizer go on with the resources of an earlier run, and returns it.
    pub(super) fn restore_caches(
        &mut self,
        recovery: Option<&Recovery>,
        localizer: &localize::Localizer,
    ) -> localize::Localizer {
        if let Some(recovery) = recovery {
            recovery.restore_caches(localizer, std::mem::take(&mut self.cached));
        }
        localizer.clone()
    }

    pub(super) fn start(
        config: &Config,
        shared: &Shared,
        recovery: Option<&Recovery>,
    ) -> Result<Self, AgentError> {
        let now = shared.clock.now().wall;
        let disks = config.health.disks;
        let started = match recovery {
            None => NodeDirs::start(&config.dirs, disks, now),
            Some(recovery) => NodeDirs::start_again(&config.dirs, disks, now, recovery.needed()),
        };
        let started = started.map_err(AgentError::Dirs)?;
        let dirs = started.dirs.for_users(shared.users.clone());
        let deletion = localize::DeletionService::start(&config.deletion)
            .map_err(starting("the deletion threads"))?;
        deletion.delete(started.leftovers);
        Ok(Self {
            dirs,
            checks: started.checks,
            deletion,
            cached: started.cached,
        })
    }
}

/// Starts the isolation by cgroups if the configuration or a delegated cgroup asks for it, and logs
/// its availability once.
fn start_isolation(
    config: &Config,
    senders: &WorkerSenders,
    shared: &Shared,
) -> Result<(Option<Isolation>, Availability), AgentError> {
    let kept = shared.outliving.as_ref().map(|outliving| &outliving.kept);
    let kept = kept.cloned().unwrap_or_default();
    let offer = slices::offer(config, node_identity::hardware());
    let (isolation, availability) =
        Isolation::start(&config.cgroups, offer, &kept, senders.isolation.clone())
            .map_err(starting("the threads for cgroups"))?;
    availability.log();
    Ok((isolation, availability))
}

fn start_localizer(
    config: &Config,
    folders: &Folders,
    shared: &Shared,
) -> Result<(localize::Localizer, localize::LocalizerThreads), AgentError> {
    let sources = localize::Sources {
        file_systems: Arc::clone(&shared.files.systems),
        archives: Arc::clone(&shared.archives) as _,
        own_user: shared.files.user.clone(),
    };
    localize::Localizer::start(
        &config.localizer,
        folders.dirs.clone(),
        folders.deletion.clone(),
        sources,
        crate::clock::wall_now,
    )
    .map_err(starting("the localizer threads"))
}

fn start_events(config: &Config) -> Result<Option<EventWriter>, AgentError> {
    let started = config.event_record.clone().map(EventWriter::start);
    started
        .transpose()
        .map_err(starting("the thread that records events"))
}

pub(super) fn make_performer(
    config: &Config,
    environment: BTreeMap<String, String>,
    folders: &Folders,
    address: &NodeAddress,
    shared: &Shared,
    services: AuxServices,
    senders: &WorkerSenders,
) -> Result<(Performer, localize::LocalizerThreads), AgentError> {
    let destination = |logs: &LogAggregationConfig| slices::log_destination(logs, &shared.files);
    let uploads = slices::log_uploader(config, address, &folders.dirs, destination);
    let (localizer, localizer_threads) = start_localizer(config, folders, shared)?;
    let (isolation, availability) = start_isolation(config, senders, shared)?;
    shared.metrics.set_isolation(&availability);
    let launch_config = LaunchConfig {
        isolation: isolation.clone(),
        outlives: shared
            .outliving
            .as_ref()
            .map(|outliving| outliving.launches.clone()),
        ..slices::launch(config, address, environment)
    };
    let launcher = Launcher::start(
        launch_config,
        senders.launches.clone(),
        tokio::runtime::Handle::current(),
    )
    .map_err(starting("the launch threads"))?;
    let logs = uploads.map(|(threads, uploader)| {
        let outcomes = senders.logs.clone();
        // Waits while the channel is full; fails once the core has ended.
        let listener = move |outcome| drop(outcomes.blocking_send(outcome));
        LogAggregation::start(threads, uploader, Box::new(listener))
    });
    let performer = Performer {
        isolation,
        launcher: Arc::new(launcher),
        localizer,
        dirs: folders.dirs.clone(),
        deletion: folders.deletion.clone(),
        logs: logs
            .transpose()
            .map_err(starting("the threads that upload logs"))?,
        services,
        localizations: senders.localizations.clone(),
        metrics: Arc::clone(&shared.metrics),
        linking: Arc::new(Semaphore::new(LINKING_MAX)),
        heartbeat_now: Arc::clone(&shared.heartbeat_now),
        secrets: Arc::clone(&shared.secrets),
        offers: OfferTask::new(Arc::clone(&shared.peers), senders.answers.clone()),
        tokens: Arc::clone(&shared.tokens),
        file_workers: Arc::clone(&shared.archives),
        proxy: shared.proxy.clone(),
        records: shared
            .outliving
            .as_ref()
            .map(|outliving| outliving.writer.clone()),
        events: start_events(config)?,
        traces: shared.traces.clone(),
    };
    Ok((performer, localizer_threads))
}
