//! A small ResourceManager that speaks Hadoop's protocols, for tests and for trying things out.
//!
//! Accepts applications from unmodified clients, starts their ApplicationMasters (AMs), allocates
//! guaranteed containers first come first served and opportunistic ones to the shortest queues,
//! records those that nodes allocate themselves, and limits its nodes' queues. Not a cluster
//! manager: one queue, no high availability, no recovery after a restart, no labels, reservations,
//! preemption or placement constraints, and no security beyond the tokens of AMs and nodes.
//!
//! ```text
//!  nodes ─▶ services::resource_tracker ───┐                    ┌─▶ sched: allocation, queue limits
//!  clients ▶ services::application_client ┼─▶ core_task ─▶ core ┤
//!  AMs ────▶ services::application_master ┤                    └─▶ Effect ─▶ am_launcher ─▶ a node
//!  and their nodes ▶ distributed_scheduling┤
//!  people ─▶ web ─────────────────────────┘
//! ```

pub mod am_launcher;
pub mod applications;
pub mod config;
pub mod containers;
pub mod core;
pub mod core_task;
mod descriptors;
pub mod nodes;
pub mod racks;
pub mod refusal;
pub mod scheduler;
pub mod services;
mod web;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use hadoop_conf::HostPort;
use records::MonoMillis;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::dial::{DialError, Dialer};
use wire::protocol::application_client::ApplicationClientService;
use wire::protocol::application_master::ApplicationMasterService;
use wire::protocol::distributed_scheduling_am::DistributedSchedulingAMService;
use wire::protocol::resource_tracker::ResourceTrackerService;
use wire::rpc::{RpcServer, RpcServerBuilder, ServerAuth, ServerLimits};

use crate::config::Config;
use crate::core::Core;
use crate::core_task::Handle;
use crate::descriptors::Descriptors;
use crate::racks::Racks;
use crate::services::application_client::Clients;
use crate::services::application_master::ApplicationMasters;
use crate::services::resource_tracker::Tracker;
use wire::secrets::AmrmTokenSecretManager;

/// Reason for which the ResourceManager does not start.
#[derive(Debug, Error)]
pub enum RmError {
    /// The host to listen on has no address.
    #[error("{property} names {host}, which has no address")]
    Resolve {
        /// Name of the property.
        property: &'static str,
        /// Host in its value.
        host: String,
        /// Reason for which it does not resolve.
        source: DialError,
    },
    /// The table of racks cannot be read.
    #[error("cannot read {path}, which net.topology.table.file.name names")]
    Racks {
        /// Path of the table.
        path: PathBuf,
        /// Reason of the operating system.
        #[source]
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}, which {property} names; is another ResourceManager running?"
    )]
    Bind {
        /// Name of the property.
        property: &'static str,
        /// Address in its value.
        address: SocketAddr,
        /// Reason of the operating system.
        #[source]
        source: io::Error,
    },
}

/// Addresses of a running ResourceManager, with real ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Address for clients (ApplicationClientProtocol).
    pub client: SocketAddr,
    /// Address for AMs (ApplicationMasterProtocol).
    pub scheduler: SocketAddr,
    /// Address for nodes (ResourceTracker).
    pub tracker: SocketAddr,
    /// Address of the pages and the REST interface.
    pub web: SocketAddr,
}

/// A ResourceManager that serves until its token is cancelled.
#[derive(Debug)]
pub struct Running {
    /// Addresses that it listens on.
    pub addresses: Addresses,
    handle: Handle,
    tasks: TaskTracker,
}

impl Running {
    /// Returns the number of nodes on which opportunistic containers are allocated, as of the last
    /// sort; `None` once the ResourceManager is stopping.
    pub async fn nodes_offered(&self) -> Option<usize> {
        let offered = |core: &mut Core, _| core.nodes_offered();
        self.handle.run(offered).await.ok()
    }

    /// Waits until every task has ended.
    pub async fn join(self) {
        self.tasks.wait().await;
    }
}

