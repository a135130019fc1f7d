//! Makes every task, thread and channel of the agent, and ends them in order.
//!
//! ```text
//! start ──► folders, threads ──► core_task ──► RPC server ──► web server ──► status updater ──► Running
//! stop  ◄── deletion, threads ◄── core_task ◄── RPC server ◄── web server ◄── status updater (unregister)
//! ```
//!
//! The stop goes the other way: no more containers are taken, those that run are ended, the ResourceManager is told, and only
//! then do the parts that did it end.

mod slices;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use records::NodeId;
use sched::ContainerScheduler;
use thiserror::Error;
use time::UtcOffset;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use wire::protocol::container_management::ContainerManagementService;
use wire::server::{RpcServer, ServerAuth};

use crate::admin::{AdminError, AdminServer};
use crate::clock::Clock;
use crate::config::{Config, LocalizerConfig};
use crate::container_manager::ContainerManager;
use crate::core::{Core, CoreParts};
use crate::core_task::{self, Handle};
use crate::hands::{Effect, Hands};
use crate::launch::Launcher;
use crate::localize::{self, NodeDirs};
use crate::metrics::Metrics;
use crate::monitor::{Monitor, Sample};
use crate::node_identity::{self, IdentityError};
use crate::resource_manager::{
    Ended, NodeDescription, NodeStatusUpdater, RmConnection, UpdaterError, UpdaterParts,
};
use crate::secrets::NodeSecrets;

/// The Hadoop release whose NodeManager this agent stands in for: the version that it registers with.
pub const HADOOP_VERSION: &str = "3.4.2";

/// How long one attempt to reach the ResourceManager may take before the next address is tried.
const RM_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the ResourceManager may take to answer (Hadoop: `ipc.client.rpc-timeout.ms`).
const RM_CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Added to the kill delays before an orderly stop gives up on containers (Hadoop: 1000 ms).
const STOP_SLACK: Duration = Duration::from_secs(1);

/// Launch and exit events between the launcher's threads and the forwarder. A full channel makes launches wait.
const LAUNCH_EVENTS_MAX: usize = 1024;

/// What the program was started with. Nothing below the program asks the process for it.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its environment: the source of the variables that `yarn.nodemanager.env-whitelist` lets containers have.
    pub environment: BTreeMap<String, String>,
    /// Local time's distance from UTC, for times that people read.
    pub utc_offset: UtcOffset,
}

