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
//! - `process`, `error`: facts about the process, and the reasons for which it ends
//! - `kerberos`, `identity_check`: the node's identity in a secure cluster, and the same tried
//!   without a node
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
mod error;
mod health;
mod identity_check;
mod kerberos;
mod pages;
mod parts;
mod ports;
mod process;
mod proxy;
mod recovery;
mod reloading;
mod service_manager;
mod shared;
mod slices;

use node_web::overview::Overview;
use node_web::source::NodeSource as _;
use records::NodeId;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::core_task::WeakHandle;

use self::agent::Agent;
pub use self::error::AgentError;
pub use self::identity_check::{IdentityFinding, check_identity, own_file_systems};
pub use self::process::{HADOOP_VERSION, Process};
use self::shared::NodeAddress;

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
