//! Auxiliary services: what containers of a job share on this node and that outlives each of them.
//!
//! ```text
//! listen (ports, metadata) ─► start (folders) ─► AuxServices: initialise and stop applications
//! ```
//!
//! The framework of Hadoop's `AuxServices`, apart from any one service. A service gets the data
//! that an application's containers bring for it (`service_data`), learns of the application's
//! end, and publishes metadata: in each answer to `startContainers`, and in each container's
//! environment. The class decides what a service is, and the name is free: several of one class
//! each have their port, their settings and their applications. Starts and ends of containers are
//! not passed on: no service here wants them.
//!
//! A service is a file below: what it listens on (`Listening`), and what it does with
//! applications (`AuxService`). Neither knows the other services.
//!
//! In: calls of the performer, in the order of the core's effects; none waits for a disk or a peer.
//! Out: nothing that the core waits for. What a service refuses is logged, as in Hadoop.

mod mapreduce_shuffle;
mod spark_shuffle;

pub use mapreduce_shuffle::JobDataError;
pub use spark_shuffle::{KEY_SPACE as SPARK_KEY_SPACE, SparkDataError, StoredExecutors};

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use launch_context::ServiceData;
use localize::{NodeDirs, UserName};
use node_core::ServiceMetadata;
use node_web::metrics::Metrics;
use records::ApplicationId;
use refusals::Pace;
use service::Manager;
use shuffle::StartShuffleError;
use thiserror::Error;

use self::mapreduce_shuffle::ListeningMapReduce;
use self::spark_shuffle::ListeningSpark;
use crate::config::{AuxServiceConfig, AuxServiceKind};

/// Lines about refused data: every container of a job brings the same.
static REFUSED_DATA: Pace = Pace::new(1);

/// A service that cannot be started.
#[derive(Debug, Error)]
#[error("auxiliary service {service}: {what}")]
pub struct ServiceFailed {
    /// Name of the service.
    service: String,
    /// Step that failed, with the property to look at.
    what: String,
    #[source]
    source: StartShuffleError,
}