/// Why the agent could not start, or ended otherwise than in order.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The node's name or an address cannot be told.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The web port cannot be had.
    #[error("starting the web port (yarn.nodemanager.webapp.address)")]
    Web(#[source] AdminError),
    /// A local or log directory cannot be used.
    #[error("preparing the local and log directories")]
    Dirs(#[source] localize::DirsError),
    /// A thread or port cannot be had.
    #[error("starting {what}")]
    Start {
        /// Which part.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The ResourceManager refuses the node, or nobody answered.
    #[error(transparent)]
    ResourceManager(Box<UpdaterError>),
    /// A task ended that should not have.
    #[error("{0} ended unexpectedly")]
    TaskEnded(&'static str),
}

impl From<UpdaterError> for AgentError {
    fn from(error: UpdaterError) -> Self {
        Self::ResourceManager(Box::new(error))
    }
}

fn starting(what: &'static str) -> impl FnOnce(std::io::Error) -> AgentError {
    move |source| AgentError::Start { what, source }
}

/// An agent that has been started: its ports listen, its registration is under way.
pub struct Running {
    node_id: NodeId,
    http_port: u16,
    registered: oneshot::Receiver<()>,
    agent: JoinHandle<Result<(), AgentError>>,
}

impl Running {
    /// Host and port of the container management service.
    #[must_use]
    pub fn node_id(&self) -> &NodeId {
        &self.node_id
    }

    /// The port of web pages and metrics.
    #[must_use]
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    /// Resolves at the first registration; `false` when the agent ended before.
    pub async fn registered(&mut self) -> bool {
        (&mut self.registered).await.is_ok()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// [`AgentError`] when it was not an orderly one.
    pub async fn join(self) -> Result<(), AgentError> {
        self.agent
            .await
            .unwrap_or(Err(AgentError::TaskEnded("the agent's task")))
    }
}

/// Starts all parts. Returns once the ports listen; the registration follows by itself.
///
/// # Errors
/// [`AgentError`] when a part cannot start.
pub async fn start(
    config: Config,
    process: Process,
    stop: CancellationToken,
) -> Result<Running, AgentError> {
    let (tell_registered, registered) = oneshot::channel();
    let agent = Agent::assemble(config, process).await?;
    let (node_id, http_port) = (agent.node_id.clone(), agent.http_port);
    let agent = tokio::spawn(agent.run(stop, tell_registered));
    Ok(Running {
        node_id,
        http_port,
        registered,
        agent,
    })
}

/// All parts, started but for the loop toward the ResourceManager.
struct Agent {
    node_id: NodeId,
    http_port: u16,
    updater: NodeStatusUpdater,
    handle: Handle,
    core: JoinHandle<()>,
    /// RPC and web. Each returns its name, and only when it is told to end.
    servers: JoinSet<&'static str>,
    servers_stop: CancellationToken,
    /// Ends the updater's loop.
    updater_stop: CancellationToken,
    threads: Threads,
    /// How long containers get to end when the agent stops.
    stop_patience: Duration,
}

impl Agent {
    async fn assemble(config: Config, process: Process) -> Result<Self, AgentError> {
        let (effects, effects_inbox) = mpsc::unbounded_channel();
        let (handle, inbox) = core_task::channel(effects_inbox);
        let shared = Shared {
            clock: Clock::start(),
            handle,
            secrets: Arc::default(),
            metrics: Arc::new(Metrics::new()),
            heartbeat_now: Arc::default(),
        };
        let ports = Ports::listen(&config, process.utc_offset, &shared).await?;
        let folders = Folders::start(&config, shared.clock)?;
        let capacity = config.capacity.resolve(node_identity::hardware());
        let scheduler = slices::scheduler(&config, process.utc_offset);
        let (hands, localizer_threads) =
            make_hands(&config, process.environment, &ports, &folders, effects).await?;
        let interval = Duration::from_millis(config.monitor.interval_ms.max(1));
        let (monitor, utilization) = Monitor::start(interval, Arc::clone(&hands.launcher))
            .map_err(starting("the monitor's thread"))?;
        let localizer = hands.localizer.clone();
        let core = Core::new(CoreParts {
            config: slices::core(&config, &ports, &folders.dirs, shared.clock),
            scheduler: ContainerScheduler::new(scheduler, capacity.offered),
            hands,
            secrets: Arc::clone(&shared.secrets),
            metrics: Arc::clone(&shared.metrics),
            heartbeat_now: Arc::clone(&shared.heartbeat_now),
        });
        let core = tokio::spawn(core_task::run(core, inbox, shared.clock));
        let node = slices::node(ports.node_id.clone(), ports.http_port, capacity);
        let (updater, updater_stop) = make_updater(&config, node, &shared, utilization);
        let (node_id, http_port) = (ports.node_id.clone(), ports.http_port);
        let servers_stop = CancellationToken::new();
        let servers = ports.serve(&servers_stop);
        tokio::spawn(keep_cache(
            localizer,
            config.localizer,
            servers_stop.clone(),
        ));
        Ok(Self {
            node_id,
            http_port,
            updater,
            handle: shared.handle,
            core,
            servers,
            servers_stop,
            updater_stop,
            threads: Threads {
                deletion: folders.deletion,
                localizer: localizer_threads,
                monitor,
            },
            stop_patience: slices::stop_patience(&config),
        })
    }

    /// Runs until told to stop, or until a part fails; then ends everything in order.
    async fn run(
        mut self,
        stop: CancellationToken,
        tell_registered: oneshot::Sender<()>,
    ) -> Result<(), AgentError> {
        let mut was_registered = false;
        let ended = {
            let Self {
                updater,
                servers,
                handle,
                updater_stop,
                stop_patience,
                ..
            } = &mut self;
            let updater_loop = updater.run(|| {
                was_registered = true;
                let _nobody_waits = tell_registered.send(());
            });
            tokio::pin!(updater_loop);
            let first = tokio::select! {
                ended = &mut updater_loop => Some(ended.map_err(AgentError::from)),
                Some(server) = servers.join_next() => {
                    let name = server.unwrap_or("a server");
                    updater_stop.cancel();
                    Some(Err(AgentError::TaskEnded(name)))
                }
                () = stop.cancelled() => None,
            };
            match first {
                Some(ended) => {
                    drain(handle, *stop_patience).await;
                    ended
                }
                // Heartbeats go on while containers end, so that the ResourceManager hears of each.
                None => {
                    let drained = async {
                        drain(handle, *stop_patience).await;
                        updater_stop.cancel();
                    };
                    tokio::join!(updater_loop, drained)
                        .0
                        .map_err(AgentError::from)
                }
            }
        };
        let unregister =
            was_registered && matches!(ended, Ok(Ended::Stopping) | Err(AgentError::TaskEnded(_)));
        self.end(unregister).await;
        ended.map(|_| ())
    }

    async fn end(mut self, unregister: bool) {
        if unregister {
            self.updater.unregister().await;
        }
        self.servers_stop.cancel();
        while self.servers.join_next().await.is_some() {}
        drop((self.updater, self.handle));
        if self.core.await.is_err() {
            tracing::error!("the core task panicked");
        }
        let threads = self.threads;
        if tokio::task::spawn_blocking(move || threads.stop())
            .await
            .is_err()
        {
            tracing::error!("stopping the threads failed");
        }
        tracing::info!("stopped");
    }
}

/// Threads with an end of their own. Those of the launcher end with the core, which owns it.
struct Threads {
    deletion: localize::DeletionService,
    localizer: localize::LocalizerThreads,
    monitor: Monitor,
}

impl Threads {
    fn stop(self) {
        self.monitor.stop();
        self.localizer.stop();
        self.deletion.stop();
    }
}

fn make_updater(
    config: &Config,
    node: NodeDescription,
    shared: &Shared,
    utilization: watch::Receiver<Sample>,
) -> (NodeStatusUpdater, CancellationToken) {
    let stop = CancellationToken::new();
    let updater = NodeStatusUpdater::new(UpdaterParts {
        config: slices::updater(config),
        node,
        connection: RmConnection::new(slices::rm_connection(config)),
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

/// Ends all containers, waiting for them as long as `patience`.
async fn drain(handle: &Handle, patience: Duration) {
    match tokio::time::timeout(patience, handle.shutdown()).await {
        Ok(Ok(())) => tracing::info!("all containers have ended"),
        Ok(Err(stopped)) => tracing::error!(%stopped, "the containers cannot be ended any more"),
        Err(_) => tracing::error!(waited = ?patience, "some containers have not ended"),
    }
}

/// The two servers, listening, and what is known by their ports.
struct Ports {
    rpc: RpcServer,
    web: AdminServer<Handle>,
    node_id: NodeId,
    http_port: u16,
}

impl Ports {
    async fn listen(
        config: &Config,
        utc_offset: UtcOffset,
        shared: &Shared,
    ) -> Result<Self, AgentError> {
        let manager = ContainerManager::new(
            shared.handle.clone(),
            Arc::clone(&shared.secrets),
            Arc::clone(&shared.metrics),
            shared.clock,
        );
        let secrets = Arc::clone(&shared.secrets);
        let (rpc, address) = RpcServer::builder(ServerAuth::Token(secrets))
            .service(ContainerManagementService::new(Arc::new(manager)))
            .bind(node_identity::resolve(&config.addresses.node_bind()).await?)
            .await
            .map_err(starting(
                "the container management port (yarn.nodemanager.address)",
            ))?;
        let web = AdminServer::bind(
            node_identity::resolve(&config.addresses.web_bind()).await?,
            Arc::new(shared.handle.clone()),
            Arc::clone(&shared.metrics),
            slices::admin(config, utc_offset),
        )
        .await
        .map_err(AgentError::Web)?;
        let host = node_identity::node_host(&config.addresses.node)?;
        let node_id = NodeId {
            host,
            port: address.port(),
        };
        // Before any peer is served: tokens are checked against it.
        shared.secrets.set_node_id(node_id.clone());
        let http_port = web.local_address().port();
        Ok(Self {
            rpc,
            web,
            node_id,
            http_port,
        })
    }
    fn serve(self, stop: &CancellationToken) -> JoinSet<&'static str> {
        let mut servers = JoinSet::new();
        let (rpc_stop, web_stop) = (stop.clone(), stop.clone());
        servers.spawn(async move {
            self.rpc.serve(rpc_stop).await;
            "the container management server"
        });
        servers.spawn(async move {
            self.web.serve(web_stop).await;
            "the web server"
        });
        servers
    }
}

/// What several parts hold.
struct Shared {
    clock: Clock,
    handle: Handle,
    secrets: Arc<NodeSecrets>,
    metrics: Arc<Metrics>,
    heartbeat_now: Arc<Notify>,
}

/// Holds the cache of localized resources against its target size, now and then.
async fn keep_cache(
    localizer: localize::Localizer,
    config: LocalizerConfig,
    stop: CancellationToken,
) {
    let target_bytes = config.cache_target_size_mb.saturating_mul(1 << 20);
    let interval = Duration::from_millis(config.cache_cleanup_interval_ms.max(1));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
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
struct Folders {
    dirs: NodeDirs,
    deletion: localize::DeletionService,
}

impl Folders {
    fn start(config: &Config, clock: Clock) -> Result<Self, AgentError> {
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

async fn make_hands(
    config: &Config,
    environment: BTreeMap<String, String>,
    ports: &Ports,
    folders: &Folders,
    effects: mpsc::UnboundedSender<Effect>,
) -> Result<(Hands, localize::LocalizerThreads), AgentError> {
    let (localizer, localizer_threads) = localize::Localizer::start(
        &config.localizer,
        folders.dirs.clone(),
        folders.deletion.clone(),
        crate::clock::wall_now,
    )
    .map_err(starting("the localizer threads"))?;
    let (launch_events, mut launched) = mpsc::channel(LAUNCH_EVENTS_MAX);
    let launch_config = slices::launcher(config, environment, ports);
    let launcher = Launcher::start(
        launch_config,
        launch_events,
        tokio::runtime::Handle::current(),
    )
    .map_err(starting("the launch threads"))?;
    let forward = effects.clone();
    tokio::spawn(async move {
        while let Some(event) = launched.recv().await {
            if forward.send(Effect::Launch(event)).is_err() {
                break;
            }
        }
    });
    let address = node_identity::resolve(&crate::config::HostPort::new(
        &ports.node_id.host,
        ports.node_id.port,
    ))
    .await;
    let node_address = address.map_or_else(
        |_| ports.node_id.host.clone(),
        |address| address.ip().to_string(),
    );
    let hands = Hands {
        launcher: Arc::new(launcher),
        localizer,
        dirs: folders.dirs.clone(),
        deletion: folders.deletion.clone(),
        effects,
        node_address,
    };
    Ok((hands, localizer_threads))
}
