//! `nm-agent check`: every effective value and where it came from, what is worth a warning, what is
//! wrong.
//!
//! In: a configuration as it was loaded, and the machine to try it on. Out: a [`Report`]. It makes
//! and changes nothing on the machine. Secrets are hidden.

mod connect;
mod report;
mod run_as;
mod services;

pub(crate) use connect::{ports, taken};
use report::Findings;
pub use report::{Outcome, Report};
use services::services;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use container_runtime::config::CgroupConfig;
use container_runtime::isolation::Availability;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{AccessFlags, Group, access};
use thiserror::Error;
use users::Obstacle;

use hadoop_conf::HostPort;
use hadoop_fs::{Caller, FsError};
use node_manager::IdentityFinding;
use node_manager::config::{Config, Loaded};
use node_manager::descriptors::Descriptors;
use program::holder::{self, Holder};

/// A name server that has not answered by then will not do for an agent either.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A peer that has not taken a connection by then will not do for an agent either.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why something that the configuration names cannot be used.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The folder exists and cannot be used, or cannot be made.
    #[error("{}: {errno}", path.display())]
    Folder {
        /// The folder, or the one above it that exists.
        path: PathBuf,
        /// The system's reason.
        errno: Errno,
    },
    /// The name has no address.
    #[error("{host}: {source}")]
    Name {
        /// Host name that was looked up.
        host: String,
        /// The resolver's reason.
        source: io::Error,
    },
    /// Servers there take no connections.
    #[error("{address}: {source}")]
    Connect {
        /// Address that was called.
        address: HostPort,
        /// The system's reason.
        source: io::Error,
    },
    /// An agent could not listen there.
    #[error("{address}: {source}{}", taken_by(holder.as_ref()))]
    Listen {
        /// Address to listen on.
        address: HostPort,
        /// The system's reason.
        source: io::Error,
        /// Process that has the port, if it is taken and this user may know.
        holder: Option<Holder>,
    },
    /// The default file system does not answer as it should.
    #[error("{uri}: {source}")]
    FileSystem {
        /// The file system's root.
        uri: String,
        /// The client's reason.
        source: FsError,
    },
    /// The name server does not answer.
    #[error("{host}: no answer from the name server within {} s", RESOLVE_TIMEOUT.as_secs())]
    Silence {
        /// Host name that was looked up.
        host: String,
    },
}

fn taken_by(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |holder| format!(": taken by {holder}"))
}

/// The machine that a configuration is tried on. A trait, so that tests can supply a machine of
/// their own.
pub trait Machine {
    /// Whether files can be made in this folder, which is made first if it does not exist.
    ///
    /// # Errors
    /// When they cannot.
    fn writable(&self, folder: &Path) -> Result<(), ProbeError>;

    /// Whether containers would have cgroups.
    fn cgroups(&self, config: &CgroupConfig) -> Availability;

    /// Returns the reasons why an agent could not run containers as other users.
    fn user_obstacles(&self) -> Vec<Obstacle>;

    /// Returns the folder on the way to this one, itself included, that other users cannot pass
    /// through. Folders that do not exist would be made passable.
    fn closed_to_users(&self, folder: &Path) -> Option<PathBuf>;

    /// Returns the open-file limit that an agent would raise its own to, if it can be read.
    fn open_files(&self) -> Option<u64>;

    /// Whether the system knows a group of this name.
    fn has_group(&self, name: &str) -> bool;

    /// Whether the host has an address.
    ///
    /// # Errors
    /// When it has none, or nobody says.
    fn resolvable(&self, address: &HostPort) -> Result<(), ProbeError>;

    /// Whether somebody takes connections there.
    ///
    /// # Errors
    /// When nobody does.
    fn connects(&self, address: &HostPort) -> Result<(), ProbeError>;

    /// Whether an agent could listen there.
    ///
    /// # Errors
    /// When it could not; the error names who has the port.
    fn may_listen(&self, address: &HostPort) -> Result<(), ProbeError>;

    /// Whether the root of the default file system can be looked at, by this process's user.
    ///
    /// # Errors
    /// When it cannot.
    fn file_system(&self, config: &Config) -> Result<(), ProbeError>;

