//! Services that are Java classes, which the host runs: the node's side of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use aux_host::{
    AuxHost, ContainerFacts, DataRefused, Folders, HostConfig, HostError, HostHealth, HostThread,
    HostedService, Patience, StartedHost, Watch,
};
use launch_context::ServiceData;
use localize::{NodeDirs, UserName};
use log_aggregation::policy::ContainerRole;
use node_core::{HealthEvent, ServedContainer};
use records::ApplicationId;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::config::{AuxHostConfig, AuxServiceConfig, AuxServiceKind, RecoveryConfig};

/// Folder of services' own state, in `yarn.nodemanager.recovery.dir` (Hadoop:
/// `AuxServices.STATE_STORE_ROOT_NAME`).
const STATE: &str = "nm-aux-services";

/// Failure to start the host.
#[derive(Debug, Error)]
pub enum HostedError {
    /// The host or one of its services.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The folder of a service's state, in `yarn.nodemanager.recovery.dir`.
    #[error("the state of auxiliary service {service}, in {folder}")]
    Folder {
        /// Name of the service.
        service: String,
        /// The folder.
        folder: String,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// The host, whose services run and learn of nothing yet.
pub struct StartedServices {
    host: StartedHost,
    names: Vec<String>,
    is_required: bool,
}

impl StartedServices {
    /// Starts the host, if a service is a Java class. Waits for its services: not for a task.
    ///
    /// # Errors
    /// [`HostedError`] when one does not start.
    pub fn start(
        host: Option<&AuxHostConfig>,
        services: &[AuxServiceConfig],
        recovery: &RecoveryConfig,
    ) -> Result<Option<Self>, HostedError> {
        let Some(config) = host else {
            return Ok(None);
        };
        let mut hosted = Vec::new();
        for service in services {
            if let AuxServiceKind::Hosted(loaded) = &service.kind {
                let state = recovery.enabled.then(|| recovery.dir.join(STATE));
                let recovery_folder = state.map(|state| state.join(&service.name));
                if let Some(folder) = &recovery_folder {
                    make_private(folder).map_err(|source| HostedError::Folder {
                        service: service.name.clone(),
                        folder: folder.display().to_string(),
                        source,
                    })?;
                }
                hosted.push(HostedService {
                    name: service.name.clone(),
                    class: service.class.clone(),
                    class_path: loaded.class_path.clone(),
                    system_classes: loaded.system_classes.clone(),
                    recovery_folder,
                });
            }
        }
        let names = hosted.iter().map(|service| service.name.clone()).collect();
        let host = StartedHost::start(host_config(config, hosted))?;
        let is_required = config.is_required;
        Ok(Some(Self {
            host,
            names,
            is_required,
        }))
    }

    /// Returns what the services publish; one without metadata is as if it were not there.
    pub(super) fn metadata(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        let published = self.names.iter().zip(self.host.metadata());
        published.filter_map(|(name, metadata)| Some((name.clone(), metadata.clone()?)))
    }

    /// Lets the services learn of applications, and tells the core when the host does not stay up.
    pub(super) fn supervise(
        self,
        dirs: &NodeDirs,
        health: mpsc::Sender<HealthEvent>,
    ) -> io::Result<(HostedServices, HostThread)> {
        let dirs = dirs.clone();
        let is_required = self.is_required;
        let watch = Watch {
            folders: Box::new(move || {
                let (good, readable) = dirs.usable_local_dirs();
                Folders { good, readable }
            }),
            health: Box::new(move |found: HostHealth| {
                if is_required {
                    let HostHealth { is_healthy, report } = found;
                    let event = HealthEvent::AuxServices { is_healthy, report };
                    // Fails once the core has ended.
                    let _ended = health.blocking_send(event);
                }
            }),
        };
        let (host, thread) = self.host.supervise(watch)?;
        let indexes = self.names.into_iter().enumerate();
        let indexes = indexes.map(|(index, name)| (name, index)).collect();
        Ok((HostedServices { host, indexes }, thread))
    }
}

fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}

fn host_config(config: &AuxHostConfig, services: Vec<HostedService>) -> HostConfig {
    let mut options = vec![OsString::from(format!("-Xmx{}m", config.heap_mb))];
    options.extend(config.options.iter().map(OsString::from));
    // A JVM that is out of memory serves nobody, and another one is soon there.
    options.push("-XX:+ExitOnOutOfMemoryError".into());
    let mut class_path = config.jar.clone().into_os_string();
    class_path.push(":");
    class_path.push(&config.class_path);
    HostConfig {
        java: config.java.clone(),
        options,
        class_path,
        environment: Vec::new(),
        properties: config.properties.clone(),
        services,
        group: None,
        patience: Patience::default(),
    }
}

/// The services of the host.
pub(super) struct HostedServices {
    host: AuxHost,
    /// Index in the host by the service's name.
    indexes: BTreeMap<String, usize>,
}

impl HostedServices {
    /// Takes what a container brings for a service; `None`: it is not the host's.
    pub(super) fn initialize_application(
        &self,
        service: &str,
        application: ApplicationId,
        user: &UserName,
        data: &ServiceData,
    ) -> Option<Result<(), DataRefused>> {
        let index = *self.indexes.get(service)?;
        let user: Arc<str> = user.as_str().into();
        let taken = self
            .host
            .application_begins(index, application, &user, &data.0);
        Some(taken)
    }

    pub(super) fn stop_application(&self, application: ApplicationId) {
        self.host.application_ends(application);
    }

    pub(super) fn initialize_container(&self, container: &ServedContainer) {
        self.host.container_begins(facts(container));
    }

    pub(super) fn stop_container(&self, container: &ServedContainer) {
        self.host.container_ends(facts(container));
    }
}

fn facts(container: &ServedContainer) -> ContainerFacts {
    let ServedContainer { spec, user, role } = container;
    ContainerFacts {
        id: spec.id,
        user: user.as_str().into(),
        memory_mb: spec.resource.memory_mb,
        vcores: spec.resource.vcores,
        is_master: *role == ContainerRole::ApplicationMaster,
    }
}