/// Listens on all ports and serves until `stop`. Of the files that the process may have open, peers
/// of each port get a part, so that those of one cannot keep those of another from being answered.
///
/// # Errors
/// [`RmError`]: the configuration cannot be used. Then nothing is left running.
pub async fn start(
    config: Config,
    open_files: u64,
    stop: CancellationToken,
) -> Result<Running, RmError> {
    let descriptors = Descriptors::divide(open_files);
    tracing::info!("{descriptors}");
    let racks = config.rack_table.as_deref().map(read_racks).transpose()?;
    let racks = racks.unwrap_or_default();
    let config = Arc::new(config);
    let secrets = Arc::new(AmrmTokenSecretManager::new(
        config.master_keys,
        MonoMillis(0),
    ));
    let tasks = TaskTracker::new();
    // Stops the tasks of a start that fails half-way.
    let failed = stop.child_token();
    let guard = failed.clone().drop_guard();
    let (core_config, core_secrets) = (Arc::clone(&config), Arc::clone(&secrets));
    let handle = core_task::start(
        move |now| Core::new(core_config, core_secrets, rand::random(), now),
        config.protections.clone(),
        &tasks,
        failed.clone(),
    );
    let [client, scheduler, tracker] =
        listen(&config, &handle, secrets, racks, &descriptors).await?;
    let web = web::WebServer::bind(&config, descriptors.web, handle.clone()).await?;
    let addresses = Addresses {
        client: client.1,
        scheduler: scheduler.1,
        tracker: tracker.1,
        web: web.address(),
    };
    for server in [client.0, scheduler.0, tracker.0] {
        tasks.spawn(server.serve(failed.clone()));
    }
    tasks.spawn(web.serve(failed.clone()));
    tasks.close();
    guard.disarm();
    tracing::info!(?addresses, "ResourceManager serving");
    Ok(Running {
        addresses,
        handle,
        tasks,
    })
}

/// Listens on the ports for RPC: of clients, of masters, of nodes.
async fn listen(
    config: &Config,
    handle: &Handle,
    secrets: Arc<AmrmTokenSecretManager>,
    racks: Racks,
    descriptors: &Descriptors,
) -> Result<[(RpcServer, SocketAddr); 3], RmError> {
    let client = RpcServer::builder(ServerAuth::Simple).service(ApplicationClientService::new(
        Arc::new(Clients(handle.clone())),
    ));
    let masters = Arc::new(ApplicationMasters(handle.clone()));
    let mut scheduler = RpcServer::builder(ServerAuth::Token(secrets))
        .protections(config.protections.clone())
        .service(ApplicationMasterService::new(Arc::clone(&masters)));
    if config.opportunistic.is_distributed {
        scheduler = scheduler.service(DistributedSchedulingAMService::new(masters));
    }
    let tracker = RpcServer::builder(ServerAuth::Simple).service(ResourceTrackerService::new(
        Arc::new(Tracker {
            core: handle.clone(),
            racks,
        }),
    ));
    let within = |server: RpcServerBuilder, descriptors| {
        server.limits(ServerLimits::default().within_descriptors(descriptors))
    };
    Ok([
        bind(
            within(client, descriptors.client),
            "yarn.resourcemanager.address",
            &config.client,
        )
        .await?,
        bind(
            within(scheduler, descriptors.scheduler),
            "yarn.resourcemanager.scheduler.address",
            &config.scheduler,
        )
        .await?,
        bind(
            within(tracker, descriptors.tracker),
            "yarn.resourcemanager.resource-tracker.address",
            &config.tracker,
        )
        .await?,
    ])
}

/// Reads the table of racks. An unreadable table is an error, since without it every node would
/// silently be in one rack.
fn read_racks(path: &Path) -> Result<Racks, RmError> {
    let text = fs::read_to_string(path).map_err(|source| RmError::Racks {
        path: path.to_owned(),
        source,
    })?;
    Ok(Racks::parse(&text))
}

async fn bind(
    server: RpcServerBuilder,
    property: &'static str,
    address: &HostPort,
) -> Result<(RpcServer, SocketAddr), RmError> {
    let address = resolve(property, address).await?;
    server.bind(address).await.map_err(|source| RmError::Bind {
        property,
        address,
        source,
    })
}

async fn resolve(property: &'static str, address: &HostPort) -> Result<SocketAddr, RmError> {
    let dialer = Dialer::default();
    let found = dialer.resolve_first(&address.host, address.port).await;
    found.map_err(|source| RmError::Resolve {
        property,
        host: address.host.clone(),
        source,
    })
}