    /// Returns what there is to say about the node's identity in a secure cluster: what lies on
    /// this machine and, if it `connects`, what the KDC and the ResourceManagers say.
    fn identity(&self, config: &Config, connects: bool) -> Vec<IdentityFinding>;
}

/// The machine that this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn writable(&self, folder: &Path) -> Result<(), ProbeError> {
        // What does not exist would be made in the nearest folder that does.
        let existing = folder
            .ancestors()
            .find(|path| path.symlink_metadata().is_ok());
        let path = existing.unwrap_or(folder).to_path_buf();
        let result = if path.is_dir() {
            access(
                &path,
                AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK,
            )
        } else {
            Err(Errno::ENOTDIR)
        };
        result.map_err(|errno| ProbeError::Folder { path, errno })
    }

    fn cgroups(&self, config: &CgroupConfig) -> Availability {
        Availability::foreseen(config)
    }

    fn user_obstacles(&self) -> Vec<Obstacle> {
        users::obstacles()
    }

    fn closed_to_users(&self, folder: &Path) -> Option<PathBuf> {
        const OTHERS_PASS: u32 = 0o001;
        let is_closed = |path: &&Path| {
            let mode = path.metadata().map(|status| status.mode());
            mode.is_ok_and(|mode| mode & OTHERS_PASS == 0)
        };
        folder.ancestors().find(is_closed).map(Path::to_path_buf)
    }

    fn open_files(&self) -> Option<u64> {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
        Some(hard)
    }

    fn has_group(&self, name: &str) -> bool {
        matches!(Group::from_name(name), Ok(Some(_)))
    }

    fn resolvable(&self, address: &HostPort) -> Result<(), ProbeError> {
        if address.host.parse::<IpAddr>().is_ok() {
            return Ok(());
        }
        let host = address.host.clone();
        let (answer, answered) = mpsc::channel();
        let query = (address.host.clone(), address.port);
        // The resolver cannot be given a deadline, so it is left behind when it takes too long;
        // this process ends soon.
        thread::spawn(move || answer.send(query.to_socket_addrs().map(|_| ())));
        match answered.recv_timeout(RESOLVE_TIMEOUT) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(ProbeError::Name { host, source }),
            Err(_) => Err(ProbeError::Silence { host }),
        }
    }

    fn connects(&self, address: &HostPort) -> Result<(), ProbeError> {
        // A name server that hangs is left behind before a connection is tried.
        self.resolvable(address)?;
        let connect = || {
            let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for each in (address.host.as_str(), address.port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&each, CONNECT_TIMEOUT) {
                    Ok(_taken) => return Ok(()),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        connect().map_err(|source| ProbeError::Connect {
            address: address.clone(),
            source,
        })
    }

    fn may_listen(&self, address: &HostPort) -> Result<(), ProbeError> {
        let bound = TcpListener::bind((address.host.as_str(), address.port));
        bound.map(drop).map_err(|source| ProbeError::Listen {
            address: address.clone(),
            holder: holder::of_port(address.port),
            source,
        })
    }

    fn file_system(&self, config: &Config) -> Result<(), ProbeError> {
        let limit = config.file_systems.step_limit.min(CONNECT_TIMEOUT);
        let root = config.file_systems.default_fs.clone();
        let failed = |source| ProbeError::FileSystem {
            uri: root.to_string(),
            source,
        };
        let systems = node_manager::own_file_systems(config, limit);
        let systems = systems.map_err(|source| {
            failed(FsError::Io {
                step: "use",
                uri: root.to_string(),
                source,
            })
        })?;
        let user = nix::unistd::User::from_uid(nix::unistd::Uid::effective());
        let user = user
            .ok()
            .flatten()
            .map_or_else(String::new, |user| user.name);
        let opened = systems.open(&root, Caller::own(&user, "check"));
        let status = opened.and_then(|files| files.status("/"));
        status.map(drop).map_err(failed)
    }

    fn identity(&self, config: &Config, connects: bool) -> Vec<IdentityFinding> {
        node_manager::check_identity(config, connects).unwrap_or_else(|error| {
            let text = format!("hadoop.security.authentication: {error}");
            vec![IdentityFinding::Problem(text)]
        })
    }
}

/// Looks at a configuration, and at the machine by what it names. With `connects`, also at its
/// peers and ports.
pub fn examine(loaded: &Loaded, machine: &dyn Machine, connects: bool) -> Report {
    let mut report = Report::of(loaded);
    match &loaded.config {
        Ok(config) => {
            probe(config, machine, &mut report.findings);
            if connects {
                connect::probe(config, machine, &mut report.findings);
            }
            for finding in machine.identity(config, connects) {
                match finding {
                    IdentityFinding::Note(text) => report.findings.notes.push(text),
                    IdentityFinding::Problem(text) => report.findings.problems.push(text),
                }
            }
        }
        Err(problems) => {
            let texts = problems.list().iter().map(ToString::to_string);
            report.findings.problems.extend(texts);
        }
    }
    report
}

fn probe(config: &Config, machine: &dyn Machine, findings: &mut Findings) {
    for (name, folders) in [
        ("yarn.nodemanager.local-dirs", &config.dirs.local_dirs),
        ("yarn.nodemanager.log-dirs", &config.dirs.log_dirs),
    ] {
        let errors = folders
            .iter()
            .filter_map(|folder| machine.writable(folder).err());
        findings.add(name, folders.len(), &errors.collect::<Vec<_>>());
    }
    run_as::probe(config, machine, findings);
    let availability = machine.cgroups(&config.cgroups);
    if availability.lacks() {
        findings.warnings.push(availability.to_string());
    } else if availability.is_used() {
        findings.notes.push(availability.to_string());
    }
    let descriptors = machine.open_files().map(Descriptors::divide);
    findings
        .notes
        .extend(descriptors.map(|parts| parts.to_string()));
    findings.notes.extend(services(config));
    findings.notes.extend(services_with_tls(config));
    if config.admin.socket.is_some()
        && let Some(group) = &config.admin.group
        && !machine.has_group(group)
    {
        let text = format!("yarn.nodemanager.agent.admin.group: the system has no group {group}");
        // Without a socket that the configuration names, the agent goes on with none.
        if config.admin.is_required {
            findings.problems.push(text);
        } else {
            findings.warnings.push(text);
        }
    }
    resource_managers(config, machine, findings);
}

/// Adds ResourceManagers that have no address yet. An agent waits for one, as a Java NodeManager
/// does, so none of them is a problem.
fn resource_managers(config: &Config, machine: &dyn Machine, findings: &mut Findings) {
    const TRACKER: &str = "yarn.resourcemanager.resource-tracker.address";
    const SCHEDULER: &str = "yarn.resourcemanager.scheduler.address";
    let mut hosts = BTreeSet::new();
    for endpoint in &config.rm.endpoints {
        let mut called = vec![(TRACKER, &endpoint.resource_tracker)];
        if config.amrm_proxy.enabled {
            called.push((SCHEDULER, &endpoint.scheduler));
        }
        for (name, address) in called {
            if !hosts.insert(&address.host) {
                continue;
            }
            if let Err(error) = machine.resolvable(address) {
                let text = format!("{name}: {error}: the agent would wait for it");
                findings.warnings.push(text);
            }
        }
        let tracker = &endpoint.resource_tracker;
        if tracker.is_wildcard() {
            findings.warnings.push(format!(
                "{TRACKER} = {tracker}: the ResourceManager is sought on this machine; \
                 set yarn.resourcemanager.hostname if it is elsewhere"
            ));
        }
    }
}

/// Returns the files that services take their keys from; reading the configuration has opened them.
fn services_with_tls(config: &Config) -> impl Iterator<Item = String> {
    config.aux_services.iter().filter_map(|service| {
        let tls = service.map_reduce_shuffle()?.tls.as_ref()?;
        let (name, keys) = (&service.name, tls.key_store.path.display());
        let clients = tls.clients.as_ref().map_or_else(
            || "and asks for no certificates".to_owned(),
            |store| format!("and verifies certificates by {}", store.path.display()),
        );
        Some(format!(
            "{name} serves over TLS, with the keys in {keys}, {clients}"
        ))
    })
}

#[cfg(test)]
mod tests;
