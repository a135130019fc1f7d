//! The ResourceManager and the agents of the quick start, in this process: start, access, orderly
//! stop.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use container_runtime::open_files;
use node_manager::reload::Reloading;
use node_manager::{AgentError, NodeWatch, Process, Running};
use records::error_chain;
use service::Manager;
use time::UtcOffset;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::error::QuickstartError;
use super::folder::Folder;
use super::settings::{self, Ports};

/// How long the ResourceManager's end may take: it only cuts its connections.
const RM_STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A running cluster.
pub(super) struct Cluster {
    rm: mini_rm::Running,
    rm_stop: CancellationToken,
    agents: JoinSet<(usize, Result<(), AgentError>)>,
    agents_stop: CancellationToken,
    watches: Vec<NodeWatch>,
    pages: Vec<SocketAddr>,
}

impl Cluster {
    /// Starts everything; what was started is ended again when something does not start.
    pub(super) async fn start(
        folder: &Folder,
        nodes: u16,
        ports: Ports,
        process: &Process,
    ) -> Result<Self, QuickstartError> {
        let config = settings::resource_manager(nodes, ports)
            .map_err(|problems| QuickstartError::Settings(problems.into()))?;
        let open_files = open_files::limit().map_err(|source| QuickstartError::System {
            doing: "reading the limit of open files",
            source,
        })?;
        let rm_stop = CancellationToken::new();
        let rm = mini_rm::start(config, open_files, rm_stop.clone())
            .await
            .map_err(QuickstartError::ResourceManager)?;
        let mut cluster = Self {
            rm,
            rm_stop,
            agents: JoinSet::new(),
            agents_stop: CancellationToken::new(),
            watches: Vec::new(),
            pages: Vec::new(),
        };
        for index in 0..usize::from(nodes) {
            let port = ports.node(index);
            if let Err(error) = cluster.add(index, &folder.node(index), port, process).await {
                cluster.stop().await;
                return Err(error);
            }
        }
        Ok(cluster)
    }

    async fn add(
        &mut self,
        index: usize,
        folder: &Path,
        web_port: u16,
        process: &Process,
    ) -> Result<(), QuickstartError> {
        let config = settings::node(folder, web_port, &self.rm.addresses)
            .map_err(|problems| QuickstartError::Settings(problems.into()))?;
        let stop = self.agents_stop.clone();
        let agent = node_manager::start(config, process.clone(), stop).await;
        let agent: Running = agent.map_err(|source| QuickstartError::Node {
            number: index + 1,
            source,
        })?;
        let host = self.rm.addresses.web.ip();
        self.pages.push(SocketAddr::new(host, agent.http_port()));
        self.watches.push(agent.watch());
        self.agents
            .spawn(async move { (index, agent.join().await) });
        Ok(())
    }

    /// Addresses of the ResourceManager's services.
    pub(super) const fn addresses(&self) -> &mini_rm::Addresses {
        &self.rm.addresses
    }

    /// Web address of each node's pages, in the order of the nodes.
    pub(super) fn pages(&self) -> &[SocketAddr] {
        &self.pages
    }

    /// A look at each node.
    pub(super) fn watches(&self) -> &[NodeWatch] {
        &self.watches
    }

    /// Nodes that applications get opportunistic containers on.
    pub(super) async fn nodes_offered(&self) -> usize {
        self.rm.nodes_offered().await.unwrap_or(0)
    }

    /// Ends all containers, then the nodes, which tell the ResourceManager, then that. Each step
    /// has a bound of its own. What did not end in order, for people.
    pub(super) async fn stop(mut self) -> Vec<String> {
        let mut problems = Vec::new();
        self.agents_stop.cancel();
        while let Some(ended) = self.agents.join_next().await {
            match ended {
                Ok((_, Ok(()))) => {}
                Ok((index, Err(error))) => {
                    let why = error_chain(&error);
                    problems.push(format!("node {} did not end in order: {why}", index + 1));
                }
                Err(panicked) => problems.push(format!("a node panicked: {panicked}")),
            }
        }
        self.rm_stop.cancel();
        if timeout(RM_STOP_PATIENCE, self.rm.join()).await.is_err() {
            problems.push("the ResourceManager did not end in time".to_owned());
        }
        problems
    }
}

/// Returns what an agent must know of this process: its environment and UTC offset.
pub(super) fn process(environment: &BTreeMap<String, String>, utc_offset: UtcOffset) -> Process {
    Process {
        environment: settings::environment(environment),
        conf_dirs: Vec::new(),
        reloading: Reloading::default(),
        log_levels: None,
        utc_offset,
        manager: Manager::default(),
    }
}