/// Data of an application that a service refuses.
#[derive(Debug, Error)]
enum DataRefused {
    #[error(transparent)]
    MapReduce(#[from] JobDataError),
    #[error(transparent)]
    Spark(#[from] SparkDataError),
}

/// A service that has its port and does not serve yet.
trait Listening: Send + Sync {
    /// Returns what the service publishes.
    fn metadata(&self) -> Vec<u8>;

    /// Serves on threads of its own.
    fn start(self: Box<Self>, parts: &mut StartParts<'_>) -> Result<Started, ServiceFailed>;
}

/// Means that services begin with.
struct StartParts<'a> {
    /// Name of the service.
    name: &'a str,
    /// Directories with applications' files.
    dirs: &'a NodeDirs,
    metrics: &'a Metrics,
    /// Executors that an earlier agent stored, and the store; `None`: nothing outlives the agent.
    executors: Option<&'a StoredExecutors>,
}

/// A service that serves, and what ends it.
type Started = (Box<dyn AuxService>, Box<dyn FnOnce() + Send>);

/// A service that serves. No call waits for a disk or a peer.
trait AuxService: Send {
    /// Takes what a container of an application brings.
    fn initialize_application(
        &self,
        application: ApplicationId,
        user: &UserName,
        data: &ServiceData,
    ) -> Result<(), DataRefused>;

    /// Takes the end of an application, also of one that the service never saw.
    fn stop_application(&self, application: ApplicationId);
}

/// Services that have their ports and do not serve yet.
#[derive(Default)]
pub struct ListeningServices {
    by_name: BTreeMap<String, Box<dyn Listening>>,
}

/// Services that serve.
#[derive(Default)]
pub struct AuxServices {
    by_name: BTreeMap<String, Box<dyn AuxService>>,
    metadata: ServiceMetadata,
}

/// Threads of the services. Services answer as long as they run.
#[derive(Default)]
pub struct ServiceThreads(Vec<Box<dyn FnOnce() + Send>>);

impl ListeningServices {
    /// Listens on the ports of the configured services, on the sockets that `manager` has kept and
    /// will keep. All services together get `connections_max` connections, each the same part.
    ///
    /// # Errors
    /// [`ServiceFailed`] when a port cannot be had.
    pub fn listen(
        services: &[AuxServiceConfig],
        connections_max: usize,
        manager: &Manager,
    ) -> Result<Self, ServiceFailed> {
        let part = connections_max / services.len().max(1);
        let listen = |service: &AuxServiceConfig| {
            let (port, property) = service.port();
            let listening = listen_service(service, part, manager);
            let listening = listening.map_err(|source| ServiceFailed {
                service: service.name.clone(),
                what: format!("listening on port {port} ({property})"),
                source: source.into(),
            })?;
            Ok((service.name.clone(), listening))
        };
        let by_name = services.iter().map(listen).collect::<Result<_, _>>()?;
        Ok(Self { by_name })
    }

    /// Returns what the services publish.
    #[must_use]
    pub fn metadata(&self) -> ServiceMetadata {
        let published = self.by_name.iter();
        let published = published.map(|(name, service)| (name.clone(), service.metadata()));
        Arc::new(published.collect())
    }

    /// Starts the services, which find applications' files in `dirs`.
    ///
    /// # Errors
    /// [`ServiceFailed`] when a service can have no threads, or its keys cannot be read.
    pub fn start(
        self,
        dirs: &NodeDirs,
        metrics: &Metrics,
        executors: Option<&StoredExecutors>,
    ) -> Result<(AuxServices, ServiceThreads), ServiceFailed> {
        let mut services = AuxServices {
            metadata: self.metadata(),
            ..AuxServices::default()
        };
        let mut threads = ServiceThreads::default();
        for (name, listening) in self.by_name {
            let mut parts = StartParts {
                name: &name,
                dirs,
                metrics,
                executors,
            };
            let (service, stop) = listening.start(&mut parts)?;
            services.by_name.insert(name, service);
            threads.0.push(stop);
        }
        Ok((services, threads))
    }
}

fn listen_service(
    service: &AuxServiceConfig,
    connections_max: usize,
    manager: &Manager,
) -> io::Result<Box<dyn Listening>> {
    let kept = KeptSocket {
        name: format!("service-{}", service.name),
        manager,
    };
    let name = &service.name;
    Ok(match &service.kind {
        AuxServiceKind::MapReduceShuffle(config) => {
            let mut config = config.clone();
            config.connections_max = config.connections_max.min(connections_max);
            let listening = ListeningMapReduce::listen(config, &kept)?;
            let (port, tls) = (listening.port(), listening.has_tls());
            tracing::info!(service = name, class = service.class, port, tls, "listens");
            Box::new(listening)
        }
        AuxServiceKind::SparkShuffle(config) => {
            let mut config = config.clone();
            config.connections_max = config.connections_max.min(connections_max);
            let authenticates = config.authenticates;
            let listening = ListeningSpark::listen(config, &kept)?;
            let port = listening.port();
            tracing::info!(
                service = name,
                class = service.class,
                port,
                authenticates,
                "listens"
            );
            Box::new(listening)
        }
    })
}

/// A service's listening socket, which a service manager keeps over restarts of the agent.
struct KeptSocket<'a> {
    name: String,
    manager: &'a Manager,
}

impl KeptSocket<'_> {
    /// Takes the socket that was kept, if it listens on this port of all addresses.
    fn take(&self, port: u16) -> Option<TcpListener> {
        let any: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
        let mut any = any
            .into_iter()
            .map(|address| SocketAddr::new(address, port));
        any.find_map(|address| self.manager.take_listener(&self.name, address))
    }

    /// Has the socket kept.
    fn keep(&self, socket: &impl AsFd) {
        self.manager.keep(&self.name, socket.as_fd());
    }
}

impl AuxServices {
    /// Returns what the services publish.
    #[must_use]
    pub fn metadata(&self) -> &ServiceMetadata {
        &self.metadata
    }

    /// Passes on what a container brings for services, once for each entry: a service gets an
    /// application's data as often as containers bring it, and the last counts.
    pub fn initialize_application(
        &self,
        application: ApplicationId,
        user: &UserName,
        data: &BTreeMap<String, ServiceData>,
    ) {
        for (name, data) in data {
            let Some(service) = self.by_name.get(name) else {
                continue;
            };
            if let Err(error) = service.initialize_application(application, user, data)
                && let Some(earlier) = REFUSED_DATA.due(Instant::now())
            {
                let error = crate::error_chain(&error);
                tracing::warn!(%application, service = name, error, earlier, "service data is refused");
            }
        }
    }

    /// Notifies every service that an application has ended, also one that it never saw.
    pub fn stop_application(&self, application: ApplicationId) {
        for service in self.by_name.values() {
            service.stop_application(application);
        }
    }
}

impl ServiceThreads {
    /// Closes the ports and connections, and ends the threads. Not for a task.
    pub fn stop(self) {
        for stop in self.0 {
            stop();
        }
    }
}
