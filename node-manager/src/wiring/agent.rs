//! All parts together: made, run, and ended in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use amrm_proxy::config::FileAccess;
use late_binding::Peers;
use log_aggregation::LogAggregation;
use node_core::{Attempts, Core, CoreParts, HealthEvent, Machine, RestoredState, WorkerEvent};
use node_web::metrics::{Metrics, TraceReading};
use sched::ContainerScheduler;
use service::{Manager, Message, Vitals};
use time::UtcOffset;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use traces::{Export, Traces};

use super::error::AgentError;
use super::health::{FirstVerdicts, HealthThreads};
use super::kerberos;
use super::parts::{self, Folders, Threads};
use super::ports::{BesidePorts, Ports};
use super::process::Process;
use super::proxy;
use super::recovery::Recovery;
use super::reloading::Reloader;
use super::service_manager::{self, Supervision};
use super::shared::{NodeAddress, Shared};
use super::slices;
use crate::application_tokens::ApplicationTokens;
use crate::aux_services::{AuxServices, ServiceThreads};
use crate::clock::Clock;
use crate::config::{Capacity, Config};
use crate::core_task::{self, Handle, Inbox};
use crate::node_identity;
use crate::performer::Performer;
use crate::recovery::StateWriter;
use crate::resource_manager::{Ended, NodeStatusUpdater, UpdaterError};
use crate::secrets::NodeSecrets;
use crate::service_authorization::PortAuthorization;
use crate::worker_channels::{self, WorkerEvents, WorkerSenders};

/// How long each step of the end may take once the containers are gone: servers, core, threads. The
/// RPC server's own patience with calls in flight, the longest of them, is half of it.
const STEP_PATIENCE: Duration = Duration::from_secs(10);

/// How long the stop waits for logs that are being uploaded.
const LOGS_PATIENCE: Duration = Duration::from_secs(4);

/// What the clock of an agent that may recover containers read when the machine started, in
/// milliseconds: 30 days.
const EARLIEST_MS: u64 = 30 * 24 * 3_600_000;

/// The parts of an agent, started but for the loop toward the ResourceManager.
pub(super) struct Agent {
    pub(super) address: NodeAddress,
    updater: NodeStatusUpdater,
    pub(super) handle: Handle,
    /// The core's one task. It ends when every [`Handle`] is gone.
    core: JoinSet<()>,
    /// Servers and the cleaner of the cache. Each returns its name, and only when `tasks_stop` is
    /// cancelled.
    tasks: JoinSet<&'static str>,
    tasks_stop: CancellationToken,
    /// First verdicts of the health scripts, which the registration waits for.
    first_verdicts: FirstVerdicts,
    /// Ends the updater's loop.
    updater_stop: CancellationToken,
    threads: Threads,
    /// Threads that upload logs; `None`: logs are not aggregated.
    logs: Option<LogAggregation>,
    manager: Manager,
    supervision: Supervision,
    /// How long containers get to end when the agent stops.
    stop_patience: Duration,
    /// Containers go on when the agent is told to stop, and the node is not unregistered
    /// (`yarn.nodemanager.recovery.supervised`).
    leaves_containers: bool,
    /// Records for the next agent, and those of the caches.
    records: Option<StateWriter>,
}

