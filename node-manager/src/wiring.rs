//! Makes every task, thread and channel of the agent, and ends them in order.
//!
//! ```text
//! start ─► folders, threads ─► core_task ─► RPC server ─► web server ─► status updater ─► Running
//! stop  ◄─ deletion, threads ◄─ core_task ◄─ RPC server ◄─ web server ◄─ updater (unregister)
//! ```
//!
//! The stop goes the other way: no more containers are taken, those that run are ended, the
//! ResourceManager is notified, and only then do the parts that did it end. Each step has a bound,
//! so that nothing that hangs can hold the stop back.
//!
//! - `agent`: all parts together, their run and their end
//! - `health`: the checks of directories and the health scripts
//! - `shared`: what several of them hold
//! - `ports`: the two servers
//! - `proxy`: the AMRMProxy
//! - `parts`: directories, the performer, the status updater, the cleaner of the cache
//! - `recovery`: what another agent has left
//! - `reloading`: the configuration read again while the agent runs
//! - `service_manager`: notifications, kept sockets, and parts that are stuck
//! - `slices`: each part's slice of the configuration

mod agent;
mod health;
mod parts;
mod ports;
mod proxy;
mod recovery;
mod reloading;
mod service_manager;
mod shared;
mod slices;

use std::collections::BTreeMap;
use std::path::PathBuf;

use node_web::overview::Overview;
use node_web::site::WebError;
use node_web::source::NodeSource as _;
use records::NodeId;
use service::Manager;
use state_store::StoreError;
use thiserror::Error;
use time::UtcOffset;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::aux_services::ServiceFailed;
use crate::config::Config;
use crate::core_task::WeakHandle;
use crate::node_identity::IdentityError;
use crate::node_labels::ProviderError;
use crate::reload::Reloading;
use crate::resource_manager::UpdaterError;

use self::agent::Agent;
pub(crate) use self::reloading::ReloadOrders;
use self::shared::NodeAddress;

/// The Hadoop release whose NodeManager this agent stands in for: the version that it registers
/// with.
pub const HADOOP_VERSION: &str = "3.4.2";

/// Time at which that release was built, as its NodeManager's REST reports it.
const HADOOP_BUILT_ON: &str = "2025-08-20T10:30Z";

/// Facts about the process in which the agent runs. Nothing below the program asks the process for
/// them.
#[derive(Clone, Debug)]
pub struct Process {
    /// Environment of the process: the source of the variables that
    /// `yarn.nodemanager.env-whitelist` lets containers have.
    pub environment: BTreeMap<String, String>,
    /// Folders of the configuration, for what is read again while the agent runs; empty: nothing
    /// is.
    pub conf_dirs: Vec<PathBuf>,
    /// Means to read the configuration again.
    pub reloading: Reloading,
    /// Local time's distance from UTC, for times that people read.
    pub utc_offset: UtcOffset,
    /// Service manager of the process.
    pub manager: Manager,
}

/// Why the agent could not start, or ended otherwise than in order.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The node's name or an address cannot be found out.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The web port cannot be had.
    #[error("starting the web port (yarn.nodemanager.webapp.address)")]
    Web(#[source] WebError),
    /// The admin socket cannot be had.
    #[error("starting the admin socket (yarn.nodemanager.agent.admin.socket)")]
    Admin(#[source] node_admin::BindError),
    /// A local or log directory cannot be used.
    #[error("preparing the local and log directories")]
    Dirs(#[source] localize::DirsError),
    /// Containers are to run as other users, which this process may not do, or with a group that
    /// the system does not have.
    #[error("running containers as other users (yarn.nodemanager.container-executor.class): {}", .0.join("; "))]
    CannotRunAsUsers(Vec<String>),
    /// The system does not say which group the folders of users are to have.
    #[error("looking up the group of the folders of users")]
    Group(#[source] users::GroupError),
    /// The node's state store cannot be opened.
    #[error(transparent)]
    StateStore(StoreError),
    /// The notes of processes that an earlier agent started cannot be used.
    #[error("starting the recovery (yarn.nodemanager.recovery.dir)")]
    Starts(#[source] keeper::StartsError),
    /// An auxiliary service cannot be started.
    #[error(transparent)]
    AuxService(#[from] ServiceFailed),
    /// A provider of the node's labels or attributes cannot be started.
    #[error(transparent)]
    NodeLabels(#[from] ProviderError),
    /// A thread or port cannot be had.
    #[error("starting {what}")]
    Start {
        /// Part that cannot be started.
        what: &'static str,
        /// Error of the operating system.
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

impl AgentError {
    /// Returns whether the configuration is at fault, so that another start with it would fail in
    /// the same way.
    #[must_use]
    pub fn is_of_configuration(&self) -> bool {
        use node_admin::BindError::{NoSuchGroup, TooLong};
        matches!(
            self,
            Self::CannotRunAsUsers(_) | Self::Admin(NoSuchGroup(_) | TooLong { .. })
        )
    }
}

impl From<UpdaterError> for AgentError {
    fn from(error: UpdaterError) -> Self {
        Self::ResourceManager(Box::new(error))
    }
}

fn starting(what: &'static str) -> impl FnOnce(std::io::Error) -> AgentError {
    move |source| AgentError::Start { what, source }
}

/// Looks at an agent from its own process, without keeping it from its end.
#[derive(Clone)]
pub struct NodeWatch(WeakHandle);

impl NodeWatch {
    /// The node as it is now; `None` once it has stopped.
    pub async fn overview(&self) -> Option<Overview> {
        self.0.upgrade()?.overview().await
    }
}

/// An agent that has been started: its ports listen, its registration is under way.
pub struct Running {
    node_id: NodeId,
    http_port: u16,
    watch: NodeWatch,
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

    /// A look at the node, for as long as it runs.
    #[must_use]
    pub fn watch(&self) -> NodeWatch {
        self.watch.clone()
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
    let NodeAddress { node_id, http_port } = agent.address.clone();
    let watch = NodeWatch(agent.handle.downgrade());
    let agent = tokio::spawn(agent.run(stop, tell_registered));
    Ok(Running {
        node_id,
        http_port,
        watch,
        registered,
        agent,
    })
}
