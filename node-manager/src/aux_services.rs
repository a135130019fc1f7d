//! Auxiliary services: what containers of a job share on this node and that outlives each of them.
//!
//! ```text
//! listen (ports, metadata) ─► start (folders) ─► AuxServices: initialise and stop applications
//! ```
//!
//! The framework of Hadoop's `AuxServices`, apart from any one service. A service gets the data
//! that an application's containers bring for it (`service_data`), learns of the application's
//! end, and publishes metadata: in each answer to `startContainers`, and in each container's
//! environment. Starts and ends of containers are not passed on: no service here wants them.
//!
//! In: calls of the performer, in the order of the core's effects; none waits for a disk or a peer.
//! Out: nothing that the core waits for. What a service refuses is logged, as in Hadoop.

mod mapreduce_shuffle;

pub use mapreduce_shuffle::JobDataError;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Instant;

use launch_context::ServiceData;
use localize::{NodeDirs, UserName};
use node_core::ServiceMetadata;
use node_web::metrics::{Metrics, Port, ShuffleReading};
use records::ApplicationId;
use refusals::Pace;
use service::Manager;
use shuffle::{Counts, RunningShuffle, ShuffleConfig, ShuffleServer, StartShuffleError};
use thiserror::Error;

use self::mapreduce_shuffle::MapReduceShuffle;
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

/// Services that have their ports and do not serve yet.
#[derive(Default)]
pub struct ListeningServices {
    servers: BTreeMap<String, ShuffleServer>,
}

/// Services that serve.
#[derive(Default)]
pub struct AuxServices {
    by_name: BTreeMap<String, MapReduceShuffle>,
    metadata: ServiceMetadata,
}

/// Threads of the services. Services answer as long as they run.
#[derive(Default)]
pub struct ServiceThreads(Vec<RunningShuffle>);

impl ListeningServices {
    /// Listens on the ports of the configured services, on the sockets that `manager` has kept and
    /// will keep. Connections are bounded for each.
    ///
    /// # Errors
    /// [`ServiceFailed`] when a port cannot be had.
    pub fn listen(
        services: &[AuxServiceConfig],
        connections_max: usize,
        manager: &Manager,
    ) -> Result<Self, ServiceFailed> {
        let listen = |service: &AuxServiceConfig| {
            let AuxServiceKind::MapReduceShuffle(config) = &service.kind;
            let mut config = config.clone();
            config.connections_max = config.connections_max.min(connections_max);
            let (port, tls) = (config.port, config.tls.is_some());
            let server =
                listen_shuffle(&service.name, config, manager).map_err(|source| ServiceFailed {
                    service: service.name.clone(),
                    what: format!("listening on port {port} (mapreduce.shuffle.port)"),
                    source: source.into(),
                })?;
            tracing::info!(service = service.name, port = server.port(), tls, "listens");
            Ok((service.name.clone(), server))
        };
        let servers = services.iter().map(listen).collect::<Result<_, _>>()?;
        Ok(Self { servers })
    }

    /// Returns what the services publish.
    #[must_use]
    pub fn metadata(&self) -> ServiceMetadata {
        let published = self.servers.iter().map(|(name, server)| {
            let port = u32::from(server.port());
            (name.clone(), port.to_be_bytes().to_vec())
        });
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
    ) -> Result<(AuxServices, ServiceThreads), ServiceFailed> {
        let mut services = AuxServices {
            metadata: self.metadata(),
            ..AuxServices::default()
        };
        let mut threads = ServiceThreads::default();
        for (name, server) in self.servers {
            let service = MapReduceShuffle::new(dirs.clone());
            let running = server
                .start(service.jobs(), metrics.refusals(Port::Shuffle))
                .map_err(|source| ServiceFailed {
                    service: name.clone(),
                    what: match source {
                        StartShuffleError::System(_) => {
                            "starting its threads (mapreduce.shuffle.max.threads)".to_owned()
                        }
                        StartShuffleError::Tls(_) => {
                            "opening its key stores (mapreduce.shuffle.ssl.enabled)".to_owned()
                        }
                    },
                    source,
                })?;
            let counts = running.counts();
            metrics.watch_shuffle(move || reading(counts()));
            services.by_name.insert(name, service);
            threads.0.push(running);
        }
        Ok((services, threads))
    }
}

fn listen_shuffle(
    service: &str,
    config: ShuffleConfig,
    manager: &Manager,
) -> io::Result<ShuffleServer> {
    let name = format!("service-{service}");
    let port = config.port;
    let any: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    let mut any = any
        .into_iter()
        .map(|address| SocketAddr::new(address, port));
    let kept = any.find_map(|address| manager.take_listener(&name, address));
    let server = match kept {
        Some(kept) => ShuffleServer::listening(kept, config),
        None => ShuffleServer::bind(config),
    }?;
    manager.keep(&name, server.as_fd());
    Ok(server)
}

fn reading(counts: Counts) -> ShuffleReading {
    ShuffleReading {
        output_bytes: counts.output_bytes,
        outputs_failed: counts.outputs_failed,
        outputs_ok: counts.outputs_ok,
        connections: counts.connections,
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
        for running in self.0 {
            running.stop();
        }
    }
}