/// First reason to end an agent that runs.
enum First {
    /// The loop toward the ResourceManager ended, in order or with an error.
    LoopEnded(Result<Ended, UpdaterError>),
    /// A task of this name ended that should not have.
    TaskEnded(&'static str),
    Stop,
}

impl Agent {
    pub(super) async fn assemble(config: Config, process: Process) -> Result<Self, AgentError> {
        let (senders, workers) = worker_channels::channels();
        let (handle, inbox) = core_task::channel();
        let mut recovery = Recovery::open(&config.recovery)?;
        let (environment, kept) = (&process.environment, recovery.as_mut());
        let (shared, beside) = make_shared(&config, environment, handle, kept).await?;
        let (reloader, orders) = Reloader::new(&config, &process, &shared);
        let mut ports = Ports::listen(&config, &process, &shared).await?;
        let mut folders = Folders::start(&config, &shared, recovery.as_ref())?;
        let (providers, node_reports) = parts::start_providers(&config, &process)?;
        let (services, service_threads) =
            start_services(&mut ports, &folders, &shared, recovery.as_mut(), &senders)?;
        let capacity = config.capacity.resolve(node_identity::hardware());
        let (performer, localizer_threads) = parts::make_performer(
            &config,
            process.environment.clone(),
            &folders,
            &ports.address,
            &shared,
            services,
            &senders,
        )?;
        let out = (senders.exceeded, inbox.uses());
        let (monitor, utilization) = parts::make_monitor(&config, &performer, out, shared.clock)?;
        let localizer = folders.restore_caches(recovery.as_ref(), &performer.localizer);
        let (logs, deletion) = (performer.logs.clone(), folders.deletion.clone());
        let machine = node_identity::machine().await?;
        let launcher_broken = performer.launcher.broken();
        let supervision =
            Supervision::start(&shared.vitals, &process.manager, &performer.launcher)?;
        let restored = recovery.map(|left| left.into_core_state(&folders.dirs, &senders.launches));
        let folders = (folders.dirs, folders.checks, folders.deletion);
        let (health, first_verdicts) =
            HealthThreads::start(&config, process.environment, folders, senders.health)?;
        let facts = (capacity, machine, process.utc_offset);
        let core = make_core(&config, &ports.address, &shared, &performer, facts);
        let core = spawn_core(core, restored, performer, (inbox, workers), shared.clock);
        let node = slices::node(&ports.address, capacity);
        let (updater, updater_stop) =
            parts::make_updater(&config, node, &shared, utilization, node_reports);
        let (address, tasks_stop) = (ports.address.clone(), CancellationToken::new());
        let mut tasks = ports.serve(&tasks_stop, beside, orders);
        tasks.spawn(parts::watch_launcher(launcher_broken, tasks_stop.clone()));
        let beside = (reloader, localizer);
        start_tasks(&mut tasks, &shared, &process.manager, beside, &tasks_stop);
        Ok(Self {
            address,
            updater,
            handle: shared.handle,
            core,
            tasks,
            tasks_stop,
            first_verdicts,
            updater_stop,
            threads: Threads {
                deletion,
                health,
                localizer: localizer_threads,
                services: service_threads,
                monitor,
                providers,
            },
            logs,
            manager: process.manager,
            supervision,
            stop_patience: slices::stop_patience(&config),
            leaves_containers: config.recovery.enabled && config.recovery.supervised,
            records: shared.outliving.map(|kept| kept.writer),
        })
    }

    /// Runs until `stop` is cancelled or a part fails; then ends everything in order.
    pub(super) async fn run(
        mut self,
        stop: CancellationToken,
        tell_registered: oneshot::Sender<()>,
    ) -> Result<(), AgentError> {
        let mut was_registered = false;
        // The ports take calls. The ResourceManager may be away for long, which is no reason for a
        // service manager to end the agent.
        self.manager.notify(Message::Ready);
        let ended = {
            let Self {
                updater,
                tasks,
                core,
                handle,
                first_verdicts,
                updater_stop,
                stop_patience,
                leaves_containers,
                manager,
                ..
            } = &mut self;
            let first_verdicts = std::mem::take(first_verdicts);
            let updater_loop = async {
                take_verdicts(first_verdicts, handle, updater_stop).await;
                let registered = || {
                    was_registered = true;
                    let _nobody_waits = tell_registered.send(());
                };
                updater.run(registered).await
            };
            tokio::pin!(updater_loop);
            let first = tokio::select! {
                ended = &mut updater_loop => First::LoopEnded(ended),
                Some(task) = tasks.join_next() => First::TaskEnded(task.unwrap_or("a server")),
                Some(_) = core.join_next() => First::TaskEnded("the core task"),
                () = stop.cancelled() => First::Stop,
            };
            manager.notify(Message::Stopping);
            // Heartbeats go on while containers end, so that the ResourceManager is
            // notified of each.
            let leaves_containers = *leaves_containers && matches!(first, First::Stop);
            let drained = async {
                leave_or_drain(leaves_containers, handle, *stop_patience).await;
                updater_stop.cancel();
            };
            match first {
                First::LoopEnded(ended) => {
                    drained.await;
                    ended.map_err(AgentError::from)
                }
                First::TaskEnded(name) => {
                    let (_loop_ended, ()) = tokio::join!(updater_loop, drained);
                    Err(AgentError::TaskEnded(name))
                }
                First::Stop => tokio::join!(updater_loop, drained)
                    .0
                    .map_err(AgentError::from),
            }
        };
        let is_given_up = matches!(ended, Ok(Ended::ShutdownOrdered { .. }));
        let unregister = was_registered
            && !(self.leaves_containers && ended.is_ok())
            && matches!(ended, Ok(Ended::Stopping) | Err(AgentError::TaskEnded(_)));
        self.end(unregister, is_given_up).await;
        ended.map(|_| ())
    }

