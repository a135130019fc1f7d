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
//! each have their port, their settings and their applications. Services that are Java classes
//! are in the host (`hosted`), and also learn of containers; the agent's own need nothing of them.
//!
//! A service of the agent is a file below: what it listens on (`Listening`), and what it does with
//! applications (`AuxService`). Neither knows the other services. Their calls return at once, and
//! each service of the host has a queue: so none delays another.
//!
//! In: calls of the performer, in the order of the core's effects; none waits for a disk or a peer.
//! Out: nothing that the core waits for. What a service refuses is logged, as in Hadoop.

mod hosted;
mod mapreduce_shuffle;
mod spark_shuffle;

pub use hosted::{HostedError, StartedServices};
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
use node_core::{HealthEvent, ServedContainer, ServiceMetadata};
use node_web::metrics::Metrics;
use records::ApplicationId;
use refusals::Pace;
use service::Manager;
use shuffle::StartShuffleError;
use thiserror::Error;
use tokio::sync::mpsc;

use self::hosted::HostedServices;
use self::mapreduce_shuffle::ListeningMapReduce;
use self::spark_shuffle::ListeningSpark;
use crate::config::{AuxServiceConfig, AuxServiceKind, ServedBy};

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
    #[error(transparent)]
    Hosted(#[from] aux_host::DataRefused),
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
    hosted: Option<StartedServices>,
}

/// Services that serve.
#[derive(Default)]
pub struct AuxServices {
    by_name: BTreeMap<String, Box<dyn AuxService>>,
    hosted: Option<HostedServices>,
    metadata: ServiceMetadata,
}

/// Threads of the services. Services answer as long as they run.
#[derive(Default)]
pub struct ServiceThreads(Vec<Box<dyn FnOnce() + Send>>);

impl ListeningServices {
    /// Listens on the ports of the agent's own services, on the sockets that `manager` has kept and
    /// will keep. They get `connections_max` connections together, each the same part. The others
    /// are `hosted`.
    ///
    /// # Errors
    /// [`ServiceFailed`] when a port cannot be had.
    pub fn listen(
        services: &[AuxServiceConfig],
        connections_max: usize,
        manager: &Manager,
        hosted: Option<StartedServices>,
    ) -> Result<Self, ServiceFailed> {
        let own = |service: &&AuxServiceConfig| service.served_by() == ServedBy::Agent;
        let own: Vec<_> = services.iter().filter(own).collect();
        let part = connections_max / own.len().max(1);
        let mut by_name = BTreeMap::new();
        for service in own {
            let listening = listen_service(service, part, manager);
            let listening = listening.map_err(|source| ServiceFailed {
                service: service.name.clone(),
                what: match service.port() {
                    Some((port, property)) => format!("listening on port {port} ({property})"),
                    None => "listening".to_owned(),
                },
                source: source.into(),
            })?;
            by_name.extend(listening.map(|listening| (service.name.clone(), listening)));
        }
        Ok(Self { by_name, hosted })
    }

    /// Returns what the services publish.
    #[must_use]
    pub fn metadata(&self) -> ServiceMetadata {
        let published = self.by_name.iter();
        let published = published.map(|(name, service)| (name.clone(), service.metadata()));
        let hosted = self.hosted.iter().flat_map(StartedServices::metadata);
        Arc::new(published.chain(hosted).collect())
    }

    /// Starts the services, which find applications' files in `dirs`. What becomes of the host is
    /// told to `health`.
    ///
    /// # Errors
    /// [`ServiceFailed`] when a service can have no threads, or its keys cannot be read.
    pub fn start(
        self,
        dirs: &NodeDirs,
        metrics: &Metrics,
        executors: Option<&StoredExecutors>,
        health: mpsc::Sender<HealthEvent>,
    ) -> Result<(AuxServices, ServiceThreads), ServiceFailed> {
        let mut services = AuxServices {
            metadata: self.metadata(),
            ..AuxServices::default()
        };
        let mut threads = ServiceThreads::default();
        if let Some(hosted) = self.hosted {
            let supervised = hosted.supervise(dirs, health);
            let (hosted, thread) = supervised.map_err(|source| ServiceFailed {
                service: "the host".to_owned(),
                what: "starting its thread".to_owned(),
                source: source.into(),
            })?;
            services.hosted = Some(hosted);
            threads.0.push(Box::new(|| thread.stop()));
        }
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
) -> io::Result<Option<Box<dyn Listening>>> {
    let kept = KeptSocket {
        name: format!("service-{}", service.name),
        manager,
    };
    let name = &service.name;
    Ok(Some(match &service.kind {
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
        AuxServiceKind::Hosted(_) => return Ok(None),
    }))
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
            let taken = if let Some(service) = self.by_name.get(name) {
                service.initialize_application(application, user, data)
            } else {
                let hosted = self.hosted.as_ref();
                let taken = hosted.and_then(|hosted| {
                    hosted.initialize_application(name, application, user, data)
                });
                taken.unwrap_or(Ok(())).map_err(DataRefused::from)
            };
            if let Err(error) = taken
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
        if let Some(hosted) = &self.hosted {
            hosted.stop_application(application);
        }
    }

    /// Notifies the services that want to know of a container that begins.
    pub fn initialize_container(&self, container: &ServedContainer) {
        if let Some(hosted) = &self.hosted {
            hosted.initialize_container(container);
        }
    }

    /// Notifies the services that want to know of a container's end.
    pub fn stop_container(&self, container: &ServedContainer) {
        if let Some(hosted) = &self.hosted {
            hosted.stop_container(container);
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