    /// Ends the parts, those first whose results others wait for: what an upload leaves to be done,
    /// the core orders, and what the core orders to be deleted, the threads of the deletion do.
    async fn end(mut self, unregister: bool, is_given_up: bool) {
        if unregister {
            self.updater.unregister().await;
        }
        self.tasks_stop.cancel();
        let mut tasks = self.tasks;
        let servers = within("the servers", async {
            while tasks.join_next().await.is_some() {}
        });
        let uploads = within("the uploads of logs", stop_uploads(self.logs));
        tokio::join!(servers, uploads);
        // With them the last handles on the core go, and with those the core.
        drop((tasks, self.updater, self.handle));
        within("the core task", async {
            while let Some(ended) = self.core.join_next().await {
                if ended.is_err() {
                    tracing::error!("the core task panicked");
                }
            }
        })
        .await;
        if let Some(records) = self.records.filter(|_| is_given_up) {
            // Nobody will ask for what the ResourceManager has given up.
            records.clear();
        }
        let threads = self.threads;
        within("the threads", async {
            if tokio::task::spawn_blocking(move || threads.stop())
                .await
                .is_err()
            {
                tracing::error!("stopping the threads failed");
            }
        })
        .await;
        self.supervision.stop();
        tracing::info!("stopped");
    }
}

/// Starts the tasks beside the servers.
fn start_tasks(
    tasks: &mut JoinSet<&'static str>,
    shared: &Shared,
    manager: &Manager,
    (reloader, localizer): (Reloader, localize::Localizer),
    stop: &CancellationToken,
) {
    service_manager::start_tasks(tasks, shared, manager, reloader.shown(), stop);
    tasks.spawn(parts::clean_cache(
        localizer,
        reloader.cache(),
        stop.clone(),
    ));
    tasks.spawn(reloader.run(stop.clone()));
}

/// Starts the auxiliary services, with what an earlier agent stored for them.
fn start_services(
    ports: &mut Ports,
    folders: &Folders,
    shared: &Shared,
    recovery: Option<&mut Recovery>,
    senders: &WorkerSenders,
) -> Result<(AuxServices, ServiceThreads), AgentError> {
    let services = std::mem::take(&mut ports.services);
    let executors = recovery.map(Recovery::take_executors);
    let started = services.start(
        &folders.dirs,
        &shared.metrics,
        executors.as_ref(),
        senders.health.clone(),
    );
    Ok(started?)
}

/// Starts the task of the core, which goes on where another has ended if there is a state of it.
fn spawn_core(
    mut core: Core,
    restored: Option<RestoredState>,
    performer: Performer,
    (inbox, workers): (Inbox, WorkerEvents),
    clock: Clock,
) -> JoinSet<()> {
    if let Some(state) = restored {
        core.restore(state, clock.now());
    }
    let mut task = JoinSet::new();
    task.spawn(core_task::run(
        core,
        Box::new(performer),
        inbox,
        workers,
        clock,
    ));
    task
}

/// Makes the services that several parts hold, and the tasks of some of them.
async fn make_shared(
    config: &Config,
    environment: &BTreeMap<String, String>,
    handle: Handle,
    mut recovery: Option<&mut Recovery>,
) -> Result<(Shared, BesidePorts), AgentError> {
    // So that waits and pauses that began before this agent have a time.
    let clock = match recovery {
        Some(_) => Clock::of_machine(EARLIEST_MS),
        None => Clock::start(),
    };
    let metrics = Arc::new(Metrics::new());
    let identity = kerberos::identity(config.kerberos.as_ref(), &metrics).await?;
    let secrets: Arc<NodeSecrets> = Arc::default();
    if let Some(recovery) = recovery.as_deref_mut() {
        recovery.restore_keys(&secrets);
    }
    let outliving = recovery.as_ref().map(|recovery| recovery.outliving.clone());
    let commits = outliving
        .as_ref()
        .map(|outliving| outliving.writer.commits().clone());
    // Hadoop: `UserGroupInformation` with simple authentication.
    let named = environment.get("HADOOP_USER_NAME").cloned();
    let users = parts::make_users(config)?;
    let tokens: Arc<ApplicationTokens> = Arc::default();
    let security = kerberos::security(config.kerberos.as_ref(), environment, &tokens).await?;
    let (systems, archives) = parts::make_file_systems(config, users.clone(), security);
    let files = FileAccess {
        systems: Arc::new(systems),
        user: named.unwrap_or_else(node_identity::own_user),
    };
    let own_tokens = Arc::clone(&secrets) as Arc<_>;
    let peers = Arc::new(Peers::new(own_tokens, config.protections.clone()));
    let kept = (files.clone(), recovery);
    let (export, traces) = traces(config, &metrics).await?.unzip();
    let observed = (&metrics, traces.clone());
    let (proxy, updates) = proxy::make(config, clock, observed, (&secrets, &peers), kept).unzip();
    let shared = Shared {
        clock,
        handle: handle.with_proxy(proxy.clone()).with_commits(commits),
        outliving,
        vitals: Vitals::default(),
        heartbeat_now: Arc::default(),
        proxy,
        traces,
        secrets,
        peers,
        metrics,
        files,
        archives,
        tokens,
        users,
        identity,
        authorization: config.policies.clone().map(PortAuthorization::new),
    };
    Ok((shared, BesidePorts { updates, export }))
}

/// Makes the traces of containers, if a collector is configured.
async fn traces(
    config: &Config,
    metrics: &Metrics,
) -> Result<Option<(Export, Traces)>, AgentError> {
    let Some(endpoint) = &config.traces else {
        return Ok(None);
    };
    let host = node_identity::node_host(&config.addresses.node).await?;
    let (export, traces) = Export::new(endpoint.clone(), host);
    let watched = traces.clone();
    metrics.watch_traces(move || {
        let traces::Reading { sent, dropped } = watched.reading();
        TraceReading { sent, dropped }
    });
    Ok(Some((export, traces)))
}

/// Makes the core, which knows what the first check of the directories found.
fn make_core(
    config: &Config,
    address: &NodeAddress,
    shared: &Shared,
    performer: &Performer,
    (capacity, machine, utc_offset): (Capacity, Machine, UtcOffset),
) -> Core {
    let scheduler = slices::scheduler(config, capacity.physical.memory_mb, utc_offset);
    let mut core = Core::new(CoreParts {
        config: slices::core(
            config,
            machine,
            utc_offset,
            performer.isolation.is_some(),
            Arc::clone(performer.services.metadata()),
        ),
        about: slices::about(config, address, shared.clock),
        scheduler: ContainerScheduler::new(scheduler, capacity.offered),
        attempts: Arc::clone(&shared.secrets) as Arc<dyn Attempts>,
    });
    let found = WorkerEvent::Health(HealthEvent::Disks(performer.dirs.report()));
    core.handle(found, shared.clock.now(), shared.clock.now_us());
    core
}

/// Waits for the last uploads. Their outcomes are with the core then.
async fn stop_uploads(logs: Option<LogAggregation>) {
    let Some(logs) = logs else {
        return;
    };
    if tokio::task::spawn_blocking(move || logs.stop(LOGS_PATIENCE))
        .await
        .is_err()
    {
        tracing::error!("stopping the uploads of logs failed");
    }
}

/// Takes a step of the end, but not for ever: what hangs is left to the end of the process.
async fn within(what: &'static str, step: impl Future<Output = ()>) {
    if timeout(STEP_PATIENCE, step).await.is_err() {
        tracing::error!(waited = ?STEP_PATIENCE, "{what} did not end in time");
    }
}

/// Waits for the first verdicts of the health scripts, so that the registration has them.
async fn take_verdicts(verdicts: FirstVerdicts, handle: &Handle, stop: &CancellationToken) {
    for (index, verdict) in verdicts {
        // A script whose thread has ended has none.
        let Some(Ok(verdict)) = stop.run_until_cancelled(verdict).await else {
            continue;
        };
        let event = WorkerEvent::Health(HealthEvent::Script { index, verdict });
        // Fails once the agent has stopped.
        let _stopped = handle.run(|core, now| core.handle(event, now, 0)).await;
    }
}

/// Leaves the containers to the next agent, or ends them.
async fn leave_or_drain(leaves_containers: bool, handle: &Handle, patience: Duration) {
    if leaves_containers {
        tracing::info!("containers go on, for the next agent");
    } else {
        drain(handle, patience).await;
    }
}

/// Ends all containers and waits for their end, at most `patience`.
async fn drain(handle: &Handle, patience: Duration) {
    let stop = |core: &mut Core, now| core.stop(now);
    match timeout(patience, handle.run_until_ended(stop)).await {
        Ok(Ok(())) => tracing::info!("all containers have ended"),
        Ok(Err(stopped)) => tracing::error!(%stopped, "the containers cannot be ended any more"),
        Err(_) => tracing::error!(waited = ?patience, "some containers have not ended"),
    }
}

#[cfg(test)]
mod tests;
